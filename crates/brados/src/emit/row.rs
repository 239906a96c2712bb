//! The available row of a method: either a Lua table, or one expression for each column.

/// An available row.
#[derive(Debug, Clone)]
pub(super) enum Row {
    /// The row is a Lua table with the columns in order. The string is the name of the variable
    /// that holds the table. The variable is nil if there is no row.
    Table(String),
    /// No table.
    Scalars(Scalars),
}

/// A row that is no table.
#[derive(Debug, Clone)]
pub(super) struct Scalars {
    /// Whether the row is there, as a condition.
    pub is_there: String,
    /// A Lua expression for each column.
    pub columns: Vec<String>,
}

impl Row {
    /// A Lua expression for a column.
    pub fn column(&self, at: usize) -> String {
        match self {
            Self::Table(variable) => format!("{variable}[{}]", at + 1),
            Self::Scalars(scalars) => scalars.columns[at].clone(),
        }
    }

    /// The condition that it is there.
    pub fn is_there(&self) -> &str {
        match self {
            Self::Table(variable) => variable,
            Self::Scalars(scalars) => &scalars.is_there,
        }
    }

    /// The row as a Lua table. If it is in local variables, the expression makes a table of them.
    pub fn whole(&self) -> String {
        match self {
            Self::Table(variable) => variable.clone(),
            Self::Scalars(scalars) => format!("{{ {} }}", scalars.columns.join(", ")),
        }
    }
}
