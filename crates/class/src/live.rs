//! The classes that calls find: native ones, programs that are live, and `lua`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nacre_brados::{LineMap, ir};
use nacre_clock::Clock;
use nacre_object::{ClassCall, ClassName, Error, MethodName, Result};
use nacre_program::Digest;
use nacre_script::Script;

use crate::call_counts::{CallCounts, UnderWay};
use crate::check::methods_of;
use crate::counting::Counting;
use crate::language::translate;
use crate::program::ClassProgram;
use nacre_calls::BATCH_SUFFIX;
use nacre_object::{MethodAccess, NativeClass};

/// A program that is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveClass {
    /// The class.
    pub name: ClassName,
    /// The version calls get.
    pub version: u64,
    /// The digest of its source.
    pub digest: Digest,
}

/// A class that calls can find.
#[derive(Clone)]
pub(crate) enum Class {
    Native(Arc<NativeClass>),
    Program(Arc<Program>),
    /// The built-in `lua`, which is always there.
    Scripts,
}

/// A class that was installed.
pub(crate) struct Program {
    pub script: Script,
    /// The source, in whichever language, and its digest.
    pub source: Arc<str>,
    pub digest: Digest,
    /// The program's own lines, if the script was made of one in another language.
    pub lines: Option<LineMap>,
    pub methods: BTreeMap<MethodName, MethodAccess>,
    /// The counters of the class's calls, if the program is in Brados.
    pub counting: Option<Arc<Counting>>,
    /// The methods that may send messages that the runtime delivers.
    pub senders: BTreeSet<String>,
    /// The methods that take some microseconds, however much data their object has.
    pub brief: BTreeSet<String>,
}

/// A class as a call finds it.
#[derive(Clone)]
pub struct CalledClass {
    pub(crate) version: u64,
    pub(crate) counts: Option<Arc<CallCounts>>,
}

impl CalledClass {
    /// The version calls get: a program's own, 0 for a native class.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Counts a call that is about to run. The call counts as in flight until the returned guard is
    /// dropped.
    pub fn begin(&self, call: &ClassCall) -> Option<UnderWay> {
        self.counts.as_ref().and_then(|counts| CallCounts::begin(counts, call))
    }
}

impl Program {
    /// Translates and checks a program that is to be installed. The returned class has no call
    /// counters yet.
    ///
    /// # Errors
    /// `Invalid` if the program does not pass the checks of [`crate::check_program`].
    pub fn of(
        program: &ClassProgram,
        clock: &Arc<dyn Clock>,
    ) -> Result<(Self, Option<ir::Program>)> {
        let (name, version) = (program.name(), program.version());
        let refused = |reason: &dyn std::fmt::Display| {
            Error::invalid(format!("version {version} of {name}: {reason}"))
        };
        let translated = translate(program.source()).map_err(|error| refused(&error))?;
        let script = translated.script(name.as_str(), version).map_err(|error| refused(&error))?;
        let methods = methods_of(&script, clock).map_err(|error| refused(&error))?;
        let made = Self {
            script,
            source: program.shared_source(),
            digest: program.digest(),
            lines: translated.lines,
            methods,
            counting: None,
            senders: translated.senders,
            brief: translated.brief,
        };
        Ok((made, translated.meaning))
    }

    /// Continues the counts of the previous version, if that has the same methods.
    pub fn count_after(&mut self, former: Option<&Self>, meaning: Option<&ir::Program>) {
        let former = former.and_then(|former| former.counting.as_ref());
        self.counting = meaning.map(Counting::of).map(|fresh| {
            let kept = former.filter(|former| former.counts_the_same(&fresh)).cloned();
            kept.unwrap_or_else(|| Arc::new(fresh))
        });
    }

    /// Finds the method that a call names, and its access. Each method of a Brados program also has
    /// a second name, under which it takes a batch of requests.
    pub fn method(&self, called: &MethodName) -> Option<(&MethodName, MethodAccess)> {
        let found = self.methods.get_key_value(called).or_else(|| {
            self.lines.as_ref()?;
            let one = called.as_str().strip_suffix(BATCH_SUFFIX)?;
            self.methods.get_key_value(&MethodName::new(one).ok()?)
        });
        found.map(|(method, access)| (method, *access))
    }

    /// Whether a call takes a fraction of a millisecond, however much data its object holds. A
    /// batch never counts as brief, because it may contain a thousand requests.
    pub fn is_brief(&self, call: &ClassCall) -> bool {
        self.brief.contains(call.method.as_str())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nacre_clock::SystemClock;

    use super::*;

    const LOG: &str = include_str!("../../../programs/class/log.brados");

    #[test]
    fn calls_of_a_look_up_take_bounded_time_but_batches_do_not() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let name = ClassName::new("log").unwrap();
        let (program, _) = Program::of(&ClassProgram::new(name.clone(), 1, LOG), &clock).unwrap();
        let is_brief = |method: &str| {
            let (class, method) = (name.clone(), MethodName::new(method).unwrap());
            program.is_brief(&ClassCall { class, method, version: None, input: Bytes::new() })
        };
        assert!(is_brief("write") && is_brief("trim"));
        assert!(!is_brief("seal") && !is_brief("write.batch") && !is_brief("no"));
    }
}
