//! `Programs`: putting, activating and looking at programs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{Error, MapName, Result};
use nacre_program::Digest;
use similar::TextDiff;

use super::garbage::MIN_AGE;
use super::record::{ProgramRecord, VersionRecord};
use super::source::{fetch_source, store_source};
use super::status::{NodeStatus, node_statuses, wait_until_live};
use super::{ProgramId, ProgramKind, ProgramSource};
use crate::events::{Event, ProgramSite, Severity};
use crate::hooks::{Hooks, SourceError};
use crate::maps::{Change, MapState, MapWatcher, Maps, PROGRAMS_MAP};

/// Lines of context in a diff, as `diff -u` has it.
const DIFF_CONTEXT_LINES: usize = 3;

/// The map that says which programs there are and which versions are active.
pub(crate) fn programs_map() -> MapName {
    MapName::new(PROGRAMS_MAP).expect("a well-formed literal")
}

/// The programs of a cluster. A clone is another handle to them.
#[derive(Clone)]
pub struct Programs {
    maps: Maps,
    clock: Arc<dyn Clock>,
    hooks: Hooks,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs").field("maps", &self.maps).finish_non_exhaustive()
    }
}

/// One version of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// Its number, from 1.
    pub version: u64,
    /// The digest of its source.
    pub digest: Digest,
    /// The length of its source, in bytes.
    pub bytes: u64,
    /// When it was put: microseconds since 1970, UTC.
    pub created_at_micros: u64,
}

/// A version that is active, since an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activation {
    /// Which version.
    pub version: u64,
    /// The number of the activation. Each activation of a program has a greater number than all
    /// earlier ones.
    pub number: u64,
}

/// A program with its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The program.
    pub id: ProgramId,
    /// Its versions, oldest first.
    pub versions: Vec<VersionInfo>,
    /// The active version, which should be live on every node.
    pub active: Option<u64>,
    /// The version that a rollback would make active.
    pub rollback_to: Option<u64>,
}

/// Whether an active version may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Refuse.
    UnlessActive,
    /// Deactivate it: nodes drop it.
    EvenIfActive,
}

impl Programs {
    /// The programs kept in these maps. Those of the kinds that have a hook are accepted.
    pub fn new(maps: Maps, clock: Arc<dyn Clock>, hooks: Hooks) -> Self {
        Self { maps, clock, hooks }
    }

