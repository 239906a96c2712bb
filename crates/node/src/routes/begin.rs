//! Passes an IO to the pure switch, and waits until it has ended.

use std::sync::Arc;

use nacre_object::{Error, Op, Reply, Request, Result, Stack, Store, TargetName};
use nacre_route::{Event, IoId, Outcome, Span};
use tokio::sync::oneshot;

use super::NodeSwitch;
use super::live_io::Live;
use super::work::Work;
use crate::completed::Completed;

/// What becomes of an object's copies when an IO changes the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopiesAfter {
    /// Nobody tells them the change, so they become useless.
    Useless,
    /// The caller sends them the same change if the IO goes undivided to the home.
    Updated,
}

/// What the switch does with an IO that has arrived.
enum Begun {
    /// The IO goes undivided to its own object, through these layers.
    AtHome(Stack, Arc<Request>),
    /// The work that begins now, and the receiver of the reply.
    Routed(Vec<Work>, oneshot::Receiver<Result<Reply>>),
}

impl NodeSwitch {
    /// Runs an IO by the rules. If it changes its object, the object's copies become useless. If
    /// `homeward` names some bytes, they are brought home first, and the whole IO runs there.
    pub(super) async fn run(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        homeward: Option<Span>,
    ) -> Result<Reply> {
        self.run_with(next, request, homeward, CopiesAfter::Useless).await
    }

    /// Runs an IO as [`run`](Self::run) does.
    pub(super) async fn run_with(
        self: &Arc<Self>,
        next: Stack,
        request: Request,
        homeward: Option<Span>,
        copies: CopiesAfter,
    ) -> Result<Reply> {
        let io = IoId(self.number());
        let home = self.home_of(&request.header.object).await?;
        match self.begin(io, (next, Arc::new(request)), home, homeward, copies) {
            Begun::AtHome(next, request) => {
                Completed::of(Arc::clone(self).run_at_home(io, next, request)).await
            }
            Begun::Routed(works, replied) => {
                self.work_through(io, works).await;
                replied.await.unwrap_or_else(|_| {
                    Err(Error::unavailable("the node is stopping").hint("try again"))
                })
            }
        }
    }

    /// Passes an IO to the pure switch.
    fn begin(
        &self,
        io: IoId,
        (next, request): (Stack, Arc<Request>),
        home: Option<TargetName>,
        homeward: Option<Span>,
        copies: CopiesAfter,
    ) -> Begun {
        let own = Arc::clone(&request);
        let event = match homeward {
            Some(span) => Event::ArrivedHomeward { io, request: own, span, home },
            None => Event::Arrived { io, request: own, via: None, home, term: None },
        };
        let mut core = self.core();
        let object = &request.header.object;
        let moves = || core.switch.table().made_over(object, Span::WHOLE).is_some();
        let is_change = request.ops.iter().any(Op::is_write) || (homeward.is_some() && moves());
        let commands = core.switch.handle(self.now(), event);
        let only_goes_home = core.only_goes_home(object, &commands);
        if is_change {
            core.note_change(object);
        }
        if is_change && !(only_goes_home && copies == CopiesAfter::Updated) {
            // The IO may have begun before the rule that allows copies.
            core.copies.leave_read_set(object);
        }
        if homeward.is_none() && only_goes_home {
            core.count_decisions(&commands);
            return Begun::AtHome(next, request);
        }
        let (reply, replied) = oneshot::channel();
        core.live.insert(io, Live { request, next, reply, pieces: vec![], routed_end: 0 });
        Begun::Routed(core.obey(commands), replied)
    }

    /// Runs an IO that goes undivided to its own object. This is the usual case, so only the pure
    /// switch keeps state about such an IO.
    async fn run_at_home(
        self: Arc<Self>,
        io: IoId,
        next: Stack,
        request: Arc<Request>,
    ) -> Result<Reply> {
        let reply = next.submit(Request::clone(&request)).await;
        let outcome = if reply.is_ok() { Outcome::Done } else { Outcome::Failed };
        self.handle(Event::PieceDone { io, piece: 0, outcome });
        reply
    }
}
