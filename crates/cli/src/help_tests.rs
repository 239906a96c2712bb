//! Tests that the help of a command explains everything that the command takes.

use clap::{Command, CommandFactory};
use nacre_object::Error;

use crate::{Arguments, help, usage};

#[test]
fn every_command_and_every_argument_has_a_help_text() {
    let mut unexplained = Vec::new();
    look_through(&help::explained(Arguments::command()), &mut unexplained);
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
}

fn look_through(command: &Command, unexplained: &mut Vec<String>) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    if command.get_about().is_none() {
        unexplained.push(name.clone());
    }
    let silent = command.get_arguments().filter(|argument| argument.get_help().is_none());
    unexplained.extend(silent.map(|argument| format!("{name} {}", argument.get_id())));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        look_through(&below.clone().bin_name(format!("{name} {}", below.get_name())), unexplained);
    }
}

fn mistake_in(line: &str) -> Error {
    let parsed = Arguments::command().try_get_matches_from(line.split(' '));
    usage::as_error(&parsed.unwrap_err())
}

#[test]
fn a_usage_error_has_one_line_for_the_mistake_and_one_for_the_hint() {
    for (line, message, hint) in [
        ("nacre", "no command is given", "--help"),
        ("nacre object", "no command is given", "--help"),
        ("nacre object get", "arguments were not provided: <OBJECT>", "Usage: nacre object get"),
        ("nacre sttus", "unrecognized subcommand 'sttus'", "'status'"),
        ("nacre object get x", "invalid value 'x' for '<OBJECT>'", "--help"),
    ] {
        let error = mistake_in(line);
        let said = (error.message(), error.hint_text().unwrap_or_default());
        assert!(said.0.contains(message) && said.1.contains(hint), "{line}: {said:?}");
        assert!(!said.0.starts_with("error:") && !said.0.contains('\n'), "{said:?}");
    }
}
