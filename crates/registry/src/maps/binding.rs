//! Binds a program to a map, so that the program decides about the map's commits.
//!
//! The map's object stores the source of the bound program, so the program runs in every commit, on
//! any engine and node. A node binds a program as soon as it learns of the program's activation. An
//! activation by the local user binds at once. Any other entity that activates a map program waits
//! until a node has bound it.

use std::time::Duration;

use nacre_object::{Error, MapName, Result};
use nacre_program::Digest;

use super::format::{BindReply, BindRequest, BoundProgram};
use super::handle::{MAP_CLASS, Maps};
use crate::backoff::Backoff;

/// How long the entity that activates a map program waits until a node has bound it. A node learns
/// of an activation within milliseconds, or within seconds if it is restarting.
const BIND_PATIENCE: Duration = Duration::from_secs(10);

impl Maps {
    /// Binds a program to a map; the program decides about every later commit of the map.
    /// `activation` is the number of the program's activation. If the map has already seen this
    /// number or a greater one, the bind has no effect.
    pub(crate) async fn bind(
        &self,
        map: &MapName,
        version: u64,
        source: &str,
        activation: u64,
    ) -> Result<()> {
        let digest = Digest::of(source).to_string();
        let program = Some(BoundProgram { version, digest });
        self.send_bind(map, BindRequest { program, source: source.to_owned(), activation }).await
    }

    /// Unbinds the program of a map.
    pub(crate) async fn unbind(&self, map: &MapName, activation: u64) -> Result<()> {
        self.send_bind(map, BindRequest { program: None, source: String::new(), activation }).await
    }

    async fn send_bind(&self, map: &MapName, request: BindRequest) -> Result<()> {
        let bound = tokio::time::timeout(BIND_PATIENCE, self.bind_or_wait(map, &request)).await;
        bound.unwrap_or_else(|_| {
            Err(Error::unavailable(format!("no node has bound the program of the map {map} yet"))
                .during("bind")
                .hint("the program is active; wait until a node has bound it"))
        })
    }

    async fn bind_or_wait(&self, map: &MapName, request: &BindRequest) -> Result<()> {
        let object = Self::object(map);
        let mut backoff = Backoff::new();
        loop {
            let reply: BindReply = self.system().call(&object, MAP_CLASS, "bind", request).await?;
            if !reply.is_pending {
                return Ok(());
            }
            backoff.wait().await;
        }
    }
}
