//! A reading of a class's counts. Nodes exchange readings in JSON.

use std::collections::BTreeMap;

use nacre_telemetry::HistogramSnapshot;
use serde::{Deserialize, Serialize};

/// The number of 64-bit words in a column's bitmap. Each value of the column sets one bit, which
/// its hash selects. From the number of set bits, up to some thousand different values can be
/// estimated.
pub(crate) const MARK_WORDS: usize = 16;
/// If a bitmap has fewer unset bits than this, the number of different values cannot be estimated:
/// five thousand values set almost the same bits as a million.
const LEAST_FREE: f64 = 8.0;

/// The counted calls of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsSeen {
    /// The methods, by name.
    pub methods: BTreeMap<String, MethodSeen>,
    /// The sum over all requests of the calls in flight when the request arrived, its own included.
    pub met: u64,
}

/// The counted requests of a method.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodSeen {
    /// The number of requests.
    pub requests: u64,
    /// The bytes of all requests.
    pub bytes: u64,
    /// How many requests had a size of up to one byte, up to two, up to four, and so on. The last
    /// number also counts all longer requests.
    pub sizes: Vec<u64>,
    /// The values in the columns of recent requests, in the order of the columns.
    pub columns: Vec<ColumnSeen>,
}

/// The values of one column over the sampled requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSeen {
    /// The number of sampled requests.
    pub seen: u64,
    /// In how many of them the value was nil.
    pub nils: u64,
    /// The least and the greatest number, if there were numbers. Booleans count as 0 and 1.
    pub range: Option<(i64, i64)>,
    /// How many times a number was greater than all before it.
    pub risen: u64,
    /// The bytes of all strings.
    pub bytes: u64,
    /// The bits that values set; a value's hash selects its bit.
    pub marks: Vec<u64>,
}

impl CallsSeen {
    /// The number of requests of all methods.
    pub fn requests(&self) -> u64 {
        self.methods.values().map(|method| method.requests).sum()
    }

    /// How many calls were in flight on average; 1 if there were no calls.
    pub fn concurrency(&self) -> f64 {
        match self.requests() {
            0 => 1.0,
            requests => (self.met as f64 / requests as f64).max(1.0),
        }
    }

    /// Adds the counts of another node.
    pub fn add(&mut self, other: &Self) {
        self.met += other.met;
        for (name, seen) in &other.methods {
            self.methods.entry(name.clone()).or_default().add(seen);
        }
    }

    /// Adds the counts of a later period. Replaces the columns by the later ones instead of adding
    /// them: the columns of both periods describe recent requests, so some requests would count
    /// twice.
    pub fn extend(&mut self, later: &Self) {
        for (name, seen) in &later.methods {
            if let Some(before) = self.methods.get_mut(name) {
                before.columns = vec![ColumnSeen::default(); seen.columns.len()];
            }
        }
        self.add(later);
    }

    /// Returns the counts since `before`, which is an earlier reading of the same counts. If the
    /// counts were reset after `before`, returns all counts of this reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let method = |(name, seen): (&String, &MethodSeen)| {
            let before = before.methods.get(name);
            (name.clone(), before.map_or_else(|| seen.clone(), |before| seen.since(before)))
        };
        let methods = self.methods.iter().map(method).collect();
        Self { methods, met: less(self.met, before.met) }
    }
}

impl MethodSeen {
    /// How many recent requests were sampled.
    pub fn looked_into(&self) -> u64 {
        self.columns.first().map_or(0, |column| column.seen)
    }

    /// Its requests by their size in bytes.
    pub fn request_bytes(&self) -> HistogramSnapshot {
        let last = self.sizes.len().saturating_sub(1);
        let bound = |at: usize| if at == last { f64::MAX } else { (at as f64).exp2() };
        let sizes = self.sizes.iter().enumerate();
        HistogramSnapshot {
            buckets: sizes.map(|(at, count)| (bound(at), *count)).collect(),
            sum: self.bytes as f64,
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        add_each(&mut self.sizes, &other.sizes);
        self.columns.resize(self.columns.len().max(other.columns.len()), ColumnSeen::default());
        self.columns.iter_mut().zip(&other.columns).for_each(|(one, other)| one.add(other));
    }

    fn since(&self, before: &Self) -> Self {
        let sizes = self.sizes.iter().enumerate();
        let before_at = |at: usize| before.sizes.get(at).copied().unwrap_or_default();
        Self {
            requests: less(self.requests, before.requests),
            bytes: less(self.bytes, before.bytes),
            sizes: sizes.map(|(at, count)| less(*count, before_at(at))).collect(),
            // Bounds and marks cannot be subtracted, so the columns describe recent requests.
            columns: self.columns.clone(),
        }
    }
}

impl ColumnSeen {
    /// Adds the counts of another reading of the column.
    pub fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.nils += other.nils;
        self.risen += other.risen;
        self.bytes += other.bytes;
        self.range = match (self.range, other.range) {
            (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
            (one, other) => one.or(other),
        };
        self.marks.resize(self.marks.len().max(other.marks.len()), 0);
        self.marks.iter_mut().zip(&other.marks).for_each(|(one, other)| *one |= other);
    }

