//! The traits by which an engine runs class methods. The engine does not know how a class is
//! written.

use bytes::Bytes;

use crate::{ClassName, EntityName, Error, MethodName, ObjectView, Result, Status};

/// A call of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCall {
    /// The class.
    pub class: ClassName,
    /// The method.
    pub method: MethodName,
    /// The version of the class that the caller was written against. `None` accepts the active
    /// version.
    pub version: Option<u64>,
    /// What the method is given.
    pub input: Bytes,
}

/// The reply of a method that succeeded.
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

/// Runs methods. Each engine is given a class host. Outside of tests it is `class::ClassRuntime`.
pub trait ClassHost: Send + Sync {
    /// Whether the method is declared to change nothing. If so, it may run at the same time as
    /// methods that write, and a write by the method is `Denied`: see [`crate::ReadOnlyView`].
    /// Returns `false` for an unknown method.
    fn is_read_only(&self, call: &ClassCall) -> bool;

    /// Whether the method takes only a fraction of a millisecond, whatever the size of its object.
    /// An engine may run such a method on the caller's thread.
    fn is_brief(&self, call: &ClassCall) -> bool {
        let _ = call;
        false
    }

    /// Runs the method on `view`. The engine calls this on its own threads, so a method must not
    /// wait.
    ///
    /// # Errors
    /// Any error that fails the transaction: a negative status (`Error::from_status`), `Stale` if
    /// `call.version` is not the active one, `Fault`, `Exhausted`, `Denied`. The caller then drops
    /// the method's changes.
    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply>;

    /// Starts the time limit for all calls of one request together. Each call also has its own
    /// limit, but a request may have `MAX_OPS` calls.
    fn allowance(&self) -> Box<dyn CallAllowance + '_> {
        Box::new(Unbounded)
    }
}

/// The time that is left for the calls of a request.
pub trait CallAllowance {
    /// Whether another call may begin.
    ///
    /// # Errors
    /// `Exhausted` if the calls before have used the time up.
    fn check(&self) -> Result<()>;
}

/// The allowance of a host whose calls take almost no time.
struct Unbounded;

impl CallAllowance for Unbounded {
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A class host without classes, for engines that are used only for their native ops.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClasses;

impl ClassHost for NoClasses {
    fn is_read_only(&self, _: &ClassCall) -> bool {
        false
    }

    fn call(&self, call: &ClassCall, _: &mut dyn ObjectView, _: &CallContext) -> Result<CallReply> {
        Err(Error::unsupported(format!(
            "this store cannot run class {}, because it runs no classes",
            call.class
        )))
    }
}
