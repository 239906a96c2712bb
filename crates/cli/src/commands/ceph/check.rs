//! `nacre ceph check`: shows the state of a Ceph cluster, what nacre needs and the cluster lacks,
//! and the commands that add it.

use nacre_object::{Error, Result};
use nacre_rados::{Examination, Offer, OsdFacts, PoolFacts, examine};
use serde_json::json;

use super::lacks::{Lack, lacks_of};
use super::options_of;
use crate::engine::Engine;
use crate::out::{Out, table};

/// The arguments of `nacre ceph check`
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// The cluster, as `ceph:/path/ceph.conf[?user=NAME&pool=NAME]`. `ceph:` alone looks where
    /// Ceph's own tools look
    #[arg(long, default_value = "ceph:")]
    engine: Engine,
}

/// Examines the cluster, and shows the result.
///
/// # Errors
/// `Unavailable` if the cluster lacks something that nacre needs.
pub async fn run(arguments: CheckArguments, out: Out) -> Result<()> {
    let options = options_of(&arguments.engine)?;
    let pool = options.pool.clone();
    let examination = examine(options).await?;
    let lacks = lacks_of(&pool, &examination);
    out.show(&json!({ "cluster": examination, "lacks": lacks }), || {
        [facts(&pool, &examination), advice(&lacks)].concat().trim_end().to_owned()
    })?;
    match lacks.iter().filter(|lack| lack.is_needed).count() {
        0 => Ok(()),
        lacking => {
            let text = if lacking == 1 { "one thing" } else { &format!("{lacking} things") };
            Err(Error::unavailable(format!("the Ceph cluster lacks {text} that nacre needs"))
                .hint("run the commands shown above, then check again"))
        }
    }
}

fn facts(pool: &str, examination: &Examination) -> String {
    let pool = match &examination.pool {
        None => format!("pool {pool}: is not there\n\n"),
        Some(PoolFacts { is_replicated: false, .. }) => format!("pool {pool}: erasure-coded\n\n"),
        Some(PoolFacts { size, min_size, .. }) => {
            format!("pool {pool}: size {size}, min_size {min_size}\n\n")
        }
    };
    let header = ["osd", "state", "host", "ceph", "nacre's class", "cls_lua", "longest answer"];
    let rows: Vec<_> = examination.osds.iter().map(row).collect();
    format!("{pool}{}\n", table(&header, &rows))
}

fn row(osd: &OsdFacts) -> Vec<String> {
    let offer = |offer: Option<Offer>| match offer {
        Some(Offer::Yes) => "yes",
        Some(Offer::OtherRelease) => "another release's",
        Some(Offer::No) => "no",
        Some(Offer::Unknown) | None => "-",
    };
    let longest = osd.settings.as_ref().map(|settings| settings.max_reply_bytes.to_string());
    vec![
        format!("osd.{}", osd.osd),
        if osd.is_up { "up" } else { "down" }.to_owned(),
        osd.host.clone(),
        osd.ceph_version.clone(),
        offer(osd.classes.map(|classes| classes.nacre)).to_owned(),
        offer(osd.classes.map(|classes| classes.cls_lua)).to_owned(),
        longest.unwrap_or_else(|| "-".to_owned()),
    ]
}

fn advice(lacks: &[Lack]) -> String {
    if lacks.is_empty() {
        return "\nnothing is lacking\n".to_owned();
    }
    let text = |lack: &Lack| {
        let commands: String =
            lack.commands.iter().map(|command| format!("    {command}\n")).collect();
        let weight = if lack.is_needed { "lacking" } else { "advisable" };
        format!("\n{weight}: {}\n{commands}", lack.what)
    };
    lacks.iter().map(text).collect()
}
