//! The IO in flight at a switch, divided into pieces.

use std::collections::BTreeSet;

use nacre_object::ObjectId;

use super::waiting::{Arrival, conflict};
use super::{IoId, Placed, Stamp, Term};
use crate::fast_hash::FastHashMap;
use crate::model::{Destination, Header, Options, SourceMatch, Span, SwitchName, Touch};
use crate::plan::Piece;

/// The progress of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The switch has not sent it yet.
    Waiting,
    /// The switch has sent it.
    Out,
    /// It is done.
    Done,
    /// It failed.
    Failed,
}

/// A piece of an IO, with its destination and options.
#[derive(Debug, Clone)]
pub struct Sent {
    pub piece: Piece,
    pub destination: Option<Destination>,
    pub options: Options,
    /// Where reads of these bytes go once the piece is done.
    pub follows: Vec<Placed>,
    /// Whether all IO with this destination reaches the same endpoint, which keeps its order.
    pub has_fixed_endpoint: bool,
    pub progress: Progress,
}

impl Sent {
    /// Whether the piece has succeeded.
    pub fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    /// The runtime has chosen where the piece goes.
    pub fn went_to(&mut self, destination: &Destination) {
        for placed in &mut self.follows {
            placed.placement.destination = destination.clone();
        }
    }
}

/// The stage of an agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Peers are asked to hold IO on the bytes.
    Preparing,
    /// All peers hold IO, and the pieces are being written.
    Writing,
    /// The switch tells its peers where the bytes are now.
    Committing,
}

/// An agreement with other switches about one IO.
#[derive(Debug, Clone)]
pub struct Agreement {
    pub id: Stamp,
    pub spans: Vec<Span>,
    pub stage: Stage,
    /// The peers that have not answered yet.
    pub missing: BTreeSet<SwitchName>,
    /// How often a question got no answer.
    pub silences: u32,
}

/// An IO in flight.
#[derive(Debug, Clone)]
pub struct Flying {
    pub arrival: Arrival,
    pub term: Term,
    pub sent: Vec<Sent>,
    pub agreement: Option<Agreement>,
}

impl Flying {
    /// Whether it brings bytes home. Then no other IO on these bytes may be in flight.
    pub fn brings_home(&self) -> bool {
        self.arrival.homeward.is_some() && self.sent.iter().any(|sent| !sent.follows.is_empty())
    }

    /// If this IO succeeds, the switch notes where its bytes are, so that reads find them. This is
    /// the number of spans that it will note. It is constant while the IO is in flight.
    fn follows(&self) -> usize {
        self.sent.iter().map(|sent| sent.follows.len()).sum()
    }

    /// Its only destination; `None` if other IO to that destination cannot rely on the endpoint's
    /// order.
    pub fn way(&self) -> Option<&Option<Destination>> {
        match self.sent.as_slice() {
            [one] if one.has_fixed_endpoint && self.agreement.is_none() && !self.brings_home() => {
                Some(&one.destination)
            }
            _ => None,
        }
    }

    /// Whether the switch must keep the order of this IO and another one. It must if both touch the
    /// same bytes and one of them changes these bytes. If both go only to the same endpoint, the
    /// endpoint keeps their order.
    pub fn is_in_the_way_of(&self, touches: &[Touch], way: Option<&Option<Destination>>) -> bool {
        let same_way = way.is_some() && way == self.way();
        !same_way && conflict(&self.arrival.touches, touches)
    }

    /// Whether a header matches some part of this IO.
    pub fn matches(&self, header: &Header) -> bool {
        is_about(header, &self.arrival)
    }

    /// Whether every piece has succeeded or failed.
    pub fn is_settled(&self) -> bool {
        self.sent.iter().all(|sent| matches!(sent.progress, Progress::Done | Progress::Failed))
    }
}

/// Whether a header matches some part of an IO. A header for IO from a layer also matches IO that may
/// come out of that layer later: it is in flight from beginning to end.
pub fn is_about(header: &Header, arrival: &Arrival) -> bool {
    let io = |touch: &Touch| arrival.io_of(*touch);
    let is_for_layer = matches!(header.source, SourceMatch::Layer(_));
    let any_source = (is_for_layer && arrival.via.is_none())
        .then(|| Header { source: SourceMatch::Any, ..header.clone() });
    let header = any_source.as_ref().unwrap_or(header);
    arrival.touches.iter().any(|touch| header.matches(&io(touch)))
}

/// All IO in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    all: FastHashMap<IoId, Flying>,
    by_object: FastHashMap<ObjectId, BTreeSet<IoId>>,
    follows: usize,
}

impl InFlight {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// How many spans will have reads that follow them, if all IO in flight succeeds.
    pub fn follows(&self) -> usize {
        self.follows
    }

    pub fn insert(&mut self, flying: Flying) {
        self.follows += flying.follows();
        let (io, object) = (flying.arrival.io, flying.arrival.request.header.object.clone());
        self.by_object.entry(object).or_default().insert(io);
        self.all.insert(io, flying);
    }

    pub fn get(&self, io: IoId) -> Option<&Flying> {
        self.all.get(&io)
    }

    pub fn get_mut(&mut self, io: IoId) -> Option<&mut Flying> {
        self.all.get_mut(&io)
    }

    pub fn remove(&mut self, io: IoId) -> Option<Flying> {
        let flying = self.all.remove(&io)?;
        self.follows -= flying.follows();
        let object = &flying.arrival.request.header.object;
        if let Some(ios) = self.by_object.get_mut(object) {
            ios.remove(&io);
            if ios.is_empty() {
                self.by_object.remove(object);
            }
        }
        Some(flying)
    }

    /// In no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Flying> {
        self.all.values()
    }

    /// The IO in flight on an object.
    pub fn on(&self, object: &ObjectId) -> impl Iterator<Item = &Flying> {
        let ios = self.by_object.get(object).into_iter().flatten();
        ios.filter_map(|io| self.all.get(io))
    }

    /// The IO about which this agreement is.
    pub fn of_agreement(&self, id: &Stamp) -> Option<IoId> {
        let is_it = |flying: &&Flying| flying.agreement.as_ref().is_some_and(|own| own.id == *id);
        self.all.values().find(is_it).map(|flying| flying.arrival.io)
    }
}
