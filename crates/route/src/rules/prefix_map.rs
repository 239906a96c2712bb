//! `PrefixMap`: values by prefix. It finds the values of all prefixes of a string.

use std::collections::BTreeMap;
use std::ops::Bound;

/// A sorted map of prefixes, used like a trie. Finding all prefixes of a string takes at most one
/// step for each stored prefix that begins like the string. Other entries cost nothing.
#[derive(Debug, Clone)]
pub struct PrefixMap<V>(BTreeMap<String, V>);

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
        self.0.entry(prefix.to_owned()).or_default()
    }

    /// The value of exactly this prefix.
    pub fn get_mut(&mut self, prefix: &str) -> Option<&mut V> {
        self.0.get_mut(prefix)
    }

    /// Removes a value.
    pub fn remove(&mut self, prefix: &str) {
        self.0.remove(prefix);
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `found` with the value of each prefix of `text`.
    pub fn each_prefix_of<'a>(&'a self, text: &str, mut found: impl FnMut(&'a V)) {
        let mut bound = Bound::Included(text);
        // Look at the greatest key up to `bound`. If it is no prefix of `text`, the two have only
        // their first bytes in common. No remaining prefix of `text` is longer than these bytes,
        // because it would be a greater key.
        while let Some((key, value)) = self.0.range::<str, _>((Bound::Unbounded, bound)).next_back()
        {
            let shared = shared_length(key, text);
            bound = match shared == key.len() {
                true => {
                    found(value);
                    Bound::Excluded(&text[..shared])
                }
                false => Bound::Included(&text[..shared]),
            };
        }
    }
}

/// The number of bytes in the longest common prefix that ends between two characters.
fn shared_length(a: &str, b: &str) -> usize {
    let mut shared = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !b.is_char_boundary(shared) {
        shared -= 1;
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(keys: &[&str], text: &str) -> Vec<String> {
        let mut map = PrefixMap::<String>::default();
        for key in keys {
            *map.entry(key) = (*key).to_owned();
        }
        let mut found = vec![];
        map.each_prefix_of(text, |key| found.push(key.clone()));
        found
    }

    #[test]
    fn exactly_the_prefixes_of_a_string_are_found() {
        let keys = ["", "a", "ab", "abd", "abz", "b", "abcé", "abcê"];
        assert_eq!(prefixes(&keys, "abcéx"), ["abcé", "ab", "a", ""]);
        assert_eq!(prefixes(&keys, "b"), ["b", ""]);
        assert_eq!(prefixes(&keys[1..], "c"), Vec::<String>::new());
    }
}
