//! Policies: programs that decide which units move to which rank.
//!
//! A policy is compiled once. Each run of it depends only on its inputs:
//!
//! 1. `measure` gives each unit its load (`metaload`). It runs often and over many units.
//! 2. `decide` gives each rank its load (`mdsload`). It asks the policy whether load has to move
//!    (`when`) and how much load has to move to which rank (`where`). Then it chooses the units
//!    (`howmuch`).
//!
//! **Invariant:** the same policy and inputs give the same decision.
//!
//! **Invariant:** a policy that fails moves nothing. Its error names the program, the version and,
//! if known, the line.

mod ceph;
mod decide;
mod dialect;
mod environment;
mod generate;
mod hook_name;
mod hooks;
mod library;
mod mapped_script;
mod measure;
mod moves;
mod original;
mod running;
mod sample;
mod targets;
mod translate;
mod values;

use std::sync::Arc;

use nacre_clock::{Clock, ManualClock};
use nacre_object::{Error, Result};
use nacre_program::{Budget, Digest};
use nacre_registry::SourceError;

use crate::hook::BALANCER_INTERFACE;
use crate::limits::{CHECK_BUDGET, DECISION_BUDGET};
use crate::{Decision, Inputs, Mode, UnitRates};

pub use dialect::Dialect;
pub use translate::{Translation, translate};

use hooks::Hooks;
use mapped_script::MappedScript;
use running::{RunTerms, run};

/// Whether a policy possibly reads single units: its source has the word `units` outside of comment
/// lines. A run lists the units only for such a policy, because a list of many units takes longer
/// to build than the whole decision. A comment line with a bracket counts as code, because the
/// bracket may end a long comment or string.
fn sees_units(source: &str) -> bool {
    let is_comment = |line: &str| line.trim_start().starts_with("--") && !line.contains(['[', ']']);
    source.lines().any(|line| line.contains("units") && !is_comment(line))
}

/// A compiled balancer policy. It may be shared between threads.
#[derive(Debug)]
pub struct Policy {
    name: String,
    version: u64,
    source: String,
    dialect: Dialect,
    mode: Mode,
    /// What `measure` runs.
    measuring: Arc<MappedScript>,
    /// What `decide` runs.
    deciding: Arc<MappedScript>,
    /// Whether the policy possibly reads single units.
    sees_units: bool,
}

impl Policy {
    /// Compiles a policy and finds out which hooks it sets, by running its source once on a made-up
    /// tick.
    ///
    /// # Errors
    /// `NotFound` for an empty source; `Fault` with the line if the source does not compile, fails,
    /// or sets a hook to a value of the wrong type; `Exhausted` past the budget.
    pub fn compile(name: &str, version: u64, source: &str) -> Result<Policy> {
        let dialect = Dialect::of(source);
        if dialect.without_directive(source).trim().is_empty() {
            return Err(Error::not_found("the policy is empty").on(name));
        }
        let plain = Arc::new(MappedScript::plain(name, version, source)?);
        let mut policy = Policy {
            name: name.to_owned(),
            version,
            source: source.to_owned(),
            dialect,
            mode: Mode::default(),
            measuring: Arc::clone(&plain),
            deciding: plain,
            sees_units: sees_units(source),
        };
        match dialect {
            Dialect::Hooks => policy.compile_hooks()?,
            Dialect::Ceph => {
                let original = generate::script_of(name, version, "", &Hooks::original())?;
                policy.measuring = Arc::new(original);
            }
        }
        Ok(policy)
    }

    /// The hooks that a source sets. For that, it is executed once on a made-up tick.
    fn read_hooks(name: &str, version: u64, source: &str) -> Result<Hooks> {
        let script = MappedScript::plain(name, version, source)?;
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let (script, clock, budget) = (&script, &clock, &CHECK_BUDGET);
        let terms = RunTerms { script, source, budget, clock, seed: 0 };
        let tick = sample::Shape::Peak.tick(0);
        run(&terms, |running| {
            running.library.begin(&tick.state);
            environment::set(running, &tick, sees_units(source))?;
            running.load()?;
            Hooks::read(running, source)
        })
    }

