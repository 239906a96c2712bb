//! Exports spans as OTLP/JSON, the encoding of OpenTelemetry that Jaeger and OpenTelemetry
//! collectors import.
//!
//! Each process is one resource. OpenTelemetry's trace ids have 16 bytes, so nacre's shorter ids
//! are padded with leading zeros. Numbers of 64 bits are strings, as in every JSON form of protocol
//! buffers.

use std::collections::BTreeMap;

use nacre::Span;
use nacre_telemetry::{Id, Value as Field};
use serde_json::{Value, json};

use crate::span_tree::Located;

/// OpenTelemetry's kinds of span.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

const NANOS_PER_MICRO: u128 = 1000;

/// An `ExportTraceServiceRequest`.
pub fn export(spans: &[Located]) -> Value {
    let mut processes: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for each in spans {
        processes.entry(&each.process).or_default().push(export_span(&each.span));
    }
    let resource = |(process, spans): (&str, Vec<Value>)| {
        json!({
            "resource": { "attributes": [
                text("service.name", "nacre"), text("service.instance.id", process),
            ]},
            "scopeSpans": [{
                "scope": { "name": "nacre", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans,
            }],
        })
    };
    json!({ "resourceSpans": processes.into_iter().map(resource).collect::<Vec<_>>() })
}

fn export_span(span: &Span) -> Value {
    let kind = match &*span.name {
        "message" => SERVER,
        "session" => CLIENT,
        _ => INTERNAL,
    };
    let attribute = |(name, value): (&str, &Field)| match value {
        Field::Number(number) => {
            json!({ "key": name, "value": { "intValue": number.to_string() } })
        }
        Field::Text(value) => text(name, value),
    };
    let parent = if span.parent == Id::NONE { String::new() } else { span.parent.to_string() };
    json!({
        "traceId": format!("{:032x}", span.trace_id.0),
        "spanId": span.span_id.to_string(),
        "parentSpanId": parent,
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.start_micros),
        "endTimeUnixNano": nanos(span.end_micros()),
        "attributes": span.fields.iter().map(attribute).collect::<Vec<_>>(),
    })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(micros: u64) -> String {
    (u128::from(micros) * NANOS_PER_MICRO).to_string()
}
