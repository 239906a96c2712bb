//! Which layouts are possible for a program, and why the others are not.

use std::fmt;

use super::header::Header;
use super::notation::{HEADER, STRIPES};
use super::{HeaderLocation, IndexLocation, Layout, Stripes, TableLocation, stream};
use crate::compile::Compiled;
use crate::diagnostic::{Diagnostic, Diagnostics, suggestion};
use crate::ir::{Collection, CollectionId, DeclaredLayout, Program};
use crate::limits::MAX_FORMER_LAYOUTS;
use crate::plan::{ClassPlan, View};
use crate::stripes::{self, NotStriped};
use crate::syntax::ast::Kind;
use nacre_calls::{Base, Type};

/// Why a layout is impossible for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// The table, or `header`.
    pub item: String,
    /// Why it cannot lie there.
    pub reason: String,
    /// What to do.
    pub help: Option<String>,
}

impl Illegal {
    pub(super) fn new(item: &str, reason: impl Into<String>) -> Self {
        Self { item: item.to_owned(), reason: reason.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.item, self.reason)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

/// What a program stores.
pub(crate) struct Stored<'a> {
    pub program: &'a Program,
    pub header: Header,
}

impl<'a> Stored<'a> {
    pub fn new(program: &'a Program, views: &[View]) -> Self {
        Self { program, header: Header::new(program, views) }
    }

    /// The tables that have rows of their own: the others are fields of the header.
    pub fn tables(&self) -> impl Iterator<Item = CollectionId> + '_ {
        let tables = self.program.of_kind(Kind::Table);
        tables.filter(|id| !self.program.collection(*id).is_singleton())
    }

    pub fn name(&self, id: CollectionId) -> &'a str {
        &self.program.collection(id).name
    }
}

/// Why a layout is impossible for a program; nothing if it is possible.
pub fn check(compiled: &Compiled, layout: &Layout) -> Vec<Illegal> {
    let (program, plan) = (&compiled.analysis.program, &compiled.plan);
    let mut found = reasons(&Stored::new(program, &plan.views), layout);
    found.extend(striped(program, plan, layout));
    found
}

/// Why a program cannot be striped as a layout says.
fn striped(program: &Program, plan: &ClassPlan, layout: &Layout) -> Vec<Illegal> {
    if layout.stripes == Stripes::None {
        return vec![];
    }
    let named = |input| &program.collection(input).name;
    match stripes::choose(program, plan) {
        Ok(striping) => {
            let everywhere = striping.spread().filter(|_| layout.stripes == Stripes::Each);
            let reason = |input| {
                format!(
                    "every stripe must carry `{}` out, and there is no end of them",
                    named(input)
                )
            };
            let illegal = everywhere.map(|input| Illegal::new(STRIPES, reason(input)));
            illegal.map(|illegal| illegal.help("say how many there are")).into_iter().collect()
        }
        Err(reasons) => {
            let illegal = |one: NotStriped| match one.method.as_str() {
                "" => Illegal::new(STRIPES, one.reason),
                method => Illegal::new(STRIPES, format!("method `{method}`: {}", one.reason)),
            };
            reasons.into_iter().map(illegal).collect()
        }
    }
}

pub(super) fn reasons(stored: &Stored<'_>, layout: &Layout) -> Vec<Illegal> {
    let mut found: Vec<_> = layout
        .tables()
        .filter_map(|(name, location)| named(stored, name, location).err())
        .chain(header_location(stored, layout.header).err())
        .collect();
    if found.is_empty() {
        found.extend(stream::divide(stored, layout).err());
    }
    found
}

fn named(stored: &Stored<'_>, name: &str, location: TableLocation) -> Result<(), Illegal> {
    let mut tables = stored.program.of_kind(Kind::Table);
    let Some(id) = tables.find(|id| stored.name(*id) == name) else {
        let near = suggestion(name, stored.tables().map(|id| stored.name(id)));
        let illegal = Illegal::new(name, "there is no such table");
        return Err(match near {
            Some(near) => illegal.help(near),
            None => illegal,
        });
    };
    table_location(stored.program.collection(id), location)
}

