//! Emits one method, from request to reply.

use std::collections::{HashMap, HashSet};

use super::encoding::quoted;
use super::layouts::Layouts;
use super::look_up::LookUps;
use super::request::Rest;
use super::row::Scalars;
use super::runtime::Runtime;
use super::target::Target;
use super::writer::{Position, Writer};
use super::{header, relation_name, uses_store};
use crate::ir::{CollectionId, Program};
use crate::limits::MAX_ROUNDS;
use crate::plan::{ClassPlan, MethodPlan, Phase, Relation, Rows, RulePlan};
use crate::span::LineIndex;
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// The most relations that a method keeps in local variables. Lua allows 200 local variables in a
/// function, and a method needs others too. Further relations are fields of a Lua table.
const MAX_LOCALS: usize = 80;

/// Additional local variables for a table that the method writes: the row to write, its key and the
/// old row.
const PENDING_LOCALS: usize = 3;

/// The most rows of a set that are searched one by one, instead of by key.
const MAX_FEW: usize = 8;

pub(super) struct MethodWriter<'a> {
    pub program: &'a Program,
    pub class: &'a ClassPlan,
    pub plan: &'a MethodPlan,
    pub layouts: &'a Layouts<'a>,
    pub lines: &'a LineIndex,
    pub runtime: &'a mut Runtime,
    pub out: &'a mut Writer,
    /// Numbers the variables of nested loops.
    pub depth: usize,
    pub in_table: bool,
    /// Whether a relation's one row is no table.
    pub has_scalars: bool,
    /// The rows that are none, by their variables.
    pub scalars: HashMap<String, Scalars>,
    pub look_ups: LookUps,
    /// The string at the end of the request.
    pub rest: Option<Rest>,
    /// The pending rows and messages that are declared.
    declared: HashSet<String>,
}

/// Registers a method with its access and the columns of its requests.
pub(super) fn register(
    global: &str,
    access: Option<&str>,
    columns: Option<&str>,
    runtime: &mut Runtime,
    out: &mut Writer,
) {
    let protect = runtime.need("protect");
    out.open("if not objclass.fail then");
    out.put(format!("{global} = {protect}({global})"));
    out.close("end");
    let mut said = vec![
        access.map_or("nil".to_owned(), |access| quoted(access.as_bytes())),
        columns.map_or("nil".to_owned(), |columns| quoted(columns.as_bytes())),
    ];
    while said.last().is_some_and(|last| last == "nil") {
        said.pop();
    }
    let said: String = said.iter().map(|said| format!(", {said}")).collect();
    out.put(format!("objclass.register({global}{said})"));
}

/// How many tables and channels a method writes.
fn written(program: &Program, plan: &MethodPlan) -> usize {
    let heads = plan.rules().map(|plan| program.rules[plan.rule].head);
    let is_stored =
        |id: &CollectionId| matches!(program.collection(*id).kind, Kind::Table | Kind::Channel);
    heads.filter(is_stored).collect::<HashSet<_>>().len()
}

impl<'a> MethodWriter<'a> {
    pub fn new(
        program: &'a Program,
        class: &'a ClassPlan,
        plan: &'a MethodPlan,
        layouts: &'a Layouts<'a>,
        lines: &'a LineIndex,
        runtime: &'a mut Runtime,
        out: &'a mut Writer,
    ) -> Self {
        let relations: usize = plan.phases.iter().map(|phase| phase.relations.len() + 1).sum();
        let in_table = relations + PENDING_LOCALS * written(program, plan) > MAX_LOCALS;
        let mut method = Self {
            program,
            class,
            plan,
            layouts,
            lines,
            runtime,
            out,
            depth: 0,
            in_table,
            has_scalars: false,
            scalars: HashMap::new(),
            look_ups: LookUps::default(),
            rest: None,
            declared: HashSet::new(),
        };
        method.has_scalars = !in_table && method.has_room_for_scalars();
        method
    }

