//! `SourceMatch`: the sources whose IO a rule matches.

use std::fmt;

use nacre_object::{EntityName, Error, Result, TenantName};

use super::{Io, LayerName};

/// Some sources of IO.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceMatch {
    /// From anywhere, layers included.
    Any,
    /// From this entity, as authenticated.
    Entity(EntityName),
    /// From an entity of this tenant.
    Tenant(TenantName),
    /// IO that this layer sends, whoever sent it to the layer (`<C, *, X>` in the sRoute paper,
    /// section 3.4).
    Layer(LayerName),
}

impl SourceMatch {
    /// Whether an IO comes from this source.
    pub fn matches(&self, io: &Io) -> bool {
        match self {
            Self::Any => true,
            Self::Entity(entity) => *entity == io.source,
            Self::Tenant(tenant) => *tenant == io.tenant,
            Self::Layer(layer) => Some(layer) == io.via.as_ref(),
        }
    }

    /// Whether this source certainly matches every IO that `other` matches. Only their kinds and
    /// names are compared.
    pub fn covers(&self, other: &Self) -> bool {
        *self == Self::Any || self == other
    }

    /// Parses `*`, `entity:NAME`, `tenant:NAME` or `layer:NAME`.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        match text.split_once(':') {
            Some(("entity", name)) => Ok(Self::Entity(name.parse()?)),
            Some(("tenant", name)) => Ok(Self::Tenant(name.parse()?)),
            Some(("layer", name)) => Ok(Self::Layer(name.parse()?)),
            None if text == "*" => Ok(Self::Any),
            _ => Err(Error::invalid(format!("{text:?} is no source"))
                .hint("write *, entity:NAME, tenant:NAME or layer:NAME")),
        }
    }
}

impl fmt::Display for SourceMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Entity(name) => write!(f, "entity:{name}"),
            Self::Tenant(name) => write!(f, "tenant:{name}"),
            Self::Layer(name) => write!(f, "layer:{name}"),
        }
    }
}
