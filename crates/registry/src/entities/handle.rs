//! `Entities`: adds, changes and revokes entities. The caller must be allowed to commit to their
//! map.

use nacre_object::{EntityName, Error, FINGERPRINT_BYTES, MapName, Result, TenantName};

use super::record::check_name;
use super::{Entity, Grant, Grants};
use crate::maps::{Change, ENTITIES_MAP, MapState, Maps};

/// The entities of a cluster. Clones are handles to the same entities.
///
/// Each change commits to the map `entities` and returns the epoch that the commit began. The
/// change is in force on a node once the node has read that epoch; see
/// [`LiveEntities::reached`](super::LiveEntities::reached).
#[derive(Debug, Clone)]
pub struct Entities {
    maps: Maps,
}

/// The map that keeps entities.
pub fn entities_map() -> MapName {
    MapName::new(ENTITIES_MAP).expect("a well-formed literal")
}

impl Entities {
    /// The entities kept in these maps.
    pub fn new(maps: Maps) -> Self {
        Self { maps }
    }

    /// Every entity, by name.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`; `Denied`.
    pub async fn list(&self) -> Result<Vec<(EntityName, Entity)>> {
        let state = self.maps.get(&entities_map()).await?;
        let parse = |(name, value): (&String, &bytes::Bytes)| {
            Ok((EntityName::new(name)?, Entity::parse(name, value)?))
        };
        state.entries.iter().map(parse).collect()
    }

    /// Adds an entity, so that nodes admit it from now on.
    ///
    /// # Errors
    /// `Exists` if there is an entity of that name; `Invalid` for a name that nacre reserves; those
    /// of [`Maps::update`].
    pub async fn add(&self, name: &EntityName, entity: &Entity) -> Result<u64> {
        check_name(name)?;
        let update = |state: &MapState| {
            if state.entries.contains_key(name.as_str()) {
                return Err(Error::exists(format!("the entity {name} already exists"))
                    .hint("give it grants with `nacre entity grant`, or revoke it first"));
            }
            Ok(vec![Change::set(name.as_str(), entity.to_value()?)])
        };
        self.maps.update(&entities_map(), update).await
    }

    /// Adds the first administrator if the map `entities` has never had an entry. Returns whether
    /// this administrator is an entity of the cluster afterwards.
    ///
    /// # Errors
    /// Errors of [`Maps::update`].
    pub async fn found(
        &self,
        name: &EntityName,
        fingerprint: [u8; FINGERPRINT_BYTES],
        created_at_micros: u64,
    ) -> Result<bool> {
        let admin = Entity {
            tenant: TenantName::standard(),
            fingerprint,
            grants: Grants::from_iter([Grant::Admin]),
            created_at_micros,
        };
        let value = admin.to_value()?;
        let mut is_in = false;
        let update = |state: &MapState| {
            let first = state.epoch == 0;
            is_in = first || find(state, name).is_ok_and(|known| known.fingerprint == fingerprint);
            let change = Change::set(name.as_str(), value.clone());
            Ok(if first { vec![change] } else { vec![] })
        };
        self.maps.update(&entities_map(), update).await?;
        Ok(is_in)
    }

    /// Changes an entity.
    ///
    /// # Errors
    /// `NotFound`; that of `change`; errors of [`Maps::update`].
    pub async fn change(
        &self,
        name: &EntityName,
        mut change: impl FnMut(&mut Entity) -> Result<()>,
    ) -> Result<u64> {
        let update = |state: &MapState| {
            let mut entity = find(state, name)?;
            let before = entity.clone();
            change(&mut entity)?;
            let changed = Change::set(name.as_str(), entity.to_value()?);
            Ok(if entity == before { vec![] } else { vec![changed] })
        };
        self.maps.update(&entities_map(), update).await
    }

    /// Removes an entity and ends its sessions. Its certificate never becomes valid again, even if
    /// an entity of the same name is added later.
    ///
    /// # Errors
    /// `NotFound`; errors of [`Maps::update`].
    pub async fn revoke(&self, name: &EntityName) -> Result<u64> {
        let update = |state: &MapState| {
            find(state, name)?;
            Ok(vec![Change::remove(name.as_str())])
        };
        self.maps.update(&entities_map(), update).await
    }
}

fn find(state: &MapState, name: &EntityName) -> Result<Entity> {
    match state.entries.get(name.as_str()) {
        Some(value) => Entity::parse(name.as_str(), value),
        None => Err(Error::not_found(format!("there is no entity {name}"))
            .hint("see all entities with `nacre entity ls`")),
    }
}
