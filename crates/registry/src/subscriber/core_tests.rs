use nacre_program::Digest;

use super::*;
use crate::programs::VersionRecord;

const KINDS: [ProgramKind; 2] = [ProgramKind::Class, ProgramKind::Map];

fn program(kind: ProgramKind, name: u64) -> ProgramId {
    format!("{kind}/p{name}").parse().unwrap()
}

fn record(versions: u64, active: Option<u64>, activation: u64) -> ProgramRecord {
    let mut record = ProgramRecord::default();
    for version in 1..=versions {
        let digest = Digest::of(version.to_string());
        record.put(VersionRecord { digest, bytes: 1, created_at_micros: 0 });
    }
    ProgramRecord { active, activation, ..record }
}

fn core() -> Core {
    Core::new(NodeName::new("n").unwrap(), 1, 1)
}

fn told(id: &ProgramId, record: ProgramRecord, epoch: u64) -> News {
    News { epoch, whole: false, records: BTreeMap::from([(id.clone(), record)]) }
}

/// When what was to be reported now is.
fn reporting(now: Duration) -> Duration {
    now + 2 * REPORT_AFTER
}

/// Does what the core says until it waits for longer than a report does; everything succeeds.
fn settle(core: &mut Core, mut now: Duration) -> Vec<Command> {
    let mut commands = Vec::new();
    let end = reporting(now);
    loop {
        let command = match core.step(now) {
            Step::Do(command) => command,
            Step::WaitUntil(due) if due <= end => {
                now = due;
                continue;
            }
            Step::WaitUntil(_) | Step::Wait => break,
        };
        match &command {
            Command::ReadReports => core.reports_read(BTreeMap::new()),
            Command::WriteReports { changes, .. } => core.reports_written(changes.clone()),
            other => core.done(other, Outcome::Done, now),
        }
        commands.push(command);
    }
    commands
}

#[test]
fn only_the_newest_activation_is_made_live() {
    let id = program(ProgramKind::Class, 1);
    let mut core = core();
    core.news(told(&id, record(3, Some(1), 5), 5));
    core.news(told(&id, record(3, Some(2), 6), 6));
    let commands = settle(&mut core, Duration::ZERO);
    let installs: Vec<_> = commands
        .iter()
        .filter_map(|command| match command {
            Command::Install { active, .. } => Some(active.version),
            _ => None,
        })
        .collect();
    assert_eq!(installs, [2]);
    assert_eq!(core.table().state(&id).live, Some(2));
    assert_eq!(core.step(Duration::ZERO), Step::Wait);
}

#[test]
fn a_version_that_fails_leaves_the_former_one_live_and_is_reported() {
    let (id, now) = (program(ProgramKind::Class, 1), Duration::ZERO);
    let mut core = core();
    core.news(told(&id, record(2, Some(1), 5), 5));
    settle(&mut core, now);
    core.news(told(&id, record(2, Some(2), 6), 6));
    let Step::Do(install) = core.step(now) else { panic!("there is something to do") };
    core.done(&install, Outcome::Failed(Error::invalid("no good")), now);
    assert!(matches!(core.step(now), Step::WaitUntil(_)), "others are to hear the news first");

    let now = reporting(now);
    let Step::Do(Command::WriteReports { changes, .. }) = core.step(now) else {
        panic!("no report")
    };
    let report = StatusReport::parse("n", changes[0].value().unwrap()).unwrap();
    let failed = report.failed.unwrap();
    assert_eq!((report.live, failed.version, failed.retrying), (Some(1), 2, false));
    core.reports_written(changes);
    assert_eq!(core.step(now), Step::Wait, "it is not tried again");

    core.news(told(&id, record(2, Some(2), 7), 7));
    assert!(matches!(core.step(now), Step::Do(Command::Install { .. })), "activated anew");
}

#[test]
fn a_command_that_may_succeed_later_is_repeated_and_delays_no_other() {
    let (one, two) = (program(ProgramKind::Class, 1), program(ProgramKind::Class, 2));
    let (mut core, mut now) = (core(), Duration::ZERO);
    core.news(told(&one, record(1, Some(1), 5), 5));
    for _ in 0..5 {
        let Step::Do(install @ Command::Install { .. }) = core.step(now) else { panic!("due") };
        core.done(&install, Outcome::Later(Error::unavailable("away")), now);
        let failed = now;
        loop {
            match core.step(now) {
                Step::WaitUntil(due) => now = due,
                Step::Do(Command::Install { .. }) => break,
                Step::Do(Command::ReadReports) => core.reports_read(BTreeMap::new()),
                Step::Do(Command::WriteReports { changes, .. }) => core.reports_written(changes),
                other => panic!("{other:?}"),
            }
        }
        assert!(now > failed);
    }
    core.news(told(&two, record(1, Some(1), 6), 6));
    settle(&mut core, now);
    assert_eq!(core.table().state(&two).live, Some(1));
    assert!(core.table().has_settled_all(6));
}

