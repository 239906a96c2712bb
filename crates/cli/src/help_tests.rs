//! Whoever asks a command for help is told of everything it takes.

use clap::{Command, CommandFactory};

use crate::{Arguments, help};

#[test]
fn every_command_and_everything_it_takes_is_explained() {
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
