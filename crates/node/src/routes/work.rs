//! Does the work that follows from the commands of the pure switch: it sends pieces, and asks
//! programs, waypoints and the controller. The results are events for the pure switch, and more work follows
//! from them.
//!
//! The work of an IO runs in the task of the caller that submitted the IO, because a task for each
//! request would cost more than the switch itself. Work of other IO, such as IO that waited for
//! this one, gets tasks of its own.
//!
//! **Invariant:** an IO in flight ends even if its caller gives up, because other IO and changes of
//! rules wait for it.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use nacre_object::ObjectId;
use nacre_route::{ControllerAsk, Destination, Event, IoId, ProgramAsk, Term, WaypointAsk};

use super::NodeSwitch;
use super::pieces::PieceWork;
use crate::completed::Completed;

/// The work that a command of the pure switch gives the runtime.
pub(super) enum Work {
    Piece(Box<PieceWork>),
    Programs { io: IoId, term: Term, asks: Vec<ProgramAsk> },
    Controller { io: IoId, object: ObjectId, asks: Vec<ControllerAsk> },
    Waypoint { io: IoId, ask: Box<WaypointAsk> },
}

impl Work {
    fn io(&self) -> IoId {
        match self {
            Self::Piece(work) => work.io,
            Self::Programs { io, .. } | Self::Controller { io, .. } | Self::Waypoint { io, .. } => {
                *io
            }
        }
    }
}

impl NodeSwitch {
    /// Does the work of an IO, and returns when the IO has ended or waits for other IO. `works` is
    /// what follows from the IO's arrival.
    pub(super) async fn work_through(self: &Arc<Self>, io: IoId, works: Vec<Work>) {
        if let Some(work) = self.start_others(io, works) {
            Completed::of(Arc::clone(self).pursue(work)).await;
        }
    }

    /// Passes an event to the pure switch, and starts tasks for the work that follows.
    pub(super) fn handle(self: &Arc<Self>, event: Event) {
        let works = self.step(event);
        for work in works {
            tokio::spawn(Arc::clone(self).pursue(work));
        }
    }

    /// Starts a task for each piece of work, except for the first one of the IO `own`, which it
    /// returns. A question to the controller or to a waypoint always gets a task: the IO may end
    /// before there is an answer.
    fn start_others(self: &Arc<Self>, own: IoId, works: Vec<Work>) -> Option<Work> {
        let mut kept = None;
        for work in works {
            let asks = matches!(work, Work::Controller { .. } | Work::Waypoint { .. });
            match work.io() == own && kept.is_none() && !asks {
                true => kept = Some(work),
                false => drop(tokio::spawn(Arc::clone(self).pursue(work))),
            }
        }
        kept
    }

    /// Does a piece of work, and then the work of the same IO that follows from it.
    fn pursue(self: Arc<Self>, work: Work) -> BoxFuture<'static, ()> {
        async move {
            let io = work.io();
            let mut next = Some(work);
            while let Some(work) = next {
                let works = match work {
                    Work::Piece(work) => self.send_piece(*work).await,
                    Work::Controller { io, object, asks } => {
                        let event = self.ask_controller(io, object, asks).await;
                        self.step(event)
                    }
                    Work::Waypoint { io, ask } => {
                        let event = self.ask_waypoint(io, *ask).await;
                        self.step(event)
                    }
                    Work::Programs { io, term, asks } => {
                        match self.ask_programs(io, term, asks).await {
                            Some(event) => self.step(event),
                            None => return,
                        }
                    }
                };
                next = self.start_others(io, works);
            }
        }
        .boxed()
    }

    /// Sends a piece, and returns the work that follows from its result.
    async fn send_piece(self: &Arc<Self>, work: PieceWork) -> Vec<Work> {
        let (io, piece) = (work.io, work.piece);
        let waypoint = match &work.destination {
            Some(Destination::Waypoint(layer)) => Some(layer.clone()),
            _ => None,
        };
        let (outcome, reply) = match waypoint {
            Some(layer) => self.pass_waypoint(work, &layer).await,
            None => work.run(self).await,
        };
        self.core().keep_reply(io, piece, reply);
        self.step(Event::PieceDone { io, piece, outcome })
    }
}
