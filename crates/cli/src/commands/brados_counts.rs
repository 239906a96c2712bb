//! `nacre brados counts`: how often the methods of Brados classes were called, summed over all
//! nodes.

use std::collections::BTreeMap;

use nacre::{ClusterFile, Sessions};
use nacre_class::{CallsSeen, MethodSeen};
use nacre_node::gather_calls;
use nacre_object::{ClassName, Error, Result};
use serde_json::json;

use crate::out::{Out, note, table};

/// Shows the call counts of one class, or of all classes.
///
/// # Errors
/// `NotFound` if no node counts that class; `Unavailable` if no node answers.
pub async fn run(class: Option<ClassName>, file: &ClusterFile, out: Out) -> Result<()> {
    let counted = counted(file).await?;
    let wanted = |name: &String| class.as_ref().is_none_or(|class| class.as_str() == name);
    let counted: BTreeMap<_, _> = counted.into_iter().filter(|(name, _)| wanted(name)).collect();
    if let (Some(class), true) = (&class, counted.is_empty()) {
        return Err(Error::not_found(format!("no node counts calls of {class}"))
            .hint("nodes count only calls of classes in Brados, from the first activation on"));
    }
    for (name, seen) in &counted {
        let value = json!({ "class": name, "requests": seen.requests(),
                            "concurrency": seen.concurrency(), "methods": seen.methods });
        out.show(&value, || told(name, seen))?;
    }
    Ok(())
}

/// Adds up the call counts of all nodes that answer. Nodes that do not answer are named on standard
/// error.
///
/// # Errors
/// `Unavailable` if no node answers.
pub async fn counted(file: &ClusterFile) -> Result<BTreeMap<String, CallsSeen>> {
    let mut all: BTreeMap<String, CallsSeen> = BTreeMap::new();
    let (mut answered, mut failed) = (false, None);
    for (node, calls) in gather_calls(&Sessions::new(file)?, file).await {
        match calls {
            Ok(calls) => {
                answered = true;
                calls.classes.iter().for_each(|(name, seen)| {
                    all.entry(name.clone()).or_default().add(seen);
                });
            }
            Err(error) => {
                note(&format!("without {node}: {error}"));
                failed = Some(error);
            }
        }
    }
    match failed {
        Some(error) if !answered => Err(error),
        _ => Ok(all),
    }
}

fn told(class: &str, seen: &CallsSeen) -> String {
    let rows: Vec<_> = seen.methods.iter().map(|(name, of)| row(name, of)).collect();
    let counts = table(&["METHOD", "REQUESTS", "MEAN BYTES", "BY BYTES"], &rows);
    let concurrency = seen.concurrency();
    format!("{class}: {} requests, {concurrency:.1} at a time\n{counts}", seen.requests())
}

fn row(name: &str, seen: &MethodSeen) -> Vec<String> {
    let mean = match seen.requests {
        0 => "-".to_owned(),
        requests => format!("{:.0}", seen.bytes as f64 / requests as f64),
    };
    let size = |(bound, count): &(f64, u64)| match *bound {
        f64::MAX => format!("more: {count}"),
        bound => format!("to {bound:.0}: {count}"),
    };
    let sizes = seen.request_bytes().buckets;
    let sizes: Vec<_> = sizes.iter().filter(|(_, count)| *count > 0).map(size).collect();
    vec![name.to_owned(), seen.requests.to_string(), mean, sizes.join(", ")]
}