    /// The hooks that check what is put.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// The maps they are kept in.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Checks a source before a put: compiles it and dry-runs it. Needs no node.
    ///
    /// # Errors
    /// The first mistake of the source, with its position.
    pub fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        self.hooks.check(program, source)
    }

    /// Returns suspicious code in a source that passes [`Programs::check`]. Such a source can be
    /// put all the same.
    pub fn suspicions(&self, program: &ProgramId, source: &str) -> Vec<SourceError> {
        self.hooks.of(program.kind).map(|hook| hook.suspicions(source)).unwrap_or_default()
    }

    /// Checks a source and stores it as the program's next version. Returns the number of that
    /// version. If the source equals the latest version, returns that version and stores nothing.
    ///
    /// # Errors
    /// `Invalid` with the line of the mistake if [`Programs::check`] fails; nothing is stored then.
    /// `Unsupported` if this process has no hook for programs of this kind. Errors of
    /// [`Maps::update`].
    pub async fn put(&self, program: &ProgramId, source: &str) -> Result<u64> {
        self.hooks.of(program.kind)?;
        self.check(program, source).map_err(|error| error.into_error(program))?;
        let created_at_micros = self.clock.now_micros();
        let digest = store_source(self.maps.system(), source).await?;
        let version = VersionRecord { digest, bytes: source.len() as u64, created_at_micros };
        let (_, number) = self.change(program, |record, _| Ok(record.put(version.clone()))).await?;
        let taken = self.clock.now_micros().saturating_sub(created_at_micros);
        if Duration::from_micros(taken) > MIN_AGE / 2 {
            // This process stood still, so the source that it stored was possibly collected
            // meanwhile.
            store_source(self.maps.system(), source).await?;
        }
        Ok(number)
    }

    /// Lists all programs, or those of one kind, in order. Leaves out programs whose record cannot
    /// be read; [`Programs::get`] reports the error for such a program.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn list(&self, kind: Option<ProgramKind>) -> Result<Vec<ProgramInfo>> {
        let records = readable_records(&self.maps.get(&programs_map()).await?);
        let wanted = |id: &ProgramId| kind.is_none_or(|kind| id.kind == kind);
        let infos = records.into_iter().filter(|(id, record)| wanted(id) && !record.is_removed());
        Ok(infos.map(|(id, record)| info(id, &record)).collect())
    }

    /// One program.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable`; `Corrupt`.
    pub async fn get(&self, program: &ProgramId) -> Result<ProgramInfo> {
        let record = self.record(program).await?;
        Ok(info(program.clone(), &record))
    }

    /// Returns the active version, or `None` if no version is active. This is one small read.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn active(&self, program: &ProgramId) -> Result<Option<u64>> {
        Ok(self.known(program).await?.active)
    }

    /// Returns the active version, and which activation of the program that is.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn activation(&self, program: &ProgramId) -> Result<Option<Activation>> {
        let known = self.known(program).await?;
        Ok(known.active.map(|version| Activation { version, number: known.activation }))
    }

    async fn record(&self, program: &ProgramId) -> Result<ProgramRecord> {
        let record = self.known(program).await?;
        let missing = || Error::not_found(format!("there is no program {program}"));
        if record.is_removed() { Err(missing()) } else { Ok(record) }
    }

    /// The record of a program, also if the program was removed or never existed.
    pub(super) async fn known(&self, program: &ProgramId) -> Result<ProgramRecord> {
        let key = program.to_string();
        let (epoch, value) = self.maps.entry(&programs_map(), &key).await?;
        let record = value.map(|value| ProgramRecord::parse(&key, &value, epoch)).transpose()?;
        Ok(record.unwrap_or_default())
    }

    /// Returns the source of a version. If `version` is `None`, this is the active version, or the
    /// latest if none is active.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` if the stored source does not have its digest; `Unavailable`.
    pub async fn show(&self, program: &ProgramId, version: Option<u64>) -> Result<ProgramSource> {
        let record = self.record(program).await?;
        let latest = || record.versions.keys().next_back().copied();
        let version = version.or(record.active).or_else(latest).unwrap_or_default();
        let digest = record.version(program, version)?.digest;
        let source = fetch_source(self.maps.system(), &digest).await?;
        Ok(ProgramSource { version, digest, source })
    }

    /// Returns the difference between two versions as a unified diff. It is empty if they are
    /// equal.
    ///
    /// # Errors
    /// Errors of [`Programs::show`].
    pub async fn diff(&self, program: &ProgramId, from: u64, to: u64) -> Result<String> {
        let (old, new) =
            futures::try_join!(self.show(program, Some(from)), self.show(program, Some(to)))?;
        let diff = TextDiff::from_lines(&old.source, &new.source);
        let header = |version| format!("{program} version {version}");
        let text = diff
            .unified_diff()
            .context_radius(DIFF_CONTEXT_LINES)
            .header(&header(from), &header(to))
            .to_string();
        Ok(text)
    }

    /// Makes a version active, so that every node makes it live. Returns the epoch of the map
    /// `programs`. Nodes make the version live on their own; [`Programs::wait`] waits for them.
    ///
    /// # Errors
    /// `NotFound` if there is no such version, or if it uses a program that has no active version;
    /// errors of [`Maps::update`].
    pub async fn activate(&self, program: &ProgramId, version: u64) -> Result<u64> {
        self.activate_all(&[(program.clone(), version)]).await
    }

    /// Makes a version active if the active version is still the expected one. Succeeds without a
    /// change if the version is already active.
    ///
    /// # Errors
    /// `Conflict` if another version or none is active; errors of [`Programs::activate`].
    pub async fn activate_instead(
        &self,
        program: &ProgramId,
        version: u64,
        instead_of: u64,
    ) -> Result<()> {
        self.check_used(&[(program.clone(), version)]).await?;
        let mut former = None;
        let (record, ()) = self
            .change(program, |record, epoch| {
                former = record.active;
                if ![Some(version), Some(instead_of)].contains(&former) {
                    let text = format!("version {instead_of} of {program} is not active any more");
                    return Err(Error::conflict(text)
                        .hint("see which version is active now, then try again"));
                }
                record.activate(program, version, epoch).map(drop)
            })
            .await?;
        self.follow_up(&Switch { program: program.clone(), former, record }).await
    }

    /// Makes several versions active by one commit, so that every node learns of all of them or of
    /// none.
    ///
    /// # Errors
    /// Errors of [`Programs::activate`]; no version is activated then.
    pub async fn activate_all(&self, versions: &[(ProgramId, u64)]) -> Result<u64> {
        self.check_used(versions).await?;
        let mut switches = Vec::new();
        let update = |state: &MapState| {
            switches.clear();
            let mut changes = Vec::new();
            for (program, version) in versions {
                let mut record = find(state, program)?;
                let former = record.active;
                if record.activate(program, *version, state.epoch + 1)? {
                    changes.push(Change::set(program.to_string(), record.to_value()));
                }
                switches.push(Switch { program: program.clone(), former, record });
            }
            Ok(changes)
        };
        let epoch = self.maps.update(&programs_map(), update).await?;
        for switch in &switches {
            self.follow_up(switch).await?;
        }
        Ok(epoch)
    }

    /// Makes the previously active version active again. Returns its number. Another call goes one
    /// step further back.
    ///
    /// # Errors
    /// `Invalid` if no version was active before; errors of [`Maps::update`].
    pub async fn rollback(&self, program: &ProgramId) -> Result<u64> {
        let before = self.known(program).await?.before.last().copied();
        let versions: Vec<_> = before.into_iter().map(|before| (program.clone(), before)).collect();
        self.hooks.of(program.kind)?;
        self.check_used(&versions).await?;
        let mut former = None;
        let (record, version) = self
            .change(program, |record, epoch| {
                former = record.active;
                record.roll_back(program, epoch)
            })
            .await?;
        self.follow_up(&Switch { program: program.clone(), former, record }).await?;
        Ok(version)
    }

    /// Removes a version, or the program with all of its versions. Version numbers are never used
    /// again. Sources stay until they are [collected](Programs::collect), because other programs
    /// may name them.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if the version is active and `removal` does not force it; errors of
    /// [`Maps::update`].
    pub async fn remove(
        &self,
        program: &ProgramId,
        version: Option<u64>,
        removal: Removal,
    ) -> Result<()> {
        self.hooks.of(program.kind)?;
        let mut former = None;
        let (record, ()) = self
            .change(program, |record, epoch| {
                if record.is_removed() {
                    return Err(Error::not_found(format!("there is no program {program}")));
                }
                version.map(|version| record.version(program, version)).transpose()?;
                let concerned = |active: &u64| version.is_none_or(|version| version == *active);
                former = record.active.filter(concerned);
                if let (Some(active), Removal::UnlessActive) = (former, removal) {
                    let text = format!("version {active} of {program} is active");
                    return Err(Error::invalid(text)
                        .hint("activate another version first, or remove it with --force"));
                }
                record.remove(version, epoch);
                Ok(())
            })
            .await?;
        if former.is_some() {
            self.follow_up(&Switch { program: program.clone(), former, record }).await?;
        }
        Ok(())
    }

    /// Changes the record of one program by one commit. Returns the record, and what `change`
    /// returned last.
    pub(super) async fn change<T>(
        &self,
        program: &ProgramId,
        mut change: impl FnMut(&mut ProgramRecord, u64) -> Result<T>,
    ) -> Result<(ProgramRecord, T)> {
        let mut outcome = None;
        let update = |state: &MapState| {
            let before = find(state, program)?;
            let mut record = before.clone();
            let said = change(&mut record, state.epoch + 1)?;
            let changes = if record == before {
                vec![]
            } else {
                vec![Change::set(program.to_string(), record.to_value())]
            };
            outcome = Some((record, said));
            Ok(changes)
        };
        self.maps.update(&programs_map(), update).await?;
        Ok(outcome.expect("an update that succeeds has decided"))
    }

    /// Finishes a commit that switched versions: binds a map program to its map, and reports the
    /// switch to the cluster log. If this process dies first, nodes bind the program.
    async fn follow_up(&self, switch: &Switch) -> Result<()> {
        if switch.program.kind == ProgramKind::Map {
            bind_map_program(&self.maps, &switch.program, &switch.record).await?;
        }
        if switch.former != switch.record.active {
            // `append` tries for some seconds. The switch of versions stands even if it fails.
            let _ = self.maps.events().append(switch.event()).await;
        }
        Ok(())
    }

    /// Follows what is active, from now on.
    pub fn watch(&self) -> MapWatcher {
        self.maps.watch_whole(&programs_map())
    }

    /// Returns the state of the program on every node that is registered or has reported about the
    /// program.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn status(&self, program: &ProgramId) -> Result<Vec<NodeStatus>> {
        node_statuses(&self.maps, program).await
    }

    /// Waits until the active version is live on every node that is up. `version` must be the
    /// active one.
    ///
    /// # Errors
    /// `Stale` if another version is or becomes active. `Fault` if a node cannot make the version
    /// live; the error names the node and the reason. `Unavailable` after `timeout`; the error
    /// names the nodes on which the version is not live yet.
    pub async fn wait(&self, program: &ProgramId, version: u64, timeout: Duration) -> Result<()> {
        wait_until_live(self, program, version, timeout).await
    }
}