#[test]
fn reports_of_an_earlier_incarnation_are_corrected() {
    let (id, now) = (program(ProgramKind::Class, 1), Duration::ZERO);
    let mut core = core();
    core.news(News { epoch: 9, whole: true, records: BTreeMap::new() });
    assert_eq!(core.step(now), Step::Do(Command::ReadReports));
    let stale =
        StatusReport { incarnation: 0, activation: 3, live: Some(4), failed: None }.to_value();
    let key = status_key(&core.node, &id);
    core.reports_read(BTreeMap::from([(key.clone(), stale)]));
    let Step::Do(Command::WriteReports { guard, changes }) = core.step(now) else {
        panic!("no report")
    };
    assert_eq!((guard.known, &changes[0]), (None, &Change::remove(key)));
    assert_eq!((changes.len(), changes[1].key()), (2, guard.key.as_str()));
}

#[test]
fn a_node_writes_a_new_report_so_that_a_late_one_is_refused() {
    let now = Duration::ZERO;
    let mut core = core();
    core.news(News { epoch: 9, whole: true, records: BTreeMap::new() });
    settle(&mut core, now);
    let id = program(ProgramKind::Class, 1);
    core.news(told(&id, record(1, Some(1), 10), 10));
    let Step::Do(install) = core.step(now) else { panic!("there is something to do") };
    core.done(&install, Outcome::Done, now);
    let now = reporting(now);
    let Step::Do(Command::WriteReports { guard, changes }) = core.step(now) else {
        panic!("no report")
    };
    // The store does not answer, and by then there is nothing left to report.
    core.reports_failed(now);
    core.news(told(&id, record(1, None, 11), 11));
    let Step::Do(uninstall) = core.step(now) else { panic!("there is something to do") };
    core.done(&uninstall, Outcome::Done, now);
    let Step::WaitUntil(later) = core.step(now) else { panic!("it pauses") };
    assert_eq!(core.step(later), Step::Do(Command::ReadReports));
    let order = guard.known.clone().unwrap();
    core.reports_read(BTreeMap::from([(guard.key.clone(), order)]));
    let Step::Do(Command::WriteReports { guard: again, changes: fence }) = core.step(later) else {
        panic!("the former report is not shut out")
    };
    assert_eq!((again, fence.len()), (guard, 1));
    assert_ne!(Some(&fence[0]), changes.last(), "it is known from the former one");
    core.reports_written(fence);
    assert_eq!(core.step(later), Step::Wait);
}

/// Simulates one node. Programs are activated and removed at random, installations and the store
/// fail at random, and the node sometimes restarts.
struct World {
    random: Random,
    records: BTreeMap<ProgramId, ProgramRecord>,
    epoch: u64,
    /// Map programs live outside the node and outlive its restart.
    bound: BTreeMap<ProgramId, (u64, Option<u64>)>,
    installed: BTreeMap<ProgramId, u64>,
    reports: BTreeMap<String, Bytes>,
    late_reports: Vec<(EntryGuard, Vec<Change>)>,
    trace: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::seeded(seed),
            records: BTreeMap::new(),
            epoch: 0,
            bound: BTreeMap::new(),
            installed: BTreeMap::new(),
            reports: BTreeMap::new(),
            late_reports: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn change_something(&mut self) -> News {
        let kind = *self.random.pick(&KINDS).unwrap();
        let id = program(kind, self.random.below(3));
        let active = Some(1 + self.random.below(4)).filter(|_| !self.random.one_in(4));
        self.epoch += 1;
        let record = record(4, active, self.epoch);
        self.records.insert(id.clone(), record.clone());
        told(&id, record, self.epoch)
    }

    fn whole(&self) -> News {
        News { epoch: self.epoch, whole: true, records: self.records.clone() }
    }

