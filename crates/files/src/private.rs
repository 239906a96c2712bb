//! Folders of mode 0700 and files of mode 0600.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::{geteuid, umask};

/// The mode of a folder that only its owner may enter.
pub const FOLDER_MODE: u32 = 0o700;
/// The mode of a file that only its owner may read.
pub const FILE_MODE: u32 = 0o600;
/// The permission bits of the group and of everybody else.
const OTHERS: u32 = 0o077;
/// Set on folders that several users share by design, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes whatever this process and its children create from now on accessible to its owner alone.
pub fn restrict_process() {
    umask(Mode::from_raw_mode(OTHERS));
}

/// Creates a folder and its missing parents, accessible only to their owner. The new folders
/// survive a crash. A folder that exists keeps its mode.
///
/// # Errors
/// Any error of the operating system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let above = above(path);
    if !path.is_dir() {
        if !above.is_dir() {
            create_folder(above)?;
        }
        match DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    // Also if the folder was there: the process that made it may have crashed before this.
    File::open(above)?.sync_all()
}

/// The folder that holds this file or folder.
pub(crate) fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        // A relative path of one name, or the root.
        _ => Path::new(if path.has_root() { "/" } else { "." }),
    }
}

/// The permissions of a folder that only its owner may enter.
pub fn folder_permissions() -> Permissions {
    Permissions::from_mode(FOLDER_MODE)
}

/// Options for opening a file; if opening creates the file, only its owner may read it.
pub fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// What [`tighten_folder`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tightened {
    /// Only the owner had access.
    WasPrivate,
    /// Others had access, and have none any more. The number is the former mode.
    From(u32),
    /// Others have access still: the folder belongs to another user, or is shared by design.
    StillOpen(u32),
}

/// Takes the access to an existing folder away from all other users.
///
/// # Errors
/// Any error of the operating system.
pub fn tighten_folder(path: &Path) -> io::Result<Tightened> {
    let metadata = fs::metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(Tightened::WasPrivate);
    }
    if metadata.uid() != geteuid().as_raw() || mode & STICKY != 0 {
        return Ok(Tightened::StillOpen(mode));
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))?;
    Ok(Tightened::From(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_new_folder_and_a_new_file_are_for_their_owner_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        create_folder(&folder).unwrap();
        let file = folder.join("file");
        open_options().create(true).write(true).open(&file).unwrap();
        assert_eq!((mode(&scratch.path().join("a")), mode(&folder)), (FOLDER_MODE, FOLDER_MODE));
        assert_eq!(mode(&file), FILE_MODE);
    }

    #[test]
    fn an_open_folder_is_tightened_once_and_a_shared_one_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(scratch.path(), Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(tighten_folder(scratch.path()).unwrap(), Tightened::From(0o755));
        assert_eq!(tighten_folder(scratch.path()).unwrap(), Tightened::WasPrivate);
        assert_eq!(mode(scratch.path()), FOLDER_MODE);
        set(0o1777);
        assert_eq!(tighten_folder(scratch.path()).unwrap(), Tightened::StillOpen(0o1777));
        assert_eq!(mode(scratch.path()), 0o777);
    }
}
