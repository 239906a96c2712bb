//! Metrics of the process, as the kernel reports them, with the names that every Prometheus client
//! uses.
//!
//! The page leaves out a value that cannot be read; zero would be a false report.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::page::{Page, bytes, plain, seconds};

/// Reads `/proc/self`.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    pub started_at_micros: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let started = self.started_at_micros as f64 / 1e6;
        page.gauge(seconds("process_start_time", "Start, since 1970, UTC"), started)?;
        if let Some(stat) = ProcessStat::read() {
            let help = "Processor time, user and system";
            let unit = Unit::Seconds;
            let mut encoder =
                page.0.encode_descriptor("process_cpu", help, Some(&unit), MetricType::Counter)?;
            encoder.encode_counter::<NoLabelSet, _, u64>(&stat.processor_seconds, None)?;
            page.gauge(plain("process_threads", "Threads"), stat.threads)?;
            page.gauge(bytes("process_virtual_memory", "Address space"), stat.virtual_bytes)?;
            page.gauge(bytes("process_resident_memory", "Memory in use"), stat.resident_bytes)?;
        }
        if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
            page.gauge(plain("process_open_fds", "Open descriptors"), descriptors.count())?;
        }
        match getrlimit(Resource::Nofile).current {
            Some(limit) => page.gauge(plain("process_max_fds", "Most descriptors"), limit),
            None => Ok(()),
        }
    }
}

/// The release that runs.
#[derive(Debug)]
pub(super) struct BuildCollector;

impl Collector for BuildCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let labels = [("version", env!("CARGO_PKG_VERSION"))];
        Page(encoder).info(plain("build", "The release that runs"), &labels)
    }
}

/// The fields of `/proc/self/stat` that are needed (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq)]
pub(crate) struct ProcessStat {
    pub processor_seconds: f64,
    threads: u64,
    virtual_bytes: u64,
    pub resident_bytes: u64,
}

impl ProcessStat {
    /// Reads the present values; `None` if the file cannot be read.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command's name, field 2, may contain any bytes. Field 3 begins after the last `)`.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            processor_seconds: (field(14)? + field(15)?) as f64 / clock_ticks_per_second() as f64,
            threads: field(20)?,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stat_line_of_a_process_is_parsed_whatever_the_name_of_its_command() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194304 900 0 0 0 150 50 0 0 20 0 9 0 100 4096 3 \
                    18446744073709551615 1 1";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!((stat.threads, stat.virtual_bytes), (9, 4096));
        assert_eq!(stat.resident_bytes, 3 * page_size() as u64);
        assert_eq!(stat.processor_seconds, 200.0 / clock_ticks_per_second() as f64);
        assert!(ProcessStat::parse("7 (a) S 1").is_none());
        assert!(ProcessStat::read().is_some());
    }
}