    /// Executes a command as the runtime does; version 4 never installs.
    fn execute(&mut self, core: &mut Core, command: &Command, now: Duration, faults: bool) {
        self.trace.push(format!("{now:?} {command:?}"));
        let lost = faults && self.random.one_in(4);
        let done_unheard = lost && self.random.one_in(2);
        match command {
            Command::ReadReports if lost => core.reports_failed(now),
            Command::ReadReports => core.reports_read(self.reports.clone()),
            Command::WriteReports { guard, changes } => {
                // What was lost on its way may arrive whenever it likes.
                let late = std::mem::take(&mut self.late_reports);
                for (guard, changes) in late {
                    self.write_reports(&guard, &changes);
                }
                let written = (!lost || done_unheard).then(|| self.write_reports(guard, changes));
                if lost && !done_unheard {
                    self.late_reports.push((guard.clone(), changes.clone()));
                }
                match written {
                    Some(true) if !lost => core.reports_written(changes.clone()),
                    _ => core.reports_failed(now),
                }
            }
            Command::Install { active, .. } if active.version == 4 => {
                core.done(command, Outcome::Failed(Error::invalid("bad")), now);
            }
            command => {
                if !lost || done_unheard {
                    self.change_program(command);
                }
                let away = || Outcome::Later(Error::unavailable("away"));
                core.done(command, if lost { away() } else { Outcome::Done }, now);
            }
        }
    }

    /// As the map does it; whether it did.
    fn write_reports(&mut self, guard: &EntryGuard, changes: &[Change]) -> bool {
        if self.reports.get(&guard.key) != guard.known.as_ref() {
            return false;
        }
        for change in changes {
            match change.value() {
                Some(value) => self.reports.insert(change.key().to_owned(), value.clone()),
                None => self.reports.remove(change.key()),
            };
        }
        true
    }

    fn change_program(&mut self, command: &Command) {
        let (program, version, activation) = match command {
            Command::Install { program, active, activation } => {
                (program, Some(active.version), *activation)
            }
            Command::Uninstall { program, activation } => (program, None, *activation),
            _ => return,
        };
        if !is_installed_by_nodes(program.kind) {
            let bound = self.bound.entry(program.clone()).or_default();
            if activation > bound.0 {
                *bound = (activation, version);
            }
        } else if let Some(version) = version {
            self.installed.insert(program.clone(), version);
        } else {
            self.installed.remove(program);
        }
    }
}

fn live_a_life(seed: u64) -> Vec<String> {
    let mut world = World::new(seed);
    let mut node = core();
    let mut now = Duration::ZERO;
    let (mut waiting, mut lives): (Vec<News>, u64) = (Vec::new(), 1);
    for _ in 0..200 {
        match world.random.below(10) {
            0 => waiting.push(world.change_something()),
            1 if world.random.one_in(5) => {
                lives += 1;
                node = Core::new(node.node, lives, 1);
                world.installed.clear();
                waiting = vec![world.whole()];
            }
            // A watcher that missed some.
            2 if world.random.one_in(5) => waiting = vec![world.whole()],
            3 | 4 if !waiting.is_empty() => node.news(waiting.remove(0)),
            _ => match node.step(now) {
                Step::Do(command) => world.execute(&mut node, &command, now, true),
                Step::WaitUntil(due) => now = due,
                Step::Wait => {}
            },
        }
    }
    waiting.into_iter().for_each(|news| node.news(news));
    loop {
        match node.step(now) {
            Step::Do(command) => world.execute(&mut node, &command, now, false),
            Step::WaitUntil(due) => now = due,
            Step::Wait => break,
        }
    }
    check_end(&world, &node, seed);
    world.trace
}

fn check_end(world: &World, node: &Core, seed: u64) {
    let table = node.table();
    assert!(table.has_settled_all(world.epoch), "seed {seed}");
    for (id, record) in &world.records {
        let state = table.state(id);
        let live = match is_installed_by_nodes(id.kind) {
            true => world.installed.get(id).copied(),
            false => world.bound.get(id).and_then(|(_, version)| *version),
        };
        match record.active {
            Some(4) => assert!(state.error.is_some() && state.live != Some(4), "seed {seed} {id}"),
            wanted => assert_eq!((live, state.live), (wanted, wanted), "seed {seed} {id}"),
        }
    }
    let mut reports = world.reports.clone();
    reports.remove(&report_order_key(&node.node));
    assert_eq!(reports, node.reports(), "seed {seed}");
}

#[test]
fn every_active_program_ends_up_live_or_reported_as_failed() {
    for seed in 0..500 {
        live_a_life(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(live_a_life(17), live_a_life(17));
    assert_ne!(live_a_life(17), live_a_life(18));
}
