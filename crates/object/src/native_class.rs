//! Classes written in Rust. They are registered and called, and fail, exactly as programs do.

use std::collections::BTreeMap;

use crate::{CallContext, CallReply, ClassName, MethodName, ObjectView, Result};
use bytes::Bytes;

/// Whether a method may change its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAccess {
    /// The method only reads: a write is `Denied`. It may run at the same time as methods that
    /// write.
    ReadOnly,
    /// It may write.
    ReadWrite,
}

/// The body of a method: computes a status and an output from the input and the object.
pub type NativeMethod = fn(Bytes, &mut dyn ObjectView, &CallContext) -> Result<CallReply>;

/// A class whose methods are Rust functions.
#[derive(Debug, Clone)]
pub struct NativeClass {
    name: ClassName,
    is_brief: bool,
    methods: BTreeMap<MethodName, (MethodAccess, NativeMethod)>,
}

impl NativeClass {
    /// A class without methods yet.
    pub fn new(name: ClassName) -> Self {
        Self { name, is_brief: false, methods: BTreeMap::new() }
    }

    /// Declares that every method of the class takes only a fraction of a millisecond, whatever its
    /// input.
    pub fn brief(self) -> Self {
        Self { is_brief: true, ..self }
    }

    /// Whether its methods take only a fraction of a millisecond.
    pub fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Adds a method.
    ///
    /// # Panics
    /// If the class has a method of that name.
    pub fn method(mut self, name: &str, access: MethodAccess, run: NativeMethod) -> Self {
        let name = MethodName::new(name).expect("method names are literals in the source");
        let previous = self.methods.insert(name, (access, run));
        assert!(previous.is_none(), "a method is defined twice");
        self
    }

    /// The class's name.
    pub fn name(&self) -> &ClassName {
        &self.name
    }

    /// Returns a method and its access, if there is a method of that name.
    pub fn get(&self, method: &MethodName) -> Option<(MethodAccess, NativeMethod)> {
        self.methods.get(method).copied()
    }
}
