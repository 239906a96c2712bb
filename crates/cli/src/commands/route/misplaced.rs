//! Finds rules at a target that does not hold their objects.
//!
//! Each target has a switch, which decides only about the objects that the target holds. So a rule
//! about objects of another target never has an effect. A rule's target is known if the rule gives
//! an exact object name, or a prefix with a complete placement tag, such as `data/{5}*`.

use std::fmt;

use nacre::Cluster;
use nacre_node::EVERY_SWITCH;
use nacre_object::{ApplicationName, ObjectId, TargetName};
use nacre_route::{Insertion, ObjectMatch};

/// A rule that is without effect where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misplaced {
    application: ApplicationName,
    switch: String,
    rule: String,
    object: String,
    /// The target that holds its objects.
    home: TargetName,
}

impl Misplaced {
    /// The misplaced rules of an insertion.
    pub fn of(insertion: &Insertion, cluster: &Cluster) -> Vec<Self> {
        let switch = insertion.switch.as_str();
        if switch == EVERY_SWITCH {
            return vec![];
        }
        let homes = insertion.rules.iter().filter_map(|rule| {
            let home = cluster.locate(&only_home(&rule.header.object)?);
            Some((rule, home))
        });
        let misplaced = homes.filter(|(_, home)| home.as_str() != switch);
        misplaced
            .map(|(rule, home)| Self {
                application: insertion.application.clone(),
                switch: switch.to_owned(),
                rule: rule.to_string(),
                object: rule.header.object.to_string(),
                home,
            })
            .collect()
    }

    /// What to write instead.
    pub fn hint(&self) -> String {
        let Self { application, home, .. } = self;
        format!("write \"application {application} on {home}\"")
    }
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switch, rule, object, home, .. } = self;
        write!(
            f,
            "a rule without effect: the switch of {switch} never meets \"{rule}\", because {home} holds {object}"
        )
    }
}

/// An object on the target that holds all matching objects; `None` if no single target is known to
/// hold them all.
fn only_home(objects: &ObjectMatch) -> Option<ObjectId> {
    let begin = match objects {
        ObjectMatch::Exact(object) => return Some(object.clone()),
        ObjectMatch::Prefix(prefix) => prefix.as_str(),
        ObjectMatch::Pattern(pattern) => pattern.literal_prefix(),
    };
    let (_, name) = begin.split_once('/')?;
    let (tag, _) = name.split_once('{')?.1.split_once('}')?;
    if tag.is_empty() { None } else { begin.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_one_known_target_if_their_name_or_their_placement_tag_is_known() {
        let home = |text: &str| {
            let object = only_home(&ObjectMatch::parse(text).unwrap())?;
            Some(object.name.placement_key().to_owned())
        };
        assert_eq!(home("data/vm1").as_deref(), Some("vm1"));
        assert_eq!(home("data/{5}vm*").as_deref(), Some("5"));
        assert_eq!(home("data/a{5}*b").as_deref(), Some("5"));
        for several in ["data/vm*", "data/{5*", "data/{}*", "data/*{5}", "da*"] {
            assert_eq!(home(several), None, "{several}");
        }
    }
}
