//! Placement seeds: groups of objects that one OSD serves. An object's seed follows from its name.
//!
//! RADOS hashes an object's name; the low bits of the hash are the number of its placement group.
//! These bits are the object's seed. Other modules store facts about an OSD under the seeds of its
//! objects. In a pool of up to [`SEEDS`] placement groups, a fact holds for all objects with the
//! same seed.

use nacre_object::ObjectId;

/// The number of different seeds.
pub const SEEDS: usize = 4096;
/// Between a namespace and a name, as RADOS has them.
const SEPARATOR: u8 = 0x1f;

/// The low bits of an object's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacementSeed(u16);

impl PlacementSeed {
    /// The seed of an object of nacre: its pool is a namespace of RADOS.
    pub fn of(object: &ObjectId) -> Self {
        let (namespace, name) = (object.pool.as_str(), object.name.as_str());
        let hash = rjenkins(&[namespace.as_bytes(), &[SEPARATOR], name.as_bytes()].concat());
        Self((hash as usize % SEEDS) as u16)
    }

    /// The number of the placement group, in a pool of `groups` groups (`ceph_stable_mod`).
    pub fn group_of(self, groups: u32) -> u32 {
        let groups = groups.max(1);
        let mask = groups.next_power_of_two() - 1;
        let (all, fewer) = (u32::from(self.0) & mask, u32::from(self.0) & (mask >> 1));
        if all < groups { all } else { fewer }
    }

    /// From 0 to [`SEEDS`].
    pub fn number(self) -> usize {
        self.0.into()
    }
}

/// Robert Jenkins' hash of 1996, as RADOS places objects by it (`ceph_str_hash_rjenkins`).
fn rjenkins(text: &[u8]) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let word = |bytes: &[u8]| {
        let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0)) << (8 * at);
        (0..4).fold(0_u32, |word, at| word | byte(at))
    };
    let [mut a, mut b, mut c] = [GOLDEN, GOLDEN, 0];
    let mut parts = text.chunks_exact(12);
    for part in &mut parts {
        a = a.wrapping_add(word(&part[..4]));
        b = b.wrapping_add(word(&part[4..8]));
        c = c.wrapping_add(word(&part[8..]));
        [a, b, c] = mixed([a, b, c]);
    }
    let rest = parts.remainder();
    let behind = |start: usize| rest.get(start..).unwrap_or_default();
    // The lowest byte of the last word is the length's.
    c = c.wrapping_add(text.len() as u32).wrapping_add(word(behind(8)) << 8);
    a = a.wrapping_add(word(rest));
    b = b.wrapping_add(word(behind(4)));
    mixed([a, b, c])[2]
}

fn mixed([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for [right, left, last] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> right);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << left);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> last);
    }
    [a, b, c]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ceph osd map` shows this hash.
    #[test]
    fn the_hash_of_a_name_equals_that_of_rados() {
        assert_eq!(rjenkins(b"foo"), 0x7fc1_f406);
    }

    /// Tests pools whose number of groups is a power of two, and a pool of 12 groups. There are no
    /// groups 12 to 15 in that pool, so if four low bits give such a number, RADOS uses three bits.
    #[test]
    fn every_group_of_a_pool_gets_objects_if_their_number_is_no_power_of_two() {
        let seed = |low: u16| PlacementSeed(low);
        assert_eq!((seed(0x406).group_of(8), seed(0x406).group_of(16)), (6, 6));
        assert_eq!(
            (seed(11).group_of(12), seed(12).group_of(12), seed(15).group_of(12)),
            (11, 4, 7)
        );
        assert_eq!(seed(0xfff).group_of(1), 0);
    }
}
