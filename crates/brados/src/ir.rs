//! A program with resolved names, as rules over collections. Every pass after `resolve` works on
//! this form.
//!
//! If a rule chains several methods and blocks, each intermediate result becomes a collection
//! without a name ([`Collection::is_anonymous`]). So each rule in this form is one join with
//! conditions, one aggregation, or some literal rows. Columns are identified by position.

use crate::layout::{Layout, TableLocation};
use crate::span::Span;
use crate::syntax::ast::{BinaryOp, Kind};
use crate::syntax::token::MergeOp;
use nacre_calls::{Type, Value};

/// A resolved program.
#[derive(Debug, Default)]
pub struct Program {
    /// Every collection; a [`CollectionId`] is a position here.
    pub collections: Vec<Collection>,
    /// Its rules, in the order they are written.
    pub rules: Vec<Rule>,
    /// The layouts it declares.
    pub layouts: Vec<DeclaredLayout>,
}

/// The layouts: the present one, and those in which objects may still be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredLayout {
    /// The layout.
    pub layout: Layout,
    /// Whether objects are migrated from it.
    pub is_former: bool,
    /// Where it is written.
    pub span: Span,
}

/// Which collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectionId(pub usize);

/// A set of rows.
#[derive(Debug, Clone)]
pub struct Collection {
    /// The name of the collection. An anonymous collection is named after the operation that
    /// computes it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Whether it is a step of a chain.
    pub is_anonymous: bool,
    /// Its columns, those of the key first.
    pub columns: Vec<Column>,
    /// How many columns are its key.
    pub key_width: usize,
    /// Where its name is declared.
    pub span: Span,
}

/// A column of a collection.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, known once types are inferred.
    pub ty: Type,
    /// The type that was written.
    pub declared: Option<Type>,
    /// Where it is declared.
    pub span: Span,
}

/// `head op body`.
#[derive(Debug)]
pub struct Rule {
    /// The collection to which the rows are added.
    pub head: CollectionId,
    /// How.
    pub op: MergeOp,
    /// The rows.
    pub body: Body,
    /// The position in the source. For a step of a chain it is the position of the step's method.
    pub span: Span,
}

/// What computes rows.
#[derive(Debug)]
pub enum Body {
    /// A join.
    Select(Select),
    /// Rows written out.
    Literal(Vec<Vec<Value>>),
    /// Aggregates by group.
    Group(Group),
    /// The rows that are greatest or least in their group.
    Extreme(Extreme),
}

/// A join: the combinations of rows of `sources` that meet the conditions, each projected to the
/// columns.
#[derive(Debug)]
pub struct Select {
    /// The joined collections. An empty list stands for one empty row.
    pub sources: Vec<CollectionId>,
    /// Conditions on a row of the product.
    pub filters: Vec<Expr>,
    /// The rows that must not exist.
    pub absences: Vec<Absence>,
    /// The columns of the result.
    pub columns: Vec<Expr>,
}

/// The condition that a relation has no matching row.
#[derive(Debug)]
pub struct Absence {
    /// The relation.
    pub relation: CollectionId,
    /// Its columns that must equal what.
    pub equal: Vec<(usize, Expr)>,
    /// A further condition, in which the relation is one more source.
    pub predicate: Option<Expr>,
    /// Where it is written.
    pub span: Span,
}

/// `input.group(keys, aggregates)`: key columns, then a column for each aggregate.
#[derive(Debug)]
pub struct Group {
    /// The collection whose rows are grouped.
    pub input: CollectionId,
    /// By which columns.
    pub keys: Vec<usize>,
    /// The aggregates of each group.
    pub aggregates: Vec<Aggregate>,
}

/// One aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// What it computes.
    pub function: Function,
    /// The column; `count` needs none.
    pub column: Option<usize>,
    /// The value for no row.
    pub default: Option<Value>,
}

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// The greatest value.
    Max,
    /// The least value.
    Min,
    /// The sum.
    Sum,
    /// How many rows.
    Count,
    /// The sum by the count, rounded down.
    Avg,
}

impl Function {
    /// Every one.
    pub const ALL: [Function; 5] = [Self::Max, Self::Min, Self::Sum, Self::Count, Self::Avg];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::Min => "min",
            Self::Sum => "sum",
            Self::Count => "count",
            Self::Avg => "avg",
        }
    }
}

/// `input.argmax(keys, column)`: the rows, ties included.
#[derive(Debug)]
pub struct Extreme {
    /// The collection whose rows are grouped.
    pub input: CollectionId,
    /// By which columns.
    pub keys: Vec<usize>,
    /// Which column decides.
    pub column: usize,
    /// Whether the greatest or the least: [`Function::Max`] or [`Function::Min`].
    pub function: Function,
}

/// An expression on the rows of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Where it is written.
    pub span: Span,
}

/// What an expression computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExprKind {
    /// Always this.
    Literal(Value),
    /// A column of a source.
    Column {
        /// The position of the source in its join.
        source: usize,
        /// The column.
        column: usize,
    },
    /// An operator on two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// Zero less this.
    Negate(Box<Expr>),
    /// Whether a collection has a row whose first columns are these: its key, or all of them.
    Contains(CollectionId, Vec<Expr>),
    /// Whether one of several is equal.
    OneOf(Box<Expr>, Vec<Expr>),
}

impl Program {
    /// A collection.
    pub fn collection(&self, id: CollectionId) -> &Collection {
        &self.collections[id.0]
    }

    /// Every collection's id.
    pub fn ids(&self) -> impl Iterator<Item = CollectionId> + use<> {
        (0..self.collections.len()).map(CollectionId)
    }

