//! The view as the stored record of a hosted state machine: of the log's sequencer.

use nacre_host::{Authority, MapRecord, Record, Words};
use nacre_object::{Error, MapName, NodeName, Result};

use super::View;
use crate::LogName;

impl Record for View {
    type Name = LogName;
    const WORDS: Words = Words { thing: "log", authority: "sequencer", record: "view" };

    fn name(&self) -> &LogName {
        self.log()
    }

    fn epoch(&self) -> u64 {
        self.epoch()
    }

    fn born(&self) -> u64 {
        self.born()
    }

    fn is_removed(&self) -> bool {
        self.is_removed()
    }

    fn authority(&self) -> Option<&Authority> {
        self.sequencer()
    }

    fn claimed_by(&self, node: NodeName, claim: u64) -> Self {
        self.claimed_by(node, claim)
    }

    fn not_found(log: &LogName) -> Error {
        Error::not_found(format!("there is no log {log}"))
            .hint(format!("create it with `nacre log create {log}`"))
    }
}

/// Stored in the registry's map `log.NAME`, under the key `view`.
impl MapRecord for View {
    const KEY: &'static str = "view";

    fn encode(&self) -> Vec<u8> {
        self.encode()
    }

    fn decode(encoded: &[u8]) -> Result<Self> {
        Self::decode(encoded)
    }

    fn map(log: &LogName) -> &MapName {
        log.map()
    }

    fn of_map(map: &MapName) -> Option<LogName> {
        LogName::of_map(map)
    }
}
