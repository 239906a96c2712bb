//! What the command is given: on the line, from a file, or on standard input.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use nacre_object::limits::MAX_REQUEST_BYTES;
use nacre_object::{Error, Result};

/// Bytes given by one of two options.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct Input {
    /// The input itself
    #[arg(long, value_name = "TEXT")]
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

/// A file's content, `-` being standard input; at most what one request may carry.
///
/// # Errors
/// `NotFound` if it cannot be read, `Invalid` if it is too large.
pub fn read_file(path: &Path) -> Result<Bytes> {
    let name = name_of(path);
    let unreadable = |error| Error::not_found(format!("cannot read {name}: {error}"));
    let mut content = Vec::new();
    let limit = MAX_REQUEST_BYTES as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut content)
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut content)
    };
    read.map_err(unreadable)?;
    if content.len() > MAX_REQUEST_BYTES {
        return Err(Error::invalid(format!(
            "{name} is larger than the {MAX_REQUEST_BYTES} bytes one request carries"
        ))
        .hint("write it in parts: `nacre object write … --offset N`"));
    }
    Ok(content.into())
}

/// A file's content as text.
///
/// # Errors
/// As [`read_file`]; `Invalid` if it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_file(path)?.into())
        .map_err(|_| Error::invalid(format!("{} is not UTF-8 text", name_of(path))))
}

/// What a person calls a file that is given as an argument.
fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
