//! The sequencer host as a service of the wire, and the rights that its methods require.

use async_trait::async_trait;
use bytes::Bytes;
use nacre_host::split_header;
use nacre_log::{LogName, SequencerCaller, SequencerHost, is_question_of_producers};
use nacre_object::{Error, Result};
use nacre_registry::{Need, Right};
use nacre_wire::{Caller, Service};

/// Hands questions to the host.
#[derive(Debug)]
pub(super) struct SequencerService {
    host: SequencerHost,
}

impl SequencerService {
    /// A service of this host.
    pub fn new(host: SequencerHost) -> Self {
        Self { host }
    }
}

#[async_trait]
impl Service for SequencerService {
    async fn ask(&self, caller: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        let tenant = || caller.tenant();
        let caller = SequencerCaller { entity: caller.entity(), tenant: &tenant };
        self.host.handle(caller, method, input).await
    }

    fn only_waits(&self, method: &str) -> bool {
        // A follower waits for the tail to move, a holder for its grant to be revoked.
        matches!(method, "tail" | "hold")
    }
}

/// The right that a request to a log's sequencer needs.
///
/// A reader may not replace a sequencer, because it cannot tell whether the sequencer is dead. A
/// reader does not need a sequencer, either: when the sequencer is dead, the reader finds the log's
/// end by reading the log's objects. A producer cannot go on without a sequencer, so producers may
/// replace it.
pub(super) fn need_to_ask<'a>(method: &str, input: &'a [u8]) -> Result<Need<'a>> {
    let (log, ..) =
        split_header(input).ok_or_else(|| Error::invalid("the request names no log"))?;
    LogName::new(log)?;
    Ok(match method {
        "tail" => Need::LogView { log },
        _ if is_question_of_producers(method, input) => Need::Log { right: Right::Append, log },
        _ => Need::Log { right: Right::Write, log },
    })
}

#[cfg(test)]
mod tests {
    use nacre_host::recover_question;
    use nacre_registry::{Grant, Grants};

    use super::*;

    #[test]
    fn a_reader_may_read_the_tail_but_not_replace_the_sequencer() {
        let question = recover_question("l", 1);
        let may_ask = |grant: &str, method| {
            let grants: Grants = [grant.parse::<Grant>().unwrap()].into_iter().collect();
            grants.covers(&need_to_ask(method, &question).unwrap())
        };
        assert!(["r log=l", "a log=l", "w log=l"].iter().all(|grant| may_ask(grant, "tail")));
        for (method, by_producers) in [
            ("next", true),
            ("acquire", true),
            ("hold", true),
            ("return", true),
            ("recover", true),
            ("reconfigure", false),
            ("another", false),
        ] {
            assert!(!may_ask("r log=l", method) && may_ask("w log=l", method), "{method}");
            assert_eq!(may_ask("a log=l", method), by_producers, "{method}");
        }
    }

    #[test]
    fn a_request_that_names_no_log_is_refused() {
        assert!(need_to_ask("next", b"").is_err());
        assert!(need_to_ask("next", &recover_question("not a name", 1)).is_err());
    }
}
