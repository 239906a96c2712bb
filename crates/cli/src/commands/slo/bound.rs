//! `nacre slo bound`: the longest latency that tenants with given token buckets can have.

use std::path::PathBuf;

use nacre_object::Result;
use nacre_qos::{BoundsQuestion, TenantBound, bounds};

use super::input::read_json;
use super::{bound_name, latency, milliseconds, units};
use crate::out::{Out, printable, table};

/// Which tenants
#[derive(Debug, clap::Args)]
pub struct BoundArguments {
    /// A file in JSON with queues, and tenants with their token buckets (docs/slo.md); `-` is
    /// standard input
    file: PathBuf,
    /// The share of a tenant's requests that may take longer, such as 0.001, for tenants whose
    /// entry in the file names none (default: none)
    #[arg(long, value_name = "PROBABILITY", value_parser = units::violation)]
    violation: Option<f64>,
}

/// Finds the bounds, and shows them.
pub(super) fn bound(arguments: &BoundArguments, out: Out) -> Result<()> {
    let mut question: BoundsQuestion = read_json(&arguments.file, "question about bounds")?;
    for tenant in &mut question.tenants {
        tenant.violation = tenant.violation.or(arguments.violation);
    }
    let bounds = bounds(&question)?;
    out.show(&bounds, || text(&bounds))
}

fn text(bounds: &[TenantBound]) -> String {
    let row = |bound: &TenantBound| {
        vec![
            printable(&bound.tenant),
            bound.priority.to_string(),
            milliseconds(bound.slo_seconds),
            bound_name(bound.violation),
            latency(bound.latency_seconds),
            if bound.is_kept { "kept" } else { "missed" }.to_owned(),
        ]
    };
    let rows: Vec<_> = bounds.iter().map(row).collect();
    table(&["tenant", "priority", "SLO", "bound", "longest latency", "promise"], &rows)
}
