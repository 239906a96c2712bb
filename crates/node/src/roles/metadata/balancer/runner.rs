//! `Runner`: goes from tick to tick.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::RoleName;
use nacre_balance::{
    BalancerSettings, Decision, Heartbeat, History, Inputs, KeptState, Mode, MoveOutcome,
    NodeTraits, Policy, Progress, Round, TickRecord,
};
use nacre_object::{Error, NodeName, ProgramName, Result};
use nacre_registry::{Event, ProgramKind, ProgramSite, Severity};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::balancer_state::BalancerState;
use super::meter::Meter;
use super::service::HEARTBEAT;
use super::{BALANCER_SERVICE, BalancerContext, Heard};

/// The time between two samples of the units' counters: well below the counters' half-life.
const SAMPLE: Duration = Duration::from_secs(1);

/// Goes from tick to tick.
pub(super) struct Runner {
    context: BalancerContext,
    heard: Arc<Heard>,
    history: History,
    meter: Meter,
    /// The operator's settings for this node.
    traits: NodeTraits,
    /// The program and version whose failure was reported last. Each failure is reported once.
    reported: Option<(String, u64)>,
}

/// The settings that one tick needs.
struct Tick {
    number: u64,
    /// When it began.
    began: Instant,
    length: Duration,
    policy: ProgramName,
}

impl Runner {
    /// # Errors
    /// As [`History::of`].
    pub fn new(context: BalancerContext, heard: Arc<Heard>) -> Result<Self> {
        let history = History::of(context.cluster.store().clone(), &context.node)?;
        let meter = Meter::new(context.units.clone());
        let traits = NodeTraits::default();
        Ok(Self { context, heard, history, meter, traits, reported: None })
    }

    /// Returns when nobody follows the settings any more.
    pub async fn run(mut self, mut known: watch::Receiver<BalancerState>) {
        loop {
            let BalancerState { settings, traits } = known.borrow_and_update().clone();
            let BalancerSettings { policy, tick } = settings;
            self.traits = traits;
            // Ticks are counted from 1970, so all ranks give a tick the same number.
            let now_micros = self.context.clock.now_micros();
            let tick_micros = tick.as_micros() as u64;
            let number = now_micros / tick_micros + 1;
            let rest = Duration::from_micros(number * tick_micros - now_micros);
            let began = Instant::now() + rest;
            tokio::select! {
                () = self.sample_until(began) => {}
                changed = known.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            }
            if let Some(policy) = policy {
                self.tick(&Tick { number, began, length: tick, policy }).await;
            }
        }
    }

    async fn sample_until(&mut self, end: Instant) {
        loop {
            let next = (Instant::now() + SAMPLE).min(end);
            tokio::time::sleep_until(next).await;
            self.meter.sample(self.context.clock.monotonic());
            if next == end {
                return;
            }
        }
    }

    /// Decides, keeps the decision, and carries it out.
    async fn tick(&mut self, tick: &Tick) {
        let mut record = TickRecord {
            tick: tick.number,
            at_micros: self.context.clock.now_micros(),
            policy: tick.policy.to_string(),
            ..TickRecord::default()
        };
        let decided = self.decide(tick, &mut record).await;
        self.close(tick.number);
        let kept = match decided {
            Ok(decision) => {
                let policy = tick.policy.to_string();
                let kept = KeptState { policy, state: decision.state.clone() };
                record.decision = Some(decision);
                Some(kept)
            }
            Err(error) => {
                self.report(tick, &record, &error).await;
                record.failure = Some(error.to_string());
                None
            }
        };
        // The history comes first: a decision that cannot be recorded is not carried out.
        if self.history.keep(&record, kept.as_ref()).await.is_err() {
            return;
        }
        if let Some(decision) = &record.decision
            && !decision.moves.is_empty()
        {
            record.outcomes = self.carry_out(tick, decision, &record.inputs).await;
            // If this fails, the moves have happened nevertheless. The views of the logs show them.
            let _ = self.history.keep(&record, None).await;
        }
    }

    /// # Errors
    /// Why nothing moves at this tick.
    async fn decide(&mut self, tick: &Tick, record: &mut TickRecord) -> Result<Decision> {
        let policy = self.context.policies.get(tick.policy.as_str()).ok_or_else(|| {
            Error::not_found(format!(
                "the policy balancer/{} is not live on this node",
                tick.policy
            ))
            .hint(format!("see why: nacre program status balancer/{}", tick.policy))
        })?;
        record.version = policy.version();
        let now = self.context.clock.monotonic();
        let units = self.meter.units(now);
        let rates = units.iter().map(|unit| unit.rates).collect();
        let unit_loads = self.measure(&policy, rates).await?;
        let ranks = self.ranks().await?;
        // The sum of nothing is -0.
        let load = unit_loads.iter().sum::<f64>() + 0.0;
        let mut load = self.meter.rank_load(self.context.node.as_str(), load);
        self.traits.tell(&mut load);
        let heartbeat = Heartbeat {
            tick: tick.number,
            policy: tick.policy.to_string(),
            version: policy.version(),
            ranks: ranks.iter().map(ToString::to_string).collect(),
            load,
        };
        self.send(&heartbeat, &ranks, tick.length / 4).await?;
        let Round { whoami, ranks, .. } = self.complete(tick).await?;
        let kept = self.history.state().await?;
        let state = if kept.policy == record.policy { kept.state } else { Default::default() };
        let inputs = Inputs { tick: tick.number, whoami, ranks, units, unit_loads, state };
        record.inputs = inputs.clone();
        let clock = Arc::clone(&self.context.clock);
        in_thread(move || policy.decide(&inputs, &clock)).await
    }

