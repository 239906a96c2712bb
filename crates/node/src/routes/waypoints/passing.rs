//! Takes an IO through a waypoint: to the waypoint, back to the switch as IO of its layer, and the
//! reply back to the first IO.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nacre_object::{
    Error, ErrorKind, LayerName, Op, OpResult, ProgramName, Reply, Request, Result, Stack, Store,
};
use nacre_route::limits::{MAX_WAYPOINTS_OF_AN_IO, WAYPOINT_RUN_BYTES};
use nacre_route::{
    Answered, Coded, CodedOp, Content, MARK_ATTRIBUTE, Mark, Outcome, Span, WaypointProgram,
    WaypointWay as Way, code,
};

use super::refusals::needs_object;
use crate::routes::NodeSwitch;
use crate::routes::pieces::PieceWork;
use crate::routes::submission::Origin;
use crate::routes::versions::with_ops;

/// How often the mark of an object is looked at again because others change the object.
const ATTEMPTS: usize = 16;

/// A waypoint that re-encodes, for one IO.
pub(super) struct Coder {
    layer: LayerName,
    program: Arc<WaypointProgram>,
    pub own: Mark,
}

/// What takes the place of a request.
struct Sent {
    ops: Vec<Op>,
    /// What the client gets for each op.
    answered: Vec<Answered>,
    /// Whether it writes encoded bytes.
    writes_encoded: bool,
}

/// An object as it is stored.
struct Stored {
    content: Content,
    /// Its version; `None` if it does not exist.
    version: Option<u64>,
}

impl Coder {
    pub fn of(layer: &LayerName, program: Arc<WaypointProgram>) -> Result<Self> {
        let own = program.mark(&ProgramName::new(layer.as_str())?);
        Ok(Self { layer: layer.clone(), program, own })
    }

    async fn encoded(&self, offset: u64, data: &Bytes) -> Result<Bytes> {
        self.in_runs(offset, data, WaypointProgram::encode).await
    }

    async fn decoded(&self, offset: u64, data: &Bytes) -> Result<Bytes> {
        self.in_runs(offset, data, WaypointProgram::decode).await
    }

    /// Lets other tasks run after each run of the program.
    async fn in_runs(
        &self,
        offset: u64,
        data: &Bytes,
        run: impl Fn(&WaypointProgram, u64, &[u8]) -> Result<Bytes>,
    ) -> Result<Bytes> {
        let mut all = BytesMut::with_capacity(data.len());
        for part in data.chunks(WAYPOINT_RUN_BYTES) {
            all.extend_from_slice(&run(&self.program, offset + all.len() as u64, part)?);
            if data.len() > WAYPOINT_RUN_BYTES {
                tokio::task::yield_now().await;
            }
        }
        Ok(all.freeze())
    }

    /// Encodes the data of ops.
    async fn sent(&self, coded: Vec<CodedOp>) -> Result<Sent> {
        let (mut ops, mut answered) = (vec![], vec![]);
        let writes_encoded = coded.iter().any(|one| one.encode_at.is_some());
        for one in coded {
            answered.push(one.answered);
            ops.push(match (one.op, one.encode_at) {
                (Op::Write { offset, data }, Some(at)) => {
                    Op::Write { offset, data: self.encoded(at, &data).await? }
                }
                (Op::WriteFull { data }, Some(at)) => {
                    Op::WriteFull { data: self.encoded(at, &data).await? }
                }
                (op, _) => op,
            });
        }
        Ok(Sent { ops, answered, writes_encoded })
    }

    /// The reply that the client gets.
    async fn reply(&self, reply: Reply, answered: Vec<Answered>) -> Result<Reply> {
        let mut results = vec![];
        for (result, answered) in reply.results.into_iter().zip(answered) {
            match (answered, result) {
                (Answered::AsItIs, result) => results.push(result),
                (Answered::Decoded(offset), OpResult::Data(data)) => {
                    results.push(OpResult::Data(self.decoded(offset, &data).await?));
                }
                (Answered::Decoded(_), result) => results.push(result),
                (Answered::Offset(offset), _) => results.push(OpResult::Offset(offset)),
                (Answered::Dropped, _) => {}
            }
        }
        Ok(Reply { version: reply.version, results })
    }
}

