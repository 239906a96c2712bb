//! The disk that salvage works on. It links the damaged folder's files instead of copying them, and
//! copies a linked file before its first write. So the damaged folder never changes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Create, Disk, DiskFile, RealDisk};

/// The machine's disk, except that a file behind a symbolic link is never written. Before the first
/// write, a copy replaces the link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkedDisk;

/// A file that is only read.
#[derive(Debug)]
struct ReadOnlyFile(File);

/// Opens a file that is only read.
pub(super) fn open_read_only(path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    Ok(Arc::new(ReadOnlyFile(File::open(path)?)))
}

impl DiskFile for ReadOnlyFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// A file that was a link when it was opened.
#[derive(Debug)]
struct LinkedFile {
    path: PathBuf,
    /// The linked file until the first write, its copy after that.
    file: Mutex<(Arc<dyn DiskFile>, IsCopied)>,
}

type IsCopied = bool;

impl LinkedFile {
    fn readable(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// The copy, which takes the link's place.
    fn writable(&self) -> io::Result<Arc<dyn DiskFile>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !file.1 {
            let copy = self.path.with_extension("copy");
            fs::copy(&self.path, &copy)?;
            fs::rename(&copy, &self.path)?;
            *file = (RealDisk.open(&self.path, Create::Never)?, true);
        }
        Ok(Arc::clone(&file.0))
    }
}

impl DiskFile for LinkedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.readable().read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writable()?.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.readable().sync()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.writable()?.allocate(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.readable().length()
    }
}

impl Disk for LinkedDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.create_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(folder)
    }

    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>> {
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            return RealDisk.open(path, create);
        }
        let file = Mutex::new((open_read_only(path)?, false));
        Ok(Arc::new(LinkedFile { path: path.to_owned(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        RealDisk.delete(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_file_is_copied_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (original, link) = (folder.path().join("original"), folder.path().join("link"));
        fs::write(&original, "before").unwrap();
        std::os::unix::fs::symlink(&original, &link).unwrap();
        let file = LinkedDisk.open(&link, Create::Never).unwrap();
        file.write_at(0, b"after!").unwrap();
        let mut read = [0; 6];
        file.read_at(0, &mut read).unwrap();
        assert_eq!(&read, b"after!");
        assert_eq!(fs::read(&original).unwrap(), b"before");
        assert_eq!(fs::read(&link).unwrap(), b"after!");
    }
}
