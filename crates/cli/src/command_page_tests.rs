//! Compares `docs/commands.md` with the definitions of the commands, and checks that the
//! definitions are consistent.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::{Arguments, help};

const PAGE: &str = include_str!("../../../docs/commands.md");
/// The table is what stands between these lines.
const BEGIN: &str =
    "<!-- the table of all commands; a test compares it with their definitions -->\n";
const END: &str = "<!-- the end of the table -->";

/// Options that take different kinds of values in different commands. `--input` is the input of a
/// method, or a file of lines. `--to` is a folder in one command, and a flag without a value in
/// another.
const OF_SEVERAL_KINDS: &[&str] = &["input", "to"];

/// Every command that does something, with its whole name.
fn commands() -> Vec<(String, Command)> {
    let mut commands = vec![];
    let root = help::explained(Arguments::command());
    collect("nacre", &root, &mut commands);
    commands
}

fn collect(name: &str, command: &Command, commands: &mut Vec<(String, Command)>) {
    let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    if below.is_empty() || !command.is_subcommand_required_set() && name != "nacre" {
        commands.push((name.to_owned(), command.clone()));
    }
    for below in below.into_iter().filter(|below| below.get_name() != "help") {
        collect(&format!("{name} {}", below.get_name()), below, commands);
    }
}

fn is_shown(argument: &&Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

fn value_names(argument: &Arg) -> String {
    let names: Vec<_> =
        argument.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    names.join(" ")
}

fn positional(argument: &Arg) -> String {
    let is_many = argument.get_num_args().is_some_and(|count| count.max_values() > 1)
        || matches!(argument.get_action(), ArgAction::Append);
    let name = format!("{}{}", value_names(argument), if is_many { "..." } else { "" });
    if argument.is_required_set() { name } else { format!("[{name}]") }
}

fn option(argument: &Arg) -> Option<String> {
    let long = argument.get_long()?;
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { format!(" {}", value_names(argument)) } else { String::new() };
    Some(format!("`{short}--{long}{value}`"))
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default().replace('|', "\\|")
}

fn row(name: &str, command: &Command) -> String {
    let shown: Vec<_> = command.get_arguments().filter(is_shown).collect();
    let mut usage = name.to_owned();
    for argument in shown.iter().filter(|argument| argument.is_positional()) {
        usage += &format!(" {}", positional(argument));
    }
    let aliases: Vec<_> = command.get_all_aliases().map(|alias| format!("`{alias}`")).collect();
    let options: Vec<_> = shown.iter().filter_map(|argument| option(argument)).collect();
    let cells = [format!("`{usage}`"), about(command), aliases.join(", "), options.join(", ")];
    let cells = cells.map(|cell| if cell.is_empty() { cell } else { format!(" {cell}") });
    format!("|{} |\n", cells.join(" |"))
}

fn table() -> String {
    let mut table =
        String::from("\n| command | what it does | alias | options |\n| --- | --- | --- | --- |\n");
    for (name, command) in commands() {
        table += &row(&name, &command);
    }
    table + "\n"
}

#[test]
fn the_page_of_commands_lists_exactly_the_defined_commands() {
    let (_, rest) = PAGE.split_once(BEGIN).expect("the page has a table");
    let (listed, _) = rest.split_once(END).expect("the table ends");
    let table = table();
    assert!(listed == table, "docs/commands.md should have this table:\n{table}");
}

#[test]
fn a_verb_has_the_same_alias_everywhere() {
    let aliases = BTreeMap::from([("ls", "list"), ("rm", "remove")]);
    let lacks = |(name, command): &(String, Command)| {
        let alias = aliases.get(name.rsplit(' ').next().unwrap_or_default());
        alias.is_some_and(|alias| command.get_all_aliases().all(|other| other != *alias))
    };
    let lacking: Vec<_> = commands().into_iter().filter(lacks).map(|(name, _)| name).collect();
    assert!(lacking.is_empty(), "no alias: {lacking:?}");
}

#[test]
fn an_option_takes_the_same_value_everywhere() {
    let mut values: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (name, command) in commands() {
        for argument in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
            let long = argument.get_long().unwrap_or_default().to_owned();
            let takes_value = argument.get_action().takes_values();
            let value = if takes_value { value_names(argument) } else { String::new() };
            values.entry(long).or_default().entry(value).or_default().push(name.clone());
        }
    }
    values.retain(|long, by_value| by_value.len() > 1 && !OF_SEVERAL_KINDS.contains(&&**long));
    assert!(values.is_empty(), "{values:#?}");
}
