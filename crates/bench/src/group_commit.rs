//! Group commit for the baselines. Waiting tasks pass their records to one thread. The thread makes
//! all of them durable with one sync, and wakes the tasks.
//!
//! Of the designs that were tried, this one was the fastest for small records. When one of the
//! waiting threads or tasks commits for its group, the rate on two cores is a third.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{Error, Result};
use tokio::sync::oneshot;

use crate::load;
use crate::wire::Exchange;

/// A record whose task waits until it is durable.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The key of the record that this one replaces, in a store with keys.
    pub key: u64,
    pub value: Bytes,
}

/// Makes groups of records durable.
pub(crate) trait Sink: Send + 'static {
    /// Returns once all of them are.
    ///
    /// # Errors
    /// `Unavailable` if the disk fails.
    fn commit(&mut self, group: &[Record]) -> Result<()>;
}

/// The tasks that write, and their records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writers<'a> {
    /// Tasks, each of which waits for its record.
    pub count: usize,
    /// Of a record, in bytes.
    pub size: usize,
    /// Keys that records have.
    pub keys: u64,
    /// Exchanges that a writer makes before each record, one after the other.
    pub exchanges: &'a [Exchange],
}

impl Writers<'_> {
    /// Makes records durable for a while.
    ///
    /// # Errors
    /// Those of the sink, and of [`Exchange::once`].
    pub async fn run(&self, sink: impl Sink, span: Duration) -> Result<load::Outcome> {
        let (sender, receiver) = mpsc::channel();
        let committer = std::thread::spawn(move || commit_all(sink, &receiver));
        let (keys, value) = (self.keys, Bytes::from(vec![7; self.size]));
        let outcome = load::run(self.count, span, |worker| {
            let (sender, value) = (sender.clone(), value.clone());
            let mut random = Random::seeded(worker as u64);
            let exchanges: Arc<[Exchange]> = self.exchanges.into();
            move |_| {
                let record = Record { key: random.below(keys), value: value.clone() };
                let (sender, exchanges) = (sender.clone(), Arc::clone(&exchanges));
                async move {
                    for exchange in exchanges.iter() {
                        exchange.once().await?;
                    }
                    let (done, durable) = oneshot::channel();
                    sender.send((record, done)).map_err(|_| ended())?;
                    durable.await.map_err(|_| ended())
                }
            }
        });
        let outcome = outcome.await;
        drop(sender);
        // Return the committer's own error first, because it says why the committer ended.
        committer.join().map_err(|_| ended())??;
        outcome
    }
}

/// A record, and the channel that tells its task that it is durable.
type Waiting = (Record, oneshot::Sender<()>);

/// Commits the waiting records, group by group, until all senders are gone.
fn commit_all(mut sink: impl Sink, receiver: &mpsc::Receiver<Waiting>) -> Result<()> {
    while let Ok(first) = receiver.recv() {
        let waiting = std::iter::once(first).chain(receiver.try_iter());
        let (group, waiters): (Vec<_>, Vec<_>) = waiting.unzip();
        sink.commit(&group)?;
        for waiter in waiters {
            // A task that ended with its runtime does not wait any more.
            let _ = waiter.send(());
        }
    }
    Ok(())
}

fn ended() -> Error {
    Error::unavailable("the thread that makes records durable has ended")
}
