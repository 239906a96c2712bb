//! One run of one control program: it gets what the switches have counted, and its new rules are
//! analysed and committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use nacre_object::{ApplicationName, Error, ErrorKind, Result, TargetName, TenantName};
use nacre_route::{
    CacheLoad, ControlInput, ControlOutput, ControlProgram, StoredApplication, StoredInsertion,
    SwitchRule, WaitingIo,
};
use nacre_slo::SloState;

use super::super::analysis::{check_switches, findings};
use super::super::state::{RouteState, StartedApplication};
use super::super::supported::{
    check_declared, check_put_by_program, check_supported, check_supported_on_ceph,
};
use super::controller::ApplicationsTask;
use super::rates::{Snapshot, object_loads, target_loads};

/// One run of a program: what it gets.
pub(super) struct ProgramRun<'a> {
    pub name: &'a ApplicationName,
    pub started: &'a StartedApplication,
    pub program: Arc<ControlProgram>,
    /// What the map `routes` says.
    pub routes: &'a RouteState,
    /// What the switches had counted at the last run, and now.
    pub before: &'a Snapshot,
    pub after: &'a Snapshot,
    /// The caches of the nodes, if the program gets them.
    pub cache: Option<CacheLoad>,
    /// The time since the last run; 0 for the first.
    pub seconds: f64,
    pub state: serde_json::Value,
    /// The IO that waits for rules.
    pub waiting: Vec<WaitingIo>,
}

/// The result of a run.
pub(super) struct RunOutcome {
    pub state: serde_json::Value,
    pub told: Vec<String>,
    /// The shares of the nodes' caches, if they change.
    pub shares: Option<BTreeMap<TenantName, u64>>,
    /// The rules that the application has now.
    pub rules: usize,
    /// The application as it is to be stored, if its rules have changed.
    pub changed: Option<StoredApplication>,
}

impl ProgramRun<'_> {
    /// Runs the program on a thread that may wait.
    ///
    /// # Errors
    /// The errors of the program; `Invalid` and `Unsupported` for unsafe rules.
    pub async fn run(self, task: &ApplicationsTask) -> Result<RunOutcome> {
        let targets = task.switch.locations().targets().await?;
        let rules_before = self.routes.applications.get(self.name).map_or(vec![], rules_of);
        let input = ControlInput {
            now: task.clock.now_micros() as f64 / 1e6,
            seconds: self.seconds,
            settings: self.program.settings(&self.started.settings)?,
            state: self.state.clone(),
            targets: target_loads(&targets, self.before, self.after),
            objects: object_loads(self.before, self.after),
            cache: self.cache.clone(),
            rules: rules_before.clone(),
            waiting: self.waiting.clone(),
        };
        let program = Arc::clone(&self.program);
        let ran = tokio::task::spawn_blocking(move || program.control(&input)).await;
        let ControlOutput { rules, shares, state, told } =
            ran.map_err(|_| Error::unavailable("the node is stopping").hint("try again"))??;
        let count = rules.len();
        // The rules of one insertion are installed the longest prefix first, so a program may insert
        // them in any order.
        let changed = match sorted(&rules) == sorted(&rules_before) {
            true => None,
            false => Some(self.analysed(task, &targets, &rules).await?),
        };
        Ok(RunOutcome { state, told, shares, rules: count, changed })
    }

    /// The application with new rules. They must be as safe as rules that an operator puts.
    async fn analysed(
        &self,
        task: &ApplicationsTask,
        targets: &[TargetName],
        rules: &[SwitchRule],
    ) -> Result<StoredApplication> {
        let mut insertions: Vec<StoredInsertion> = vec![];
        for SwitchRule { switch, rule } in rules {
            match insertions.iter_mut().find(|one| one.switch == *switch) {
                Some(one) => one.rules.push(rule.clone()),
                None => insertions
                    .push(StoredInsertion { switch: switch.clone(), rules: vec![rule.clone()] }),
            }
        }
        let order = self.routes.order_of(self.name);
        let stored = StoredApplication { order, is_forced: false, insertions };
        check_switches(&stored, targets)?;
        let mut after = self.routes.clone();
        after.applications.insert(self.name.clone(), stored.clone());
        let all = after.rules()?;
        let programs = task.switch.programs();
        let declarations = programs.declared_now(&after.programs()?);
        stored.insertions.iter().try_for_each(|insertion| {
            insertion.rules(self.name)?.iter().try_for_each(check_put_by_program)
        })?;
        for (switch, rule) in
            all.iter().flat_map(|(switch, rules)| rules.iter().map(move |rule| (switch, rule)))
        {
            check_supported(rule)?;
            if task.switch.locations().rados().is_some() {
                check_supported_on_ceph(rule, switch)?;
            }
            let declared = rule.destination.program();
            let declared = declared.and_then(|name| declarations.destinations.get(name));
            check_declared(rule, declared.map_or(&[][..], Vec::as_slice))?;
        }
        let slo = match task.cluster.slos().state().await {
            // Programs must go on while the node is down that keeps this map.
            Err(error) if error.kind() == ErrorKind::Unavailable => SloState::default(),
            state => state?,
        };
        let known = findings(self.routes, targets, &declarations, &slo)?;
        let new = findings(&after, targets, &declarations, &slo)?;
        match new.iter().find(|finding| !known.contains(finding)) {
            None => Ok(stored),
            Some(finding) => Err(Error::invalid(format!(
                "the rules of the application {} would not be safe: {finding}",
                self.name
            ))
            .hint(format!(
                "correct the program or its settings, or stop it: nacre route stop {}",
                self.name
            ))),
        }
    }
}

fn sorted(rules: &[SwitchRule]) -> Vec<&SwitchRule> {
    let mut rules: Vec<_> = rules.iter().collect();
    rules.sort();
    rules
}

/// The rules of a stored application, as programs know them.
fn rules_of(stored: &StoredApplication) -> Vec<SwitchRule> {
    let mut rules = vec![];
    for insertion in &stored.insertions {
        let of_switch =
            |rule: &String| SwitchRule { switch: insertion.switch.clone(), rule: rule.clone() };
        rules.extend(insertion.rules.iter().map(of_switch));
    }
    rules
}
