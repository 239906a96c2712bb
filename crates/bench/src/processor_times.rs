//! `ProcessorTimes`: what the processors of this machine did since its start, as `/proc/stat` says.
//! On a virtual machine it tells how much time the host took from it (*stolen* time).

use std::fs;

use nacre_object::{Error, Result};

/// The fields of the first line that do not overlap: user, nice, system, idle, iowait, irq, softirq
/// and steal.
const FIELDS: usize = 8;

/// Ticks of all processors together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorTimes {
    all: u64,
    stolen: u64,
}

impl ProcessorTimes {
    /// The present times.
    ///
    /// # Errors `Unsupported` if the kernel does not report them.
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(&text)
            .ok_or_else(|| Error::unsupported("/proc/stat does not tell of stolen time"))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks = line.split_whitespace().map(|field| field.parse::<u64>().ok());
        let ticks: Vec<u64> = ticks.collect::<Option<_>>()?;
        let fields = ticks.get(..FIELDS)?;
        Some(Self { all: fields.iter().sum(), stolen: fields[FIELDS - 1] })
    }

    /// The part of the time since then that was stolen.
    pub fn stolen_since(self, then: Self) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        self.stolen.saturating_sub(then.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stolen_share_covers_the_time_between_two_readings() {
        let text = |user, steal| format!("cpu  {user} 0 0 100 0 0 0 {steal} 7 0\ncpu0 1 1 1 1\n");
        let times = |user, steal| ProcessorTimes::parse(&text(user, steal)).unwrap();
        let (then, now) = (times(100, 50), times(195, 55));
        assert!((now.stolen_since(then) - 0.05).abs() < 1e-9);
        assert_eq!(then.stolen_since(then), 0.0);
        assert_eq!(ProcessorTimes::parse("cpu  1 2 3\n"), None);
    }
}
