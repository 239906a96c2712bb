//! Goes over the objects that are or may be erasure-coded, as background work. It codes those that have not
//! changed for a while. It brings home those that no rule names any more, and those that have lost a
//! fragment; these are coded again in a later pass.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nacre_object::{Error, ErrorKind, IoHeader, ObjectId, ObjectStat, Op, OpResult, Result, Store};
use nacre_route::limits::MIN_ERASURE_BYTES;
use nacre_route::{
    CopyTag, ERASURE_ATTRIBUTE, Erasure, ErasureStub, ObjectMatch, Span, Stripes, Term,
};
use tokio::time::{Instant, sleep};

use super::audit::Audited;
use super::fragments::{Fragments, interrupted};
use super::{CodedObject, ErasureStatus, Rules, rule_among};
use crate::routes::NodeSwitch;
use crate::routes::background::background;
use crate::routes::versions::with_ops;

/// Between looks for rules.
const REST: Duration = Duration::from_millis(500);
/// Between two passes under the same rules.
const PASS_REST: Duration = Duration::from_secs(10);
/// An object is coded when it has not changed for this time.
const QUIET: Duration = Duration::from_secs(5);
/// Between two audits. They find fragments that were lost with a disk.
const AUDIT_REST: Duration = Duration::from_secs(600);
/// Between audits while fragments may be left that belong to no object.
const LEFTOVER_REST: Duration = Duration::from_secs(15);

/// What a pass has found.
#[derive(Debug, Default)]
struct Pass {
    audited: Audited,
    /// The rules by which objects are coded.
    rules: Arc<Rules>,
    objects: u64,
    bytes: u64,
    fragment_bytes: u64,
    /// Whether an object without a rule may still be coded.
    is_unsettled: bool,
    /// Whether a target did not store a fragment. The rest of the pass codes nothing.
    codes_no_more: bool,
    problem: Option<String>,
}

/// When the node last compared fragments with notes.
#[derive(Debug, Default)]
struct Audits {
    ended: Option<Instant>,
    succeeded: Option<Instant>,
}

/// Codes objects until the task is aborted.
pub(in crate::routes) async fn run(switch: Arc<NodeSwitch>) {
    let (mut passed, mut audits) = (None::<(u64, Instant)>, Audits::default());
    loop {
        sleep(REST).await;
        let term = switch.term();
        if term == 0 {
            continue;
        }
        let objects = switch.concern().now().erasure_objects().to_vec();
        let audited = switch.audit_if_due(&mut audits, !objects.is_empty()).await;
        let is_new = passed.is_none_or(|(under, _)| under != term);
        let is_rested = passed.is_none_or(|(_, at)| at.elapsed() >= PASS_REST);
        if !is_new && !is_rested && audited.is_none() {
            continue;
        }
        let (audited, rules) = (audited.unwrap_or_default(), switch.erasures().rules());
        if !objects.is_empty() {
            switch.erasures().until_earlier_are_done().await;
        }
        let mut pass = Pass { audited, rules, ..Pass::default() };
        for objects in &objects {
            // Objects that could not be listed are listed in the next pass.
            if let Err(error) = switch.pass_over(objects, &mut pass).await {
                pass.failed(&error);
            }
        }
        // Under the rules of this term, nothing is left behind when a rule is forgotten.
        pass.is_unsettled |= !objects.is_empty() && audits.succeeded.is_none();
        switch.note_pass(term, pass);
        passed = Some((term, Instant::now()));
    }
}

impl NodeSwitch {
    /// Compares fragments with notes if it is time to, and returns what it has found.
    async fn audit_if_due(
        self: &Arc<Self>,
        audits: &mut Audits,
        has_objects: bool,
    ) -> Option<Audited> {
        let erasures = self.erasures();
        let has_rested = |rest| audits.ended.is_none_or(|at: Instant| at.elapsed() >= rest);
        let wants = erasures.wants_audit.load(Ordering::Relaxed) && has_rested(LEFTOVER_REST);
        let is_due = audits.succeeded.is_none_or(|at| at.elapsed() >= AUDIT_REST);
        if !(wants || has_objects && is_due && has_rested(LEFTOVER_REST)) {
            return None;
        }
        erasures.wants_audit.store(false, Ordering::Relaxed);
        let (found, ended) = self.audit().await;
        audits.ended = Some(Instant::now());
        match ended {
            Ok(()) => audits.succeeded = audits.ended,
            Err(_) => erasures.note_leftover(),
        }
        Some(found)
    }

