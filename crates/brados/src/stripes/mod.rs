//! Stripes: one logical object stored as several, so that requests about different keys go to
//! different objects.
//!
//! A table is either *divided* among the stripes by a column of its key, or *copied* into each. A
//! method is *routed* if a column of its request decides the stripe: all rows of divided tables
//! that the method touches have the value of that column in their dividing column, and the method
//! writes no copied table. Any other method is *spread*: every stripe runs the request.
//!
//! The compiler chooses the dividing columns so that as many methods as possible are routed. Some
//! programs cannot be striped, because the stripes together would store or reply something else
//! than a single object would. The compiler then says why.
//!
//! **What is promised.** A routed request is one transaction, as on one object. A spread request is
//! one transaction on each stripe, but not one transaction in all: other requests may run in
//! between. If a stripe does not answer, the other stripes may have run the request, and the caller
//! must send it again. Some outputs depend on all rows together: an aggregate, or a test that some
//! row does not exist. In a spread request each stripe computes such an output from its own rows,
//! and the caller gets one output from each stripe.

mod carried;
mod routing;
mod spread;

use crate::compile::Compiled;
use crate::hash::fnv1a;
use crate::ir::{CollectionId, Program};
use crate::layout::Stripes;
use crate::plan::{ClassPlan, MethodPlan};
use crate::syntax::ast::Kind;
use nacre_calls::Value;

/// The most choices of dividing columns that the compiler compares. It is enough for six tables
/// with three key columns each.
const MAX_ASSIGNMENTS: usize = 4096;

/// How a program is striped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Striping {
    /// Each divided table, and the column that divides it.
    pub divided: Vec<(CollectionId, usize)>,
    /// How each method is sent, in the order of their declaration.
    pub methods: Vec<(CollectionId, Route)>,
}

/// Which stripes carry a request out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// One stripe, which this column of the request decides.
    Column(usize),
    /// Any one stripe: the method only reads data that every stripe has.
    Any,
    /// All stripes.
    Every {
        /// The outputs that each stripe answers for itself.
        apart: Vec<CollectionId>,
    },
}

/// Why a program cannot be striped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotStriped {
    /// The method in which it shows.
    pub method: String,
    /// Why.
    pub reason: String,
}

/// Decides how a program is striped. The compiler chooses the columns that divide tables.
///
/// # Errors
/// The reasons why the program cannot be striped, for the choice of columns that has the fewest
/// reasons.
pub fn striping(compiled: &Compiled) -> Result<Striping, Vec<NotStriped>> {
    choose(&compiled.analysis.program, &compiled.plan)
}

pub(crate) fn choose(program: &Program, plan: &ClassPlan) -> Result<Striping, Vec<NotStriped>> {
    let attempts = assignments(program).into_iter().map(|divided| {
        let attempt = Attempt { program, plan, divided };
        let methods: Vec<_> =
            plan.methods.iter().map(|method| (method.input, attempt.route(method))).collect();
        (attempt.divided, methods)
    });
    let best = attempts.min_by_key(|(divided, methods)| {
        let wrong = methods.iter().filter(|(_, route)| route.is_err()).count();
        let routed = methods.iter().filter(|(_, route)| is_routed(route)).count();
        (wrong, usize::MAX - routed, usize::MAX - divided.len())
    });
    let Some((divided, methods)) = best else {
        let reason = "no table has a key by which it could be divided".to_owned();
        return Err(vec![NotStriped { method: String::new(), reason }]);
    };
    let (mut routes, mut reasons) = (vec![], vec![]);
    for (input, route) in methods {
        match route {
            Ok(route) => routes.push((input, route)),
            Err(reason) => {
                let method = program.collection(input).name.clone();
                reasons.push(NotStriped { method, reason });
            }
        }
    }
    if reasons.is_empty() { Ok(Striping { divided, methods: routes }) } else { Err(reasons) }
}

impl Striping {
    /// A method that every stripe must run, if there is one.
    pub(crate) fn spread(&self) -> Option<CollectionId> {
        let is_spread = |route: &Route| matches!(route, Route::Every { .. });
        self.methods.iter().find(|(_, route)| is_spread(route)).map(|(input, _)| *input)
    }

    /// The names of the stripes that run a request to the object `name`, and the outputs that each
    /// stripe computes from its own rows only. `None` if there is no such method, if the request
    /// has too few columns, or if its value decides no stripe.
    pub fn stripes_of(
        &self,
        program: &Program,
        name: &str,
        method: &str,
        row: &[Value],
    ) -> Option<(Vec<String>, &[CollectionId])> {
        let stripes = program.layout().stripes;
        let mut methods = self.methods.iter();
        let (_, route) = methods.find(|(input, _)| program.collection(*input).name == method)?;
        match route {
            Route::Column(column) => Some((vec![stripes.name_of(name, row.get(*column)?)?], &[])),
            Route::Any => Some((vec![stripes.name_of(name, &Value::Int(0))?], &[])),
            Route::Every { apart } => Some((stripes.names(name), apart)),
        }
    }
}

