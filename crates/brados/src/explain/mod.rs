//! Explains how the compiler has translated a program: strata, access paths, aggregates, layout.

mod graph;
mod stored;
mod stripes;

pub use self::graph::data_flow_svg;
pub use self::stripes::explain_stripes;

use std::fmt;

use crate::compile::Compiled;
use crate::ir::{CollectionId, Expr, Program};
use crate::plan::{Access, MethodPlan, Relation, RulePlan, Step, View};
use crate::span::LineIndex;
use crate::syntax::ast::Kind;

/// An explanation, for people ([`fmt::Display`]) and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What is stored, and where.
    pub stored: Vec<String>,
    /// The layout, and why it is this one.
    pub layout: String,
    /// The collections in the order in which they can be computed.
    pub strata: Vec<ExplainedStratum>,
    /// The methods.
    pub methods: Vec<ExplainedMethod>,
}

/// Collections that are computed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedStratum {
    /// Their names.
    pub collections: Vec<String>,
    /// Whether they are computed from each other.
    pub is_recursive: bool,
}

/// How a method is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedMethod {
    /// Its name.
    pub name: String,
    /// Whether it may write.
    pub writes: bool,
    /// The rules of the method, in the order in which they run.
    pub rules: Vec<ExplainedRule>,
}

/// How a rule is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedRule {
    /// Its line.
    pub line: u32,
    /// The collection into which the rule puts rows, and the operator.
    pub head: String,
    /// The access path of each relation it reads.
    pub accesses: Vec<String>,
}

/// Explains a program.
pub fn explain(compiled: &Compiled, source: &str) -> Explanation {
    let explainer = Explainer {
        program: &compiled.analysis.program,
        views: &compiled.plan.views,
        source,
        lines: LineIndex::new(source),
    };
    let strata = compiled.analysis.strata.iter().filter_map(|stratum| {
        let collections = stratum.collections.iter().map(|id| explainer.program.collection(*id));
        let named: Vec<_> = collections
            .filter(|collection| !collection.is_anonymous)
            .map(|collection| collection.name.clone())
            .collect();
        (!named.is_empty())
            .then_some(ExplainedStratum { collections: named, is_recursive: stratum.is_recursive })
    });
    Explanation {
        stored: explainer.stored(),
        layout: explainer.layout(),
        strata: strata.collect(),
        methods: compiled.plan.methods.iter().map(|method| explainer.method(method)).collect(),
    }
}

struct Explainer<'a> {
    program: &'a Program,
    views: &'a [View],
    source: &'a str,
    lines: LineIndex,
}

impl Explainer<'_> {
    fn name(&self, id: CollectionId) -> &str {
        &self.program.collection(id).name
    }

    /// Whether it is an aggregate that is read from the end of its table.
    fn is_edge(&self, relation: Relation) -> bool {
        let Relation::View(id) = relation else { return false };
        self.views.iter().any(|view| view.collection == id && !view.is_kept(self.program))
    }

    fn method(&self, method: &MethodPlan) -> ExplainedMethod {
        let name = self.name(method.input).to_owned();
        ExplainedMethod {
            name,
            writes: method.writes(self.program),
            rules: method.rules().map(|plan| self.rule(plan)).collect(),
        }
    }

    fn rule(&self, plan: &RulePlan) -> ExplainedRule {
        let rule = &self.program.rules[plan.rule];
        let accesses = plan.steps.iter().filter_map(|step| match step {
            Step::Bind { source, access } => Some(self.access(plan.sources[*source], access)),
            Step::Absent { relation, access, .. } => {
                Some(format!("no row of {}", self.access(*relation, access)))
            }
            Step::Filter(_) => None,
        });
        ExplainedRule {
            line: self.lines.line(rule.span.start),
            head: format!("{} {}", self.name(rule.head), rule.op),
            accesses: accesses.collect(),
        }
    }

    fn access(&self, relation: Relation, access: &Access) -> String {
        let id = relation.collection();
        let name = self.name(id);
        let values = |exprs: &[Expr]| {
            let texts: Vec<_> = exprs.iter().map(|expr| expr.span.text(self.source)).collect();
            texts.join(", ")
        };
        let key = |exprs: &[Expr]| {
            let columns = self.program.collection(id).columns.iter().take(exprs.len());
            columns.map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let read = if matches!(relation, Relation::Local(_)) {
            ""
        } else {
            "every stored row, read once; "
        };
        match access {
            Access::Only if self.program.collection(id).kind == Kind::Input => {
                format!("{name}: the request")
            }
            Access::Only => format!("{name}: one row in memory"),
            Access::Each => format!("{name}: {read}rows in memory"),
            Access::EachNew => format!("{name}: rows the last round added"),
            Access::Index(columns, _) => {
                let collection = self.program.collection(id);
                let names: Vec<_> =
                    columns.iter().map(|at| collection.columns[*at].name.as_str()).collect();
                format!("{name}: {read}index in memory by {}", names.join(", "))
            }
            Access::Point(exprs) if exprs.is_empty() && self.is_edge(relation) => {
                format!("{name}: the end of its table")
            }
            Access::Point(exprs) if exprs.is_empty() => format!("{name}: the header"),
            Access::Point(exprs) => {
                format!("{name}: point lookup by {} ({})", key(exprs), values(exprs))
            }
            Access::Prefix(exprs) => format!("{name}: range by {} ({})", key(exprs), values(exprs)),
            Access::Scan => format!("{name}: every row that is stored"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "layout: {}", self.layout)?;
        self.stored.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "strata:")?;
        for (at, stratum) in self.strata.iter().enumerate() {
            let recursive = if stratum.is_recursive { " (recursive)" } else { "" };
            writeln!(f, "  {}. {}{recursive}", at + 1, stratum.collections.join(", "))?;
        }
        for method in &self.methods {
            let access = if method.writes { "reads and writes" } else { "reads only" };
            writeln!(f, "method {} ({access}):", method.name)?;
            for rule in &method.rules {
                writeln!(f, "  line {}: {} …", rule.line, rule.head)?;
                rule.accesses.iter().try_for_each(|access| writeln!(f, "    {access}"))?;
            }
        }
        Ok(())
    }
}
