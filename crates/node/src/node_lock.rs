//! The lock `run/NAME.lock` lets only one process at a time run as a given node. The kernel frees
//! the lock when the process that holds it ends.
//!
//! A node whose supervisor was killed takes some time to stop. Until then it occupies its folder,
//! socket and port. A new process of the same node therefore waits for the lock; without the lock
//! it would fail because one of these is in use.

use std::fs::{self, File};
use std::io::{self, Write};
use std::time::Duration;

use nacre::ClusterFile;
use nacre_object::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::time::{Instant, sleep};

use crate::node_log::{Level, NodeLog};

/// How long a process may take to leave after its supervisor is gone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two attempts to take the lock. It is short compared with the time that a node
/// needs to start.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The right to be a node, until it is dropped.
#[derive(Debug)]
pub struct NodeLock {
    name: String,
    _file: File,
}

impl NodeLock {
    /// Takes the lock, once no other process holds it. If it has to wait, it reports this in `log`.
    ///
    /// # Errors
    /// `Unavailable` if the other process does not release the lock in time, or if the file cannot
    /// be opened.
    pub async fn take(cluster: &ClusterFile, name: &str, log: &NodeLog) -> Result<Self> {
        // This check prevents a lock file for a name that no node has.
        cluster.node(name)?;
        let path = cluster.run_folder()?.join(format!("{name}.lock"));
        let unusable = |error: std::io::Error| {
            Error::unavailable(format!("cannot lock {}: {error}", path.display()))
                .hint("check the permissions of the folder and the free space of the disk")
        };
        let mut options = nacre_files::open_options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let mut file = file.map_err(unusable)?;
        let given_up_at = Instant::now() + PATIENCE;
        let mut is_told = false;
        while !try_lock(&file).map_err(unusable)? {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            if Instant::now() >= given_up_at {
                let text = format!("{name} is running already, as process {holder}");
                return Err(Error::unavailable(text).hint("stop that process first"));
            }
            if !std::mem::replace(&mut is_told, true) {
                let fields = [("pid", holder.into())];
                log.say(Level::Info, "waiting for the process before this one", &fields);
            }
            sleep(LOOK_AGAIN).await;
        }
        let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        written.map_err(unusable)?;
        Ok(Self { name: name.to_owned(), _file: file })
    }

    /// The node's.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// False if somebody else has it.
fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
