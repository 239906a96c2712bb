//! IO whose pieces are under way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use nacre_object::ObjectId;

use super::waiting::{Arrival, conflict};
use super::{IoId, Placed, Stamp, Term};
use crate::model::{Ask, Destination, Header, Io, Options, Span, SwitchName, Touch};
use crate::plan::Piece;

/// How far a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It was not sent yet.
    Waiting,
    /// The controller is asked, and answers until then.
    Asked(Duration),
    /// It is under way.
    Out,
    /// It is done.
    Done,
    /// It failed.
    Failed,
}

/// A piece and what its rule says.
#[derive(Debug, Clone)]
pub struct Sent {
    pub piece: Piece,
    pub destination: Option<Destination>,
    pub options: Options,
    /// Reads of these bytes follow the piece when it is done.
    pub follows: Vec<Placed>,
    pub progress: Progress,
}

impl Sent {
    /// Whether it has happened.
    pub fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    /// What the controller is to be asked, if it is.
    pub fn asks(&self) -> Option<Ask> {
        match self.destination {
            Some(Destination::Controller(ask)) => Some(ask),
            _ => None,
        }
    }
}

/// How far an agreement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Peers are asked to hold IO.
    Preparing,
    /// All of them do, and the pieces are under way.
    Writing,
    /// Peers are told the new places.
    Committing,
}

/// An agreement with other switches about one IO.
#[derive(Debug, Clone)]
pub struct Agreement {
    pub id: Stamp,
    pub spans: Vec<Span>,
    pub stage: Stage,
    /// Peers that have not answered yet.
    pub missing: BTreeSet<SwitchName>,
    /// How often a peer was silent.
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
    /// Whether it moves bytes, so that no other IO on them may be in flight.
    pub fn brings_home(&self) -> bool {
        self.arrival.homeward.is_some() && self.sent.iter().any(|sent| !sent.follows.is_empty())
    }

    /// Whether it goes one way, and which.
    fn way(&self) -> Option<&Option<Destination>> {
        match self.sent.as_slice() {
            [one] if self.agreement.is_none() && !self.brings_home() => Some(&one.destination),
            _ => None,
        }
    }

    /// Whether the switch must keep the order of this IO and another one. It must if both touch the
    /// same bytes and one of them changes the bytes. If both go to the same endpoint, the endpoint
    /// orders them instead.
    pub fn is_in_the_way_of(&self, touches: &[Touch], way: Option<&Option<Destination>>) -> bool {
        let same_way = way.is_some() && way == self.way();
        !same_way && conflict(&self.arrival.touches, touches)
    }

    /// Whether a header is about some of it.
    pub fn matches(&self, header: &Header) -> bool {
        is_about(header, &self.arrival)
    }

    /// Whether every piece has come to its end.
    pub fn is_settled(&self) -> bool {
        self.sent.iter().all(|sent| matches!(sent.progress, Progress::Done | Progress::Failed))
    }
}

/// Whether a header is about some of an IO.
pub fn is_about(header: &Header, arrival: &Arrival) -> bool {
    let io = |touch: &Touch| Io::of(&arrival.request.header, arrival.via.clone(), *touch);
    arrival.touches.iter().any(|touch| header.matches(&io(touch)))
}

/// All IO in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    all: BTreeMap<IoId, Flying>,
    by_object: HashMap<ObjectId, BTreeSet<IoId>>,
}

impl InFlight {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn insert(&mut self, flying: Flying) {
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
        let object = &flying.arrival.request.header.object;
        if let Some(ios) = self.by_object.get_mut(object) {
            ios.remove(&io);
            if ios.is_empty() {
                self.by_object.remove(object);
            }
        }
        Some(flying)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flying> {
        self.all.values()
    }

    /// What is in flight on one object.
    pub fn on(&self, object: &ObjectId) -> impl Iterator<Item = &Flying> {
        let ios = self.by_object.get(object).into_iter().flatten();
        ios.filter_map(|io| self.all.get(io))
    }

    /// The IO of an agreement.
    pub fn of_agreement(&self, id: &Stamp) -> Option<IoId> {
        let is_it = |flying: &&Flying| flying.agreement.as_ref().is_some_and(|own| own.id == *id);
        self.all.values().find(is_it).map(|flying| flying.arrival.io)
    }
}