/// A program whose active version was switched, or that had the wanted active version already.
struct Switch {
    program: ProgramId,
    former: Option<u64>,
    record: ProgramRecord,
}

impl Switch {
    fn event(&self) -> Event {
        let program = &self.program;
        let text = match self.record.active {
            Some(version) => format!("{program} version {version} is active"),
            None => format!("{program} is no longer active"),
        };
        let site = ProgramSite {
            kind: program.kind,
            name: program.name.clone(),
            version: self.record.active.unwrap_or_default(),
            line: None,
        };
        let event = Event::new(Severity::Info, text).program(site);
        match self.former {
            Some(former) => event.field("former", former.to_string()),
            None => event,
        }
    }
}

/// Binds the active version to the map of the same name, or unbinds the map's program if no version
/// is active. The map ignores this if it already knows of a later activation.
async fn bind_map_program(maps: &Maps, program: &ProgramId, record: &ProgramRecord) -> Result<()> {
    let map = MapName::new(&program.name)?;
    match record.active() {
        Some(active) => {
            let source = fetch_source(maps.system(), &active.digest).await?;
            maps.bind(&map, active.version, &source, record.activation).await
        }
        None => maps.unbind(&map, record.activation).await,
    }
}

fn find(state: &MapState, program: &ProgramId) -> Result<ProgramRecord> {
    let key = program.to_string();
    let value = state.entries.get(&key);
    let record = value.map(|value| ProgramRecord::parse(&key, value, state.epoch)).transpose()?;
    Ok(record.unwrap_or_default())
}

