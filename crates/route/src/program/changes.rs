//! The functions `insert` and `delete`, with which a route program changes the rules of its switch.
//!
//! The changes of a run are collected. They take effect when the program has decided. A run that
//! fails changes nothing.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::LuaString;
use nacre_object::{Error, Result};
use nacre_script::{Host, Library, raise};

use super::interface::ROUTE_INTERFACE;
use crate::limits::MAX_RULE_CHANGES;
use crate::model::{Destination, Header, Io, ObjectMatch};
use crate::switch::RuleChange;

/// What the running program may change, and its changes so far.
#[derive(Debug)]
struct Changes {
    /// The header of the rule that names the program.
    rule: Header,
    io: Io,
    declared: Vec<Destination>,
    made: Vec<RuleChange>,
}

/// The functions that route programs can call. Each thread has one VM with its own changes, which
/// are `None` while no program decides about an IO.
pub(super) struct RouteLibrary(Rc<RefCell<Option<Changes>>>);

impl RouteLibrary {
    /// Allows the program to change rules from now on.
    pub fn begin(&self, rule: &Header, io: &Io, declared: &[Destination]) {
        let (rule, io, declared) = (rule.clone(), io.clone(), declared.to_vec());
        *self.0.borrow_mut() = Some(Changes { rule, io, declared, made: vec![] });
    }

    /// Returns the changes, and allows no more.
    pub fn finish(&self) -> Vec<RuleChange> {
        self.0.borrow_mut().take().map_or(vec![], |changes| changes.made)
    }
}

impl Library for RouteLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let changes = Rc::<RefCell<Option<Changes>>>::default();
        let own = Rc::clone(&changes);
        let insert = host.function(move |_, (header, to): (LuaString, LuaString)| {
            let (header, to) = (text(&header)?, text(&to)?);
            change(&own, |changes| changes.insert(&header, &to)).map_err(raise)
        })?;
        host.globals.raw_set("insert", insert)?;
        let own = Rc::clone(&changes);
        let delete = host.function(move |_, header: LuaString| {
            let header = text(&header)?;
            change(&own, |changes| changes.header(&header).map(RuleChange::Delete)).map_err(raise)
        })?;
        host.globals.raw_set("delete", delete)?;
        Ok(Self(changes))
    }
}

fn text(string: &LuaString) -> mlua::Result<String> {
    Ok(string.to_str().map_err(|_| raise(Error::invalid("a string is not UTF-8")))?.to_owned())
}

fn change(
    changes: &RefCell<Option<Changes>>,
    make: impl FnOnce(&Changes) -> Result<RuleChange>,
) -> Result<()> {
    let mut changes = changes.borrow_mut();
    let Some(changes) = changes.as_mut() else {
        return Err(Error::invalid("a program can change rules only while it decides about an IO")
            .hint("call insert and delete in the function `route`"));
    };
    if changes.made.len() >= MAX_RULE_CHANGES {
        let text = format!("a program changes {MAX_RULE_CHANGES} rules at most for one IO");
        return Err(Error::exhausted(text).hint("insert one rule for a longer range of bytes"));
    }
    let made = make(changes)?;
    changes.made.push(made);
    Ok(())
}

impl Changes {
    /// Parses the header of a rule that the program inserts or deletes. It must name the object of
    /// the present IO. It must match only IO that the rule of the program matches.
    fn header(&self, line: &str) -> Result<Header> {
        let header = Header::from_line(line)?;
        if header.object != ObjectMatch::Exact(self.io.object.clone()) {
            return Err(Error::invalid(format!("the rule \"{header}\" is about other objects"))
                .hint("write io.object as the object"));
        }
        match self.rule.covers(&header) {
            true => Ok(header),
            false => Err(Error::invalid(format!(
                "the rule \"{header}\" is about more than \"{}\", which names the program",
                self.rule
            ))
            .hint("narrow the header: it may match only IO that the program decides about")),
        }
    }

    fn insert(&self, header: &str, to: &str) -> Result<RuleChange> {
        let (header, destination) = (self.header(header)?, Destination::from_line(to)?);
        match self.declared.contains(&destination) {
            true => Ok(RuleChange::Insert { header, destination }),
            false => Err(undeclared(&destination.to_string())),
        }
    }
}

/// The error of a program that returns a destination that it has not declared.
pub(super) fn undeclared(to: &str) -> Error {
    let list = ROUTE_INTERFACE.functions[0].name();
    Error::invalid(format!("the destination {to:?} is not in the list `{list}`"))
        .hint("add it to the list, or choose another")
}
