//! Reads lines of a file or of standard input as they arrive. A pipe may deliver only one line a
//! minute.
//!
//! Reading blocks, so a separate thread reads and passes the lines through a queue. A line may be a
//! mebibyte long, so the queue bounds the bytes of all lines in memory, not the number of lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The longest line, in bytes: the longest record of a log, without its frame. A longer line cannot
/// be a record.
pub const MAX_LINE_BYTES: usize = 1024 * 1024 - 64;
/// Memory for all lines that were read and are not dropped yet.
const MAX_HELD_BYTES: usize = 8 * 1024 * 1024;
/// Memory for the lines of one batch. The reading thread uses the rest meanwhile.
const MAX_BATCH_BYTES: usize = MAX_HELD_BYTES / 2;
/// What a line takes besides its text.
const LINE_OVERHEAD_BYTES: usize = 256;
/// The most lines in the queue: as many empty lines as the memory limit allows.
const MAX_QUEUED_LINES: usize = MAX_HELD_BYTES / LINE_OVERHEAD_BYTES;

const _: () = assert!(MAX_LINE_BYTES + LINE_OVERHEAD_BYTES <= MAX_BATCH_BYTES);
const _: () = assert!(MAX_HELD_BYTES <= u32::MAX as usize);

/// A line without its line end. Its bytes count towards the memory limit until it is dropped.
#[derive(Debug)]
pub struct Line {
    pub text: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Line {
    fn cost(&self) -> usize {
        cost_of(&self.text)
    }
}

fn cost_of(text: &Bytes) -> usize {
    text.len() + LINE_OVERHEAD_BYTES
}

/// The lines of an input, in order.
#[derive(Debug)]
pub struct Lines(mpsc::Receiver<Result<Line>>);

/// Lines that travel together. After an error there are no more.
#[derive(Debug, Default)]
pub struct LineBatch {
    pub lines: Vec<Line>,
    pub error: Option<Error>,
}

impl Lines {
    /// Reads a file; `-` is standard input. Must be called inside a Tokio runtime.
    pub fn of_file(path: PathBuf) -> Self {
        Self::of(move || Ok((open(&path)?, path)))
    }

    fn of(open: impl FnOnce() -> Result<(Box<dyn BufRead>, PathBuf)> + Send + 'static) -> Self {
        let (queue, lines) = mpsc::channel(MAX_QUEUED_LINES);
        let runtime = Handle::current();
        std::thread::spawn(move || {
            let room = Arc::new(Semaphore::new(MAX_HELD_BYTES));
            let sent = open().and_then(|(mut input, path)| {
                send_all(&mut *input, &path, |text| {
                    let room = Arc::clone(&room).acquire_many_owned(cost_of(&text) as u32);
                    let room = runtime.block_on(room).expect("it is never closed");
                    queue.blocking_send(Ok(Line { text, _room: room })).is_ok()
                })
            });
            if let Err(error) = sent {
                // If this fails, the receiver is gone and needs no error.
                let _ = queue.blocking_send(Err(error));
            }
        });
        Self(lines)
    }

