//! The classes of a node, and how a call finds its method.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nacre_clock::Clock;
use nacre_object::{
    CallAllowance, CallContext, CallReply, ClassCall, ClassForm, ClassHost, ClassName, ClassSource,
    Error, ErrorKind, ObjectView, ReadOnlyView, RemoteClassHost, RemoteFault, Result,
};
use nacre_program::{Budget, Limit};
use nacre_script::Terms;

use crate::allowance::Allowance;
use crate::calls_seen::CallsSeen;
use crate::eval_cache::EvalCache;
use crate::fault_sink::{FaultSink, HeldFaults, NoFaultSink, ProgramFault};
use crate::invocation::Invocation;
use crate::live::{CalledClass, Class, LiveClass, Program};
use crate::program::ClassProgram;
use crate::requests::{Input, Requests};
use nacre_calls::{BATCH_SUFFIX, Batch};
use nacre_calls::{EVAL_BUFFERLIST, EVAL_JSON, EvalRequest, LUA_CLASS};
use nacre_object::{MethodAccess, NativeClass};

/// The classes of a node. The node's engines call their methods.
///
/// A call of a native class or of `lua` names no version (or 0). A call of a program may name the
/// version for which the caller was written, and gets `Stale` if another version is live. If a
/// caller names a newer version than this node has, the node must first make that version live. So
/// the node compares the call's version with [`ClassRuntime::live_version`] before it runs the
/// call.
pub struct ClassRuntime {
    budget: Budget,
    clock: Arc<dyn Clock>,
    sink: Arc<dyn FaultSink>,
    classes: RwLock<HashMap<ClassName, Class>>,
    evals: EvalCache,
}

impl ClassRuntime {
    /// A runtime without classes but `lua`; every call runs within `budget` by `clock`.
    pub fn new(budget: Budget, clock: Arc<dyn Clock>) -> Self {
        Self {
            budget,
            clock,
            sink: Arc::new(NoFaultSink),
            classes: RwLock::default(),
            evals: EvalCache::default(),
        }
    }

    /// The same runtime, reporting to `sink`.
    pub fn reporting_to(mut self, sink: Arc<dyn FaultSink>) -> Self {
        self.sink = sink;
        self
    }

    /// Adds a class written in Rust.
    ///
    /// # Errors
    /// `Exists` if there is a class of that name.
    pub fn register_native(&self, class: NativeClass) -> Result<()> {
        let name = class.name().clone();
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        if name.as_str() == LUA_CLASS || classes.contains_key(&name) {
            return Err(Error::exists(format!("the class {name} already exists")));
        }
        classes.insert(name, Class::Native(Arc::new(class)));
        Ok(())
    }

    /// Makes a program live, in place of any other version of it. Calls in flight finish with the
    /// version with which they began.
    ///
    /// # Errors
    /// `Exists` if a native class has that name; `Invalid` if the program does not pass the checks
    /// of [`crate::check_program`].
    pub fn install(&self, program: &ClassProgram) -> Result<()> {
        let name = program.name();
        if matches!(self.find(name), Some(Class::Native(_) | Class::Scripts)) {
            return Err(Error::exists(format!("{name} is a native class"))
                .hint("give the program another name"));
        }
        let (mut made, meaning) = Program::of(program, &self.clock)?;
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        let former = match classes.get(name) {
            Some(Class::Program(former)) => Some(&**former),
            None => None,
            Some(Class::Native(_) | Class::Scripts) => {
                return Err(Error::exists(format!("{name} is a native class"))
                    .hint("give the program another name"));
            }
        };
        made.count_after(former, meaning.as_ref());
        classes.insert(name.clone(), Class::Program(Arc::new(made)));
        Ok(())
    }

    /// Removes a program. Returns whether there was one. Native classes stay.
    pub fn uninstall(&self, name: &ClassName) -> bool {
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        let is_program = matches!(classes.get(name), Some(Class::Program(_)));
        is_program && classes.remove(name).is_some()
    }

    /// The live programs, in name order.
    pub fn live(&self) -> Vec<LiveClass> {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let programs = classes.iter().filter_map(|(name, class)| match class {
            Class::Program(program) => Some(LiveClass {
                name: name.clone(),
                version: program.script.version(),
                digest: program.digest,
            }),
            Class::Native(_) | Class::Scripts => None,
        });
        let mut live: Vec<_> = programs.collect();
        live.sort_by(|a, b| a.name.cmp(&b.name));
        live
    }

