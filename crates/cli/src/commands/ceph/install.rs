//! `nacre ceph install`: puts the object class into the folder from which the OSDs of this host
//! load classes.
//!
//! An OSD loads a class at the first request that needs it, and keeps the loaded class until the
//! OSD restarts. So the file must appear in the folder only when it is complete. The command also
//! names the OSDs that still run another version.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use nacre_object::{Error, Result};
use serde_json::json;

use super::library::{built_for, whole_length};
use crate::out::Out;

/// The object class's file, as OSDs look for it.
const LIBRARY: &str = "libcls_nacre.so";
/// Where distributions put object classes.
const CLASS_DIRS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/rados-classes",
    "/usr/lib/aarch64-linux-gnu/rados-classes",
    "/usr/lib64/rados-classes",
    "/usr/lib/rados-classes",
    "/usr/local/lib/rados-classes",
];
/// Everybody reads a library.
const LIBRARY_MODE: u32 = 0o644;

/// The arguments of `nacre ceph install`
#[derive(Debug, clap::Args)]
pub struct InstallArguments {
    /// The library built by `make ceph-plugin` (default: the file libcls_nacre.so beside this
    /// command)
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// The folder from which OSDs load classes, Ceph's option `osd_class_dir` (default: the first
    /// that exists of the usual ones, such as /usr/lib64/rados-classes)
    #[arg(long, value_name = "DIR")]
    class_dir: Option<PathBuf>,
}

/// Installs the class.
///
/// # Errors
/// - `NotFound` if the library or the folder is missing.
/// - `Invalid` if the file is not a library, or is incomplete.
/// - `Unsupported` if the library was built for another version of Ceph than this host has.
/// - `Denied` without the right to write into the folder.
pub async fn run(arguments: InstallArguments, out: Out) -> Result<()> {
    let plugin = match arguments.plugin {
        Some(plugin) => plugin,
        None => beside_this_command()?,
    };
    let library = fs::read(&plugin).map_err(|error| {
        Error::not_found(format!("{} cannot be read: {error}", plugin.display()))
            .hint("`make ceph-plugin` makes it")
    })?;
    let folder = match arguments.class_dir {
        Some(folder) => folder,
        None => class_dir()?,
    };
    check_whole(&library, &plugin)?;
    check_version(&library, &plugin)?;
    let installed = folder.join(LIBRARY);
    put(&library, &installed)?;
    let stale = osds_with_another(&installed)?;
    out.show(&json!({ "installed": installed, "restart": stale }), || text(&installed, &stale))
}

fn text(installed: &Path, stale: &[String]) -> String {
    let mut text = format!("{} is in place", installed.display());
    if !stale.is_empty() {
        text.push_str("\nrestart the OSDs that have loaded another one, one after the other:");
        for osd in stale {
            text.push_str(&format!("\n    systemctl restart ceph-osd@{osd}"));
        }
    }
    text
}

fn beside_this_command() -> Result<PathBuf> {
    let this = std::env::current_exe().map_err(|error| {
        Error::not_found(format!("cannot find this command's own file: {error}"))
    })?;
    Ok(this.with_file_name(LIBRARY))
}

fn class_dir() -> Result<PathBuf> {
    let folders = CLASS_DIRS.iter().map(PathBuf::from);
    folders.into_iter().find(|folder| folder.is_dir()).ok_or_else(|| {
        Error::not_found("this host has no folder with object classes of Ceph")
            .hint("install ceph-osd, or name the folder: --class-dir DIR")
    })
}

/// Refuses what is no library, or only a part of one.
fn check_whole(library: &[u8], plugin: &Path) -> Result<()> {
    let is_not = |what: String| Error::invalid(format!("{} is {what}", plugin.display()));
    let (has, whole) = (library.len() as u64, whole_length(library));
    match whole {
        None => Err(is_not("no library".to_owned()).hint("`make ceph-plugin` makes it")),
        Some(whole) if has < whole => Err(is_not(format!("cut short: {has} of {whole} bytes"))
            .hint("copy it again, or make it: `make ceph-plugin`")),
        Some(_) => Ok(()),
    }
}

/// Refuses a library for another Ceph: it would offer nothing.
fn check_version(library: &[u8], plugin: &Path) -> Result<()> {
    let built_for = built_for(library).ok_or_else(|| {
        Error::invalid(format!("{} is not nacre's object class", plugin.display()))
    })?;
    let running = ceph_version()?;
    if running == built_for {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "{} was built for Ceph {built_for}, and this host has {running}",
        plugin.display()
    ))
    .hint("build it on a host with this Ceph: make ceph-plugin"))
}

