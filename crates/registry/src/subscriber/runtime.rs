//! `Subscriber`: does what the core decides.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use nacre_clock::Random;
use nacre_object::{Error, FaultSite, NodeName, Result};
use nacre_program::Digest;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::core::{Command, Core, News, Outcome, Step, is_installed_by_nodes};
use super::live_table::LiveTable;
use super::news::news_of;
use crate::backoff::Backoff;
use crate::events::{Event, ProgramSite, Severity};
use crate::hooks::{Hooks, LiveProgram};
use crate::maps::{MapWatcher, Maps};
use crate::programs::{
    Active, ProgramId, Programs, fetch_source, not_active, programs_map, status_key_prefix,
    status_map,
};
use crate::system::is_transient;

/// Sources up to this many bytes are compiled on the thread that fetched them. Passing them to
/// another thread would take longer.
const MAX_INLINE_SOURCE_BYTES: usize = 16 * 1024;
/// How many news may wait while a command runs. The watcher keeps the rest back.
const MAX_WAITING_NEWS: usize = 64;

/// Keeps the active versions of programs live on a node, until this value is dropped.
pub struct Subscriber {
    node: NodeName,
    maps: Maps,
    table: watch::Receiver<LiveTable>,
    tasks: [AbortHandle; 2],
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Subscriber {
    /// Starts to follow the programs for one incarnation of a node (one run of its process), and
    /// makes them live with `hooks`. The node need not be registered yet. `own_sources` are sources
    /// that are built into this process; they are used without reading the store, which may lack
    /// them. Needs a tokio runtime.
    pub fn start(
        node: NodeName,
        incarnation: u64,
        programs: &Programs,
        hooks: Hooks,
        own_sources: &'static [&'static str],
    ) -> Self {
        let maps = programs.maps().clone();
        let (news_sender, news) = mpsc::channel(MAX_WAITING_NEWS);
        let (table_sender, table) = watch::channel(LiveTable::default());
        let forwarding = Forwarder {
            watcher: maps.watch_whole(&programs_map()),
            maps: maps.clone(),
            news: news_sender,
        };
        let worker = Worker {
            core: Core::new(node.clone(), incarnation, Random::from_system().next_u64()),
            started: Instant::now(),
            node: node.clone(),
            maps: maps.clone(),
            hooks,
            own_sources,
            table: table_sender,
        };
        let tasks = [
            tokio::spawn(forwarding.run()).abort_handle(),
            tokio::spawn(worker.run(news)).abort_handle(),
        ];
        Self { node, maps, table, tasks }
    }

    /// The version of a program that is live on this node.
    pub fn live(&self, program: &ProgramId) -> Option<u64> {
        self.table.borrow().state(program).live
    }

    /// Why the active version of a program failed to become live on this node, if it did.
    pub fn failure(&self, program: &ProgramId) -> Option<Error> {
        self.table.borrow().state(program).error
    }

    /// Waits until every program that is active now is live on this node, or has failed to become
    /// live. A starting node waits for this before it serves requests.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer. While the source of any program cannot be read,
    /// this waits without limit; the caller should set a deadline.
    pub async fn ready(&self) -> Result<()> {
        let epoch = self.maps.epoch(&programs_map()).await?;
        self.wait_for(|table| table.has_settled_all(epoch)).await
    }

    /// Waits for one program: until its active version is live on this node or has failed to become
    /// live, or until no version is active. Other programs do not delay this.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer. While the program's source cannot be read, this
    /// waits without limit; the caller should set a deadline.
    pub async fn settled(&self, program: &ProgramId) -> Result<()> {
        let epoch = self.maps.epoch(&programs_map()).await?;
        self.wait_for(|table| table.has_settled(program, epoch)).await
    }

    /// Waits until the version is live on this node. The caller says that the version is active, so
    /// a node that has not read of this yet catches up first.
    ///
    /// If the version is live, no request is needed. Otherwise either the node or the caller has an
    /// old state of the map `programs`, and a read of the map tells which.
    ///
    /// # Errors
    /// `Stale` if another version is active. `Fault` if the version cannot be made live here.
    /// `Unavailable` if the store does not answer the first read. After that read, this waits
    /// without limit for the store; the caller should set a deadline.
    pub async fn caught_up(&self, program: &ProgramId, version: u64) -> Result<()> {
        if self.live(program) == Some(version) {
            return Ok(());
        }
        let epoch = self.maps.epoch(&programs_map()).await?;
        self.wait_for(|table| table.has_settled(program, epoch)).await?;
        let state = self.table.borrow().state(program);
        match state.error {
            _ if state.live == Some(version) => Ok(()),
            Some(error) if state.wanted == Some(version) => {
                let site =
                    FaultSite { program: program.to_string(), version, ..Default::default() };
                let text = format!("node {} cannot make the program live: {error}", self.node);
                Err(Error::fault_at(error.fault().cloned().unwrap_or(site), text))
            }
            _ => Err(not_active(program, version, state.wanted)),
        }
    }

    async fn wait_for(&self, condition: impl FnMut(&LiveTable) -> bool) -> Result<()> {
        let mut table = self.table.clone();
        let outcome = table.wait_for(condition).await.map(|_| ());
        outcome.map_err(|_| Error::unavailable(format!("node {} is stopping", self.node)))
    }
}

/// Turns events of the map `programs` into news.
struct Forwarder {
    watcher: MapWatcher,
    maps: Maps,
    news: mpsc::Sender<News>,
}

