//! The requests of a call: one request, or those of a batch one after another.

use std::cell::{Cell, Ref, RefCell};

use bytes::Bytes;
use nacre_brados::REQUEST_HEAD_BYTES;
use nacre_calls::read_request;
use nacre_object::Status;
use nacre_script::{Numbers, QuickAnswer};

use nacre_calls::{Batch, Progress};

/// A method of a Brados class gets a request of at most this length as a whole string. Of a longer
/// request it gets only the first bytes: methods usually store the end unchanged, and the host does
/// this without making a VM string of it.
const MAX_WHOLE_BYTES: usize = 256;

const _: () = assert!(REQUEST_HEAD_BYTES <= MAX_WHOLE_BYTES);

/// The input of a call.
pub(crate) enum Input {
    One(Bytes),
    Batch(Batch),
}

/// Decodes a request with these columns. Returns its length, its numbers and the lengths of its
/// strings. Returns `None` if the request has other columns, or more numbers than a method can take
/// as arguments.
fn numbers(request: &[u8], columns: &[u8]) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    let mut has_room = numbers.push(request.len() as f64);
    let read = read_request(request, columns, |number| has_room &= numbers.push(number as f64));
    (read.is_ok() && has_room).then_some(numbers)
}

/// The requests of a call, and the progress of the call.
pub(crate) struct Requests {
    current: RefCell<Bytes>,
    batch: Option<RefCell<Progress>>,
    has_begun: Cell<bool>,
}

impl Requests {
    pub fn of(input: Input) -> Self {
        let (current, batch) = match input {
            Input::One(input) => (input, None),
            Input::Batch(batch) => (Bytes::new(), Some(RefCell::new(Progress::of(batch)))),
        };
        Self { current: RefCell::new(current), batch, has_begun: Cell::new(false) }
    }

    /// The request that is being carried out.
    pub fn current(&self) -> Ref<'_, Bytes> {
        self.current.borrow()
    }

    /// The arguments that the method gets for the current request. If the request has the columns
    /// that the method registered, they are the request's length, its numbers and the lengths of
    /// its strings; no VM string is made. Otherwise they are the request (or its first bytes) and
    /// its length.
    pub fn shown(&self, columns: Option<&[u8]>) -> QuickAnswer {
        let request = self.current.borrow();
        if let Some(numbers) = columns.and_then(|columns| numbers(&request, columns)) {
            return QuickAnswer::Numbers(numbers);
        }
        let shown = match request.len() {
            length @ ..=MAX_WHOLE_BYTES => length,
            _ => REQUEST_HEAD_BYTES,
        };
        QuickAnswer::TextAndNumber(request.slice(..shown), request.len() as f64)
    }

    /// Whether the call is a batch.
    pub fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Moves on to the next request of a batch. Returns whether there is one.
    pub fn advance(&self) -> bool {
        self.has_begun.set(true);
        let next = self.batch.as_ref().and_then(|progress| progress.borrow_mut().next_request());
        let is_there = next.is_some();
        self.current.replace(next.unwrap_or_default());
        is_there
    }

    /// Whether the first request was taken. The class's chunk has run by then.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Whether the output of a batch can hold another reply of this many bytes.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.batch.as_ref().is_none_or(|progress| progress.borrow().has_room_for(bytes))
    }

    /// Ends the batch before the current request, so that the client sends it and the later ones
    /// again.
    pub fn leave(&self) {
        if let Some(progress) = &self.batch {
            progress.borrow_mut().end();
        }
    }

    /// Records the outcome of a request of a batch.
    pub fn answer(&self, status: Status, output: &[u8]) {
        if let Some(progress) = &self.batch {
            progress.borrow_mut().answer(status, output);
        }
    }

    /// The output of a batch.
    pub fn finish(&self) -> Bytes {
        self.batch.as_ref().map(|progress| progress.borrow_mut().finish()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_decoded_only_if_a_method_can_get_all_its_numbers() {
        let row = |columns: usize| [b"i", &7_i64.to_le_bytes()[..]].concat().repeat(columns);
        let of = |columns: usize| numbers(&row(columns), &b"i".repeat(columns));
        assert_eq!(of(2).unwrap().as_slice(), [18.0, 7.0, 7.0]);
        assert!(of(Numbers::MAX - 1).is_some() && of(Numbers::MAX).is_none());
        assert!(numbers(&row(2), b"i").is_none());
    }
}
