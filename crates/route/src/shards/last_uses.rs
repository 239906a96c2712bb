//! `LastUses`: the time of each block's last use, to count how many blocks were used since a time.
//!
//! [`super::ExactCurve`] computes reuse distances with it for all blocks, and [`super::Shards`] for
//! the sampled blocks.

/// The times of last uses, numbered from 1.
#[derive(Debug)]
pub(super) struct LastUses {
    /// A Fenwick tree: `tree[i]` counts the last uses at the times from `i` minus its lowest set
    /// bit (exclusive) to `i`. `tree[0]` is not used.
    tree: Vec<u32>,
    count: u32,
}

impl Default for LastUses {
    fn default() -> Self {
        Self { tree: vec![0], count: 0 }
    }
}

impl LastUses {
    /// Adds a use that is later than all others. Returns its time.
    pub fn add(&mut self) -> usize {
        let now = self.tree.len();
        // The new entry counts itself and the earlier times that its lowest set bit covers.
        let lowest = now & now.wrapping_neg();
        let below = self.sum(now - 1) - self.sum(now - lowest);
        self.tree.push(below + 1);
        self.count += 1;
        now
    }

    /// Removes the use of a time.
    pub fn remove(&mut self, time: usize) {
        self.count -= 1;
        let mut at = time;
        while at < self.tree.len() {
            self.tree[at] -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many uses are later than this time.
    pub fn since(&self, time: usize) -> u32 {
        self.count - self.sum(time)
    }

    /// The number of times in the tree, including those of removed uses.
    pub fn places(&self) -> usize {
        self.tree.len() - 1
    }

    fn sum(&self, mut at: usize) -> u32 {
        let mut sum = 0;
        while at > 0 {
            sum += self.tree[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_uses_after_a_time_ignores_removed_uses() {
        let mut uses = LastUses::default();
        for time in 1..=100 {
            assert_eq!(uses.add(), time);
        }
        for even in (2..=100).step_by(2) {
            uses.remove(even);
        }
        for time in 1..=100 {
            let later_and_odd = (time + 1..=100).filter(|later| later % 2 == 1).count();
            assert_eq!(uses.since(time) as usize, later_and_odd, "after {time}");
        }
        assert_eq!((uses.add(), uses.since(100), uses.places()), (101, 1, 101));
    }
}
