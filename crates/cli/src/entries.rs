//! Entries that a command sets: KEY=VALUE on the line, or with a value from a file.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::input::read_file;

/// Keys with their values.
#[derive(Debug, clap::Args)]
pub struct Entries {
    /// Keys with their values
    #[arg(value_name = "KEY=VALUE", required_unless_present = "value_files")]
    entries: Vec<String>,
    /// Take a key's value from a file, byte for byte; `-` is standard input. May be repeated
    #[arg(long = "value-file", value_name = "KEY=FILE", value_parser = pair)]
    value_files: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err(Error::invalid(format!("{text:?} is not an entry")).hint("write KEY=VALUE")),
    }
}

impl Entries {
    /// Returns each key with its value.
    ///
    /// # Errors
    /// `Invalid` if an argument is not KEY=VALUE, a key is given twice, or a value is too large;
    /// `NotFound` if a file cannot be read.
    pub fn read(self) -> Result<Vec<(String, Bytes)>> {
        let on_line = self.entries.iter().map(|text| pair(text));
        let on_line = on_line.map(|entry| entry.map(|(key, value)| (key, Bytes::from(value))));
        let entries: Vec<_> = on_line.collect::<Result<_>>()?;
        let mut keys: BTreeSet<_> = entries.iter().map(|(key, _)| key.as_str()).collect();
        let given = entries.len() + self.value_files.len();
        keys.extend(self.value_files.iter().map(|(key, _)| key.as_str()));
        if keys.len() < given {
            return Err(Error::invalid("a key is given twice").hint("give each key one value"));
        }
        if self.value_files.iter().filter(|(_, file)| file == "-").count() > 1 {
            return Err(Error::invalid("only one key can have its value from standard input")
                .hint("give the other keys KEY=VALUE, or KEY=FILE with a file"));
        }
        let from_file = |(key, file): (String, String)| Ok((key, read_file(Path::new(&file))?));
        let files: Vec<_> = self.value_files.into_iter().map(from_file).collect::<Result<_>>()?;
        Ok(entries.into_iter().chain(files).collect())
    }

    /// The same where earlier releases took one entry as two arguments, KEY VALUE.
    ///
    /// # Errors
    /// As [`Entries::read`].
    pub fn read_or_pair(self) -> Result<Vec<(String, Bytes)>> {
        match &self.entries[..] {
            [key, value] if !key.contains('=') && self.value_files.is_empty() => {
                Ok(vec![(key.clone(), Bytes::from(value.clone()))])
            }
            _ => self.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(entries: &[&str], value_files: &[(&str, &str)]) -> Entries {
        let owned = |text: &str| text.to_owned();
        Entries {
            entries: entries.iter().map(|text| owned(text)).collect(),
            value_files: value_files.iter().map(|(key, file)| (owned(key), owned(file))).collect(),
        }
    }

    #[test]
    fn an_entry_keeps_its_value_unchanged_and_a_file_byte_for_byte() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0xff, 0, b'=']).unwrap();
        let path = file.path().to_str().unwrap();
        let read = given(&["a=1=2", "b="], &[("c", path)]).read().unwrap();
        let value = |bytes: &'static [u8]| Bytes::from_static(bytes);
        let expected = [("a", value(b"1=2")), ("b", value(b"")), ("c", value(b"\xff\0="))];
        assert_eq!(read, expected.map(|(key, value)| (key.to_owned(), value)));
    }

    #[test]
    fn a_malformed_entry_and_a_repeated_key_are_refused() {
        for (entries, files) in [
            (&["a"][..], &[][..]),
            (&["=1"], &[]),
            (&["a=1", "a=2"], &[]),
            (&["a=1"], &[("a", "f")]),
            (&[], &[("a", "-"), ("b", "-")]),
        ] {
            let error = given(entries, files).read().unwrap_err();
            assert_eq!(error.kind(), nacre_object::ErrorKind::Invalid, "{entries:?} {files:?}");
        }
    }

    #[test]
    fn an_entry_in_two_arguments_is_still_accepted() {
        let former = given(&["key", "a=b"], &[]).read_or_pair().unwrap();
        assert_eq!(former, [("key".to_owned(), Bytes::from_static(b"a=b"))]);
        assert_eq!(given(&["k=v", "l=w"], &[]).read_or_pair().unwrap().len(), 2);
    }
}
