//! A read, fill or trim of one position, as the real client does it, but without batches.
//!
//! An object does not always refuse a client with an old view, because a new layout from the tail
//! on seals no old object. So the probe believes that a position is empty only if the stored view
//! still has the position on the same object. It fills or trims a position only after the position
//! was issued.

use nacre_conformance::histories::{Cell, LogAnswer};
use nacre_log::view::{EntryLocation, View};

use super::{Answer, Ask, ENOENT, EROFS, ESPIPE, Sabotage};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeKind {
    Read,
    Fill,
    Trim,
}

#[derive(Debug)]
pub struct Probe {
    kind: ProbeKind,
    position: u64,
    /// What was found, and on which object. It counts if the stored view has the position there.
    found: Option<(Option<EntryLocation>, LogAnswer)>,
}

/// What a probe wants.
pub enum Wish {
    Ask(Ask),
    /// The stored view.
    Look,
    Done(LogAnswer),
    /// Nothing was done and nothing will be.
    Refused,
}

impl Probe {
    pub fn new(kind: ProbeKind, position: u64) -> Self {
        Self { kind, position, found: None }
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether it changes what the position holds.
    pub fn changes(&self) -> bool {
        self.kind != ProbeKind::Read
    }

    /// Whether the probe has an answer, and must only check that it asked the right object.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// What to do under a view.
    pub fn start(&self, view: &View) -> Wish {
        let position = self.position;
        let place = view.place(position);
        let Some(object) = place.and_then(|place| view.object(place)) else {
            return Wish::Look;
        };
        let epoch = view.epoch();
        Wish::Ask(match self.kind {
            ProbeKind::Read => Ask::Read { object, epoch, position },
            ProbeKind::Fill => Ask::Fill { object, epoch, position },
            ProbeKind::Trim => Ask::Trim { object, epoch, position },
        })
    }

    /// Takes the answer of an object, asked under a view.
    pub fn hear(&mut self, answer: &Answer, view: &View, sabotage: Option<Sabotage>) -> Wish {
        let found = match answer {
            Answer::Silence => return self.start(view),
            // Sealed for a later view, or not sealed at all yet.
            Answer::Status(ESPIPE | ENOENT) => return Wish::Look,
            Answer::Holds(Cell::Data(record)) => {
                return Wish::Done(LogAnswer::Holds(Cell::Data(*record)));
            }
            Answer::Holds(cell) => LogAnswer::Holds(*cell),
            Answer::Status(0) => LogAnswer::Done,
            Answer::Status(EROFS) => LogAnswer::Written,
            other => panic!("{other:?} to {self:?}"),
        };
        if self.changes() || sabotage == Some(Sabotage::OldViewBelieved) {
            return Wish::Done(found);
        }
        self.found = Some((view.place(self.position), found));
        Wish::Look
    }

    /// Takes the stored view. Returns the next wish, and whether the probe must ask another object
    /// now.
    pub fn learn(&mut self, stored: &View) -> (Wish, bool) {
        match self.found.take() {
            Some((place, found)) if place == stored.place(self.position) => {
                (Wish::Done(found), false)
            }
            Some(_) => (self.start(stored), true),
            None if stored.place(self.position).is_some() => (self.start(stored), false),
            None if self.kind == ProbeKind::Read => {
                (Wish::Done(LogAnswer::Holds(Cell::Unwritten)), false)
            }
            None => (Wish::Refused, false),
        }
    }
}