    pub fn write(mut self) {
        let input = self.program.collection(self.plan.input);
        self.out.line = self.lines.line(input.span.start);
        // The name is assigned in the table of globals, because a local variable may have the same
        // name.
        let global = format!("_G[\"{}\"]", input.name);
        let (taken_apart, columns) = self.taken_apart().unzip();
        let parameters: String =
            taken_apart.iter().flatten().map(|name| format!(", {name}")).collect();
        self.out
            .open(format!("{global} = function(input, output, batch, text, length{parameters})"));
        self.write_body();
        self.out.close("end");
        let access = if self.plan.writes(self.program) { None } else { Some("readonly") };
        register(&global, access, columns.as_deref(), self.runtime, self.out);
    }

    fn write_body(&mut self) {
        let uses_store = uses_store(self.program, self.plan);
        if self.in_table {
            self.out.put("local v = {}");
        }
        self.decode_request();
        if uses_store {
            self.load_object();
        }
        let (mark, line) = (self.out.mark(), self.out.line);
        for phase in &self.plan.phases {
            self.phase(phase);
        }
        self.commit();
        if uses_store {
            self.leave_object(&mark);
        }
        self.reply();
        self.out.put("return 0");
        if !self.look_ups.locals.is_empty() {
            self.out.line = line;
            let locals = self.look_ups.locals.join(", ");
            self.out.insert(&mark, format!("local {locals}"));
        }
        self.cut_rest();
    }

    /// Emits the loading of the object's state. Within a batch, the state is taken from the
    /// previous request, unless that request failed.
    fn load_object(&mut self) {
        if self.layouts.has_former() {
            self.out.put("local object = load_object()");
            return;
        }
        self.out.put("local object = batch and batch.object");
        self.out.open("if object then");
        self.out.put("batch.object = nil");
        self.out.turn("else");
        self.out.put("object = load_object()");
        self.out.close("end");
    }

    /// Stores the header, and leaves the state of the object to the next request of a batch.
    fn leave_object(&mut self, since: &Position) {
        // A function that gets `object` may change it.
        let has = |text: &str| self.out.since(since).contains(text);
        let is_told = has("object,") || has("object)");
        let may_change = is_told || has("object.is_changed");
        if self.plan.writes(self.program) {
            self.out.open(match may_change {
                true => "if object.is_new or object.is_changed then",
                false => "if object.is_new then",
            });
            self.out.put("save_object(object)");
            self.out.close("end");
        }
        if self.layouts.has_former() {
            return;
        }
        // An object that is not stored leaves nothing for the next request.
        self.out.open("if batch and not object.is_new then");
        match header::is_whole(self.layouts, &self.class.views) && !is_told {
            true => self.out.put("batch.object = object"),
            false => self.out.put("batch.object = kept_object(object)"),
        }
        self.out.close("end");
    }

    /// The variable of a relation.
    pub fn name(&self, relation: Relation) -> String {
        let name = relation_name(self.program, relation);
        match (relation, self.in_table) {
            (Relation::Local(_), true) => format!("v.{name}"),
            _ => name,
        }
    }

    /// Whether a set in memory never has more than [`MAX_FEW`] rows. Such a set needs no keys: a
    /// loop finds one of so few rows faster.
    pub fn is_few(&self, relation: Relation) -> bool {
        let Relation::Local(id) = relation else { return false };
        let is_derived = matches!(self.program.collection(id).kind, Kind::Temp | Kind::Scratch);
        let is_recursive =
            |phase: &Phase| phase.relations.contains(&relation) && !phase.repeated.is_empty();
        is_derived
            && self.rules_into(id).count() <= MAX_FEW
            && self.rules_into(id).all(|plan| plan.rows == Rows::One)
            && !self.plan.phases.iter().any(is_recursive)
    }

