//! A check: a named statement about stores. Also runs a list of checks.

use std::io::Write;
use std::time::Duration;

use futures::future::BoxFuture;
use nacre_object::{Capability, Op};
use tokio::time::Instant;

use super::subject::{Subject, TestObject};

/// How long one check may take. Even the slowest takes only seconds on a busy machine.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
/// After this time no further check begins. The suite usually takes seconds; this bound matters if
/// the store is stuck.
const SUITE_TIMEOUT: Duration = Duration::from_secs(240);

/// One statement about stores.
#[derive(Clone, Copy)]
pub struct Check {
    /// The statement.
    pub name: &'static str,
    /// The capabilities that the check needs.
    pub needs: &'static [Capability],
    /// Whether the check needs watches.
    pub watches: bool,
    /// Runs the check. Panics if the store does not pass it.
    pub run: fn(Bench) -> BoxFuture<'static, ()>,
}

/// The argument of a check: the subject, and a way to make names that no other check uses.
#[derive(Clone)]
pub struct Bench {
    /// The store under test.
    pub subject: Subject,
    /// The check's name.
    pub check: &'static str,
}

impl Bench {
    /// An object of this check. All of them are on one target, so they can be cloned.
    pub fn object(&self, name: impl std::fmt::Display) -> TestObject {
        self.subject.object(format!("{{{}}}/{name}", self.check))
    }

    /// An object of this check, prepared with these ops.
    pub async fn object_with(
        &self,
        name: impl std::fmt::Display,
        ops: impl IntoIterator<Item = Op>,
    ) -> TestObject {
        let object = self.object(name);
        object.submit(ops).await.expect("preparing an object must succeed");
        object
    }

    /// An object of this check, on any target.
    pub fn spread_object(&self, name: impl std::fmt::Display) -> TestObject {
        self.subject.object(format!("{}/{name}", self.check))
    }
}

/// The result of a run of the suite.
#[derive(Debug, Default)]
pub struct Report {
    /// The checks that passed.
    pub passed: Vec<&'static str>,
    /// The checks for which the store lacks a capability.
    pub skipped: Vec<&'static str>,
    /// The checks that failed, each with its message.
    pub failed: Vec<(&'static str, String)>,
}

impl Check {
    fn applies_to(&self, subject: &Subject) -> bool {
        self.needs.iter().all(|capability| subject.has(*capability))
            && (!self.watches || subject.watch().is_some())
    }

    async fn run_on(&self, subject: &Subject) -> Result<(), String> {
        let bench = Bench { subject: subject.clone(), check: self.name };
        // The check runs in its own task, so that a panic ends only this check.
        let task = tokio::spawn((self.run)(bench));
        let abort = task.abort_handle();
        match tokio::time::timeout(CHECK_TIMEOUT, task).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(panic_text(error)),
            Err(_) => {
                abort.abort();
                Err(format!("not done after {CHECK_TIMEOUT:?}"))
            }
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "cancelled".to_owned() };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}

/// Runs checks one after the other until `SUITE_TIMEOUT`, also after a failure. Prints each
/// failure at once, because a run against a stuck store is slow and may be killed before its end.
pub async fn run(checks: &[Check], subject: &Subject) -> Report {
    let begun = Instant::now();
    let mut report = Report::default();
    for check in checks {
        if begun.elapsed() > SUITE_TIMEOUT {
            report.failed.push((check.name, format!("not begun: {SUITE_TIMEOUT:?} are over")));
            continue;
        }
        if !check.applies_to(subject) {
            report.skipped.push(check.name);
            continue;
        }
        match check.run_on(subject).await {
            Ok(()) => report.passed.push(check.name),
            Err(text) => {
                // Written to standard error directly: the test harness would show nothing if the
                // test were killed.
                let _ = writeln!(
                    std::io::stderr(),
                    "{} after {:?}: {text}",
                    check.name,
                    begun.elapsed()
                );
                report.failed.push((check.name, text));
            }
        }
    }
    report
}

impl Report {
    /// Ends a test: prints the counts.
    ///
    /// # Panics
    /// If a check failed; the text names each.
    pub fn unwrap(&self) {
        let (passed, skipped) = (self.passed.len(), self.skipped.len());
        println!("conformance: {passed} checks hold, {skipped} do not apply {:?}", self.skipped);
        let failed: Vec<_> =
            self.failed.iter().map(|(name, text)| format!("- {name}: {text}\n")).collect();
        assert!(failed.is_empty(), "{} checks do not hold:\n{}", failed.len(), failed.concat());
    }
}
