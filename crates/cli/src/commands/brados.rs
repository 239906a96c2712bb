//! `nacre brados …`: runs the compiler, chooses layouts, and counts the calls of running classes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use nacre::{Cluster, ClusterFile};
use nacre_brados::layout::Choices;
use nacre_brados::{CompileErrors, Compiled, Diagnostic, Layout, Severity, with_layout};
use nacre_object::{ClassName, Error, Result};
use serde_json::json;
use tempfile::NamedTempFile;

use super::brados_explain::{ExplainArguments, explain};
use super::brados_layouts::AdoptArguments;
use super::brados_tune::{self, ProfileArguments, TuneArguments};
use super::{brados_counts, brados_layouts};
use crate::input::read_text;
use crate::out::{Out, note};

/// Check, compile, explain and format programs in Brados, nacre's language for classes
/// (docs/brados.md)
#[derive(Debug, Subcommand)]
pub enum BradosCommand {
    /// Report all errors and warnings of a program
    Check {
        /// The program; `-` is standard input
        file: PathBuf,
    },
    /// Compile a program and print the resulting class in Lua
    Compile {
        file: PathBuf,
        /// Use this layout instead of the program's own, such as
        /// `log: slots(4096), header: attribute`
        #[arg(long)]
        layout: Option<Layout>,
    },
    /// Explain how a program runs: the order of its rules, how each rule finds rows, and where rows
    /// are stored
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes. The
    /// output gives the reason for the program's layout.
    Explain(ExplainArguments),
    /// List the possible layouts of a program, and why other layouts are impossible
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes.
    Layouts {
        file: PathBuf,
        /// Sizes of slots in bytes. A layout with slots stores rows of this size one behind the
        /// other in the byte stream
        #[arg(long, value_delimiter = ',', default_values_t = [256, 4352],
            value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
        slots: Vec<u32>,
    },
    /// Measure the cost of each kind of transaction on an engine, in about a minute
    Profile(ProfileArguments),
    /// Choose the fastest layout of a program for a workload: predict the cost of each layout, and
    /// measure the best few
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes.
    Tune(TuneArguments),
    /// Show how often each method of each class was called, summed over all nodes
    Counts {
        /// Show only this class
        class: Option<ClassName>,
    },
    /// Change the layout of a class of the running cluster; clients can use the class meanwhile
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes.
    Adopt(AdoptArguments),
    /// Format a program in place; with `-`, format standard input to standard output
    Fmt {
        file: PathBuf,
        /// Change nothing; fail if the program is not formatted
        #[arg(long)]
        check: bool,
    },
}

impl BradosCommand {
    /// Whether the command always connects to a running cluster.
    pub fn asks_a_cluster(&self) -> bool {
        matches!(self, Self::Counts { .. } | Self::Adopt(_))
    }

    /// Whether the command may connect to a running cluster.
    pub fn may_ask_a_cluster(&self) -> bool {
        match self {
            Self::Tune(arguments) => arguments.asks_a_cluster(),
            _ => self.asks_a_cluster(),
        }
    }
}

