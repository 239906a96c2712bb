//! `Homes`: remembers which objects exist at home, so that not every routed write has to look.

use std::collections::HashMap;

use nacre_object::ObjectId;

/// How many objects are remembered at least, if so many are used. Each takes some hundred bytes.
const REMEMBERED: usize = 32_768;

/// Objects that exist at home, with their version there.
///
/// Objects are in two maps. When the young map is full, it becomes the old one, and the old one is
/// forgotten. So an object that was not written for long is forgotten. A forgotten object costs
/// one more `stat`.
#[derive(Debug, Default)]
pub(super) struct Homes {
    young: HashMap<ObjectId, u64>,
    old: HashMap<ObjectId, u64>,
}

impl Homes {
    /// The version of an object at home, if it is remembered.
    pub fn get(&self, object: &ObjectId) -> Option<u64> {
        self.young.get(object).or_else(|| self.old.get(object)).copied()
    }

    pub fn insert(&mut self, object: ObjectId, version: u64) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(object, version);
    }

    /// Forgets an object that may have changed at home.
    pub fn remove(&mut self, object: &ObjectId) {
        self.young.remove(object);
        self.old.remove(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_bounded_and_forget_the_objects_that_were_used_first() {
        let mut homes = Homes::default();
        let object = |number: usize| -> ObjectId { format!("p/{number}").parse().unwrap() };
        for number in 0..3 * REMEMBERED {
            homes.insert(object(number), number as u64);
            assert!(homes.young.len() + homes.old.len() <= 2 * REMEMBERED);
        }
        assert_eq!(homes.get(&object(0)), None);
        let last = 3 * REMEMBERED - 1;
        assert_eq!(homes.get(&object(last)), Some(last as u64));
        homes.remove(&object(last));
        assert_eq!(homes.get(&object(last)), None);
    }
}
