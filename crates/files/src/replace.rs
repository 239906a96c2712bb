//! Replacing a small file: after a crash it has either its former content or the new one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::open_options;
use crate::private::above;

/// Durably replaces the content of a file, or creates the file. Only its owner may read it.
///
/// # Errors
/// Any error of the operating system. The file then has its old content.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
    let mut name = path.file_name().ok_or_else(no_name)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let stored = write(&fresh, content).and_then(|()| fs::rename(&fresh, path));
    if stored.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    stored?;
    File::open(above(path))?.sync_all()
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = open_options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_the_new_content_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.json");
        for content in ["first", "second"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_keeps_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir_all(path.join("inner")).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert!(path.join("inner").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
