//! How the map `entities` stores an entity: as JSON, under the entity's name.
//!
//! ```json
//! {"format": 1, "tenant": "default", "certificate": "5e88…d8", "grants": ["rw pool=data"],
//!  "created_at_micros": 1700000000000000}
//! ```
//!
//! `certificate` is the SHA-256 of the entity's certificate (DER) in hexadecimal. Only this
//! certificate is valid; older certificates of the same name are not. [`Grant`] says how `grants`
//! are written.

use bytes::Bytes;
use nacre_object::{EntityName, Error, FINGERPRINT_BYTES, Result, TenantName};
use serde::{Deserialize, Serialize};

use super::{Grant, Grants};

/// The format this release writes and reads.
const FORMAT: u32 = 1;
/// The most grants of one entity. They are all searched for each message.
const MAX_GRANTS: usize = 64;
/// The largest size of one grant in bytes. It is enough for the longest object name and the other
/// words of the grant.
const MAX_GRANT_BYTES: usize = 2048;

/// An entity that is admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// The tenant to which its requests count.
    pub tenant: TenantName,
    /// SHA-256 of its certificate.
    pub fingerprint: [u8; FINGERPRINT_BYTES],
    /// Its grants.
    pub grants: Grants,
    /// When it was added: microseconds since 1970, UTC.
    pub created_at_micros: u64,
}

#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    tenant: String,
    certificate: String,
    grants: Vec<String>,
    created_at_micros: u64,
}

/// Checks that an entity of this name may have a record. Nodes and the local entity have none: the
/// cluster's authority identifies nodes, and the kernel identifies the local entity.
///
/// # Errors
/// `Invalid` for the names of nodes and of the local entity.
pub(super) fn check_name(name: &EntityName) -> Result<()> {
    if *name == EntityName::local() || name.is_node() {
        return Err(Error::invalid(format!("the name {name} is reserved"))
            .hint("choose a name other than `local` and `node.…`"));
    }
    Ok(())
}

impl Entity {
    /// Reads an entry.
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense, `Unsupported` if another release wrote it.
    pub fn parse(name: &str, value: &[u8]) -> Result<Self> {
        let senseless = |cause: String| {
            Error::corrupt(format!("the record of entity {name} is damaged: {cause}")).hint(format!(
                "remove it with `nacre map rm entities {name} --system`, then add the entity again"
            ))
        };
        let record: Record =
            serde_json::from_slice(value).map_err(|cause| senseless(cause.to_string()))?;
        if record.format != FORMAT {
            return Err(Error::unsupported(format!(
                "the record of entity {name} has format {}, this release reads {FORMAT}",
                record.format
            ))
            .hint("use the newer nacre that wrote the record"));
        }
        let fingerprint = parse_hex(&record.certificate);
        let grants = record.grants.iter().map(|grant| grant.parse::<Grant>());
        Ok(Self {
            tenant: TenantName::new(record.tenant).map_err(|cause| senseless(cause.to_string()))?,
            fingerprint: fingerprint.ok_or_else(|| senseless("a wrong fingerprint".into()))?,
            grants: grants.collect::<Result<_>>().map_err(|cause| senseless(cause.to_string()))?,
            created_at_micros: record.created_at_micros,
        })
    }

    /// The entry.
    ///
    /// # Errors
    /// `Exhausted` past the bounds of grants.
    pub(super) fn to_value(&self) -> Result<Bytes> {
        let grants: Vec<_> = self.grants.iter().map(Grant::to_string).collect();
        if grants.len() > MAX_GRANTS {
            return Err(Error::exhausted(format!(
                "an entity can have at most {MAX_GRANTS} grants"
            ))
            .hint("use one grant instead of several: names may end in '*'"));
        }
        if grants.iter().any(|grant| grant.len() > MAX_GRANT_BYTES) {
            return Err(Error::exhausted(format!(
                "a grant can have at most {MAX_GRANT_BYTES} bytes"
            ))
            .hint("shorten its names, or end a name in '*'"));
        }
        let record = Record {
            format: FORMAT,
            tenant: self.tenant.to_string(),
            certificate: self.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect(),
            grants,
            created_at_micros: self.created_at_micros,
        };
        Ok(Bytes::from(serde_json::to_vec(&record).expect("a record has nothing JSON lacks")))
    }
}

fn parse_hex(text: &str) -> Option<[u8; FINGERPRINT_BYTES]> {
    if text.len() != 2 * FINGERPRINT_BYTES || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; FINGERPRINT_BYTES];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_object::ErrorKind;

    const SAMPLE: &str = r#"{"format":1,"tenant":"gold","certificate":"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f","grants":["rw pool=data prefix=a b","x pool=data class=counter method=add","r map=conf.*"],"created_at_micros":1700000000000000}"#;

    #[test]
    fn a_stored_sample_can_still_be_read() {
        let entity = Entity::parse("alice", SAMPLE.as_bytes()).unwrap();
        assert_eq!(entity.tenant.as_str(), "gold");
        assert_eq!(entity.fingerprint[31], 0x1f);
        assert_eq!(entity.grants.iter().count(), 3);
        assert_eq!(entity.to_value().unwrap(), SAMPLE);
    }

    #[test]
    fn a_malformed_record_and_a_too_new_one_give_different_errors() {
        let kind = |text: &str| Entity::parse("alice", text.as_bytes()).unwrap_err().kind();
        assert_eq!(kind("{"), ErrorKind::Corrupt);
        assert_eq!(kind(&SAMPLE.replace("rw pool", "all pool")), ErrorKind::Corrupt);
        assert_eq!(kind(&SAMPLE.replace("0001", "00")), ErrorKind::Corrupt);
        assert_eq!(kind(&SAMPLE.replace("\"format\":1", "\"format\":2")), ErrorKind::Unsupported);
    }

    #[test]
    fn an_entity_cannot_have_the_name_of_a_node_or_of_the_local_entity() {
        for (name, free) in [("alice", true), ("nodes", true), ("local", false), ("node.a", false)]
        {
            assert_eq!(check_name(&EntityName::new(name).unwrap()).is_ok(), free, "{name}");
        }
    }
}