    fn note_pass(&self, term: u64, pass: Pass) {
        let Pass { objects, bytes, fragment_bytes, is_unsettled, problem, .. } = pass;
        let erasures = self.erasures();
        erasures.count(|status| {
            let before = std::mem::take(status);
            *status = ErasureStatus { objects, bytes, fragment_bytes, problem, ..before };
        });
        let is_dropped = !erasures.wants_audit.load(Ordering::Relaxed)
            && erasures.dropping.load(Ordering::Relaxed) == 0;
        if !is_unsettled && is_dropped {
            erasures.settled_term.store(term, Ordering::Relaxed);
        }
    }

    async fn pass_over(self: &Arc<Self>, objects: &ObjectMatch, pass: &mut Pass) -> Result<()> {
        let mut after = None;
        loop {
            let (page, next) = self.page_of(objects, after).await?;
            for object in page {
                // The next pass tries again.
                if let Err(error) = self.look_at_object(&object, pass).await {
                    self.erasures().count(|status| status.failed += 1);
                    pass.failed(&error.on(&object));
                }
            }
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Codes an object, brings it home, or leaves it as it is.
    async fn look_at_object(self: &Arc<Self>, object: &ObjectId, pass: &mut Pass) -> Result<()> {
        let header = background(object.clone(), Op::Stat)?.header;
        let rule = rule_among(&pass.rules, object).filter(|_| !self.has_other_rules(object));
        let Some(CodedObject { stub, .. }) = self.coded_object(&header).await? else {
            return match rule {
                Some(rule) => self.code_if_quiet(&header, &rule, pass).await,
                None => Ok(()),
            };
        };
        if self.has_lost_fragments(&header, &stub, &pass.audited) {
            self.erasures().note_damaged(object);
        }
        let is_as_ruled = rule.is_some_and(|rule| stub.fits(&rule));
        if is_as_ruled && !self.erasures().is_damaged(object) {
            pass.count(&stub);
            return Ok(());
        }
        let brought = self.bring_coded_home(&header).await;
        if brought.is_err() {
            pass.count(&stub);
        }
        brought
    }

    fn has_other_rules(&self, object: &ObjectId) -> bool {
        self.concern().now().is_ruled_besides_erasure(object)
    }

    /// The `stat` of an object that has not changed for a while, has no snapshots and is large enough.
    async fn quiet(&self, header: &IoHeader) -> Result<Option<ObjectStat>> {
        if nacre::staged_object(&header.object.name).is_some() {
            return Ok(None);
        }
        let looked = with_ops(header, vec![Op::Stat, Op::SnapshotList])?;
        let results = self.base().submit(looked).await?.results;
        let [OpResult::Stat(stat), OpResult::Snapshots(snapshots)] = &results[..] else {
            return Err(Error::corrupt("the reply to a stat has no stat").on(&header.object));
        };
        let rested = self.now_micros().saturating_sub(stat.modified_micros);
        let is_quiet = rested >= QUIET.as_micros() as u64;
        let is_meant = is_quiet && snapshots.is_empty() && stat.size >= MIN_ERASURE_BYTES;
        Ok(is_meant.then_some(*stat))
    }

    async fn code_if_quiet(
        self: &Arc<Self>,
        header: &IoHeader,
        rule: &Erasure,
        pass: &mut Pass,
    ) -> Result<()> {
        if pass.codes_no_more {
            return Ok(());
        }
        let Some(stat) = self.quiet(header).await? else { return Ok(()) };
        let locations = self.locations().of_nodes()?;
        let places = rule.among.iter().map(|target| locations.fragment_place(target));
        let stub = ErasureStub {
            needed: rule.needed,
            size: stat.size,
            set: CopyTag { term: Term(self.term()), number: self.random() },
            places: places.collect::<Result<_>>()?,
        };
        let fragments = Fragments { switch: self, header, stub: &stub };
        let coded = match self.write_fragments(&fragments).await {
            Ok(()) => self.replace_bytes(header, rule, &stat, &stub).await,
            Err(error) => {
                pass.codes_no_more |= error.kind() == ErrorKind::Unavailable;
                Err(error)
            }
        };
        let Err(error) = coded else {
            self.erasures().count(|status| status.coded += 1);
            pass.audited.note_made(stub.set.number);
            pass.count(&stub);
            return Ok(());
        };
        // An error does not always mean that the object has no note of these fragments.
        match self.is_left_over(&header.object, stub.set.number).await {
            Ok(true) => self.drop_fragments(header.clone(), stub),
            _ => self.erasures().note_leftover(),
        }
        // If it has changed meanwhile, a later pass codes it.
        if error.kind() == ErrorKind::Conflict { Ok(()) } else { Err(error) }
    }

    async fn write_fragments(&self, fragments: &Fragments<'_>) -> Result<()> {
        let code = fragments.code();
        for (number, stripes) in code.stripes.writes().enumerate() {
            let Some(span) = code.stripes.span(stripes.clone()) else { continue };
            let bytes = self.read_home(fragments.header, span).await?;
            let units = stripes.clone();
            let coded = tokio::task::spawn_blocking(move || code.encode(stripes, &bytes)).await;
            let offset = code.stripes.units(units).start;
            fragments.write(number as u64, offset, coded.map_err(interrupted)??).await?;
        }
        Ok(())
    }

    /// Bytes of an object at home.
    async fn read_home(&self, header: &IoHeader, span: Span) -> Result<bytes::Bytes> {
        const PIECE_BYTES: u64 = 1 << 20;
        let mut bytes = bytes::BytesMut::new();
        let mut at = span.start();
        while at < span.end() {
            let length = PIECE_BYTES.min(span.end() - at);
            let read = with_ops(header, vec![Op::Read { offset: at, length }])?;
            match self.base().submit(read).await?.results.into_iter().next() {
                Some(OpResult::Data(data)) if data.len() as u64 == length => {
                    bytes.extend_from_slice(&data);
                }
                _ => return Err(changed(&header.object)),
            }
            at += length;
        }
        Ok(bytes.freeze())
    }

    /// Replaces the bytes of an object by the note, unless the object or its rule has changed.
    async fn replace_bytes(
        &self,
        header: &IoHeader,
        rule: &Erasure,
        stat: &ObjectStat,
        stub: &ErasureStub,
    ) -> Result<()> {
        let object = &header.object;
        let _turn = self.erasures().alone(object).await;
        let is_ruled = self.erasures().rule_of(object).as_ref() == Some(rule);
        if !is_ruled || self.has_other_rules(object) {
            return Err(changed(object));
        }
        self.erasures().forget(object);
        let ops = vec![
            Op::AssertVersion(stat.version),
            Op::Zero { offset: 0, length: stat.size },
            Op::SetAttribute { name: ERASURE_ATTRIBUTE.to_owned(), value: stub.encode() },
        ];
        self.base().submit(with_ops(header, ops)?).await.map(drop)
    }
}

impl Pass {
    /// An object is left as it was.
    fn failed(&mut self, error: &Error) {
        self.is_unsettled = true;
        self.problem.get_or_insert_with(|| error.to_string());
    }

    fn count(&mut self, stub: &ErasureStub) {
        self.objects += 1;
        self.bytes += stub.size;
        let fragment = Stripes::new(stub.needed, stub.size).fragment_bytes();
        self.fragment_bytes += fragment * stub.places.len() as u64;
    }
}

fn changed(object: &ObjectId) -> Error {
    Error::conflict("the object, or the rule about it, changed while its fragments were made")
        .on(object)
}
