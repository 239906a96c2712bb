//! Follows a numbered history without silently missing an item. Watchers of maps and of the cluster
//! log use it. This module does no IO.
//!
//! A source (the history of a map, or the cluster log) numbers its items 1, 2, 3, … and keeps only
//! the newest. A follower remembers the number of the last item that it has read. When a
//! notification says that the source has changed, the follower takes new items from the
//! notification, or reads them from the source. If the source no longer keeps the next item, or has
//! started over, the follower reads the source's whole state and continues from there.
//!
//! **Invariant:** a follower always gets either the next item or the source's whole state.

use std::collections::VecDeque;

/// Part of a source's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page<Item> {
    /// The newest number there is; 0 if there has been none.
    pub(crate) last: u64,
    /// Items in order, from the first after the number asked for.
    pub(crate) items: Vec<(u64, Item)>,
}

/// The follower's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step<Item> {
    /// Give this to the reader.
    Deliver(Item),
    /// Read the items after this number.
    ReadAfter(u64),
    /// Read the whole state.
    ReadWhole,
    /// Nothing until the source stirs.
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lag {
    /// The source may hold more than was read.
    Behind,
    /// The source no longer keeps the next item.
    Missed,
    /// No notification came since the newest item was read.
    Level,
}

/// The follower's state.
#[derive(Debug)]
pub(crate) struct CatchUp<Item> {
    /// The number of the newest item that was read, or that the whole state contained.
    read: u64,
    /// Read and not delivered yet.
    ready: VecDeque<Item>,
    lag: Lag,
}

impl<Item> CatchUp<Item> {
    /// A follower that knows everything up to `number`.
    pub(crate) fn after(number: u64) -> Self {
        Self { read: number, ready: VecDeque::new(), lag: Lag::Behind }
    }

    /// A follower that knows nothing and starts with the whole state.
    pub(crate) fn from_whole() -> Self {
        Self { read: 0, ready: VecDeque::new(), lag: Lag::Missed }
    }

    /// The source may have changed.
    pub(crate) fn stirred(&mut self) {
        if self.lag == Lag::Level {
            self.lag = Lag::Behind;
        }
    }

    /// Takes the items that a notification contained. If they are not the next items (notifications
    /// may be late, repeated or lost), the follower reads the source instead.
    pub(crate) fn told(&mut self, page: Page<Item>) {
        if self.lag == Lag::Missed {
            return;
        }
        self.take(page.items);
        if page.last != self.read {
            self.lag = Lag::Behind;
        }
    }

    fn take(&mut self, items: Vec<(u64, Item)>) {
        for (number, item) in items {
            if number == self.read + 1 {
                self.read = number;
                self.ready.push_back(item);
            }
        }
    }

    /// Takes what [`Step::ReadAfter`] found.
    pub(crate) fn page(&mut self, page: Page<Item>) {
        let before = self.read;
        self.take(page.items);
        self.lag = match page.last {
            last if last == self.read => Lag::Level,
            last if last > self.read && self.read > before => Lag::Behind,
            // The source has dropped the next item, or has started over.
            _ => Lag::Missed,
        };
    }

    /// Takes what [`Step::ReadWhole`] found: everything up to `number`.
    pub(crate) fn whole(&mut self, number: u64, item: Item) {
        self.read = number;
        self.ready.push_back(item);
        self.lag = Lag::Behind;
    }

