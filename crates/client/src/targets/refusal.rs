//! Decides whether a target may serve from its folder. It does no IO.

use super::record::{Found, TargetIdentity};

/// Why a target must not serve from its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The folder is missing or empty, though the target was made.
    Empty,
    /// The folder belongs to another cluster.
    OtherCluster {
        /// The target's name there.
        target: String,
    },
    /// The folder belongs to another target of the same cluster.
    OtherTarget {
        /// The other target.
        target: String,
    },
    /// The folder belongs to a former target of the same name, whose data an operator gave up.
    Forgotten,
    /// The folder holds data and does not say whose.
    Unidentified,
    /// The folder's identity cannot be read, for this reason.
    Unreadable(String),
}

/// Decides whether the target with identity `expected` may serve from a folder with identity
/// `found`. `holds_store` says whether the folder holds a store. `expected` is `None` if another
/// system keeps the data.
///
/// # Errors
/// The reason why the target must not serve.
pub(super) fn judge(
    expected: Option<&TargetIdentity>,
    found: &Found,
    holds_store: bool,
) -> Result<(), Refusal> {
    let Some(expected) = expected else { return Ok(()) };
    let record = match found {
        Found::Record(record) => record,
        Found::Nothing if holds_store => return Err(Refusal::Unidentified),
        Found::Nothing => return Err(Refusal::Empty),
        Found::Unreadable(reason) => return Err(Refusal::Unreadable(reason.clone())),
    };
    let identity = &record.identity;
    if identity.cluster != expected.cluster {
        return Err(Refusal::OtherCluster { target: identity.target.clone() });
    }
    if identity.target != expected.target {
        return Err(Refusal::OtherTarget { target: identity.target.clone() });
    }
    if identity.id != expected.id {
        return Err(Refusal::Forgotten);
    }
    match record.has_data && !holds_store {
        true => Err(Refusal::Empty),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::TargetRecord;
    use super::super::unique_id::UniqueId;
    use super::*;

    #[test]
    fn a_target_serves_from_its_own_folder_alone() {
        let id = |digit: &str| digit.repeat(32).parse::<UniqueId>().unwrap();
        let identity = |cluster, target: &str, of_target| TargetIdentity {
            cluster: id(cluster),
            target: target.into(),
            id: id(of_target),
        };
        let record = |identity, has_data| Found::Record(TargetRecord::new(identity, has_data));
        let own = || identity("c", "storage.2", "2");
        let (store, no_store) = (true, false);
        let other_target = Err(Refusal::OtherTarget { target: "storage.1".into() });
        let other_cluster = Err(Refusal::OtherCluster { target: "storage.2".into() });
        let table = [
            ("a new target", record(own(), false), no_store, Ok(())),
            ("a crash after the first opening", record(own(), false), store, Ok(())),
            ("the usual start", record(own(), true), store, Ok(())),
            ("all but the identity is lost", record(own(), true), no_store, Err(Refusal::Empty)),
            ("a lost folder", Found::Nothing, no_store, Err(Refusal::Empty)),
            ("data of nobody", Found::Nothing, store, Err(Refusal::Unidentified)),
            (
                "two swapped folders",
                record(identity("c", "storage.1", "1"), true),
                store,
                other_target,
            ),
            (
                "a foreign folder",
                record(identity("d", "storage.2", "2"), true),
                store,
                other_cluster,
            ),
            (
                "a forgotten target's folder",
                record(identity("c", "storage.2", "3"), true),
                store,
                Err(Refusal::Forgotten),
            ),
            (
                "a damaged identity",
                Found::Unreadable("EOF".into()),
                store,
                Err(Refusal::Unreadable("EOF".into())),
            ),
        ];
        for (name, found, holds_store, outcome) in table {
            assert_eq!(judge(Some(&own()), &found, holds_store), outcome, "{name}");
            assert_eq!(
                judge(None, &found, holds_store),
                Ok(()),
                "{name}, where another system keeps the data"
            );
        }
    }
}
