//! `nacre program test`: a Brados program's test script, on an engine of its own in a scratch folder.

use std::path::{Path, PathBuf};

use nacre::{Cluster, Object, ProgramId};
use nacre_brados::{Case, Expected, Script, Step, decode_reply, encode_request};
use nacre_object::{Error, Result};
use serde_json::json;

use crate::commands::brados::show_errors;
use crate::input::read_text;
use crate::out::{Out, note};

/// What the program is called while it is tested.
const CLASS: &str = "tested";

/// What to test
#[derive(Debug, clap::Args)]
pub struct TestArguments {
    /// The program
    file: PathBuf,
    /// Its script; by default the file beside it that ends in `.test`
    script: Option<PathBuf>,
}

/// Runs the script; a request that came to something else is shown, and fails the command.
pub async fn run(arguments: TestArguments, out: Out) -> Result<()> {
    let source = read_text(&arguments.file)?;
    let path = arguments.script.unwrap_or_else(|| arguments.file.with_extension("test"));
    let script = Script::parse(&read_text(&path)?)
        .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
    if let Err(errors) = nacre_brados::compile(&source) {
        return Err(show_errors(&errors, &arguments.file, &source));
    }
    let folder = tempfile::tempdir()
        .map_err(|error| Error::unavailable(format!("cannot make a scratch folder: {error}")))?;
    let cluster = Cluster::embedded(folder.path()).await?;
    let program: ProgramId = format!("class/{CLASS}").parse()?;
    let version = cluster.programs().put(&program, &source).await?;
    cluster.programs().activate(&program, version).await?;
    let mut failed = 0;
    for (number, case) in script.cases.iter().enumerate() {
        let object = cluster.object(&format!("data/{number}").parse()?).await?;
        failed += usize::from(!run_case(&object, case, &path).await?);
    }
    let cases = script.cases.len();
    if failed > 0 {
        return Err(Error::conflict(format!("{failed} of {cases} cases failed")));
    }
    let requests: usize = script.cases.iter().map(|case| case.steps.len()).sum();
    out.show(&json!({ "cases": cases, "requests": requests }), || {
        format!("{cases} cases, {requests} requests: all as expected")
    })
}

/// Runs a case up to the first request that comes to something else.
async fn run_case(object: &Object, case: &Case, path: &Path) -> Result<bool> {
    for step in &case.steps {
        let got = outcome(object, step).await?;
        if got != step.expected {
            let place = format!("{}:{}", path.display(), step.line);
            note(&format!("{place}: {}\n  {}\n  got {got}", case.name, step.text));
            return Ok(false);
        }
    }
    Ok(true)
}

async fn outcome(object: &Object, step: &Step) -> Result<Expected> {
    match object.call(CLASS, &step.method, encode_request(&step.row)).await {
        Ok(reply) => match decode_reply(&reply.output) {
            Ok(outputs) => Ok(Expected::Reply(outputs)),
            Err(error) => Err(Error::corrupt(error.to_string())),
        },
        Err(error) => Ok(Expected::Failure(error.kind().as_str().to_owned())),
    }
}
