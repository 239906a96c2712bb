//! Looks at what classes are asked, and carries out what [`nacre_tuner::rechoose`] decides.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nacre_class::CallsSeen;
use nacre_clock::Clock;
use nacre_object::{ClassName, Error, Result};
use nacre_registry::Severity;
use nacre_tuner::rechoose::{Command, Estimate, Event, Measured, Proposal, Rechooser, Terms};
use nacre_tuner::{Fingerprint, Objects, Profile, Workload, compare, estimate, workload_of};
use tokio::sync::OnceCell;

use super::keeper::{LayoutObserver, LifeOfNode, record};
use super::lease::Lease;
use super::record::ClassLayout;
use super::sources::compiled;
use super::{Layouts, program_of};

/// The decisions about all classes.
pub(super) struct Decider {
    layouts: Layouts,
    observer: Arc<dyn LayoutObserver>,
    clock: Arc<dyn Clock>,
    /// What each node had counted when it was last asked.
    counted: HashMap<LifeOfNode, BTreeMap<String, CallsSeen>>,
    choosers: HashMap<ClassName, (Terms, Rechooser)>,
    /// The engine of which it was said that there is no profile.
    unprofiled: Option<Fingerprint>,
}

impl Decider {
    pub fn new(layouts: Layouts, observer: Arc<dyn LayoutObserver>, clock: Arc<dyn Clock>) -> Self {
        let (counted, choosers) = (HashMap::new(), HashMap::new());
        Self { layouts, observer, clock, counted, choosers, unprofiled: None }
    }

    /// Looks once.
    ///
    /// # Errors
    /// `Stale` if another keeper has taken over; `Unavailable`.
    pub async fn look(&mut self, lease: &Lease) -> Result<()> {
        let Some(profile) = self.layouts.profile().await? else { return Ok(()) };
        let Some(engine) = self.observer.engine().await else { return Ok(()) };
        if profile.engine != engine {
            self.tell_unprofiled(&profile, &engine).await;
            return Ok(());
        }
        for (name, calls) in self.newly_counted().await {
            let class: ClassName = name.parse()?;
            let known = self.layouts.get(&class).await?;
            if known.change.is_some() {
                // It is decided about anew in its new layout.
                self.choosers.remove(&class);
                continue;
            }
            self.decide(lease, &class, &known, &profile, calls).await?;
        }
        Ok(())
    }

    async fn tell_unprofiled(&mut self, profile: &Profile, engine: &Fingerprint) {
        if self.unprofiled.as_ref() == Some(engine) {
            return;
        }
        self.unprofiled = Some(engine.clone());
        let text = format!(
            "layouts are not judged: the engine is {engine}, its profile is of {}; measure it with \
             `nacre brados profile --keep`",
            profile.engine
        );
        let event = nacre_registry::Event::new(Severity::Warning, text);
        // Said again by whoever takes over.
        let _ = self.layouts.cluster.events().append(event).await;
    }

    /// What was asked since the last look, all nodes together. Of a node that was not looked at before it
    /// is not known since when it counts: that begins now.
    async fn newly_counted(&mut self) -> BTreeMap<String, CallsSeen> {
        let mut all: BTreeMap<String, CallsSeen> = BTreeMap::new();
        let mut now = HashMap::new();
        for (life, classes) in self.observer.calls().await {
            if let Some(before) = self.counted.get(&life) {
                for (name, seen) in &classes {
                    let since =
                        before.get(name).map_or_else(|| seen.clone(), |one| seen.since(one));
                    all.entry(name.clone()).or_default().add(&since);
                }
            }
            now.insert(life, classes);
        }
        // One that did not answer this time is known on.
        self.counted.retain(|(node, _), _| !now.keys().any(|(other, _)| other == node));
        self.counted.extend(now);
        all
    }

    async fn decide(
        &mut self,
        lease: &Lease,
        class: &ClassName,
        known: &ClassLayout,
        profile: &Profile,
        calls: CallsSeen,
    ) -> Result<()> {
        let fresh = || (known.terms, Rechooser::new(known.terms, known.standing.clone()));
        let mut chooser = match self.choosers.remove(class) {
            Some((terms, chooser))
                if terms == known.terms && *chooser.standing() == known.standing =>
            {
                chooser
            }
            // Its terms, or what was decided, were changed by somebody else.
            _ => fresh().1,
        };
        let mut events = vec![
            Event::Engine(profile.engine.clone()),
            Event::Counted(calls),
            Event::Allowed(known.auto),
        ];
        let asked = OnceCell::new();
        while !events.is_empty() {
            let now = self.clock.now_micros();
            let commands = events.drain(..).flat_map(|event| chooser.handle(now, event));
            let commands: Vec<_> = commands.collect();
            for command in commands {
                events.extend(self.carry_out(class, &chooser, profile, &asked, command).await?);
            }
        }
        keep(&self.layouts, lease, class, known, &chooser).await?;
        self.choosers.insert(class.clone(), (known.terms, chooser));
        Ok(())
    }

