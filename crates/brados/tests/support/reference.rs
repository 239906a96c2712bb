//! A reference interpreter, which computes the results of a program in the simplest way. It keeps
//! whole relations in memory, and applies every rule to every row until no new row appears.

use std::collections::{BTreeMap, BTreeSet};

use nacre_brados::ir::{
    Absence, Aggregate, Body, CollectionId, Expr, ExprKind, Function, Group, Program, Select,
};
use nacre_brados::{Analysis, BinaryOp, Kind, MergeOp, Value};
use nacre_calls::OutputRows;

type Row = Vec<Value>;
type Relation = BTreeSet<Row>;

/// The request fails: two rows for one key, or a number past 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// Rounds of a recursion that ends.
const MAX_ROUNDS: usize = 1000;

/// An object as a program means it.
pub struct Reference<'a> {
    program: &'a Program,
    analysis: &'a Analysis,
    tables: BTreeMap<CollectionId, Relation>,
    /// Every message that was sent, with its channel.
    pub sent: Vec<(String, Row)>,
}

impl<'a> Reference<'a> {
    pub fn new(analysis: &'a Analysis) -> Self {
        Self { program: &analysis.program, analysis, tables: BTreeMap::new(), sent: vec![] }
    }

    /// A request; a failure changes nothing.
    pub fn request(&mut self, input: &str, row: &[Value]) -> Result<Vec<OutputRows>, Failed> {
        let mut rows: BTreeMap<CollectionId, Relation> =
            self.program.ids().map(|id| (id, Relation::new())).collect();
        rows.extend(self.tables.clone());
        let named = |id: &CollectionId| self.program.collection(*id).name == input;
        let input = self.program.of_kind(Kind::Input).find(named).expect("there is such an input");
        rows.insert(input, [row.to_vec()].into());
        let needed = self.needed(input);
        for stratum in &self.analysis.strata {
            let needed: Vec<_> =
                stratum.collections.iter().copied().filter(|id| needed.contains(id)).collect();
            self.complete(&needed, &mut rows)?;
        }
        let tables = self.tables_after(&rows)?;
        let sent = self.messages(&rows)?;
        self.tables = tables;
        self.sent.extend(sent);
        let outputs = self.program.of_kind(Kind::Output).filter(|id| !rows[id].is_empty());
        Ok(outputs
            .map(|id| {
                (self.program.collection(id).name.clone(), rows[&id].iter().cloned().collect())
            })
            .collect())
    }

    /// The collections that requests of an input must compute: the outputs, the tables, and the
    /// collections on which these depend. The interpreter computes no other collections, so a
    /// conflict in another collection has no effect.
    fn needed(&self, input: CollectionId) -> BTreeSet<CollectionId> {
        let tables = self.program.of_kind(Kind::Table);
        let mut live: BTreeSet<_> = tables.chain([input]).collect();
        let is_live = |rule: &Body, live: &BTreeSet<CollectionId>| match rule {
            Body::Literal(_) => true,
            Body::Select(select) => select.sources.iter().all(|id| live.contains(id)),
            Body::Group(group) => {
                let has_default = group.aggregates.iter().any(|one| one.default.is_some());
                has_default || live.contains(&group.input)
            }
            Body::Extreme(extreme) => live.contains(&extreme.input),
        };
        let is_told = |id| matches!(self.program.collection(id).kind, Kind::Output | Kind::Table);
        let mut needed: BTreeSet<CollectionId> =
            self.program.ids().filter(|id| is_told(*id)).collect();
        loop {
            let before = (live.len(), needed.len());
            for rule in &self.program.rules {
                if !is_live(&rule.body, &live) {
                    continue;
                }
                if rule.op == MergeOp::Now {
                    live.insert(rule.head);
                }
                if rule.op != MergeOp::Now || needed.contains(&rule.head) {
                    needed.extend(reads(&rule.body));
                }
            }
            if before == (live.len(), needed.len()) {
                return needed;
            }
        }
    }

    fn complete(
        &self,
        stratum: &[CollectionId],
        rows: &mut BTreeMap<CollectionId, Relation>,
    ) -> Result<(), Failed> {
        for _ in 0..MAX_ROUNDS {
            let before = rows.clone();
            for rule in &self.program.rules {
                if rule.op == MergeOp::Now && stratum.contains(&rule.head) {
                    let more = self.body(&rule.body, rows)?;
                    rows.get_mut(&rule.head).unwrap().extend(more);
                }
            }
            for id in stratum {
                self.check_keys(*id, &rows[id])?;
            }
            if *rows == before {
                return Ok(());
            }
        }
        panic!("a recursion that does not end");
    }

