//! `Contents`: what is known of the bytes of objects that pass re-encoding waypoints, so that not
//! every IO has to look.
//!
//! **Invariant:** only what cannot change without the waypoint's knowledge is remembered: that the
//! bytes are encoded or plain, and a lower bound of their end. An object without bytes is not
//! remembered, because another write may give it its first bytes at any time. A request that has the
//! object for itself makes the switch forget the object, before and after.

use std::collections::HashMap;

use nacre_object::ObjectId;
use nacre_route::{Content, Mark};

/// How many objects are remembered at least, if so many are used. Each takes some hundred bytes.
const REMEMBERED: usize = 16_384;

/// The bytes of objects. As in `Homes`, the objects that were not used for long are forgotten.
#[derive(Debug, Default)]
pub(super) struct Contents {
    young: HashMap<ObjectId, Known>,
    old: HashMap<ObjectId, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    /// The mark of the waypoint that has looked.
    by: Mark,
    content: Content,
}

impl Contents {
    /// What the object has, if a waypoint with the same code has looked.
    pub fn get(&self, object: &ObjectId, own: &Mark) -> Option<Content> {
        let known = self.young.get(object).or_else(|| self.old.get(object))?;
        known.by.is_same_code(own).then(|| known.content.clone())
    }

    /// Notes what an object has, unless more is known.
    pub fn note(&mut self, object: &ObjectId, own: &Mark, content: &Content) {
        let is_lasting = matches!(content, Content::Encoded { .. } | Content::Plain { .. });
        if is_lasting && self.get(object, own).is_none() {
            self.insert(object, Known { by: own.clone(), content: content.clone() });
        }
    }

    /// Notes that an encoded object has bytes up to `until`.
    pub fn grew(&mut self, object: &ObjectId, own: &Mark, until: u64) {
        let end = match self.get(object, own) {
            Some(Content::Encoded { end }) => end.max(until),
            Some(Content::Plain { .. }) => return,
            _ => until,
        };
        self.insert(object, Known { by: own.clone(), content: Content::Encoded { end } });
    }

    /// Forgets an object.
    pub fn forget(&mut self, object: &ObjectId) {
        self.young.remove(object);
        self.old.remove(object);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn insert(&mut self, object: &ObjectId, known: Known) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object.clone(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_with_bytes_are_remembered_and_their_end_never_shrinks() {
        let mark = |digest: &str| Mark {
            program: "w".parse().unwrap(),
            version: 1,
            digest: digest.to_owned(),
        };
        let (own, other) = (mark("aa"), mark("bb"));
        let object: ObjectId = "p/o".parse().unwrap();
        let mut contents = Contents::default();
        contents.note(&object, &own, &Content::Empty { is_marked: true });
        assert_eq!(contents.get(&object, &own), None);
        contents.grew(&object, &own, 10);
        contents.note(&object, &own, &Content::Encoded { end: 4 });
        contents.grew(&object, &own, 6);
        assert_eq!(contents.get(&object, &own), Some(Content::Encoded { end: 10 }));
        assert_eq!(contents.get(&object, &other), None, "other code looks for itself");
        contents.forget(&object);
        assert_eq!(contents.get(&object, &own), None);
        contents.note(&object, &own, &Content::Plain { end: 4 });
        contents.grew(&object, &own, 6);
        assert_eq!(contents.get(&object, &own), Some(Content::Plain { end: 4 }));
    }
}
