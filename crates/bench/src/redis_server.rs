//! A real Redis beside ours: Debian's `redis-server`, on a Unix socket in the scratch folder.

use std::path::Path;
use std::time::Duration;

use nacre_object::{Error, Result};
use redis::aio::MultiplexedConnection;
use tokio::process::{Child, Command};

use crate::processes::Processes;
use crate::server_process;

/// After this time without an answer, the operation counts as failed. Even hundreds of large
/// entries, which Redis syncs before it answers, take only about a second on a busy disk.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// A running server; it ends with this value.
#[derive(Debug)]
pub(crate) struct RedisServer {
    client: redis::Client,
    process: Child,
}

impl RedisServer {
    /// Starts a Redis server that syncs its log before each answer, as nacre does. The server makes
    /// no dumps and does not rewrite its log.
    ///
    /// # Errors
    /// `Unavailable` if the server does not start. If Redis is not installed, the error says what
    /// to install.
    pub async fn start(folder: &Path) -> Result<Self> {
        let socket = folder.join("redis.sock");
        let mut command = Command::new("redis-server");
        command
            .arg("--port")
            .arg("0")
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(folder)
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        let process = server_process::spawn(&mut command, "redis-server")?;
        let url = format!("redis+unix://{}", socket.display());
        let client = redis::Client::open(url).map_err(failed)?;
        let server = Self { client, process };
        server_process::until_ready("redis-server", || server.connect()).await?;
        Ok(server)
    }

    /// The server's process.
    pub fn processes(&self) -> Processes {
        Processes::with_ids(self.process.id())
    }

    /// A connection of its own.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn connect(&self) -> Result<MultiplexedConnection> {
        let options =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_PATIENCE));
        self.client.get_multiplexed_async_connection_with_config(&options).await.map_err(failed)
    }

    /// Opens this many connections.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn connections(&self, count: usize) -> Result<Vec<MultiplexedConnection>> {
        futures::future::try_join_all((0..count).map(|_| self.connect())).await
    }

    /// Ends the server and waits until it is gone.
    pub async fn stop(mut self) {
        // A server that ended by itself has already failed the bench.
        let _ = self.process.kill().await;
    }
}

/// A failure of Redis as ours.
pub(crate) fn failed(error: redis::RedisError) -> Error {
    Error::unavailable(format!("Redis failed: {error}"))
}
