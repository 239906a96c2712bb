//! The way of a request on an object that is or may be erasure-coded.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::future::FutureExt;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{Error, IoHeader, ObjectStat, Op, OpResult, Reply, Request, Result, Store};
use nacre_route::{ERASURE_ATTRIBUTE, ErasureStub, Span};

use super::CodedObject;
use super::fragments::Fragments;
use crate::completed::Completed;
use crate::routes::turns::Turn;
use crate::routes::versions::with_ops;
use crate::routes::{NodeSwitch, Onward};

/// The most bytes that are brought home at once.
const BROUGHT_BYTES: u64 = 4 << 20;

/// What a request on a coded object needs.
enum Need {
    /// What is at the home suffices.
    Home,
    /// Bytes, which fragments have.
    Bytes { offset: u64, length: u64 },
    /// The object's bytes at home.
    BytesAtHome,
    /// Nothing of the former bytes.
    NoBytes,
}

/// Whether an op neither reads bytes nor changes anything.
fn leaves_bytes(op: &Op) -> bool {
    is_guard(op)
        || matches!(
            op,
            Op::Stat
                | Op::GetAttribute { .. }
                | Op::GetAttributes
                | Op::MapGet { .. }
                | Op::MapRange { .. }
                | Op::MapGetHeader
                | Op::SnapshotList
        )
}

fn is_guard(op: &Op) -> bool {
    matches!(op, Op::AssertExists | Op::AssertAbsent | Op::AssertVersion(_))
}

/// Whether a guard refuses the request.
fn refuses(guard: &Op, stat: &ObjectStat) -> bool {
    match guard {
        Op::AssertVersion(version) => *version != stat.version,
        guard => matches!(guard, Op::AssertAbsent),
    }
}

/// Whether a request replaces the whole byte stream, and does nothing else.
fn replaces_bytes(ops: &[Op]) -> bool {
    matches!(ops, [Op::WriteFull { .. } | Op::WriteFullFrom { .. }])
}

/// Whether the home refuses a read because the reply would be too long.
fn is_too_long(length: u64, stub: &ErasureStub) -> bool {
    length.min(stub.size) > MAX_REPLY_BYTES as u64
}

impl NodeSwitch {
    /// Runs a request on an object that has rules, or whose bytes may lie elsewhere.
    pub(in crate::routes) async fn submit_here(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
    ) -> Result<Reply> {
        let outside = self.erasures().outside();
        if !self.may_be_erasure_coded(&request.header.object) {
            return self.submit_uncoded(onward, request, outside).await;
        }
        // The future of most requests stays small so.
        self.submit_coded(onward, request).boxed().await
    }

    async fn submit_coded(self: &Arc<Self>, onward: Onward, request: Request) -> Result<Reply> {
        let object = request.header.object.clone();
        loop {
            let turn = self.erasures().share(&object).await;
            let Some(coded) = self.coded_of(&request).await? else {
                return self.submit_in_turn(onward, request, turn, None).await;
            };
            match self.need(&request, &coded) {
                Need::Home => {
                    return self.submit_in_turn(onward, request, turn, Some(coded.stub)).await;
                }
                Need::Bytes { offset, length } => {
                    return self.read_coded(&request, &coded, offset, length).await;
                }
                Need::NoBytes => {
                    drop(turn);
                    return self.replace_coded(onward, request).await;
                }
                Need::BytesAtHome => drop(turn),
            }
            self.bring_coded_home(&request.header).await?;
        }
    }

    /// Refuses to keep the state of a coded object, which has no bytes. This happens only if the rules
    /// have changed since the request began.
    ///
    /// # Errors
    /// `Unavailable`; the errors of the store.
    pub(in crate::routes) async fn check_has_bytes(&self, header: &IoHeader) -> Result<()> {
        let object = &header.object;
        if !self.may_be_erasure_coded(object) || self.coded_object(header).await?.is_none() {
            return Ok(());
        }
        Err(Error::unavailable("the rules about this object have just changed")
            .on(object)
            .hint("try again"))
    }

    /// The note at the object of a request, if the request needs to know it.
    async fn coded_of(&self, request: &Request) -> Result<Option<CodedObject>> {
        let IoHeader { object, snapshot, .. } = &request.header;
        // Objects with snapshots of clients are not coded. A rule's snapshot may be the present state.
        let is_snapshot = snapshot.is_some() && !self.is_kept(object);
        if is_snapshot || self.erasures().is_known_uncoded(object) {
            return Ok(None);
        }
        let coded = self.coded_object(&request.header).await?;
        if coded.is_none() {
            self.erasures().note_uncoded(object);
        }
        Ok(coded)
    }

