//! `nacre program test`: runs a Brados program's test script in the possible layouts of the
//! program. The engine is a new one in a scratch folder, or a Ceph cluster, in which the test
//! creates its own pools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nacre::{ClassCall, ErrorKind, Object, Pool};
use nacre_brados::layout::Choices;
use nacre_brados::{Case, Compiled, Expected, Layout, Script, Step, with_layout};
use nacre_calls::{decode_reply, encode_request};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{ClassName, Error, Result};
use serde_json::json;

use crate::commands::brados::show_errors;
use crate::commands::test_bed::TestBed;
use crate::engine::Engine;
use crate::input::read_text;
use crate::out::{self, Out, note};
use crate::signals::unless_interrupted;

/// How long a script waits until what was sent is delivered.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(30);
/// Between looks whether it is.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Names that a program cannot have.
const NATIVE_CLASSES: [&str; 5] = ["channels", "events", "log_native", "lua", "map"];
/// Widths of slots: too few bytes for some rows, and enough for most.
const SLOT_BYTES: [u32; 2] = [16, 256];

/// What to test
#[derive(Debug, clap::Args)]
pub struct TestArguments {
    /// The file with the program
    file: PathBuf,
    /// The test script (default: the file beside the program that ends in `.test`)
    script: Option<PathBuf>,
    /// Test at most N layouts, chosen evenly from all possible ones
    #[arg(long, default_value_t = 12)]
    layouts: usize,
    /// Test only this layout, such as `log: slots(4096), header: attribute`. May be repeated
    #[arg(long, conflicts_with = "layouts")]
    layout: Vec<Layout>,
    /// The engine that keeps the test's objects: `embedded` (nacre's own, in a scratch folder), or
    /// a Ceph cluster: `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`
    #[arg(long, default_value_t = Engine::Embedded)]
    engine: Engine,
}

/// Runs the script, shows each request whose result differs from the expected one, and fails if
/// there is one. However it ends, it removes everything that it created.
pub async fn run(arguments: TestArguments, out: Out) -> Result<()> {
    let source = read_text(&arguments.file)?;
    if !nacre_brados::is_brados(&source) {
        let file = arguments.file.display();
        return Err(Error::invalid(format!("{file} is not a program in Brados"))
            .hint("only programs in Brados have test scripts; try a class in Lua with `nacre class eval` or `nacre class call`"));
    }
    let path = arguments.script.unwrap_or_else(|| arguments.file.with_extension("test"));
    let script = Script::parse(&read_text(&path)?)
        .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
    let compiled = nacre_brados::compile(&source)
        .map_err(|errors| show_errors(&errors, &arguments.file, &source))?;
    let layouts = match arguments.layout.is_empty() {
        true => some_layouts(&compiled, arguments.layouts),
        false => arguments.layout,
    };
    let bed = TestBed::open(&arguments.engine, &class_name(&arguments.file)?).await?;
    let outcome = unless_interrupted(in_layouts(&bed, &path, &script, &source, &layouts)).await;
    // If both the test and the cleanup failed, report the test's failure.
    let cleared = bed.clear().await;
    let failed = outcome?;
    cleared?;
    let (cases, layouts) = (script.cases.len(), layouts.len());
    let requests: usize = script.cases.iter().map(|case| case.steps.len()).sum();
    if failed > 0 {
        out::end_as_failed();
    }
    let document =
        json!({ "cases": cases, "requests": requests, "layouts": layouts, "failed": failed });
    out.show(&document, || match failed {
        0 => format!("{cases} cases, {requests} requests, {layouts} layouts: all as expected"),
        _ => format!("{failed} of {} cases failed", cases * layouts),
    })
}

/// Runs the script in each layout; answers how many cases failed.
async fn in_layouts(
    bed: &TestBed,
    path: &Path,
    script: &Script,
    source: &str,
    layouts: &[Layout],
) -> Result<usize> {
    let mut failed = 0;
    for (number, layout) in layouts.iter().enumerate() {
        let version = bed.activate(&with_layout(source, layout, &[])).await?;
        let run = Run { bed, path, layout, number, version };
        failed += run.cases(script).await?;
    }
    Ok(failed)
}

