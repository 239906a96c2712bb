//! Emits the code that puts the rows of a rule into their target.

use super::encoding::{Typed, key, quoted, row_key};
use super::method::MethodWriter;
use super::row::{Row, Scalars};
use crate::ir::CollectionId;
use crate::plan::{Relation, Rows};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;

/// Where the rows of a rule go.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// The one row of a relation in memory, or the one pending row of a table.
    Only(Row),
    /// A relation in memory that has at most one row, which several rules may produce. The request
    /// fails if two rules produce different rows.
    Same(Row),
    /// A set in memory.
    Set(String),
    /// A set of few rows in memory.
    Few(String),
    /// A set of rows that are added to a table now.
    Table,
    /// Changes that wait for the end of the request.
    Pending(&'static str),
}

impl Target {
    pub fn of(method: &MethodWriter<'_>, head: CollectionId, op: MergeOp) -> Self {
        let local = Relation::Local(head);
        let (name, pending) = (method.name(local), method.pending_name(head));
        match op {
            MergeOp::Now if method.program.collection(head).kind == Kind::Table => Self::Table,
            MergeOp::Now => match method.plan.rows_of(local) {
                Rows::Many if method.is_few(local) => Self::Few(name),
                Rows::Many => Self::Set(name),
                _ if method.may_come_twice(head) => Self::Same(method.row(&name)),
                _ => Self::Only(method.row(&name)),
            },
            MergeOp::Send => Self::Set(pending),
            _ if method.only_change(head).is_some() => Self::Only(method.row(&pending)),
            MergeOp::Insert => Self::Pending("insert"),
            MergeOp::Delete => Self::Pending("delete"),
            MergeOp::Replace => Self::Pending("replace"),
        }
    }
}

