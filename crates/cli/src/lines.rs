//! Lines of a file or of standard input, as they come: a pipe may deliver them one a minute.
//!
//! Reading blocks, so it has a thread of its own and hands lines over a bounded queue.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nacre_object::{Error, Result};
use tokio::sync::mpsc;

/// A longer line is no record: the longest record a log takes, less its frame.
pub const MAX_LINE_BYTES: usize = 1024 * 1024 - 64;
/// Lines read ahead of the one who appends them.
const MAX_WAITING_LINES: usize = 4096;

/// A line without its end, or why there are no more.
pub type Line = Result<Bytes>;

/// The lines of a file; `-` is standard input. An error is the last item.
pub fn read(path: PathBuf) -> mpsc::Receiver<Line> {
    let (lines, receiver) = mpsc::channel(MAX_WAITING_LINES);
    std::thread::spawn(move || {
        let sent = match open(&path) {
            Ok(mut input) => send_all(&mut input, &path, &lines),
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            // Nobody receives any more: then nobody wants to know.
            let _ = lines.blocking_send(Err(error));
        }
    });
    receiver
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

fn send_all(input: &mut dyn BufRead, path: &Path, lines: &mpsc::Sender<Line>) -> Result<()> {
    let mut number = 0_u64;
    while let Some(line) = next(input).map_err(|error| unreadable(path, &error))? {
        number += 1;
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!(
                "line {number} of {} is longer than {MAX_LINE_BYTES} bytes",
                path.display()
            )));
        }
        if lines.blocking_send(Ok(line)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The next line without its end, or the start of one that is too long; `None` at the end.
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
    use super::*;

    #[test]
    fn a_line_ends_with_its_end_or_the_input_s() {
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
}
