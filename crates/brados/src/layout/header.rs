//! The header: one record with all data that an object has only once.
//!
//! Its fields, in order:
//! - the number of the last message for the application, if the program has channels for it;
//! - the number of the last message for the runtime, if the program has channels for it;
//! - the number of the waiting message that removes the object (0 if there is none), if the program
//!   has such a channel;
//! - for each table with an empty key: whether its one row exists, then the columns of the row;
//! - for each aggregate over a whole table: the number of rows, then its values.
//!
//! After these come the fields of the layout ([`super::stream`]).

use crate::emit::encoding::{blank, format};
use crate::ir::{CollectionId, Function, Program};
use crate::plan::View;
use crate::syntax::ast::Kind;
use nacre_calls::{Base, Type};

/// The fields of the header: their formats, initial values and positions.
#[derive(Debug, Default)]
pub(crate) struct Header {
    pub format: String,
    pub blank: Vec<String>,
    starts: Vec<(CollectionId, usize)>,
    /// Those about messages.
    pub channels: ChannelFields,
    /// A column without a bound, if there is one.
    pub unbounded: Option<String>,
}

/// The positions of the fields for messages, if the program has channels.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ChannelFields {
    /// The number of the last message that the application drains.
    pub drained: Option<usize>,
    /// The number of the last message that the runtime delivers.
    pub delivered: Option<usize>,
    /// The number of the message by which the object is to be removed.
    pub removal: Option<usize>,
}

impl Header {
    pub fn new(program: &Program, views: &[View]) -> Self {
        let mut header = Self::default();
        let mut counter = |is_there: bool| {
            is_there.then(|| {
                header.add("i8", vec!["0".to_owned()]);
                header.blank.len()
            })
        };
        let drained = counter(program.has_drained_channels());
        let delivered = counter(program.has_delivered_channels());
        let removal = counter(program.has_removal());
        header.channels = ChannelFields { drained, delivered, removal };
        let tables = program.of_kind(Kind::Table);
        for id in tables.filter(|id| program.collection(*id).is_singleton()) {
            let table = program.collection(id);
            header.begin(id, "B");
            for column in &table.columns {
                header.add_column(column.ty, || format!("{}.{}", table.name, column.name));
            }
        }
        for view in views.iter().filter(|view| view.keys.is_empty()) {
            header.begin(view.collection, "i8");
            kept(program, view).into_iter().for_each(|ty| {
                header.add_column(ty, || view.name.clone());
            });
        }
        header
    }

    fn begin(&mut self, id: CollectionId, format: &str) {
        self.starts.push((id, self.blank.len() + 1));
        self.add(format, vec!["0".to_owned()]);
    }

    fn add_column(&mut self, ty: Type, name: impl Fn() -> String) {
        self.add(&format([ty]), blank(ty));
        if matches!(ty.base, Base::String | Base::Bytes) {
            self.unbounded.get_or_insert_with(name);
        }
    }

    fn add(&mut self, format: &str, blank: Vec<String>) {
        self.format.push_str(format);
        self.blank.extend(blank);
    }

    /// The size of the header's fields in bytes, if every field has a fixed size: eight for `i8`,
    /// one for `B`.
    pub fn size(&self) -> u32 {
        let size = |c: char| match c {
            'B' => 1,
            other => other.to_digit(10).unwrap_or(0),
        };
        self.format.chars().map(size).sum()
    }

    /// Where the fields of a table or an aggregate begin.
    pub fn start(&self, id: CollectionId) -> Option<usize> {
        self.starts.iter().find(|(own, _)| *own == id).map(|(_, start)| *start)
    }
}

/// The types of the stored values of a group, without the number of rows.
pub(crate) fn kept(program: &Program, view: &View) -> Vec<Type> {
    let table = program.collection(view.table);
    let of_column = |column: Option<usize>| {
        let base = column.map_or(Base::Int, |column| table.columns[column].ty.base);
        Type { base, may_be_nil: false }
    };
    let aggregates = view.aggregates.iter().filter(|one| one.function != Function::Count);
    aggregates.map(|one| of_column(one.column)).collect()
}
