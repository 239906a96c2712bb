//! What is said of a command line that cannot be understood.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::error::ErrorKind;
use nacre_object::Error;

use crate::fail;
use crate::out::Out;

/// Says what is wrong, as every other error is said; help and version are printed.
pub fn tell(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !is_json_wanted(std::env::args_os().skip(1)) {
        error.exit();
    }
    ExitCode::from(fail(&as_error(error), Out::new(true)))
}

/// Whether `--json` is among the arguments: the line was not understood, so nobody else can say.
fn is_json_wanted(arguments: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let mut options = arguments.take_while(|argument| argument.as_ref() != "--");
    options.any(|argument| argument.as_ref() == "--json")
}

/// The same mistake without the layout for a terminal.
fn as_error(error: &clap::Error) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::invalid("it is not said what to do").hint("--help shows what can be");
    }
    let rendered = error.render().to_string();
    let (message, more) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let on_a_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let error = Error::invalid(on_a_line(message));
    match on_a_line(more) {
        more if more.is_empty() => error,
        more => error.hint(more),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Arguments;

    fn of(line: &str) -> Error {
        let parsed = Arguments::command().try_get_matches_from(line.split(' '));
        as_error(&parsed.unwrap_err())
    }

    #[test]
    fn a_mistake_is_said_on_one_line_and_what_to_do_on_another() {
        for (line, message, hint) in [
            ("nacre", "it is not said what to do", "--help"),
            ("nacre object", "it is not said what to do", "--help"),
            (
                "nacre object get",
                "arguments were not provided: <OBJECT>",
                "Usage: nacre object get",
            ),
            ("nacre sttus", "unrecognized subcommand 'sttus'", "'status'"),
            ("nacre object get x", "invalid value 'x' for '<OBJECT>'", "--help"),
        ] {
            let error = of(line);
            let said = (error.message(), error.hint_text().unwrap_or_default());
            assert!(said.0.contains(message) && said.1.contains(hint), "{line}: {said:?}");
            assert!(!said.0.starts_with("error:") && !said.0.contains('\n'), "{said:?}");
        }
    }

    #[test]
    fn json_is_wanted_by_an_option_and_by_no_value() {
        assert!(is_json_wanted(["object", "--json", "get"].iter()));
        assert!(!is_json_wanted(["log", "append", "--", "--json"].iter()));
    }
}
