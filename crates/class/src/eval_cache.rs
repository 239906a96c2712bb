//! Caches compiled one-off scripts, because a client usually sends the same few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nacre_object::Result;
use nacre_program::Digest;
use nacre_script::Script;

/// Scripts kept for their next call.
const MAX_SCRIPTS: usize = 256;
/// The name of a one-off script in faults.
const NAME: &str = "eval";

/// Scripts by the digest of their source. The least recently used script is dropped first.
#[derive(Default)]
pub(crate) struct EvalCache(Mutex<Scripts>);

#[derive(Default)]
struct Scripts {
    by_digest: HashMap<Digest, (Arc<Script>, u64)>,
    uses: u64,
}

impl EvalCache {
    /// The compiled form of a script.
    ///
    /// # Errors
    /// `Fault` if it does not compile.
    pub fn compiled(&self, source: &Bytes) -> Result<Arc<Script>> {
        let digest = Digest::of(source);
        if let Some(script) = self.scripts().get(&digest) {
            return Ok(script);
        }
        let script = Script::compile(NAME, 0, source).map_err(|error| error.into_fault(NAME, 0))?;
        let script = Arc::new(script);
        self.scripts().insert(digest, script.clone());
        Ok(script)
    }

    fn scripts(&self) -> MutexGuard<'_, Scripts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scripts {
    fn get(&mut self, digest: &Digest) -> Option<Arc<Script>> {
        self.uses += 1;
        let (script, last_use) = self.by_digest.get_mut(digest)?;
        *last_use = self.uses;
        Some(script.clone())
    }

    fn insert(&mut self, digest: Digest, script: Arc<Script>) {
        if self.by_digest.len() >= MAX_SCRIPTS {
            let oldest = self.by_digest.iter().min_by_key(|(_, (_, last_use))| *last_use);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                self.by_digest.remove(&oldest);
            }
        }
        self.by_digest.insert(digest, (script, self.uses));
    }
}
