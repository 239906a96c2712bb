//! How an engine runs class methods without knowing what a class is made of.

use std::sync::Arc;

use bytes::Bytes;

use crate::{ClassName, EntityName, Error, MethodName, ObjectView, Result, Status};

/// A call of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCall {
    /// The class.
    pub class: ClassName,
    /// The method.
    pub method: MethodName,
    /// The version of the class the caller was written against; `None` takes what is active.
    pub version: Option<u64>,
    /// What the method is given.
    pub input: Bytes,
}

/// What a method that succeeded said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallReply {
    /// Zero or positive.
    pub status: Status,
    /// Its output.
    pub output: Bytes,
}

/// What a method may know besides its object.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Who asks, as authenticated.
    pub source: EntityName,
    /// A clock reading: microseconds since 1970, UTC.
    pub now_micros: u64,
}

/// How a class can be run by somebody else than its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassForm {
    /// Only the host itself can run it, or it does not know the class.
    Here,
    /// Everybody of the same release has it.
    Native,
    /// Whoever has its source can.
    Program(ClassSource),
}

/// The live version of a class that is a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSource {
    /// The version.
    pub version: u64,
    /// SHA-256 of the source.
    pub digest: [u8; 32],
    /// The source.
    pub source: Arc<str>,
}

/// That a program failed a call which somebody else ran for its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFault {
    /// The program's name.
    pub program: String,
    /// Its version; 0 for a one-off script.
    pub version: u64,
    /// The method that was called.
    pub method: String,
    /// The line, where known.
    pub line: Option<u32>,
    /// The limit it exceeded, where known.
    pub limit: Option<String>,
}

/// Runs methods. Engines are given one; `class::ClassRuntime` is the real one.
pub trait ClassHost: Send + Sync {
    /// Whether the method is declared to change nothing, so that it may run beside writers.
    /// An unknown method is not. The host sees to it that such a method's writes are `Denied`: see
    /// [`crate::ReadOnlyView`].
    fn is_read_only(&self, call: &ClassCall) -> bool;

    /// Whether the method is over in a fraction of a millisecond, as most ops are, whatever its object holds: an
    /// engine may run it on the thread of whoever asks.
    fn is_brief(&self, call: &ClassCall) -> bool {
        let _ = call;
        false
    }

    /// Runs the method on `view`. Called on the engine's threads: it computes, it does not wait.
    ///
    /// # Errors
    /// Whatever makes the transaction fail: a negative status (`Error::from_status`), `Stale` if
    /// `call.version` is not the live one, `Fault`, `Exhausted`, `Denied`. The caller drops what
    /// the method did.
    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply>;

    /// What the calls of one request may take together, from now on. Each ends in time by itself, but a
    /// request may hold `MAX_OPS` of them.
    fn allowance(&self) -> Box<dyn CallAllowance + '_> {
        Box::new(Unbounded)
    }

    /// How an engine could have the class run next to the object, if that is not in this process.
    fn form(&self, class: &ClassName) -> ClassForm {
        let _ = class;
        ClassForm::Here
    }

    /// Hears of a fault that happened elsewhere, so that it is known where its own are. `error` is what
    /// the caller gets.
    fn failed_elsewhere(&self, fault: &RemoteFault, error: &Error) {
        let _ = (fault, error);
    }
}

/// What is left for the calls of a request.
pub trait CallAllowance {
    /// Whether another call may begin.
    ///
    /// # Errors
    /// `Exhausted` if those before have used it up.
    fn check(&self) -> Result<()>;
}

/// Of a host whose calls take next to nothing.
struct Unbounded;

impl CallAllowance for Unbounded {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A host without classes, for engines that are used for their native ops alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClasses;

impl ClassHost for NoClasses {
    fn is_read_only(&self, _: &ClassCall) -> bool {
        false
    }

    fn call(&self, call: &ClassCall, _: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
        Err(Error::unsupported(format!("there is no class {}", call.class)))
    }
}
