//! Tests that one trace id follows a request from the client to the disk, with real nodes and the
//! real command.

mod common;

use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{NACRE, RunningCluster, finish};
use nacre::{Cluster, ClusterFile, ConnectOptions, Order, Sampling, Sessions, Spans};
use nacre_clock::{Random, SystemClock};
use serde_json::Value;

/// A span, as the command prints it.
#[derive(Debug)]
struct Span(Value);

impl Span {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    fn start(&self) -> u64 {
        self.0["start_micros"].as_u64().unwrap()
    }

    fn end(&self) -> u64 {
        self.start() + self.0["duration_micros"].as_u64().unwrap()
    }

    fn field(&self, name: &str) -> Option<&Value> {
        let fields = self.0["fields"].as_array().unwrap();
        fields.iter().find(|field| field[0] == name).map(|field| &field[1])
    }
}

/// The spans of one trace.
struct Trace(Vec<Span>);

impl Trace {
    /// The trace that the command prints on standard error with `--trace --json`.
    #[track_caller]
    fn of(cluster: &RunningCluster, arguments: &[&str], input: &str) -> Self {
        use std::io::Write;
        let mut child = cluster
            .command(&[&["--trace", "--json"], arguments].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = finish(child, "a traced command");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        Self(lines.filter(|line| line.get("span_id").is_some()).map(Span).collect())
    }

    #[track_caller]
    fn id(&self) -> String {
        let ids: HashSet<_> = self.0.iter().map(|span| span.text("trace_id")).collect();
        assert_eq!(ids.len(), 1, "one id: {ids:?}");
        ids.into_iter().next().unwrap().to_owned()
    }

    fn named(&self, name: &str) -> Vec<&Span> {
        self.0.iter().filter(|span| span.text("name") == name).collect()
    }

    fn parent_of(&self, span: &Span) -> Option<&Span> {
        self.0.iter().find(|each| each.text("span_id") == span.text("parent"))
    }

    /// The names from a span up to the root.
    fn way_up(&self, span: &Span) -> Vec<String> {
        let all = std::iter::successors(Some(span), |span| self.parent_of(span));
        all.map(|span| span.text("name").to_owned()).collect()
    }

    /// Checks that every span lies within its parent, and that there is one root.
    #[track_caller]
    fn is_nested(&self) {
        let mut roots = 0;
        for span in &self.0 {
            match self.parent_of(span) {
                Some(whole) => assert!(
                    whole.start() <= span.start() && span.end() <= whole.end(),
                    "{span:?} is not within {whole:?}"
                ),
                None => roots += 1,
            }
        }
        assert_eq!(roots, 1);
    }
}

#[test]
fn an_append_is_followed_from_the_client_to_the_sync_of_its_node() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let trace = Trace::of(&cluster, &["log", "append", "l"], "record\n");
    trace.id();
    trace.is_nested();

    let [run] = trace.named("run")[..] else { panic!("one write: {:?}", trace.0) };
    let node = run.text("process");
    assert!(node.starts_with("storage."), "{node}");
    let way = ["message", "session", "write", "append", "command"];
    assert_eq!(trace.way_up(run)[1..], way);
    assert!(run.field("method").unwrap().as_str().unwrap().ends_with(".write_batch"));
    let object = run.field("object").unwrap().as_str().unwrap();
    let place = cluster.json(&["object", "locate", object]);
    assert_eq!(place["target"], node);
    let mut end = run.start();
    for step in ["queue", "run", "gather", "journal write", "sync"] {
        let steps = trace.named(step);
        let [step] = steps[..] else { panic!("one {step}: {:?}", trace.0) };
        assert_eq!(
            (step.text("process"), &trace.way_up(step)[1..]),
            (node, &way.map(String::from)[..])
        );
        assert!(step.text("name") == "queue" || step.start() == end, "no gap before {step:?}");
        end = step.end();
    }
    let [token] = trace.named("token")[..] else { panic!("one question: {:?}", trace.0) };
    assert_eq!(trace.way_up(token), ["token", "append", "command"]);
    let asked = trace
        .named("message")
        .into_iter()
        .find(|span| span.field("ask").is_some_and(|asked| asked == "sequencer.next"));
    let asked = asked.expect("the sequencer's node was asked");
    assert_eq!(asked.text("process"), "meta.0");
    assert_eq!(trace.way_up(asked)[1..], ["session", "token", "append", "command"]);
}

