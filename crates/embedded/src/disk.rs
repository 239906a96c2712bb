//! The disk behind the engine's journal and manifest, as a trait. Tests implement it to make calls
//! fail, fill up the disk and lose writes.
//!
//! **Invariant:** every byte that the engine itself writes goes through this trait. The tables do
//! their own IO; whatever they lose in a crash is still in the journal.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

/// A file of known length, read and written at offsets.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` with the bytes from `offset` on. A file that is too short gives
    /// `UnexpectedEof`.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`. It survives a crash only after [`DiskFile::sync`].
    ///
    /// # Errors
    /// Any error of the operating system. Part of `data` has possibly been written then.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes all bytes written so far, and the file's length, survive a crash.
    ///
    /// # Errors
    /// Any error of the operating system. Writes since the last successful sync may then be lost,
    /// even if a later sync succeeds.
    fn sync(&self) -> io::Result<()>;

    /// Makes the file `length` bytes long and reserves disk space for all of them.
    ///
    /// # Errors
    /// Any error of the operating system, most likely that the disk is full.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Its length in bytes.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn length(&self) -> io::Result<u64>;
}

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a folder and its missing parents, readable by their owner only. The new folders and
    /// their entries in their parents survive a crash.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing. `create` says whether an empty file is made if there
    /// is none.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file, and replaces the file that has the new name.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn delete(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renamings and deletions in a folder survive a crash.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Bytes that can still be written in a folder.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// Whether opening may make a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// The file must exist.
    Never,
    /// An empty file is made if none exists.
    IfMissing,
}

/// The machine's own disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        nacre_files::create_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(folder)?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>> {
        let create = create == Create::IfMissing;
        let file = nacre_files::open_options().read(true).write(true).create(create).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let statistics = rustix::fs::statvfs(folder)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, length) {
            // This file system cannot reserve space. Set the length only; a later write finds the
            // disk full.
            Err(rustix::io::Errno::OPNOTSUPP) => self.0.set_len(length),
            result => result.map_err(io::Error::from),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
