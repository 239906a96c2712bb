//! Server processes on this machine, such as OSDs: their memory, and the CPU they use.

use std::fs;
use std::path::{Path, PathBuf};

use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;

/// A clock tick, as Linux counts for user space.
const MICROS_PER_TICK: u64 = 10_000;
/// Where user and system time are among the fields of `stat` that follow the program's name.
const TIME_FIELDS: [usize; 2] = [11, 12];

/// Processes, as `/proc` has them.
#[derive(Debug)]
pub(crate) struct Processes(Vec<PathBuf>);

impl Processes {
    /// The OSDs that were started with the cluster's configuration.
    ///
    /// # Errors
    /// `Unsupported` if no such OSD runs on this machine.
    pub fn osds_of(options: &RadosOptions) -> Result<Self> {
        let elsewhere = || {
            Error::unsupported("no OSD of the cluster runs on this machine")
                .hint("run `make bench ENGINE=ceph`, which starts a cluster on this machine")
        };
        let conf = options.conf.as_deref().ok_or_else(elsewhere)?;
        let processes = fs::read_dir("/proc").map_err(|_| elsewhere())?;
        let processes = processes.filter_map(|process| Some(process.ok()?.path()));
        let osds: Vec<_> = processes.filter(|process| is_osd_of(process, conf)).collect();
        if osds.is_empty() { Err(elsewhere()) } else { Ok(Self(osds)) }
    }

    /// The processes with these ids.
    pub fn with_ids(ids: impl IntoIterator<Item = u32>) -> Self {
        Self(ids.into_iter().map(|id| PathBuf::from(format!("/proc/{id}"))).collect())
    }

    /// The CPU time that all have used together, in microseconds.
    ///
    /// # Errors
    /// `Unavailable` if one ended.
    pub fn cpu_micros(&self) -> Result<f64> {
        let mut ticks = 0;
        for process in &self.0 {
            let stat = fs::read_to_string(process.join("stat")).map_err(|_| ended())?;
            // The name, in brackets, may hold anything.
            let (_, fields) = stat.rsplit_once(')').ok_or_else(ended)?;
            let fields: Vec<_> = fields.split_whitespace().collect();
            for at in TIME_FIELDS {
                let field = fields.get(at).and_then(|field| field.parse::<u64>().ok());
                ticks += field.ok_or_else(ended)?;
            }
        }
        Ok((ticks * MICROS_PER_TICK) as f64)
    }

    /// What is resident of one, on average, in MiB.
    ///
    /// # Errors
    /// `Unavailable` if one ended.
    pub fn mib(&self) -> Result<f64> {
        let mut kib = 0.0;
        for process in &self.0 {
            let status = fs::read_to_string(process.join("status")).map_err(|_| ended())?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            kib += number.ok_or_else(ended)?;
        }
        Ok(kib / 1024.0 / self.0.len() as f64)
    }
}

fn ended() -> Error {
    Error::unavailable("a server ended during the measurement")
}

fn is_osd_of(process: &Path, conf: &Path) -> bool {
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).into_owned();
    let mut arguments = command.split('\0');
    let is_osd = arguments.next().is_some_and(|program| program.ends_with("ceph-osd"));
    is_osd && arguments.any(|argument| Path::new(argument) == conf)
}
