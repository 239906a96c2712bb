//! The directory fragments that an MDS reports: which rank serves each fragment, and its counters.

use nacre_balance::{Unit, UnitRates};
use nacre_object::{Error, Result};
use serde_json::Value;

/// The name of a fragment that covers the whole directory, in Ceph's form INODE.FRAGMENT.
const WHOLE: &str = "*";

/// Which rank serves which subtree.
#[derive(Debug, PartialEq, Eq)]
pub struct Subtrees(Vec<(String, i64)>);

impl Subtrees {
    /// Reads the output of `ceph tell mds.X get subtrees`.
    ///
    /// # Errors
    /// `Corrupt` if it is no list.
    pub fn of(answer: &Value) -> Result<Self> {
        let list = answer
            .as_array()
            .ok_or_else(|| Error::corrupt("the MDS's answer has no list of subtrees"))?;
        let subtree =
            |it: &Value| Some((it["dir"]["path"].as_str()?.to_owned(), it["auth_first"].as_i64()?));
        Ok(Self(list.iter().filter_map(subtree).collect()))
    }

    /// The rank that serves a directory: the rank of the deepest subtree that contains the
    /// directory.
    fn rank_of(&self, path: &str) -> Option<i64> {
        let holds = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let holding = self.0.iter().filter(|(root, _)| holds(root));
        holding.max_by_key(|(root, _)| root.len()).map(|(_, rank)| *rank)
    }
}

/// The fragments that a rank serves, from the answer to `ceph tell mds.X dump loads`. Ceph's
/// internal folders (`~mds0` and so on) are left out.
pub fn units_of(dump: &Value, subtrees: &Subtrees, rank: usize) -> Vec<Unit> {
    let fragments = dump["dirfrags"].as_array().into_iter().flatten();
    let unit = |fragment: &Value| {
        let path = fragment["path"].as_str()?;
        let is_here = subtrees.rank_of(path) == i64::try_from(rank).ok();
        (is_here && !path.starts_with('~')).then(|| Unit {
            name: name_of(path, fragment["dirfrag"].as_str().unwrap_or_default()),
            kind: "dirfrag".to_owned(),
            tenant: String::new(),
            rates: rates_of(&fragment["pop_me"]),
        })
    };
    fragments.filter_map(unit).collect()
}

/// The path, and the fragment unless it is the whole directory.
fn name_of(path: &str, dirfrag: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    match dirfrag.split_once('.') {
        Some((_, fragment)) if !fragment.ends_with(WHOLE) || fragment.len() > 2 => {
            format!("{path}#{fragment}")
        }
        _ => path.to_owned(),
    }
}

/// Reads the five counters: reads, writes, listings, fetches and stores.
pub fn rates_of(counters: &Value) -> UnitRates {
    let counters = counters["Decay Counters"].as_array().into_iter().flatten();
    let mut values = counters.map(|counter| counter["value"].as_f64().unwrap_or_default());
    let mut next = || values.next().unwrap_or_default();
    UnitRates { ird: next(), iwr: next(), readdir: next(), fetch: next(), store: next() }
}

/// The load of a unit by CephFS's own weights of the counters.
pub fn meta_load_of(rates: &UnitRates) -> f64 {
    rates.ird + 2.0 * rates.iwr + rates.readdir + 2.0 * rates.fetch + 4.0 * rates.store
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fragment(path: &str, dirfrag: &str, writes: f64) -> Value {
        let counters = json!([{ "value": 1 }, { "value": writes }, {}, {}, { "value": 3 }]);
        json!({ "path": path, "dirfrag": dirfrag, "pop_me": { "Decay Counters": counters } })
    }

    #[test]
    fn a_fragment_belongs_to_the_rank_of_the_deepest_subtree_that_holds_it() {
        let subtree =
            |path: &str, rank: i64| json!({ "auth_first": rank, "dir": { "path": path } });
        let subtrees =
            json!([subtree("", 0), subtree("/a", 1), subtree("/a/b", 0), subtree("~mds0", 0)]);
        let subtrees = Subtrees::of(&subtrees).unwrap();
        let dump = json!({ "dirfrags": [
            fragment("", "0x1", 0.0), fragment("/a", "0x10000000000.0*", 2.0),
            fragment("/a/b/c", "0x3", 0.0), fragment("/ab", "0x4.1*", 0.0), fragment("~mds0", "0x100", 9.0),
        ] });
        let names = |rank| {
            units_of(&dump, &subtrees, rank).into_iter().map(|unit| unit.name).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["/", "/a/b/c", "/ab"]);
        assert_eq!(names(1), ["/a"]);
        let unit = &units_of(&dump, &subtrees, 1)[0];
        assert_eq!((unit.rates.ird, unit.rates.iwr, unit.rates.store), (1.0, 2.0, 3.0));
        assert_eq!(meta_load_of(&unit.rates), 17.0);
        assert!(Subtrees::of(&json!({})).is_err());
    }
}
