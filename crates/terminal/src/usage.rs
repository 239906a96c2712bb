//! What is said of a command line that cannot be understood.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::error::ErrorKind;
use nacre_object::Error;

use crate::failure::fail;
use crate::out::Out;

/// Says what is wrong, as every other error is said; help and version are printed.
pub fn tell(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !is_json_wanted(std::env::args_os().skip(1)) {
        error.exit();
    }
    ExitCode::from(fail(&as_error(error), Out::new(true)))
}

/// Whether `--json` is among the arguments. This looks at the arguments themselves, because the
/// command line could not be parsed.
fn is_json_wanted(arguments: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    let mut options = arguments.take_while(|argument| argument.as_ref() != "--");
    options.any(|argument| argument.as_ref() == "--json")
}

/// The same mistake without the layout for a terminal.
pub fn as_error(error: &clap::Error) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::invalid("no command is given").hint("--help lists the commands");
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
    use super::*;

    #[test]
    fn json_is_requested_by_an_option_and_never_by_a_value() {
        assert!(is_json_wanted(["object", "--json", "get"].iter()));
        assert!(!is_json_wanted(["log", "append", "--", "--json"].iter()));
    }
}
