//! The classes that one request may call: the native classes, and the programs that the request
//! names.

use std::sync::Arc;

use nacre_class::ClassRuntime;
use nacre_object::{
    CallAllowance, CallContext, CallReply, ClassCall, ClassHost, ClassName, Error, ObjectView, Op,
    Result,
};

/// The classes of one request.
pub(crate) struct RequestClasses<'a> {
    /// The native classes and `lua`.
    pub native: &'a ClassRuntime,
    /// A runtime for each program; it holds only this program.
    pub programs: Vec<(ClassName, Arc<ClassRuntime>)>,
}

impl RequestClasses<'_> {
    /// Whether the request has every class that its ops call.
    pub fn hold_all_of(&self, ops: &[Op]) -> bool {
        ops.iter().all(|op| match op {
            Op::Call(call) => self.find(&call.class).is_some(),
            _ => true,
        })
    }

    fn find(&self, class: &ClassName) -> Option<&ClassRuntime> {
        if self.native.live_version(class).is_some() {
            return Some(self.native);
        }
        let named = self.programs.iter().find(|(name, _)| name == class);
        named.map(|(_, runtime)| &**runtime)
    }
}

impl ClassHost for RequestClasses<'_> {
    fn is_read_only(&self, call: &ClassCall) -> bool {
        self.find(&call.class).is_some_and(|runtime| runtime.is_read_only(call))
    }

    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        match self.find(&call.class) {
            Some(runtime) => runtime.call(call, view, context),
            None => Err(Error::unsupported(format!("there is no class {}", call.class))
                .hint("see all classes with `nacre program ls`")),
        }
    }

    fn allowance(&self) -> Box<dyn CallAllowance + '_> {
        self.native.allowance()
    }
}
