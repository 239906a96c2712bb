//! The layout task: the background task that changes the layouts of classes. A layout says how the
//! objects of a class store their rows.
//!
//! Every node that stores objects runs a layout task. A lease lets one of these tasks work at a
//! time (`lease`). A task waits for changes of the maps `layouts` and `programs`, and does nothing
//! else until there is work.
//!
//! **Invariant.** A task may be dropped or killed at any time, because it decides only from the
//! stored record. Each change of the record is a compare-and-swap, which fails once the task of
//! another node has taken over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nacre_brados::LayoutSignatures;
use nacre_clock::Clock;
use nacre_object::{ClassName, Error, ErrorKind, NodeName, Result};
use nacre_registry::{Change, MapState, Severity};
use tokio::task::JoinHandle;

use super::change::{Onward, Phase, Step};

use super::record::{ClassLayout, layouts_map};
use super::sources::compiled;
use super::walk::Walker;
use super::{Layouts, program_of};
use crate::lease::{Lease, LeaseHolder, LeaseState, LeaseTimes};

/// A change of a layout takes minutes, so it may wait while the lease changes its holder.
const LEASE_TIMES: LeaseTimes =
    LeaseTimes { beat: Duration::from_secs(5), patience: Duration::from_secs(20) };
/// The time between two checks of the lease.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long the task waits until all nodes have loaded a version. After this time it reads the
/// stored state again.
const LIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a failed step is tried again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);

/// A running layout task. Dropping it ends the task.
#[derive(Debug)]
pub struct LayoutTask(JoinHandle<()>);

impl LayoutTask {
    /// Starts a task for this incarnation of a node. Needs a tokio runtime.
    pub fn start(
        layouts: Layouts,
        node: NodeName,
        incarnation: u64,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let lease = Lease::new(LeaseHolder { node: node.to_string(), incarnation }, LEASE_TIMES);
        let mut work = Work { layouts, lease, clock };
        Self(tokio::spawn(async move { work.go_on().await }))
    }
}

impl Drop for LayoutTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether there is work, for this task or for the task of another node.
enum Load {
    Nothing,
    Some,
}

struct Work {
    layouts: Layouts,
    lease: Lease,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Work {
    async fn go_on(&mut self) {
        let mut layouts = self.layouts.cluster.maps().watch_whole(&layouts_map());
        let mut programs = self.layouts.cluster.programs().watch();
        loop {
            let turn = self.turn().await;
            // The task reads the state again after any change of these maps.
            let news = async {
                tokio::select! {
                    _ = layouts.next() => {}
                    _ = programs.next() => {}
                }
            };
            match turn {
                Ok(Load::Nothing) => news.await,
                Ok(Load::Some) => drop(tokio::time::timeout(INTERVAL, news).await),
                Err(_) => tokio::time::sleep(PAUSE_AFTER_FAILURE).await,
            }
        }
    }

    /// Does the work that is due, if this task holds the lease.
    async fn turn(&mut self) -> Result<Load> {
        let state = self.layouts.cluster.maps().get(&layouts_map()).await?;
        let changing = self.changing(&state).await?;
        if changing.is_empty() {
            return Ok(Load::Nothing);
        }
        match self.lease.look(self.clock.monotonic(), &state)? {
            LeaseState::Others => return Ok(Load::Some),
            LeaseState::Mine { is_beat_due: false } => {}
            LeaseState::Mine { is_beat_due: true } => say_alive(&self.layouts, &self.lease).await?,
            LeaseState::Free => self.take().await?,
        }
        let Self { layouts, lease, .. } = self;
        let beats = beat(layouts, lease);
        let work = async {
            for class in &changing {
                let mover = Mover { layouts, lease, class };
                mover.take_up().await?;
                mover.carry_out().await?;
            }
            Ok(Load::Some)
        };
        // A task that has lost the lease stops at once.
        tokio::select! {
            deposed = beats => Err(deposed),
            worked = work => worked,
        }
    }

    /// The classes whose layout is being changed, or whose finished change must start again.
    async fn changing(&self, state: &MapState) -> Result<Vec<ClassName>> {
        let mut changing = vec![];
        for (class, known) in ClassLayout::all(state)? {
            if known.change.is_some() || is_turned(&self.layouts, &class, &known).await? {
                changing.push(class);
            }
        }
        Ok(changing)
    }

    async fn take(&self) -> Result<()> {
        let take = |state: &MapState| self.lease.take(state);
        self.layouts.cluster.maps().update(&layouts_map(), take).await.map(drop)
    }
}

/// Renews the lease with beats, until another task has taken over.
async fn beat(layouts: &Layouts, lease: &Lease) -> Error {
    loop {
        tokio::time::sleep(LEASE_TIMES.beat).await;
        match say_alive(layouts, lease).await {
            Err(error) if !is_unanswered(&error) => return error,
            _ => {}
        }
    }
}

async fn say_alive(layouts: &Layouts, lease: &Lease) -> Result<()> {
    let beat = |state: &MapState| Ok(vec![lease.beat(state)?]);
    layouts.cluster.maps().update(&layouts_map(), beat).await.map(drop)
}

/// Whether the last change must start again, because of the version that is active now.
async fn is_turned(layouts: &Layouts, class: &ClassName, known: &ClassLayout) -> Result<bool> {
    let Some(last) = &known.last else { return Ok(false) };
    let active = layouts.cluster.programs().activation(&program_of(class)?).await?;
    Ok(last.is_turned(active))
}

fn is_unanswered(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

/// Whether to try again: another task was faster, or a node does not answer.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale | ErrorKind::Conflict)
}

/// Changes one class to its new layout.
struct Mover<'a> {
    layouts: &'a Layouts,
    lease: &'a Lease,
    class: &'a ClassName,
}

