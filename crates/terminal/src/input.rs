//! The input of a command: from an argument, a file or standard input.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use futures::{Stream, stream};
use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Error, Result};
use tokio::sync::mpsc;

/// Bytes of a file that are read at a time when it is streamed.
const PIECE_BYTES: usize = 1024 * 1024;
/// How many pieces the reading thread may be ahead of the task that sends them.
const MAX_WAITING_PIECES: usize = 4;

/// Bytes given by one of two options.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct Input {
    /// The input itself (default: empty)
    #[arg(long, value_name = "TEXT", allow_negative_numbers = true)]
    pub input: Option<String>,
    /// Read the input from a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub input_file: Option<std::path::PathBuf>,
}

impl Input {
    /// The bytes; empty if neither option was given.
    pub fn bytes(self) -> Result<Bytes> {
        match (self.input, self.input_file) {
            (Some(text), _) => Ok(text.into()),
            (None, Some(path)) => read_file(&path),
            (None, None) => Ok(Bytes::new()),
        }
    }
}

/// Parses a duration of a measurement: 0.05 to 3600 seconds.
///
/// # Errors
/// A message for clap if the text is not a number in this range.
pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give 0.05 to 3600 seconds".to_owned()),
    }
}

/// Reads a file, or standard input for `-`, of at most [`MAX_REQUEST_BYTES`].
///
/// # Errors
/// `NotFound` if the file cannot be read, `Invalid` if it is larger.
pub fn read_file(path: &Path) -> Result<Bytes> {
    let content = read_at_most(path, MAX_REQUEST_BYTES)?;
    content.ok_or_else(|| {
        let name = name_of(path);
        Error::invalid(format!(
            "{name} is larger than {MAX_REQUEST_BYTES} bytes, the limit of one request"
        ))
        .hint("write it in parts: `nacre object write … --offset N`")
    })
}

/// A file's content if it has no more bytes.
fn read_at_most(path: &Path, most: usize) -> Result<Option<Bytes>> {
    let name = name_of(path);
    let unreadable = |error| unreadable(&name, &error);
    let mut content = Vec::new();
    let limit = most as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut content)
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut content)
    };
    read.map_err(unreadable)?;
    Ok((content.len() <= most).then(|| content.into()))
}

/// Reads a file piece by piece, or standard input for `-`. A separate thread reads, because reading
/// blocks.
///
/// # Errors
/// `NotFound` if the file cannot be opened. An item of the stream is an error if reading fails
/// later.
pub fn read_pieces(
    path: &Path,
) -> Result<impl Stream<Item = Result<Bytes>> + Unpin + Send + use<>> {
    let name = name_of(path);
    let mut input: Box<dyn Read + Send> = match path == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(path).map_err(|error| unreadable(&name, &error))?),
    };
    let (pieces, mut receiver) = mpsc::channel(MAX_WAITING_PIECES);
    std::thread::spawn(move || {
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = input.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
            let read = read.map_err(|error| unreadable(&name, &error));
            let is_last = read.as_ref().map_or(true, |length| *length == 0);
            // The receiver is gone, so the rest is not needed.
            if pieces.blocking_send(read.map(|_| piece.into())).is_err() || is_last {
                return;
            }
        }
    });
    Ok(stream::poll_fn(move |context| receiver.poll_recv(context)))
}

/// Reads the source of a program, a workload or a script.
///
/// # Errors
/// `NotFound` if the file cannot be read, `Invalid` if it is too large or not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let name = name_of(path);
    let content = read_at_most(path, MAX_REQUEST_BYTES)?.ok_or_else(|| {
        Error::invalid(format!(
            "{name} is larger than {MAX_REQUEST_BYTES} bytes, the limit of a program"
        ))
    })?;
    String::from_utf8(content.into())
        .map_err(|_| Error::invalid(format!("{name} is not text in UTF-8")))
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    Error::not_found(format!("cannot read {name}: {error}"))
}

/// What a person calls a file that is given as an argument.
fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
