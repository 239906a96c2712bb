//! Emits a rule without a loop as one Lua condition. A rule without a loop joins single rows that
//! are in local variables, compares their columns, and may test that other rows do not exist. If
//! the condition holds, the rule produces its row.

use super::expression::Scope;
use super::literal::Literal;
use super::method::MethodWriter;
use super::row::{Row, Scalars};
use crate::ir::{Absence, Body, Expr, ExprKind, Select};
use crate::plan::{Access, Phase, Relation, RulePlan, Step};
use crate::syntax::ast::BinaryOp;
use crate::syntax::token::MergeOp;

/// The condition under which a rule without a loop produces its row, and the rows whose columns the
/// rule can use then.
pub(super) struct Condition {
    /// All of them must hold. Tests that always hold are left out.
    tests: Vec<String>,
    pub scope: Scope,
}

impl Condition {
    /// The condition as a Lua expression that is true or false.
    pub fn text(&self) -> String {
        match &self.tests[..] {
            [] => "true".to_owned(),
            tests => tests.join(" and "),
        }
    }
}

impl MethodWriter<'_> {
    /// The condition of a rule, if the rule needs no loop.
    pub(super) fn condition(&mut self, plan: &RulePlan, select: &Select) -> Option<Condition> {
        let mut condition = Condition { tests: vec![], scope: Scope::new(select.sources.clone()) };
        for step in &plan.steps {
            let test = match step {
                Step::Bind { source, access } => {
                    let row = self.row_at_hand(plan.sources[*source], access)?;
                    let is_there = row.is_there.clone();
                    condition.scope.rows[*source] = Row::Scalars(row);
                    Some(is_there).filter(|is_there| is_there != "true")
                }
                Step::Filter(at) => self.test(&condition.scope, &select.filters[*at]),
                Step::Absent { absence, relation, access, remaining } => {
                    let row = self.row_at_hand(*relation, access)?;
                    let absence = &select.absences[*absence];
                    Some(self.absent(&condition.scope, *relation, row, absence, remaining))
                }
            };
            condition.tests.extend(test);
        }
        Some(condition)
    }

    /// The only row of a relation, if the row is in local variables or in the header.
    fn row_at_hand(&mut self, relation: Relation, access: &Access) -> Option<Scalars> {
        match (relation, access) {
            (_, Access::Only) => self.scalars_of(relation),
            (Relation::Stored(table), Access::Point(key)) if key.is_empty() => {
                self.has_scalars.then(|| self.header_row(table)).flatten()
            }
            _ => None,
        }
    }

    /// Finds a row that must not exist for a rule to hold. Returns it if it is in local variables,
    /// else `None`. Emits a look-up first if the row is a stored one.
    pub(super) fn row_found(
        &mut self,
        scope: &Scope,
        relation: Relation,
        access: &Access,
    ) -> Option<Scalars> {
        match access {
            Access::Point(key) => match self.look_up_point(scope, relation, key)? {
                Row::Scalars(row) => Some(row),
                Row::Table(_) => None,
            },
            _ => self.row_at_hand(relation, access),
        }
    }

    fn scalars_of(&self, relation: Relation) -> Option<Scalars> {
        match self.row(&self.name(relation)) {
            Row::Scalars(scalars) => Some(scalars),
            Row::Table(_) => None,
        }
    }

    /// A filter's condition; `None` if it compares two literals and is always true.
    pub(super) fn test(&mut self, scope: &Scope, filter: &Expr) -> Option<String> {
        if let ExprKind::Binary(op, left, right) = &filter.kind {
            let mut literal = |side| Literal::of(&self.expr(scope, side));
            let holds = literal(left).zip(literal(right)).is_some_and(|(left, right)| match op {
                BinaryOp::Equal => left == right,
                BinaryOp::Unequal => left != right,
                _ => false,
            });
            if holds {
                return None;
            }
        }
        Some(self.expr(scope, filter))
    }

    /// The condition that the only row of a relation does not exist, or does not match.
    pub(super) fn absent(
        &mut self,
        scope: &Scope,
        relation: Relation,
        row: Scalars,
        absence: &Absence,
        remaining: &[usize],
    ) -> String {
        let is_there = row.is_there.clone();
        let tests = self.match_tests(scope, relation, Row::Scalars(row), absence, remaining);
        match &tests[..] {
            [] if is_name(&is_there) => format!("not {is_there}"),
            [] => format!("not ({is_there})"),
            tests => format!("not ({is_there} and {})", tests.join(" and ")),
        }
    }

    /// Tries to emit the relation of a phase without variables for the columns of its row. This is
    /// possible if one rule without a loop produces the row, and the method already has the value
    /// of each column. Then one local variable has the rule's condition, which says whether the row
    /// exists. Rows with the same condition share the variable. Returns whether it was possible.
    pub(super) fn give_at_once(&mut self, phase: &Phase) -> bool {
        let ([Relation::Local(id)], [plan], []) =
            (&phase.relations[..], &phase.once[..], &phase.repeated[..])
        else {
            return false;
        };
        let rule = &self.program.rules[plan.rule];
        let is_only = rule.head == *id && rule.op == MergeOp::Now && !self.may_come_twice(*id);
        let Body::Select(select) = &rule.body else { return false };
        if !is_only || !self.is_scalar(*id) {
            return false;
        }
        let known = self.known_columns(plan);
        let known = known.and_then(|known| known.into_iter().collect::<Option<Vec<_>>>());
        let Some(columns) = known else { return false };
        let Some(condition) = self.condition(plan, select) else { return false };
        let (name, mut is_there) = (self.name(phase.relations[0]), condition.text());
        // The condition is stored in a local now, because it may change once the request is
        // committed.
        if !is_name(&is_there) {
            self.out.line = self.lines.line(rule.span.start);
            self.declare(&name, &is_there);
            is_there.clone_from(&name);
        }
        self.scalars.insert(name, Scalars { is_there, columns });
        true
    }
}

/// Whether a condition is only a name: the condition of another row, or `true`.
fn is_name(condition: &str) -> bool {
    condition.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use crate::compile;

    const PROGRAM: &str = "\
state do
  table :epoch, [] => [:epoch:int]
  interface input, :ask, [:epoch:int]
  interface output, :ret, [] => [:status:int]
  scratch :op, [:type:string, :epoch:int]
end
bloom do
  op <= ask{|a| ['ask', a.epoch]}
  temp :stale <= (op * epoch).lefts{|o, e| o.epoch < e.epoch}
  temp :valid <= op.notin(stale)
  temp :asked <= valid{|v| v.type == 'ask'}
  ret <= asked{|a| [0]}
  ret <= stale{|s| [-1]}
end
";

    #[test]
    fn a_rule_without_a_loop_becomes_one_condition() {
        let lua = compile(PROGRAM).unwrap().class.lua;
        let given = |name: &str| {
            lua.lines().find_map(|line| {
                let (relation, condition) =
                    line.trim().strip_prefix("local ")?.split_once(" = ")?;
                relation.starts_with(name).then_some((relation, condition))
            })
        };
        let (stale, is_stale) = given("stale_").unwrap();
        assert_eq!(is_stale, "object[1] == 1 and (a1 < object[2])");
        assert_eq!(given("valid_").unwrap().1, format!("not {stale}"));
        // A row that always exists, or exists whenever another does, has no local of its own.
        assert_eq!((given("op_"), given("asked_")), (None, None));
    }
}
