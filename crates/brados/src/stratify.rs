//! Finds an order in which a method can compute collections, and refuses programs without such an
//! order.
//!
//! A collection is complete once all its `<=` rules have run over complete input. Rules that only
//! join may form a cycle: they run until no new row appears. A collection must be complete before
//! it is negated, aggregated or deleted from. So a cycle through a negation, an aggregation or a
//! deletion has no meaning and is refused. Tables are read as they were at the start of the
//! request, so `<+`, `<-` and `<+-` close no cycle.

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{CollectionId, Program, Reading};
use crate::span::Span;
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// Collections that are computed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stratum {
    /// They, in the order of their declaration.
    pub collections: Vec<CollectionId>,
    /// Whether they are computed from each other.
    pub is_recursive: bool,
}

/// An edge: a `<=` rule computes `to` from `from`.
#[derive(Debug, Clone, Copy)]
struct Edge {
    from: CollectionId,
    to: CollectionId,
    reading: Reading,
    span: Span,
    rule_span: Span,
}

/// The strata of a program, each after the strata that it reads.
pub(crate) fn stratify(
    program: &Program,
    source: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<Stratum> {
    let edges = edges(program);
    let strata = components(program, &edges);
    for edge in edges.iter().filter(|edge| edge.reading != Reading::Joined) {
        if let Some(cycle) = path(&strata, &edges, edge) {
            diagnostics.add(refused(program, source, edge, &cycle));
        }
    }
    for diagnostic in deletions(program, source, &strata, &edges) {
        diagnostics.add(diagnostic);
    }
    strata
}

fn edges(program: &Program) -> Vec<Edge> {
    let rules = program.rules.iter().filter(|rule| rule.op == MergeOp::Now);
    rules
        .flat_map(|rule| {
            let edge = |(from, reading, span)| Edge {
                from,
                to: rule.head,
                reading,
                span,
                rule_span: rule.span,
            };
            rule.body.reads(rule.span).into_iter().map(edge)
        })
        .collect()
}

/// Strongly connected components, in topological order (Kosaraju, without recursion).
fn components(program: &Program, edges: &[Edge]) -> Vec<Stratum> {
    let forward =
        |id: CollectionId| edges.iter().filter(move |edge| edge.from == id).map(|edge| edge.to);
    let backward =
        |id: CollectionId| edges.iter().filter(move |edge| edge.to == id).map(|edge| edge.from);
    let mut finished = vec![];
    let mut seen = vec![false; program.collections.len()];
    for id in program.ids() {
        walk(id, &mut seen, &mut finished, &|id| forward(id).collect());
    }
    let mut strata = vec![];
    let mut seen = vec![false; program.collections.len()];
    for id in finished.into_iter().rev() {
        let mut collections = vec![];
        walk(id, &mut seen, &mut collections, &|id| backward(id).collect());
        if !collections.is_empty() {
            collections.sort_unstable();
            let is_recursive = collections.len() > 1 || forward(id).any(|to| to == id);
            strata.push(Stratum { collections, is_recursive });
        }
    }
    strata
}

/// Visits all nodes that can be reached from `start` and are not in `seen`. Appends a node to
/// `finished` once all nodes that can be reached from it have been appended.
fn walk(
    start: CollectionId,
    seen: &mut [bool],
    finished: &mut Vec<CollectionId>,
    next: &dyn Fn(CollectionId) -> Vec<CollectionId>,
) {
    if std::mem::replace(&mut seen[start.0], true) {
        return;
    }
    let mut stack = vec![(start, next(start))];
    while let Some((id, rest)) = stack.last_mut() {
        match rest.pop() {
            Some(other) if !seen[other.0] => {
                seen[other.0] = true;
                stack.push((other, next(other)));
            }
            Some(_) => {}
            None => {
                finished.push(*id);
                stack.pop();
            }
        }
    }
}

/// If an edge is part of a cycle, returns the other edges of the cycle: the path from the end of
/// the edge back to its beginning.
fn path(strata: &[Stratum], edges: &[Edge], edge: &Edge) -> Option<Vec<Edge>> {
    let stratum = strata.iter().find(|stratum| stratum.collections.contains(&edge.to))?;
    if !stratum.collections.contains(&edge.from) {
        return None;
    }
    let mut reached: Vec<(CollectionId, Option<Edge>)> = vec![(edge.to, None)];
    let mut at = 0;
    while at < reached.len() {
        let here = reached[at].0;
        at += 1;
        for next in edges.iter().filter(|next| next.from == here) {
            let is_new = !reached.iter().any(|(id, _)| *id == next.to);
            if is_new && stratum.collections.contains(&next.to) {
                reached.push((next.to, Some(*next)));
            }
        }
    }
    let mut way = vec![];
    let mut here = edge.from;
    while let Some((_, Some(step))) = reached.iter().find(|(id, _)| *id == here) {
        way.push(*step);
        here = step.from;
    }
    way.reverse();
    Some(way)
}

fn refused(program: &Program, source: &str, edge: &Edge, cycle: &[Edge]) -> Diagnostic {
    let what = match edge.reading {
        Reading::Negated => "negates",
        _ => "aggregates",
    };
    let shown = shown_cycle(program, edge, cycle);
    let name = |id| &program.collection(id).name;
    let message =
        format!("a cycle of `<=` rules {what} `{}`, which it computes: {shown}", name(edge.from));
    let mut error = Diagnostic::error(edge.span, message);
    for step in cycle.iter().filter(|step| step.rule_span != edge.rule_span) {
        let note = format!("`{}` is computed from `{}` here", name(step.to), name(step.from));
        error = error.note(step.rule_span, note);
    }
    error.help(way_out(program, source, std::iter::once(edge).chain(cycle)))
}

fn shown_cycle(program: &Program, edge: &Edge, cycle: &[Edge]) -> String {
    let mut ids = vec![edge.from, edge.to];
    ids.extend(cycle.iter().map(|step| step.to));
    let names = ids.iter().map(|id| program.collection(*id));
    let named: Vec<_> = names
        .filter(|collection| !collection.is_anonymous)
        .map(|collection| format!("`{}`", collection.name))
        .collect();
    named.join(" → ")
}

/// Suggests which rule of the cycle could write at the end of the request instead.
fn way_out<'e>(program: &Program, source: &str, steps: impl Iterator<Item = &'e Edge>) -> String {
    let lines = crate::span::LineIndex::new(source);
    let tables = steps.filter(|step| program.collection(step.to).kind == Kind::Table);
    match tables.map(|step| (step, lines.line(step.rule_span.start))).next() {
        Some((step, line)) => {
            let name = &program.collection(step.to).name;
            format!(
                "`{name} <+ …` on line {line} would break the cycle: its rows arrive at the end of the request"
            )
        }
        None => {
            "`<+` into a `table` would break the cycle: its rows arrive at the end of the request"
                .to_owned()
        }
    }
}

