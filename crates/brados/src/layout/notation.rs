//! Layouts as text: `log: slots(4096), header: attribute`; `map` is everything in the map.

use std::fmt;
use std::str::FromStr;

use super::{HeaderLocation, IndexLocation, Layout, Stripes, TableLocation};
use crate::diagnostic::suggestion;
use crate::limits::{MAX_SLOT_BYTES, MAX_STREAM_BYTES, MAX_STRIPES, MIN_SLOT_BYTES};

/// The name by which the header is meant.
pub(super) const HEADER: &str = "header";
/// The word in the notation of layouts for the number of stripes.
pub(super) const STRIPES: &str = "stripes";
/// The number of rows for which an index in the byte stream has space, if the layout does not say
/// it. Such an index takes a mebibyte of the stream, but parts of it that were never written take
/// no space on disk.
const INDEX_COUNT: u32 = 65_536;
const PLACES: [&str; 5] = ["map", "slots", "appended", "attribute", "stream"];

/// An error: a string that is no layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutError {
    /// Where, in bytes from its beginning.
    pub at: usize,
    /// How many bytes are wrong.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{}: {help}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for LayoutError {}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = match self.header {
            HeaderLocation::Map => None,
            location => Some(format!("{HEADER}: {location}")),
        };
        let tables = self.tables().map(|(name, location)| format!("{name}: {location}"));
        let stripes = match self.stripes {
            Stripes::None => None,
            stripes => Some(format!("{STRIPES}: {stripes}")),
        };
        let items: Vec<_> = tables.chain(header).chain(stripes).collect();
        if items.is_empty() { f.write_str("map") } else { f.write_str(&items.join(", ")) }
    }
}

impl fmt::Display for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map => f.write_str("map"),
            Self::Slots { bytes, count: None } => write!(f, "slots({bytes})"),
            Self::Slots { bytes, count: Some(count) } => write!(f, "slots({bytes}, {count})"),
            Self::Appended(IndexLocation::Map) => f.write_str("appended(map)"),
            Self::Appended(IndexLocation::Stream { count: INDEX_COUNT }) => {
                f.write_str("appended(stream)")
            }
            Self::Appended(IndexLocation::Stream { count }) => {
                write!(f, "appended(stream, {count})")
            }
        }
    }
}

impl fmt::Display for HeaderLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Map => "map",
            Self::Attribute => "attribute",
            Self::Stream => "stream",
        })
    }
}