impl Mover<'_> {
    /// Starts the last change again if the class was rolled back or forward after its end.
    async fn take_up(&self) -> Result<()> {
        let known = self.layouts.get(self.class).await?;
        if known.change.is_some() || !is_turned(self.layouts, self.class, &known).await? {
            return Ok(());
        }
        self.record(|record| {
            if record.change.is_none() {
                record.change = record.last.take();
            }
        })
        .await?;
        let text =
            format!("{} is back in a layout it had left: so are its objects soon", self.class);
        self.layouts.tell(self.class, Severity::Info, text).await;
        Ok(())
    }

    /// Step after step, until the change is done or given up.
    async fn carry_out(&self) -> Result<()> {
        while let Some(change) = self.layouts.get(self.class).await?.change {
            let program = program_of(self.class)?;
            let active = self.layouts.cluster.programs().activation(&program).await?;
            match self.take_step(change.next(active)).await {
                Err(error) if is_passing(&error) => {
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                    // Check that this task still holds the lease.
                    self.record(|_| {}).await?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn take_step(&self, step: Step) -> Result<()> {
        let (program, programs) = (program_of(self.class)?, self.layouts.cluster.programs());
        match step {
            Step::Activate { version, instead_of } => {
                programs.activate_instead(&program, version, instead_of).await
            }
            Step::Await { version, then } => {
                programs.wait(&program, version, LIVE_TIMEOUT).await?;
                self.record_phase(then).await
            }
            Step::Walk(walk) => {
                let source = programs.show(&program, Some(walk.version)).await?.source;
                let marks = LayoutSignatures::of(&compiled(&source)?);
                let walker =
                    Walker { cluster: &self.layouts.cluster, class: self.class, marks: &marks };
                let (version, moved, rows) = (walk.version, walk.moved, walk.rows);
                let page = walker.page(walk).await?;
                for failure in page.failures {
                    let text = format!("not brought into its layout: {failure}");
                    self.layouts.tell(self.class, Severity::Warning, text).await;
                }
                match page.onward {
                    Onward::Walk(walk) => self.record_phase(Phase::Walk(walk)).await,
                    Onward::Over { unmoved } => {
                        let layout = self.finish(version, unmoved).await?;
                        let done = format!("{moved} objects moved, {rows} rows");
                        self.tell_end(&layout, &done, unmoved).await;
                        Ok(())
                    }
                }
            }
            Step::Overtaken => self.give_up().await,
        }
    }

    /// Records that the change of the class's layout has ended, and returns the new layout. If
    /// `unmoved` objects remain in former layouts, the record does not call the class settled. So
    /// the next change keeps the former layouts readable.
    async fn finish(&self, version: u64, unmoved: u64) -> Result<String> {
        let mut layout = String::new();
        self.record(|record| {
            if let Some(change) = record.change.take() {
                change.destination().clone_into(&mut layout);
                record.last = Some(change);
                record.settled = (unmoved == 0).then_some(version);
            }
        })
        .await?;
        Ok(layout)
    }

    async fn tell_end(&self, layout: &str, done: &str, unmoved: u64) {
        let class = self.class;
        let (severity, text) = match unmoved {
            0 => (Severity::Info, format!("{class} is in layout {layout}: {done}")),
            unmoved => {
                let text = format!(
                    "{class} is in layout {layout}, but for {unmoved} objects that could not be moved and are \
                     read in their former one: {done}"
                );
                (Severity::Warning, text)
            }
        };
        self.layouts.tell(class, severity, text).await;
    }

    async fn give_up(&self) -> Result<()> {
        self.record(|record| record.change = None).await?;
        let text = format!(
            "{} is not brought into another layout any more: another version was activated meanwhile; \
             its objects lie in both layouts",
            self.class
        );
        self.layouts.tell(self.class, Severity::Warning, text).await;
        Ok(())
    }

    async fn record_phase(&self, phase: Phase) -> Result<()> {
        self.record(|record| {
            if let Some(change) = &mut record.change {
                change.phase = phase.clone();
            }
        })
        .await
    }

    /// Changes the record of the class, as long as this task holds the lease.
    ///
    /// # Errors
    /// `Stale` if another task has taken over.
    async fn record(&self, mut change: impl FnMut(&mut ClassLayout) + Send) -> Result<()> {
        let update = |state: &MapState| -> Result<Vec<Change>> {
            self.lease.beat(state)?;
            let before = ClassLayout::find(state, self.class)?;
            let mut record = before.clone();
            change(&mut record);
            Ok(if record == before { vec![] } else { vec![record.to_change(self.class)] })
        };
        self.layouts.cluster.maps().update(&layouts_map(), update).await.map(drop)
    }
}
