//! `PrefixMap`: values by prefix. It finds the values of all prefixes of a string.

use std::collections::BTreeMap;

use crate::fast_hash::FastHashMap;

/// A hash table for each length of prefixes. Finding all prefixes of a string takes one look-up for
/// each length that occurs. It does not depend on how many prefixes there are.
#[derive(Debug, Clone)]
pub struct PrefixMap<V>(BTreeMap<usize, FastHashMap<String, V>>);

impl<V> Default for PrefixMap<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> PrefixMap<V> {
    /// The value of exactly this prefix. It is created if it is missing.
    pub fn entry(&mut self, prefix: &str) -> &mut V
    where
        V: Default,
    {
        self.0.entry(prefix.len()).or_default().entry(prefix.to_owned()).or_default()
    }

    /// The value of exactly this prefix.
    pub fn get_mut(&mut self, prefix: &str) -> Option<&mut V> {
        self.0.get_mut(&prefix.len())?.get_mut(prefix)
    }

    /// Removes a value.
    pub fn remove(&mut self, prefix: &str) {
        let Some(same_length) = self.0.get_mut(&prefix.len()) else { return };
        same_length.remove(prefix);
        if same_length.is_empty() {
            self.0.remove(&prefix.len());
        }
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of all prefixes of `text`, the longest prefix first.
    pub fn prefixes_of(&self, text: &str) -> impl Iterator<Item = &V> {
        let same_lengths = self.0.range(..=text.len()).rev();
        // No prefix ends within a character, where `get` finds nothing.
        same_lengths.filter_map(|(length, prefixes)| prefixes.get(text.get(..*length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(keys: &[&str], text: &str) -> Vec<String> {
        let mut map = PrefixMap::<String>::default();
        for key in keys {
            *map.entry(key) = (*key).to_owned();
        }
        map.prefixes_of(text).cloned().collect()
    }

    #[test]
    fn exactly_the_prefixes_of_a_string_are_found() {
        let keys = ["", "a", "ab", "abd", "abz", "b", "abcé", "abcê"];
        assert_eq!(prefixes(&keys, "abcéx"), ["abcé", "ab", "a", ""]);
        assert_eq!(prefixes(&keys, "b"), ["b", ""]);
        assert_eq!(prefixes(&keys[1..], "c"), Vec::<String>::new());
    }
}
