//! `CapabilityProgram`: one version of a capability program, compiled.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Function, Value};
use nacre_capability::{Ask, Asker, Holding, Mode, Terms as GrantTerms, Verdict, Wish};
use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_script::{ProgramVersion, ProgramVm, Run};

use super::decision::{ask_to_lua, holding_to_lua, place, seconds, verdict_from_lua};
use crate::limits::CAPABILITY_BUDGET;

thread_local! {
    static VM: ProgramVm<()> = const { ProgramVm::new() };
}

const GRANT_HINT: &str = "define grant(ask): return true to let the client work alone, false to let it ask the authority for each call";

/// One version of a capability program.
#[derive(Debug)]
pub struct CapabilityProgram {
    version: ProgramVersion,
    has_keep: bool,
    has_turn: bool,
}

impl CapabilityProgram {
    /// Compiles the source of a capability program, and runs it once.
    ///
    /// # Errors
    /// `Fault` with the line where it fails; `Invalid` if a required function is missing.
    pub fn compile(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let version = ProgramVersion::new(name, version, source, clock, &CAPABILITY_BUDGET);
        let (has_keep, has_turn) = version.run(&VM, |run, ()| {
            run.required_function("grant", GRANT_HINT)?;
            Ok((run.function("keep")?.is_some(), run.function("turn")?.is_some()))
        })?;
        Ok(Self { version, has_keep, has_turn })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version.number()
    }

    /// Decides what a client gets: a capability, or a round trip (the authority runs the call).
    ///
    /// # Errors
    /// `Fault` with the line where the program fails, or with the line of the function whose result
    /// is invalid; `Exhausted` if the program exceeds its budget.
    pub fn grant(&self, ask: &Ask<'_>) -> Result<Verdict> {
        self.decide("grant", |run, grant| {
            let ask = ask_to_lua(run.lua(), ask).map_err(|error| run.explain(&error))?;
            let returned = run.call_for::<Value>(grant, ask)?;
            verdict_from_lua(&returned)
        })
    }

    /// Decides how much longer a holder keeps a capability that another client asks for.
    ///
    /// # Errors
    /// As for [`CapabilityProgram::grant`].
    pub fn keep(&self, holding: &Holding<'_>, ask: &Ask<'_>) -> Result<Duration> {
        if !self.has_keep {
            return Ok(holding.keeps_by_its_terms());
        }
        self.decide("keep", |run, keep| {
            let explain = |error: mlua::Error| run.explain(&error);
            let holding = holding_to_lua(run.lua(), holding).map_err(explain)?;
            let ask = ask_to_lua(run.lua(), ask).map_err(explain)?;
            let returned = run.call_for::<Value>(keep, (holding, ask))?;
            seconds(&returned, "`keep`")
        })
    }

    /// Who is served next.
    ///
    /// # Errors
    /// As for [`CapabilityProgram::grant`].
    pub fn turn(&self, waiting: &[Ask<'_>]) -> Result<usize> {
        if !self.has_turn {
            return Ok(0);
        }
        self.decide("turn", |run, turn| {
            let asks = waiting.iter().map(|ask| ask_to_lua(run.lua(), ask));
            let asks: mlua::Result<Vec<_>> = asks.collect();
            let asks = asks.map_err(|error| run.explain(&error))?;
            let returned = run.call_for::<Value>(turn, asks)?;
            place(&returned, waiting.len())
        })
    }

    /// Calls every function of the program, with clients that do not exist.
    ///
    /// # Errors
    /// As for [`CapabilityProgram::grant`].
    pub(super) fn rehearse(&self) -> Result<()> {
        let asker = Asker { client: 1, entity: "client.a".into(), tenant: "default".into() };
        let ask = |wish| Ask {
            asker: &asker,
            wish,
            waited: Duration::from_millis(1),
            alone: Duration::MAX,
            waiting: 1,
            operations: 0,
        };
        let holding = Holding {
            asker: &asker,
            mode: Mode::Exclusive,
            held: Duration::from_millis(1),
            terms: GrantTerms::default(),
            operations: 1,
        };
        for wish in [Wish::Exclusive, Wish::Shared] {
            self.grant(&ask(wish))?;
            self.keep(&holding, &ask(wish))?;
        }
        self.turn(&[ask(Wish::Write), ask(Wish::Read), ask(Wish::Exclusive)]).map(drop)
    }

    fn decide<R>(
        &self,
        name: &str,
        body: impl FnOnce(&Run<'_>, &Function) -> Result<R>,
    ) -> Result<R> {
        let decided = self.version.run(&VM, |run, ()| match run.function(name)? {
            Some(function) => body(run, &function),
            None => Err(Error::invalid(format!(
                "the program has removed its function `{name}` while it ran"
            ))),
        });
        decided.map_err(|error| self.version.blame(error, name))
    }
}
