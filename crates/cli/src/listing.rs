//! Listings: they print entries as they arrive, and say whether there are more.
//!
//! A listing prints all entries unless `--limit` cuts it. A cut listing says so: on standard error,
//! or in JSON by `"more": true` in the last document.

use nacre_object::Result;
use serde_json::{Value, json};

use crate::out::{Columns, Out, note};

/// How to see more of a listing that was cut.
pub const RAISE_LIMIT: &str = "raise --limit to see them";

/// How long a listing may be
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Limit {
    /// List at most N entries (default: all)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl Limit {
    /// Keeps the last entries, as many as the limit allows. Histories use this, because their
    /// newest entry is the last one.
    pub fn latest<T>(self, mut entries: Vec<T>) -> Vec<T> {
        let allowed = self.limit.unwrap_or(usize::MAX);
        entries.drain(..entries.len().saturating_sub(allowed));
        entries
    }
}

/// Cells of a table's line.
pub type Row = Vec<String>;

/// The only row of an entry that is shown as one line.
pub fn line(text: impl Into<String>) -> Vec<Row> {
    vec![vec![text.into()]]
}

/// A listing that is being printed. [`Listing::finish`] ends it.
#[derive(Debug)]
#[must_use = "a listing prints its last entries when it is finished"]
pub struct Listing {
    out: Out,
    /// Empty for a listing of plain lines.
    header: &'static [&'static str],
    room: usize,
    /// The table's columns, as wide as its first page needs. `None` before the first page.
    columns: Option<Columns>,
    /// The page's rows: printed together, so that columns fit them.
    rows: Vec<Row>,
    /// The last document, which may have to say that there is more.
    held: Option<Value>,
}

impl Listing {
    /// A listing of lines.
    pub fn lines(out: Out, limit: Limit) -> Self {
        Self::table(out, limit, &[])
    }

    /// A listing of rows under a header.
    pub fn table(out: Out, limit: Limit, header: &'static [&'static str]) -> Self {
        let room = limit.limit.unwrap_or(usize::MAX);
        Self { out, header, room, columns: None, rows: Vec::new(), held: None }
    }

    /// How many entries the limit still allows.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Adds an entry: a JSON document for programs, rows for people. The caller must not add more
    /// entries than [`Listing::room`] allows.
    pub fn push(&mut self, json: Value, rows: impl FnOnce() -> Vec<Row>) -> Result<()> {
        debug_assert!(self.room > 0, "the caller asks for no more than there is room for");
        self.room = self.room.saturating_sub(1);
        if self.out.is_json() {
            return match self.held.replace(json) {
                Some(before) => self.out.show(&before, String::new),
                None => Ok(()),
            };
        }
        if self.header.is_empty() {
            return rows().iter().flatten().try_for_each(|cell| self.out.line(cell));
        }
        self.rows.extend(rows());
        Ok(())
    }

    /// Prints the rows collected so far, so that a listing that arrives in pages keeps only one
    /// page in memory.
    pub fn end_page(&mut self) -> Result<()> {
        if self.header.is_empty() || self.out.is_json() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let mut lines = Vec::with_capacity(rows.len() + 1);
        let columns = match &self.columns {
            Some(columns) => columns,
            None => {
                let columns = self.columns.insert(Columns::of(self.header, &rows));
                lines.push(columns.line(self.header.iter().copied()));
                columns
            }
        };
        lines.extend(rows.iter().map(|row| columns.line(row.iter().map(String::as_str))));
        self.out.line(&lines.join("\n"))
    }

    /// Ends the listing. `more` says how to see the entries that were left out, if any were.
    pub fn finish(mut self, more: Option<&str>) -> Result<()> {
        self.end_page()?;
        if self.out.is_json() {
            let Some(mut last) = self.held.take().or_else(|| more.map(|_| json!({}))) else {
                return Ok(());
            };
            if more.is_some() {
                last["more"] = true.into();
            }
            return self.out.show(&last, String::new);
        }
        if let Some(way) = more {
            note(&format!("more; {way}"));
        }
        Ok(())
    }

    /// Prints a complete list of entries, as many of them as the limit allows.
    pub fn all<T>(
        mut self,
        items: impl IntoIterator<Item = T>,
        json: impl Fn(&T) -> Value,
        rows: impl Fn(&T) -> Vec<Row>,
    ) -> Result<()> {
        let mut items = items.into_iter();
        for item in items.by_ref().take(self.room) {
            self.push(json(&item), || rows(&item))?;
        }
        self.finish(items.next().map(|_| RAISE_LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_history_has_its_latest_entries() {
        let latest = |limit| Limit { limit }.latest(vec![1, 2, 3]);
        assert_eq!(
            [latest(None), latest(Some(2)), latest(Some(9))],
            [vec![1, 2, 3], vec![2, 3], vec![1, 2, 3]]
        );
        assert!(latest(Some(0)).is_empty());
    }
}
