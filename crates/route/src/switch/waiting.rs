//! The IO that a switch holds, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{ObjectId, Request, TargetName};

use super::waypoints::Admission;
use super::{IoId, ProgramDecision, Term};
use crate::fast_hash::FastHashMap;
use crate::model::{Io, LayerName, Span, Touch};

/// An IO that has arrived.
#[derive(Debug, Clone)]
pub struct Arrival {
    pub io: IoId,
    pub request: Arc<Request>,
    pub via: Option<LayerName>,
    /// The target that holds the object, if some rule names a single home.
    pub home: Option<TargetName>,
    /// The term under which another switch sent it here; `None` if it begins here.
    pub term: Option<Term>,
    /// The bytes to move back to the object first, if the IO goes to the object regardless of the
    /// rules.
    pub homeward: Option<Span>,
    /// The operations of the request and their bytes.
    pub touches: Vec<Touch>,
    /// How often an agreement about this IO has failed.
    pub attempts: u32,
    /// The questions to programs about this IO, if there were any.
    pub asked: Option<Asked>,
    /// What the controller has said about this IO, if a rule sends the IO there.
    pub controller: AskedController,
    /// What waypoints have said about this IO, if rules send the IO there.
    pub admission: Admission,
}

impl Arrival {
    /// An IO of a client that has just arrived.
    pub fn new(io: IoId, request: Arc<Request>, touches: Vec<Touch>) -> Self {
        Self {
            io,
            request,
            via: None,
            home: None,
            term: None,
            homeward: None,
            touches,
            attempts: 0,
            asked: None,
            controller: AskedController::No,
            admission: Admission::default(),
        }
    }

    /// The IO of one touch of the request.
    pub fn io_of(&self, touch: Touch) -> Io {
        Io::of(&self.request.header, self.via.clone(), self.home.clone(), touch)
    }
}

/// How far the question to the controller about one IO is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AskedController {
    /// There is no question.
    #[default]
    No,
    /// The IO fails if there are no rules about it by this time.
    Until(Duration),
    /// The controller has answered, and the switch has its rules.
    Answered,
}

/// The questions to programs about one IO.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The term whose rules name the programs.
    pub term: Term,
    /// Whether answers are missing.
    pub is_open: bool,
    /// The decisions so far.
    pub decided: Vec<ProgramDecision>,
}

/// Whether two IOs on one object touch the same bytes, and one of them changes these bytes.
pub fn conflict(a: &[Touch], b: &[Touch]) -> bool {
    let overlap = |a: &Touch, b: &Touch| match (a.span, b.span) {
        (Some(own), Some(other)) => own.overlaps(other),
        _ => false,
    };
    let is_change = |touch: &Touch| touch.operation.is_change();
    a.iter().any(|a| b.iter().any(|b| (is_change(a) || is_change(b)) && overlap(a, b)))
}

/// The held IO. IO on one object keeps its order.
#[derive(Debug, Default)]
pub struct Waiting {
    by_object: FastHashMap<ObjectId, VecDeque<(u64, Arrival)>>,
    count: usize,
    next: u64,
}

impl Waiting {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether an IO must wait because it overlaps an earlier IO that is held.
    pub fn is_before(&self, object: &ObjectId, touches: &[Touch]) -> bool {
        if self.count == 0 {
            return false;
        }
        let queue = self.by_object.get(object);
        queue.is_some_and(|queue| queue.iter().any(|(_, held)| conflict(&held.touches, touches)))
    }

    /// Adds an IO behind all others.
    pub fn push_back(&mut self, arrival: Arrival) {
        self.count += 1;
        self.next += 1;
        let queue = self.by_object.entry(arrival.request.header.object.clone()).or_default();
        queue.push_back((self.next, arrival));
    }

    /// Puts an IO back in front of the others of its object.
    pub fn push_front(&mut self, arrival: Arrival) {
        self.count += 1;
        let queue = self.by_object.entry(arrival.request.header.object.clone()).or_default();
        let first = queue.front().map_or(0, |(number, _)| *number);
        queue.push_front((first, arrival));
    }

    /// An IO that waits.
    pub fn get_mut(&mut self, object: &ObjectId, io: IoId) -> Option<&mut Arrival> {
        let mut queue = self.by_object.get_mut(object)?.iter_mut();
        queue.find(|(_, arrival)| arrival.io == io).map(|(_, arrival)| arrival)
    }

    /// Takes out one IO.
    pub fn remove(&mut self, object: &ObjectId, io: IoId) {
        let Some(queue) = self.by_object.get_mut(object) else { return };
        let before = queue.len();
        queue.retain(|(_, arrival)| arrival.io != io);
        self.count -= before - queue.len();
        if queue.is_empty() {
            self.by_object.remove(object);
        }
    }

    /// Removes and returns the held IO on an object.
    pub fn take(&mut self, object: &ObjectId) -> Vec<Arrival> {
        if self.count == 0 {
            return vec![];
        }
        let queue = self.by_object.remove(object).unwrap_or_default();
        self.count -= queue.len();
        queue.into_iter().map(|(_, arrival)| arrival).collect()
    }

    /// Removes and returns all held IO, in the order of arrival.
    pub fn take_all(&mut self) -> Vec<Arrival> {
        self.count = 0;
        let mut all: Vec<_> = self.by_object.drain().flat_map(|(_, queue)| queue).collect();
        all.sort_by_key(|(number, arrival)| (*number, arrival.io));
        all.into_iter().map(|(_, arrival)| arrival).collect()
    }
}