    fn check_keys(&self, id: CollectionId, rows: &Relation) -> Result<(), Failed> {
        let width = self.program.collection(id).key_width;
        let keys: BTreeSet<_> = rows.iter().map(|row| &row[..width]).collect();
        if keys.len() < rows.len() { Err(Failed) } else { Ok(()) }
    }

    /// The rows of all rules of one operator into a collection.
    fn pending(
        &self,
        head: CollectionId,
        op: MergeOp,
        rows: &BTreeMap<CollectionId, Relation>,
    ) -> Result<Relation, Failed> {
        let mut all = Relation::new();
        for rule in self.program.rules.iter().filter(|rule| rule.head == head && rule.op == op) {
            all.extend(self.body(&rule.body, rows)?);
        }
        Ok(all)
    }

    fn tables_after(
        &self,
        rows: &BTreeMap<CollectionId, Relation>,
    ) -> Result<BTreeMap<CollectionId, Relation>, Failed> {
        let mut tables = BTreeMap::new();
        for table in self.program.of_kind(Kind::Table) {
            let width = self.program.collection(table).key_width;
            let deleted = self.pending(table, MergeOp::Delete, rows)?;
            let replaced = self.pending(table, MergeOp::Replace, rows)?;
            let inserted = self.pending(table, MergeOp::Insert, rows)?;
            let mut after: Relation = rows[&table].difference(&deleted).cloned().collect();
            after.retain(|row| !replaced.iter().any(|other| other[..width] == row[..width]));
            after.extend(replaced);
            after.extend(inserted);
            self.check_keys(table, &after)?;
            tables.insert(table, after);
        }
        Ok(tables)
    }

    fn messages(
        &self,
        rows: &BTreeMap<CollectionId, Relation>,
    ) -> Result<Vec<(String, Row)>, Failed> {
        let mut sent = vec![];
        for channel in self.program.of_kind(Kind::Channel) {
            let name = &self.program.collection(channel).name;
            let messages = self.pending(channel, MergeOp::Send, rows)?;
            sent.extend(messages.into_iter().map(|row| (name.clone(), row)));
        }
        Ok(sent)
    }

    fn body(
        &self,
        body: &Body,
        rows: &BTreeMap<CollectionId, Relation>,
    ) -> Result<Relation, Failed> {
        match body {
            Body::Literal(literal) => Ok(literal.iter().cloned().collect()),
            Body::Select(select) => Evaluation { rows, program: self.program }.select(select),
            Body::Group(group) => grouped(group, &rows[&group.input]),
            Body::Extreme(extreme) => {
                let key =
                    |row: &Row| extreme.keys.iter().map(|at| row[*at].clone()).collect::<Row>();
                let input = &rows[&extreme.input];
                let beaten = |row: &Row| {
                    input.iter().filter(|other| key(other) == key(row)).any(|other| {
                        match extreme.function {
                            Function::Max => other[extreme.column] > row[extreme.column],
                            _ => other[extreme.column] < row[extreme.column],
                        }
                    })
                };
                Ok(input.iter().filter(|row| !beaten(row)).cloned().collect())
            }
        }
    }
}

/// The collections that a rule reads.
fn reads(body: &Body) -> Vec<CollectionId> {
    match body {
        Body::Literal(_) => vec![],
        Body::Group(group) => vec![group.input],
        Body::Extreme(extreme) => vec![extreme.input],
        Body::Select(select) => {
            let mut found = select.sources.clone();
            found.extend(select.absences.iter().map(|absence| absence.relation));
            for expr in select.exprs() {
                expr.visit(&mut |expr| {
                    if let ExprKind::Contains(id, _) = expr.kind {
                        found.push(id);
                    }
                });
            }
            found
        }
    }
}

fn grouped(group: &Group, input: &Relation) -> Result<Relation, Failed> {
    let mut groups: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
    for row in input {
        let key = group.keys.iter().map(|at| row[*at].clone()).collect();
        groups.entry(key).or_default().push(row);
    }
    let mut result = Relation::new();
    for (mut key, rows) in groups {
        for aggregate in &group.aggregates {
            key.push(aggregated(aggregate, &rows)?);
        }
        result.insert(key);
    }
    let defaults: Option<Row> =
        group.aggregates.iter().map(|aggregate| aggregate.default.clone()).collect();
    if let (true, Some(row)) = (input.is_empty(), defaults) {
        result.insert(row);
    }
    Ok(result)
}

