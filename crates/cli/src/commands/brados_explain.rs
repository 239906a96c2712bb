//! `nacre brados explain`: shows how the compiler stores the rows of a program, and why.
//!
//! The program's source names its layout; data that the layout does not name is stored in the
//! object's map. The best layout depends on the workload and on the engine's profile. If the user
//! gives a file with each of the two, the command predicts the cost of every layout. If a file is
//! missing, the output names the command that creates it.

use std::path::{Path, PathBuf};

use nacre_brados::{Compiled, Explanation, Layout, data_flow_svg};
use nacre_object::{Error, Result};
use nacre_tuner::{Profile, Tuned, Workload, foresee};
use serde_json::{Value, json};

use super::brados::{compile_in, write};
use crate::input::read_text;
use crate::out::Out;

/// The arguments of `nacre brados explain`
#[derive(Debug, clap::Args)]
pub struct ExplainArguments {
    file: PathBuf,
    /// Use this layout instead of the program's own, such as `log: slots(4096), header: attribute`
    #[arg(long)]
    layout: Option<Layout>,
    /// Predict the cost of the layout for this workload, a file that says how often each method is
    /// called; `programs/workloads/` has examples
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// The file with the engine's profile, its costs, which `nacre brados profile` writes
    #[arg(long, default_value = "brados-profile.json", value_name = "FILE")]
    profile: PathBuf,
    /// Also draw the data-flow graph into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Why a program has its layout, and how to find out whether this layout is the best.
struct Why {
    rule: &'static str,
    judged: Option<Judged>,
    /// What to run for a better answer.
    next: Vec<String>,
}

/// All layouts, as an engine's profile predicts them for a workload.
struct Judged {
    engine: String,
    foreseen: Tuned,
    /// The index of the program's own layout, if it is among the candidates.
    present: Option<usize>,
}

/// Explains a program.
pub fn explain(arguments: &ExplainArguments, out: Out) -> Result<()> {
    let (source, compiled) = compile_in(&arguments.file, arguments.layout.clone())?;
    if let Some(path) = &arguments.svg {
        write(path, &data_flow_svg(&compiled.analysis))?;
    }
    let explanation = nacre_brados::explain(&compiled, &source);
    let why = why(arguments, &source, &compiled)?;
    let value = as_json(&explanation, &why);
    out.show(&value, || format!("{}\n\n{}", explanation.to_string().trim_end(), told(&why)))
}

fn why(arguments: &ExplainArguments, source: &str, compiled: &Compiled) -> Result<Why> {
    let program = &compiled.analysis.program;
    let is_declared = program.layouts.iter().any(|declared| !declared.is_former);
    let rule = match (&arguments.layout, is_declared) {
        (Some(_), _) => "it was asked for by --layout",
        (None, true) => "the program says so: a `layout` line is kept to, whatever would be faster",
        (None, false) => "what a program does not name lies in the map, the plainest layout",
    };
    let (workload, profile) = (known_workload(arguments)?, known_profile(&arguments.profile)?);
    let next = next_steps(arguments, workload.is_some(), profile.is_some());
    let judged = match (workload, profile) {
        (Some(workload), Some(profile)) => {
            let foreseen = foresee(source, &workload, &profile)?;
            let own = program.layout().to_string();
            let present = foreseen.tried.iter().position(|tried| tried.layout == own);
            Some(Judged { engine: profile.engine.to_string(), foreseen, present })
        }
        _ => None,
    };
    Ok(Why { rule, judged, next })
}

fn known_workload(arguments: &ExplainArguments) -> Result<Option<Workload>> {
    let Some(path) = &arguments.workload else { return Ok(None) };
    let workload = Workload::parse(&read_text(path)?)
        .map_err(|error| Error::invalid(format!("{} is no workload: {error}", path.display())))?;
    Ok(Some(workload))
}

fn known_profile(path: &Path) -> Result<Option<Profile>> {
    match path.exists() {
        true => Profile::from_json(&read_text(path)?).map(Some),
        false => Ok(None),
    }
}

fn next_steps(arguments: &ExplainArguments, has_workload: bool, has_profile: bool) -> Vec<String> {
    let mut next = vec![];
    if !has_profile {
        let path = arguments.profile.display();
        next.push(format!("`nacre brados profile` measures the engine at hand into {path}"));
    }
    if !has_workload {
        let what = "`--workload FILE` says what will be asked, as in programs/workloads/";
        next.push(what.to_owned());
    }
    let file = arguments.file.display();
    next.push(format!(
        "`nacre brados tune {file} --workload FILE` measures the best few and chooses"
    ));
    next
}

fn told(why: &Why) -> String {
    let judged = why.judged.iter().flat_map(judged_lines);
    let next = why.next.iter().map(|step| format!("  to choose: {step}"));
    let rule = format!("  {}", why.rule);
    let lines: Vec<_> = [rule].into_iter().chain(judged).chain(next).collect();
    format!("why this layout:\n{}", lines.join("\n"))
}

fn judged_lines(judged: &Judged) -> Vec<String> {
    let Judged { engine, foreseen, present } = judged;
    let shown = |at: usize| {
        let tried = &foreseen.tried[at];
        format!("{} ({:.0}/s)", tried.layout, tried.predicted)
    };
    let own = match present {
        Some(at) if *at == foreseen.chosen => "it is what would be chosen".to_owned(),
        Some(at) => format!("this one {}", shown(*at)),
        None => "this one is none of those there are to choose from".to_owned(),
    };
    let count = foreseen.tried.len();
    let mut lines = vec![
        format!("  predicted for this workload on {engine}, of {count} layouts: {own}"),
        format!("  best within noise, the plainest: {}", shown(foreseen.chosen)),
    ];
    lines.extend(foreseen.rules.iter().map(|(rule, at)| format!("  {rule}: {}", shown(*at))));
    lines
}

fn as_json(explanation: &Explanation, why: &Why) -> Value {
    let methods = explanation.methods.iter().map(|method| {
        let rules = method
            .rules
            .iter()
            .map(|rule| json!({ "line": rule.line, "head": rule.head, "accesses": rule.accesses }));
        json!({ "name": method.name, "writes": method.writes, "rules": rules.collect::<Vec<_>>() })
    });
    let strata = explanation.strata.iter().map(
        |stratum| json!({ "collections": stratum.collections, "recursive": stratum.is_recursive }),
    );
    let judged = why.judged.as_ref().map(|judged| {
        json!({ "engine": judged.engine, "foreseen": judged.foreseen, "present": judged.present })
    });
    json!({ "layout": explanation.layout, "stored": explanation.stored,
            "why": { "rule": why.rule, "judged": judged, "next": why.next },
            "strata": strata.collect::<Vec<_>>(), "methods": methods.collect::<Vec<_>>() })
}