/// The version of this host's OSDs, parsed from `ceph version 16.2.15 (…) pacific (stable)`.
fn ceph_version() -> Result<String> {
    let missing = |reason: &dyn std::fmt::Display| {
        Error::not_found(format!("this host has no OSD: {reason}")).hint("install ceph-osd")
    };
    let output =
        Command::new("ceph-osd").arg("--version").output().map_err(|error| missing(&error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.split_whitespace().nth(2).and_then(|word| word.split(['-', '+']).next());
    version.map(str::to_owned).ok_or_else(|| missing(&format!("ceph-osd says {said:?}")))
}

/// Replaces the library atomically: an OSD that loads it meanwhile finds the complete old file.
fn put(library: &[u8], place: &Path) -> Result<()> {
    let new = place.with_extension("so.new");
    let written = File::create(&new)
        .and_then(|mut file| {
            file.write_all(library)?;
            file.set_permissions(fs::Permissions::from_mode(LIBRARY_MODE))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, place));
    written.map_err(|error| {
        // It may not be there.
        let _ = fs::remove_file(&new);
        let text = format!("{} cannot be written: {error}", place.display());
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Error::denied(text).hint("run it as root"),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                Error::not_found(text).hint("name the folder of the OSDs' classes with --class-dir")
            }
            _ => Error::unavailable(text),
        }
    })
}

/// The OSDs of this host that have loaded an earlier version of the library.
fn osds_with_another(installed: &Path) -> Result<Vec<String>> {
    let unseen = |error: std::io::Error| {
        Error::unavailable(format!("the processes of this host cannot be listed: {error}"))
    };
    let inode = fs::metadata(installed).map_err(unseen)?.ino();
    let path = installed.canonicalize().map_err(unseen)?.display().to_string();
    let processes = fs::read_dir("/proc").map_err(unseen)?;
    let mut stale: Vec<String> = processes
        .filter_map(|process| {
            // A process may end while it is looked at.
            let process = process.ok()?.path();
            let osd = osd_of(&fs::read(process.join("cmdline")).ok()?)?;
            let maps = fs::read_to_string(process.join("maps")).ok()?;
            has_another(&maps, &path, inode).then_some(osd)
        })
        .collect();
    stale.sort();
    Ok(stale)
}

/// Which OSD a command line starts, as `ceph-osd -f --cluster ceph --id 3`.
fn osd_of(command: &[u8]) -> Option<String> {
    let arguments: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    let program = Path::new(arguments.first()?.as_ref()).file_name()?;
    if program != OsStr::new("ceph-osd") {
        return None;
    }
    let at = arguments.iter().position(|argument| argument == "--id" || argument == "-i")?;
    arguments.get(at + 1).map(|id| id.to_string())
}

/// Whether a process still uses an earlier file of this path, which has another inode. `maps` is
/// the content of `/proc/PID/maps`, with lines such as `7f… r-xp 00000000 fe:01 1234
/// /usr/lib/…/libcls_nacre.so (deleted)`.
fn has_another(maps: &str, path: &str, inode: u64) -> bool {
    let is_it = |line: &&str| line.trim_end_matches(" (deleted)").ends_with(path);
    let inodes = maps.lines().filter(is_it).filter_map(|line| line.split_whitespace().nth(4));
    inodes.into_iter().any(|found| found != inode.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_process_is_recognised_by_its_command_line() {
        let osd = |command: &[u8]| osd_of(command);
        let packaged = b"/usr/bin/ceph-osd\0-f\0--cluster\0ceph\0--id\x003\0";
        assert_eq!(osd(packaged).as_deref(), Some("3"));
        assert_eq!(osd(b"/usr/bin/ceph-osd\0-f\0-i\x0012\0--conf\0x\0").as_deref(), Some("12"));
        assert_eq!(osd(b"/usr/bin/ceph-mon\0-i\0a\0"), None);
        assert_eq!(osd(b"ceph-osd\0--version\0"), None);
        assert_eq!(osd(b""), None);
    }

    #[test]
    fn a_mapped_file_with_another_inode_counts_as_replaced() {
        let maps = "7f0 r-xp 00000000 fe:01 12 /c/libcls_nacre.so (deleted)\n7f1 r-xp 0 fe:01 13 /c/libcls_lua.so";
        assert!(has_another(maps, "/c/libcls_nacre.so", 13));
        assert!(!has_another(maps, "/c/libcls_nacre.so", 12));
        assert!(!has_another(maps, "/d/libcls_nacre.so", 13));
    }
}