    fn compile_hooks(&mut self) -> Result<()> {
        let hooks = Self::read_hooks(&self.name, self.version, &self.source)?;
        let script = generate::script_of(&self.name, self.version, &self.source, &hooks)?;
        self.mode = hooks.mode;
        self.measuring = Arc::new(script);
        self.deciding = Arc::clone(&self.measuring);
        self.check_selectors(&hooks)
    }

    /// Fails if a `howmuch` that is a string names no selectors.
    fn check_selectors(&self, hooks: &Hooks) -> Result<()> {
        let hooks::HookForm::Text { .. } = hooks.howmuch else { return Ok(()) };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let tick = sample::Shape::Peak.tick(0);
        run(&self.terms(&self.deciding, &CHECK_BUDGET, &clock, 0), |running| {
            running.library.begin(&tick.state);
            environment::set(running, &tick, self.sees_units)?;
            decide::PolicyFunctions::load(running)?.selectors(running).map(drop)
        })
    }

    fn terms<'a>(
        &'a self,
        script: &'a MappedScript,
        budget: &'a Budget,
        clock: &'a Arc<dyn Clock>,
        seed: u64,
    ) -> RunTerms<'a> {
        RunTerms { script, source: &self.source, budget, clock, seed }
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the program.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The digest of the source.
    pub fn digest(&self) -> Digest {
        Digest::of(self.source.as_bytes())
    }

    /// The dialect in which it is written.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How clients reach a unit that has moved.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The load of each unit, from its counters (`metaload`).
    ///
    /// One run measures all units. A string `metaload` becomes part of a loop within the VM. A
    /// function costs several times as much, because each call passes the counters through globals.
    /// If `metaload` fails for one unit, the whole measurement fails.
    ///
    /// # Errors
    /// `Fault` with program, version and line; `Exhausted` past the budget.
    pub fn measure(&self, units: &[UnitRates], clock: &Arc<dyn Clock>) -> Result<Vec<f64>> {
        let terms = self.terms(&self.measuring, &DECISION_BUDGET, clock, 0);
        measure::measure(&terms, units)
    }

    /// Decides which units of the rank `inputs.whoami` move to which ranks.
    ///
    /// # Errors
    /// `Fault` with program, version and line if the policy fails or its targets are invalid; in
    /// the Ceph dialect invalid targets are `Invalid`; `Exhausted` past the budget; `Invalid` for
    /// inputs that contradict each other.
    pub fn decide(&self, inputs: &Inputs, clock: &Arc<dyn Clock>) -> Result<Decision> {
        inputs.check()?;
        let terms = self.terms(&self.deciding, &DECISION_BUDGET, clock, inputs.tick);
        let decision = match self.dialect {
            Dialect::Hooks => decide::decide(&terms, inputs, self.sees_units),
            Dialect::Ceph => ceph::decide(&terms, inputs, self.sees_units),
        };
        decision.map(|decision| Decision { mode: self.mode, ..decision })
    }

    /// Makes the policy decide on made-up ticks, as each of three ranks in turn. The load is all on
    /// one rank, the same on all ranks, or zero on all ranks. This finds policies that fail only on
    /// the last rank, on an idle cluster, or before they have stored a state.
    ///
    /// # Errors
    /// Those of [`Policy::measure`] and [`Policy::decide`].
    pub fn rehearse(&self, clock: &Arc<dyn Clock>) -> Result<()> {
        for shape in sample::Shape::ALL {
            for whoami in 0..sample::RANKS {
                let mut tick = shape.tick(whoami);
                let rates: Vec<_> = tick.units.iter().map(|unit| unit.rates).collect();
                tick.unit_loads = self.measure(&rates, clock)?;
                for number in 0..sample::TICKS {
                    tick.tick = number;
                    tick.state = self.decide(&tick, clock)?.state;
                }
            }
        }
        Ok(())
    }

    /// The names that the policy reads, does not define, and does not find.
    pub fn suspicions(&self) -> Vec<SourceError> {
        self.deciding.suspicions(&BALANCER_INTERFACE, &self.source)
    }
}
