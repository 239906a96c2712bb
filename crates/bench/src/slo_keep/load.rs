//! The load of `slo-keep`: tenants that keep to their rate, and one that writes as fast as it can.
//! Every compared system gets the same load.
//!
//! A conforming tenant sends at the times that its rate sets, whether or not earlier requests have
//! been answered. A latency counts from the time at which the request was due. So a stall adds to
//! the latencies of all requests that were due during it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre::Object;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};
use nacre_rados::PlainClient;
use tokio::task::JoinSet;

use super::tally::Tally;
use super::tenants::{Conduct, TENANTS, Tenant};

/// A conforming tenant sends at this part of the rate that it asked for.
const USED_RATE: f64 = 0.9;
/// How many requests the bursting tenant has in flight for each of its objects.
const REQUESTS_OF_AN_OBJECT: usize = 8;
/// How long the bursting tenant waits after a failed request.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the burst runs before the measurement begins. It has filled all queues by then.
const SETTLE: Duration = Duration::from_secs(3);

/// An object, and the client that writes it.
#[derive(Debug, Clone)]
pub(super) enum WriteTarget {
    /// An object that is written through nacre.
    Nacre(Object),
    /// An object on Ceph that is written without nacre, by its name.
    Rados(PlainClient, String),
}

impl WriteTarget {
    /// Replaces the object's bytes, durably.
    pub async fn write(&self, data: Bytes) -> Result<()> {
        match self {
            Self::Nacre(object) => object.write_full(data).await,
            Self::Rados(client, object) => client.write_full(object, data).await,
        }
    }
}

/// The objects that each tenant writes. Neighbours are on different targets.
pub(super) type WriteTargets = [Vec<WriteTarget>; TENANTS.len()];

/// Lets all tenants send requests, and measures them for `span`. The measurement begins when the
/// burst has filled the queues.
///
/// # Errors
/// `Unavailable` if a task of the load ends early. A failed request is only counted.
pub(super) async fn play(
    places: &WriteTargets,
    rates: [f64; TENANTS.len()],
    span: Duration,
) -> Result<[Tally; TENANTS.len()]> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let from = clock.monotonic() + SETTLE;
    let window = Window { from, to: from + span, is_over: Arc::default() };
    let mut work = JoinSet::new();
    let tallies = TENANTS.map(|_| Arc::new(Mutex::new(Tally::of(span))));
    for (((tenant, places), rate), tally) in TENANTS.iter().zip(places).zip(rates).zip(&tallies) {
        let writer = Writer {
            tenant: *tenant,
            places: places.clone(),
            data: Bytes::from(vec![0x5a; tenant.bytes as usize]),
            clock: Arc::clone(&clock),
            window: window.clone(),
            tally: Arc::clone(tally),
        };
        match tenant.conduct {
            Conduct::Conforms => drop(work.spawn(writer.keep_to(rate))),
            Conduct::Bursts => {
                for place in 0..places.len() * REQUESTS_OF_AN_OBJECT {
                    work.spawn(writer.clone().hammer(place % places.len()));
                }
            }
        }
    }
    tokio::time::sleep(SETTLE + span).await;
    window.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = work.join_next().await {
        ended.map_err(|cause| Error::unavailable(format!("the load was cut off: {cause}")))?;
    }
    Ok(tallies.map(|tally| tally.lock().unwrap_or_else(PoisonError::into_inner).clone()))
}

/// The time in which requests count.
#[derive(Debug, Clone)]
struct Window {
    from: Duration,
    to: Duration,
    is_over: Arc<AtomicBool>,
}

impl Window {
    fn holds(&self, time: Duration) -> bool {
        self.from <= time && time < self.to
    }
}

/// Sends a tenant's requests, and counts them.
#[derive(Debug, Clone)]
struct Writer {
    tenant: Tenant,
    places: Vec<WriteTarget>,
    data: Bytes,
    clock: Arc<dyn Clock>,
    window: Window,
    tally: Arc<Mutex<Tally>>,
}

impl Writer {
    /// Sends bursts of requests, at [`USED_RATE`] times `rate`. A burst has as many requests as the
    /// tenant may send at once.
    async fn keep_to(self, rate: f64) {
        let period = Duration::from_secs_f64(f64::from(self.tenant.burst) / (rate * USED_RATE));
        let mut due = self.window.from;
        let mut requests = JoinSet::new();
        let mut places = (0..self.places.len()).cycle();
        while due < self.window.to && !self.window.is_over.load(Ordering::Relaxed) {
            tokio::time::sleep(due.saturating_sub(self.clock.monotonic())).await;
            for place in places.by_ref().take(self.tenant.burst as usize) {
                let writer = self.clone();
                requests.spawn(async move { writer.write(place, due).await });
            }
            while requests.try_join_next().is_some() {}
            due += period;
        }
        requests.join_all().await;
    }

    /// Writes one object again and again. Sends each request as soon as the previous one is
    /// answered.
    async fn hammer(self, place: usize) {
        while !self.window.is_over.load(Ordering::Relaxed) {
            let sent = self.clock.monotonic();
            if self.write(place, sent).await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Writes once, and counts the request if it belongs to the measured time. A request of a
    /// conforming tenant must be due in this time. A request of the bursting tenant must end in it.
    async fn write(&self, place: usize, due: Duration) -> Result<()> {
        let outcome = self.places[place].write(self.data.clone()).await;
        let now = self.clock.monotonic();
        let counts = match self.tenant.conduct {
            Conduct::Conforms => self.window.holds(due),
            Conduct::Bursts => self.window.holds(now),
        };
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if counts {
            tally.count(now.saturating_sub(due), outcome.is_ok());
        }
        if outcome.is_ok() && self.window.holds(now) {
            tally.add_bytes(self.tenant.bytes);
        }
        outcome
    }
}
