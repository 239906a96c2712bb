//! Makes a workload that resembles the requests of a running class.
//!
//! The class counts its calls by method and size. For a sample of the requests it also counts how
//! many different values each column had, and their bounds ([`nacre_class::CallsSeen`]). The
//! workload is made as follows:
//!
//! | observed | in the workload |
//! |---|---|
//! | the requests of one method and size | one line of the mix, weighted by their number |
//! | a column of numbers that hardly change, unless it is a key column of a table | the greatest number |
//! | numbers that rise or hardly repeat, in the method that adds most rows | `next` |
//! | the same numbers in another method | `used` |
//! | other numbers | `below` the greatest number |
//! | strings | strings of the same length, with as many different values |
//!
//! Columns of the same name in several methods are assumed to have the same values, unless they are
//! keys.
//! For example, the method that seals an epoch and the requests under that epoch must use the same
//! epoch. Otherwise the class would refuse all requests.
//!
//! Anything that cannot be observed is assumed, and the workload lists the assumptions.

mod asked;
mod columns;
mod lines;
mod objects;
#[cfg(test)]
mod tests;

use nacre_brados::Compiled;
use nacre_class::CallsSeen;
use nacre_object::{Error, Result};

use crate::workload::{Column, MAX_CONCURRENCY, MAX_OBJECTS, Workload};
use asked::{Asked, asked};
use columns::{Role, column_of, counting_method, settings, settled};
use lines::{fill, lines};
use objects::{ASSUMED_OBJECTS, ASSUMED_ROWS};
pub use objects::{Objects, Rows};

/// The most rows with which an object is filled. With more rows, its transactions would make the
/// same accesses.
const MAX_ROWS: u64 = 4096;

/// A workload that asks as was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// The workload.
    pub workload: Workload,
    /// The assumptions, for what was not observed.
    pub assumed: Vec<String>,
}

/// Makes the workload from the counted calls of a class.
///
/// # Errors `NotFound` if no call was counted.
pub fn workload_of(compiled: &Compiled, seen: &CallsSeen, objects: Objects) -> Result<Derived> {
    let asked: Vec<Asked<'_>> = asked(compiled, seen);
    if asked.iter().all(|method| method.seen.requests == 0) {
        return Err(Error::not_found("no call of the class has been counted yet")
            .hint("call its methods while it is live on a node, then try again"));
    }
    let (counting, settings) = (counting_method(&asked), settings(&asked));
    let columns = |method: &Asked<'_>| -> Vec<Column> {
        let role = match counting {
            Some(counting) if counting == method.name => Role::Counts,
            Some(_) => Role::Uses,
            None => Role::Alone,
        };
        let columns = method.columns.iter().zip(&method.seen.columns);
        let column_of = |(asking, column)| column_of(method, asking, column, &settings, role);
        columns.map(column_of).collect()
    };
    let before = |method: &Asked<'_>| -> Vec<Column> {
        let columns = method.columns.iter().zip(columns(method));
        columns.map(|(asking, column)| settled(asking, column, &settings)).collect()
    };
    let all = seen.requests() as f64;
    let now = asked.iter().filter(|method| method.seen.requests > 0);
    let mix = now.flat_map(|method| lines(method, &columns(method), all)).collect();
    let (count, rows) = objects.assumed();
    let workload = Workload {
        objects: clamp(count, MAX_OBJECTS),
        concurrency: clamp(seen.concurrency().round() as u64, MAX_CONCURRENCY),
        fill: fill(&asked, before, rows.clamp(1, MAX_ROWS)),
        mix,
    };
    Ok(Derived { workload, assumed: assumed(&asked, objects) })
}

/// The assumptions in a workload that were not observed.
fn assumed(asked: &[Asked<'_>], objects: Objects) -> Vec<String> {
    let mut assumed = vec![];
    if objects.rows.counted().is_none() {
        assumed.push(format!("each object has {ASSUMED_ROWS} rows"));
    }
    if objects.count.is_none() {
        assumed.push(format!("there are {ASSUMED_OBJECTS} objects"));
    }
    assumed.push(
        "all objects get as many requests, and requests that add rows filled them".to_owned(),
    );
    let has_text = |method: &Asked<'_>| method.seen.columns.iter().any(|column| column.bytes > 0);
    if asked.iter().any(has_text) {
        assumed.push("only the length and number of strings matters, not their content".to_owned());
    }
    assumed
}

fn clamp(number: u64, most: usize) -> usize {
    (number as usize).clamp(1, most)
}