    async fn carry_out(
        &self,
        class: &ClassName,
        chooser: &Rechooser,
        profile: &Profile,
        asked: &OnceCell<Asked>,
        command: Command,
    ) -> Result<Option<Event>> {
        let tell = |text: String| self.layouts.tell(class, Severity::Info, text);
        match command {
            Command::Estimate(calls) => {
                let estimate = self.estimate(class, &calls, profile, asked).await;
                if let Err(error) = &estimate {
                    let text = format!("the layouts of {class} cannot be predicted: {error}");
                    self.layouts.tell(class, Severity::Warning, text).await;
                }
                Ok(Some(Event::Estimated(estimate.ok())))
            }
            Command::Measure(calls, proposal) => {
                let measured = self.measure(class, &calls, &proposal, asked).await;
                if let Err(error) = &measured {
                    let text = format!("the layouts of {class} cannot be measured: {error}");
                    self.layouts.tell(class, Severity::Warning, text).await;
                }
                Ok(Some(Event::Measured(measured.ok())))
            }
            Command::Refute(proposal) => {
                tell(format!("{class} stays in its layout, as measured: {proposal}")).await;
                Ok(None)
            }
            Command::Propose(proposal) => {
                tell(format!("{class} had better be in layout {proposal}")).await;
                Ok(None)
            }
            Command::Withdraw => {
                tell(format!("{class} had better stay in the layout it has")).await;
                Ok(None)
            }
            Command::Adopt(proposal) => {
                let (layout, why) = (&proposal.estimate.best.layout, proposal.to_string());
                // Recorded with it: should this end here, the class rests all the same.
                let standing =
                    |record: &mut ClassLayout| record.standing = chooser.standing().clone();
                if let Err(error) = self.layouts.begin_change(class, layout, &why, standing).await {
                    let text = format!("{class} is not brought into layout {layout}: {error}");
                    self.layouts.tell(class, Severity::Warning, text).await;
                }
                Ok(None)
            }
        }
    }

    async fn estimate(
        &self,
        class: &ClassName,
        calls: &CallsSeen,
        profile: &Profile,
        asked: &OnceCell<Asked>,
    ) -> Result<Estimate> {
        estimated(asked.get_or_try_init(|| self.asked(class, calls)).await?, profile).await
    }

    async fn measure(
        &self,
        class: &ClassName,
        calls: &CallsSeen,
        proposal: &Proposal,
        asked: &OnceCell<Asked>,
    ) -> Result<Measured> {
        let all = self.layouts.all().await?;
        if let Some((other, _)) = all.iter().find(|(_, known)| known.change.is_some()) {
            return Err(Error::conflict(format!("{other} is being brought into another layout")));
        }
        let asked = asked.get_or_try_init(|| self.asked(class, calls)).await?;
        let engine = self.observer.own_engine().await?;
        let measured = compare(engine.bench(), &asked.source, proposal, &asked.workload).await;
        engine.close().await;
        measured
    }

    /// What calls come to as a workload: once a decision, as it takes a walk over the pools.
    async fn asked(&self, class: &ClassName, calls: &CallsSeen) -> Result<Asked> {
        let objects = self.layouts.census(class).await?;
        let source = self.layouts.cluster.programs().show(&program_of(class)?, None).await?.source;
        let workload = workload_of(&compiled(&source)?, calls, objects)?.workload;
        Ok(Asked { source, workload, objects })
    }
}

async fn estimated(asked: &Asked, profile: &Profile) -> Result<Estimate> {
    let (source, workload) = (asked.source.clone(), asked.workload.clone());
    let (profile, objects) = (profile.clone(), asked.objects);
    // It computes, for a second or so.
    let estimate = move || estimate(&source, &workload, &profile, objects);
    let computed = tokio::task::spawn_blocking(estimate).await;
    computed.map_err(|error| Error::unavailable(error.to_string()))?
}

/// What a class is asked.
struct Asked {
    source: String,
    workload: Workload,
    objects: Objects,
}

/// Records where a class stands, unless somebody has changed that since it was known: they asked for a layout
/// while others were measured.
async fn keep(
    layouts: &Layouts,
    lease: &Lease,
    class: &ClassName,
    known: &ClassLayout,
    chooser: &Rechooser,
) -> Result<()> {
    record(layouts, lease, class, |record| {
        if record.standing == known.standing {
            record.standing = chooser.standing().clone();
        }
    })
    .await
}
