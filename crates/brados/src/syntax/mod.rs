//! Parses a source into a tree: first [`lexer`], then the parser. The parser continues after a
//! mistake, so that it can report several mistakes at once.

pub(crate) mod ast;
pub(crate) mod lexer;
mod parse_arguments;
mod parse_expression;
mod parse_layout;
mod parse_program;
mod parse_rule;
mod parse_state;
mod parser;
pub(crate) mod token;

pub(crate) use parse_program::parse;