impl NodeSwitch {
    /// Sends a piece of an IO through a waypoint.
    pub(in crate::routes) async fn pass_waypoint(
        self: &Arc<Self>,
        work: PieceWork,
        layer: &LayerName,
    ) -> (Outcome, Result<Reply>) {
        let reply = self.passed(&work, layer).await;
        (if reply.is_ok() { Outcome::Done } else { Outcome::Failed }, reply)
    }

    async fn passed(self: &Arc<Self>, work: &PieceWork, layer: &LayerName) -> Result<Reply> {
        let waypoints = self.programs().waypoints();
        let program = waypoints.until_live(layer).await?;
        let refused = |error: &Error| waypoints.note_refused(layer, program.version(), error);
        check_order(work, layer, &program).inspect_err(refused)?;
        if !program.kind().encodes {
            waypoints.note_passed(layer);
            let ops = work.ops.of(&work.request).to_vec();
            return self.returned(work, layer, with_ops(&work.request.header, ops)?).await;
        }
        let coder = Coder::of(layer, Arc::clone(&program))?;
        let coded = self.coded(work, &coder).await.inspect_err(|error| {
            if !super::refusals::is_needs_object(error) {
                refused(error);
            }
        })?;
        waypoints.note_passed(layer);
        self.send_coded(work, &coder, coded).await
    }

    /// The ops that take the place of those of the client.
    async fn coded(self: &Arc<Self>, work: &PieceWork, coder: &Coder) -> Result<Sent> {
        let ops = work.ops.of(&work.request);
        let object = &work.request.header.object;
        let way = if work.homeward.is_some() { Way::Alone } else { Way::Shared };
        for _ in 0..ATTEMPTS {
            let known = match way {
                Way::Shared => self.programs().waypoints().contents().get(object, &coder.own),
                // The end must be certain.
                Way::Alone => None,
            };
            let stored = match known {
                Some(content) => Stored { content, version: None },
                None => self.stored(work, coder).await?,
            };
            match code(&coder.own, stored.content, ops, way).map_err(|error| error.on(object))? {
                Coded::Ops(coded) => return coder.sent(coded).await,
                Coded::NeedsObject => return Err(needs_object()),
                Coded::NeedsMark => self.set_mark(work, coder, stored.version).await?,
            }
        }
        Err(Error::conflict("others change this object all the time").on(object).hint("try again"))
    }

