//! The names of snapshots that rules have used. A name is used once, because objects may still have
//! snapshots of an earlier use, which would be read as those of the later use.

use std::collections::BTreeSet;

use nacre_object::{Error, Result};
use nacre_route::{Destination, Rule};
use serde::{Deserialize, Serialize};

/// How many names are remembered. A rule that makes a snapshot every hour needs as many in five weeks.
/// They are one value of the map.
const MAX_USED: usize = 1024;

/// Names in the order of their first use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsedNames(Vec<String>);

/// The names of snapshots in rules.
fn names_in(rules: &[(String, Vec<Rule>)]) -> BTreeSet<String> {
    let destinations = rules.iter().flat_map(|(_, rules)| rules).map(|rule| &rule.destination);
    let names = destinations.flat_map(|to| match to {
        Destination::Snapshots(names) => names.as_slice(),
        _ => &[],
    });
    names.map(ToString::to_string).collect()
}

impl UsedNames {
    /// The names after rules `before` are replaced by rules `after`; `None` if they stay the same.
    ///
    /// # Errors
    /// `Conflict` if rules use a name that was used before.
    pub fn with(
        &self,
        before: &[(String, Vec<Rule>)],
        after: &[(String, Vec<Rule>)],
    ) -> Result<Option<Self>> {
        let (before, after) = (names_in(before), names_in(after));
        let new: Vec<_> = after.difference(&before).cloned().collect();
        if let Some(name) = new.iter().find(|name| self.0.contains(name)) {
            let text = format!("the snapshot name {name} was used before");
            return Err(Error::conflict(text)
                .during("route")
                .hint("choose another name, such as one with the date"));
        }
        if new.is_empty() {
            return Ok(None);
        }
        let mut all: Vec<_> = self.0.iter().cloned().chain(new).collect();
        all.drain(..all.len().saturating_sub(MAX_USED));
        Ok(Some(Self(all)))
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    fn rules(names: &str) -> Vec<(String, Vec<Rule>)> {
        let line = format!("* * data/a* -> snapshots {names}");
        let rule = Rule::from_line(&"tests".parse().unwrap(), &line).unwrap();
        vec![("every".to_owned(), vec![rule])]
    }

    #[test]
    fn a_name_is_used_once() {
        let none = UsedNames::default();
        let first = none.with(&[], &rules("monday")).unwrap().unwrap();
        assert_eq!(first.with(&rules("monday"), &rules("monday")).unwrap(), None);
        let second = first.with(&rules("monday"), &rules("monday,tuesday")).unwrap().unwrap();
        assert_eq!(second.with(&rules("monday,tuesday"), &rules("tuesday")).unwrap(), None);
        let again = second.with(&rules("tuesday"), &rules("tuesday,monday")).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Conflict);
        assert!(second.with(&[], &rules("tuesday")).is_err(), "the rule was removed meanwhile");
    }

    #[test]
    fn only_the_latest_names_are_remembered() {
        let mut used = UsedNames::default();
        for number in 0..MAX_USED + 3 {
            used = used.with(&[], &rules(&format!("s{number}"))).unwrap().unwrap();
        }
        assert_eq!(used.0.len(), MAX_USED);
        assert!(used.with(&[], &rules("s3")).is_err());
    }
}
