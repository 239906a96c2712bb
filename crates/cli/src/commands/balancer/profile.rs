//! `nacre balancer profile`: what the operations of sequencers cost on the running cluster.

use std::path::PathBuf;
use std::time::Duration;

use nacre::Cluster;
use nacre_node::BalancerProfile;
use nacre_object::{Error, Result};

use crate::out::{Out, table};

/// The longest load: positions are handed out all the while.
const MAX_SPAN: Duration = Duration::from_secs(300);

/// How to measure
#[derive(Debug, clap::Args)]
pub struct ProfileArguments {
    /// Seconds to load the sequencer, in each of two measurements
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// Write the costs to this file, for `nacre balancer simulate --model`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Measures, and shows or writes the costs.
pub(super) async fn profile(
    arguments: &ProfileArguments,
    cluster: &Cluster,
    out: Out,
) -> Result<()> {
    let seconds = arguments.seconds;
    let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    if span.is_zero() || span > MAX_SPAN {
        let text = format!("a measurement of {seconds} s is not possible");
        return Err(Error::invalid(text)
            .hint(format!("give --seconds a value above 0 and at most {}", MAX_SPAN.as_secs())));
    }
    let profile = BalancerProfile::measure(cluster, span).await?;
    if let Some(path) = &arguments.out {
        let costs = serde_json::to_vec_pretty(&profile.costs).map_err(|cause| {
            Error::corrupt(format!("the measured costs cannot be written as JSON: {cause}"))
        })?;
        std::fs::write(path, costs).map_err(|cause| {
            Error::unavailable(format!("cannot write {}: {cause}", path.display()))
        })?;
    }
    out.show(&profile, || text(&profile))
}

fn text(profile: &BalancerProfile) -> String {
    let costs = &profile.costs;
    let micros = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let rows = [
        ("service_seconds", costs.service_seconds, "an operation takes of its node's processor"),
        ("forward_seconds", costs.forward_seconds, "a node takes to pass an operation on"),
        ("migration_seconds", costs.migration_seconds, "a move takes"),
        ("session_flush_seconds", costs.session_flush_seconds, "a client takes that is sent on"),
    ];
    let row = |(name, seconds, what): &(&str, f64, &str)| {
        vec![(*name).to_owned(), micros(*seconds), (*what).to_owned()]
    };
    let [first, second] = &profile.nodes;
    let counts = format!(
        "{} operations, {} forwards, between {first} and {second}",
        profile.operations, profile.forwards
    );
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!("{}\n{counts}", table(&["parameter", "time", "what it is"], &rows))
}
