//! `nacre program test`: a Brados program's test script, on an engine of its own in a scratch folder, in
//! the layouts that are possible for it.

use std::path::{Path, PathBuf};

use nacre::{Cluster, Object, ProgramId};
use nacre_brados::layout::Choices;
use nacre_brados::{
    Case, Compiled, Expected, Layout, Script, Step, decode_reply, encode_request, with_layout,
};
use nacre_object::{Error, Result};
use serde_json::json;

use crate::commands::brados::show_errors;
use crate::input::read_text;
use crate::out::{Out, note};

/// What the program is called while it is tested, before the number of its layout.
const CLASS: &str = "tested";
/// Widths of slots: too few bytes for some rows, and enough for most.
const SLOT_BYTES: [u32; 2] = [16, 256];

/// What to test
#[derive(Debug, clap::Args)]
pub struct TestArguments {
    /// The program
    file: PathBuf,
    /// Its script; by default the file beside it that ends in `.test`
    script: Option<PathBuf>,
    /// In how many layouts at most, evenly from among all that are possible
    #[arg(long, default_value_t = 12)]
    layouts: usize,
}

/// Runs the script; a request that came to something else is shown, and fails the command.
pub async fn run(arguments: TestArguments, out: Out) -> Result<()> {
    let source = read_text(&arguments.file)?;
    let path = arguments.script.unwrap_or_else(|| arguments.file.with_extension("test"));
    let script = Script::parse(&read_text(&path)?)
        .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
    let compiled = nacre_brados::compile(&source)
        .map_err(|errors| show_errors(&errors, &arguments.file, &source))?;
    let layouts = some_layouts(&compiled, arguments.layouts);
    let folder = tempfile::tempdir()
        .map_err(|error| Error::unavailable(format!("cannot make a scratch folder: {error}")))?;
    let cluster = Cluster::embedded(folder.path()).await?;
    let mut failed = 0;
    for (number, layout) in layouts.iter().enumerate() {
        let class = format!("{CLASS}{number}");
        activate(&cluster, &class, &with_layout(&source, layout, &[])).await?;
        let run = Run { cluster: &cluster, path: &path, layout, class };
        failed += run.cases(&script).await?;
    }
    let (cases, layouts) = (script.cases.len(), layouts.len());
    if failed > 0 {
        let all = cases * layouts;
        return Err(Error::conflict(format!("{failed} of {all} cases failed")));
    }
    let requests: usize = script.cases.iter().map(|case| case.steps.len()).sum();
    out.show(&json!({ "cases": cases, "requests": requests, "layouts": layouts }), || {
        format!("{cases} cases, {requests} requests, {layouts} layouts: all as expected")
    })
}

/// The program's own layout, and others evenly from among those that are possible.
fn some_layouts(compiled: &Compiled, most: usize) -> Vec<Layout> {
    let own = compiled.analysis.program.layout();
    let mut others = Choices::of(compiled, &SLOT_BYTES).layouts;
    others.retain(|layout| *layout != own);
    let step = others.len().div_ceil(most.saturating_sub(1).max(1)).max(1);
    let others = others.into_iter().step_by(step).take(most.saturating_sub(1));
    [own].into_iter().chain(others).collect()
}

async fn activate(cluster: &Cluster, class: &str, source: &str) -> Result<()> {
    let program: ProgramId = format!("class/{class}").parse()?;
    let version = cluster.programs().put(&program, source).await?;
    cluster.programs().activate(&program, version).await?;
    Ok(())
}

/// A script in one layout.
struct Run<'a> {
    cluster: &'a Cluster,
    path: &'a Path,
    layout: &'a Layout,
    /// The program's class in it, a name of its own; its objects are named after it.
    class: String,
}

impl Run<'_> {
    /// Runs every case on an object of its own; answers how many failed.
    async fn cases(&self, script: &Script) -> Result<usize> {
        let mut failed = 0;
        for (number, case) in script.cases.iter().enumerate() {
            let name = format!("data/{}.{number}", self.class);
            let object = self.cluster.object(&name.parse()?).await?;
            failed += usize::from(!self.case(&object, case).await?);
        }
        Ok(failed)
    }

    /// Runs a case up to the first request that comes to something else.
    async fn case(&self, object: &Object, case: &Case) -> Result<bool> {
        for step in &case.steps {
            let got = outcome(object, &self.class, step).await?;
            if got != step.expected {
                let place = format!("{}:{}", self.path.display(), step.line);
                let name = &case.name;
                note(&format!(
                    "{place}: {name} (layout {})\n  {}\n  got {got}",
                    self.layout, step.text
                ));
                return Ok(false);
            }
        }
        Ok(true)
    }
}

async fn outcome(object: &Object, class: &str, step: &Step) -> Result<Expected> {
    match object.call(class, &step.method, encode_request(&step.row)).await {
        Ok(reply) => match decode_reply(&reply.output) {
            Ok(outputs) => Ok(Expected::Reply(outputs)),
            Err(error) => Err(Error::corrupt(error.to_string())),
        },
        Err(error) => Ok(Expected::Failure(error.kind().as_str().to_owned())),
    }
}
