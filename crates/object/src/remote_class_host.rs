//! `RemoteClassHost`: the class host of an engine whose objects are in another process.

use std::sync::Arc;

use crate::{
    CallContext, CallReply, ClassCall, ClassHost, ClassName, Error, NoClasses, ObjectView, Result,
};

/// How a process other than the host can run a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassForm {
    /// Only the class host itself can run the class, or it does not know the class.
    Here,
    /// Every process of the same release has the class.
    Native,
    /// Any process can run the class, if it gets the source.
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

/// A fault of a program in a call that its class host has not reported yet.
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

/// A class host for an engine whose objects are in another process. Such an engine can run a method
/// in two ways:
///
/// - next to the object, in that process;
/// - in this process, on the parts of the object that it has fetched. If a part was missing, the
///   engine fetches it and runs the method again.
///
/// The defaults suit a host without programs.
pub trait RemoteClassHost: ClassHost {
    /// Returns in which form another process can run the class next to the object.
    fn form(&self, class: &ClassName) -> ClassForm {
        let _ = class;
        ClassForm::Here
    }

    /// Runs the method as [`ClassHost::call`] does, but does not report faults, because the engine
    /// may discard this run and repeat it. Returns the faults instead, each with the error of its
    /// request.
    fn call_unreported(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> (Result<CallReply>, Vec<(RemoteFault, Error)>) {
        (self.call(call, view, context), vec![])
    }

    /// Reports a fault of a run whose result the engine uses, wherever the method ran. `error` is
    /// what the caller gets.
    fn failed(&self, fault: &RemoteFault, error: &Error) {
        let _ = (fault, error);
    }
}

impl RemoteClassHost for NoClasses {}
