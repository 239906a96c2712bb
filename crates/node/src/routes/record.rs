//! The record of the rules by which a node routes IO. The controller stores the record before it
//! installs the rules in the switch.
//!
//! The record is a JSON object on the node's own target. So a node that restarts can find out
//! without another node where bytes of its objects may lie.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{
    Error, ErrorKind, ObjectId, Op, OpResult, Request, Result, Stack, Store, TargetName,
};
use nacre_route::{
    Declared, Destination, Followed, ObjectMatch, Programs, Record, Rule, SwitchName, Term, Wanted,
};
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord {
    format: u32,
    term: u64,
    /// Objects whose bytes may be away, and where.
    followed: Vec<(String, String)>,
    /// Insertions of rules, each with its application.
    insertions: Vec<Vec<(String, String)>>,
    /// For each of these rules, the only target whose objects it concerns. Empty if no rule has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    homes: Vec<Vec<Option<String>>>,
    /// The programs that rules name, each with the destinations that it declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    programs: BTreeMap<String, StoredDeclared>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredDeclared {
    version: u64,
    destinations: Vec<String>,
}

/// Reads the record of a node. Returns an empty record if none is stored.
///
/// # Errors
/// The errors of the store; `Corrupt` if the record is malformed.
pub(super) async fn load(store: &Stack, object: &ObjectId, switch: &SwitchName) -> Result<Record> {
    let op = Op::Read { offset: 0, length: MAX_REPLY_BYTES as u64 };
    let reply = match store.submit(Request::new(object.clone(), vec![op])?).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Record::default()),
        reply => reply?,
    };
    let Some(OpResult::Data(data)) = reply.results.into_iter().next() else {
        return Err(Error::corrupt("the stored record of routes is empty")
            .on(object)
            .hint("`nacre scrub` lists damaged objects; restore them from a copy"));
    };
    decode(&data, switch).map_err(|error| error.on(object))
}

/// Stores it durably.
///
/// # Errors
/// Those of the store; `Exhausted` if it is too long.
pub(super) async fn store(
    store: &Stack,
    object: &ObjectId,
    switch: &SwitchName,
    record: &Record,
) -> Result<()> {
    let data = encode(record, switch)?;
    store.submit(Request::new(object.clone(), vec![Op::WriteFull { data }])?).await.map(drop)
}

fn encode(record: &Record, switch: &SwitchName) -> Result<Bytes> {
    let rules = record.wanted.rules.get(switch).cloned().unwrap_or_default();
    let rule = |rule: &Rule| (rule.application.to_string(), rule.to_string());
    let followed = |one: &Followed| (one.object.to_string(), one.destination.to_string());
    let declared = |(name, one): (&nacre_object::ProgramName, &Declared)| {
        let destinations = one.destinations.iter().map(ToString::to_string).collect();
        (name.to_string(), StoredDeclared { version: one.version, destinations })
    };
    let home = |rule: &Rule| rule.header.home.as_ref().map(ToString::to_string);
    let has_homes = rules.iter().flatten().any(|rule| rule.header.home.is_some());
    let homes = rules.iter().map(|rules| rules.iter().map(home).collect());
    let stored = StoredRecord {
        format: FORMAT,
        term: record.term.0,
        followed: record.followed.iter().map(followed).collect(),
        insertions: rules.iter().map(|rules| rules.iter().map(rule).collect()).collect(),
        homes: if has_homes { homes.collect() } else { vec![] },
        programs: record.wanted.programs.iter().map(declared).collect(),
    };
    let text = serde_json::to_vec(&stored).map_err(|cause| Error::invalid(cause.to_string()))?;
    match text.len() <= MAX_REPLY_BYTES {
        true => Ok(Bytes::from(text)),
        false => Err(Error::exhausted(format!("the rules of a node take {} bytes", text.len()))
            .hint(format!("use fewer rules: {MAX_REPLY_BYTES} bytes at most"))),
    }
}

fn decode(data: &[u8], switch: &SwitchName) -> Result<Record> {
    let senseless = |cause: String| {
        Error::corrupt(format!("the stored record of routes is malformed: {cause}"))
            .hint("`nacre scrub` lists damaged objects; restore them from a copy")
    };
    let stored: StoredRecord =
        serde_json::from_slice(data).map_err(|cause| senseless(cause.to_string()))?;
    if stored.format != FORMAT {
        let text = format!(
            "the record of routes has format {}, and this version of nacre reads only {FORMAT}",
            stored.format
        );
        return Err(Error::unsupported(text).hint("use a newer nacre"));
    }
    let rule =
        |(application, rule): &(String, String)| Rule::from_line(&application.parse()?, rule);
    let insertion = |rules: &Vec<_>| rules.iter().map(rule).collect::<Result<Vec<_>>>();
    let mut insertions = stored.insertions.iter().map(insertion).collect::<Result<Vec<_>>>()?;
    for (rules, homes) in insertions.iter_mut().zip(&stored.homes) {
        for (rule, home) in rules.iter_mut().zip(homes) {
            rule.header.home = home.as_deref().map(TargetName::new).transpose()?;
        }
    }
    let followed = |(object, destination): &(String, String)| {
        Ok(Followed {
            object: ObjectMatch::parse(object)?,
            destination: Destination::from_line(destination)?,
        })
    };
    let followed = stored.followed.iter().map(followed).collect::<Result<_>>()?;
    let rules = [(switch.clone(), insertions)].into();
    let mut programs = Programs::new();
    for (name, StoredDeclared { version, destinations }) in &stored.programs {
        let destinations = destinations.iter().map(|line| Destination::from_line(line));
        let destinations = destinations.collect::<Result<_>>()?;
        programs.insert(name.parse()?, Declared { version: *version, destinations });
    }
    let wanted = Wanted { rules, programs, ..Wanted::default() };
    Ok(Record { term: Term(stored.term), wanted, followed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_stored() {
        let switch: SwitchName = "storage.0".parse().unwrap();
        let rule = |text| Rule::from_line(&"tail".parse().unwrap(), text).unwrap();
        let mut insertions = vec![vec![
            rule("* w data/a\\ b* 0..4KiB -> target storage.1 follow"),
            rule("* w data/c* -> program spread follow"),
        ]];
        insertions[0][1].header.home = Some("osd.3".parse().unwrap());
        let destinations = ["home", "target storage.2"];
        let destinations = destinations.map(|to| Destination::from_line(to).unwrap()).to_vec();
        let programs = [("spread".parse().unwrap(), Declared { version: 3, destinations })].into();
        let rules = [(switch.clone(), insertions)].into();
        let wanted = Wanted { rules, programs, ..Wanted::default() };
        let record = Record::default().next(wanted).unwrap();
        assert_eq!(record.followed.len(), 3, "a program may send bytes to all that it declares");
        let read = decode(&encode(&record, &switch).unwrap(), &switch).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn a_malformed_record_is_corrupt() {
        let error = decode(b"{", &"s".parse().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