    /// Returns the lines that have arrived, at most `most`. Waits until there is at least one line.
    /// Returns `None` at the end of the input. It is safe to drop the future: no line is lost.
    pub async fn next_batch(&mut self, most: usize) -> Option<LineBatch> {
        let mut batch = LineBatch::default();
        let mut bytes = 0;
        let mut next = Some(self.0.recv().await?);
        while let Some(line) = next {
            match line {
                Ok(line) => {
                    bytes += line.cost();
                    batch.lines.push(line);
                }
                Err(error) => {
                    batch.error = Some(error);
                    break;
                }
            }
            let has_room = batch.lines.len() < most && bytes + MAX_LINE_BYTES <= MAX_BATCH_BYTES;
            next = has_room.then(|| self.0.try_recv().ok()).flatten();
        }
        Some(batch)
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok(Box::new(BufReader::new(file)))
}

fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::not_found(format!("cannot read {}: {error}", path.display()))
}

/// Passes lines to `send`, one after another, until `send` returns false.
fn send_all(
    input: &mut dyn BufRead,
    path: &Path,
    mut send: impl FnMut(Bytes) -> bool,
) -> Result<()> {
    let mut number = 0_u64;
    while let Some(line) = next(input).map_err(|error| unreadable(path, &error))? {
        number += 1;
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!(
                "line {number} of {} is longer than {MAX_LINE_BYTES} bytes, the limit of a record",
                path.display()
            ))
            .hint("split the line"));
        }
        if !send(line) {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads the next line, without its line end; only the beginning if the line is too long. Returns
/// `None` at the end of the input.
pub fn next(input: &mut dyn BufRead) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    let mut bounded = input.take(MAX_LINE_BYTES as u64 + 1);
    if bounded.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(line.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// A reader that does not stop at the memory limit would pass it within this time.
    const LONG_ENOUGH: Duration = Duration::from_millis(200);
    const DEADLINE: Duration = Duration::from_secs(30);

    #[test]
    fn a_line_ends_at_a_line_break_or_at_the_end_of_the_input() {
        let mut input: &[u8] = b"a\n\nbc";
        let lines: Vec<_> = std::iter::from_fn(|| next(&mut input).unwrap()).collect();
        assert_eq!(lines, vec![Bytes::from("a"), Bytes::new(), Bytes::from("bc")]);
    }

    #[test]
    fn an_endless_line_is_cut_past_the_bound() {
        let text = vec![b'x'; MAX_LINE_BYTES + 10];
        let line = next(&mut &text[..]).unwrap().unwrap();
        assert!(line.len() > MAX_LINE_BYTES);
    }

    /// `count` lines of half a mebibyte each.
    fn long_lines(count: usize) -> Lines {
        let text = [vec![b'x'; 512 * 1024], vec![b'\n']].concat().repeat(count);
        Lines::of(move || Ok((Box::new(io::Cursor::new(text)), "lines".into())))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_reader_waits_while_undropped_lines_fill_its_memory_limit() {
        let mut lines = long_lines(40);
        let mut held = Vec::new();
        let full = async {
            while held.iter().map(Line::cost).sum::<usize>() + MAX_BATCH_BYTES / 8 < MAX_HELD_BYTES
            {
                held.extend(lines.next_batch(1).await.unwrap().lines);
            }
        };
        timeout(DEADLINE, full).await.expect("there is room for these lines");
        assert!(timeout(LONG_ENOUGH, lines.next_batch(1)).await.is_err(), "{} held", held.len());
        held.pop();
        let next = timeout(DEADLINE, lines.next_batch(1)).await.expect("there is room again");
        assert_eq!(next.unwrap().lines.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_batch_of_lines_stays_below_its_limit_of_bytes() {
        let mut lines = long_lines(40);
        let mut count = 0;
        while let Some(batch) = timeout(DEADLINE, lines.next_batch(512)).await.unwrap() {
            assert!(batch.lines.iter().map(Line::cost).sum::<usize>() <= MAX_BATCH_BYTES);
            assert!(batch.error.is_none());
            count += batch.lines.len();
        }
        assert_eq!(count, 40);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_lines_before_a_too_long_line_are_delivered_with_the_error() {
        let text = [&b"a\nb\n"[..], &vec![b'x'; MAX_LINE_BYTES + 1]].concat();
        let mut lines = Lines::of(move || Ok((Box::new(io::Cursor::new(text)), "f".into())));
        let (mut texts, mut failure) = (Vec::new(), None);
        while let Some(batch) = timeout(DEADLINE, lines.next_batch(512)).await.unwrap() {
            texts.extend(batch.lines.iter().map(|line| line.text.clone()));
            failure = batch.error.or(failure);
        }
        assert_eq!(texts, ["a", "b"]);
        assert!(failure.unwrap().message().starts_with("line 3 of f is longer"));
    }
}
