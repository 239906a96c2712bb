//! A program as it is written.

use super::token::MergeOp;
use crate::layout::Layout;
use crate::span::Span;
use nacre_calls::{Base, Value};

/// A name and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub text: String,
    pub span: Span,
}

/// The kinds of collections a program declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stored in the object.
    Table,
    /// A collection that lasts for one request.
    Scratch,
    /// A collection that lasts for one request, declared by the rule that computes it.
    Temp,
    /// Sent to the runtime after the request.
    Channel,
    /// A method: its row is the request.
    Input,
    /// A collection whose rows are replied.
    Output,
}

impl Kind {
    /// The words it is declared with.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Scratch => "scratch",
            Self::Temp => "temp",
            Self::Channel => "channel",
            Self::Input => "interface input",
            Self::Output => "interface output",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Program {
    pub declarations: Vec<Declaration>,
    pub blocks: Vec<Block>,
    pub layouts: Vec<LayoutLine>,
}

/// `layout …` or `former layout …`.
#[derive(Debug)]
pub(crate) struct LayoutLine {
    pub layout: Layout,
    pub is_former: bool,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) struct Declaration {
    pub kind: Kind,
    pub name: Name,
    pub schema: Schema,
}

#[derive(Debug)]
pub(crate) enum Schema {
    /// `None` where a `=>` is missing: all columns are the key.
    Columns { keys: Vec<Column>, values: Option<Vec<Column>> },
    /// `name.schema`.
    SameAs(Name),
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub name: Name,
    pub base: Option<Base>,
    pub may_be_nil: bool,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub name: Option<Name>,
    pub rules: Vec<Rule>,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub is_temp: bool,
    pub head: Name,
    pub op: MergeOp,
    pub op_span: Span,
    pub body: Relation,
    pub span: Span,
}

/// `name`, `(a * b)` or `[[…]]`, the methods called on it, and a block.
#[derive(Debug)]
pub(crate) struct Relation {
    pub base: BaseRelation,
    pub calls: Vec<Call>,
    pub block: Option<Lambda>,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum BaseRelation {
    Collection(Name),
    Product(Vec<Name>),
    Literal(Vec<Expr>, Span),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub method: Name,
    pub arguments: Vec<Argument>,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub kind: ArgumentKind,
    pub span: Span,
}

#[derive(Debug)]
pub(crate) enum ArgumentKind {
    /// `:a`, `a` or `a.b`.
    Column(ColumnName),
    /// `:a => :b`.
    Pair(ColumnName, ColumnName),
    /// `[:a, :b]`.
    Columns(Vec<ColumnName>),
    /// `max(:v, 0)`.
    Aggregate { function: Name, column: Option<ColumnName>, default: Option<(Value, Span)> },
}

/// A column, perhaps with the collection it is of.
#[derive(Debug, Clone)]
pub(crate) struct ColumnName {
    pub collection: Option<Name>,
    pub column: Name,
}

impl ColumnName {
    pub fn span(&self) -> Span {
        self.collection.as_ref().map_or(self.column.span, |of| of.span.to(self.column.span))
    }
}

/// `{|a, b| body}`.
#[derive(Debug)]
pub(crate) struct Lambda {
    pub parameters: Vec<Name>,
    pub body: Expr,
    /// What follows `if`, or negated what follows `unless`.
    pub guard: Option<Expr>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Literal(Value),
    /// A row variable, or a collection before `.include?`.
    Name(String),
    /// `row.column`.
    Column(Name, Name),
    List(Vec<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    /// `x.include?(y)`.
    Include(Box<Expr>, Box<Expr>),
}

/// Operators between two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `or`, `||`.
    Or,
    /// `and`, `&&`.
    And,
    /// `==`.
    Equal,
    /// `!=`.
    Unequal,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`, rounded down.
    Divide,
    /// `%`, with the sign of the divisor.
    Modulo,
}

impl BinaryOp {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }

    /// Higher binds tighter.
    pub(crate) fn precedence(self) -> usize {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal | Self::Unequal => 3,
            Self::Less | Self::AtMost | Self::Greater | Self::AtLeast => 4,
            Self::Add | Self::Subtract => 5,
            Self::Multiply | Self::Divide | Self::Modulo => 6,
        }
    }
}
