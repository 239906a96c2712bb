//! Repeats a measurement until enough of its rounds were quiet. The host of a virtual machine may
//! take processor time from it (*stolen* time). A round with too much stolen time does not count.

use nacre_object::{Error, Result};
use nacre_terminal::out::note;

use crate::processor_times::ProcessorTimes;

/// A round in which the host took more than this part of the time is discarded.
const MOST_STOLEN: f64 = 0.01;
/// How many rounds are tried at most for each round that the user asked for.
const TRIES: usize = 4;

/// The results of quiet rounds.
pub(super) struct QuietRounds<T> {
    /// One for each quiet round.
    pub kept: Vec<T>,
    /// How many rounds were discarded.
    pub discarded: usize,
}

/// Measures rounds until this many of them were quiet. `measure` gets the number of the round, from
/// 0.
///
/// # Errors
/// Those of `measure`; `Exhausted` if too many rounds were not quiet.
pub(super) async fn quiet_rounds<T>(
    rounds: usize,
    mut measure: impl AsyncFnMut(usize) -> Result<T>,
) -> Result<QuietRounds<T>> {
    let mut quiet = QuietRounds { kept: vec![], discarded: 0 };
    for round in 0..rounds * TRIES {
        let then = ProcessorTimes::now()?;
        let result = measure(round).await?;
        let stolen = ProcessorTimes::now()?.stolen_since(then);
        if stolen > MOST_STOLEN {
            quiet.discarded += 1;
            note(&format!("discarded: {:.1}% of the time was stolen", stolen * 100.0));
            continue;
        }
        quiet.kept.push(result);
        if quiet.kept.len() == rounds {
            return Ok(quiet);
        }
    }
    let most = MOST_STOLEN * 100.0;
    Err(Error::exhausted(format!("in too many rounds more than {most}% of the time was stolen"))
        .hint("measure when other machines on this host do less"))
}
