//! The units that this node serves and can hand over to another node: sequencers of logs, and
//! shared resources.

use nacre_balance::Mode;
use nacre_host::ClientRouting;
use nacre_log::{LogName, SequencerHost};
use nacre_object::{NodeName, Result};
use nacre_resource::{ResourceHost, ResourceName};

/// The file type of a log's sequencer.
const SEQUENCER: &str = "sequencer";

/// The hosts of the units that can move to another node.
#[derive(Debug, Clone)]
pub(in super::super) struct Units {
    pub sequencers: SequencerHost,
    pub resources: ResourceHost,
}

/// How much one unit was used since the node started.
#[derive(Debug, Clone)]
pub(super) struct UnitUse {
    /// The name of the log, or the path of the resource, which begins with a slash.
    pub name: String,
    /// The file type.
    pub kind: String,
    pub reads: u64,
    pub writes: u64,
}

impl Units {
    /// How much each unit that this node serves was used.
    pub(super) fn uses(&self) -> Vec<UnitUse> {
        let sequencers = self.sequencers.uses().into_iter().map(|used| UnitUse {
            name: used.log.to_string(),
            kind: SEQUENCER.to_owned(),
            reads: used.reads,
            writes: used.writes,
        });
        let resources = self.resources.uses().into_iter().map(|used| UnitUse {
            name: used.name.to_string(),
            kind: used.file_type,
            reads: used.reads,
            writes: used.writes,
        });
        sequencers.chain(resources).collect()
    }

    /// Questions that have no answer yet.
    pub fn waiting(&self) -> u64 {
        self.sequencers.waiting()
    }

    /// Hands a unit over to another node. `mode` says whether this node redirects clients to the
    /// other node or forwards their requests.
    ///
    /// # Errors
    /// The errors of the sequencer host or resource host.
    pub async fn hand_over(&self, name: &str, to: NodeName, mode: Mode) -> Result<()> {
        let routing = match mode {
            Mode::Client => ClientRouting::Redirect,
            Mode::Proxy => ClientRouting::Forward,
        };
        let (resources, sequencers) = (&self.resources, &self.sequencers);
        match name.starts_with('/') {
            true => resources.hand_over(&ResourceName::new(name)?, to, routing).await.map(drop),
            false => sequencers.hand_over(&LogName::new(name)?, to, routing).await.map(drop),
        }
    }
}
