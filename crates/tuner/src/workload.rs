//! A workload: the requests that a program will get, in a text format.
//!
//! ```text
//! # a log's stripe, mostly written
//! objects 32
//! concurrency 32
//! fill 1    seal 1
//! fill 200  write 1, next, bytes(4096)
//! mix 70    write 1, next, bytes(4096)
//! mix 30    read 1, used
//! ```
//!
//! `fill N` sends its request N times to each object before the measurement, in the order of the
//! lines. `mix W` gives its request the weight W among the measured requests. A column of a request
//! is a constant or is drawn at random:
//!
//! - a number, a string in quotes, `true`, `false` or `nil`: this constant;
//! - `next`: counts up from 0, for each object;
//! - `used`: one of the numbers that `next` has already produced for the object;
//! - `below(N)`: any number below N;
//! - `bytes(N)`: N bytes;
//! - `text(N of COUNT)`: one of COUNT different strings of N bytes.

use std::fmt;

use nacre_brados::Value;
use nacre_clock::Random;

/// Objects of a workload.
pub const MAX_OBJECTS: usize = 1024;
/// Requests at a time.
pub const MAX_CONCURRENCY: usize = 1024;
/// Requests that fill one object.
pub const MAX_FILL: u64 = 1_000_000;
/// Greatest weight of a line.
const MAX_WEIGHT: u64 = 1_000_000;
/// The longest value that is drawn. An entry of a map can hold it.
pub const MAX_DRAWN_BYTES: u64 = 1024 * 1024;
/// The most different strings of one column.
pub const MAX_DRAWN_TEXTS: u64 = 1_000_000;
/// Without a line that says otherwise.
const DEFAULT_OBJECTS: usize = 32;
const DEFAULT_CONCURRENCY: usize = 32;

/// The requests for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// How many objects share it evenly.
    pub objects: usize,
    /// How many requests are in flight at a time.
    pub concurrency: usize,
    /// The requests that fill each object before the measurement, in order.
    pub fill: Vec<Line>,
    /// The measured requests, each line in proportion to its weight.
    pub mix: Vec<Line>,
}

/// A request, and the number of times or the weight with which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How many times, or which weight.
    pub count: u64,
    /// The request.
    pub request: Pattern,
}

/// A request whose row is drawn anew each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The method.
    pub method: String,
    /// Its row.
    pub(crate) columns: Vec<Column>,
}

/// The value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    /// Always this.
    Is(Value),
    /// A number that counts up.
    Next,
    /// A number that `Next` has given.
    Used,
    /// Any number below this one.
    Below(u64),
    /// A string of this many bytes, always the same string.
    Bytes(usize),
    /// A string of this many bytes, one of this many different strings.
    Text { bytes: usize, count: u64 },
}

/// A line that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadError {
    /// The line number, from 1; 0 if the error is about the whole workload.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl Workload {
    /// Parses a workload.
    ///
    /// # Errors The first malformed line, or that the workload has no request to measure.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        let mut workload = Self {
            objects: DEFAULT_OBJECTS,
            concurrency: DEFAULT_CONCURRENCY,
            fill: vec![],
            mix: vec![],
        };
        for (at, line) in text.lines().enumerate() {
            let line = parts(line, '#').next().unwrap_or("").trim();
            if !line.is_empty() {
                workload.read(line).map_err(|message| WorkloadError { line: at + 1, message })?;
            }
        }
        if workload.mix.is_empty() {
            let message = "nothing is asked: add a line `mix 1 METHOD COLUMNS`".to_owned();
            return Err(WorkloadError { line: 0, message });
        }
        Ok(workload)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "objects" => self.objects = number(rest, MAX_OBJECTS as u64)? as usize,
            "concurrency" => self.concurrency = number(rest, MAX_CONCURRENCY as u64)? as usize,
            "fill" => self.fill.push(Line::parse(rest, MAX_FILL)?),
            "mix" => self.mix.push(Line::parse(rest, MAX_WEIGHT)?),
            other => {
                return Err(format!(
                    "`{other}` is not known: use objects, concurrency, fill or mix"
                ));
            }
        }
        Ok(())
    }

    /// The longest value that is drawn.
    pub fn longest_bytes(&self) -> usize {
        let columns = self.fill.iter().chain(&self.mix).flat_map(|line| &line.request.columns);
        let bytes = columns.filter_map(|column| match column {
            Column::Bytes(bytes) | Column::Text { bytes, .. } => Some(*bytes),
            Column::Is(Value::Bytes(bytes)) => Some(bytes.len()),
            _ => None,
        });
        bytes.max().unwrap_or(0)
    }

    /// A line of the mix, drawn by weight.
    pub fn pick(&self, random: &mut Random) -> &Pattern {
        let all: u64 = self.mix.iter().map(|line| line.count).sum();
        let mut left = random.below(all);
        for line in &self.mix {
            match left.checked_sub(line.count) {
                Some(rest) => left = rest,
                None => return &line.request,
            }
        }
        &self.mix[0].request
    }
}

