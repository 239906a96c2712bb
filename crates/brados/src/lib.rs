//! Brados: a language for classes of objects. Programs are relations and rules; this crate compiles
//! them to Luau classes.
//!
//! A program declares collections of rows and rules between them (`LANGUAGE.md` describes the
//! language). In the compiled class each input is a method. One request is one row, one timestep
//! and one transaction on one object. The passes, in order:
//!
//! 1. `syntax`: parses the source into a tree, and continues after mistakes;
//! 2. `resolve`: resolves names to collections and columns; chains become flat rules ([`ir`]);
//! 3. `types`: infers the type of each column, and which columns may be nil;
//! 4. `stratify`: orders the collections so that each is complete before it is negated or
//!    aggregated;
//! 5. `lints`: warns of rules that probably do not mean what their author wanted;
//! 6. [`plan`]: chooses for each method the rules it needs, their order and their access paths;
//! 7. [`layout`]: decides where data is stored;
//! 8. `emit`: writes the class.
//!
//! **Invariant:** no source makes a pass panic or run long. Sizes and nesting are bounded
//! ([`limits`]), and every mistake becomes a [`Diagnostic`].

mod analysis;
mod compile;
pub mod delivery;
mod diagnostic;
mod emit;
mod explain;
mod format;
mod hash;
pub mod ir;
pub mod layout;
mod layout_signatures;
pub mod limits;
mod lints;
pub mod plan;
mod resolve;
mod script;
mod span;
mod stratify;
pub mod stripes;
mod syntax;
mod types;

pub use analysis::Analysis;
pub use compile::{CompileErrors, Compiled, check, compile, is_brados};
pub use diagnostic::{Diagnostic, Note, Severity};
pub use emit::{Class, LineMap};
pub use explain::{
    ExplainedMethod, ExplainedRule, ExplainedStratum, Explanation, data_flow_svg, explain,
    explain_stripes,
};
pub use format::format;
pub use layout::{Layout, with_layout};
pub use layout_signatures::{LAYOUT_KEY, LayoutSignatures, Whereabouts};
pub use limits::REQUEST_HEAD_BYTES;
pub use nacre_calls::{Base, Type, Value};
pub use script::{Case, Expected, OWN_OBJECT, Script, ScriptError, Step, shown_reply};
pub use span::{LineColumn, LineIndex, Span};
pub use stratify::Stratum;
pub use syntax::ast::{BinaryOp, Kind};
pub use syntax::token::{KEYWORDS, MergeOp};
