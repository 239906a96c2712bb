//! Decides the steps of one append, from a granted position until the outcome is certain.
//!
//! A write without an answer is in *doubt*: the record may be at the position, or may arrive there
//! later. The writer must not write the record elsewhere until it knows. It can find out in two
//! ways:
//!
//! - While the epoch of the write is valid, it writes the same record again. A position is written
//!   only once, so the second write shows which record is there.
//! - Once the object refuses that epoch, the writer reads the position. No write of that epoch can
//!   arrive any more.
//!
//! The record carries an id by which its writer recognises it.
//!
//! **Invariant:** the writer writes a record to another position only if the record cannot be at
//! any earlier one.

/// What an append asks its caller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendCommand {
    /// Get a position from the sequencer.
    TakeToken,
    /// Write the record there, under this epoch.
    Write {
        /// The position.
        position: u64,
        /// The epoch.
        epoch: u64,
    },
    /// See what the position holds.
    Read {
        /// The position.
        position: u64,
        /// The epoch.
        epoch: u64,
    },
    /// Get a view later than this epoch's.
    Refresh {
        /// The epoch.
        epoch: u64,
    },
    /// The record is at this position, durably, and nowhere else.
    Done {
        /// The position.
        position: u64,
    },
    /// The position was trimmed before the writer learnt whether its record was there.
    Lost {
        /// The position.
        position: u64,
    },
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendEvent {
    /// A position, to be used under this epoch.
    Token {
        /// The position.
        position: u64,
        /// The epoch of the view the caller knows.
        epoch: u64,
        /// The epoch at which that view's sequencer was installed.
        sequencer: u64,
    },
    /// The client gives the position up, because it knows that the target does not answer. It has
    /// sent no write.
    Avoided,
    /// The write was done.
    Accepted,
    /// It was refused: the position is taken.
    Taken,
    /// It was refused: the epoch is old.
    Stale,
    /// No answer came.
    NoAnswer,
    /// What the position holds.
    Holds(ReadBack),
    /// A later view.
    View {
        /// Its epoch.
        epoch: u64,
        /// The epoch at which its sequencer was installed.
        sequencer: u64,
    },
}

/// What an append finds at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBack {
    /// The very record.
    Mine,
    /// Another one's, or a filled position.
    Other,
    /// Nothing, and whether there was something is not known.
    Trimmed,
    /// Nothing yet.
    Unwritten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Token,
    Write,
    Read,
    Refresh,
    Over,
}

/// One append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendCore {
    step: Step,
    position: u64,
    epoch: u64,
    /// The sequencer that issued the position.
    issuer: u64,
    /// The sequencer of the latest view.
    sequencer: u64,
    /// A write to `position` may have happened, or happen yet.
    doubt: bool,
}

impl Default for AppendCore {
    fn default() -> Self {
        Self { step: Step::Token, position: 0, epoch: 0, issuer: 0, sequencer: 0, doubt: false }
    }
}

impl AppendCore {
    /// What to do first.
    pub fn start(&self) -> AppendCommand {
        AppendCommand::TakeToken
    }

    /// The position at which the record may be, if that is not certain.
    pub fn doubtful_position(&self) -> Option<u64> {
        self.doubt.then_some(self.position)
    }

    /// Takes an event and returns the next command.
    ///
    /// # Panics
    /// If the event does not answer the last command: a bug of the caller.
    pub fn handle(&mut self, event: AppendEvent) -> AppendCommand {
        use AppendEvent::{Accepted, Avoided, Holds, NoAnswer, Stale, Taken, Token, View};
        match (self.step, event) {
            (Step::Token, Token { position, epoch, sequencer }) => {
                (self.position, self.epoch) = (position, epoch);
                (self.issuer, self.sequencer) = (sequencer, sequencer);
                self.write()
            }
            (Step::Write, Avoided) if !self.doubt => self.take_token(),
            (Step::Write, Accepted) => self.done(),
            // Another client filled the position, or the network repeated our write. Read the
            // position to learn which.
            (Step::Write, Taken) => self.read(),
            (Step::Write, NoAnswer) => {
                self.doubt = true;
                self.write()
            }
            (Step::Read, NoAnswer) => self.read(),
            (Step::Read, Holds(found)) => self.judge(found),
            (Step::Write | Step::Read, Stale) => {
                self.step = Step::Refresh;
                AppendCommand::Refresh { epoch: self.epoch }
            }
            (Step::Refresh, NoAnswer) => AppendCommand::Refresh { epoch: self.epoch },
            (Step::Refresh, View { epoch, sequencer }) => {
                (self.epoch, self.sequencer) = (epoch, sequencer);
                // The object refused the write. But the network may have repeated it, and an
                // earlier copy may have been accepted. Read the position to learn that.
                self.read()
            }
            (step, event) => panic!("{event:?} does not answer {step:?}"),
        }
    }

    fn judge(&mut self, found: ReadBack) -> AppendCommand {
        match found {
            ReadBack::Mine => self.done(),
            ReadBack::Other => self.take_token(),
            // While the sequencer that issued the position is in charge, the position still belongs
            // to this append. Under another sequencer the position may be past the tail, where no
            // record must appear.
            ReadBack::Unwritten if self.sequencer == self.issuer => self.write(),
            ReadBack::Unwritten => self.take_token(),
            // The position may have been trimmed before the record arrived. Or an earlier copy of
            // the record arrived and was trimmed later; a reader may have seen that copy.
            ReadBack::Trimmed => {
                self.step = Step::Over;
                AppendCommand::Lost { position: self.position }
            }
        }
    }

