//! Plans how each method is carried out: which rules it needs, in which order, and by which access
//! paths.
//!
//! In a request of a method, the method's own input has one row and all other inputs are empty. So
//! the compiler knows for every collection whether it is empty, has at most one row, or may have
//! many ([`Rows`]). Rules over empty collections are dropped. A join with a table becomes a look-up
//! if the available rows determine the table's whole key.
//!
//! Tables are read as they were at the start of the request. The rows that `<=` adds to a table are
//! kept separately from the stored rows. So a rule that reads the table has several variants: one
//! reads the stored rows, another reads the added rows.

mod access;
mod brief;
mod cardinality;
mod constants;
mod demand;
mod method;
mod views;

pub use self::views::{Edge, KeptAs, View};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::ir::{CollectionId, Expr, Program};
use crate::limits::MAX_RULE_PLANS;
use crate::stratify::Stratum;
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// How a class is carried out.
#[derive(Debug)]
pub struct ClassPlan {
    /// The aggregates that are kept up to date.
    pub views: Vec<View>,
    /// A method for each input, in the order of their declaration.
    pub methods: Vec<MethodPlan>,
}

/// How a method is carried out.
#[derive(Debug)]
pub struct MethodPlan {
    /// Its input.
    pub input: CollectionId,
    /// The phases of the computation, in order.
    pub phases: Vec<Phase>,
    /// How many rows each relation that is not empty has.
    pub rows: Vec<(Relation, Rows)>,
}

/// Collections that are computed together.
#[derive(Debug)]
pub struct Phase {
    /// The relations that the phase computes; none if it writes or sends rows.
    pub relations: Vec<Relation>,
    /// Rules that are carried out once.
    pub once: Vec<RulePlan>,
    /// Rules that are repeated over the new rows, until there are no new rows.
    pub repeated: Vec<RulePlan>,
}

/// Something that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relation {
    /// Rows in memory, of this request.
    Local(CollectionId),
    /// A table as it was at the start of the request.
    Stored(CollectionId),
    /// An aggregate that is kept up to date, as it was at the start of the request.
    View(CollectionId),
}

/// How many rows a relation has at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rows {
    /// None.
    Empty,
    /// One.
    One,
    /// Any number.
    Many,
}

/// How a rule is carried out.
#[derive(Debug, Clone)]
pub struct RulePlan {
    /// Which rule of the program.
    pub rule: usize,
    /// The relation that the rule reads for each of its collections.
    pub sources: Vec<Relation>,
    /// The steps; each is nested in the previous one.
    pub steps: Vec<Step>,
    /// How many rows it can produce.
    pub rows: Rows,
}

/// A step of a rule.
#[derive(Debug, Clone)]
pub enum Step {
    /// Executes the next steps for each row of a source.
    Bind {
        /// Which source.
        source: usize,
        /// How its rows are found.
        access: Access,
    },
    /// Continues if a condition is true: the index of one of the rule's filters.
    Filter(usize),
    /// Continues if no row of a relation matches.
    Absent {
        /// Which of the rule's absences.
        absence: usize,
        /// The relation.
        relation: Relation,
        /// How rows that may match are found.
        access: Access,
        /// The columns that remain to be compared.
        remaining: Vec<usize>,
    },
}

/// How rows of a relation are found.
#[derive(Debug, Clone)]
pub enum Access {
    /// The one row of a relation in memory.
    Only,
    /// All rows of a relation in memory. A stored relation is first read into memory.
    Each,
    /// The rows of a relation in memory that the last round of a recursion added.
    EachNew,
    /// The rows that have these values in these columns, found by an index in memory. A stored
    /// relation is first read into memory.
    Index(Vec<usize>, Vec<Expr>),
    /// The stored row with this key.
    Point(Vec<Expr>),
    /// The stored rows whose key begins so.
    Prefix(Vec<Expr>),
    /// Every stored row.
    Scan,
}

impl Relation {
    /// The collection it is about.
    pub fn collection(self) -> CollectionId {
        match self {
            Self::Local(id) | Self::Stored(id) | Self::View(id) => id,
        }
    }
}

impl MethodPlan {
    /// How many rows a relation has.
    pub fn rows_of(&self, relation: Relation) -> Rows {
        let found = self.rows.iter().find(|(known, _)| *known == relation);
        found.map_or(Rows::Empty, |(_, rows)| *rows)
    }

    /// Its rules.
    pub fn rules(&self) -> impl Iterator<Item = &RulePlan> {
        self.phases.iter().flat_map(|phase| phase.once.iter().chain(&phase.repeated))
    }

    /// Whether it changes the object.
    pub fn writes(&self, program: &Program) -> bool {
        self.rules().any(|plan| {
            let rule = &program.rules[plan.rule];
            rule.op != MergeOp::Now || program.collection(rule.head).kind == Kind::Table
        })
    }

    /// Whether the method adds rows to a table that can have many rows.
    pub fn grows(&self, program: &Program) -> bool {
        self.rules().any(|plan| {
            let rule = &program.rules[plan.rule];
            let head = program.collection(rule.head);
            let puts = !matches!(rule.op, MergeOp::Delete | MergeOp::Send);
            puts && head.kind == Kind::Table && !head.is_singleton()
        })
    }
}

/// The relations that together are a collection, whether they have rows or not.
pub(crate) fn parts(program: &Program, views: &[View], id: CollectionId) -> Vec<Relation> {
    match program.collection(id).kind {
        Kind::Table => vec![Relation::Stored(id), Relation::Local(id)],
        _ if views.iter().any(|view| view.collection == id) => vec![Relation::View(id)],
        _ => vec![Relation::Local(id)],
    }
}

/// Plans every method, and reports scans of tables. If the plan exceeds a bound, reports that and
/// returns `None`.
pub(crate) fn plan(
    program: &Program,
    strata: &[Stratum],
    diagnostics: &mut Diagnostics,
) -> Option<ClassPlan> {
    let views = views::find(program);
    let mut methods: Vec<MethodPlan> = vec![];
    let mut rules = 0;
    for input in program.of_kind(Kind::Input) {
        let method = method::plan(program, strata, &views, input);
        rules += method.rules().count();
        if rules > MAX_RULE_PLANS {
            let span = program.collection(input).span;
            let error = Diagnostic::error(span, "the class would be too large");
            let help = "divide the program, or join fewer tables that `<=` adds to in one rule";
            diagnostics.add(error.help(help));
            return None;
        }
        warn_of_scans(program, &method, diagnostics);
        methods.push(method);
    }
    Some(ClassPlan { views, methods })
}

fn warn_of_scans(program: &Program, method: &MethodPlan, diagnostics: &mut Diagnostics) {
    for plan in method.rules() {
        for step in &plan.steps {
            let (relation, access) = match step {
                Step::Bind { source, access } => (plan.sources[*source], access),
                Step::Absent { relation, access, .. } => (*relation, access),
                Step::Filter(_) => continue,
            };
            let is_scan = matches!(access, Access::Scan | Access::Each | Access::Index(..));
            if let (Relation::Stored(table), true) = (relation, is_scan) {
                let name = &program.collection(table).name;
                let message = format!("this reads every row of the table `{name}`");
                let help =
                    format!("join it on `{name}`'s key, or its first columns, to look rows up");
                diagnostics
                    .add(Diagnostic::warning(program.rules[plan.rule].span, message).help(help));
            }
        }
    }
}