    /// The layout that objects get.
    pub fn layout(&self) -> Layout {
        let mut present = self.layouts.iter().filter(|declared| !declared.is_former);
        present.next().map(|declared| declared.layout.clone()).unwrap_or_default()
    }

    /// The layouts in which objects may still lie.
    pub fn former_layouts(&self) -> impl Iterator<Item = &Layout> {
        self.layouts.iter().filter(|declared| declared.is_former).map(|declared| &declared.layout)
    }

    /// Whether a table is outside the map in some layout.
    pub(crate) fn is_placed(&self, table: CollectionId) -> bool {
        let name = &self.collection(table).name;
        self.layouts.iter().any(|declared| declared.layout.table(name) != TableLocation::Map)
    }

    /// The ids of the collections of a kind, in the order of their declaration.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = CollectionId> + '_ {
        self.ids().filter(move |id| self.collection(*id).kind == kind)
    }
}

impl Collection {
    /// How many columns it has.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The type of each column.
    pub(crate) fn types(&self) -> Vec<Type> {
        self.columns.iter().map(|column| column.ty).collect()
    }

    /// The type of each column of the key.
    pub(crate) fn key_types(&self) -> Vec<Type> {
        self.types()[..self.key_width].to_vec()
    }

    /// The types of the columns that are not in the key.
    pub(crate) fn value_types(&self) -> Vec<Type> {
        self.types()[self.key_width..].to_vec()
    }

    /// Whether it never has two rows.
    pub fn is_singleton(&self) -> bool {
        self.key_width == 0 && self.width() > 0
    }
}

/// How a relation is read. If it is joined, more rows in it can only give more rows in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// More rows there give more rows here.
    Joined,
    /// `notin` or `include?`.
    Negated,
    /// `group`, `argmax` or `argmin`.
    Aggregated,
}

impl Body {
    /// What it reads, how and where.
    pub fn reads(&self, span: Span) -> Vec<(CollectionId, Reading, Span)> {
        let mut reads = vec![];
        match self {
            Self::Literal(_) => {}
            Self::Group(group) => reads.push((group.input, Reading::Aggregated, span)),
            Self::Extreme(extreme) => reads.push((extreme.input, Reading::Aggregated, span)),
            Self::Select(select) => {
                reads.extend(select.sources.iter().map(|id| (*id, Reading::Joined, span)));
                for absence in &select.absences {
                    reads.push((absence.relation, Reading::Negated, absence.span));
                }
                for expr in select.exprs() {
                    expr.visit(&mut |expr| {
                        if let ExprKind::Contains(id, _) = &expr.kind {
                            reads.push((*id, Reading::Negated, expr.span));
                        }
                    });
                }
            }
        }
        reads
    }
}

impl Select {
    /// The join of these collections without any condition.
    pub(crate) fn of(sources: Vec<CollectionId>) -> Self {
        Self { sources, filters: vec![], absences: vec![], columns: vec![] }
    }

    /// Every expression in it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let absent = self.absences.iter().flat_map(|absence| {
            absence.equal.iter().map(|(_, expr)| expr).chain(&absence.predicate)
        });
        self.filters.iter().chain(&self.columns).chain(absent)
    }
}

impl Expr {
    /// A column of a source.
    pub(crate) fn column(source: usize, column: usize, span: Span) -> Self {
        Self { kind: ExprKind::Column { source, column }, span }
    }

    /// That two are equal.
    pub(crate) fn equal(left: Self, right: Self) -> Self {
        let span = Span {
            start: left.span.start.min(right.span.start),
            end: left.span.end.max(right.span.end),
        };
        Self { kind: ExprKind::Binary(BinaryOp::Equal, Box::new(left), Box::new(right)), span }
    }

    /// Shows this expression and all within it.
    pub fn visit(&self, visit: &mut impl FnMut(&Expr)) {
        visit(self);
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Column { .. } => {}
            ExprKind::Binary(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            ExprKind::Not(inner) | ExprKind::Negate(inner) => inner.visit(visit),
            ExprKind::Contains(_, items) => items.iter().for_each(|item| item.visit(visit)),
            ExprKind::OneOf(inner, items) => {
                inner.visit(visit);
                items.iter().for_each(|item| item.visit(visit));
            }
        }
    }

    /// The sources whose columns the expression reads, as a bit set.
    pub fn sources(&self) -> u32 {
        let mut sources = 0;
        self.visit(&mut |expr| {
            if let ExprKind::Column { source, .. } = expr.kind {
                sources |= 1 << source;
            }
        });
        sources
    }

    /// Whether the expression has arithmetic, whose operands must not be nil.
    pub(crate) fn computes(&self) -> bool {
        let mut found = false;
        self.visit(&mut |expr| {
            found |= match &expr.kind {
                ExprKind::Binary(op, ..) => !op.is_condition(),
                ExprKind::Negate(_) => true,
                _ => false,
            };
        });
        found
    }

    /// The conditions of which this is the conjunction.
    pub(crate) fn conjuncts(self) -> Vec<Expr> {
        match self.kind {
            ExprKind::Binary(BinaryOp::And, left, right) => {
                let mut all = left.conjuncts();
                all.extend(right.conjuncts());
                all
            }
            _ => vec![self],
        }
    }
}

impl BinaryOp {
    /// Whether its result is a boolean.
    pub fn is_condition(self) -> bool {
        self.is_logical() || self.is_comparison()
    }

    /// Whether its operands are booleans.
    pub fn is_logical(self) -> bool {
        matches!(self, Self::Or | Self::And)
    }

    /// Whether it compares.
    pub fn is_comparison(self) -> bool {
        self.is_equality() || self.is_ordering()
    }

    /// Whether it tells what is equal.
    pub fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::Unequal)
    }

    /// Whether it tells what is less.
    pub fn is_ordering(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::Greater | Self::AtLeast)
    }
}
