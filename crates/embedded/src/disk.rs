//! The disk as the journal sees it: the seam through which tests make it fail, fill up and forget.
//!
//! **Invariant:** every byte the engine itself writes goes through here. The tables do their own
//! IO; what they may lose, the journal still has.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::page_buffer::PageBuffer;

/// Zeros written at a time: little enough that a sync beside it hardly waits for it.
const FILL_BYTES: usize = 256 * 1024;

/// A file of known length, read and written at offsets.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` from `offset` on; an end of file before that is `UnexpectedEof`.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`. It survives a crash only after [`DiskFile::sync`].
    ///
    /// # Errors
    /// What the operating system says; part of `data` may then have been written.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`, within the file's length, and makes that survive a crash.
    /// Fastest if offset, length and the memory of `data` begin and end at the disk's blocks.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`] and [`DiskFile::sync`].
    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)?;
        self.sync()
    }

    /// Makes what was written, and the length, survive a crash.
    ///
    /// # Errors
    /// What the operating system says. What was written since the last sync may then be lost, even
    /// if a later sync succeeds.
    fn sync(&self) -> io::Result<()>;

    /// Makes the file `length` bytes long, with room on disk for all of them.
    ///
    /// # Errors
    /// What the operating system says, above all that there is no room.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Writes zeros over its first `length` bytes, so that what is written there later finds its
    /// blocks. It survives a crash only after [`DiskFile::sync`].
    ///
    /// # Errors
    /// As [`DiskFile::write_at`].
    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        for_each_fill(length, |offset, zeros| self.write_at(offset, zeros))
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn length(&self) -> io::Result<u64>;
}

/// Hands zeros to `write`, piece by piece from 0 to `length`.
fn for_each_fill(
    length: u64,
    mut write: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut zeros = PageBuffer::default();
    zeros.pad_to(FILL_BYTES);
    (0..length).step_by(FILL_BYTES).try_for_each(|offset| {
        let piece = (length - offset).min(FILL_BYTES as u64) as usize;
        write(offset, &zeros.as_bytes()[..piece])
    })
}

/// A place for files.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a folder and those above it, unless they are there. That they were made survives a
    /// crash, and so does that the folder is in the one above it.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names in a folder, in no order.
    ///
    /// # Errors
    /// What the operating system says.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing; `create` makes it, empty, if it is not there.
    ///
    /// # Errors
    /// What the operating system says.
    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// What the operating system says.
    fn delete(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renamings and deletions in a folder survive a crash.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Bytes that can still be written in a folder.
    ///
    /// # Errors
    /// What the operating system says.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// Whether opening may make a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// It must be there.
    Never,
    /// It is made, empty, if it is not there.
    IfMissing,
}

/// The machine's own disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// A file, open twice: by way of the kernel's cache, and past it.
///
/// What is written to be synced at once goes past the cache. There it would take fresh pages, each of
/// which costs more than its copy, and be read by few soon. The kernel drops what the cache has of the
/// bytes, so reads see them.
#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
    /// Opened when first wanted; `None` where the file system cannot.
    direct: OnceLock<Option<File>>,
}

impl RealFile {
    fn direct(&self) -> Option<&File> {
        let flags = OFlags::DIRECT.bits() as i32;
        let open = || OpenOptions::new().write(true).custom_flags(flags).open(&self.path);
        self.direct.get_or_init(|| open().ok()).as_ref()
    }

    /// Writes past the cache; answers how much of it, which is nothing where that cannot be done: if
    /// `data` does not begin and end at blocks, or the file system or kernel does not know how.
    fn write_direct(&self, offset: u64, data: &[u8], flags: ReadWriteFlags) -> io::Result<usize> {
        let Some(file) = self.direct() else { return Ok(0) };
        match pwritev2(file, &[IoSlice::new(data)], offset, flags) {
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(0),
            written => Ok(written?),
        }
    }
}

impl Disk for RealDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let above = match folder.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            // Of a relative path of one name, and of the root.
            _ => Path::new(if folder.has_root() { "/" } else { "." }),
        };
        if !folder.is_dir() {
            if !above.is_dir() {
                self.create_folder(above)?;
            }
            match std::fs::create_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        // Also if it was there: whoever made it may not have come to this.
        self.sync_folder(above)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(folder)?;
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>> {
        let create = create == Create::IfMissing;
        let file = OpenOptions::new().read(true).write(true).create(create).open(path)?;
        Ok(Arc::new(RealFile { file, path: path.into(), direct: OnceLock::new() }))
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
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn write_synced(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.write_direct(offset, data, ReadWriteFlags::DSYNC)? == data.len() {
            return Ok(());
        }
        self.write_at(offset, data)?;
        self.sync()
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        for_each_fill(length, |offset, zeros| {
            match self.write_direct(offset, zeros, ReadWriteFlags::empty())? {
                written if written == zeros.len() => Ok(()),
                _ => self.write_at(offset, zeros),
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, length) {
            // A file system without it: the length alone, and a full disk is found when writing.
            Err(Errno::OPNOTSUPP) => self.file.set_len(length),
            result => result.map_err(io::Error::from),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;

    #[test]
    fn what_is_written_past_the_cache_is_read_whole_blocks_or_not() {
        // Not in memory: file systems there may not know how.
        let folder = tempfile::TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = RealDisk.open(&folder.path().join("file"), Create::IfMissing).unwrap();
        file.allocate(4 * BLOCK as u64).unwrap();
        file.fill_with_zeros(4 * BLOCK as u64).unwrap();
        let mut expected = vec![0; 4 * BLOCK];
        for (fill, offset, length) in
            [(1, 0, BLOCK), (2, 512, 512), (3, BLOCK, 2 * BLOCK), (4, 700, 33), (5, 512, 1024)]
        {
            let mut data = PageBuffer::default();
            data.extend_from_slice(&vec![fill; length]);
            file.write_synced(offset as u64, data.as_bytes()).unwrap();
            expected[offset..offset + length].fill(fill);
            let mut found = vec![9; 4 * BLOCK];
            file.read_at(0, &mut found).unwrap();
            assert!(found == expected, "after {length} bytes at {offset}");
        }
    }
}
