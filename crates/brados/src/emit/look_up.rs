//! Emits look-ups of stored rows, so that a request looks up each row only once.
//!
//! If a row's key is known outside of loops, its look-up is emitted where the row is first needed.
//! The key is known if its columns are literals, or columns of rows kept in local variables
//! ([`super::scalar`]). The row of a table with at most one row needs no look-up: it is in the
//! header, which every request loads.

use super::encoding::{Typed, all_unpacked, format, key, quoted, slot_count};
use super::int_key::IntKey;
use super::method::MethodWriter;
use super::place::find;
use super::row::{Row, Scalars};
use super::stored::row_fields;
use crate::ir::CollectionId;
use crate::plan::Relation;
use nacre_calls::{Base, Type};

/// How many local variables looked-up rows may take, in addition to those of other rows.
const MAX_LOOKED_UP_LOCALS: usize = 30;

/// The rows that a method looks up.
#[derive(Debug, Default)]
pub(super) struct LookUps {
    rows: Vec<LookUp>,
    /// The local variables for the rows. They are declared at the beginning of the method.
    pub locals: Vec<String>,
}

/// A row that a method looks up.
#[derive(Debug, Clone)]
struct LookUp {
    table: CollectionId,
    /// The columns of its key.
    key: Vec<String>,
    /// The local variable that says whether the row exists. It is nil before the look-up.
    row: String,
    /// The local variables for the parts of the row's value.
    slots: Vec<String>,
}

impl LookUp {
    /// The local variable for the stored key of the row. It is not used if the key is one number.
    fn stored_key(&self) -> String {
        format!("{}k", self.row)
    }
}

