//! Has dead letters delivered again, once the reason for their failure is gone.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{Error, ObjectId, Request, Result, Store};

use crate::class::own_call;
use crate::format::Resend;
use crate::outbox::read_outbox;

/// Which dead letters of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetters {
    /// All there are.
    All,
    /// Those with these numbers.
    Numbered(BTreeSet<u64>),
}

/// Makes dead letters of an object wait for delivery again, and returns their number. Each is
/// delivered once, on behalf of the entity whose request first sent it. They are delivered in the
/// order of their numbers, and do not wait for the object's other messages. A message that still
/// cannot be delivered becomes a dead letter again.
///
/// # Errors
/// `NotFound` if a number is not that of a dead letter; `Denied` without the right `admin`. After
/// `Unavailable`, some of the dead letters may already wait for delivery.
pub async fn resend(store: &dyn Store, object: &ObjectId, letters: &DeadLetters) -> Result<u64> {
    let dead = read_outbox(store, object).await?.dead;
    let dead: BTreeMap<_, _> =
        dead.into_iter().map(|dead| (dead.message.number, dead.message.source)).collect();
    let numbers = match letters {
        DeadLetters::All => dead.keys().copied().collect(),
        DeadLetters::Numbered(numbers) => numbers.clone(),
    };
    let mut by_source: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for number in &numbers {
        let source = dead.get(number).ok_or_else(|| not_dead(*number, object))?;
        by_source.entry(source).or_default().push(*number);
    }
    for (source, numbers) in by_source {
        let resend = Resend { numbers, source: source.to_owned() };
        store.submit(Request::new(object.clone(), vec![own_call("resend", &resend)?])?).await?;
    }
    Ok(numbers.len() as u64)
}

fn not_dead(number: u64, object: &ObjectId) -> Error {
    Error::not_found(format!("no message {number} was given up"))
        .on(object)
        .hint("see the messages that were given up with `nacre class outbox`; this one may have been sent again")
}