/// The program's own layout, and others chosen evenly from all possible ones.
fn some_layouts(compiled: &Compiled, most: usize) -> Vec<Layout> {
    let own = compiled.analysis.program.layout();
    let mut others = Choices::of(compiled, &SLOT_BYTES).layouts;
    others.retain(|layout| *layout != own);
    let step = others.len().div_ceil(most.saturating_sub(1).max(1)).max(1);
    let others = others.into_iter().step_by(step).take(most.saturating_sub(1));
    [own].into_iter().chain(others).collect()
}

/// The class name of the program during the test. It is the file's name, because the messages that
/// the program's objects send each other contain the class name. If a class that is compiled into
/// nacre has this name, `_tested` is appended.
fn class_name(file: &Path) -> Result<ClassName> {
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    match NATIVE_CLASSES.contains(&name) {
        true => format!("{name}_tested").parse(),
        false => name.parse(),
    }
}

/// A script in one layout.
struct Run<'a> {
    bed: &'a TestBed,
    path: &'a Path,
    layout: &'a Layout,
    /// The index of the layout. The names of the cases' pools contain it.
    number: usize,
    version: u64,
}

impl Run<'_> {
    /// Runs every case in a pool of its own; answers how many failed.
    async fn cases(&self, script: &Script) -> Result<usize> {
        let mut failed = 0;
        for (number, case) in script.cases.iter().enumerate() {
            let pool = self.bed.pool(&format!("{}-{number}", self.number)).await?;
            failed += usize::from(!self.case(&pool, case).await?);
        }
        Ok(failed)
    }

    /// Runs a case up to the first request that comes to something else.
    async fn case(&self, pool: &Pool, case: &Case) -> Result<bool> {
        for step in &case.steps {
            let got = match step.is_delivery() {
                true => delivered(pool).await?,
                false => self.outcome(&pool.object(&step.object)?, step).await?,
            };
            if !step.expected.is_met_by(&got) {
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

    async fn outcome(&self, object: &Object, step: &Step) -> Result<Expected> {
        let call = ClassCall {
            class: self.bed.class().clone(),
            method: step.method.parse()?,
            version: Some(self.version),
            input: encode_request(&step.row).into(),
        };
        match object.call_version(call).await {
            Ok(reply) => match decode_reply(&reply.output) {
                Ok(outputs) => Ok(Expected::Reply(outputs)),
                Err(error) => Err(Error::corrupt(format!(
                    "the reply of {} is malformed: {error}",
                    step.method
                ))),
            },
            Err(error) => Ok(Expected::Failure(error.kind().as_str().to_owned())),
        }
    }
}

/// Waits until the objects of a test case have delivered all their messages. A message whose
/// delivery was given up is an error.
async fn delivered(pool: &Pool) -> Result<Expected> {
    let too_long =
        || Error::unavailable(format!("a message was not delivered within {DELIVERY_PATIENCE:?}"));
    let waiting = until_delivered(pool);
    tokio::time::timeout(DELIVERY_PATIENCE, waiting).await.map_err(|_| too_long())??;
    Ok(Expected::Reply(vec![]))
}

async fn until_delivered(pool: &Pool) -> Result<()> {
    while has_messages(pool).await? {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

async fn has_messages(pool: &Pool) -> Result<bool> {
    let mut after = None;
    loop {
        let page = pool.list(after, "", MAX_LIST_ENTRIES).await?;
        for name in &page.names {
            match pool.object(name.as_str())?.outbox().await {
                Ok(outbox) => match outbox.dead.first() {
                    Some(dead) => {
                        return Err(Error::conflict(format!(
                            "a message of the test could not be delivered: {}",
                            dead.reason
                        )));
                    }
                    None if !outbox.waiting.is_empty() || !outbox.resent.is_empty() => {
                        return Ok(true);
                    }
                    None => {}
                },
                // It was removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if !page.more {
            return Ok(false);
        }
        after = page.names.last().cloned();
    }
}
