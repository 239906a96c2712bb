//! Handles rules that name a program: the switch asks the program where an IO goes, and keeps the
//! rules that the program inserts.
//!
//! The program runs outside the switch. Meanwhile the IO keeps its position in the queue of its
//! object. The switch asks a program only about bytes whose rule names it.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{Error, ObjectId, ProgramName, Request, Result};

use super::core::refuse;
use super::message::RefusedIo;
use super::waiting::{Arrival, Asked};
use super::{Command, IoId, ProgramAsk, ProgramDecision, RuleChange, Switch, Term};
use crate::limits::MAX_INSERTED_RULES;
use crate::model::{Destination, Io, Programs, Rule, RuleId, Span};
use crate::plan::{Piece, PieceOps, part_of};
use crate::rules::{RuleTable, Segment};

/// The rules that programs have inserted, by the rule that names the program.
#[derive(Debug, Default)]
pub(super) struct Inserted(BTreeMap<RuleId, RuleTable>);

impl Inserted {
    fn count(&self) -> usize {
        self.0.values().map(RuleTable::len).sum()
    }
}

/// A part of a piece.
pub(super) enum Part {
    /// It goes to this destination; `None` to continue to where it was going.
    Goes(Piece, Option<Destination>),
    /// A program must decide where it goes.
    Asks(ProgramAsk),
}

impl Switch {
    /// The rules that a program has inserted before `rule`, which names the program.
    pub fn inserted(&self, rule: RuleId) -> Option<&RuleTable> {
        self.inserted.0.get(&rule)
    }

    /// Divides a piece by destination. There are several parts only if rules that a program
    /// inserted send its bytes to different destinations.
    pub(super) fn parts(&self, arrival: &Arrival, piece: Piece) -> Result<Vec<Part>> {
        let rule = piece.rule.and_then(|id| Some((id, self.table.get(id)?)));
        let Some((id, rule)) = rule else { return Ok(vec![Part::Goes(piece, None)]) };
        let Destination::Program(program) = &rule.destination else {
            // A scattered read takes the same way as IO without a rule, so that the engine at the
            // home orders it with the writes there.
            let is_scattered = matches!(rule.destination, Destination::Scatter(_));
            let stays = is_scattered && self.is_home(&rule.destination);
            let to = (!stays).then(|| rule.destination.clone());
            return Ok(vec![Part::Goes(piece, to)]);
        };
        let touched = arrival.touches.first().copied();
        let touched = touched.ok_or_else(|| {
            Error::unsupported("an empty request cannot be routed").hint("send at least one op")
        })?;
        let mut io = arrival.io_of(touched);
        io.span = piece.span.or(io.span);
        let ways = self.ways(arrival, id, &io)?;
        let is_split = ways.len() > 1;
        let part = |(span, to): (Option<Span>, Option<&Destination>)| {
            let piece = match is_split {
                true => cut(&piece, &arrival.request, span)?,
                false => piece.clone(),
            };
            let Some(to) = to else {
                return self.question(program, id, rule, Io { span, ..io.clone() }).map(Part::Asks);
            };
            self.check_declared(program, to)?;
            Ok(Part::Goes(piece, Some(to.clone())))
        };
        ways.into_iter().map(part).collect()
    }

