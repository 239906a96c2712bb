//! Uses a shared log of a running cluster. Start a cluster with `nacre up`, then run:
//!
//!     cargo run --release -p nacre --example shared_log -- nacre-data

use futures::StreamExt;
use nacre::{Cluster, Entry, ErrorKind, LogOptions, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "nacre-data".into());
    let cluster = Cluster::connect(&folder).await?;
    let log = match cluster.create_log("example", LogOptions::default()).await {
        Err(error) if error.kind() == ErrorKind::Exists => cluster.log("example").await?,
        made => made?,
    };
    let position = log.append(format!("hello from process {}", std::process::id())).await?;
    println!("appended at {position}");

    let mut entries = log.follow(0);
    while let Some(next) = entries.next().await {
        let (at, entry) = next?;
        if let Entry::Data(data) = entry {
            println!("{at}: {}", String::from_utf8_lossy(&data));
        }
        if at == position {
            break;
        }
    }
    Ok(())
}
