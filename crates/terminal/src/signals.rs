//! SIGINT and SIGTERM: how a command handles them, and the exit status that follows.
//!
//! A command that must finish or remove something listens for these signals and ends by itself. The
//! kernel ends every other command. A shell sees the same status either way: 128 plus the number of
//! the signal.

use std::sync::atomic::{AtomicU8, Ordering};

use nacre_object::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// What a shell adds to the number of the signal that ended a command.
const SIGNAL_STATUS: u8 = 128;
const SIGINT: u8 = 2;
const SIGTERM: u8 = 15;

/// After this many signals the process ends at once, whatever it is doing. It may hang in a write
/// to a pipe that nobody reads.
const LAST_WARNING: usize = 3;

/// The last signal heard; 0 before the first.
static LAST_HEARD: AtomicU8 = AtomicU8::new(0);
/// The signal that ended the command; 0 if none did.
static ENDED_BY: AtomicU8 = AtomicU8::new(0);

/// The signals that arrive after [`Interrupts::hear`]. A clone counts the same signals.
#[derive(Debug, Clone)]
pub struct Interrupts(watch::Receiver<usize>);

impl Interrupts {
    /// Starts to listen for SIGINT and SIGTERM, inside a Tokio runtime. From now on these signals
    /// do not end the process by themselves.
    ///
    /// # Errors
    /// `Unavailable` if the kernel refuses the handlers.
    pub fn hear() -> Result<Self> {
        let unable = |error| Error::unavailable(format!("cannot handle signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unable)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(unable)?;
        let (count, heard) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let number = tokio::select! {
                    _ = interrupt.recv() => SIGINT,
                    _ = terminate.recv() => SIGTERM,
                };
                LAST_HEARD.store(number, Ordering::Relaxed);
                count.send_modify(|count| *count += 1);
                if *count.borrow() >= LAST_WARNING {
                    std::process::exit(i32::from(SIGNAL_STATUS + number));
                }
            }
        });
        Ok(Self(heard))
    }

    /// Completes once a signal has arrived.
    pub fn first(&self) -> impl Future<Output = ()> + Send + use<> {
        self.at_least(1)
    }

    /// Completes once a second signal has arrived: the person wants the command to end at once.
    pub fn second(&self) -> impl Future<Output = ()> + Send + use<> {
        self.at_least(2)
    }

    fn at_least(&self, signals: usize) -> impl Future<Output = ()> + Send + use<> {
        let mut heard = self.0.clone();
        async move {
            // An error means that the runtime, and with it the listener, is gone.
            let _ = heard.wait_for(|count| *count >= signals).await;
        }
    }
}

/// The error of a command that a signal ended. The process then has the signal's exit status.
pub fn interrupted(text: &str) -> Error {
    ENDED_BY.store(LAST_HEARD.load(Ordering::Relaxed), Ordering::Relaxed);
    Error::unavailable(text)
}

/// The exit status of a command that a signal ended.
pub fn exit_status() -> Option<u8> {
    match ENDED_BY.load(Ordering::Relaxed) {
        0 => None,
        number => Some(SIGNAL_STATUS + number),
    }
}

/// Runs some work to its end. If a signal arrives first, it drops the work, which removes the
/// work's scratch folders, and returns an error. So a script never takes a partial result for a
/// complete one.
pub async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let interrupts = Interrupts::hear()?;
    tokio::select! {
        () = interrupts.first() => Err(interrupted("interrupted")),
        outcome = work => outcome,
    }
}
