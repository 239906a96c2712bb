//! From text to a tree: [`lexer`], then the parser, which goes on after a mistake so that several
//! are told at once.

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
