//! How a request is run on an object that lies in RADOS.
//!
//! Three ways, the first that can do it:
//!
//! 1. **Blind**: one compound write ([`crate::blind`]).
//! 2. **Known**: what the request needs is fetched with one compound read; the request is run on that
//!    ([`crate::draft`]), methods included; if it changed nothing, that is all.
//! 3. What it changed is one compound write, guarded by the version that was read. If another client
//!    was faster everything begins again; somebody made progress, so this ends.
//!
//! **Invariants.** What a transaction saw and what it did are of one version. A reply tells only what
//! is committed: RADOS answers a read once the writes it shows are on every replica.

use std::sync::Arc;

use nacre_object::{CallContext, ClassHost, Error, Op, Reply, Request, Result, run_transaction};

use crate::blind::{blind, needs_knowledge};
use crate::draft::{Draft, Outcome};
use crate::failure::{operation_failed, status};
use crate::ffi::{Answer, Change, Fetch, IoContext};
use crate::image::Image;
use crate::plan::plan;

/// How often others may be faster before a request gives up.
const MAX_ATTEMPTS: usize = 100;
/// How often a transaction may turn out to need more: a walk over a whole map takes many fetches.
const MAX_FETCHES: usize = 10_000;

/// One request with what it takes to run it.
pub struct Transaction<'a> {
    /// The namespace of the object's pool.
    pub context: &'a Arc<IoContext>,
    /// Runs methods.
    pub classes: &'a dyn ClassHost,
    /// The request.
    pub request: &'a Request,
    /// What methods may know.
    pub call: CallContext,
}

/// What one attempt came to.
enum Attempt {
    Replied(Reply),
    /// Somebody else changed the object in between.
    Overtaken,
}

impl Transaction<'_> {
    /// Whether it can change the object with knowledge of it, and so should wait for its turn.
    pub fn wants_turn(&self) -> bool {
        self.request.ops.iter().any(|op| match op {
            Op::Call(call) => !self.classes.is_read_only(call),
            op => op.is_write(),
        })
    }

    /// Runs it without knowledge of the object; `None` if it needs some.
    pub async fn run_blind(&self) -> Result<Option<Reply>> {
        let Some(blind) = blind(&self.request.ops) else { return Ok(None) };
        let answer = self.apply(&blind.changes).await;
        if needs_knowledge(answer.status) {
            return Ok(None);
        }
        check(answer)?;
        let version = if blind.exists { answer.version } else { 0 };
        let results = vec![nacre_object::OpResult::Done; self.request.ops.len()];
        Ok(Some(Reply { version, results }))
    }

    /// Runs it with knowledge of the object.
    pub async fn run(&self) -> Result<Reply> {
        for _ in 0..MAX_ATTEMPTS {
            if let Attempt::Replied(reply) = self.attempt().await? {
                return Ok(reply);
            }
        }
        Err(Error::unavailable(format!("others changed the object {MAX_ATTEMPTS} times meanwhile"))
            .hint("nothing was changed; try again"))
    }

    async fn attempt(&self) -> Result<Attempt> {
        let mut image = Image::default();
        let (mut wanted, mut later) = plan(&self.request.ops);
        for round in 0..MAX_FETCHES {
            let version = (round > 0).then_some(image.version);
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
            let mut draft = Draft::new(&image);
            let results = run_transaction(&self.request.ops, &mut draft, self.classes, &self.call);
            match draft.finish() {
                Outcome::Lacks(fetches) => wanted = later.extend(fetches),
                Outcome::Done { changes, exists } => {
                    return self.commit(&image, results?, changes, exists).await;
                }
            }
        }
        Err(Error::exhausted(format!(
            "the transaction looked at {MAX_FETCHES} parts of the object"
        ))
        .hint("read less of it at a time"))
    }

    async fn commit(
        &self,
        image: &Image,
        results: Vec<nacre_object::OpResult>,
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

    async fn fetch(
        &self,
        version: Option<u64>,
        fetches: &[Fetch],
    ) -> (Answer, Vec<crate::ffi::Fetched>) {
        let name = self.request.header.object.name.as_str();
        self.context.fetch(name, version, fetches.to_vec()).await
    }

    async fn apply(&self, changes: &[Change]) -> Answer {
        self.context.apply(self.request.header.object.name.as_str(), changes).await
    }
}

fn check(answer: Answer) -> Result<()> {
    if answer.status < 0 { Err(operation_failed(answer.status)) } else { Ok(()) }
}