    /// The follower's next step.
    pub(crate) fn step(&mut self) -> Step<Item> {
        match (self.ready.pop_front(), self.lag) {
            (Some(item), _) => Step::Deliver(item),
            (None, Lag::Behind) => Step::ReadAfter(self.read),
            (None, Lag::Missed) => Step::ReadWhole,
            (None, Lag::Level) => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_clock::Random;

    /// A source that keeps the newest so many numbers.
    struct Numbers {
        last: u64,
        keeps: u64,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Told {
        Number(u64),
        WholeUpTo(u64),
    }

    impl Numbers {
        fn page(&self, after: u64, limit: usize) -> Page<Told> {
            let first_kept = (self.last + 1).saturating_sub(self.keeps).max(1);
            let numbers = (after + 1).max(first_kept)..=self.last;
            let items = numbers.take(limit).map(|number| (number, Told::Number(number))).collect();
            Page { last: self.last, items }
        }

        /// Does one step of a follower. Returns what the follower delivered, or `None` if it waits.
        fn serve(&self, follower: &mut CatchUp<Told>, limit: usize) -> Option<Option<Told>> {
            match follower.step() {
                Step::Deliver(told) => return Some(Some(told)),
                Step::ReadAfter(number) => follower.page(self.page(number, limit)),
                Step::ReadWhole => follower.whole(self.last, Told::WholeUpTo(self.last)),
                Step::Wait => return None,
            }
            Some(None)
        }
    }

    fn follow_randomly(seed: u64) -> Vec<Told> {
        let mut random = Random::seeded(seed);
        let mut source = Numbers { last: random.below(20), keeps: 1 + random.below(8) };
        let mut follower = CatchUp::after(random.below(30));
        let mut position = follower.read;
        let mut delivered = Vec::new();
        let mut deliver = |told| {
            position = match told {
                Told::Number(number) => {
                    assert_eq!(number, position + 1, "seed {seed}");
                    number
                }
                Told::WholeUpTo(number) => number,
            };
            delivered.push(told);
            position
        };
        let mut at = 0;
        for _ in 0..500 {
            match random.below(5) {
                0 => {
                    source.last += random.below(4);
                    follower.stirred();
                }
                1 => follower.stirred(),
                // Told anything, at any time.
                2 => {
                    let after = random.below(source.last + 1);
                    follower.told(source.page(after, 1 + random.below(5) as usize));
                }
                _ => {
                    let told = source.serve(&mut follower, 1 + random.below(5) as usize).flatten();
                    at = told.map_or(at, &mut deliver);
                }
            }
        }
        while let Some(told) = source.serve(&mut follower, 3) {
            at = told.map_or(at, &mut deliver);
        }
        assert_eq!(at, source.last, "seed {seed}");
        delivered
    }

    #[test]
    fn a_follower_gets_every_item_in_order_or_the_whole_state() {
        let told: Vec<_> = (0..300).flat_map(follow_randomly).collect();
        let wholes = told.iter().filter(|told| matches!(told, Told::WholeUpTo(_))).count();
        assert!(wholes > 300 && told.len() > 3 * wholes, "{wholes} wholes of {}", told.len());
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert_eq!(follow_randomly(42), follow_randomly(42));
    }

    #[test]
    fn a_follower_that_has_read_the_whole_state_continues_from_there() {
        let mut source = Numbers { last: 4, keeps: 2 };
        let mut follower = CatchUp::from_whole();
        let tell = |source: &Numbers, follower: &mut CatchUp<Told>| -> Vec<_> {
            std::iter::from_fn(|| source.serve(follower, 10)).flatten().collect()
        };
        assert_eq!(tell(&source, &mut follower), [Told::WholeUpTo(4)]);
        source.last = 5;
        follower.stirred();
        assert_eq!(tell(&source, &mut follower), [Told::Number(5)]);
    }

    #[test]
    fn a_follower_reads_the_source_if_a_notification_skips_items() {
        let source = Numbers { last: 3, keeps: 3 };
        let mut follower = CatchUp::after(1);
        follower.page(Page { last: 1, items: vec![] });
        follower.told(Page { last: 2, items: vec![(2, Told::Number(2))] });
        follower.told(Page { last: 2, items: vec![(2, Told::Number(2))] });
        assert_eq!(follower.step(), Step::Deliver(Told::Number(2)));
        assert_eq!(follower.step(), Step::Wait, "nobody need be asked");
        follower.told(Page { last: 4, items: vec![(4, Told::Number(4))] });
        assert_eq!(follower.step(), Step::ReadAfter(2));
        follower.page(source.page(2, 10));
        assert_eq!(follower.step(), Step::Deliver(Told::Number(3)));
    }

    #[test]
    fn a_source_that_started_over_is_read_whole() {
        let source = Numbers { last: 2, keeps: 5 };
        let mut follower = CatchUp::after(9);
        let told: Vec<_> =
            std::iter::from_fn(|| source.serve(&mut follower, 10)).flatten().collect();
        assert_eq!(told, [Told::WholeUpTo(2)]);
    }
}
