//! Chooses ports for listeners that start later. `nacre init` writes them into the cluster's file.
//!
//! The kernel gives ports of the ephemeral range to outgoing connections, so such a port may be
//! taken before its listener starts. This module chooses ports below that range, and below the
//! ports that `scripts/ceph-cluster` gives to monitors. A file per user keeps the next port, so two
//! callers of the same user get different ports.
//!
//! The kernel's socket tables show whether a port is taken. Binding the port as a test would be
//! wrong: a process that another thread starts at that moment would inherit the socket and keep the
//! port taken.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nacre_object::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};

/// Where the kernel says which ports it gives to outgoing connections.
const EPHEMERAL_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// Files in which the kernel lists the sockets.
const SOCKET_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The state of a connection that has ended: a listener may take its port.
const TIME_WAIT: &str = "06";
/// The ports to choose from, where the ephemeral range leaves them.
const PORTS: Range<u16> = 10_000..20_000;
/// Ports that a program without privileges may take.
const UNPRIVILEGED: u16 = 1024;

/// Finds `count` consecutive ports that no socket uses, and returns the first. Later calls of the
/// same user get other ports until the whole range has been used.
///
/// # Errors
/// `Exhausted` if there are no such ports.
pub fn free_ports(count: u16) -> Result<u16> {
    let range = below_ephemeral(&fs::read_to_string(EPHEMERAL_RANGE).unwrap_or_default());
    let taken = SOCKET_TABLES.iter().filter_map(|table| fs::read_to_string(table).ok());
    let taken = taken.flat_map(|table| ports_of(&table)).collect();
    // Without the file, free ports are still found, but another caller may get the same ones.
    let mut file = open(&turn_file()).ok();
    let next = file.as_mut().and_then(next_port);
    let first = choose(&range, next.unwrap_or(range.start), count, &taken).ok_or_else(|| {
        Error::exhausted(format!("there are no {count} consecutive free ports in {range:?}"))
            .hint("choose the port yourself")
    })?;
    if let Some(file) = &mut file {
        let _ = set_next_port(file, first + count);
    }
    Ok(first)
}

/// The ports to choose from, for the ephemeral range that the kernel reports.
fn below_ephemeral(said: &str) -> Range<u16> {
    let lowest = said.split_whitespace().next().and_then(|port| port.parse().ok());
    let end = lowest.unwrap_or(PORTS.end).min(PORTS.end);
    match end {
        end if end > PORTS.start => PORTS.start..end,
        end if end > UNPRIVILEGED => UNPRIVILEGED..end,
        // The kernel may give any port to a connection, so no range is better than another.
        _ => PORTS,
    }
}

/// The local ports in a table of sockets.
fn ports_of(table: &str) -> Vec<u16> {
    let port = |line: &str| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, state) = (columns.next()?, columns.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok().filter(|_| state != TIME_WAIT)
    };
    table.lines().skip(1).filter_map(port).collect()
}

/// Finds `count` consecutive ports that are not taken, and returns the first. The search begins at
/// `next` and continues at the start of the range.
fn choose(range: &Range<u16>, next: u16, count: u16, taken: &HashSet<u16>) -> Option<u16> {
    let next = next.clamp(range.start, range.end);
    let fits = |first: &u16| {
        let end = first.checked_add(count).filter(|end| *end <= range.end);
        end.is_some_and(|end| (*first..end).all(|port| !taken.contains(&port)))
    };
    (next..range.end).chain(range.start..next).find(fits)
}

/// The file that holds the next port for this user.
fn turn_file() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("nacre-ports.{user}"))
}

/// The file, locked until it is dropped. A link that somebody else put there is not followed.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

fn next_port(file: &mut File) -> Option<u16> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn set_next_port(file: &mut File, port: u16) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_ports_lie_below_the_range_of_outgoing_connections() {
        assert_eq!(below_ephemeral("32768\t60999\n"), PORTS);
        assert_eq!(below_ephemeral("16000 65535"), 10_000..16_000);
        assert_eq!(below_ephemeral("5000 65535"), 1024..5000);
        assert_eq!(below_ephemeral("1024 65535"), PORTS);
        assert_eq!(below_ephemeral(""), PORTS);
    }

    #[test]
    fn a_port_with_a_socket_is_taken_unless_its_connection_has_ended() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                     \x20  0: 0100007F:2710 00000000:0000 0A 00000000:00000000\n\
                     \x20  1: 0100007F:2711 0100007F:9999 06 00000000:00000000\n\
                     \x20  2: 00000000000000000000000001000000:2712 0:0 01 0:0\n";
        assert_eq!(ports_of(table), [10_000, 10_002]);
    }

    #[test]
    fn the_next_free_consecutive_ports_are_chosen() {
        let taken = HashSet::from([104, 107]);
        assert_eq!(choose(&(100..110), 100, 3, &taken), Some(100));
        assert_eq!(choose(&(100..110), 102, 3, &taken), Some(100), "none fit behind it");
        assert_eq!(choose(&(100..110), 105, 2, &taken), Some(105));
        assert_eq!(choose(&(100..110), 9, 4, &taken), Some(100), "a file may say anything");
        assert_eq!(choose(&(100..110), 100, 5, &taken), None);
    }

    #[test]
    fn the_kernel_lists_a_listener_and_no_two_calls_get_the_same_ports() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(ports_of(&fs::read_to_string(SOCKET_TABLES[0]).unwrap()).contains(&port));
        let [one, other] = [free_ports(3).unwrap(), free_ports(3).unwrap()];
        assert!(one.abs_diff(other) >= 3, "{one} and {other}");
    }
}
