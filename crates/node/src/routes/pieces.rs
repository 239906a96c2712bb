//! Sends the pieces of an IO: to the home, or to the object that keeps routed bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{
    ApplicationName, Error, ErrorKind, IoHeader, NodeName, Op, OpResult, Reply, Request, Result,
    Stack, Store,
};
use nacre_route::{
    Destination, IoId, Outcome, PieceOps, Placement, RoutedDrop, RoutedWrite, Span, Stamp,
    SwitchName, outrun_by,
};
use tokio::time::{Instant, sleep};

use super::NodeSwitch;
use super::direct::settle_or_wait;
use super::routed_locations::RoutedLocation;
use super::service::{Question, ROUTE_SERVICE};
use super::switch_core::Doubt;

/// How long a piece of an IO waits for the node that keeps its bytes. A node can restart in that
/// time, and clients wait longer than this.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time for one request to another node.
const QUESTION_TIME: Duration = Duration::from_secs(10);
/// Between questions to a node that does not answer.
const REST: Duration = Duration::from_millis(50);
/// The most bytes that are brought home at once. Other IO on them waits meanwhile.
pub(super) const MOVED_BYTES: u64 = 1 << 20;

/// A piece that is to be sent.
pub(super) struct PieceWork {
    pub io: IoId,
    pub piece: usize,
    /// The request of the client.
    pub request: Arc<Request>,
    /// The layers to the object on this node.
    pub next: Stack,
    pub destination: Option<Destination>,
    pub ops: PieceOps,
    pub counter: u64,
    /// The bytes that are brought home first.
    pub homeward: Option<Span>,
    /// The place of the piece's bytes, if they are away from home.
    pub placed: Vec<Placement>,
    pub application: Option<ApplicationName>,
    /// How many waypoints the IO has passed.
    pub passed: usize,
}

impl PieceWork {
    /// Sends the piece. Returns the result, for the switch and for the client.
    pub async fn run(self, switch: &NodeSwitch) -> (Outcome, Result<Reply>) {
        match self.homeward {
            Some(span) => self.run_homeward(switch, span).await,
            None => {
                self.run_plain(switch).await.unwrap_or_else(|error| (Outcome::Failed, Err(error)))
            }
        }
    }

    /// Brings bytes home, and then runs the request there.
    async fn run_homeward(self, switch: &NodeSwitch, span: Span) -> (Outcome, Result<Reply>) {
        let object = self.request.header.object.clone();
        let brought = async {
            settle_doubts(switch, &self.request.header, span).await?;
            let placed = switch.core().table().placed(&object, span);
            for placement in &placed {
                self.bring_home(switch, placement).await?;
            }
            Ok(())
        };
        if let Err(error) = brought.await {
            return (Outcome::Failed, Err(error));
        }
        switch.core().homes.remove(&object);
        let ops = self.ops.of(&self.request).to_vec();
        let changes = ops.iter().any(Op::is_write);
        // The object may lose its bytes and its mark, whether a waypoint sees the request or not.
        let forget = || switch.programs().waypoints().forget(&object);
        if changes {
            forget();
        }
        let request = Request { header: self.request.header.clone(), ops };
        let reply = switch.run_with_snapshots(&self.next, request).await;
        if changes {
            forget();
        }
        // The bytes are home, even if the request failed there.
        (Outcome::Done, reply)
    }

    async fn bring_home(&self, switch: &NodeSwitch, placement: &Placement) -> Result<()> {
        let object = &self.request.header.object;
        let Some(place) = switch.locations().place(object, &placement.destination)? else {
            switch.core().switch.brought_home(object, placement.span);
            return Ok(());
        };
        let mut at = placement.span.start();
        while let Some(part) =
            Span::new(at, placement.span.end().min(at.saturating_add(MOVED_BYTES)))
        {
            let data = self.read(switch, &place, part).await?;
            if data.len() as u64 != part.length() {
                let text =
                    format!("only {} of {} routed bytes are stored", data.len(), part.length());
                return Err(Error::corrupt(text)
                    .on(object)
                    .hint("`nacre scrub` lists damaged objects"));
            }
            let write = Op::Write { offset: part.start(), data };
            self.next.submit(self.request_of(vec![write])).await?;
            let doubt = Doubt {
                object: object.clone(),
                span: part,
                place: place.clone(),
                counter: switch.core().switch.counter(),
            };
            {
                let mut core = switch.core();
                // From here on the bytes at home are the newest.
                core.switch.brought_home(object, part);
                core.tally.brought_home(&placement.application, part.length());
            }
            drop_or_doubt(switch, &self.request.header, doubt).await?;
            at = part.end();
        }
        Ok(())
    }

