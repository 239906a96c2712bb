//! `nacre program …`: versioned policy, replaced at run time.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use nacre::{
    Cluster, Garbage, ProgramId, ProgramInfo, ProgramKind, Removal, SourceError, SourceObject,
    VersionInfo,
};
use nacre_object::{Error, FaultSite, Result};
use serde_json::json;

use crate::commands::brados::show_errors;
use crate::commands::route::check_versions;
use crate::commands::{program_kinds, program_test};
use crate::input::read_text;
use crate::listing::{Limit, Listing};
use crate::out::{Out, note, table, utc};
use crate::versioned::Versioned;

/// Work with programs: KIND/NAME, where KIND is one of `nacre program kinds`
#[derive(Debug, Subcommand)]
pub enum ProgramCommand {
    /// Check a source, and store it as the program's next version
    Put {
        program: ProgramId,
        /// The file with the source; `-` is standard input
        file: PathBuf,
        /// Activate the version, and wait until every node runs it
        #[arg(long)]
        activate: bool,
    },
    /// Check a source without storing anything
    Check { program: ProgramId, file: PathBuf },
    /// Run the test script of a Brados program on objects of its own, in several layouts
    ///
    /// A layout says whether rows are stored in an object's map, byte stream or attributes.
    Test(program_test::TestArguments),
    /// List the kinds of programs: which functions each kind must define, what it may use, and its
    /// limits
    Kinds {
        /// List only this kind
        kind: Option<ProgramKind>,
    },
    /// List programs with their versions
    #[command(alias = "list")]
    Ls {
        /// List only programs of this kind
        kind: Option<ProgramKind>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Print the source of a version: the active one, or the latest
    Show {
        #[arg(value_name = "PROGRAM[@VERSION]")]
        program: Versioned<ProgramId>,
        /// The version, as PROGRAM@VERSION says it
        #[arg(long, hide = true)]
        program_version: Option<u64>,
    },
    /// Show how one version differs from another
    Diff {
        /// A version: KIND/NAME@VERSION
        #[arg(value_name = "PROGRAM@VERSION")]
        from: Versioned<ProgramId>,
        /// The version of the same program to compare it with
        #[arg(value_name = "PROGRAM@VERSION")]
        to: String,
        /// The second version, where the program is said once: KIND/NAME FROM TO
        #[arg(hide = true)]
        former_to: Option<u64>,
    },
    /// Activate versions (KIND/NAME@VERSION), all in one commit
    Activate {
        /// Versions: KIND/NAME@VERSION
        #[arg(required = true, value_name = "PROGRAM@VERSION")]
        versions: Vec<Versioned<ProgramId>>,
        /// Return at once, instead of waiting until every node runs the versions
        #[arg(long)]
        no_wait: bool,
    },
    /// Activate the previously active version again
    Rollback { program: ProgramId },
    /// Remove a version, or the program with all of them
    #[command(alias = "remove")]
    Rm {
        #[arg(value_name = "PROGRAM[@VERSION]")]
        program: Versioned<ProgramId>,
        /// The version, as PROGRAM@VERSION says it
        #[arg(long, hide = true)]
        program_version: Option<u64>,
        /// Remove the version even if it is active. A program that a log or a routing rule needs is
        /// never removed
        #[arg(long)]
        force: bool,
    },
    /// Remove old versions that no rollback can activate again, and sources that no version uses
    Gc {
        /// Show what would be removed, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show which version each node runs
    Status { program: ProgramId },
    /// Wait until every node that is up runs a version
    Wait {
        #[arg(value_name = "PROGRAM@VERSION")]
        program: Versioned<ProgramId>,
        /// The version, as PROGRAM@VERSION says it
        #[arg(hide = true)]
        program_version: Option<u64>,
        /// Seconds to wait; after that the command fails
        #[arg(long, default_value_t = 30)]
        timeout: u64,
    },
}

/// How long an activation waits for the nodes.
const ACTIVATION_TIMEOUT: Duration = Duration::from_secs(30);

/// The two versions to compare, in whichever syntax the user gave them.
fn compared(
    from: Versioned<ProgramId>,
    to: &str,
    former_to: Option<u64>,
) -> Result<(ProgramId, u64, u64)> {
    if let (None, Some(second)) = (from.version, former_to) {
        let first = to.parse().map_err(|_| {
            Error::invalid(format!("{to:?} is not a version")).hint("write KIND/NAME@VERSION twice")
        })?;
        return Ok((from.name, first, second));
    }
    let (program, first) = from.required(None)?;
    let (other, second) = to.parse::<Versioned<ProgramId>>()?.required(former_to)?;
    match program == other {
        true => Ok((program, first, second)),
        false => Err(Error::invalid(format!("{program} and {other} are different programs"))
            .hint("compare versions of one program")),
    }
}

impl ProgramCommand {
    /// Whether it asks a cluster.
    pub fn asks_a_cluster(&self) -> bool {
        !matches!(self, Self::Test(_) | Self::Kinds { .. })
    }
}

/// Runs one of them.
pub async fn run(
    command: ProgramCommand,
    connect: impl AsyncFnOnce() -> Result<Cluster>,
    out: Out,
) -> Result<()> {
    match command {
        ProgramCommand::Test(test) => program_test::run(test, out).await,
        ProgramCommand::Kinds { kind } => program_kinds::run(kind, out),
        command => ask(command, &connect().await?, out).await,
    }
}

async fn ask(command: ProgramCommand, cluster: &Cluster, out: Out) -> Result<()> {
    use ProgramCommand as C;
    let programs = cluster.programs();
    match command {
        C::Put { program, file, activate } => {
            let source = read_text(&file)?;
            check(cluster, &program, &file, &source)?;
            let version = programs.put(&program, &source).await?;
            if activate {
                switch(cluster, vec![(program.clone(), version)], true).await?;
            }
            let state = match programs.active(&program).await? {
                _ if activate => ", active on every node".to_owned(),
                Some(active) if active == version => ", which is active already".to_owned(),
                Some(active) => {
                    format!(
                        ", stored; version {active} is active until `nacre program activate {program}@{version}`"
                    )
                }
                None => {
                    format!(", stored; run it with `nacre program activate {program}@{version}`")
                }
            };
            out.show(
                &json!({ "program": program.to_string(), "version": version,
                              "active": activate }),
                || format!("{program} version {version}{state}"),
            )
        }
        C::Check { program, file } => {
            check(cluster, &program, &file, &read_text(&file)?)?;
            out.show(&json!({ "ok": true }), || format!("{program}: no errors"))
        }
        C::Test(_) | C::Kinds { .. } => unreachable!("these ask no cluster"),
        C::Ls { kind, limit } => list(programs.list(kind).await?, limit, out),
        C::Show { program, program_version } => {
            let (program, version) = program.or(program_version)?;
            let shown = programs.show(&program, version).await?;
            if out.is_json() {
                let value = json!({ "version": shown.version,
                    "digest": shown.digest.to_string(), "source": shown.source });
                return out.show(&value, String::new);
            }
            out.bytes(shown.source.as_bytes())
        }
        C::Diff { from, to, former_to } => {
            let (program, from, to) = compared(from, &to, former_to)?;
            let diff = programs.diff(&program, from, to).await?;
            out.show(&json!({ "diff": diff }), || diff.trim_end().to_owned())
        }
        C::Activate { versions, no_wait } => {
            let versions = versions.into_iter().map(|version| version.required(None));
            let versions: Vec<_> = versions.collect::<Result<_>>()?;
            switch(cluster, versions.clone(), !no_wait).await?;
            for (program, version) in versions {
                let value = json!({ "program": program.to_string(), "version": version });
                out.show(&value, || format!("{program} version {version} is active"))?;
            }
            Ok(())
        }
        C::Rollback { program } => {
            let before = programs.get(&program).await?.rollback_to;
            if let Some(version) = before {
                check_versions(cluster, &[(program.clone(), version)]).await?;
            }
            let version = programs.rollback(&program).await?;
            programs.wait(&program, version, ACTIVATION_TIMEOUT).await?;
            out.show(&json!({ "program": program.to_string(), "version": version }), || {
                format!("{program} version {version} is active again")
            })
        }
        C::Rm { program, program_version, force } => {
            let removal = if force { Removal::EvenIfActive } else { Removal::UnlessActive };
            let (program, version) = program.or(program_version)?;
            cluster.remove_program(&program, version, removal).await
        }
        C::Gc { dry_run: true } => show_garbage(&programs.garbage().await?, "would go", out),
        C::Gc { dry_run: false } => show_garbage(&programs.collect().await?, "removed", out),
        C::Status { program } => status(cluster, &program, out).await,
        C::Wait { program, program_version, timeout } => {
            let (program, version) = program.required(program_version)?;
            programs.wait(&program, version, Duration::from_secs(timeout)).await
        }
    }
}

async fn switch(cluster: &Cluster, versions: Vec<(ProgramId, u64)>, wait: bool) -> Result<()> {
    check_versions(cluster, &versions).await?;
    cluster.programs().activate_all(&versions).await?;
    if wait {
        for (program, version) in &versions {
            cluster.programs().wait(program, *version, ACTIVATION_TIMEOUT).await?;
        }
    }
    Ok(())
}

/// Shows the mistakes in a source at their lines, before the error that names the first one.
fn check(
    cluster: &Cluster,
    program: &ProgramId,
    file: &std::path::Path,
    source: &str,
) -> Result<()> {
    cluster.programs().hooks().of(program.kind)?;
    let checked = cluster.programs().check(program, source);
    if checked.is_err()
        && nacre_brados::is_brados(source)
        && let Err(errors) = nacre_brados::compile(source)
    {
        // Brados tells all of them, each with a suggestion.
        let site = FaultSite {
            program: program.to_string(),
            line: errors.first().map(|first| first.place(source).line),
            ..FaultSite::default()
        };
        show_errors(&errors, file, source);
        return Err(Error::invalid("the source has errors; nothing was stored").with_fault(site));
    }
    if checked.is_ok() {
        for suspicion in cluster.programs().suspicions(program, source) {
            note(&format!("warning: {}", excerpt(&suspicion, &file.display().to_string(), source)));
        }
    }
    checked.map_err(|mistake| {
        note(&excerpt(&mistake, &file.display().to_string(), source));
        let site =
            FaultSite { program: program.to_string(), line: mistake.line, ..FaultSite::default() };
        Error::invalid("the source has an error; nothing was stored").with_fault(site)
    })
}

/// The mistake with its line and a caret under its column, as compilers show it.
pub fn excerpt(mistake: &SourceError, file: &str, source: &str) -> String {
    let Some(number) = mistake.line else {
        return format!("{file}: {}", mistake.message);
    };
    let line = source.lines().nth(number as usize - 1).unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    let column = mistake.column.map_or(indent, |column| column as usize - 1);
    // Tabs stay tabs, so that the caret stands under its character whatever their width.
    let lead: String =
        line.chars().take(column).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let gutter = number.to_string().len();
    format!("{file}:{number}: {}\n{number} | {line}\n{:gutter$} | {lead}^", mistake.message, "")
}

fn list(programs: Vec<ProgramInfo>, limit: Limit, out: Out) -> Result<()> {
    let document = |program: &ProgramInfo| {
        let versions: Vec<_> = program
            .versions
            .iter()
            .map(|version| {
                json!({ "version": version.version, "digest": version.digest.to_string(),
                        "bytes": version.bytes, "created_at_micros": version.created_at_micros })
            })
            .collect();
        json!({ "program": program.id.to_string(), "active": program.active,
                "rollback_to": program.rollback_to, "versions": versions })
    };
    let rows = |program: &ProgramInfo| {
        let row = |version: &VersionInfo| {
            let active = program.active == Some(version.version);
            vec![
                program.id.to_string(),
                version.version.to_string(),
                if active { "active" } else { "" }.to_owned(),
                version.bytes.to_string(),
                utc(version.created_at_micros),
            ]
        };
        program.versions.iter().map(row).collect()
    };
    let header = &["program", "version", "state", "bytes", "put"];
    Listing::table(out, limit, header).all(programs, document, rows)
}

fn show_garbage(garbage: &Garbage, fate: &str, out: Out) -> Result<()> {
    let Garbage { versions, sources, more } = garbage;
    let version = |(program, version): &(ProgramId, u64)| json!({ "program": program.to_string(), "version": version });
    let source = |source: &SourceObject| json!({ "digest": source.digest.to_string(), "bytes": source.bytes });
    let value = json!({ "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "sources": sources.iter().map(source).collect::<Vec<_>>(), "more": more });
    out.show(&value, || {
        let versions = versions.iter().map(|(program, version)| {
            vec![format!("{program}@{version}"), String::new(), "superseded".to_owned()]
        });
        let sources = sources.iter().map(|source| {
            let object = format!("source {}", source.digest);
            vec![object, source.bytes.to_string(), "no version names it".to_owned()]
        });
        let rows: Vec<_> = versions.chain(sources).collect();
        let end = if *more { "\nthere is more: run it again" } else { "" };
        match rows.is_empty() {
            true => "nothing to collect".to_owned(),
            false => format!("{}{end}", table(&[fate, "bytes", "as"], &rows)),
        }
    })
}

async fn status(cluster: &Cluster, program: &ProgramId, out: Out) -> Result<()> {
    let info = cluster.programs().get(program).await?;
    let nodes = cluster.programs().status(program).await?;
    let describe = |version: Option<u64>| version.map_or("-".into(), |v| v.to_string());
    let value: Vec<_> = nodes
        .iter()
        .map(|node| {
            json!({ "node": node.node.as_str(), "up": node.up, "live": node.live,
                    "failed": node.failed.as_ref().map(|failed| json!({
                        "version": failed.version, "error": failed.error,
                        "retrying": failed.retrying })) })
        })
        .collect();
    let value = json!({ "program": program.to_string(), "active": info.active, "nodes": value });
    out.show(&value, || {
        let rows: Vec<_> = nodes
            .iter()
            .map(|node| {
                let failed = node.failed.as_ref();
                vec![
                    node.node.to_string(),
                    if node.up { "up" } else { "down" }.to_owned(),
                    describe(node.live),
                    failed.map_or(String::new(), |failed| {
                        format!("version {}: {}", failed.version, failed.error)
                    }),
                ]
            })
            .collect();
        let rows = table(&["node", "state", "live", "last error"], &rows);
        format!("active version {}\n{rows}", describe(info.active))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_shown_under_its_column() {
        let mistake = SourceError { line: Some(2), column: Some(3), message: "oops".into() };
        let shown = excerpt(&mistake, "a.lua", "one\n\txy\n");
        assert_eq!(shown, "a.lua:2: oops\n2 | \txy\n  | \t ^");
    }

    #[test]
    fn without_a_column_the_caret_is_at_the_first_word() {
        let mistake = SourceError { line: Some(1), column: None, message: "oops".into() };
        assert_eq!(excerpt(&mistake, "a", "  x"), "a:1: oops\n1 |   x\n  |   ^");
    }
}