/// The structure of an export, with the names from
/// `opentelemetry/proto/collector/trace/v1/trace_service.proto`. The test refuses unknown fields,
/// because an importer would silently ignore them.
mod otlp {
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub struct ExportTraceServiceRequest {
        pub resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub struct ResourceSpans {
        pub resource: Resource,
        pub scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Resource {
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ScopeSpans {
        pub scope: InstrumentationScope,
        pub spans: Vec<Span>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct InstrumentationScope {
        pub name: String,
        pub version: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    pub struct Span {
        pub trace_id: String,
        pub span_id: String,
        pub parent_span_id: String,
        pub name: String,
        pub kind: u8,
        pub start_time_unix_nano: String,
        pub end_time_unix_nano: String,
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct KeyValue {
        pub key: String,
        pub value: AnyValue,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub enum AnyValue {
        StringValue(String),
        IntValue(String),
    }
}

/// Checks that an export holds the same spans of nodes as the JSON output of the command.
#[track_caller]
fn is_export_of(export: &str, trace_id: &str, told: &str) {
    let export: otlp::ExportTraceServiceRequest = serde_json::from_str(export).unwrap();
    let mut found = HashMap::new();
    for otlp::ResourceSpans { resource, scope_spans } in export.resource_spans {
        let process = resource.attributes.iter().find(|each| each.key == "service.instance.id");
        let process = value_of(&process.unwrap().value);
        for otlp::ScopeSpans { scope, spans } in scope_spans {
            assert_eq!((&*scope.name, &*scope.version), ("nacre", env!("CARGO_PKG_VERSION")));
            found.extend(spans.into_iter().map(|span| {
                let process = process.clone();
                (span.span_id.clone(), (process, span))
            }));
        }
    }
    let told: Vec<_> = told.lines().map(|line| Span(serde_json::from_str(line).unwrap())).collect();
    assert_eq!(found.len(), told.len());
    for span in told {
        let (process, exported) = &found[span.text("span_id")];
        assert_eq!(process, span.text("process"));
        assert_eq!(exported.trace_id, format!("{trace_id:0>32}"));
        assert_eq!((exported.span_id.len(), &*exported.parent_span_id), (16, span.text("parent")));
        assert_eq!(exported.name, span.text("name"));
        // SPAN_KIND_SERVER and SPAN_KIND_INTERNAL.
        assert_eq!(exported.kind, if span.text("name") == "message" { 2 } else { 1 });
        let nanos = |micros: u64| (micros * 1000).to_string();
        let times = (&exported.start_time_unix_nano, &exported.end_time_unix_nano);
        assert_eq!(times, (&nanos(span.start()), &nanos(span.end())));
        for attribute in &exported.attributes {
            assert_eq!(span.field(&attribute.key), Some(&value_of(&attribute.value)));
        }
        assert_eq!(exported.attributes.len(), span.0["fields"].as_array().unwrap().len());
    }
}

fn value_of(value: &otlp::AnyValue) -> Value {
    match value {
        otlp::AnyValue::StringValue(text) => Value::from(text.as_str()),
        otlp::AnyValue::IntValue(number) => Value::from(number.parse::<i64>().unwrap()),
    }
}

#[test]
fn nodes_keep_and_export_a_trace_and_keep_no_spans_of_untraced_requests() {
    let cluster = RunningCluster::start();
    let trace = Trace::of(&cluster, &["object", "put", "data/o"], "bytes");
    let id = trace.id();
    trace.is_nested();
    let told = cluster.run(&["trace", &id, "--json"]);
    let of_nodes = trace.0.iter().filter(|span| span.text("process") != "client").count();
    assert_eq!(told.lines().count(), of_nodes);
    assert!(cluster.run(&["trace", "list", "--slow"]).contains(&id));
    assert!(cluster.run(&["trace", &id]).contains("sync"));

    is_export_of(&cluster.run(&["trace", &id, "--otlp"]), &id, &told);

    // A request without `--trace` adds no spans to this trace. A node may still trace the request
    // by itself, under another id.
    cluster.run_with_input(&["object", "put", "data/o"], "more");
    assert_eq!(cluster.run(&["trace", &id, "--json"]), told);
    assert_eq!(cluster.fails(&["trace", "0000000000000001"]).0, 1);
    assert_eq!(cluster.fails(&["trace", "nonsense"]).0, 2);
    assert_eq!(cluster.fails(&["--trace", "up"]).0, 2);
}

#[tokio::test]
async fn a_node_traces_some_requests_by_itself_and_not_all() {
    let cluster = RunningCluster::start();
    let file = ClusterFile::read(cluster.folder()).unwrap();
    let sessions = Sessions::new(&file).unwrap();
    let session = sessions.session("meta.0").unwrap();
    // A node traces one request in 1,024 on average, and at least one of 2,047 successive requests.
    // So this many requests of one session give at least three traces.
    let asked = 3 * 2_047;
    for _ in 0..asked {
        let patience = Duration::from_secs(30);
        session.ask("node", "exchange", [0; 4].as_slice().into(), patience).await.unwrap();
    }
    let listed = cluster.run(&["trace", "list", "--json"]);
    let lines = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let spans = lines.map(|line| Span(line["trace"]["span"].clone()));
    let is_exchange = |span: &Span| span.field("ask").is_some_and(|ask| ask == "node.exchange");
    let ids: HashSet<_> =
        spans.filter(is_exchange).map(|span| span.text("trace_id").to_owned()).collect();
    assert!((3..100).contains(&ids.len()), "{ids:?}");
}

#[tokio::test]
async fn a_client_traces_a_sample_of_its_requests_to_the_disk() {
    let cluster = RunningCluster::start();
    let file = ClusterFile::read(cluster.folder()).unwrap();
    let spans = Spans::new(Arc::new(SystemClock::default()), Random::from_system());
    let sampling = Some(Sampling { spans: Arc::clone(&spans), one_in: 8 });
    let client =
        Cluster::reach_with(&file, &ConnectOptions { sampling, ..ConnectOptions::default() })
            .unwrap();
    let object = client.object(&"data/o".parse().unwrap()).await.unwrap();
    // At distances of at most 14.
    let writes = 10 * 15;
    for _ in 0..writes {
        object.write_full("bytes").await.unwrap();
    }
    let traces = spans.traces(Order::Recent, usize::MAX);
    assert!((10..writes / 2).contains(&traces.len()), "{} of {writes}", traces.len());
    let trace = &traces[0];
    assert_eq!((trace.span.name.as_ref(), trace.spans), ("session", 1));
    let told = cluster.run(&["trace", &trace.trace_id.to_string(), "--json"]);
    let of_node: Vec<_> =
        told.lines().map(|line| Span(serde_json::from_str(line).unwrap())).collect();
    let message = of_node.iter().find(|span| span.text("name") == "message").unwrap();
    assert_eq!(message.text("parent"), trace.span.span_id.to_string());
    assert!(of_node.iter().any(|span| span.text("name") == "sync"), "{told}");

    // A client that asks for no trace gets none.
    let untraced = Cluster::reach(&file).unwrap();
    untraced.object(&"data/o".parse().unwrap()).await.unwrap().write_full("bytes").await.unwrap();
    assert_eq!(spans.traces(Order::Recent, usize::MAX).len(), traces.len());
}

#[test]
fn a_node_logs_one_json_document_a_line() {
    let mut cluster = RunningCluster::start();
    assert!(cluster.stop());
    let log = std::fs::read_to_string(cluster.folder().join("run/storage.0.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(said, ["serving", "stopping"]);
    assert!(lines.iter().all(|line| line["node"] == "storage.0" && line["level"] == "info"));
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn the_trace_of_a_failed_command_is_shown() {
    let cluster = RunningCluster::start();
    let (status, said) = cluster.fails(&["--trace", "object", "get", "data/absent"]);
    assert_eq!(status, 1);
    assert!(said.contains("message") && said.contains("not found"), "{said}");
}

#[test]
fn an_entity_without_rights_on_nodes_reads_no_traces() {
    let cluster = RunningCluster::start_tls();
    let file = cluster.folder().join("alice.json");
    let file = file.to_str().unwrap();
    cluster.run(&["entity", "add", "alice", "--out", file, "--grant", "rw pool=data"]);
    let output = Command::new(NACRE)
        .args(["--identity", file, "trace", "list"])
        .env_remove("NACRE_CLUSTER")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("denied"), "{said}");
}
