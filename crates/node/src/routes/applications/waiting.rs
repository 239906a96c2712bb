//! `WaitingIos`: the queue of IOs that wait at the controller. When a rule sends an IO to the
//! controller, the IO's switch adds it through the service `route`. The controller takes the IOs of an
//! application out, runs the program of the application, and answers the switches.
//!
//! **Invariant:** each IO in the queue is answered, or its switch learns that this node is not the
//! controller any more.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nacre_object::{ApplicationName, Error, Result};
use nacre_route::WaitingIo;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// The most IOs that wait at the controller. The switches of further IOs ask again.
const MAX_WAITING: usize = 16_384;
/// The most IOs that a program gets in one run, so that a run stays within its budget.
const MAX_WAITING_IN_A_RUN: usize = 256;

/// The question of a switch: an IO waits for a rule of an application.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct ControllerQuestion {
    pub application: String,
    pub io: WaitingIo,
}

/// An IO that waits. Its switch gets the epoch of the map `routes` that has rules about the IO.
#[derive(Debug)]
pub(super) struct Waiting {
    pub application: ApplicationName,
    pub io: WaitingIo,
    answer: oneshot::Sender<Result<u64>>,
}

impl Waiting {
    /// Answers the switch. The switch may have given up.
    pub fn answer(self, answer: Result<u64>) {
        let _ = self.answer.send(answer);
    }
}

/// The IO that waits at this node.
#[derive(Debug, Default)]
pub(crate) struct WaitingIos(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    is_controller: bool,
    queue: VecDeque<Waiting>,
}

impl WaitingIos {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the controller has run the program of the application. Returns the epoch of the
    /// map `routes` after that run.
    ///
    /// # Errors
    /// `Unavailable` if this node is not the controller, or if too much IO waits; the error of the
    /// program.
    pub async fn ask(&self, question: ControllerQuestion) -> Result<u64> {
        let not_here = || Error::unavailable("this node is not the controller").hint("try again");
        let application = question.application.parse()?;
        let answered = {
            let mut state = self.lock();
            if !state.is_controller {
                return Err(not_here());
            }
            if state.queue.len() >= MAX_WAITING {
                let text = format!("{MAX_WAITING} IOs wait at the controller, the most that may");
                return Err(Error::unavailable(text).hint("try again"));
            }
            let (answer, answered) = oneshot::channel();
            state.queue.push_back(Waiting { application, io: question.io, answer });
            answered
        };
        answered.await.unwrap_or_else(|_| Err(not_here()))
    }

    /// From now on this node is the controller.
    pub(super) fn open(&self) {
        self.lock().is_controller = true;
    }

    /// This node is not the controller any more. The switches ask the next one.
    pub fn close(&self) {
        *self.lock() = State::default();
    }

    /// The applications for whose rules an IO waits.
    pub(super) fn applications(&self) -> BTreeSet<ApplicationName> {
        let mut state = self.lock();
        // Drop IOs whose switches do not wait any more.
        state.queue.retain(|one| !one.answer.is_closed());
        state.queue.iter().map(|one| one.application.clone()).collect()
    }

    /// Takes out the first IOs that wait for rules of an application.
    pub(super) fn take(&self, application: &ApplicationName) -> Vec<Waiting> {
        let mut state = self.lock();
        let (mut taken, mut left) = (vec![], VecDeque::new());
        for one in std::mem::take(&mut state.queue) {
            match one.application == *application && taken.len() < MAX_WAITING_IN_A_RUN {
                true => taken.push(one),
                false => left.push_back(one),
            }
        }
        state.queue = left;
        taken
    }

    /// Returns IOs to the front of the queue. They wait for the next run.
    pub(super) fn put_back(&self, taken: Vec<Waiting>) {
        let mut state = self.lock();
        if state.is_controller {
            taken.into_iter().rev().for_each(|one| state.queue.push_front(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(application: &str, object: &str) -> ControllerQuestion {
        let io = WaitingIo {
            object: object.to_owned(),
            target: "storage.0".to_owned(),
            operation: "write".to_owned(),
            source: "alice".to_owned(),
            tenant: "gold".to_owned(),
            offset: Some(0),
            length: Some(4),
        };
        ControllerQuestion { application: application.to_owned(), io }
    }

    fn objects(taken: &[Waiting]) -> Vec<&str> {
        taken.iter().map(|one| one.io.object.as_str()).collect()
    }

    #[tokio::test]
    async fn a_node_that_is_not_the_controller_refuses_questions() {
        let waiting = WaitingIos::default();
        waiting.ask(question("a", "data/x")).await.unwrap_err();
        waiting.open();
        let mut asked = Box::pin(waiting.ask(question("a", "data/x")));
        assert!(futures::poll!(&mut asked).is_pending());
        waiting.close();
        let error = asked.await.unwrap_err();
        assert!(error.to_string().contains("not the controller"), "{error}");
    }

    #[tokio::test]
    async fn io_keeps_its_order_for_each_application_and_may_be_put_back() {
        let waiting = WaitingIos::default();
        waiting.open();
        let mut asked = [("a", "data/1"), ("b", "data/2"), ("a", "data/3")]
            .map(|(application, object)| Box::pin(waiting.ask(question(application, object))));
        for one in &mut asked {
            assert!(futures::poll!(one).is_pending());
        }
        let a = "a".parse().unwrap();
        let taken = waiting.take(&a);
        assert_eq!(objects(&taken), ["data/1", "data/3"]);
        waiting.put_back(taken);
        let taken = waiting.take(&a);
        assert_eq!(objects(&taken), ["data/1", "data/3"]);
        taken.into_iter().for_each(|one| one.answer(Ok(7)));
        let [first, second, third] = asked;
        assert_eq!((first.await.unwrap(), third.await.unwrap()), (7, 7));
        assert_eq!(waiting.applications().len(), 1);
        drop(second);
    }
}
