//! Runs a request on an object in RADOS.
//!
//! There are up to three steps; a request stops after the first step that suffices:
//!
//! 1. **Write only**: one compound write ([`mod@crate::transaction::write_only`]).
//! 2. **Read**: one compound read fetches what the request needs. The request, with its methods,
//!    runs on the fetched parts ([`crate::transaction::partial_view`]). If it changed nothing, it
//!    is done.
//! 3. **Write**: the changes of step 2 become one compound write, guarded by the version that was
//!    read. If another client has changed the object meanwhile, the request begins again. Each time
//!    some client has made progress, so not all clients can repeat forever.
//!
//! **Invariants.** A transaction reads and writes one version of its object. A reply shows only
//! committed data: RADOS answers a read only after the writes that the read shows are on every
//! replica.

pub(crate) mod allowance;
pub(crate) mod image;
pub(crate) mod last_walk;
pub(crate) mod map_bounds;
pub(crate) mod missing;
pub(crate) mod object_locks;
pub(crate) mod objects;
pub(crate) mod partial_map;
pub(crate) mod partial_view;
#[cfg(test)]
mod partial_view_tests;
pub(crate) mod plan;
#[cfg(test)]
mod transaction_tests;
pub(crate) mod write_only;

use nacre_clock::Clock;
use nacre_object::{
    CallContext, Error, Op, OpResult, RemoteClassHost, Reply, Request, Result, run_transaction,
};

use crate::cluster::failure::{operation_failed, status};
use crate::ffi::{Answer, Change, Fetch, Fetched};
use crate::transaction::allowance::Allowance;
use crate::transaction::image::Image;
use crate::transaction::objects::Objects;
use crate::transaction::partial_view::{Outcome, PartialView};
use crate::transaction::plan::plan;
use crate::transaction::write_only::{needs_knowledge, write_only};

/// How many times other clients may change the object first before a request gives up.
const MAX_ATTEMPTS: usize = 100;

/// One request with everything that is needed to run it.
pub struct Transaction<'a, O> {
    /// The store that has the request's object.
    pub objects: &'a O,
    /// Runs methods.
    pub classes: &'a dyn RemoteClassHost,
    /// The request.
    pub request: &'a Request,
    /// The clock that measures the time of runs.
    pub clock: &'a dyn Clock,
    /// What methods may know about the request.
    pub call: CallContext,
}

/// The result of one attempt.
enum Attempt {
    Replied(Reply),
    /// Another client changed the object in between.
    Overtaken,
}

impl<O: Objects> Transaction<'_, O> {
    /// Whether the request may change the object depending on its state, so that it should wait for
    /// other such requests of this process.
    pub fn wants_turn(&self) -> bool {
        self.request.ops.iter().any(|op| match op {
            Op::Call(call) => !self.classes.is_read_only(call),
            op => op.is_write(),
        })
    }

    /// Runs the request without a read of the object; `None` if it needs a read.
    pub async fn run_blind(&self) -> Result<Option<Reply>> {
        let Some(write_only) = write_only(&self.request.ops) else { return Ok(None) };
        let answer = self.apply(&write_only.changes).await;
        if needs_knowledge(answer.status) {
            return Ok(None);
        }
        check(answer)?;
        let version = if write_only.exists { answer.version } else { 0 };
        let results = vec![OpResult::Done; self.request.ops.len()];
        Ok(Some(Reply { version, results }))
    }

    /// Runs it with knowledge of the object.
    pub async fn run(&self) -> Result<Reply> {
        let mut allowance = Allowance::new(self.clock);
        for _ in 0..MAX_ATTEMPTS {
            if let Attempt::Replied(reply) = self.attempt(&mut allowance).await? {
                return Ok(reply);
            }
        }
        Err(Error::unavailable(format!(
            "other clients changed the object during {MAX_ATTEMPTS} attempts"
        ))
        .hint("nothing was changed; try again"))
    }

    async fn attempt(&self, allowance: &mut Allowance<'_>) -> Result<Attempt> {
        let mut image = Image::default();
        let (mut wanted, mut later) = plan(&self.request.ops);
        let mut version = None;
        loop {
            let (answer, fetched) = self.fetch(version, &wanted).await;
            match answer.status {
                status::ABSENT if version.is_none() => image.version = answer.version,
                status::ABSENT | status::NEWER | status::OLDER => return Ok(Attempt::Overtaken),
                _ => {
                    check(answer)?;
                    image.version = answer.version;
                    image.learn(&wanted, fetched)?;
                }
            }
            version = Some(image.version);
            let (results, outcome) = self.round(&image, allowance)?;
            match outcome {
                Outcome::Lacks(fetches) => wanted = later.extend(fetches),
                Outcome::Done { changes, exists } => {
                    return self.commit(&image, results?, changes, exists).await;
                }
            }
        }
    }

    /// Runs the request on the fetched parts.
    fn round(
        &self,
        image: &Image,
        allowance: &mut Allowance<'_>,
    ) -> Result<(Result<Vec<OpResult>>, Outcome)> {
        let round = allowance.begin(self.classes)?;
        let mut view = PartialView::new(image);
        let results = run_transaction(&self.request.ops, &mut view, &round, &self.call);
        let outcome = view.finish();
        if matches!(outcome, Outcome::Done { .. }) {
            round.report();
        }
        Ok((results, outcome))
    }

    async fn commit(
        &self,
        image: &Image,
        results: Vec<OpResult>,
        changes: Vec<Change>,
        exists: bool,
    ) -> Result<Attempt> {
        let version = if changes.is_empty() {
            image.version
        } else {
            let answer = self.apply(&changes).await;
            if needs_knowledge(answer.status) {
                return Ok(Attempt::Overtaken);
            }
            check(answer)?;
            answer.version
        };
        let version = if exists { version } else { 0 };
        Ok(Attempt::Replied(Reply { version, results }))
    }

    async fn fetch(&self, version: Option<u64>, fetches: &[Fetch]) -> (Answer, Vec<Fetched>) {
        self.objects.fetch(self.request.header.object.name.as_str(), version, fetches).await
    }

    async fn apply(&self, changes: &[Change]) -> Answer {
        self.objects.apply(self.request.header.object.name.as_str(), changes).await
    }
}

fn check(answer: Answer) -> Result<()> {
    if answer.status < 0 { Err(operation_failed(answer.status)) } else { Ok(()) }
}
