//! The limit: one preallocated file, written and synced a group at a time, with no format at all.
//!
//! Waiting tasks hand their records to one thread, which writes all that are there, syncs them with
//! one `fdatasync` and wakes their tasks: of the ways tried, the fastest to make small records
//! durable (waiters that lead in turn, threads or tasks, reach a third of it on two cores).
//!
//! That file is written again and again. What keeps all it is given, as a log does, writes where nothing was
//! before, and the file system has blocks to convert at each sync.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use tokio::sync::oneshot;

use crate::load;
use crate::wire::Exchange;

/// What it is called as a baseline.
pub(crate) const NAME: &str = "raw file, one fdatasync a group";
/// What it is called where each record first goes through the wire: what no storage behind this wire
/// can exceed unless it combines records.
pub(crate) const NAME_BEHIND_WIRE: &str = "raw file behind a bare exchange on the wire";
/// The same where each record first gets a position by an exchange of its own, and is kept.
pub(crate) const NAME_OF_LOG: &str = "raw file that keeps all, behind two bare exchanges";
/// Length of the file; writing starts over at its end, or so much is added there.
const FILE_BYTES: usize = 64 * 1024 * 1024;
/// Written at a time when the file is laid out.
const CHUNK_BYTES: usize = 1024 * 1024;
/// The file's name in its folder.
const FILE_NAME: &str = "raw";

/// What becomes of records that the file has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtItsEnd {
    StartsOver,
    Grows,
}

/// A record, and whom to tell when it is on disk.
type Waiting = (Bytes, oneshot::Sender<()>);

/// Records a second that `writers` waiting tasks make durable, `size` bytes each.
///
/// # Errors
/// `Unavailable` if the folder cannot be written or the disk fails.
pub(crate) async fn run(folder: &Path, writers: usize, size: usize, span: Duration) -> Result<f64> {
    behind(folder, AtItsEnd::StartsOver, &[], writers, size, span).await
}

/// The same where each writer first has these exchanges, one after the other.
///
/// # Errors
/// As [`run`] and [`Exchange::once`].
pub(crate) async fn behind(
    folder: &Path,
    at_its_end: AtItsEnd,
    exchanges: &[Exchange],
    writers: usize,
    size: usize,
    span: Duration,
) -> Result<f64> {
    let path = folder.join(FILE_NAME);
    let file = match at_its_end {
        AtItsEnd::StartsOver => laid_out(&path),
        AtItsEnd::Grows => File::create(&path),
    };
    let file = file.map_err(failed)?;
    let (sender, receiver) = mpsc::channel();
    let committer = std::thread::spawn(move || commit(&file, at_its_end, &receiver));
    let outcome = load::run(writers, span, |_| {
        let (sender, record) = (sender.clone(), Bytes::from(vec![7; size]));
        let exchanges: Arc<[Exchange]> = exchanges.into();
        move |_| {
            let (sender, record) = (sender.clone(), record.clone());
            let exchanges = Arc::clone(&exchanges);
            async move {
                for exchange in exchanges.iter() {
                    exchange.once().await?;
                }
                let (done, synced) = oneshot::channel();
                sender.send((record, done)).map_err(|_| failed("its thread has ended"))?;
                synced.await.map_err(|_| failed("its thread has ended"))
            }
        }
    });
    let rate = outcome.await?.rate;
    drop(sender);
    committer.join().map_err(|_| failed("its thread panicked"))?.map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    Ok(rate)
}

/// Writes and syncs what waits until nobody can send any more.
fn commit(file: &File, at_its_end: AtItsEnd, receiver: &mpsc::Receiver<Waiting>) -> io::Result<()> {
    let (mut offset, mut bytes) = (0, Vec::new());
    let mut end = if at_its_end == AtItsEnd::Grows { 0 } else { FILE_BYTES };
    while let Ok(first) = receiver.recv() {
        let group: Vec<Waiting> = std::iter::once(first).chain(receiver.try_iter()).collect();
        bytes.clear();
        group.iter().for_each(|(record, _)| bytes.extend_from_slice(record));
        if offset + bytes.len() > end {
            match at_its_end {
                AtItsEnd::StartsOver => offset = 0,
                AtItsEnd::Grows => {
                    fallocate(file, FallocateFlags::empty(), end as u64, FILE_BYTES as u64)?;
                    end += FILE_BYTES;
                }
            }
        }
        file.write_all_at(&bytes, offset as u64)?;
        file.sync_data()?;
        offset += bytes.len();
        for (_, done) in group {
            // A task that was ended with its runtime waits for nothing.
            let _ = done.send(());
        }
    }
    Ok(())
}

/// A file whose blocks have all been written once, as a log that reuses its space has them.
fn laid_out(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    for offset in (0..FILE_BYTES).step_by(CHUNK_BYTES) {
        file.write_all_at(&vec![0; CHUNK_BYTES], offset as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the raw file: {error}"))
}