    fn write(&mut self) -> AppendCommand {
        self.step = Step::Write;
        AppendCommand::Write { position: self.position, epoch: self.epoch }
    }

    fn read(&mut self) -> AppendCommand {
        self.step = Step::Read;
        AppendCommand::Read { position: self.position, epoch: self.epoch }
    }

    fn take_token(&mut self) -> AppendCommand {
        self.step = Step::Token;
        self.doubt = false;
        AppendCommand::TakeToken
    }

    fn done(&mut self) -> AppendCommand {
        self.step = Step::Over;
        self.doubt = false;
        AppendCommand::Done { position: self.position }
    }
}

#[cfg(test)]
mod tests {
    use super::AppendCommand::{Done, Lost, Read, Refresh, TakeToken, Write};
    use super::AppendEvent::{Accepted, Avoided, Holds, NoAnswer, Stale, Taken, Token, View};
    use super::*;

    /// Runs steps. Each step is an event and the command that must follow it.
    fn check(steps: &[(AppendEvent, AppendCommand)]) -> AppendCore {
        let mut core = AppendCore::default();
        assert_eq!(core.start(), TakeToken);
        for (n, (event, command)) in steps.iter().enumerate() {
            assert_eq!(core.handle(*event), *command, "step {n}: {event:?}");
        }
        core
    }

    const TOKEN: AppendEvent = Token { position: 7, epoch: 3, sequencer: 2 };
    const WRITE: AppendCommand = Write { position: 7, epoch: 3 };
    const READ: AppendCommand = Read { position: 7, epoch: 3 };
    const DONE: AppendCommand = Done { position: 7 };

    #[test]
    fn an_accepted_write_ends_the_append() {
        let core = check(&[(TOKEN, WRITE), (Accepted, DONE)]);
        assert_eq!(core.doubtful_position(), None);
    }

    #[test]
    fn a_position_that_somebody_filled_is_given_up() {
        let other = (Holds(ReadBack::Other), TakeToken);
        check(&[(TOKEN, WRITE), (Taken, READ), other]);
        check(&[(TOKEN, WRITE), (Avoided, TakeToken)]);
    }

    #[test]
    fn a_write_in_doubt_is_written_again_and_recognised() {
        let core = check(&[(TOKEN, WRITE), (NoAnswer, WRITE)]);
        assert_eq!(core.doubtful_position(), Some(7));
        check(&[(TOKEN, WRITE), (NoAnswer, WRITE), (Accepted, DONE)]);
        let doubted = [(TOKEN, WRITE), (NoAnswer, WRITE), (Taken, READ)];
        check(&[&doubted[..], &[(Holds(ReadBack::Mine), DONE)]].concat());
        check(&[&doubted[..], &[(NoAnswer, READ), (Holds(ReadBack::Mine), DONE)]].concat());
        check(&[&doubted[..], &[(Holds(ReadBack::Other), TakeToken)]].concat());
    }

    #[test]
    fn a_position_that_somebody_trimmed_may_have_held_the_record() {
        let lost = (Holds(ReadBack::Trimmed), Lost { position: 7 });
        check(&[(TOKEN, WRITE), (NoAnswer, WRITE), (Taken, READ), lost]);
        // The network may have repeated the write, and the first copy got no answer.
        check(&[(TOKEN, WRITE), (Taken, READ), lost]);
    }

    #[test]
    fn an_append_with_a_stale_epoch_keeps_its_position_under_the_same_sequencer() {
        check(&[
            (TOKEN, WRITE),
            (Stale, Refresh { epoch: 3 }),
            (NoAnswer, Refresh { epoch: 3 }),
            (View { epoch: 5, sequencer: 2 }, Read { position: 7, epoch: 5 }),
            (Holds(ReadBack::Unwritten), Write { position: 7, epoch: 5 }),
        ]);
    }

    #[test]
    fn an_append_under_another_sequencer_gives_up_an_unwritten_position() {
        let read = Read { position: 7, epoch: 4 };
        let refused = [
            (TOKEN, WRITE),
            (NoAnswer, WRITE),
            (Stale, Refresh { epoch: 3 }),
            (View { epoch: 4, sequencer: 4 }, read),
            (NoAnswer, read),
        ];
        let outcomes = [
            (Holds(ReadBack::Unwritten), TakeToken),
            (Holds(ReadBack::Other), TakeToken),
            (Holds(ReadBack::Mine), DONE),
            (Stale, Refresh { epoch: 4 }),
        ];
        for outcome in outcomes {
            check(&[&refused[..], &[outcome]].concat());
        }
        let undoubted = [refused[0], refused[2], refused[3], (Holds(ReadBack::Mine), DONE)];
        check(&undoubted);
    }

    #[test]
    fn an_append_at_a_new_position_has_no_write_in_doubt() {
        let core = check(&[
            (TOKEN, WRITE),
            (NoAnswer, WRITE),
            (Taken, READ),
            (Holds(ReadBack::Other), TakeToken),
            (Token { position: 9, epoch: 3, sequencer: 2 }, Write { position: 9, epoch: 3 }),
            (Taken, Read { position: 9, epoch: 3 }),
            (Holds(ReadBack::Other), TakeToken),
        ]);
        assert_eq!(core.doubtful_position(), None);
    }
}