    /// A class as a call finds it now; `None` if there is no such class.
    pub fn called(&self, name: &ClassName) -> Option<CalledClass> {
        Some(match self.find(name)? {
            Class::Program(program) => CalledClass {
                version: program.script.version(),
                counts: program.counting.as_ref().map(|counting| counting.present()),
            },
            Class::Native(_) | Class::Scripts => CalledClass { version: 0, counts: None },
        })
    }

    /// The live version of a class: the version of a program, or 0 for a native class. `None` if
    /// there is no such class.
    pub fn live_version(&self, name: &ClassName) -> Option<u64> {
        self.called(name).map(|called| called.version)
    }

    /// The counted calls of each Brados class since it was first made live here, by name.
    pub fn calls_seen(&self) -> Vec<(ClassName, CallsSeen)> {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let counted = classes.iter().filter_map(|(name, class)| match class {
            Class::Program(program) => Some((name.clone(), program.counting.clone()?)),
            Class::Native(_) | Class::Scripts => None,
        });
        let mut counted: Vec<_> = counted.collect();
        drop(classes);
        counted.sort_by(|(a, _), (b, _)| a.cmp(b));
        counted.into_iter().map(|(name, counting)| (name, counting.seen())).collect()
    }

    /// Whether a call of the live class may send messages that the runtime delivers.
    pub fn sends(&self, call: &ClassCall) -> bool {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Class::Program(program)) = classes.get(&call.class) else { return false };
        let method = call.method.as_str();
        let method = method.strip_suffix(BATCH_SUFFIX).unwrap_or(method);
        program.senders.contains(method)
    }

    fn find(&self, name: &ClassName) -> Option<Class> {
        let classes = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let found = classes.get(name).cloned();
        found.or_else(|| (name.as_str() == LUA_CLASS).then_some(Class::Scripts))
    }

    fn call_program(
        &self,
        program: &Program,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
        sink: &dyn FaultSink,
    ) -> Result<CallReply> {
        check_version(call, program.script.version())?;
        let Some((method, access)) = program.method(&call.method) else {
            return Err(no_method(call, program.methods.keys()));
        };
        let input = match *method == call.method {
            true => Input::One(call.input.clone()),
            false => {
                let batch = Batch::decode(call.input.clone())?;
                Input::Batch(batch.within(self.budget.output_bytes))
            }
        };
        let invocation = Invocation {
            script: &program.script,
            lines: program.lines.as_ref(),
            handler: method.as_str(),
            requests: Requests::of(input),
            access,
            terms: self.terms(context),
            context,
            sink,
        };
        invocation.run(view)
    }

    fn evaluate(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
        sink: &dyn FaultSink,
    ) -> Result<CallReply> {
        check_unversioned(call)?;
        let request = match call.method.as_str() {
            EVAL_JSON => EvalRequest::from_json(&call.input)?,
            EVAL_BUFFERLIST => EvalRequest::from_bufferlist(call.input.clone())?,
            _ => return Err(no_method(call, [EVAL_BUFFERLIST, EVAL_JSON])),
        };
        let script = self.evals.compiled(&request.script)?;
        let invocation = Invocation {
            script: &script,
            lines: None,
            handler: &request.handler,
            requests: Requests::of(Input::One(request.input)),
            access: MethodAccess::ReadWrite,
            terms: self.terms(context),
            context,
            sink,
        };
        invocation.run(view)
    }

    fn call_reporting_to(
        &self,
        sink: &dyn FaultSink,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        match self.find(&call.class) {
            Some(Class::Program(program)) => self.call_program(&program, call, view, context, sink),
            Some(Class::Native(class)) => call_native(&class, call, view, context)
                .inspect_err(|error| report_hosted(sink, call, error)),
            Some(Class::Scripts) => self.evaluate(call, view, context, sink),
            None => Err(Error::unsupported(format!("there is no class {}", call.class))
                .hint("see all classes with `nacre program ls`")),
        }
    }

    fn terms(&self, context: &CallContext) -> Terms<'_> {
        // The random seed is the time of the call. So a call that is repeated with the same time
        // draws the same random numbers.
        Terms { budget: &self.budget, clock: &self.clock, seed: context.now_micros }
    }
}

impl ClassHost for ClassRuntime {
    fn is_read_only(&self, call: &ClassCall) -> bool {
        let access = match self.find(&call.class) {
            Some(Class::Native(class)) => class.get(&call.method).map(|(access, _)| access),
            Some(Class::Program(program)) => program.method(&call.method).map(|(_, access)| access),
            Some(Class::Scripts) | None => None,
        };
        access == Some(MethodAccess::ReadOnly)
    }

