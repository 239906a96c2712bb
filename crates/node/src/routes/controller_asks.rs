//! How a switch asks the controller for rules about an IO: it finds the node that is the controller,
//! waits for the answer, and then for the rules to be in force here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, ErrorKind, NodeName, ObjectId, Result};
use nacre_route::limits::MAX_CONTROLLER_WAIT;
use nacre_route::{ControllerAsk, Event, IoId, RefusedIo, WaitingIo};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::NodeSwitch;
use super::applications::ControllerQuestion;
use super::control::SHORT_REST;
use super::in_force::InForce;
use super::service::ROUTE_SERVICE;
use super::state::RouteState;

/// The pause before a switch asks for the second time. It doubles, because much IO may wait.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How a switch learns which node is the controller, and which rules are in force here.
#[derive(Debug)]
pub(super) struct ControllerLink {
    pub routes: watch::Receiver<RouteState>,
    pub in_force: Arc<InForce>,
}

impl NodeSwitch {
    /// Asks the controller for rules about an IO. Returns when this switch has installed them, or
    /// when it is clear that there are none.
    pub(super) async fn ask_controller(
        &self,
        io: IoId,
        object: ObjectId,
        asks: Vec<ControllerAsk>,
    ) -> Event {
        let until = Instant::now() + MAX_CONTROLLER_WAIT;
        let mut answer = Ok(());
        for ask in asks {
            answer = self.answer_to(&object, &ask, until).await.map_err(RefusedIo);
            if answer.is_err() {
                break;
            }
        }
        Event::ControllerAnswered { io, object, answer }
    }

    async fn answer_to(
        &self,
        object: &ObjectId,
        ask: &ControllerAsk,
        until: Instant,
    ) -> Result<()> {
        let link = self.controller_link()?;
        let home = match self.locations().rados() {
            Some(locations) => locations.primary(object).await?,
            None => self.locations().own().clone(),
        };
        let (application, io) = (ask.application.to_string(), WaitingIo::of(&ask.io, &home));
        let input = serde_json::to_vec(&ControllerQuestion { application, io })
            .map_err(|cause| Error::invalid(cause.to_string()))?;
        let epoch = self.epoch_with_rules(link, Bytes::from(input), until).await?;
        while link.in_force.progress().rules_epoch < epoch {
            if Instant::now() >= until {
                let text = format!("the switch has not installed the rules of epoch {epoch} yet");
                return Err(Error::unavailable(text).hint("see why: nacre route status"));
            }
            sleep(SHORT_REST).await;
        }
        Ok(())
    }

    /// Asks until a node answers that is the controller. Returns the epoch of the map `routes` that
    /// has the rules.
    async fn epoch_with_rules(
        &self,
        link: &ControllerLink,
        input: Bytes,
        until: Instant,
    ) -> Result<u64> {
        let mut routes = link.routes.clone();
        let mut last = Error::unavailable("no node is the controller of routes")
            .hint("see why: nacre route applications");
        let mut pause = MIN_PAUSE;
        while Instant::now() < until {
            let controller = routes.borrow().controller().map(NodeName::new).transpose()?;
            if let Some(node) = controller {
                let left = until.saturating_duration_since(Instant::now());
                let transport = self.transport()?;
                let asked =
                    transport.ask(&node, ROUTE_SERVICE, "ask-controller", input.clone(), left);
                let is_another = |state: &RouteState| state.controller() != Some(node.as_str());
                let replaced = async { drop(routes.wait_for(is_another).await) };
                tokio::select! {
                    answer = asked => match answer {
                        Ok(answer) => return epoch(&answer),
                        Err(error) if !is_temporary(&error) => return Err(error),
                        Err(error) => last = error,
                    },
                    () = replaced => continue,
                    () = sleep_until(until) => break,
                }
            }
            sleep_until(until.min(Instant::now() + pause)).await;
            pause = MAX_PAUSE.min(pause * 2);
        }
        Err(last)
    }
}

/// Whether another attempt may succeed: the node is down, or another one is the controller now.
fn is_temporary(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Stale) && error.fault().is_none()
}

fn epoch(answer: &Bytes) -> Result<u64> {
    serde_json::from_slice(answer).map_err(|cause| {
        Error::corrupt(format!("the answer of the controller makes no sense: {cause}"))
            .hint("run one release of nacre on all nodes")
    })
}