/// Whether a table can be in a location, if the other tables are ignored.
pub(super) fn table_location(table: &Collection, location: TableLocation) -> Result<(), Illegal> {
    let illegal = |reason: String| Err(Illegal::new(&table.name, reason));
    if table.name == HEADER {
        return illegal(format!(
            "`{HEADER}` means all there is one of: the table stays in the map"
        ));
    }
    if table.is_singleton() && location != TableLocation::Map {
        let illegal = Illegal::new(&table.name, "its one row is a field of the header");
        return Err(illegal.help(format!("say where that is: `{HEADER}: attribute`")));
    }
    if location.is_by_number() && !has_number(table) {
        let key: Vec<_> = table.columns[..table.key_width].iter().map(shown).collect();
        return illegal(format!(
            "slots are found by a number, its key is [{}]: it must be one `int`",
            key.join(", ")
        ));
    }
    if matches!(location, TableLocation::Appended(_)) && table.width() == table.key_width {
        return illegal("it has no columns besides its key: nothing would be appended".to_owned());
    }
    Ok(())
}

impl TableLocation {
    /// Whether a key is found by counting.
    fn is_by_number(self) -> bool {
        matches!(self, Self::Slots { .. } | Self::Appended(IndexLocation::Stream { .. }))
    }
}

fn has_number(table: &Collection) -> bool {
    let number = Type { base: Base::Int, may_be_nil: false };
    table.key_width == 1 && table.columns[0].ty == number
}

fn shown(column: &crate::ir::Column) -> String {
    format!(":{}:{}", column.name, column.ty)
}

/// Whether the header can lie somewhere.
pub(super) fn header_location(
    stored: &Stored<'_>,
    location: HeaderLocation,
) -> Result<(), Illegal> {
    let Some(column) = stored.header.unbounded.as_ref().filter(|_| location != HeaderLocation::Map)
    else {
        return Ok(());
    };
    let reason = match location {
        HeaderLocation::Stream => "it has a fixed size at the beginning of the stream",
        _ => "an attribute is small",
    };
    Err(Illegal::new(HEADER, format!("{reason}, and nothing bounds `{column}`")))
}

/// Reports the mistakes in the layouts that a program declares.
pub(crate) fn check_declared(program: &Program, plan: &ClassPlan, diagnostics: &mut Diagnostics) {
    let stored = Stored::new(program, &plan.views);
    for (at, declared) in program.layouts.iter().enumerate() {
        let found = reasons(&stored, &declared.layout).into_iter();
        for Illegal { item, reason, help } in found.chain(striped(program, plan, &declared.layout))
        {
            let error = Diagnostic::error(declared.span, format!("`{item}`: {reason}"));
            diagnostics.add(error.maybe_help(help));
        }
        let twice = program.layouts[..at].iter().find(|other| other.layout == declared.layout);
        if let Some(other) = twice {
            let error = Diagnostic::error(declared.span, "this layout is declared twice");
            diagnostics.add(error.note(other.span, "here as well"));
        }
    }
    check_former(&program.layouts, diagnostics);
    for declared in program.layouts.iter().filter(|declared| declared.is_former) {
        if declared.layout == program.layout() {
            let error = Diagnostic::error(declared.span, "this is the present layout");
            diagnostics.add(error.help("a former one is what objects were in before"));
        }
        if declared.layout.stripes != program.layout().stripes {
            let error = Diagnostic::error(declared.span, "it has another number of stripes");
            let help = "rows are not moved between objects: the stripes stay as they are";
            diagnostics.add(error.help(help));
        }
    }
}

fn check_former(layouts: &[DeclaredLayout], diagnostics: &mut Diagnostics) {
    let mut present = layouts.iter().filter(|declared| !declared.is_former);
    if let (Some(first), Some(second)) = (present.next(), present.next()) {
        let error = Diagnostic::error(second.span, "there are two layouts");
        let help = "one is present; write `former layout …` for what objects may still lie in";
        diagnostics.add(error.note(first.span, "the other one").help(help));
    }
    if let Some(declared) =
        layouts.iter().filter(|declared| declared.is_former).nth(MAX_FORMER_LAYOUTS)
    {
        let message = format!("more than {MAX_FORMER_LAYOUTS} former layouts");
        let error = Diagnostic::error(declared.span, message);
        diagnostics.add(error.help("migrate the objects that lie in the oldest first"));
    }
}