    async fn run_plain(self, switch: &NodeSwitch) -> Result<(Outcome, Result<Reply>)> {
        let chosen = match &self.destination {
            Some(to) => switch.locations().choose(&self.request.header.object, to).await?,
            None => None,
        };
        let Some(chosen) = chosen else {
            return self.run_at(switch, self.destination.as_ref()).await;
        };
        let (outcome, reply) = self.run_at(switch, Some(&chosen)).await?;
        match outcome {
            Outcome::Done => Ok((Outcome::DoneAt(chosen), reply)),
            outcome => Ok((outcome, reply)),
        }
    }

    /// Runs the piece at a destination whose object is already chosen.
    async fn run_at(
        &self,
        switch: &NodeSwitch,
        destination: Option<&Destination>,
    ) -> Result<(Outcome, Result<Reply>)> {
        let object = &self.request.header.object;
        let place = destination.map_or(Ok(None), |to| switch.locations().place(object, to))?;
        let is_change = self.ops.of(&self.request).iter().any(Op::is_write);
        if is_change && switch.core().kept.about(object).is_some() {
            return self.keep_and_write(switch, place.is_some()).await;
        }
        let [op] = self.ops.of(&self.request) else {
            return Err(Error::unsupported("a piece of an IO is one read or write"));
        };
        match (place, op) {
            (Some(place), Op::Read { offset, length }) => {
                let span = Span::new(*offset, offset.saturating_add(*length));
                let span =
                    span.ok_or_else(|| Error::invalid("a read of no bytes is not routed"))?;
                settle_or_wait(switch, &self.request.header, span, &place).await;
                let data = self.read(switch, &place, span).await?;
                let version = self.version_for_read(switch).await?;
                let results = vec![OpResult::Data(data)];
                Ok((Outcome::Done, Ok(Reply { version, results })))
            }
            (Some(place), Op::Write { offset, data }) => {
                self.write_away(switch, place, *offset, data).await
            }
            (Some(_), _) => {
                Err(Error::unsupported(format!("a switch cannot route the op {}", op.name())))
            }
            (None, op) => {
                let is_write = op.is_write();
                let span = span_of(op).unwrap_or(Span::WHOLE);
                settle_doubts(switch, &self.request.header, span).await?;
                let mut reply =
                    self.next.submit(self.request_of(self.ops.of(&self.request).to_vec())).await;
                if !is_write || reply.is_err() {
                    let outcome = if reply.is_ok() { Outcome::Done } else { Outcome::Failed };
                    return Ok((outcome, reply));
                }
                // The bytes at home are the newest now, so those elsewhere must be dropped before
                // any answer.
                for placement in &self.placed {
                    let Some(place) = switch.locations().place(object, &placement.destination)?
                    else {
                        continue;
                    };
                    let (object, span) = (object.clone(), placement.span);
                    let doubt = Doubt { object, span, place, counter: self.counter };
                    if let Err(error) = drop_or_doubt(switch, &self.request.header, doubt).await {
                        reply = Err(error);
                    }
                }
                Ok((Outcome::Done, reply))
            }
        }
    }

    /// Runs a write that arrived before a rule kept snapshots of its object. All later ones bring
    /// the object's bytes home first.
    async fn keep_and_write(
        &self,
        switch: &NodeSwitch,
        goes_away: bool,
    ) -> Result<(Outcome, Result<Reply>)> {
        let object = &self.request.header.object;
        settle_doubts(switch, &self.request.header, Span::WHOLE).await?;
        if goes_away || switch.core().table().made_over(object, Span::WHOLE).is_some() {
            return Err(Error::unavailable("the rules about this object have just changed")
                .on(object)
                .hint("try again"));
        }
        let request = self.request_of(self.ops.of(&self.request).to_vec());
        let reply = switch.run_with_snapshots(&self.next, request).await;
        Ok((if reply.is_ok() { Outcome::Done } else { Outcome::Failed }, reply))
    }

