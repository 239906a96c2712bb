//! Parses a source into a tree: [`lexer`], then the parser. The parser goes on after a mistake, so
//! that several are reported together.

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