fn is_routed(route: &Result<Route, String>) -> bool {
    matches!(route, Ok(Route::Column(_) | Route::Any))
}

/// All ways to divide the tables. Each way divides at least one table, by a key column that is
/// never nil.
fn assignments(program: &Program) -> Vec<Vec<(CollectionId, usize)>> {
    let mut all: Vec<Vec<(CollectionId, usize)>> = vec![vec![]];
    for id in program.of_kind(Kind::Table) {
        let table = program.collection(id);
        let columns = (0..table.key_width).filter(|at| !table.columns[*at].ty.may_be_nil);
        let with: Vec<_> = columns
            .flat_map(|column| {
                let add = move |rest: &Vec<_>| [&rest[..], &[(id, column)]].concat();
                all.iter().map(add).collect::<Vec<_>>()
            })
            .collect();
        all.extend(with);
        all.truncate(MAX_ASSIGNMENTS);
    }
    all.retain(|divided| !divided.is_empty());
    all
}

/// A choice of dividing columns that is being tried.
struct Attempt<'a> {
    program: &'a Program,
    plan: &'a ClassPlan,
    divided: Vec<(CollectionId, usize)>,
}

impl Attempt<'_> {
    /// How a method is sent. If the stripes would give another result than one object, the reason.
    fn route(&self, method: &MethodPlan) -> Result<Route, String> {
        if !self.touches_divided(method) && !self.writes_copies(method) {
            return Ok(Route::Any);
        }
        let width = self.program.collection(method.input).width();
        match (0..width).find(|column| self.is_routed_by(method, *column)) {
            Some(column) => Ok(Route::Column(column)),
            None => Ok(Route::Every { apart: self.spread(method)? }),
        }
    }

    /// The column by which a table or stored aggregate is divided among stripes, if it is. An
    /// aggregate is divided if it is grouped by the column that divides its table.
    fn dividing(&self, id: CollectionId) -> Option<usize> {
        let of_table =
            |id| self.divided.iter().find(|(own, _)| *own == id).map(|(_, column)| *column);
        match self.plan.views.iter().find(|view| view.collection == id) {
            Some(view) => {
                let column = of_table(view.table)?;
                view.keys.iter().position(|key| *key == column)
            }
            None => of_table(id),
        }
    }

    /// Whether a stripe has only its own part of a table or aggregate.
    fn is_divided(&self, id: CollectionId) -> bool {
        let view = self.plan.views.iter().find(|view| view.collection == id);
        let table = view.map_or(id, |view| view.table);
        self.divided.iter().any(|(own, _)| *own == table)
    }

    fn is_table(&self, id: CollectionId) -> bool {
        self.program.collection(id).kind == Kind::Table
    }
}

impl Stripes {
    /// The name of the stripe that holds the rows with this value, for the object `name`. `None` if
    /// the value decides no stripe: it is nil, or too long for an object's name.
    pub fn name_of(self, name: &str, value: &Value) -> Option<String> {
        match (self, value) {
            (Self::None, _) => Some(name.to_owned()),
            (_, Value::Nil) => None,
            (Self::Count(count), value) => {
                Some(format!("{name}.{}", hash(value) % u64::from(count)))
            }
            (Self::Each, Value::Int(value)) => Some(format!("{name}.{value}")),
            (Self::Each, Value::Bool(value)) => Some(format!("{name}.{value}")),
            (Self::Each, Value::Bytes(bytes)) => {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Some(format!("{name}.x{digits}"))
            }
        }
    }

    /// The names of all stripes, if their number is fixed.
    fn names(self, name: &str) -> Vec<String> {
        match self {
            Self::None => vec![name.to_owned()],
            Self::Count(count) => (0..count).map(|number| format!("{name}.{number}")).collect(),
            Self::Each => vec![],
        }
    }
}

/// Adjacent numbers go to different stripes; other values are distributed by FNV-1a. Never change
/// this function: rows that are already stored would no longer be found.
fn hash(value: &Value) -> u64 {
    match value {
        Value::Int(number) => number.rem_euclid(1 << 53).unsigned_abs(),
        Value::Bool(value) => u64::from(*value),
        Value::Nil => 0,
        Value::Bytes(bytes) => fnv1a(bytes),
    }
}