    /// Estimates how many different values there were. The method is linear counting: each value
    /// set one bit, which its hash selected. Returns infinity if almost all bits are set, because
    /// then no estimate is possible.
    pub fn distinct(&self) -> f64 {
        let set: u32 = self.marks.iter().map(|word| word.count_ones()).sum();
        let all = (MARK_WORDS * u64::BITS as usize) as f64;
        let free = all - f64::from(set);
        match free < LEAST_FREE {
            true => f64::INFINITY,
            false => (-all * (free / all).ln()).round(),
        }
    }
}

/// A count that is less than before was reset by a restart of its process.
fn less(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn add_each(to: &mut Vec<u64>, from: &[u64]) {
    to.resize(to.len().max(from.len()), 0);
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(requests: u64, marks: u64) -> CallsSeen {
        let column = ColumnSeen {
            seen: requests,
            range: Some((-(requests as i64), requests as i64)),
            marks: vec![marks],
            ..ColumnSeen::default()
        };
        let method = MethodSeen {
            requests,
            bytes: 10 * requests,
            sizes: vec![0, requests],
            columns: vec![column],
        };
        CallsSeen { methods: [("put".to_owned(), method)].into(), met: 2 * requests }
    }

    #[test]
    fn the_counts_of_nodes_add_up() {
        let mut all = CallsSeen::default();
        [seen(3, 1), seen(5, 2)].iter().for_each(|one| all.add(one));
        let put = &all.methods["put"];
        assert_eq!((put.requests, put.bytes, &put.sizes[..]), (8, 80, &[0, 8][..]));
        assert_eq!((put.columns[0].range, put.columns[0].distinct()), (Some((-5, 5)), 2.0));
        assert_eq!(all.concurrency(), 2.0);
    }

    #[test]
    fn a_difference_of_readings_is_right_even_if_the_counts_began_anew() {
        let later = seen(9, 3).since(&seen(4, 1));
        assert_eq!((later.requests(), later.met, later.methods["put"].bytes), (5, 10, 50));
        assert_eq!(seen(2, 1).since(&seen(4, 1)).requests(), 2);
        assert_eq!(CallsSeen::default().concurrency(), 1.0);
    }

    #[test]
    fn a_later_readings_columns_replace_earlier_ones() {
        let readings = [seen(4, 1), seen(9, 3), seen(300, 2)];
        let mut all = readings[0].clone();
        all.extend(&readings[1].since(&readings[0]));
        all.extend(&readings[2].since(&readings[1]));
        assert_eq!(all, readings[2]);
        all.extend(&CallsSeen::default());
        assert_eq!(all, readings[2], "a reading without it tells nothing of a method");
    }

    #[test]
    fn the_estimate_of_different_values_is_infinite_when_too_few_bits_are_free() {
        let column = |marks: Vec<u64>| ColumnSeen { marks, ..ColumnSeen::default() };
        assert_eq!(column(vec![]).distinct(), 0.0);
        let mut marks = vec![u64::MAX; MARK_WORDS];
        assert_eq!(column(marks.clone()).distinct(), f64::INFINITY);
        marks[0] >>= 7;
        assert_eq!(column(marks.clone()).distinct(), f64::INFINITY);
        marks[0] >>= 1;
        assert_eq!(column(marks).distinct(), 4968.0);
    }

    #[test]
    fn requests_are_counted_in_a_histogram_of_their_sizes() {
        let told = seen(3, 1).methods["put"].request_bytes();
        assert_eq!(told, HistogramSnapshot { buckets: vec![(1.0, 0), (f64::MAX, 3)], sum: 30.0 });
    }

    #[test]
    fn a_reading_can_be_sent_and_read() {
        let told = serde_json::to_string(&seen(3, u64::MAX)).unwrap();
        assert_eq!(serde_json::from_str::<CallsSeen>(&told).unwrap(), seen(3, u64::MAX));
    }
}
