//! `Worker`: a client that carries out operations, one after another, on a mount of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nacre_cephfs::CephFsClient;
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{Error, Result};
use tokio::sync::oneshot;

use super::operations::Operation;

/// A client with what it has created.
#[derive(Debug)]
pub(super) struct Worker {
    client: Arc<CephFsClient>,
    number: usize,
    random: Random,
    created: BTreeMap<String, u64>,
    latencies: Vec<Duration>,
}

impl Worker {
    /// A client with this number, which no other client of the round has.
    pub fn new(client: CephFsClient, number: usize, seed: u64) -> Self {
        Self {
            client: Arc::new(client),
            number,
            random: Random::seeded(seed.wrapping_add(number as u64)),
            created: BTreeMap::new(),
            latencies: vec![],
        }
    }

    /// How long its operations took, in order.
    pub fn latencies(&self) -> &[Duration] {
        &self.latencies
    }

    /// Carries out operations.
    ///
    /// # Errors
    /// The first that fails ends the rest.
    pub fn carry_out(&mut self, operations: &[Operation]) -> Result<()> {
        let clock = SystemClock::default();
        for operation in operations {
            let began = clock.monotonic();
            self.carry_out_one(operation)?;
            self.latencies.push(clock.monotonic().saturating_sub(began));
        }
        Ok(())
    }

    fn carry_out_one(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Create(directory) => {
                let created = self.created.entry(directory.clone()).or_default();
                *created += 1;
                self.client.create(&file(directory, self.number, *created))
            }
            Operation::Open(directory) => match self.created.get(directory) {
                Some(created) => {
                    let chosen = 1 + self.random.below(*created);
                    self.client.open(&file(directory, self.number, chosen))
                }
                None => self.client.list(&root(directory)).map(drop),
            },
            Operation::List(directory) => self.client.list(&root(directory)).map(drop),
        }
    }
}

/// A directory's path.
pub(super) fn root(directory: &str) -> String {
    format!("/{directory}")
}

fn file(directory: &str, client: usize, number: u64) -> String {
    format!("/{directory}/client{client}.file{number}")
}

/// Runs a blocking call of libcephfs in a separate thread, which the process abandons if the caller
/// is interrupted. The call may wait for ever for a dead cluster, and this must not keep the
/// process from ending.
pub(super) async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || drop(sender.send(work())));
    receiver.await.unwrap_or_else(|_| Err(Error::unavailable("a client of CephFS panicked")))
}
