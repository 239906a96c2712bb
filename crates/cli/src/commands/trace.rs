//! `nacre trace`: what the nodes remember of traces.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{ClusterFile, Error, ErrorKind, NodeEntry, Result, Sessions, Span};
use nacre_node::NODE_SERVICE;
use nacre_telemetry::{Id, TraceSummary};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::listing::{Limit, Listing};
use crate::otlp;
use crate::out::{Out, note, note_json, utc};
use crate::span_tree::{Located, fields, render};

/// A node that says nothing for so long is left out.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// The node name that is shown for spans of the command itself.
const CLIENT: &str = "client";

/// Which trace to show, or all of them
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct TraceArguments {
    #[command(subcommand)]
    command: Option<TraceCommand>,
    /// The trace's id, which `nacre trace ls` and any command with `--trace` print
    id: Option<Id>,
    /// Print the trace as OTLP/JSON, which Jaeger and OpenTelemetry's collector import
    #[arg(long)]
    otlp: bool,
}

#[derive(Debug, clap::Subcommand)]
enum TraceCommand {
    /// List the traces that each node keeps, the latest first
    ///
    /// A node traces the requests of commands with `--trace`, and of all other requests one in
    /// 1,024.
    #[command(alias = "list")]
    Ls {
        /// List the longest traces first
        #[arg(long)]
        slow: bool,
        #[command(flatten)]
        limit: Limit,
    },
}

/// Shows one trace, or lists all traces.
///
/// # Errors
/// `NotFound` if no node remembers the trace; `Denied`; `Unavailable` if no node answers.
pub async fn run(arguments: TraceArguments, file: &ClusterFile, out: Out) -> Result<()> {
    match (arguments.command, arguments.id) {
        (Some(TraceCommand::Ls { slow, limit }), _) => list(file, slow, limit, out).await,
        (None, Some(id)) => {
            let spans = spans_of(file, id).await?;
            if spans.is_empty() {
                return Err(Error::not_found(format!("no node has the trace {id} any more"))
                    .hint("each node keeps only its latest few thousand spans"));
            }
            print(id, &spans, arguments.otlp, out)
        }
        (None, None) => Err(Error::invalid("no trace is named")
            .hint("name a trace, or list them with `nacre trace ls`")),
    }
}

fn print(id: Id, spans: &[Located], is_otlp: bool, out: Out) -> Result<()> {
    if is_otlp {
        return out.line(&otlp::export(spans).to_string());
    }
    if !out.is_json() {
        return out.line(&render(id, spans));
    }
    spans.iter().try_for_each(|span| out.show(span, String::new))
}

/// Shows what just happened on standard error, beside what the command itself printed.
///
/// # Errors
/// As [`run`].
pub async fn show(file: &ClusterFile, id: Id, own: Vec<Span>, out: Out) -> Result<()> {
    let own = own.into_iter().map(|span| Located { process: CLIENT.into(), span });
    let mut spans: Vec<_> = own.collect();
    match spans_of(file, id).await {
        Ok(told) => spans.extend(told),
        Err(error) => note(&format!("the spans of the nodes are missing: {error}")),
    }
    if !out.is_json() {
        note(&render(id, &spans));
        return Ok(());
    }
    for span in &spans {
        note_json(&json!(span));
    }
    Ok(())
}

async fn spans_of(file: &ClusterFile, id: Id) -> Result<Vec<Located>> {
    let told = ask_all::<Span>(file, &id.to_string()).await?;
    let located = told.into_iter().flat_map(|(process, spans)| {
        spans.into_iter().map(move |span| Located { process: process.clone(), span })
    });
    Ok(located.collect())
}

async fn list(file: &ClusterFile, is_slow: bool, limit: Limit, out: Out) -> Result<()> {
    let told = ask_all::<TraceSummary>(file, if is_slow { "slow" } else { "recent" }).await?;
    let all = told.into_iter().flat_map(|(process, summaries)| {
        summaries.into_iter().map(move |summary| (process.clone(), summary))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(_, summary)| {
        std::cmp::Reverse(match is_slow {
            true => summary.span.duration_micros,
            false => summary.span.start_micros,
        })
    });
    let document =
        |(node, summary): &(String, TraceSummary)| json!({ "node": node, "trace": summary });
    let row = |(node, summary): &(String, TraceSummary)| {
        vec![vec![
            summary.trace_id.to_string(),
            utc(summary.span.start_micros),
            format!("{:>8}", summary.span.duration_micros),
            node.clone(),
            summary.spans.to_string(),
            format!("{} {}", summary.span.name, fields(&summary.span)),
        ]]
    };
    let header = &["trace", "began", "      us", "node", "spans", "longest span there"];
    Listing::table(out, limit, header).all(all, document, row)
}

/// Collects the answers of all nodes, and names the nodes that do not answer on standard error.
///
/// # Errors
/// The error of a node, if no node answers.
async fn ask_all<T: DeserializeOwned>(
    file: &ClusterFile,
    input: &str,
) -> Result<Vec<(String, Vec<T>)>> {
    let sessions = Sessions::new(file)?;
    let answers = join_all(file.nodes().iter().map(|node| ask(&sessions, node, input))).await;
    let (mut told, mut failed) = (Vec::new(), Vec::new());
    for (node, answer) in file.nodes().iter().zip(answers) {
        match answer {
            Ok(answer) => told.push((node.name.clone(), answer)),
            Err(error) => failed.push((&node.name, error)),
        }
    }
    if told.is_empty()
        && let Some((_, error)) = failed.pop()
    {
        return Err(error);
    }
    failed.iter().for_each(|(node, error)| note(&format!("{node} does not answer: {error}")));
    Ok(told)
}

async fn ask<T: DeserializeOwned>(
    sessions: &Sessions,
    node: &NodeEntry,
    input: &str,
) -> Result<Vec<T>> {
    let session = sessions.session(&node.name)?;
    let input = Bytes::copy_from_slice(input.as_bytes());
    let answer = session.query(NODE_SERVICE, "traces", input, NODE_TIMEOUT).await?;
    serde_json::from_slice(&answer).map_err(|error| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the traces of {} cannot be read: {error}", node.name),
        )
    })
}