    async fn measure(
        &self,
        policy: &Arc<Policy>,
        rates: Vec<nacre_balance::UnitRates>,
    ) -> Result<Vec<f64>> {
        let (policy, clock) = (Arc::clone(policy), Arc::clone(&self.context.clock));
        in_thread(move || policy.measure(&rates, &clock)).await
    }

    /// The nodes that can serve units and are up, by name.
    async fn ranks(&self) -> Result<Vec<NodeName>> {
        let role = RoleName::Metadata.as_str();
        let nodes = self.context.cluster.nodes().list().await?;
        let is_rank = |node: &nacre::Node| node.up && node.roles.iter().any(|own| own == role);
        let mut ranks: Vec<_> = nodes.into_iter().filter(is_rank).map(|node| node.name).collect();
        ranks.sort();
        Ok(ranks)
    }

    /// Sends a heartbeat to all ranks (metadata nodes) at once. A rank that does not receive the
    /// heartbeat moves nothing at this tick.
    async fn send(
        &self,
        heartbeat: &Heartbeat,
        ranks: &[NodeName],
        patience: Duration,
    ) -> Result<()> {
        let input: Bytes = serde_json::to_vec(heartbeat)
            .map_err(|cause| Error::corrupt(format!("the heartbeat cannot be encoded: {cause}")))?
            .into();
        self.heard.hear(heartbeat.clone());
        let transport = &self.context.cluster.log_env().sequencers;
        let others = ranks.iter().filter(|rank| **rank != self.context.node);
        let sent = others.map(|rank| {
            let asked = transport.ask(rank, BALANCER_SERVICE, HEARTBEAT, input.clone(), patience);
            // If the heartbeat does not arrive, that rank's tick fails and reports it.
            timeout(patience, asked)
        });
        join_all(sent).await;
        Ok(())
    }

    /// The heartbeats of all ranks, if all of them arrive within half of the tick.
    async fn complete(&self, tick: &Tick) -> Result<Round> {
        let deadline = tick.began + tick.length / 2;
        loop {
            let mut news = Box::pin(self.heard.news.notified());
            news.as_mut().enable();
            let missing = match self.rounds().progress(tick.number) {
                Progress::Complete(round) => return Ok(round),
                Progress::Void(why) => return Err(Error::unavailable(why)),
                Progress::Waiting(missing) => missing,
            };
            if timeout_at(deadline, news).await.is_err() {
                let text =
                    format!("no heartbeat came from {} within half a tick", missing.join(", "));
                return Err(Error::unavailable(text));
            }
        }
    }

    fn close(&self, tick: u64) {
        self.rounds().close(tick);
    }

    fn rounds(&self) -> std::sync::MutexGuard<'_, nacre_balance::Rounds> {
        self.heard.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands units over, one after another, until the tick is over.
    async fn carry_out(
        &self,
        tick: &Tick,
        decision: &Decision,
        inputs: &Inputs,
    ) -> Vec<MoveOutcome> {
        let mut outcomes = vec![];
        for moved in &decision.moves {
            let Some(rank) = inputs.ranks.get(moved.to) else { continue };
            let began = Instant::now();
            let failure = match began < tick.began + tick.length {
                true => self.hand_over(&moved.unit, &rank.node, decision.mode).await.err(),
                false => Some(Error::unavailable("the tick ended before this move began")),
            };
            outcomes.push(MoveOutcome {
                unit: moved.unit.clone(),
                to: rank.node.clone(),
                millis: began.elapsed().as_secs_f64() * 1e3,
                failure: failure.map(|error| error.to_string()),
            });
        }
        outcomes
    }

    async fn hand_over(&self, unit: &str, to: &str, mode: Mode) -> Result<()> {
        self.context.units.hand_over(unit, NodeName::new(to)?, mode).await
    }

    /// Puts a failure of the policy into the cluster log, once for each version.
    async fn report(&mut self, tick: &Tick, record: &TickRecord, error: &Error) {
        let Some(site) = error.fault() else { return };
        let this = (record.policy.clone(), record.version);
        if self.reported.as_ref() == Some(&this) {
            return;
        }
        let program = ProgramSite {
            kind: ProgramKind::Balancer,
            name: tick.policy.clone(),
            version: record.version,
            line: site.line,
        };
        let text = format!("the balancer moves nothing: {}", error.message());
        let event =
            Event::new(Severity::Error, text).program(program).node(self.context.node.clone());
        if self.context.cluster.events().append(event).await.is_ok() {
            self.reported = Some(this);
        }
    }
}

/// Runs a program in a thread of its own, so that it blocks no other task.
async fn in_thread<T: Send + 'static>(
    body: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let run = tokio::task::spawn_blocking(body).await;
    run.unwrap_or_else(|error| {
        Err(Error::unavailable(format!("the thread that runs the policy ended: {error}")))
    })
}
