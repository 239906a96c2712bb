//! Example: a whole cluster in this process, without a daemon. It uses objects, a class and a log.
//!
//! ```sh
//! cargo run --release -p nacre-node --example in_process
//! ```

use nacre::{Entry, LogOptions, ProgramId, Result};
use nacre_node::LocalCluster;

/// A class of one method: it counts how often it was called on its object.
const COUNTER: &str = "
function count(input, output)
  local found, stored = pcall(objclass.map_get_val, 'count')
  local count = (found and tonumber(stored:str()) or 0) + 1
  local value = bufferlist.new()
  value:append(tostring(count))
  objclass.map_set_val('count', value)
  output:append(tostring(count))
end
objclass.register(count)
";

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("nacre-example-{}", std::process::id()));
    let cluster = LocalCluster::embedded(&folder).await?;

    // An object: a byte stream, a sorted map, attributes, and transactions over all of them.
    let greeting = cluster.pool("data").await?.object("greeting")?;
    greeting.transaction().append("hello").map_set("language", "en").commit().await?;
    println!("{:?}", greeting.read(0, 100).await?);

    // A program: put, activated, and called next to the object, as one transaction.
    let counter: ProgramId = "class/counter".parse()?;
    let version = cluster.programs().put(&counter, COUNTER).await?;
    cluster.programs().activate(&counter, version).await?;
    for _ in 0..3 {
        let reply = greeting.call("counter", "count", "").await?;
        println!("called {} times", String::from_utf8_lossy(&reply.output));
    }

    // A log: many writers, one order.
    let log = cluster.create_log("events", LogOptions::default()).await?;
    let (one, two) = tokio::join!(log.append("one"), log.append("two"));
    println!("appended at {} and {}", one?, two?);
    for slot in log.read_range(0, 10).await? {
        if let Some(Entry::Data(data)) = slot.entry {
            println!("{}: {}", slot.position, String::from_utf8_lossy(&data));
        }
    }

    drop((greeting, log, cluster));
    // The example leaves nothing behind; a real program keeps its folder.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