    /// Whether rules may give more than one row.
    pub fn may_come_twice(&self, id: CollectionId) -> bool {
        let mut rules = self.rules_into(id);
        rules.next().is_some_and(|plan| plan.rows == Rows::Many) || rules.next().is_some()
    }

    /// The rules that add rows to a collection at once.
    pub fn rules_into(&self, id: CollectionId) -> impl Iterator<Item = &RulePlan> {
        self.plan.rules().filter(move |plan| {
            let rule = &self.program.rules[plan.rule];
            rule.head == id && rule.op == MergeOp::Now
        })
    }

    /// The variable of a table's pending rows or of a channel's messages.
    pub fn pending_name(&self, id: CollectionId) -> String {
        let prefix = if self.in_table { "v." } else { "" };
        format!("{prefix}{}_p{}", self.program.collection(id).name, id.0)
    }

    pub fn declare(&mut self, name: &str, value: &str) {
        let local = if self.in_table { "" } else { "local " };
        self.out.put(format!("{local}{name} = {value}"));
    }

    fn phase(&mut self, phase: &Phase) {
        if self.give_at_once(phase) {
            return;
        }
        for relation in &phase.relations {
            if self.declare_scalar(*relation, phase) {
                continue;
            }
            let name = self.name(*relation);
            let value = match self.plan.rows_of(*relation) {
                Rows::Many if self.is_few(*relation) => "{}".to_owned(),
                Rows::Many => format!("{}()", self.runtime.need("new_set")),
                _ => "nil".to_owned(),
            };
            self.declare(&name, &value);
        }
        for plan in &phase.once {
            let rule = &self.program.rules[plan.rule];
            if rule.op != MergeOp::Now {
                self.declare_pending(plan);
            }
            self.rule_plan(plan);
        }
        if !phase.repeated.is_empty() {
            self.recursion(phase);
        }
    }

    /// Declares the variable for the pending rows of a table or channel, before the first rule that
    /// adds some.
    fn declare_pending(&mut self, plan: &RulePlan) {
        let rule = &self.program.rules[plan.rule];
        let (head, op) = (rule.head, rule.op);
        let name = self.pending_name(head);
        if op != MergeOp::Send && self.is_pending_scalar(head) {
            return self.declare_row(name, head, Some(plan));
        }
        let value = match op {
            MergeOp::Send => format!("{}()", self.runtime.need("new_set")),
            _ if self.only_change(head).is_some() => "nil".to_owned(),
            _ => "{}".to_owned(),
        };
        if self.declared.insert(name.clone()) {
            self.declare(&name, &value);
        }
    }

    fn rule_plan(&mut self, plan: &RulePlan) {
        let rule = &self.program.rules[plan.rule];
        self.out.line = self.lines.line(rule.span.start);
        let target = Target::of(self, rule.head, rule.op);
        self.rule(plan, &target);
    }

    /// Semi-naive: each round joins only the rows that the round before added.
    fn recursion(&mut self, phase: &Phase) {
        let names: Vec<_> = phase.relations.iter().map(|relation| self.name(*relation)).collect();
        self.out.open("do");
        for name in &names {
            self.out.put(format!("{name}.new, {name}.upto = 1, 0"));
        }
        self.out.put("local rounds = 0");
        self.out.open("repeat");
        for name in &names {
            self.out.put(format!("{name}.new, {name}.upto = {name}.upto + 1, {name}.count"));
        }
        for plan in &phase.repeated {
            self.rule_plan(plan);
        }
        self.out.put("rounds = rounds + 1");
        self.out.open(format!("if rounds > {MAX_ROUNDS} then"));
        self.out.put(format!("error(\"a recursion of more than {MAX_ROUNDS} rounds\")"));
        self.out.close("end");
        let settled: Vec<_> =
            names.iter().map(|name| format!("{name}.upto == {name}.count")).collect();
        self.out.close(format!("until {}", settled.join(" and ")));
        self.out.close("end");
    }
}
