//! Measures how much memory a process has used. Tests check that hostile input does not make this
//! large.

/// The most memory that this process has used so far, in KiB.
///
/// # Panics If the system does not report it.
pub fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system is a Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    peak.expect("it tells of its processes")
}