    /// Sends a write elsewhere.
    async fn write_away(
        &self,
        switch: &NodeSwitch,
        place: RoutedLocation,
        offset: u64,
        data: &Bytes,
    ) -> Result<(Outcome, Result<Reply>)> {
        let object = &self.request.header.object;
        let span = Span::new(offset, offset.saturating_add(data.len() as u64));
        let span =
            span.ok_or_else(|| Error::invalid("the write would end past the largest offset"))?;
        let version = self.home_version(switch).await?;
        // A doubt about the same place is harmless: the later write to that place ends it.
        settle_doubts_elsewhere(switch, &self.request.header, span, &place).await?;
        let application = self.application.clone();
        let write = RoutedWrite {
            home: object.clone(),
            application: application.unwrap_or(ApplicationName::new("unknown")?),
            counter: self.counter,
            offset,
            data: data.clone(),
        };
        let question = Question::new(switch, &self.request.header, &place, None, write.encode());
        let answer = match ask(switch, &place.node, "write", question).await {
            Ok(answer) => answer,
            Err(error) => {
                if error.kind() == ErrorKind::Unavailable {
                    self.doubt_write(switch, span, &place);
                }
                return Err(error);
            }
        };
        if let Some(counter) = outrun_by(answer)? {
            let stamp = Stamp { counter, switch: SwitchName::new(switch.name().as_str())? };
            let late = Err(Error::conflict("a newer change of these bytes is stored already"));
            return Ok((Outcome::Outrun(stamp), late));
        }
        // Bytes at another place are older now.
        for placement in &self.placed {
            let other = switch.locations().place(object, &placement.destination)?;
            let Some(other) = other.filter(|other| *other != place) else { continue };
            let (object, span) = (object.clone(), placement.span);
            let doubt = Doubt { object, span, place: other, counter: self.counter };
            if let Err(error) = drop_or_doubt(switch, &self.request.header, doubt).await {
                return Ok((Outcome::Done, Err(error)));
            }
        }
        let is_push = switch.core().is_push(self.io);
        match is_push {
            true => self.free_home(switch, span).await,
            false => switch.tell_change(object),
        }
        Ok((Outcome::Done, Ok(Reply { version, results: vec![OpResult::Done] })))
    }

    /// Frees the space of bytes at home that are durable elsewhere. If this fails, the space is not free.
    async fn free_home(&self, switch: &NodeSwitch, span: Span) {
        let zero = Op::Zero { offset: span.start(), length: span.length() };
        let _ = self.next.submit(self.request_of(vec![zero])).await;
        switch.core().homes.remove(&self.request.header.object);
    }

    /// Notes that a write may have arrived where reads of its bytes do not look.
    fn doubt_write(&self, switch: &NodeSwitch, span: Span, place: &RoutedLocation) {
        let object = &self.request.header.object;
        let is_there = |placement: &&Placement| {
            let to = switch.locations().place(object, &placement.destination);
            to.is_ok_and(|to| to.as_ref() == Some(place))
        };
        let mut core = switch.core();
        let mut at = span.start();
        let known = self.placed.iter().filter(is_there).map(|placement| placement.span);
        let ends = known.chain(Span::new(span.end(), Span::END));
        for known in ends {
            if let Some(gap) = Span::new(at, known.start().min(span.end())) {
                core.doubts.push(Doubt {
                    object: object.clone(),
                    span: gap,
                    place: place.clone(),
                    counter: self.counter,
                });
            }
            at = at.max(known.end());
        }
    }

