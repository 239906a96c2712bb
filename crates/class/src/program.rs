//! A class written in Luau or Brados.

use std::sync::Arc;

use nacre_object::ClassName;
use nacre_program::Digest;

/// The source of one version of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassProgram {
    name: ClassName,
    version: u64,
    source: Arc<str>,
    digest: Digest,
}

impl ClassProgram {
    /// Version `version` of the class `name`; versions start at 1.
    pub fn new(name: ClassName, version: u64, source: impl Into<Arc<str>>) -> Self {
        let source = source.into();
        let digest = Digest::of(source.as_bytes());
        Self { name, version, source, digest }
    }

    /// The class's name.
    pub fn name(&self) -> &ClassName {
        &self.name
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The source, shared.
    pub(crate) fn shared_source(&self) -> Arc<str> {
        self.source.clone()
    }

    /// SHA-256 of the source.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}
