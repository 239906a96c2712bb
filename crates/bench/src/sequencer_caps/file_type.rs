//! Measures one client that holds the exclusive capability of a resource, and therefore runs the
//! methods of the resource's file type itself.

use std::sync::Arc;
use std::time::Duration;

use nacre::{ProgramId, ProgramKind, ResourceName};
use nacre_object::{ProgramName, Result};
use serde_json::Value;

use super::CALLS;
use crate::load;
use crate::scratch::ScratchCluster;

const SOURCE: &str = include_str!("../../../../programs/filetype/sequencer.lua");

fn file_type() -> ProgramName {
    ProgramName::new("sequencer").expect("a word")
}

/// Puts the file type.
pub async fn install(cluster: &ScratchCluster) -> Result<()> {
    let client = cluster.client().await?;
    let id = ProgramId::new(ProgramKind::FileType, file_type());
    let version = client.programs().put(&id, SOURCE).await?;
    client.programs().activate(&id, version).await.map(drop)
}

/// Positions a second, one a call.
pub async fn alone_with(cluster: &ScratchCluster, round: usize, span: Duration) -> Result<f64> {
    let client = cluster.client().await?;
    let name = ResourceName::new(format!("/tokens{round}"))?;
    client.resources().create(&name, file_type()).await?;
    let resource = Arc::new(client.resources().open(&name).await?);
    let outcome = load::run(1, span, |_| {
        let resource = Arc::clone(&resource);
        move |_| {
            let resource = Arc::clone(&resource);
            async move {
                for _ in 0..CALLS {
                    resource.call("next", Value::Null).await?;
                }
                Ok(())
            }
        }
    });
    let rate = outcome.await?.rate * CALLS as f64;
    resource.release().await;
    Ok(rate)
}