    /// Looks at the object.
    async fn stored(&self, work: &PieceWork, coder: &Coder) -> Result<Stored> {
        let object = &work.request.header.object;
        // Read this first: bytes that come home meanwhile are counted by the home's own `stat`.
        let routed_end = self.core().routed_end(object);
        let look = with_ops(&work.request.header, vec![Op::Stat, Op::GetAttributes])?;
        let (size, mark, version) = match work.next.submit(look).await {
            Ok(reply) => {
                let (mut size, mut mark) = (0, None);
                for result in reply.results {
                    match result {
                        OpResult::Stat(stat) => size = stat.size,
                        OpResult::Attributes(all) => mark = mark_in(&all)?,
                        _ => {}
                    }
                }
                (size, mark, Some(reply.version))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (0, None, None),
            Err(error) => return Err(error),
        };
        let content = Content::of(&coder.own, mark, size.max(routed_end));
        self.programs().waypoints().contents().note(object, &coder.own, &content);
        Ok(Stored { content, version })
    }

    /// Marks an object without bytes, unless others have changed it meanwhile.
    async fn set_mark(&self, work: &PieceWork, coder: &Coder, version: Option<u64>) -> Result<()> {
        let guard = version.map_or(Op::AssertAbsent, Op::AssertVersion);
        let name = MARK_ATTRIBUTE.to_owned();
        let mark = Op::SetAttribute { name, value: coder.own.encode() };
        let marked = work.next.submit(with_ops(&work.request.header, vec![guard, mark])?).await;
        match marked {
            Err(error) if is_overtaken(&error) => Ok(()),
            marked => marked.map(drop),
        }
    }

    /// Sends coded ops on, and decodes the reply.
    async fn send_coded(
        self: &Arc<Self>,
        work: &PieceWork,
        coder: &Coder,
        Sent { ops, answered, writes_encoded }: Sent,
    ) -> Result<Reply> {
        let object = &work.request.header.object;
        let contents = || self.programs().waypoints().contents();
        let is_alone = work.homeward.is_some();
        let is_encoded = answered.iter().any(|one| *one != Answered::AsItIs);
        let until = match ops.as_slice() {
            [Op::Write { offset, data }] if !is_alone && writes_encoded => {
                Some(offset + data.len() as u64)
            }
            _ => None,
        };
        let request = with_ops(&work.request.header, ops)?;
        let reply = self.returned(work, &coder.layer, request).await;
        // A request that has the object for itself forgets what is known when it changes the object.
        match until {
            _ if reply.is_err() => contents().forget(object),
            Some(until) => contents().grew(object, &coder.own, until),
            None => {}
        }
        let reply = reply?;
        if !is_encoded {
            return Ok(reply);
        }
        let waypoints = self.programs().waypoints();
        coder.reply(reply, answered).await.inspect_err(|error| {
            waypoints.note_refused(&coder.layer, coder.program.version(), error);
        })
    }

    /// Gives an IO back to the switch, as IO from the layer of the waypoint.
    async fn returned(
        self: &Arc<Self>,
        work: &PieceWork,
        layer: &LayerName,
        request: Request,
    ) -> Result<Reply> {
        let origin = Origin { via: Some(layer.clone()), passed: work.passed + 1 };
        self.run_from(origin, work.next.clone(), request, work.homeward).await
    }

    /// Runs a read of a snapshot. Snapshots do not change, so the pure switch need not see it. But if
    /// a re-encoding waypoint is on the way of the object's reads, it decodes the bytes.
    pub(in crate::routes) async fn read_snapshot(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
    ) -> Result<Reply> {
        if self.waypoints_of(&request.header.object).is_empty() {
            return next.submit(request).await;
        }
        self.until_installed().await;
        let Some(coder) = self.coder_of_reads(&request).await? else {
            return next.submit(request).await;
        };
        let look = with_ops(&request.header, vec![Op::GetAttributes])?;
        let mut looked = next.submit(look).await?;
        let mark = match looked.results.pop() {
            Some(OpResult::Attributes(all)) => mark_in(&all)?,
            _ => None,
        };
        // How many bytes there are does not matter to a read.
        let content = Content::of(&coder.own, mark, Span::WHOLE.end());
        let Coded::Ops(coded) = code(&coder.own, content, &request.ops, Way::Alone)? else {
            return Err(needs_object());
        };
        let Sent { ops, answered, .. } = coder.sent(coded).await?;
        let reply = next.submit(with_ops(&request.header, ops)?).await?;
        coder.reply(reply, answered).await
    }
}

/// Checks that an IO may pass this waypoint after those that it has passed.
fn check_order(work: &PieceWork, layer: &LayerName, program: &WaypointProgram) -> Result<()> {
    if work.passed >= MAX_WAYPOINTS_OF_AN_IO {
        let text = format!(
            "rules send this IO through more than {MAX_WAYPOINTS_OF_AN_IO} waypoints, perhaps in a loop"
        );
        return Err(Error::invalid(text)
            .on(&work.request.header.object)
            .hint("see its way: nacre route trace; and remove rules: nacre route rm APPLICATION"));
    }
    match program.kind().holds && work.passed > 0 {
        false => Ok(()),
        true => Err(Error::unsupported(format!(
            "the waypoint {layer} holds IO, so it must be the first that an IO passes"
        ))
        .on(&work.request.header.object)
        .hint("put the rule for it before the others")),
    }
}

fn mark_in(attributes: &[(String, Bytes)]) -> Result<Option<Mark>> {
    let mark = attributes.iter().find(|(name, _)| name == MARK_ATTRIBUTE);
    mark.map(|(_, value)| Mark::decode(value)).transpose()
}

/// Whether others have changed an object meanwhile.
fn is_overtaken(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Exists | ErrorKind::NotFound)
}
