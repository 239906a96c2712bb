//! The functions `insert`, `delete`, `clear`, `share` and `tell` of control programs.
//!
//! The changes of a run are collected. A run that fails changes nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::LuaString;
use nacre_object::{ApplicationName, Error, Result, TenantName};
use nacre_script::{Host, Library, raise};

use super::SwitchRule;
use crate::limits::{
    MAX_CONTROL_RULES, MAX_SHARE_BYTES, MAX_SHARES, MAX_TOLD, MAX_TOLD_CHARACTERS,
};
use crate::model::{Header, Rule, SwitchName};

/// What a run has changed so far.
#[derive(Debug)]
struct Changes {
    rules: Vec<(SwitchName, Rule)>,
    shares: Option<BTreeMap<TenantName, u64>>,
    told: Vec<String>,
}

/// What a run has changed.
pub(super) struct Finished {
    pub rules: Vec<SwitchRule>,
    pub shares: Option<BTreeMap<TenantName, u64>>,
    pub told: Vec<String>,
}

/// The functions that control programs can call. Each thread has one VM with its own changes, which
/// are `None` while no program runs.
pub(super) struct ControlLibrary(Rc<RefCell<Option<Changes>>>);

/// The name under which the rules of a run are parsed; the map stores rules without a name.
fn application() -> Result<ApplicationName> {
    ApplicationName::new("control")
}

impl ControlLibrary {
    /// Allows the program to change these rules from now on.
    ///
    /// # Errors
    /// `Invalid` if a rule is malformed.
    pub fn begin(&self, rules: &[SwitchRule]) -> Result<()> {
        let application = application()?;
        let parse =
            |one: &SwitchRule| Ok((one.switch.parse()?, Rule::from_line(&application, &one.rule)?));
        let rules = rules.iter().map(parse).collect::<Result<_>>()?;
        *self.0.borrow_mut() = Some(Changes { rules, shares: None, told: vec![] });
        Ok(())
    }

    /// Returns what the run has changed, and allows no more changes.
    pub fn finish(&self) -> Finished {
        let Some(Changes { rules, shares, told }) = self.0.borrow_mut().take() else {
            return Finished { rules: vec![], shares: None, told: vec![] };
        };
        let rules = rules.iter().map(|(switch, rule)| SwitchRule {
            switch: switch.to_string(),
            rule: rule.to_string(),
        });
        Finished { rules: rules.collect(), shares, told }
    }
}

impl Library for ControlLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let changes = Rc::<RefCell<Option<Changes>>>::default();
        let own = Rc::clone(&changes);
        let insert = host.function(move |_, (switch, rule): (LuaString, LuaString)| {
            let (switch, rule) = (text(&switch)?, text(&rule)?);
            change(&own, |changes| changes.insert(&switch, &rule)).map_err(raise)
        })?;
        host.globals.raw_set("insert", insert)?;
        let own = Rc::clone(&changes);
        let delete = host.function(move |_, (switch, header): (LuaString, LuaString)| {
            let (switch, header) = (text(&switch)?, text(&header)?);
            change(&own, |changes| changes.delete(&switch, &header)).map_err(raise)
        })?;
        host.globals.raw_set("delete", delete)?;
        let own = Rc::clone(&changes);
        let clear = host.function(move |_, ()| {
            change(&own, |changes| {
                changes.rules.clear();
                Ok(())
            })
            .map_err(raise)
        })?;
        host.globals.raw_set("clear", clear)?;
        let own = Rc::clone(&changes);
        let share = host.function(move |_, (tenant, bytes): (LuaString, f64)| {
            let tenant = text(&tenant)?;
            change(&own, |changes| changes.share(&tenant, bytes)).map_err(raise)
        })?;
        host.globals.raw_set("share", share)?;
        let own = Rc::clone(&changes);
        let tell = host.function(move |_, said: LuaString| {
            let said = said.to_string_lossy();
            change(&own, |changes| changes.tell(&said)).map_err(raise)
        })?;
        host.globals.raw_set("tell", tell)?;
        Ok(Self(changes))
    }
}

fn text(string: &LuaString) -> mlua::Result<String> {
    Ok(string.to_str().map_err(|_| raise(Error::invalid("a string is not UTF-8")))?.to_owned())
}

fn change<R>(
    changes: &RefCell<Option<Changes>>,
    make: impl FnOnce(&mut Changes) -> Result<R>,
) -> Result<R> {
    match changes.borrow_mut().as_mut() {
        Some(changes) => make(changes),
        None => Err(Error::invalid("a program can change rules only while it runs")
            .hint("call insert, delete, clear, share and tell in the function `control`")),
    }
}

impl Changes {
    fn insert(&mut self, switch: &str, rule: &str) -> Result<()> {
        let (switch, rule) = (switch.parse()?, Rule::from_line(&application()?, rule)?);
        let is_same =
            |(at, own): &&mut (SwitchName, Rule)| *at == switch && own.header == rule.header;
        if let Some((_, own)) = self.rules.iter_mut().find(is_same) {
            *own = rule;
            return Ok(());
        }
        if self.rules.len() >= MAX_CONTROL_RULES {
            let text = format!("an application has {MAX_CONTROL_RULES} rules at most");
            return Err(Error::exhausted(text).hint("insert one rule for a prefix: POOL/PREFIX*"));
        }
        self.rules.push((switch, rule));
        Ok(())
    }

    fn delete(&mut self, switch: &str, header: &str) -> Result<bool> {
        let (switch, header) = (switch.parse::<SwitchName>()?, Header::from_line(header)?);
        let before = self.rules.len();
        self.rules.retain(|(at, rule)| *at != switch || rule.header != header);
        Ok(self.rules.len() < before)
    }

    fn share(&mut self, tenant: &str, bytes: f64) -> Result<()> {
        if !(0.0..=MAX_SHARE_BYTES).contains(&bytes) {
            return Err(Error::invalid(format!("the share of {tenant} is {bytes} bytes"))
                .hint("give a number of bytes that is not negative"));
        }
        let shares = self.shares.get_or_insert_default();
        let tenant = tenant.parse()?;
        if !shares.contains_key(&tenant) && shares.len() >= MAX_SHARES {
            let text = format!("a run gives shares to {MAX_SHARES} tenants at most");
            return Err(Error::exhausted(text).hint("leave out tenants that gain little"));
        }
        shares.insert(tenant, bytes as u64);
        Ok(())
    }

    fn tell(&mut self, text: &str) -> Result<()> {
        if self.told.len() >= MAX_TOLD {
            return Err(Error::exhausted(format!("a run tells {MAX_TOLD} events at most"))
                .hint("tell what has changed since the last run"));
        }
        self.told.push(text.chars().take(MAX_TOLD_CHARACTERS).collect());
        Ok(())
    }
}