    fn is_brief(&self, call: &ClassCall) -> bool {
        match self.find(&call.class) {
            Some(Class::Native(class)) => class.is_brief(),
            Some(Class::Program(program)) => program.is_brief(call),
            Some(Class::Scripts) | None => false,
        }
    }

    fn call(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> Result<CallReply> {
        self.call_reporting_to(&*self.sink, call, view, context)
    }

    fn allowance(&self) -> Box<dyn CallAllowance + '_> {
        Box::new(Allowance::new(&*self.clock))
    }
}

impl RemoteClassHost for ClassRuntime {
    fn form(&self, class: &ClassName) -> ClassForm {
        match self.find(class) {
            Some(Class::Native(_) | Class::Scripts) => ClassForm::Native,
            Some(Class::Program(program)) => ClassForm::Program(ClassSource {
                version: program.script.version(),
                digest: *program.digest.as_bytes(),
                source: program.source.clone(),
            }),
            None => ClassForm::Here,
        }
    }

    fn call_unreported(
        &self,
        call: &ClassCall,
        view: &mut dyn ObjectView,
        context: &CallContext,
    ) -> (Result<CallReply>, Vec<(RemoteFault, Error)>) {
        let held = HeldFaults::before(&*self.sink);
        let outcome = self.call_reporting_to(&held, call, view, context);
        (outcome, held.into_faults())
    }

    fn failed(&self, fault: &RemoteFault, error: &Error) {
        self.sink.fault(&ProgramFault {
            program: &fault.program,
            version: fault.version,
            method: &fault.method,
            line: fault.line,
            error,
            limit: fault.limit.as_deref().and_then(Limit::named),
        });
    }
}

/// Reports a fault of a program that a native method ran. For example, the native class `map` runs
/// the program of a map. The report names that program.
fn report_hosted(sink: &dyn FaultSink, call: &ClassCall, error: &Error) {
    let is_fault = matches!(error.kind(), ErrorKind::Fault | ErrorKind::Exhausted);
    if let (true, Some(site)) = (is_fault, error.fault()) {
        sink.fault(&ProgramFault {
            program: &site.program,
            version: site.version,
            method: call.method.as_str(),
            line: site.line,
            error,
            limit: None,
        });
    }
}

fn call_native(
    class: &NativeClass,
    call: &ClassCall,
    view: &mut dyn ObjectView,
    context: &CallContext,
) -> Result<CallReply> {
    check_unversioned(call)?;
    let Some((access, run)) = class.get(&call.method) else {
        return Err(no_method(call, std::iter::empty::<&str>()));
    };
    let reply = match access {
        MethodAccess::ReadWrite => run(call.input.clone(), view, context)?,
        MethodAccess::ReadOnly => run(call.input.clone(), &mut ReadOnlyView::new(view), context)?,
    };
    if reply.status < 0 {
        let text = format!("{}.{} returned {}", call.class, call.method, reply.status);
        return Err(Error::from_status(reply.status, text));
    }
    Ok(reply)
}

fn check_version(call: &ClassCall, live: u64) -> Result<()> {
    match call.version {
        Some(asked) if asked < live => {
            let text = format!("{} is at version {live}, not {asked}", call.class);
            Err(Error::stale(text).hint("read what changed, then call the live version"))
        }
        Some(asked) if asked > live => {
            let text = format!("{} is still at version {live} here, not {asked}", call.class);
            Err(Error::stale(text).hint("retry: this node has not made the newer version live yet"))
        }
        _ => Ok(()),
    }
}

fn check_unversioned(call: &ClassCall) -> Result<()> {
    match call.version {
        None | Some(0) => Ok(()),
        Some(asked) => Err(Error::invalid(format!(
            "the call names version {asked} of the native class {}",
            call.class
        ))
        .hint("leave the version out: native classes have none")),
    }
}

fn no_method<M: std::fmt::Display>(call: &ClassCall, known: impl IntoIterator<Item = M>) -> Error {
    let error = Error::unsupported(format!("{} has no method {}", call.class, call.method));
    let known: Vec<_> = known.into_iter().map(|method| method.to_string()).collect();
    match known.is_empty() {
        true => error,
        false => error.hint(format!("call one of its methods: {}", known.join(", "))),
    }
}

#[cfg(test)]
#[path = "kept_class_tests.rs"]
mod kept_class_tests;