impl MethodWriter<'_> {
    /// Emits the code that adds a new row to its target.
    pub(super) fn put_row(&mut self, head: CollectionId, columns: Vec<String>, target: &Target) {
        match target {
            Target::Only(Row::Scalars(own)) => self.out.put(assigned(own, &columns)),
            Target::Same(Row::Scalars(own)) => self.put_same_scalars(head, own, &columns),
            _ => {
                self.out.put(format!("local row = {{ {} }}", columns.join(", ")));
                self.put_existing(head, &Row::Table("row".to_owned()), target);
            }
        }
    }

    /// As [`Self::put_row`], for a row that exists already and never changes.
    pub(super) fn put_existing(&mut self, head: CollectionId, row: &Row, target: &Target) {
        let collection = self.program.collection(head);
        let (key_width, width) = (collection.key_width, collection.width());
        let shown = quoted(collection.name.as_bytes());
        let key_columns = self.columns(row, head, key_width);
        let bounds = format!("{}, {width}", key_width + 1);
        let whole = row.whole();
        match target {
            Target::Only(Row::Scalars(_)) | Target::Same(Row::Scalars(_)) => {
                self.put_row(head, (0..width).map(|at| row.column(at)).collect(), target);
            }
            Target::Only(Row::Table(name)) => self.out.put(format!("{name} = {whole}")),
            Target::Same(Row::Table(name)) => self.put_same(head, name, &whole),
            Target::Few(name) => {
                let add = self.runtime.need("add_few");
                self.out.put(format!("{add}({name}, {whole}, {key_width}, {width}, {shown})"));
            }
            Target::Set(name) => {
                let key = key(self.runtime, &key_columns, true);
                let add = self.runtime.need("add");
                self.out.put(format!("{add}({name}, {key}, {whole}, {bounds}, {shown})"));
            }
            Target::Pending(what) => {
                let key = row_key(self.runtime, &key_columns);
                let (pend, pending) = (self.runtime.need("pend"), self.pending_name(head));
                let table = self.name(Relation::Stored(head));
                self.out.put(format!("{pend}({pending}, {table}, \"{what}\", {key}, {whole})"));
            }
            Target::Table => {
                let row = match row {
                    Row::Table(row) => row.as_str(),
                    // The code uses the row more than once.
                    Row::Scalars(_) => {
                        self.out.put(format!("local row = {whole}"));
                        "row"
                    }
                };
                self.put_into_table(head, row, &key_columns, &bounds, &shown);
            }
        }
    }

    /// Emits the code that sets the only row of a relation, if several rules may produce the row.
    fn put_same(&mut self, head: CollectionId, name: &str, row: &str) {
        let own: Vec<_> = (1..=self.program.collection(head).width())
            .map(|column| (format!("{name}[{column}]"), format!("{row}[{column}]")))
            .collect();
        self.unless_given(head, name, format!("{name} = {row}"), own);
    }

    /// As [`Self::put_same`], for a row whose columns are in variables, not in a table.
    fn put_same_scalars(&mut self, head: CollectionId, own: &Scalars, columns: &[String]) {
        // Each column is computed only once.
        let values: Vec<_> = (1..=columns.len()).map(|at| format!("n{at}")).collect();
        if !values.is_empty() {
            self.out.put(format!("local {} = {}", values.join(", "), columns.join(", ")));
        }
        let pairs = own.columns.iter().cloned().zip(values.iter().cloned()).collect();
        self.unless_given(head, &own.is_there, assigned(own, &values), pairs);
    }

    /// Emits a test whether the row already exists. If not, the rule sets the row. If so, the
    /// rule's columns must equal the columns of the existing row.
    fn unless_given(
        &mut self,
        head: CollectionId,
        is_there: &str,
        give: String,
        columns: Vec<(String, String)>,
    ) {
        self.out.open(format!("if not {is_there} then"));
        self.out.put(give);
        if !columns.is_empty() {
            let differ: Vec<_> =
                columns.iter().map(|(own, other)| format!("{own} ~= {other}")).collect();
            let conflict = self.runtime.need("conflict");
            let collection = self.program.collection(head);
            let shown = quoted(collection.name.as_bytes());
            let (known, given): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
            self.out.turn(format!("elseif {} then", differ.join(" or ")));
            self.out.put(format!(
                "{conflict}({shown}, {{ {} }}, {{ {} }}, {}, {})",
                known.join(", "),
                given.join(", "),
                collection.key_width + 1,
                collection.width()
            ));
        }
        self.out.close("end");
    }

    /// Emits the code that adds a row to a table at once, unless the row is stored already. The row
    /// is kept separately from the stored rows.
    fn put_into_table(
        &mut self,
        head: CollectionId,
        row: &str,
        key_columns: &[Typed],
        bounds: &str,
        shown: &str,
    ) {
        let table = self.name(Relation::Stored(head));
        let local = Relation::Local(head);
        let (name, key) = (self.name(local), key(self.runtime, key_columns, true));
        self.out.put(format!("local key = {key}"));
        self.out.put(format!("local old = {table}.get(object, key)"));
        self.out.open("if not old then");
        match self.plan.rows_of(local) {
            Rows::Many => {
                let add = self.runtime.need("add");
                self.out.put(format!("{add}({name}, key, {row}, {bounds}, {shown})"));
            }
            _ if self.may_come_twice(head) => self.put_same(head, &name, row),
            _ => self.out.put(format!("{name} = {row}")),
        }
        let (same, conflict) = (self.runtime.need("same"), self.runtime.need("conflict"));
        self.out.turn(format!("elseif not {same}(old, {row}, {bounds}) then"));
        self.out.put(format!("{conflict}({shown}, old, {row}, {bounds})"));
        self.out.close("end");
    }
}

/// Assigns a row to its local variables. Leaves out columns whose expression is the value itself.
fn assigned(own: &Scalars, values: &[String]) -> String {
    let (mut to, mut from) = (vec![own.is_there.as_str()], vec!["true"]);
    for (own, value) in own.columns.iter().zip(values).filter(|(own, value)| own != value) {
        to.push(own);
        from.push(value);
    }
    format!("{} = {}", to.join(", "), from.join(", "))
}