/// Runs a command of `nacre brados`. It calls `cluster` only for commands that need a running
/// cluster.
///
/// # Errors
/// Those of the command, and those of `cluster`.
pub async fn run(
    command: BradosCommand,
    cluster: impl Fn() -> Result<ClusterFile>,
    out: Out,
) -> Result<()> {
    match command {
        BradosCommand::Counts { class } => brados_counts::run(class, &cluster()?, out).await,
        BradosCommand::Adopt(arguments) => {
            brados_layouts::adopt(arguments, &Cluster::reach(&cluster()?)?, out).await
        }
        BradosCommand::Profile(arguments) => brados_tune::profile(arguments, out).await,
        BradosCommand::Tune(arguments) => brados_tune::tune(arguments, cluster, out).await,
        BradosCommand::Check { file } => check(&file, out),
        BradosCommand::Compile { file, layout } => {
            let (_, compiled) = compile_in(&file, layout)?;
            let lua = compiled.class.lua;
            match out.is_json() {
                true => out.show(&json!({ "lua": lua }), String::new),
                false => out.bytes(lua.as_bytes()),
            }
        }
        BradosCommand::Explain(arguments) => explain(&arguments, out),
        BradosCommand::Layouts { file, slots } => layouts(&file, &slots, out),
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
        (1, _) => Err(Error::invalid("the program has an error, shown above")),
        (errors, _) => Err(Error::invalid(format!("the program has {errors} errors, shown above"))),
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

/// Shows each error at its place in the source. Returns the error of the command, which refers to
/// them.
pub fn show_errors(errors: &CompileErrors, file: &Path, source: &str) -> Error {
    note(errors.render(&file.display().to_string(), source).trim_end());
    Error::invalid("the program does not compile; its errors are shown above")
}

/// Compiles a program, in another layout if one is given. Returns its source, too.
pub fn compile_in(file: &Path, layout: Option<Layout>) -> Result<(String, Compiled)> {
    let mut source = read_text(file)?;
    let mut compiled = compile(file, &source)?;
    if let Some(mut layout) = layout {
        if layout.stripes == Default::default() {
            // The number of stripes, the objects over which rows are spread, can never change. So a
            // layout that names no number gets the number of the program.
            layout = layout.with_stripes(compiled.analysis.program.layout().stripes);
        }
        let former = compiled.analysis.program.former_layouts();
        let former: Vec<_> = former.filter(|former| **former != layout).cloned().collect();
        source = with_layout(&source, &layout, &former);
        compiled = compile(file, &source)?;
    }
    Ok((source, compiled))
}

fn layouts(file: &Path, slots: &[u32], out: Out) -> Result<()> {
    let compiled = compile(file, &read_text(file)?)?;
    let choices = Choices::of(&compiled, slots);
    let texts = |layouts: &[Layout]| layouts.iter().map(Layout::to_string).collect::<Vec<_>>();
    let places = choices.tables.iter().flat_map(|table| &table.illegal);
    let headers =
        choices.header_illegal.iter().map(|(place, why)| (format!("header: {place}"), why));
    let illegal: Vec<_> = places
        .map(|(place, why)| (format!("{}: {place}", why.item), why))
        .chain(headers)
        .chain(choices.illegal.iter().map(|(layout, why)| (layout.to_string(), why)))
        .collect();
    let reasons =
        illegal.iter().map(|(layout, why)| json!({ "layout": layout, "reason": why.to_string() }));
    let stripes = nacre_brados::explain_stripes(&compiled);
    let value = json!({ "layouts": texts(&choices.layouts), "stripes": stripes,
                        "illegal": reasons.collect::<Vec<_>>() });
    out.show(&value, || {
        let reasons = illegal.iter().map(|(layout, why)| format!("  {layout}: {why}"));
        let legal = texts(&choices.layouts).into_iter().map(|layout| format!("  {layout}"));
        let parts = [vec!["possible:".to_owned()], legal.collect()];
        let others = [vec!["not possible:".to_owned()], reasons.collect()];
        let others = if illegal.is_empty() { vec![] } else { others.concat() };
        [parts.concat(), others, stripes].concat().join("\n")
    })
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
        return match out.is_json() {
            true => out.show(&json!({ "source": formatted }), String::new),
            false => out.bytes(formatted.as_bytes()),
        };
    }
    if formatted != source {
        replace(file, &formatted)?;
    }
    Ok(())
}

/// Writes a file that is made from others.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Replaces the content of an existing file atomically. Even after a crash the file has the
/// complete old or the complete new content. Its mode stays.
fn replace(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        // If the path is a symbolic link, replace the file that it points to.
        let place = fs::canonicalize(path)?;
        let mut fresh = NamedTempFile::new_in(place.parent().unwrap_or(Path::new("/")))?;
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().set_permissions(fs::metadata(&place)?.permissions())?;
        fresh.persist(&place)?;
        Ok(())
    };
    write().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot write {}: {error}", path.display()))
}
