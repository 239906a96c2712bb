//! Binding a program to a map.
//!
//! The program's source is kept in the map's object, so that every commit is judged by the program
//! bound then, on whatever engine and node it runs.

use nacre_object::{MapName, Result};
use nacre_script::Digest;

use super::format::{BindRequest, BoundProgram, Nothing};
use super::handle::{CLASS, Maps};

impl Maps {
    /// Gives a program its say in every later commit of a map. `activation` orders binds: one that
    /// is not newer than the last is ignored.
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

    /// Takes the program away from a map.
    pub(crate) async fn unbind(&self, map: &MapName, activation: u64) -> Result<()> {
        self.send_bind(map, BindRequest { program: None, source: String::new(), activation }).await
    }

    async fn send_bind(&self, map: &MapName, request: BindRequest) -> Result<()> {
        let object = Self::object(map);
        self.system().call::<Nothing>(&object, CLASS, "bind", &request).await.map(|_| ())
    }
}
