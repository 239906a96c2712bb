//! `ThrottledDisk`: a file system on a loop device that the kernel slows down to a given rate.
//! Benches put each target on such a disk. The targets together then need less than the machine's
//! disk and processors can do, so no target slows down another.
//!
//! The kernel limits each group of processes on each device (cgroups, version 1, `blkio`). Cached
//! pages that the kernel writes back later count for the root group. So the bench limits both the
//! root group and the group of this process.
//!
//! **Invariant:** once a `ThrottledDisk` has been dropped, the limit, the mount and the loop device
//! are gone. If a process still uses the disk, the kernel removes mount and device when that
//! process ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};

use crate::tool;

/// The folder of the kernel's groups of processes with limits on devices (cgroups, version 1).
const GROUPS: &str = "/sys/fs/cgroup/blkio";
/// The files with the limits of a group, in bytes a second for each device.
const LIMITS: [&str; 2] = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
/// How long processes that use the disk may take to end. After this time the bench removes the
/// mount from the file system's tree, although processes still use it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two tries to unmount.
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// A mounted disk.
#[derive(Debug)]
pub(crate) struct ThrottledDisk {
    /// The folder where it is mounted.
    folder: PathBuf,
    /// `/dev/loopN`.
    device: PathBuf,
    /// The device's number, as `7:0`.
    number: String,
    /// The limited groups of processes.
    groups: Vec<PathBuf>,
    is_mounted: bool,
}

impl ThrottledDisk {
    /// Makes a file of `size` bytes with a file system, and mounts it at an empty folder. The file
    /// takes up space only for written data. From then on the disk reads at most
    /// `bytes_per_second`, and writes at most as many.
    ///
    /// # Errors
    /// `Unsupported` if this process may not mount or limit a disk, or if the kernel lacks cgroups
    /// of version 1; `Unavailable` if the file cannot be written.
    pub fn mount(image: &Path, size: u64, folder: &Path, bytes_per_second: u64) -> Result<Self> {
        let groups = groups()?;
        let made = fs::File::create(image).and_then(|file| file.set_len(size));
        made.and_then(|()| nacre_files::create_folder(folder)).map_err(|cause| {
            Error::unavailable(format!("cannot make a disk in {}: {cause}", image.display()))
                .hint("name a writable folder with --folder")
        })?;
        let device = run("losetup", &["--find".as_ref(), "--show".as_ref(), image])?;
        let device = PathBuf::from(device.trim());
        let mut disk = Self {
            folder: folder.to_owned(),
            number: String::new(),
            device,
            groups,
            is_mounted: false,
        };
        disk.number = disk.device_number()?;
        // Write all tables of the file system now, so that the kernel does not write them during a
        // measurement.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q".as_ref(), "-E".as_ref(), options.as_ref(), &disk.device])?;
        run("mount", &[&disk.device, folder])?;
        disk.is_mounted = true;
        // The program that uses the folder may require that it is empty.
        let _ = fs::remove_dir(folder.join("lost+found"));
        fs::set_permissions(folder, nacre_files::folder_permissions()).map_err(|cause| {
            let folder = folder.display();
            Error::unavailable(format!("cannot set the permissions of {folder}: {cause}"))
        })?;
        disk.limit(bytes_per_second)?;
        Ok(disk)
    }

    fn device_number(&self) -> Result<String> {
        let name = self.device.file_name().unwrap_or_default();
        let path = Path::new("/sys/class/block").join(name).join("dev");
        let number = fs::read_to_string(&path).map_err(|cause| {
            Error::unsupported(format!("{} has no number: {cause}", self.device.display()))
        })?;
        Ok(number.trim().to_owned())
    }

    /// Limits reads and writes; 0 ends the limits.
    fn limit(&self, bytes_per_second: u64) -> Result<()> {
        for group in &self.groups {
            for limit in LIMITS {
                let rule = format!("{} {bytes_per_second}", self.number);
                fs::write(group.join(limit), rule).map_err(|cause| unsupported(group, &cause))?;
            }
        }
        Ok(())
    }

    fn unmount(&self) {
        let clock = SystemClock::default();
        let deadline = clock.monotonic() + RELEASE_PATIENCE;
        while run("umount", &[&self.folder]).is_err() {
            if clock.monotonic() >= deadline {
                let _ = run("umount", &["--lazy".as_ref(), &self.folder]);
                return;
            }
            pause();
        }
    }
}

impl Drop for ThrottledDisk {
    fn drop(&mut self) {
        // Remove the limit first, so that the kernel can write the remaining pages fast. A failure
        // cannot be reported here.
        let _ = self.limit(0);
        if self.is_mounted {
            self.unmount();
        }
        // The kernel detaches a device that is in use when its last user has ended.
        let _ = run("losetup", &["--detach".as_ref(), &self.device]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel does not report when a mount is unused")]
fn pause() {
    std::thread::sleep(RELEASE_PAUSE);
}

/// The groups whose requests reach the disk: the root group, for pages that the kernel writes back,
/// and the group of this process and its children.
fn groups() -> Result<Vec<PathBuf>> {
    let root = PathBuf::from(GROUPS);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(group_of_line);
    let mut groups = vec![root.clone()];
    groups.extend(own.map(|own| root.join(own.trim_start_matches('/'))));
    // If this process is in the root group, both paths name the root group and differ by a slash.
    groups.dedup_by(|one, other| one.components().eq(other.components()));
    match groups.iter().find(|group| !group.join(LIMITS[0]).exists()) {
        Some(group) => Err(unsupported(group, &"there is no such file")),
        None => Ok(groups),
    }
}

/// The path of a process's group for devices, if this line of its `cgroup` file names it.
fn group_of_line(line: &str) -> Option<&str> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    controllers.split(',').any(|one| one == "blkio").then_some(path)
}

fn unsupported(group: &Path, cause: &dyn std::fmt::Display) -> Error {
    let (file, group) = (LIMITS[0], group.display());
    Error::unsupported(format!("a disk cannot be slowed down by {group}/{file}: {cause}")).hint(
        format!("run this as root where the kernel has cgroups, version 1, with blkio at {GROUPS}"),
    )
}

/// Runs a program of the system.
fn run(program: &str, arguments: &[&Path]) -> Result<String> {
    tool::run(Command::new(program).args(arguments)).map_err(|error| {
        Error::unsupported(error.message().to_owned())
            .hint("run this as root; it needs mount, e2fsprogs and loop devices")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blkio_group_of_a_process_is_found_in_its_cgroup_file() {
        let line = |text| group_of_line(text);
        assert_eq!(line("7:blkio:/user/one"), Some("/user/one"));
        assert_eq!(line("4:cpu,blkio:/"), Some("/"));
        assert_eq!(line("4:memory:/one"), None);
        assert_eq!(line("0::/one"), None);
    }
}
