//! The machine on which a figure was measured, as far as the system describes it.

use std::fs;

use serde::{Deserialize, Serialize};

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its CPUs.
    pub cpu: String,
    /// How many.
    pub cpus: usize,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// Describes this machine. Values that the system does not report are unknown.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let kibibytes = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|size| size.strip_suffix(" kB")?.parse::<u64>().ok());
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kibibytes.unwrap_or(0) * 1024,
            kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned())
                .filter(|release| !release.is_empty())
                .unwrap_or_else(unknown),
        }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The first value of a field in a file of `/proc`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t\t: 1\nmodel name\t: AMD EPYC\nmodel name\t: other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("AMD EPYC"));
        assert_eq!(field(text, "name"), None);
    }
}
