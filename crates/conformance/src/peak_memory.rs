//! What a process has taken of memory: whatever a test makes of hostile input must stay small.

/// The most memory this process ever had, in KiB.
///
/// # Panics
/// If the system does not tell.
pub fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system is a Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    peak.expect("it tells of its processes")
}
