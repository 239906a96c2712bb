//! Counts the requests of a live class: totals since the class became live, and the columns of
//! recent requests.
//!
//! The counts of a column are bounds and set bits ([`CallCounts`]). Single requests cannot be
//! subtracted from them, so old requests are forgotten by dropping all counts together. There are
//! two *generations* of counts, so that one remains. New calls are counted in the present
//! generation. The previous generation is still read, and still counts the calls that began in it.
//! When the present generation has enough samples, a new generation begins. Of the oldest
//! generation only the totals are kept.
//!
//! **Invariants.** Totals never decrease. The columns of a method describe its most recent
//! requests, at least [`ENOUGH_SAMPLES`] of them. So a rarely used method keeps its old samples for
//! longer.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use nacre_brados::Kind;
use nacre_brados::ir::Program;

use crate::call_counts::CallCounts;
use crate::calls_seen::{CallsSeen, MethodSeen};

/// A generation ends when a method has this many samples. With more samples, almost all bits of a
/// column's bitmap would be set, and would no longer tell how many different values there were.
const GENERATION_SAMPLES: u64 = 4096;
/// With this many newer samples of a method, older samples are not needed.
const ENOUGH_SAMPLES: u64 = 256;

/// The counts of a class since it was first made live here.
#[derive(Debug)]
pub(crate) struct Counting {
    /// The class's inputs, from which new counters are made.
    inputs: Program,
    generations: RwLock<Generations>,
}

#[derive(Debug)]
struct Generations {
    /// The totals of older generations, with the columns of methods that were rarely called since.
    before: CallsSeen,
    former: Arc<CallCounts>,
    present: Arc<CallCounts>,
}

impl Counting {
    pub fn of(program: &Program) -> Self {
        let inputs = program.of_kind(Kind::Input).map(|id| program.collection(id).clone());
        let inputs = Program { collections: inputs.collect(), ..Program::default() };
        let empty = || Arc::new(CallCounts::of(&inputs));
        let (former, present) = (empty(), empty());
        let generations = Generations { before: CallsSeen::default(), former, present };
        Self { inputs, generations: RwLock::new(generations) }
    }

    /// The counters for calls that begin now.
    pub fn present(&self) -> Arc<CallCounts> {
        Arc::clone(&self.read().present)
    }

    /// Whether the other class has the same methods. If so, its counts can be continued.
    pub fn counts_the_same(&self, other: &Self) -> bool {
        self.read().present.counts_the_same(&other.present())
    }

    /// Reads the counts. First begins a new generation if the present one is full. Readers do this,
    /// so that a call never waits for the lock while it is counted.
    pub fn seen(&self) -> CallsSeen {
        if self.read().is_full() {
            let mut generations = self.generations.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have begun a generation meanwhile.
            if generations.is_full() {
                generations.turn(CallCounts::of(&self.inputs));
            }
        }
        let generations = self.read();
        let mut seen = generations.before.clone();
        seen.add(&generations.former.seen());
        seen.add(&generations.present.seen());
        seen
    }

    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.generations.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn is_full(&self) -> bool {
        let present = self.present.seen();
        present.methods.values().any(|method| method.looked_into() >= GENERATION_SAMPLES)
    }

    fn turn(&mut self, next: CallCounts) {
        let present = self.present.seen();
        self.before.add(&self.former.seen());
        for (name, method) in &mut self.before.methods {
            if present.methods.get(name).map_or(0, MethodSeen::looked_into) >= ENOUGH_SAMPLES {
                method.columns.clear();
            }
        }
        self.former = std::mem::replace(&mut self.present, Arc::new(next));
    }
}

#[cfg(test)]
mod tests {
    use nacre_brados::{Value, compile};
    use nacre_calls::encode_request;
    use nacre_object::ClassCall;

    use super::*;

    const PROGRAM: &str = "state do
  table :kv, [:at:int] => [:epoch:int]
  interface input, :put, [:at:int, :epoch:int]
  interface input, :drop, [:at:int]
end
bloom do
  kv <+- put
  kv <- (drop * kv).rights(:at => :at)
end
";
    /// This many requests fill more than a generation.
    const MANY: u64 = 64 * GENERATION_SAMPLES;

    fn counting() -> Counting {
        Counting::of(&compile(PROGRAM).unwrap().analysis.program)
    }

    fn ask(counting: &Counting, method: &str, row: &[i64]) {
        let row: Vec<_> = row.iter().map(|number| Value::Int(*number)).collect();
        let (class, method) = ("kv".parse().unwrap(), method.parse().unwrap());
        let call = ClassCall { class, method, version: None, input: encode_request(&row).into() };
        CallCounts::begin(&counting.present(), &call).unwrap();
    }

    #[test]
    fn columns_are_counted_for_recent_requests_and_totals_forever() {
        let counting = counting();
        for epoch in 0..20 {
            ask(&counting, "put", &[0, epoch]);
        }
        ask(&counting, "drop", &[7]);
        let mut before = 0;
        for at in 0..3 * MANY {
            ask(&counting, "put", &[at as i64, 20]);
            if at % 1000 == 0 {
                let requests = counting.seen().requests();
                assert!(requests > before, "{requests} after {before}");
                before = requests;
            }
        }
        let seen = counting.seen();
        let (put, drop) = (&seen.methods["put"], &seen.methods["drop"]);
        assert_eq!((put.requests, drop.requests, seen.met), (3 * MANY + 20, 1, 3 * MANY + 21));
        let epoch = &put.columns[1];
        assert_eq!((epoch.range, epoch.distinct(), epoch.risen), (Some((20, 20)), 1.0, 2));
        let looked_into = GENERATION_SAMPLES..3 * GENERATION_SAMPLES;
        assert!(looked_into.contains(&put.looked_into()), "{}", put.looked_into());
        // A rarely called method keeps its samples, however old they are.
        assert_eq!((drop.looked_into(), drop.columns[0].range), (1, Some((7, 7))));
    }

    #[test]
    fn a_call_that_began_in_an_old_generation_is_still_counted() {
        let counting = counting();
        let began = counting.present();
        for _ in 0..MANY {
            ask(&counting, "put", &[1, 1]);
        }
        assert_eq!(counting.seen().requests(), MANY);
        assert!(!Arc::ptr_eq(&began, &counting.present()), "another began");
        let class = "kv".parse().unwrap();
        let input = encode_request(&[Value::Int(1)]).into();
        let call = ClassCall { class, method: "drop".parse().unwrap(), version: None, input };
        CallCounts::begin(&began, &call).unwrap();
        assert_eq!(counting.seen().requests(), MANY + 1);
    }
}
