//! A call's share of its session's memory budget for requests.
//!
//! **Invariant:** messages that wait to be sent never exceed the session's budget. A caller that
//! gives up leaves its message in the outbox, and the message keeps its share of the budget until
//! it is sent. Otherwise abandoned messages would pile up without bound if a node reads nothing.

use tokio::sync::SemaphorePermit;

use super::shared::Shared;
use crate::outbox::OutboxPosition;

/// A message that was put into the outbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    /// The number of the connection to which the outbox belongs.
    pub(crate) link: u64,
    pub(crate) position: OutboxPosition,
}

/// A call's share of the budget, which is free again once this is dropped.
#[derive(Debug)]
pub(crate) struct SendBudget<'a> {
    shared: &'a Shared,
    permit: SemaphorePermit<'a>,
    /// The call's message, as long as it is possibly still waiting to be sent.
    pub(crate) posted: Option<Posted>,
}

impl<'a> SendBudget<'a> {
    pub(crate) fn new(shared: &'a Shared, permit: SemaphorePermit<'a>) -> Self {
        Self { shared, permit, posted: None }
    }
}

impl Drop for SendBudget<'_> {
    fn drop(&mut self) {
        let Some(posted) = self.posted else { return };
        let bytes = self.permit.num_permits();
        if self.shared.leave_behind(posted, bytes) {
            // The message has it now.
            if let Some(permit) = self.permit.split(bytes) {
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;

    use futures::{FutureExt, StreamExt};
    use nacre_object::{Capabilities, Error, NodeName};

    use super::*;
    use crate::client::call::{Call, Repeat};
    use crate::client::pace::ClientPace;
    use crate::client::session::NodeInfo;
    use crate::limits::REQUEST_COST_BYTES;
    use crate::outbox::{Outbox, OutboxStream};
    use crate::{Endpoint, SessionOptions};
    use nacre_protocol::proto as pb;
    use nacre_protocol::proto::client_message::Body as Asked;

    const LONG: Duration = Duration::from_secs(1000);

    /// Makes a session with a simulated node. The node reads only what the test takes from the
    /// stream, and answers nothing.
    fn session() -> (Arc<Shared>, Outbox, OutboxStream) {
        let endpoint = Endpoint::unix("/nowhere").unwrap();
        let shared = Arc::new(Shared::new(endpoint, SessionOptions::default()));
        let outbox = Outbox::default();
        connect(&shared, &outbox);
        let stream = outbox.stream();
        (shared, outbox, stream)
    }

    fn connect(shared: &Shared, outbox: &Outbox) {
        let name = NodeName::new("node").unwrap();
        let node = NodeInfo { name, incarnation: 1, capabilities: Capabilities::NONE };
        let pace = ClientPace::new(&pb::Welcome::default(), shared.options.clock.clone());
        shared.connected(outbox.clone(), pace, node);
    }

    fn call(deadline: Duration) -> Call {
        let asked = Asked::Ask(pb::Ask::default());
        Call::new(&asked, Repeat::Unsafe, deadline, None).unwrap()
    }

    /// Makes a call and gives it up.
    fn give_up(shared: &Arc<Shared>) {
        assert!(shared.exchange(&call(LONG)).now_or_never().is_none());
    }

    fn take(stream: &mut OutboxStream) {
        // Twice, as the first turn only yields.
        let taken = stream.next().now_or_never().or_else(|| stream.next().now_or_never());
        taken.expect("there is something").unwrap().unwrap();
    }

    #[test]
    fn an_abandoned_message_keeps_its_budget_until_it_is_sent() {
        let (shared, _, mut stream) = session();
        give_up(&shared);
        assert!(shared.expire(), "it is looked after");
        assert_eq!(shared.under_way_bytes(), REQUEST_COST_BYTES);
        take(&mut stream);
        assert!(!shared.expire());
        assert_eq!(shared.under_way_bytes(), 0);
    }

    #[test]
    fn an_abandoned_message_that_was_sent_keeps_no_budget() {
        let (shared, _, mut stream) = session();
        {
            let call = call(LONG);
            let mut exchange = pin!(shared.exchange(&call));
            assert!(exchange.as_mut().now_or_never().is_none());
            take(&mut stream);
            assert_eq!(shared.under_way_bytes(), REQUEST_COST_BYTES);
        }
        assert_eq!(shared.under_way_bytes(), 0);
    }

    #[test]
    fn a_call_past_its_deadline_keeps_its_budget_until_it_is_sent() {
        let (shared, _, mut stream) = session();
        let late = call(Duration::ZERO);
        {
            let mut exchange = pin!(shared.exchange(&late));
            assert!(exchange.as_mut().now_or_never().is_none());
            assert!(!shared.expire(), "nobody waits any more");
            exchange.now_or_never().expect("it is late").unwrap_err();
        }
        assert!(shared.expire(), "it is looked after");
        assert_eq!(shared.under_way_bytes(), REQUEST_COST_BYTES);
        take(&mut stream);
        shared.expire();
        assert_eq!(shared.under_way_bytes(), 0);
    }

    #[test]
    fn a_lost_connection_frees_the_budget_of_its_messages() {
        let (shared, outbox, _stream) = session();
        let call = call(LONG);
        {
            let mut exchange = pin!(shared.exchange(&call));
            assert!(exchange.as_mut().now_or_never().is_none());
            give_up(&shared);
            assert_eq!(shared.under_way_bytes(), 2 * REQUEST_COST_BYTES);
            shared.disconnected(&outbox, Error::unavailable("it is gone"));
            assert_eq!(shared.under_way_bytes(), REQUEST_COST_BYTES);
            connect(&shared, &Outbox::default());
            // Only now abandon this call: its message belongs to the lost connection, not to the
            // new one.
        }
        assert_eq!(shared.under_way_bytes(), 0);
    }
}