impl MethodWriter<'_> {
    /// Returns the row of a table with this key. Emits the look-up unless the method already has
    /// it. Returns `None` if the key is known only inside a loop, where each iteration needs a
    /// look-up of its own.
    pub(super) fn look_up(&mut self, table: CollectionId, key: &[String]) -> Option<Row> {
        if !self.has_scalars {
            return None;
        }
        if let Some(row) = self.header_row(table) {
            return Some(Row::Scalars(row));
        }
        if !key.iter().all(|column| self.is_spelled(column)) {
            return None;
        }
        let look_up = match self.known_look_up(table, key).cloned() {
            Some(known) => known,
            None => self.new_look_up(table, key)?,
        };
        self.fetch(&look_up);
        Some(self.row(&look_up.row))
    }

    /// The Lua variable that holds the stored relations that were read into memory, by name.
    pub(super) fn loaded_relations(&mut self) -> String {
        const NAME: &str = "loaded";
        if self.in_table {
            return format!("v.{NAME}");
        }
        if !self.look_ups.locals.iter().any(|local| local == NAME) {
            self.look_ups.locals.push(NAME.to_owned());
        }
        NAME.to_owned()
    }

    fn known_look_up(&self, table: CollectionId, key: &[String]) -> Option<&LookUp> {
        self.look_ups.rows.iter().find(|known| known.table == table && known.key == key)
    }

    /// A Lua expression for the key under which a row of a table is stored. If the method has
    /// looked the row up before, the expression reuses the key of that look-up.
    pub(super) fn whole_key(&mut self, table: CollectionId, columns: &[Typed]) -> String {
        let spelled: Vec<_> = columns.iter().map(|(column, _)| column.clone()).collect();
        let key = self.stored_key(table, columns);
        match self.known_look_up(table, &spelled) {
            Some(known) if self.int_key(table, columns).is_none() => {
                format!("{} or {key}", known.stored_key())
            }
            _ => key,
        }
    }

    /// The key of a row of a table in the map, if it is one number.
    pub(super) fn int_key(&self, table: CollectionId, columns: &[Typed]) -> Option<IntKey> {
        match columns {
            [(number, Type { base: Base::Int, may_be_nil: false })]
                if !self.layouts.is_placed(table) =>
            {
                let prefix = format!("{}.", self.program.collection(table).name);
                Some(IntKey { prefix, number: number.clone() })
            }
            _ => None,
        }
    }

    /// The key under which a row of a table is stored.
    fn stored_key(&mut self, table: CollectionId, columns: &[Typed]) -> String {
        if let Some(int) = self.int_key(table, columns) {
            return int.text(self.runtime);
        }
        let key = key(self.runtime, columns, true);
        match self.layouts.is_placed(table) {
            true => key,
            false => {
                let prefix = format!("{}.", self.program.collection(table).name);
                format!("{} .. {key}", quoted(prefix.as_bytes()))
            }
        }
    }

    /// Whether a Lua expression is a literal, or a local variable that does not change before the
    /// request begins to write.
    fn is_spelled(&self, text: &str) -> bool {
        let digits = text.strip_prefix('-').unwrap_or(text);
        text.starts_with('"')
            || digits.starts_with(|c: char| c.is_ascii_digit())
            || self.scalars.values().any(|row| row.columns.iter().any(|column| column == text))
    }

    /// A table's one row, which is in the header.
    pub(super) fn header_row(&mut self, table: CollectionId) -> Option<Scalars> {
        let start = self.layouts.stored.header.start(table)?;
        let types = self.program.collection(table).types();
        let columns = all_unpacked(self.runtime, &types, &row_fields(start, &types));
        let row = Scalars { is_there: format!("object[{start}] == 1"), columns };
        self.scalars.insert(format!("h{start}"), row.clone());
        Some(row)
    }

    /// Declares the locals of a row. Returns `None` if there are too many locals.
    fn new_look_up(&mut self, table: CollectionId, key: &[String]) -> Option<LookUp> {
        let types = self.program.collection(table).value_types();
        let count = slot_count(&types);
        if self.look_ups.locals.len() + 2 + count > MAX_LOOKED_UP_LOCALS {
            return None;
        }
        let row = format!("q{}", self.look_ups.rows.len() + 1);
        let slots = (1..=count).map(|slot| format!("{row}v{slot}")).collect();
        let look_up = LookUp { table, key: key.to_vec(), row, slots };
        let mut columns = key.to_vec();
        columns.extend(all_unpacked(self.runtime, &types, &look_up.slots));
        let is_there = look_up.row.clone();
        self.scalars.insert(look_up.row.clone(), Scalars { is_there, columns });
        self.look_ups.locals.push(look_up.row.clone());
        if self.int_key(table, &self.typed_key(table, key)).is_none() {
            self.look_ups.locals.push(look_up.stored_key());
        }
        self.look_ups.locals.extend(look_up.slots.iter().cloned());
        self.look_ups.rows.push(look_up.clone());
        Some(look_up)
    }

    fn typed_key(&self, table: CollectionId, key: &[String]) -> Vec<Typed> {
        key.iter().cloned().zip(self.program.collection(table).key_types()).collect()
    }

    /// Looks a row up, unless that was done.
    fn fetch(&mut self, look_up: &LookUp) {
        let LookUp { table, key, row, slots } = look_up;
        let collection = self.program.collection(*table);
        let typed = self.typed_key(*table, key);
        self.out.open(format!("if {row} == nil then"));
        let find = match self.int_key(*table, &typed) {
            Some(int) => format!("{}({})", self.runtime.need("get_int"), int.arguments()),
            None => {
                let (whole, key) = (self.stored_key(*table, &typed), look_up.stored_key());
                self.out.put(format!("{key} = {whole}"));
                match self.layouts.is_placed(*table) {
                    true => find(self.layouts, &self.name(Relation::Stored(*table)), &key),
                    false => format!("{}({key})", self.runtime.need("get")),
                }
            }
        };
        self.out.put(format!("local value = {find}"));
        self.out.put(format!("{row} = value and true or false"));
        if !slots.is_empty() {
            let format = format(collection.value_types());
            self.out.open("if value then");
            self.out.put(format!("{} = unpack(\"<{format}\", value)", slots.join(", ")));
            self.out.close("end");
        }
        self.out.close("end");
    }
}