/// The parts between separators that are outside of strings.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_text = false;
    text.split(move |c| {
        is_text ^= c == '\'';
        c == separator && !is_text
    })
}

impl Line {
    fn parse(text: &str, most: u64) -> Result<Self, String> {
        let (count, request) = text.trim().split_once(char::is_whitespace).unwrap_or((text, ""));
        Ok(Self { count: number(count, most)?, request: Pattern::parse(request.trim())? })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (method, columns) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if method.is_empty() {
            return Err("a number is followed by a method and its columns".to_owned());
        }
        let columns = columns.trim();
        let columns = match columns.is_empty() {
            true => vec![],
            false => {
                let columns = parts(columns, ',').map(|one| Column::parse(one.trim()));
                columns.collect::<Result<_, _>>()?
            }
        };
        Ok(Self { method: method.to_owned(), columns })
    }

    /// Draws a row at random. `next` is the object's next unused number, which this increments if
    /// the row uses it.
    pub fn draw(&self, next: &mut u64, random: &mut Random) -> Vec<Value> {
        self.columns.iter().map(|column| column.draw(next, random)).collect()
    }
}

impl Column {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(argument) = between(text, "bytes(", ")") {
            return Ok(Self::Bytes(number(argument, MAX_DRAWN_BYTES)? as usize));
        }
        if let Some((bytes, count)) =
            between(text, "text(", ")").and_then(|of| of.split_once(" of "))
        {
            let bytes = number(bytes, MAX_DRAWN_BYTES)? as usize;
            return Ok(Self::Text { bytes, count: number(count, MAX_DRAWN_TEXTS)? });
        }
        if let Some(argument) = between(text, "below(", ")") {
            return Ok(Self::Below(number(argument, nacre_brados::limits::MAX_INTEGER as u64)?));
        }
        if let Some(inside) = between(text, "'", "'") {
            return Ok(Self::Is(Value::text(inside)));
        }
        Ok(match text {
            "next" => Self::Next,
            "used" => Self::Used,
            "nil" => Self::Is(Value::Nil),
            "true" | "false" => Self::Is(Value::Bool(text == "true")),
            _ => Self::Is(Value::Int(text.parse().map_err(|_| {
                format!("`{text}` is not a column: write a number, 'text', true, false, nil, next, used, below(N), bytes(N) or text(N of COUNT)")
            })?)),
        })
    }

    fn draw(&self, next: &mut u64, random: &mut Random) -> Value {
        match self {
            Self::Is(value) => value.clone(),
            Self::Next => {
                *next += 1;
                Value::Int((*next - 1) as i64)
            }
            Self::Used => Value::Int(random.below(*next) as i64),
            Self::Below(bound) => Value::Int(random.below(*bound) as i64),
            // No engine compresses, so all bytes are alike.
            Self::Bytes(bytes) => Value::Bytes(vec![b'x'; *bytes]),
            Self::Text { bytes, count } => {
                let mut text = random.below(*count).to_string().into_bytes();
                text.resize(*bytes, b'x');
                Value::Bytes(text)
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "objects {}\nconcurrency {}", self.objects, self.concurrency)?;
        self.fill.iter().try_for_each(|line| writeln!(f, "fill {line}"))?;
        self.mix.iter().try_for_each(|line| writeln!(f, "mix {line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> = self.request.columns.iter().map(Column::to_string).collect();
        let text = format!("{} {} {}", self.count, self.request.method, columns.join(", "));
        f.write_str(text.trim_end())
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) => write!(f, "{value}"),
            Self::Next => f.write_str("next"),
            Self::Used => f.write_str("used"),
            Self::Below(bound) => write!(f, "below({bound})"),
            Self::Bytes(bytes) => write!(f, "bytes({bytes})"),
            Self::Text { bytes, count } => write!(f, "text({bytes} of {count})"),
        }
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_suffix(end)
}

/// A number from 1 to `most`.
fn number(text: &str, most: u64) -> Result<u64, String> {
    match text.trim().parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{}` is not a number from 1 to {most}", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LOG: &str = "
        objects 4           # few
        fill 1 seal 1
        fill 3 write 1, next, bytes(5)
        mix 3 write 1, next, bytes(5)
        mix 1 read 1, used
        mix 1 note 'a', true, nil, below(2)";

    #[test]
    fn a_string_may_contain_commas_and_hashes() {
        let workload = Workload::parse("mix 1 put 'a,b', 'a#b', 1 # 'c', 2").unwrap();
        let row = workload.mix[0].request.draw(&mut 0, &mut Random::seeded(1));
        assert_eq!(row, [Value::text("a,b"), Value::text("a#b"), Value::Int(1)]);
    }

    #[test]
    fn rows_are_drawn_as_the_workload_says() {
        let workload = Workload::parse(LOG).unwrap();
        assert_eq!((workload.objects, workload.concurrency), (4, DEFAULT_CONCURRENCY));
        assert_eq!(workload.longest_bytes(), 5);
        let (mut next, mut random) = (0, Random::seeded(1));
        let write = &workload.fill[1].request;
        for position in 0..3 {
            let row = write.draw(&mut next, &mut random);
            assert_eq!(row, [Value::Int(1), Value::Int(position), Value::text("xxxxx")]);
        }
        for _ in 0..20 {
            let row = workload.mix[1].request.draw(&mut next, &mut random);
            assert!(matches!(row[1], Value::Int(0..=2)), "{row:?}");
        }
        let row = workload.mix[2].request.draw(&mut next, &mut random);
        assert_eq!(row[..3], [Value::text("a"), Value::Bool(true), Value::Nil]);
    }

    #[test]
    fn drawn_strings_have_the_given_number_of_values() {
        let workload = Workload::parse("mix 1 put text(5 of 3), text(1 of 99)").unwrap();
        let (mut next, mut random) = (0, Random::seeded(3));
        let mut drawn = || workload.mix[0].request.draw(&mut next, &mut random);
        let texts: BTreeSet<_> = (0..99).map(|_| drawn().remove(0)).collect();
        assert_eq!(
            texts.into_iter().collect::<Vec<_>>(),
            ["0xxxx", "1xxxx", "2xxxx"].map(Value::text)
        );
        assert!(matches!(&drawn()[1], Value::Bytes(text) if text.len() == 1));
    }

    #[test]
    fn a_printed_workload_can_be_parsed() {
        let read =
            Workload::parse(&format!("{LOG}\nmix 2 put text(5 of 3), below(9), used")).unwrap();
        assert_eq!(Workload::parse(&read.to_string()).unwrap(), read);
    }

    #[test]
    fn drawn_requests_follow_the_weights_of_the_mix() {
        let workload = Workload::parse(LOG).unwrap();
        let mut random = Random::seeded(2);
        let writes = (0..5000).filter(|_| workload.pick(&mut random).method == "write").count();
        assert!((2800..3200).contains(&writes), "{writes} of 5000");
    }

    #[test]
    fn a_malformed_workload_is_refused_with_its_line() {
        for (text, line) in [
            ("objects 0\nmix 1 a", 1),
            ("mix 1 a\nobjects 9999", 2),
            ("mix a", 1),
            ("mix 1", 1),
            ("mix 1 a nextt", 1),
            ("mix 1 a bytes(9999999)", 1),
            ("often 1 a", 1),
            ("fill 1 a", 0),
            ("", 0),
        ] {
            let error = Workload::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
        }
    }
}
