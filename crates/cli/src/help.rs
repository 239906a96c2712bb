//! What the help of a command says of arguments that many commands take.

use clap::Command;

/// An argument and what it is, wherever its command says nothing more particular.
const ARGUMENTS: &[(&str, &str)] = &[
    ("application", "The application that the rules are of"),
    ("class", "The class"),
    ("file", "A file; `-` is standard input"),
    ("grants", "What it may do, for example 'rw pool=data' (see `nacre entity --help`)"),
    ("key", "A key"),
    ("keys", "Keys"),
    ("log", "The log's name"),
    ("map", "The map's name"),
    ("method", "A method of the class"),
    ("resource", "The resource: its path, as /seq/orders"),
    ("name", "Its name"),
    ("object", "The object: POOL/NAME"),
    ("objects", "Objects: POOL/NAME"),
    ("offset", "Where in the byte stream, in bytes"),
    ("pool", "The pool's name"),
    ("position", "A position in the log"),
    ("program", "The program: KIND/NAME, as class/counter"),
    ("program_version", "One of its versions"),
    ("snapshot", "The snapshot's name"),
    ("tenant", "The tenant"),
    ("value", "The value"),
];

/// A command that explains every argument it takes.
pub fn explained(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let known = ARGUMENTS.iter().find(|(id, _)| argument.get_id() == id);
        match known {
            Some((_, help)) if argument.get_help().is_none() => argument.help(*help),
            _ => argument,
        }
    });
    command.mut_subcommands(explained)
}
