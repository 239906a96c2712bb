//! The help texts of arguments that many commands take, and the names of option values in the help.

use clap::{Arg, Command};

/// The help text of each argument whose command gives none.
const ARGUMENTS: &[(&str, &str)] = &[
    ("application", "The application: the name in the file under which the rules were installed"),
    ("class", "The class: a program that adds methods to objects"),
    ("file", "A file; `-` is standard input"),
    ("grants", "Rights of the entity, for example 'rw pool=data' (see `nacre entity --help`)"),
    ("key", "A key"),
    ("keys", "Keys"),
    ("log", "The log's name"),
    ("map", "The map's name, as `nacre map ls` lists it"),
    ("method", "A method of the class"),
    ("resource", "The resource's path, such as /seq/orders"),
    ("name", "The name"),
    ("object", "The object: POOL/NAME"),
    ("objects", "Objects: POOL/NAME"),
    ("offset", "An offset in the byte stream, in bytes"),
    ("pool", "The pool's name"),
    ("position", "A position in the log; the first record has position 0"),
    ("program", "The program: KIND/NAME, such as class/counter"),
    ("program_version", "A version of the program, such as 3"),
    ("snapshot", "The snapshot's name"),
    ("tenant", "The tenant: the name under which requests are counted and promised a latency"),
    ("value", "The value"),
];

/// The names of option values in the help, for options whose command gives no other name.
const VALUE_NAMES: &[(&str, &str)] = &[
    ("alpha", "TIMES"),
    ("at", "SNAPSHOT"),
    ("class", "CLASS"),
    ("epoch", "N"),
    ("from", "N"),
    ("length", "BYTES"),
    ("limit", "N"),
    ("metadata", "N"),
    ("metrics_port", "PORT"),
    ("offset", "BYTES"),
    ("records", "N"),
    ("rounds", "N"),
    ("seconds", "SECONDS"),
    ("slots", "N"),
    ("targets", "N"),
    ("timeout", "SECONDS"),
    ("width", "N"),
    ("writers", "N"),
];

/// Adds the missing help texts and value names to a command and its subcommands.
pub fn explained(command: Command) -> Command {
    command.mut_args(|argument| named(helped(argument))).mut_subcommands(explained)
}

fn helped(argument: Arg) -> Arg {
    let known = ARGUMENTS.iter().find(|(id, _)| argument.get_id() == id);
    match known {
        Some((_, help)) if argument.get_help().is_none() => argument.help(*help),
        _ => argument,
    }
}

/// Names the value of an option in the help, unless the command has named it. clap's default is the
/// option's own name in capitals.
fn named(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    let has_no_name =
        argument.get_value_names().is_some_and(|names| names == [id.to_uppercase().as_str()]);
    let known = VALUE_NAMES.iter().find(|(known, _)| id == *known);
    match known {
        Some((_, name)) if has_no_name && argument.get_long().is_some() => {
            argument.value_name(*name)
        }
        _ => argument,
    }
}
