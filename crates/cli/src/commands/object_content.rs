//! An object's byte stream, streamed from and to files: `nacre object put` and `get`.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, stream};
use nacre::Object;
use nacre_object::{Error, ErrorKind, Result};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::input::read_pieces;
use crate::out::{Out, json_bytes};
use crate::signals::{Interrupts, interrupted};

/// The mode of a new file, less what the umask takes away.
const NEW_FILE_MODE: u32 = 0o666;
/// How often a download starts again because the object changed while it was read.
const MAX_ATTEMPTS: u32 = 8;

/// Which bytes to get, and where to.
#[derive(Debug, clap::Args)]
pub struct Wanted {
    /// Begin at this offset of the byte stream, in bytes
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Print at most this many bytes (default: all)
    #[arg(long)]
    length: Option<u64>,
    /// Write to this file, instead of standard output. The file appears only when it is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Replaces an object's byte stream by the content of a file.
///
/// # Errors
/// `Unavailable` if the command is interrupted; those of [`Object::put`].
pub async fn put(object: &Object, file: &Path) -> Result<()> {
    let interrupts = Interrupts::hear()?;
    let content = until(interrupts.first(), read_pieces(file)?);
    tokio::select! {
        outcome = object.put(content) => outcome,
        () = interrupts.second() => Err(interrupted("interrupted: the put may have happened")),
    }
}

/// The content, which ends with an error if a signal arrives.
fn until(
    signal: impl Future<Output = ()> + Send,
    mut content: impl Stream<Item = Result<Bytes>> + Unpin + Send,
) -> impl Stream<Item = Result<Bytes>> + Unpin + Send {
    let mut signal = Box::pin(signal.fuse());
    stream::poll_fn(move |context| {
        if signal.as_mut().poll_unpin(context).is_ready() {
            return Some(Err(interrupted("interrupted"))).into();
        }
        content.poll_next_unpin(context)
    })
}

/// Prints an object's bytes, or writes them to a file.
///
/// # Errors
/// `Conflict` if the object changes while the command reads it in parts; those of [`Object::read`].
pub async fn get(object: &Object, wanted: Wanted, out: Out) -> Result<()> {
    let Wanted { offset, length, output } = wanted;
    if let Some(path) = output {
        return get_file(object, offset, length, &path).await;
    }
    if out.is_json() {
        // The whole content is one JSON document. The bound on an object's size bounds it.
        let data = object.read_all(offset, length).await?;
        return out.show(&json!({ "data": json_bytes(&data) }), String::new);
    }
    let mut reader = object.reader(offset, length);
    while let Some(part) = reader.next().await? {
        out.bytes(&part)?;
    }
    Ok(())
}

/// Writes a temporary file in the folder of `path`, and renames it to `path` when it is complete.
/// So the command can start again if the object changes meanwhile. An existing file keeps its mode.
/// A symbolic link stays, and the file that it points to is replaced.
async fn get_file(object: &Object, offset: u64, length: Option<u64>, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(unwritable(path, &io::ErrorKind::IsADirectory.into()));
    }
    // An existing device or pipe is not a regular file: it is written to, and not replaced.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let mut there = File::options().write(true).open(path).map_err(|e| unwritable(path, &e))?;
        return copy(object, offset, length, path, &mut there).await;
    }
    let place = match fs::canonicalize(path) {
        Ok(place) => place,
        Err(_) if path.is_symlink() => {
            let text = format!("{} is a symbolic link whose target does not exist", path.display());
            return Err(Error::invalid(text).hint("remove it, or name another file"));
        }
        Err(_) => path.to_owned(),
    };
    let folder = match place.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mode = fs::metadata(&place).map_or(NEW_FILE_MODE, |there| there.permissions().mode());
    let mut attempt = 1;
    loop {
        let mut file = beside(folder, mode).map_err(|error| unwritable(path, &error))?;
        match copy(object, offset, length, path, file.as_file_mut()).await {
            Ok(()) => {
                let placed = file.persist(&place).map_err(|error| unwritable(path, &error.error));
                return placed.map(drop);
            }
            Err(error) if error.kind() == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A new temporary file in a folder, with the mode of the final file.
fn beside(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let permissions = Permissions::from_mode(mode);
    let file = tempfile::Builder::new().permissions(permissions.clone()).tempfile_in(folder);
    // Leave the name of the temporary file out of the error: the user named another file.
    let file = file.map_err(|error| io::Error::from(error.kind()))?;
    if mode != NEW_FILE_MODE {
        file.as_file().set_permissions(permissions)?;
    }
    Ok(file)
}

async fn copy(
    object: &Object,
    offset: u64,
    length: Option<u64>,
    path: &Path,
    to: &mut (impl Write + Send),
) -> Result<()> {
    let mut reader = object.reader(offset, length);
    while let Some(part) = reader.next().await? {
        to.write_all(&part).map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Error::invalid(format!("the folder of {path} does not exist")),
        io::ErrorKind::IsADirectory => {
            Error::invalid(format!("{path} is a folder, so no file can be written there"))
        }
        _ => Error::unavailable(format!("cannot write {path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nacre::Pool;
    use nacre_conformance::{MeddlingStore, MemoryStore, ops};
    use nacre_object::limits::MAX_REPLY_BYTES;
    use nacre_object::{ObjectId, Request, Store};

    use super::*;

    /// An object whose read takes two requests. Another client writes it before some of these
    /// requests.
    async fn object(before: impl IntoIterator<Item = usize>) -> Object {
        let id: ObjectId = "data/a".parse().unwrap();
        let store = MemoryStore::plain();
        for bytes in [MAX_REPLY_BYTES, 10] {
            let ops = vec![ops::append(vec![b'x'; bytes])];
            store.submit(Request::new(id.clone(), ops).unwrap()).await.unwrap();
        }
        let store = MeddlingStore::new(store, id.clone(), before);
        Pool::on(Arc::new(store), id.pool).object("a").unwrap()
    }

    #[tokio::test]
    async fn a_download_starts_again_when_the_object_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        get_file(&object([1, 3]).await, 0, None, &path).await.unwrap();
        let got = fs::read(&path).unwrap();
        assert_eq!((got.len(), &got[..2]), (MAX_REPLY_BYTES + 10, &b"3x"[..]));
    }

    #[tokio::test]
    async fn a_file_stays_unchanged_until_its_new_content_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let error = get_file(&object(0..1000).await, 0, None, &path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