    /// Finds the destinations of bytes whose rule names a program. A decision of the program about
    /// this IO has priority over the rules that it inserted. `None` means that the program must be
    /// asked.
    fn ways<'a>(
        &'a self,
        arrival: &'a Arrival,
        rule: RuleId,
        io: &Io,
    ) -> Result<Vec<(Option<Span>, Option<&'a Destination>)>> {
        let asked = arrival.asked.as_ref().filter(|asked| Some(asked.term) == self.installed);
        let decided = asked.into_iter().flat_map(|asked| &asked.decided);
        let decided = decided.filter(|decision| decision.rule == rule);
        let Some(whole) = io.span else {
            let said = decided.map(|decision| &decision.destination).next();
            return match said {
                Some(said) => Ok(vec![(None, Some(said))]),
                None => self.ways_by_inserted(rule, io),
            };
        };
        let mut said: Vec<_> = decided
            .filter_map(|one| Some((one.span?.intersect(whole)?, &one.destination)))
            .collect();
        said.sort_by_key(|(span, _)| *span);
        let (mut ways, mut at) = (vec![], whole.start());
        for (span, to) in said {
            if let Some(gap) = Span::new(at, span.start()) {
                ways.extend(self.ways_by_inserted(rule, &Io { span: Some(gap), ..io.clone() })?);
            }
            ways.push((Some(span), Some(to)));
            at = span.end();
        }
        if let Some(rest) = Span::new(at, whole.end()) {
            ways.extend(self.ways_by_inserted(rule, &Io { span: Some(rest), ..io.clone() })?);
        }
        Ok(ways)
    }

    fn ways_by_inserted(
        &self,
        rule: RuleId,
        io: &Io,
    ) -> Result<Vec<(Option<Span>, Option<&Destination>)>> {
        let Some(table) = self.inserted(rule) else { return Ok(vec![(io.span, None)]) };
        let way = |segment: Segment| {
            let inserted = segment.rule.and_then(|own| table.get(own));
            (segment.span, inserted.map(|rule| &rule.destination))
        };
        Ok(table.route(io)?.into_iter().map(way).collect())
    }

    fn question(
        &self,
        program: &ProgramName,
        id: RuleId,
        rule: &Rule,
        io: Io,
    ) -> Result<ProgramAsk> {
        let declared = self.programs.get(program).ok_or_else(|| {
            Error::unavailable(format!("the rule \"{rule}\" names a program that is not active"))
                .hint(format!("list its versions: nacre program status route/{program}"))
        })?;
        let (program, version, header) = (program.clone(), declared.version, rule.header.clone());
        Ok(ProgramAsk { program, version, rule: id, header, io })
    }

    /// Refuses an undeclared destination. After a restart, the controller would not look for bytes
    /// there.
    fn check_declared(&self, program: &ProgramName, to: &Destination) -> Result<()> {
        let declared = self.programs.get(program).map(|one| one.destinations.as_slice());
        match declared.is_some_and(|destinations| destinations.contains(to)) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the program route/{program} does not declare the destination \"{to}\""
            ))
            .hint("add it to the `destinations` of the program")),
        }
    }

    /// Asks the programs where the bytes of an IO go. While the same rules are installed (one
    /// *term*), it asks only once for an IO. Until the programs answer, the IO keeps its position
    /// in the queue of its object.
    pub(super) fn ask_programs(
        &mut self,
        mut arrival: Arrival,
        asks: Vec<ProgramAsk>,
    ) -> Vec<Command> {
        let Some(term) = self.installed else { return self.hold(arrival) };
        let io = arrival.io;
        let asked = arrival.asked.take().filter(|asked| asked.term == term);
        let asked = asked.unwrap_or(Asked { term, is_open: false, decided: vec![] });
        let is_asked = asked.is_open;
        arrival.asked = Some(Asked { is_open: true, ..asked });
        let mut commands = self.hold(arrival);
        if !is_asked && commands.is_empty() {
            commands.push(Command::AskPrograms { io, term, asks });
        }
        commands
    }

    pub(super) fn programs_decided(
        &mut self,
        now: Duration,
        io: IoId,
        object: &ObjectId,
        term: Term,
        decided: Result<Vec<ProgramDecision>, RefusedIo>,
    ) -> Vec<Command> {
        let asked = self.waiting.get_mut(object, io).and_then(|arrival| arrival.asked.as_mut());
        let Some(asked) = asked.filter(|asked| asked.term == term) else { return vec![] };
        let changed = match (decided, self.installed == Some(term)) {
            (Err(RefusedIo(error)), _) => Err(error),
            // When the IO goes on, the switch asks the programs of the new rules.
            (Ok(_), false) => Ok(()),
            (Ok(decided), true) => {
                asked.is_open = false;
                asked.decided.extend(decided.iter().cloned());
                decided.into_iter().try_for_each(|decision| self.change_rules(decision))
            }
        };
        let mut commands = vec![];
        if let Err(error) = changed {
            self.waiting.remove(object, io);
            commands.push(refuse(io, error.on(object)));
        }
        commands.extend(self.release(now, object));
        commands
    }

    /// Makes the changes of rules in a program's decision.
    fn change_rules(&mut self, decision: ProgramDecision) -> Result<()> {
        let Some(rule) = self.table.get(decision.rule).cloned() else { return Ok(()) };
        let Destination::Program(program) = &rule.destination else { return Ok(()) };
        for change in decision.changes {
            match change {
                RuleChange::Insert { header, destination } => {
                    self.check_declared(program, &destination)?;
                    if !rule.header.covers(&header) {
                        let text = format!(
                            "the program route/{program} inserts a rule about \"{header}\", which is not a part of \"{}\"",
                            rule.header
                        );
                        return Err(
                            Error::invalid(text).hint("narrow the header of the inserted rule")
                        );
                    }
                    let is_full = self.inserted.count() >= MAX_INSERTED_RULES;
                    let own = self.inserted.0.entry(decision.rule).or_default();
                    // A second rule with the same header would have no effect, because the first
                    // one decides.
                    if own.has(&header) {
                        continue;
                    }
                    if is_full {
                        let text = format!(
                            "programs have inserted {MAX_INSERTED_RULES} rules at this switch, the most it can keep"
                        );
                        return Err(Error::exhausted(text).hint("have the program delete rules"));
                    }
                    own.insert(vec![Rule { header, destination, ..rule.clone() }])?;
                }
                RuleChange::Delete(header) => {
                    if let Some(own) = self.inserted.0.get_mut(&decision.rule) {
                        own.delete(&header);
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps the rules that a program has inserted if the rule that names the program is still
    /// there and the program's version is the same.
    pub(super) fn keep_inserted(&mut self, table: &RuleTable, programs: &Programs) {
        let old = std::mem::take(&mut self.inserted.0);
        for (id, inserted) in old {
            let Some(rule) = self.table.get(id) else { continue };
            let Destination::Program(name) = &rule.destination else { continue };
            let again = table.rules().find(|(_, other)| *other == rule).map(|(id, _)| id);
            if let Some(again) = again.filter(|_| self.programs.get(name) == programs.get(name)) {
                self.inserted.0.insert(again, inserted);
            }
        }
    }
}

/// Restricts a piece to these bytes.
fn cut(piece: &Piece, request: &Request, span: Option<Span>) -> Result<Piece> {
    let part = match (piece.ops.of(request), span) {
        ([op], Some(span)) => part_of(op, span),
        _ => None,
    };
    let op = part.ok_or_else(|| {
        Error::unsupported("rules of a program send this request to several destinations")
            .hint("send one request for each range")
    })?;
    Ok(Piece { span, rule: piece.rule, ops: PieceOps::Part(op) })
}
