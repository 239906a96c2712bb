//! Keeps compiled programs, so that later calls need only name them.
//!
//! The key is the class, version and digest of a program. The digest is needed because several
//! nacre clusters that share an OSD may have different programs with the same name and version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_class::{ClassProgram, ClassRuntime, FaultSink};
use nacre_clock::Clock;
use nacre_object::{ClassName, Error, Result};
use nacre_program::{Budget, Digest};

/// How many programs the cache keeps. It drops the least recently used one when there are more. A
/// cluster has fewer live programs than this. With tens of kilobytes each, the programs take a few
/// megabytes.
const MAX_PROGRAMS: usize = 256;

/// Identifies the program of a class that a call needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ProgramKey {
    /// The class.
    pub class: ClassName,
    /// The version.
    pub version: u64,
    /// SHA-256 of the source.
    pub digest: Digest,
}

/// The programs this process has compiled.
pub(crate) struct ProgramCache {
    clock: Arc<dyn Clock>,
    sink: Arc<dyn FaultSink>,
    kept: Mutex<CachedPrograms>,
}

#[derive(Default)]
struct CachedPrograms {
    programs: HashMap<ProgramKey, (Arc<ClassRuntime>, u64)>,
    uses: u64,
}

impl ProgramCache {
    /// An empty cache, whose programs run by `clock` and report to `sink`.
    pub fn new(clock: Arc<dyn Clock>, sink: Arc<dyn FaultSink>) -> Self {
        Self { clock, sink, kept: Mutex::default() }
    }

    /// A program that is kept.
    pub fn get(&self, key: &ProgramKey) -> Option<Arc<ClassRuntime>> {
        let mut kept = self.kept();
        kept.uses += 1;
        let uses = kept.uses;
        let (program, last_use) = kept.programs.get_mut(key)?;
        *last_use = uses;
        Some(program.clone())
    }

    /// Compiles a program and stores it in the cache.
    ///
    /// # Errors
    /// `Invalid` if the source does not match the key's digest, or is not a valid program.
    pub fn compile(&self, key: &ProgramKey, source: &[u8]) -> Result<Arc<ClassRuntime>> {
        let digest = Digest::of(source);
        if digest != key.digest {
            let text = format!("the source of {} has the digest {digest}", key.class);
            return Err(Error::invalid(text)
                .hint(format!("send the source with the announced digest {}", key.digest)));
        }
        let source = std::str::from_utf8(source)
            .map_err(|_| Error::invalid(format!("the source of {} is not UTF-8", key.class)))?;
        let runtime = ClassRuntime::new(Budget::default(), self.clock.clone())
            .reporting_to(self.sink.clone());
        runtime.install(&ClassProgram::new(key.class.clone(), key.version, source))?;
        let runtime = Arc::new(runtime);
        self.kept().keep(key.clone(), runtime.clone());
        Ok(runtime)
    }

    fn kept(&self) -> MutexGuard<'_, CachedPrograms> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPrograms {
    fn keep(&mut self, key: ProgramKey, runtime: Arc<ClassRuntime>) {
        if self.programs.len() >= MAX_PROGRAMS {
            let oldest = self.programs.iter().min_by_key(|(_, (_, last_use))| *last_use);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.programs.remove(&oldest);
            }
        }
        self.programs.insert(key, (runtime, self.uses));
    }
}
