//! Brados: object interfaces written as relations, compiled to a Luau class.
//!
//! A program declares collections of rows and rules between them (`LANGUAGE.md` is the language).
//! Compiled, each input interface is a method of a class: one request is one row is one timestep is one
//! transaction on one object. The passes, in order:
//!
//! 1. `syntax`: text to tokens to a tree, going on after mistakes;
//! 2. `resolve`: names to collections and columns; chains become flat rules ([`ir`]);
//! 3. `types`: what each column holds, and where nil may be;
//! 4. `stratify`: an order of the collections in which nothing is negated or aggregated too early;
//! 5. `lints`: rules that hardly mean what was meant;
//! 6. [`plan`]: for each method the rules it needs, in order, and their access paths;
//! 7. [`layout`]: where what is stored lies;
//! 8. `emit`: the class.
//!
//! **Invariant:** no source, however odd, makes a pass panic or run long: sizes and nesting are
//! bounded ([`limits`]), and every mistake is a [`Diagnostic`].

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
pub mod limits;
mod lints;
mod marks;
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
pub use limits::REQUEST_HEAD_BYTES;
pub use marks::{LAYOUT_KEY, Marks, Whereabouts};
pub use nacre_calls::{Base, Type, Value};
pub use script::{Case, Expected, OWN_OBJECT, Script, ScriptError, Step, shown_reply};
pub use span::{LineIndex, Place, Span};
pub use stratify::Stratum;
pub use syntax::ast::{BinaryOp, Kind};
pub use syntax::token::{KEYWORDS, MergeOp};
