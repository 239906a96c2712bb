//! What loads share that compare each read with the acknowledged writes.

use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{ErrorKind, Result};
use tokio::time::sleep;

/// A failed request is sent again after this time.
const RETRY: Duration = Duration::from_millis(50);

/// Sends a request until it is answered: a node may be away for a moment, or be overloaded.
///
/// # Errors
/// Those of the request; `Unavailable` only after `patience`.
pub async fn until_answered<T, F: Future<Output = Result<T>>>(
    clock: &dyn Clock,
    patience: Duration,
    request: impl Fn() -> F,
) -> Result<T> {
    let until = clock.monotonic() + patience;
    loop {
        match request().await {
            Err(error) if error.kind() == ErrorKind::Unavailable && clock.monotonic() < until => {
                sleep(RETRY).await;
            }
            answer => return answer,
        }
    }
}

/// The number that fills a block of bytes, as little-endian words of 8 bytes; `None` if none does.
pub fn value_of_block(block: &[u8]) -> Option<u64> {
    let first: [u8; 8] = block.get(..8)?.try_into().ok()?;
    block.chunks(8).all(|part| part == first).then(|| u64::from_le_bytes(first))
}
