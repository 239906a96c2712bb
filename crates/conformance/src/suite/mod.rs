//! The checks that every store must pass, each with a name.
//!
//! A check is an async function that panics if the store does not do what the check's name says.
//! All checks of a run use the same store. The names of a check's objects begin with its own name,
//! so checks do not disturb each other.

/// Lists the checks of a module: the functions, the capabilities that they need, and whether they
/// need watches.
macro_rules! checks {
    (needs: $needs:expr, watches: $watches:expr, $($check:ident),+ $(,)?) => {
        pub(super) const CHECKS: &[$crate::suite::Check] = &[$($crate::suite::Check {
            name: stringify!($check),
            needs: $needs,
            watches: $watches,
            run: |bench| Box::pin($check(bench)),
        }),+];
    };
    ($($check:ident),+ $(,)?) => { checks!(needs: &[], watches: false, $($check),+); };
}

mod attributes;
mod bounds;
mod capabilities;
mod cases;
mod changes;
mod check;
mod classes;
mod clones;
mod concurrency;
mod guards;
mod listing;
mod map;
mod notifications;
mod snapshots;
mod stream;
mod subject;
mod transactions;
mod versions;
mod watcher;

pub use check::{Bench, Check, Report, run};
pub use subject::{Content, Subject, TestObject};

/// All checks.
pub fn suite() -> Vec<Check> {
    [
        stream::CHECKS,
        map::CHECKS,
        attributes::CHECKS,
        guards::CHECKS,
        transactions::CHECKS,
        versions::CHECKS,
        bounds::CHECKS,
        snapshots::CHECKS,
        clones::CHECKS,
        listing::CHECKS,
        classes::CHECKS,
        concurrency::CHECKS,
        notifications::CHECKS,
        changes::CHECKS,
        capabilities::CHECKS,
    ]
    .concat()
}

/// Runs the whole suite. An engine that runs classes must have [`TestClasses`](crate::TestClasses)
/// as its class host.
///
/// # Panics
/// If a check fails. The message names all that failed.
pub async fn run_all(subject: &Subject) {
    run(&suite(), subject).await.unwrap();
}