fn aggregated(aggregate: &Aggregate, rows: &[&Row]) -> Result<Value, Failed> {
    let values = || rows.iter().map(|row| row[aggregate.column.unwrap_or(0)].clone());
    let sum = || values().map(|value| number(&value)).sum::<i64>();
    match aggregate.function {
        Function::Count => Ok(Value::Int(rows.len() as i64)),
        Function::Max => Ok(values().max().unwrap()),
        Function::Min => Ok(values().min().unwrap()),
        Function::Sum => whole(sum().into()),
        Function::Avg => whole(sum().div_euclid(rows.len() as i64).into()),
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        other => panic!("{other} is no number"),
    }
}

fn whole(number: i128) -> Result<Value, Failed> {
    if number.abs() < 1 << 53 { Ok(Value::Int(number as i64)) } else { Err(Failed) }
}

struct Evaluation<'a> {
    rows: &'a BTreeMap<CollectionId, Relation>,
    program: &'a Program,
}

impl Evaluation<'_> {
    fn select(&self, select: &Select) -> Result<Relation, Failed> {
        let mut products: Vec<Vec<&Row>> = vec![vec![]];
        for source in &select.sources {
            let mut longer = vec![];
            for product in &products {
                longer.extend(self.rows[source].iter().map(|row| [&product[..], &[row]].concat()));
            }
            products = longer;
        }
        let mut result = Relation::new();
        'products: for product in products {
            for filter in &select.filters {
                if self.expr(&product, filter)? != Value::Bool(true) {
                    continue 'products;
                }
            }
            for absence in &select.absences {
                if self.is_present(&product, absence)? {
                    continue 'products;
                }
            }
            let columns = select.columns.iter().map(|column| self.expr(&product, column));
            result.insert(columns.collect::<Result<_, _>>()?);
        }
        Ok(result)
    }

    fn is_present(&self, product: &[&Row], absence: &Absence) -> Result<bool, Failed> {
        for row in &self.rows[&absence.relation] {
            let mut matches = true;
            for (column, expr) in &absence.equal {
                matches &= row[*column] == self.expr(product, expr)?;
            }
            if let (true, Some(predicate)) = (matches, &absence.predicate) {
                let both = [product, &[row]].concat();
                matches = self.expr(&both, predicate)? == Value::Bool(true);
            }
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn expr(&self, product: &[&Row], expr: &Expr) -> Result<Value, Failed> {
        Ok(match &expr.kind {
            ExprKind::Literal(value) => value.clone(),
            ExprKind::Column { source, column } => product[*source][*column].clone(),
            ExprKind::Not(inner) => Value::Bool(self.expr(product, inner)? != Value::Bool(true)),
            ExprKind::Negate(inner) => Value::Int(-number(&self.expr(product, inner)?)),
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.expr(product, left)?, self.expr(product, right)?);
                binary(*op, &left, &right)?
            }
            ExprKind::OneOf(wanted, items) => {
                let wanted = self.expr(product, wanted)?;
                let mut found = false;
                for item in items {
                    found |= self.expr(product, item)? == wanted;
                }
                Value::Bool(found)
            }
            ExprKind::Contains(id, wanted) => {
                let wanted: Row =
                    wanted.iter().map(|item| self.expr(product, item)).collect::<Result<_, _>>()?;
                assert!(wanted.len() <= self.program.collection(*id).width());
                Value::Bool(self.rows[id].iter().any(|row| row[..wanted.len()] == wanted))
            }
        })
    }
}

fn binary(op: BinaryOp, left: &Value, right: &Value) -> Result<Value, Failed> {
    let are_there = *left != Value::Nil && *right != Value::Nil;
    let is_true = |value: &Value| *value == Value::Bool(true);
    Ok(Value::Bool(match op {
        BinaryOp::Or => is_true(left) || is_true(right),
        BinaryOp::And => is_true(left) && is_true(right),
        BinaryOp::Equal => left == right,
        BinaryOp::Unequal => left != right,
        BinaryOp::Less => are_there && left < right,
        BinaryOp::AtMost => are_there && left <= right,
        BinaryOp::Greater => are_there && left > right,
        BinaryOp::AtLeast => are_there && left >= right,
        _ => return arithmetic(op, number(left).into(), number(right).into()),
    }))
}

fn arithmetic(op: BinaryOp, left: i128, right: i128) -> Result<Value, Failed> {
    let floor = |left: i128, right: i128| {
        let quotient = left / right;
        if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient }
    };
    match op {
        BinaryOp::Add => whole(left + right),
        BinaryOp::Subtract => whole(left - right),
        BinaryOp::Multiply => whole(left * right),
        _ if right == 0 => Err(Failed),
        BinaryOp::Divide => whole(floor(left, right)),
        _ => whole(left - floor(left, right) * right),
    }
}