/// The records of all programs that can be read. An unreadable record must not hide the others.
/// Nodes report it to the cluster log, and a request for that program fails with the error.
pub(super) fn readable_records(state: &MapState) -> BTreeMap<ProgramId, ProgramRecord> {
    state.entries.iter().filter_map(|(key, value)| read_record(key, value, state)).collect()
}

/// The digests that unreadable records possibly name: whatever in them looks like a digest.
pub(super) fn named_unreadably(state: &MapState) -> impl Iterator<Item = Digest> + '_ {
    let unreadable = state.entries.iter();
    let unreadable = unreadable.filter(|(key, value)| read_record(key, value, state).is_none());
    let words = unreadable.flat_map(|(_, value)| value.split(|byte| !byte.is_ascii_hexdigit()));
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

fn read_record(key: &str, value: &[u8], state: &MapState) -> Option<(ProgramId, ProgramRecord)> {
    Some((key.parse().ok()?, ProgramRecord::parse(key, value, state.epoch).ok()?))
}

fn info(id: ProgramId, record: &ProgramRecord) -> ProgramInfo {
    let versions = record.versions.iter().map(|(version, known)| VersionInfo {
        version: *version,
        digest: known.digest,
        bytes: known.bytes,
        created_at_micros: known.created_at_micros,
    });
    ProgramInfo {
        id,
        versions: versions.collect(),
        active: record.active,
        rollback_to: record.before.last().copied(),
    }
}