impl fmt::Display for Stripes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Each => f.write_str("each"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl IndexLocation {
    /// In the byte stream, of the usual size.
    pub const STREAM: Self = Self::Stream { count: INDEX_COUNT };
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let mut reader = Reader { text, at: 0 };
        let mut layout = Layout::default();
        let mut named: Vec<&str> = vec![];
        let first = reader.word()?;
        if first.0 == "map" && reader.is_at_end() {
            return Ok(layout);
        }
        reader.at = first.1;
        loop {
            let (name, at) = reader.word()?;
            if named.contains(&name) {
                return Err(reader.error(at, format!("`{name}` is in this layout twice")));
            }
            named.push(name);
            reader.expect(":")?;
            match name {
                HEADER => layout.header = reader.header_location()?,
                STRIPES => layout.stripes = reader.stripes()?,
                _ => {
                    let location = reader.table_location()?;
                    layout.set_table(name, location);
                }
            }
            if reader.is_at_end() {
                return Ok(layout);
            }
            reader.expect(",")?;
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.text.len()
    }

    /// A mistake in the text from `at` to the present position.
    fn error(&self, at: usize, message: impl Into<String>) -> LayoutError {
        LayoutError { at, length: (self.at - at).max(1), message: message.into(), help: None }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> (&'a str, usize) {
        self.skip_blanks();
        let at = self.at;
        let rest = &self.text[at..];
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        (&self.text[at..self.at], at)
    }

    /// A word and where it begins.
    fn word(&mut self) -> Result<(&'a str, usize), LayoutError> {
        let (word, at) = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        match word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            true => Ok((word, at)),
            false => Err(LayoutError {
                help: Some("write `table: location, …`, or `map`".to_owned()),
                ..self.error(at, "expected a name")
            }),
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), LayoutError> {
        if self.eat(text) { Ok(()) } else { Err(self.error(self.at, format!("expected `{text}`"))) }
    }

    fn eat(&mut self, text: &str) -> bool {
        self.skip_blanks();
        let found = self.text[self.at..].starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn number(&mut self, what: &str, from: u32, upto: u32) -> Result<u32, LayoutError> {
        let (digits, at) = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        let number = digits.replace('_', "").parse().ok();
        number
            .filter(|number| (from..=upto).contains(number))
            .ok_or_else(|| self.error(at, format!("{what} is a number from {from} to {upto}")))
    }

    fn no_place(&self, word: &str, at: usize, of: &[&str]) -> LayoutError {
        let near = suggestion(word, of.iter().copied());
        let help = near.unwrap_or_else(|| format!("there are {}", of.join(", ")));
        LayoutError { help: Some(help), ..self.error(at, format!("`{word}` is no place for it")) }
    }

    fn header_location(&mut self) -> Result<HeaderLocation, LayoutError> {
        let (word, at) = self.word()?;
        match word {
            "map" => Ok(HeaderLocation::Map),
            "attribute" => Ok(HeaderLocation::Attribute),
            "stream" => Ok(HeaderLocation::Stream),
            _ => Err(self.no_place(word, at, &["map", "attribute", "stream"])),
        }
    }

    fn stripes(&mut self) -> Result<Stripes, LayoutError> {
        match self.eat("each") {
            true => Ok(Stripes::Each),
            false => self.number("how many stripes there are", 1, MAX_STRIPES).map(Stripes::Count),
        }
    }

    fn table_location(&mut self) -> Result<TableLocation, LayoutError> {
        let (word, at) = self.word()?;
        match word {
            "map" => Ok(TableLocation::Map),
            "slots" => self.slots(),
            "appended" => self.appended(),
            "attribute" | "stream" => Err(LayoutError {
                help: Some(format!("only `{HEADER}`, all there is one of, can be there")),
                ..self.error(at, format!("a table cannot be in `{word}`"))
            }),
            _ => Err(self.no_place(word, at, &PLACES[..3])),
        }
    }

    fn slots(&mut self) -> Result<TableLocation, LayoutError> {
        self.expect("(")?;
        let bytes = self.number("the width of a slot", MIN_SLOT_BYTES, MAX_SLOT_BYTES)?;
        let count = self.count()?;
        self.expect(")")?;
        Ok(TableLocation::Slots { bytes, count })
    }

    fn count(&mut self) -> Result<Option<u32>, LayoutError> {
        match self.eat(",") {
            true => self.number("how many there are", 1, MAX_STREAM_BYTES).map(Some),
            false => Ok(None),
        }
    }

    fn appended(&mut self) -> Result<TableLocation, LayoutError> {
        self.expect("(")?;
        let (word, at) = self.word()?;
        let index = match word {
            "map" => IndexLocation::Map,
            "stream" => IndexLocation::Stream { count: self.count()?.unwrap_or(INDEX_COUNT) },
            _ => return Err(self.no_place(word, at, &["map", "stream"])),
        };
        self.expect(")")?;
        Ok(TableLocation::Appended(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_layout_can_be_parsed() {
        for text in [
            "map",
            "log: slots(4096)",
            "a: slots(16, 100), log: appended(map), header: attribute",
            "log: appended(stream), header: stream",
            "log: appended(stream, 512)",
            "log: slots(16), header: stream, stripes: 8",
            "stripes: each",
        ] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        let roomy: Layout = " log :slots( 4_096 ),b: map , header:map ".parse().unwrap();
        assert_eq!(roomy.to_string(), "log: slots(4096)");
        assert_eq!("log: map".parse::<Layout>().unwrap(), Layout::default());
    }

    #[test]
    fn an_invalid_layout_is_refused_with_the_position_of_the_mistake() {
        for (text, at, message) in [
            ("", 0, "expected a name"),
            ("log", 3, "expected `:`"),
            ("log: slot(4)", 5, "`slot` is no place for it"),
            ("log: slots(0)", 11, "the width of a slot is a number from 2 to 1048576"),
            ("log: slots(x)", 11, "the width of a slot is a number from 2 to 1048576"),
            ("log: slots(9999999999)", 11, "the width of a slot is a number from 2 to 1048576"),
            ("log: stream", 5, "a table cannot be in `stream`"),
            ("header: slots(4)", 8, "`slots` is no place for it"),
            ("log: map, log: map", 10, "`log` is in this layout twice"),
            ("log: map log2: map", 9, "expected `,`"),
            ("log: map,", 9, "expected a name"),
            ("log: appended(tree)", 14, "`tree` is no place for it"),
            ("log: appended(map", 17, "expected `)`"),
            ("ä: map", 0, "expected a name"),
        ] {
            let error = text.parse::<Layout>().unwrap_err();
            assert_eq!((error.at, error.message.as_str()), (at, message), "{text}");
        }
    }
}
