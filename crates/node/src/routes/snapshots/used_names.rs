//! The names of snapshots that rules have used. A name is used once, because objects may still have
//! snapshots of an earlier use, which would be read as those of the later use.

use std::collections::BTreeMap;

use nacre_object::{Error, Result};
use nacre_route::{Destination, ObjectMatch, Rule};
use serde::{Deserialize, Serialize};

/// How many names are remembered. A rule that makes a snapshot every hour needs as many in five weeks.
/// They are one value of the map.
const MAX_USED: usize = 1024;

/// Names in the order of their first use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::routes) struct UsedNames(Vec<String>);

/// The names of each rule that keeps snapshots, by its objects, the newest last.
type Names<'a> = BTreeMap<String, (&'a ObjectMatch, Vec<String>)>;

fn names_in(rules: &[(String, Vec<Rule>)]) -> Names<'_> {
    let mut all = Names::new();
    for rule in rules.iter().flat_map(|(_, rules)| rules) {
        if let Destination::Snapshots(names) = &rule.destination {
            let names = names.iter().map(ToString::to_string);
            let of = all.entry(rule.header.object.to_string());
            of.or_insert_with(|| (&rule.header.object, vec![])).1.extend(names);
        }
    }
    all
}

/// What all names of the objects begin with.
fn literal(objects: &ObjectMatch) -> String {
    match objects {
        ObjectMatch::Exact(object) => object.to_string(),
        ObjectMatch::Prefix(prefix) => prefix.clone(),
        ObjectMatch::Pattern(pattern) => pattern.literal_prefix().to_owned(),
    }
}

/// Refuses two rules that may keep snapshots of the same object, because each would drop what the
/// other keeps.
fn check_apart(names: &Names<'_>) -> Result<()> {
    let all: Vec<_> = names.values().map(|(objects, _)| (objects, literal(objects))).collect();
    for (at, (objects, literal)) in all.iter().enumerate() {
        let meets = |(_, other): &&(_, String)| {
            other.starts_with(literal.as_str()) || literal.starts_with(other.as_str())
        };
        if let Some((other, _)) = all[..at].iter().find(meets) {
            return Err(Error::unsupported(format!(
                "rules about {other} and about {objects} may keep snapshots of the same object"
            ))
            .during("route")
            .hint("write one rule for all of them"));
        }
    }
    Ok(())
}

/// Refuses to take a name out of a rule while older names stay. The state of an object at an older
/// name may be kept under a newer one.
fn check_oldest_first(before: &[String], after: &[String]) -> Result<()> {
    let kept: Vec<_> = before.iter().filter(|name| after.contains(name)).collect();
    let dropped = before.len() - kept.len();
    let is_in_order = kept.iter().copied().eq(&before[dropped..])
        && kept.iter().copied().eq(&after[..kept.len()]);
    match is_in_order {
        true => Ok(()),
        false => Err(Error::conflict("a rule drops or moves a snapshot while an older one stays")
            .during("route")
            .hint("drop the oldest names first, and add new ones at the end")),
    }
}

impl UsedNames {
    /// The names after rules `before` are replaced by rules `after`; `None` if they stay the same.
    ///
    /// # Errors
    /// `Conflict` if rules use a name that was used before, or drop one while an older one stays;
    /// `Unsupported` if two rules may keep snapshots of the same object.
    pub fn with(
        &self,
        before: &[(String, Vec<Rule>)],
        after: &[(String, Vec<Rule>)],
    ) -> Result<Option<Self>> {
        let (before, after) = (names_in(before), names_in(after));
        check_apart(&after)?;
        let mut new = vec![];
        for (objects, (_, names)) in &after {
            let former = before.get(objects).map_or(&[][..], |(_, names)| names);
            check_oldest_first(former, names)?;
            new.extend(names.iter().filter(|name| !former.contains(name)).cloned());
        }
        new.sort();
        new.dedup();
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
    fn names_are_dropped_from_the_oldest_on() {
        let used = UsedNames::default();
        let check = |before: &str, after: &str| used.with(&rules(before), &rules(after));
        check("a,b,c", "b,c").unwrap();
        check("a,b,c", "c,d").unwrap();
        check("a,b", "c").unwrap();
        for (before, after) in [("a,b", "a"), ("a,b", "b,a"), ("a,b", "a,c"), ("a", "b,a")] {
            let error = check(before, after).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{before} {after}");
        }
    }

    #[test]
    fn two_rules_about_the_same_objects_are_refused_and_a_name_is_not_used_for_others() {
        let rule = |objects: &str| {
            let line = format!("* * {objects} -> snapshots monday");
            Rule::from_line(&"tests".parse().unwrap(), &line).unwrap()
        };
        let all = |objects: &[&str]| {
            let rules = objects.iter().map(|one| rule(one)).collect();
            vec![("every".to_owned(), rules)]
        };
        let none = UsedNames::default();
        let used = none.with(&[], &all(&["data/a*", "data/b*"])).unwrap().unwrap();
        let error = none.with(&[], &all(&["data/a*", "data/ab*"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = used.with(&all(&["data/ab*"]), &all(&["data/a*"])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "a rule about more objects");
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