    fn need(&self, request: &Request, coded: &CodedObject) -> Need {
        let CodedObject { stat, stub } = coded;
        let ops = request.ops.as_slice();
        if ops.iter().all(leaves_bytes) {
            return Need::Home;
        }
        if self.concern().now().is_ruled_besides_erasure(&request.header.object) {
            return Need::BytesAtHome;
        }
        let (guards, ops) = ops.split_at(ops.iter().take_while(|op| is_guard(op)).count());
        if guards.iter().any(|guard| refuses(guard, stat)) {
            return Need::Home;
        }
        match ops {
            [Op::Remove] => Need::Home,
            [Op::Read { length, .. }] | [Op::Read { length, .. }, Op::Stat]
                if is_too_long(*length, stub) =>
            {
                Need::Home
            }
            [Op::Read { offset, length }] | [Op::Read { offset, length }, Op::Stat] => {
                Need::Bytes { offset: *offset, length: *length }
            }
            ops if guards.is_empty() && replaces_bytes(ops) => Need::NoBytes,
            _ => Need::BytesAtHome,
        }
    }

    /// Runs a request at the home. The turn ends with the request, even if the caller gives up. `stub` is
    /// the note at the object, if it has one.
    async fn submit_in_turn(
        self: &Arc<Self>,
        onward: Onward,
        request: Request,
        turn: Turn,
        stub: Option<ErasureStub>,
    ) -> Result<Reply> {
        let (switch, outside) = (Arc::clone(self), self.erasures().outside());
        Completed::of(async move {
            let removes = request.ops.contains(&Op::Remove);
            let header = request.header.clone();
            let reply = switch.submit_uncoded(onward, request, outside).await;
            if let Some(stub) = stub.filter(|_| removes && reply.is_ok()) {
                switch.drop_fragments(header, stub);
            }
            drop(turn);
            reply
        })
        .await
    }

    async fn read_coded(
        self: &Arc<Self>,
        request: &Request,
        coded: &CodedObject,
        offset: u64,
        length: u64,
    ) -> Result<Reply> {
        let CodedObject { stat, stub } = coded;
        let fragments = Fragments { switch: self, header: &request.header, stub };
        let end = offset.saturating_add(length).min(stub.size);
        let mut data = match Span::new(offset, end) {
            Some(span) => Some(fragments.read(span).await?),
            None => Some(Bytes::new()),
        };
        let result = |op: &Op| match op {
            Op::Read { .. } => OpResult::Data(data.take().unwrap_or_default()),
            Op::Stat => OpResult::Stat(*stat),
            _ => OpResult::Done,
        };
        let results = request.ops.iter().map(result).collect();
        Ok(Reply { version: stat.version, results })
    }

    /// Runs a request that replaces all bytes of a coded object.
    async fn replace_coded(self: &Arc<Self>, onward: Onward, request: Request) -> Result<Reply> {
        let switch = Arc::clone(self);
        Completed::of(async move {
            let header = request.header.clone();
            let turn = switch.erasures().alone(&header.object).await;
            let Some(CodedObject { stub, .. }) = switch.coded_object(&header).await? else {
                // It came home meanwhile.
                return switch.run(onward.usual, request, Some(Span::WHOLE)).await;
            };
            let mut ops = vec![Op::RemoveAttribute { name: ERASURE_ATTRIBUTE.to_owned() }];
            ops.extend(request.ops);
            let whole = with_ops(&header, ops)?;
            let mut reply = switch.run(onward.usual, whole, Some(Span::WHOLE)).await?;
            reply.results.remove(0);
            switch.drop_fragments(header, stub);
            drop(turn);
            Ok(reply)
        })
        .await
    }

    /// Brings the bytes of a coded object home, for a request with this header, even if the caller gives
    /// up. If that fails, the object still has its note and its fragments.
    ///
    /// # Errors
    /// Those of [`Fragments::read`] and of the store.
    pub(super) async fn bring_coded_home(self: &Arc<Self>, header: &IoHeader) -> Result<()> {
        let switch = Arc::clone(self);
        let header = IoHeader { snapshot: None, ..header.clone() };
        Completed::of(async move {
            let _turn = switch.erasures().alone(&header.object).await;
            let Some(CodedObject { stub, .. }) = switch.coded_object(&header).await? else {
                return Ok(());
            };
            let fragments = Fragments { switch: &switch, header: &header, stub: &stub };
            let mut at = 0;
            while let Some(span) = Span::new(at, stub.size.min(at.saturating_add(BROUGHT_BYTES))) {
                let data = fragments.read(span).await?;
                let ops = vec![Op::Write { offset: at, data }];
                switch.base().submit(with_ops(&header, ops)?).await?;
                at = span.end();
            }
            let ops = vec![Op::RemoveAttribute { name: ERASURE_ATTRIBUTE.to_owned() }];
            switch.base().submit(with_ops(&header, ops)?).await?;
            switch.erasures().count(|status| status.brought_home += 1);
            switch.drop_fragments(header, stub);
            Ok(())
        })
        .await
    }

    /// Drops the fragments of an object that has no note of them any more. No rule is forgotten
    /// meanwhile.
    pub(super) fn drop_fragments(self: &Arc<Self>, header: IoHeader, stub: ErasureStub) {
        let switch = Arc::clone(self);
        switch.erasures().no_damage(&header.object);
        switch.erasures().dropping.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let fragments = Fragments { switch: &switch, header: &header, stub: &stub };
            if !fragments.drop_all().await {
                switch.erasures().note_leftover();
            }
            switch.erasures().dropping.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
