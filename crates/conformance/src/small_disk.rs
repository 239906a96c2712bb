//! A file system that is soon full.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system in memory, gone with the value.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Of so many bytes, on this folder; `None`, with the reason printed, where mounting is not
    /// permitted.
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
