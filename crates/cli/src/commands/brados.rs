//! `nacre brados …`: the compiler by itself. It asks no cluster.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use nacre_brados::{CompileErrors, Compiled, Diagnostic, Severity, data_flow_svg};
use nacre_object::{Error, Result};
use serde_json::json;

use crate::input::read_text;
use crate::out::{Out, note};

/// Check, compile, explain and format programs in Brados
#[derive(Debug, Subcommand)]
pub enum BradosCommand {
    /// Say everything that is wrong with a program, and what is doubtful
    Check {
        /// The program; `-` is standard input
        file: PathBuf,
    },
    /// Print the class a program is compiled to, in Lua
    Compile { file: PathBuf },
    /// Show strata, access paths, aggregates that are kept, and the layout
    Explain {
        file: PathBuf,
        /// Also draw the data-flow graph into this file
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Format a program where it is; standard input goes to standard output
    Fmt {
        file: PathBuf,
        /// Change nothing; fail if the program is not formatted
        #[arg(long)]
        check: bool,
    },
}

/// Runs one of them.
pub fn run(command: BradosCommand, out: Out) -> Result<()> {
    match command {
        BradosCommand::Check { file } => check(&file, out),
        BradosCommand::Compile { file } => {
            let source = read_text(&file)?;
            let compiled = compile(&file, &source)?;
            out.bytes(compiled.class.lua.as_bytes())
        }
        BradosCommand::Explain { file, svg } => explain(&file, svg.as_deref(), out),
        BradosCommand::Fmt { file, check } => format(&file, check, out),
    }
}

fn check(file: &Path, out: Out) -> Result<()> {
    let source = read_text(file)?;
    let found = nacre_brados::check(&source);
    for diagnostic in &found {
        if out.is_json() {
            out.show(&as_json(diagnostic, &source), String::new)?;
        } else {
            note(diagnostic.render(&file.display().to_string(), &source).trim_end());
        }
    }
    let errors = found.iter().filter(|one| one.severity == Severity::Error).count();
    match (errors, out.is_json()) {
        (0, true) => Ok(()),
        (0, false) => out.line(&format!("{}: no errors", file.display())),
        (1, _) => Err(Error::invalid("the program has an error")),
        (errors, _) => Err(Error::invalid(format!("the program has {errors} errors"))),
    }
}

fn as_json(diagnostic: &Diagnostic, source: &str) -> serde_json::Value {
    let place = diagnostic.place(source);
    let notes: Vec<_> = diagnostic.notes.iter().map(|note| note.message.as_str()).collect();
    json!({ "severity": diagnostic.severity.as_str(), "line": place.line, "column": place.column,
            "message": diagnostic.message, "notes": notes, "help": diagnostic.help })
}

/// Compiles; mistakes are shown where they are.
fn compile(file: &Path, source: &str) -> Result<Compiled> {
    nacre_brados::compile(source).map_err(|errors| show_errors(&errors, file, source))
}

/// Shows mistakes where they are, before the error that says so.
pub fn show_errors(errors: &CompileErrors, file: &Path, source: &str) -> Error {
    note(errors.render(&file.display().to_string(), source).trim_end());
    Error::invalid("the program does not compile")
}

fn explain(file: &Path, svg: Option<&Path>, out: Out) -> Result<()> {
    let source = read_text(file)?;
    let compiled = compile(file, &source)?;
    if let Some(path) = svg {
        write(path, &data_flow_svg(&compiled.analysis))?;
    }
    let explanation = nacre_brados::explain(&compiled, &source);
    let methods: Vec<_> = explanation
        .methods
        .iter()
        .map(|method| {
            let rules = method.rules.iter().map(
                |rule| json!({ "line": rule.line, "head": rule.head, "accesses": rule.accesses }),
            );
            json!({ "name": method.name, "writes": method.writes,
                    "rules": rules.collect::<Vec<_>>() })
        })
        .collect();
    let strata: Vec<_> = explanation
        .strata
        .iter()
        .map(|stratum| {
            json!({ "collections": stratum.collections, "recursive": stratum.is_recursive })
        })
        .collect();
    let value = json!({ "layout": explanation.layout, "stored": explanation.stored,
                        "strata": strata, "methods": methods });
    out.show(&value, || explanation.to_string().trim_end().to_owned())
}

fn format(file: &Path, check: bool, out: Out) -> Result<()> {
    let source = read_text(file)?;
    let formatted =
        nacre_brados::format(&source).map_err(|errors| show_errors(&errors, file, &source))?;
    if check {
        return match formatted == source {
            true => Ok(()),
            false => Err(Error::invalid(format!("{} is not formatted", file.display()))
                .hint("`nacre brados fmt` formats it")),
        };
    }
    if file == Path::new("-") {
        return out.bytes(formatted.as_bytes());
    }
    if formatted != source {
        write(file, &formatted)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .map_err(|error| Error::unavailable(format!("cannot write {}: {error}", path.display())))
}