    /// Creates the object on the node that holds it (its home) if it is missing, so that it is
    /// listed and can be removed. Returns its version.
    async fn home_version(&self, switch: &NodeSwitch) -> Result<u64> {
        match self.look_home(switch).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let create = Op::Create { exclusive: false };
                let version = self.next.submit(self.request_of(vec![create])).await?.version;
                switch.core().homes.insert(self.request.header.object.clone(), version);
                Ok(version)
            }
            looked => looked,
        }
    }

    /// The version of the object at home, for the reply to a read of bytes elsewhere.
    async fn version_for_read(&self, switch: &NodeSwitch) -> Result<u64> {
        match self.look_home(switch).await {
            // It was removed at home just now.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(1),
            looked => looked,
        }
    }

    /// The version of the object at home.
    async fn look_home(&self, switch: &NodeSwitch) -> Result<u64> {
        let object = &self.request.header.object;
        // The lock must not be held while the object is looked at.
        let known = switch.core().homes.get(object);
        if let Some(version) = known {
            return Ok(version);
        }
        let version = self.next.submit(self.request_of(vec![Op::Stat])).await?.version;
        switch.core().homes.insert(object.clone(), version);
        Ok(version)
    }

    async fn read(&self, switch: &NodeSwitch, place: &RoutedLocation, span: Span) -> Result<Bytes> {
        let question = Question::new(switch, &self.request.header, place, Some(span), Bytes::new());
        ask(switch, &place.node, "read", question).await
    }

    /// A request on the present state of the object.
    fn request_of(&self, ops: Vec<Op>) -> Request {
        let header = IoHeader { snapshot: None, ..self.request.header.clone() };
        Request { header, ops }
    }
}

/// The bytes of a read or write.
pub(super) fn span_of(op: &Op) -> Option<Span> {
    match op {
        Op::Read { offset, length } => Span::new(*offset, offset.saturating_add(*length)),
        Op::Write { offset, data } => Span::new(*offset, offset.saturating_add(data.len() as u64)),
        _ => None,
    }
}

/// Asks a node, and repeats the question while the node does not answer.
pub(super) async fn ask(
    switch: &NodeSwitch,
    node: &NodeName,
    method: &'static str,
    question: Question,
) -> Result<Bytes> {
    let is_own = switch.locations().rados().is_some();
    let input = if is_own { Bytes::new() } else { question.encode()? };
    let until = Instant::now() + PATIENCE;
    loop {
        let asked = match is_own {
            // Ceph keeps the object, so this node reaches it as any other.
            true => switch.serve_kept(method, &question).await,
            false => {
                let transport = switch.transport()?;
                transport.ask(node, ROUTE_SERVICE, method, input.clone(), QUESTION_TIME).await
            }
        };
        match asked {
            Err(error) if error.kind() == ErrorKind::Unavailable && Instant::now() < until => {
                sleep(REST).await;
            }
            answer => return answer,
        }
    }
}

/// Drops bytes that a node may keep although newer bytes are elsewhere. If the drop fails, records
/// a [`Doubt`], so that it is repeated before other IO on these bytes.
async fn drop_or_doubt(switch: &NodeSwitch, header: &IoHeader, doubt: Doubt) -> Result<()> {
    let dropped = drop_at(switch, header, &doubt).await;
    if dropped.is_err() {
        switch.core().doubts.push(doubt);
    }
    dropped
}

async fn drop_at(switch: &NodeSwitch, header: &IoHeader, doubt: &Doubt) -> Result<()> {
    let drop = RoutedDrop { span: doubt.span, counter: doubt.counter };
    let question = Question::new(switch, header, &doubt.place, None, drop.encode());
    ask(switch, &doubt.place.node, "drop", question).await.map(|_| ())
}

/// Ends the doubts about some bytes.
async fn settle_doubts(switch: &NodeSwitch, header: &IoHeader, span: Span) -> Result<()> {
    settle(switch, header, |doubt| doubt.span.overlaps(span)).await
}

pub(super) async fn settle_doubts_elsewhere(
    switch: &NodeSwitch,
    header: &IoHeader,
    span: Span,
    place: &RoutedLocation,
) -> Result<()> {
    settle(switch, header, |doubt| doubt.span.overlaps(span) && doubt.place != *place).await
}

async fn settle(
    switch: &NodeSwitch,
    header: &IoHeader,
    is_meant: impl Fn(&Doubt) -> bool,
) -> Result<()> {
    let of_object = |doubt: &&Doubt| doubt.object == header.object && is_meant(doubt);
    let doubts: Vec<_> = switch.core().doubts.iter().filter(of_object).cloned().collect();
    for doubt in doubts {
        drop_at(switch, header, &doubt).await?;
        switch.core().doubts.retain(|other| *other != doubt);
    }
    Ok(())
}
