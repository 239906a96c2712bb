//! A small file system, for tests of a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory. Dropping the value unmounts it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a file system of this many bytes at a folder. If mounting is not permitted, prints
    /// the reason and returns `None`.
    pub fn mount(folder: &Path, bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "nacre-test"])
            .arg(folder)
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(folder.into())),
            Ok(output) => {
                println!("skipped: cannot mount: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                println!("skipped: cannot run mount: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