impl Forwarder {
    async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            match self.watcher.next().await {
                Ok(event) => {
                    backoff.reset();
                    let (news, unreadable) = news_of(event);
                    for error in unreadable {
                        report(&self.maps, Event::new(Severity::Warning, error.to_string()));
                    }
                    if self.news.send(news).await.is_err() {
                        return;
                    }
                }
                // This node cannot repair that. It keeps the programs that it has, and reads again
                // later.
                Err(_) => backoff.wait().await,
            }
        }
    }
}

/// Puts an event into the cluster log without waiting for it.
fn report(maps: &Maps, event: Event) {
    let events = maps.events().clone();
    // `append` retries for some seconds. If it fails then, the event is dropped.
    tokio::spawn(async move { events.append(event).await.ok() });
}

/// Executes the core's commands, one at a time.
struct Worker {
    core: Core,
    started: Instant,
    node: NodeName,
    maps: Maps,
    hooks: Hooks,
    own_sources: &'static [&'static str],
    table: watch::Sender<LiveTable>,
}

impl Worker {
    async fn run(mut self, mut news: mpsc::Receiver<News>) {
        loop {
            while let Ok(news) = news.try_recv() {
                self.core.news(news);
            }
            self.table.send_replace(self.core.table());
            let waited = match self.core.step(self.started.elapsed()) {
                Step::Do(command) => {
                    self.execute(command).await;
                    continue;
                }
                Step::WaitUntil(time) => {
                    tokio::time::timeout_at(self.started + time, news.recv()).await
                }
                Step::Wait => Ok(news.recv().await),
            };
            match waited {
                Ok(Some(news)) => self.core.news(news),
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }

    async fn execute(&mut self, command: Command) {
        match command {
            Command::ReadReports => match self.read_reports().await {
                Ok(reports) => self.core.reports_read(reports),
                Err(_) => self.core.reports_failed(self.started.elapsed()),
            },
            Command::WriteReports { guard, changes } => {
                match self.maps.apply_guarded(&status_map(), guard, changes.clone()).await {
                    Ok(_) => self.core.reports_written(changes),
                    Err(_) => self.core.reports_failed(self.started.elapsed()),
                }
            }
            command => {
                let outcome = self.change_program(&command).await;
                self.core.done(&command, outcome, self.started.elapsed());
            }
        }
    }

    async fn read_reports(&self) -> Result<BTreeMap<String, Bytes>> {
        let state = self.maps.get(&status_map()).await?;
        let prefix = status_key_prefix(&self.node);
        Ok(state.entries.into_iter().filter(|(key, _)| key.starts_with(&prefix)).collect())
    }

    async fn change_program(&self, command: &Command) -> Outcome {
        let (program, result) = match command {
            Command::Install { program, active, activation } => {
                let source = match self.source(&active.digest).await {
                    Ok(source) => source,
                    // This may succeed later, because even a missing or damaged source can be put
                    // again.
                    Err(error) => return Outcome::Later(error),
                };
                (program, self.install(program, active, source, *activation).await)
            }
            Command::Uninstall { program, activation } => {
                (program, self.uninstall(program, *activation).await)
            }
            Command::ReadReports | Command::WriteReports { .. } => return Outcome::Done,
        };
        match result {
            Ok(()) => Outcome::Done,
            Err(error) if is_transient(&error) => Outcome::Later(error),
            Err(error) => {
                self.report_failure(program, command, &error);
                Outcome::Failed(error)
            }
        }
    }

    async fn source(&self, digest: &Digest) -> Result<String> {
        match self.own_sources.iter().find(|source| Digest::of(source) == *digest) {
            Some(source) => Ok((*source).to_owned()),
            None => fetch_source(self.maps.system(), digest).await,
        }
    }

    async fn install(
        &self,
        program: &ProgramId,
        active: &Active,
        source: String,
        activation: u64,
    ) -> Result<()> {
        if !is_installed_by_nodes(program.kind) {
            let map = program.name.as_str().parse()?;
            return self.maps.bind(&map, active.version, &source, activation).await;
        }
        let program = LiveProgram {
            id: program.clone(),
            version: active.version,
            digest: active.digest,
            source: source.into(),
        };
        let is_short = program.source.len() <= MAX_INLINE_SOURCE_BYTES;
        self.with_hooks(is_short, move |hooks| hooks.install(&program)).await
    }

    async fn uninstall(&self, program: &ProgramId, activation: u64) -> Result<()> {
        if !is_installed_by_nodes(program.kind) {
            return self.maps.unbind(&program.name.as_str().parse()?, activation).await;
        }
        let program = program.clone();
        self.with_hooks(true, move |hooks| hooks.uninstall(&program)).await
    }

    /// Calls the hooks. A panic in a hook fails this program and nothing else.
    async fn with_hooks(
        &self,
        is_short: bool,
        call: impl FnOnce(&Hooks) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let hooks = self.hooks.clone();
        let contained = move || {
            catch_unwind(AssertUnwindSafe(|| call(&hooks))).unwrap_or_else(|_| {
                let text = "the node failed at this program; its log says more";
                Err(Error::fault_at(FaultSite::default(), text))
            })
        };
        if is_short {
            return contained();
        }
        let ended = tokio::task::spawn_blocking(contained).await;
        ended.unwrap_or_else(|_| Err(Error::unavailable(format!("node {} stops", self.node))))
    }

    fn report_failure(&self, program: &ProgramId, command: &Command, error: &Error) {
        let version = match command {
            Command::Install { active, .. } => active.version,
            _ => 0,
        };
        let line = error.fault().and_then(|site| site.line);
        let site = ProgramSite { kind: program.kind, name: program.name.clone(), version, line };
        let text = format!("cannot be made live: {}", error.message());
        let event = Event::new(Severity::Error, text).node(self.node.clone()).program(site);
        report(&self.maps, event);
    }
}
