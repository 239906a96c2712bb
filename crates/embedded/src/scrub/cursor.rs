//! The cursor of a scrub: where its next step begins.

use std::fmt;
use std::str::FromStr;

use nacre_object::Error;

/// Where a step of a scrub begins. Callers store it and pass it to the next step, without looking
/// inside. Its string form is `journal`, `files:N` or `entries:HEX`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubCursor(pub(super) Stage);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Journal,
    /// Files of tables numbered above this.
    Files { after: Option<u64> },
    /// Entries whose keys are this or greater.
    Entries { from: Vec<u8> },
}

impl ScrubCursor {
    pub(super) fn files(after: Option<u64>) -> Self {
        Self(Stage::Files { after })
    }

    pub(super) fn entries(from: impl Into<Vec<u8>>) -> Self {
        Self(Stage::Entries { from: from.into() })
    }
}

impl fmt::Display for ScrubCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Stage::Journal => write!(f, "journal"),
            Stage::Files { after: None } => write!(f, "files:"),
            Stage::Files { after: Some(after) } => write!(f, "files:{after}"),
            Stage::Entries { from } => {
                write!(f, "entries:")?;
                from.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl FromStr for ScrubCursor {
    type Err = Error;

    /// # Errors
    /// `Invalid` if it was not made by this release.
    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || {
            Error::invalid(format!("{text:?} is not a cursor of a scrub"))
                .hint("begin a new scrub, or pass the cursor that the last step returned")
        };
        match text.split_once(':') {
            None if text == "journal" => Ok(Self(Stage::Journal)),
            Some(("files", "")) => Ok(Self::files(None)),
            Some(("files", after)) => {
                after.parse().map(Some).map(Self::files).map_err(|_| invalid())
            }
            Some(("entries", hex)) => unhex(hex).map(Self::entries).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_can_be_printed_and_parsed() {
        let cursors = [
            ScrubCursor::default(),
            ScrubCursor::files(None),
            ScrubCursor::files(Some(7)),
            ScrubCursor::entries([]),
            ScrubCursor::entries([0, 255, 16]),
        ];
        for cursor in cursors {
            assert_eq!(cursor.to_string().parse::<ScrubCursor>().unwrap(), cursor);
        }
        for nonsense in ["", "files", "files:x", "entries:0", "entries:zz", "entries:é", "a:1"] {
            assert!(nonsense.parse::<ScrubCursor>().is_err(), "{nonsense}");
        }
    }
}
