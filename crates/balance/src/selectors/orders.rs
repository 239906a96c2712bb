//! `Orders`: the units of a rank, sorted in the orders that the selectors need. Each order is
//! sorted only once for a decision, even if there are many targets.

use std::cell::{Cell, OnceCell};

use super::Selector;

/// The units of a rank, and the orders that selectors asked for.
#[derive(Debug)]
pub(crate) struct Orders<'a> {
    loads: &'a [f64],
    big_first: OnceCell<Order>,
    small_first: OnceCell<Order>,
}

/// Units in an order.
#[derive(Debug)]
struct Order {
    units: Vec<u32>,
    /// What comes before it has moved.
    first: Cell<usize>,
}

impl Order {
    /// Units by their keys, those of equal keys in the order of the units.
    fn by(key: impl Fn(f64) -> u64, loads: &[f64]) -> Self {
        let keyed = loads.iter().enumerate().map(|(at, load)| (key(*load), at as u32));
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        let units = keyed.into_iter().map(|(_, at)| at).collect();
        Self { units, first: Cell::new(0) }
    }

    fn drop_moved(&self, is_left: &[bool]) {
        let moved = self.units[self.first.get()..].iter().take_while(|at| !is_left[**at as usize]);
        self.first.set(self.first.get() + moved.count());
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.units[self.first.get()..].iter().map(|at| *at as usize)
    }
}

/// A number that is greater for a greater load.
fn rising(load: f64) -> u64 {
    let bits = load.to_bits();
    match load.is_sign_negative() {
        true => !bits,
        false => bits | 1 << 63,
    }
}

impl<'a> Orders<'a> {
    /// The units that have these loads.
    pub fn new(loads: &'a [f64]) -> Self {
        Self { loads, big_first: OnceCell::new(), small_first: OnceCell::new() }
    }

    /// Removes the units that have moved from all orders.
    pub fn drop_moved(&self, is_left: &[bool]) {
        for order in [&self.big_first, &self.small_first] {
            order.get().inspect(|order| order.drop_moved(is_left));
        }
    }

    /// The candidates that a selector chooses. A selector that stops at the target chooses units
    /// until the sum of their loads is at least the target. Units of equal load keep their order.
    pub fn choose(
        &self,
        selector: Selector,
        is_candidate: impl Fn(usize) -> bool,
        target: f64,
    ) -> Vec<usize> {
        let is_candidate = |at: &usize| is_candidate(*at);
        let half = || (0..self.loads.len()).filter(is_candidate).count() / 2;
        match selector {
            Selector::BigFirst => self.until(target, self.big_first().filter(is_candidate)),
            Selector::SmallFirst => self.until(target, self.small_first().filter(is_candidate)),
            Selector::BigSmall => {
                let mut left = self.big_first().filter(is_candidate);
                let mut is_big = false;
                let in_turn = std::iter::from_fn(move || {
                    is_big = !is_big;
                    if is_big { left.next() } else { left.next_back() }
                });
                self.until(target, in_turn)
            }
            Selector::Half => (0..self.loads.len()).filter(is_candidate).take(half()).collect(),
            Selector::BigHalf => self.big_first().filter(is_candidate).take(half()).collect(),
            Selector::SmallHalf => self.small_first().filter(is_candidate).take(half()).collect(),
        }
    }

    fn big_first(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.big_first.get_or_init(|| Order::by(|load| !rising(load), self.loads)).iter()
    }

    fn small_first(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.small_first.get_or_init(|| Order::by(rising, self.loads)).iter()
    }

    /// The units of an order up to the one with which their sum reaches the target.
    fn until(&self, target: f64, order: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut sum = 0.0;
        let is_below = |at: &usize| {
            let is_below = sum < target;
            sum += self.loads[*at];
            is_below
        };
        order.take_while(is_below).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_moved_is_not_chosen_again() {
        let loads = [1.0, 4.0, 2.0, 3.0, 0.5];
        let orders = Orders::new(&loads);
        let mut is_left = [true; 5];
        let mut choose = |selector, target| {
            orders.drop_moved(&is_left);
            let chosen = orders.choose(selector, |at| is_left[at], target);
            chosen.iter().for_each(|at| is_left[*at] = false);
            chosen
        };
        assert_eq!(choose(Selector::BigFirst, 5.0), [1, 3]);
        assert_eq!(choose(Selector::SmallFirst, 0.5), [4]);
        assert_eq!(choose(Selector::BigSmall, 9.0), [2, 0]);
        assert!(choose(Selector::BigFirst, 1.0).is_empty());
    }

    #[test]
    fn the_order_of_loads_is_the_order_of_numbers() {
        let loads = [-1.0, -0.0, 0.0, 1e-300, 0.5, 2.0, 1e300];
        assert!(loads.map(rising).is_sorted(), "{:?}", loads.map(rising));
    }
}
