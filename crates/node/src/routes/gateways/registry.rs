//! `GatewayRegistry`: the map `route-gateways`.
//!
//! | key | value, in JSON |
//! | --- | --- |
//! | `gateway/NODE` | a [`GatewayEntry`] |
//! | `router` | a [`RouterEntry`]; it changes together with the lease |
//! | `@keeper` | the lease of the router ([`Lease`](crate::lease::Lease)) |

use std::collections::BTreeMap;

use nacre_object::{Error, MapName, Result};
use nacre_registry::{Change, MapState, Maps, ROUTE_GATEWAYS_MAP};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const GATEWAY_PREFIX: &str = "gateway/";
const ROUTER_KEY: &str = "router";

/// A gateway that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GatewayEntry {
    pub incarnation: u64,
    /// Its address in the Ceph cluster, by which it can be shut out.
    pub address: String,
    /// The epoch of the map `routes` that it has acknowledged.
    pub epoch: u64,
    /// If it is the router: the epoch whose rules it has installed; otherwise 0.
    pub applied: u64,
}

/// The gateway that routes IO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RouterEntry {
    pub node: String,
    pub incarnation: u64,
    pub address: String,
    /// The addresses of former routers that may not be shut out yet.
    pub former: Vec<String>,
}

/// What the map says.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub map: MapState,
    pub gateways: BTreeMap<String, GatewayEntry>,
    pub router: Option<RouterEntry>,
}

impl Registered {
    /// # Errors
    /// `Corrupt` if an entry is malformed.
    pub fn of(map: MapState) -> Result<Self> {
        let (mut gateways, mut router) = (BTreeMap::new(), None);
        for (key, value) in &map.entries {
            if let Some(node) = key.strip_prefix(GATEWAY_PREFIX) {
                gateways.insert(node.to_owned(), decode(key, value)?);
            } else if key == ROUTER_KEY {
                router = Some(decode(key, value)?);
            }
        }
        Ok(Self { map, gateways, router })
    }

    /// The entry of the router, if it serves.
    pub fn serving_router(&self) -> Option<&GatewayEntry> {
        let router = self.router.as_ref()?;
        let entry = self.gateways.get(&router.node)?;
        (entry.incarnation == router.incarnation).then_some(entry)
    }
}

fn decode<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|cause| {
        let text = format!("the entry {key} of the map {ROUTE_GATEWAYS_MAP} is malformed: {cause}");
        Error::corrupt(text)
            .hint(format!("remove it: nacre map rm {ROUTE_GATEWAYS_MAP} --system {key}"))
    })
}

fn set(key: String, value: &impl Serialize) -> Result<Change> {
    let text = serde_json::to_vec(value).map_err(|cause| Error::invalid(cause.to_string()))?;
    Ok(Change::set(key, text))
}

/// The change that sets the entry of a gateway.
pub(super) fn set_gateway(node: &str, entry: &GatewayEntry) -> Result<Change> {
    set(format!("{GATEWAY_PREFIX}{node}"), entry)
}

/// The change that removes the entry of a gateway.
pub(super) fn remove_gateway(node: &str) -> Change {
    Change::remove(format!("{GATEWAY_PREFIX}{node}"))
}

/// The change that names the router.
pub(super) fn set_router(entry: &RouterEntry) -> Result<Change> {
    set(ROUTER_KEY.to_owned(), entry)
}

/// The map, for the gateways.
#[derive(Debug, Clone)]
pub(super) struct GatewayRegistry {
    maps: Maps,
    name: MapName,
}

impl GatewayRegistry {
    pub fn new(maps: Maps) -> Result<Self> {
        Ok(Self { maps, name: ROUTE_GATEWAYS_MAP.parse()? })
    }

    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn read(&self) -> Result<Registered> {
        Registered::of(self.maps.get(&self.name).await?)
    }

    /// Commits changes that `decide` derives from the present contents.
    ///
    /// # Errors
    /// Those of `decide`; `Unavailable`.
    pub async fn update(
        &self,
        mut decide: impl FnMut(&Registered) -> Result<Vec<Change>>,
    ) -> Result<()> {
        let update = |map: &MapState| decide(&Registered::of(map.clone())?);
        self.maps.update(&self.name, update).await.map(drop)
    }
}
