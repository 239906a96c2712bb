//! Names, parsed at the border: one that exists is well formed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits::{MAX_IDENTIFIER_BYTES, MAX_OBJECT_NAME_BYTES};
use crate::{Error, Result};

fn check_identifier(what: &str, text: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || text.len() > MAX_IDENTIFIER_BYTES || !text.chars().all(allowed) {
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        return Err(Error::invalid(format!("{text:?} is not {article} {what} name"))
            .hint(format!("use 1 to {MAX_IDENTIFIER_BYTES} letters, digits, '.', '_' or '-'")));
    }
    Ok(())
}

fn check_object_name(text: &str) -> Result<()> {
    if text.is_empty() || text.len() > MAX_OBJECT_NAME_BYTES || text.contains('\0') {
        return Err(Error::invalid(format!("{text:?} is not an object name"))
            .hint(format!("use 1 to {MAX_OBJECT_NAME_BYTES} bytes of UTF-8 without NUL")));
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and makes a name of it.
            ///
            /// # Errors
            /// `Invalid` if it is empty, too long or holds a forbidden character.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                let check: fn(&str) -> Result<()> = $check;
                check(text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// A pool: a set of objects placed by one rule.
    PoolName,
    |text| check_identifier("pool", text)
);
name_type!(
    /// An object's name within its pool.
    ///
    /// If the name contains `{tag}`, placement uses only the tag. So objects with the same tag are
    /// on the same target, and can be cloned into each other.
    ObjectName,
    check_object_name
);
name_type!(
    /// A class: a program that adds methods to objects.
    ClassName,
    |text| check_identifier("class", text)
);
name_type!(
    /// A method of a class.
    MethodName,
    |text| check_identifier("method", text)
);
name_type!(
    /// A snapshot of one object.
    SnapshotName,
    |text| check_identifier("snapshot", text)
);
name_type!(
    /// A storage target: a process that keeps objects.
    TargetName,
    |text| check_identifier("target", text)
);
name_type!(
    /// Whose request it is, as authenticated.
    EntityName,
    |text| check_identifier("entity", text)
);
name_type!(
    /// Who is promised a tail latency.
    TenantName,
    |text| check_identifier("tenant", text)
);
name_type!(
    /// A map: epoch-numbered service metadata.
    MapName,
    |text| check_identifier("map", text)
);
name_type!(
    /// A program of some kind; kinds have separate names.
    ProgramName,
    |text| check_identifier("program", text)
);
name_type!(
    /// A node: a process that serves the cluster in one or more roles.
    NodeName,
    |text| check_identifier("node", text)
);
name_type!(
    /// A layer of the IO path: the *stage* of the sRoute paper (section 3.3).
    LayerName,
    |text| check_identifier("layer", text)
);
name_type!(
    /// A switch: the layer that applies routes.
    SwitchName,
    |text| check_identifier("switch", text)
);
name_type!(
    /// A control application, which wants routes.
    ApplicationName,
    |text| check_identifier("application", text)
);

impl PoolName {
    /// The names of nacre's own pools begin with it.
    pub const OWN_PREFIX: &str = "nacre.";

    /// The pool in which nacre keeps maps, programs and everything else it knows.
    pub fn system() -> Self {
        Self("nacre.system".into())
    }

    /// Whether the pool is one of nacre's own. Clients cannot create such pools.
    pub fn is_own(&self) -> bool {
        self.as_str().starts_with(Self::OWN_PREFIX)
    }
}

/// Before a node's name in its name as an entity.
const NODE_ENTITY_PREFIX: &str = "node.";

impl EntityName {
    /// The entity of the user who runs the node. Every process of that user on the node's computer
    /// acts as this entity.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// Returns the entity name of a node: `node.NAME`.
    ///
    /// # Errors
    /// `Invalid` if the result is too long.
    pub fn of_node(node: &NodeName) -> Result<Self> {
        Self::new(format!("{NODE_ENTITY_PREFIX}{node}"))
    }

    /// Whether it is a node's.
    pub fn is_node(&self) -> bool {
        self.as_str().starts_with(NODE_ENTITY_PREFIX)
    }
}

impl TenantName {
    /// The tenant of entities that were given no other.
    pub fn standard() -> Self {
        Self("default".into())
    }
}

impl ObjectName {
    /// Returns the string that placement hashes. It is the part between the first `{` and the next
    /// `}` if that part is not empty, else the whole name.
    pub fn placement_key(&self) -> &str {
        let text = self.as_str();
        let tag = text.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        match tag {
            Some((tag, _)) if !tag.is_empty() => tag,
            _ => text,
        }
    }
}

/// An object: a name in a pool. Written `pool/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The pool.
    pub pool: PoolName,
    /// The name within it; it may hold further slashes.
    pub name: ObjectName,
}

impl ObjectId {
    /// The object `name` of `pool`.
    pub fn new(pool: PoolName, name: ObjectName) -> Self {
        Self { pool, name }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pool.as_str())?;
        f.write_str("/")?;
        f.write_str(self.name.as_str())
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (pool, name) = text.split_once('/').ok_or_else(|| {
            Error::invalid(format!("{text:?} does not name an object")).hint("write POOL/OBJECT")
        })?;
        Ok(Self::new(pool.parse()?, name.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_name_may_hold_slashes_and_any_text_but_nul() {
        let id: ObjectId = "data/a/b ü".parse().unwrap();
        assert_eq!((id.pool.as_str(), id.name.as_str()), ("data", "a/b ü"));
        assert!("data/".parse::<ObjectId>().is_err());
        assert!("data".parse::<ObjectId>().is_err());
        assert!("da ta/x".parse::<ObjectId>().is_err());
        assert!(ObjectName::new("a\0b").is_err());
        assert!(ObjectName::new("x".repeat(MAX_OBJECT_NAME_BYTES + 1)).is_err());
    }

    #[test]
    fn only_the_tag_of_a_name_decides_placement() {
        let key = |text| ObjectName::new(text).unwrap().placement_key().to_owned();
        assert_eq!(key("a{t}b"), "t");
        assert_eq!(key("{t}"), "t");
        assert_eq!(key("a{}b"), "a{}b");
        assert_eq!(key("a{b"), "a{b");
    }
}