/// Refuses a `<-` or `<+-` on a table if a cycle of rules computes both the table and the rows to
/// delete. The next request would produce the deleted rows again.
fn deletions(
    program: &Program,
    source: &str,
    strata: &[Stratum],
    edges: &[Edge],
) -> Vec<Diagnostic> {
    let mut found = vec![];
    let recursive = || strata.iter().filter(|stratum| stratum.is_recursive);
    for rule in
        program.rules.iter().filter(|rule| matches!(rule.op, MergeOp::Delete | MergeOp::Replace))
    {
        let Some(stratum) = recursive().find(|stratum| stratum.collections.contains(&rule.head))
        else {
            continue;
        };
        let source_of = |id: &CollectionId| reaches(edges, &stratum.collections, *id);
        if let Some((_, _, span)) =
            rule.body.reads(rule.span).into_iter().find(|(id, ..)| source_of(id))
        {
            let cycle: Vec<_> = edges.iter().filter(|edge| edge.to == rule.head).copied().collect();
            let name = &program.collection(rule.head).name;
            let message =
                format!("`{}` deletes from `{name}` what a cycle of `<=` rules computes", rule.op);
            let error = Diagnostic::error(span, message);
            let error = cycle.iter().fold(error, |error, step| {
                error.note(step.rule_span, format!("`{name}` is computed here"))
            });
            found.push(error.help(way_out(program, source, cycle.iter())));
        }
    }
    found
}

/// Whether a collection is one of these, or is computed from them.
fn reaches(edges: &[Edge], from: &[CollectionId], to: CollectionId) -> bool {
    let mut reached = from.to_vec();
    let mut at = 0;
    while at < reached.len() {
        let here = reached[at];
        at += 1;
        for edge in edges.iter().filter(|edge| edge.from == here) {
            if !reached.contains(&edge.to) {
                reached.push(edge.to);
            }
        }
    }
    reached.contains(&to)
}
