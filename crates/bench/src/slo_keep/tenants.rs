//! The tenants of `slo-keep`: what each is promised, and for which traffic.

use nacre::Cluster;
use nacre_object::{Error, PoolName, Result, TargetName, TenantName};
use nacre_qos::IoKind;
use nacre_slo::{Ask, Outcome, Rate, Spread, StoredProfile, Traffic};

/// What a tenant does with its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conduct {
    /// It sends no more than it asked for.
    Conforms,
    /// It sends as much as it can.
    Bursts,
}

/// A tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenant {
    pub name: &'static str,
    pub conduct: Conduct,
    /// The tenant's SLO in the thesis. It is scaled to this machine's speed.
    pub seconds: f64,
    /// The part of every target's time that the tenant asks for.
    share: f64,
    /// The size of its requests.
    pub bytes: u64,
    /// How many requests the tenant may send at once.
    pub burst: u32,
}

/// The tenants of the bench. All are admitted; the last one then sends far more than it asked for.
pub(super) const TENANTS: [Tenant; 3] = [
    Tenant {
        name: "gold",
        conduct: Conduct::Conforms,
        seconds: 0.3,
        share: 0.10,
        bytes: 4096,
        burst: 8,
    },
    Tenant {
        name: "silver",
        conduct: Conduct::Conforms,
        seconds: 0.4,
        share: 0.15,
        bytes: 4096,
        burst: 8,
    },
    Tenant {
        name: "bulk",
        conduct: Conduct::Bursts,
        seconds: 0.5,
        share: 0.20,
        bytes: 256 << 10,
        burst: 2,
    },
];

/// While some tenant is refused, the bench multiplies the scale of the SLOs by this factor.
const SCALE_STEP: f64 = 1.1;
/// The scale that the bench tries first.
const LEAST_SCALE: f64 = 0.1;
/// The bench tries only smaller scales. With a larger one, the longest SLO would be longer than any
/// latency that can be promised.
const MOST_SCALE: f64 = 36.0;

/// A promise to each tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promises {
    /// The promised latencies are those of the thesis times this factor.
    pub scale: f64,
    /// Requests a second of each tenant.
    pub rates: [f64; TENANTS.len()],
}

impl Promises {
    /// The promised latency of a tenant.
    pub fn slo_seconds(&self, tenant: &Tenant) -> f64 {
        self.scale * tenant.seconds
    }

    /// Makes a pool for each tenant, and promises a latency to each. Scales the latencies of the
    /// thesis by one factor, the smallest with which all tenants are admitted.
    ///
    /// # Errors
    /// `Exhausted` if no latency can be promised; `Unavailable`.
    pub async fn make(cluster: &Cluster, profiles: &[(TargetName, StoredProfile)]) -> Result<Self> {
        for tenant in &TENANTS {
            let pool = PoolName::new(tenant.name)?;
            cluster.create_pool(&pool).await?;
            cluster.slos().set_pool(&pool, Some(&TenantName::new(tenant.name)?)).await?;
        }
        let rates = TENANTS.map(|tenant| rate(&tenant, profiles));
        let mut promises = Self { scale: LEAST_SCALE, rates };
        while promises.scale < MOST_SCALE {
            if promises.admit(cluster).await? {
                return Ok(promises);
            }
            promises.scale *= SCALE_STEP;
        }
        Err(Error::exhausted("the targets are too slow to promise these tenants a latency")
            .hint("measure when the machine does nothing else"))
    }

    /// Admits all tenants, or none.
    async fn admit(&self, cluster: &Cluster) -> Result<bool> {
        let mut admitted = vec![];
        for (tenant, per_second) in TENANTS.iter().zip(self.rates) {
            let name = TenantName::new(tenant.name)?;
            let rate =
                Rate { kind: IoKind::Write, bytes: tenant.bytes, per_second, burst: tenant.burst };
            let ask = Ask {
                client_link: None,
                tenant: name.clone(),
                slo_seconds: self.slo_seconds(tenant),
                violation: None,
                percentile: 99.9,
                traffic: Traffic::Rate(rate, Spread::Even),
                replaces: false,
            };
            if let Outcome::Refused(_) = cluster.slos().admit(&ask).await? {
                for name in &admitted {
                    cluster.slos().evict(name).await?;
                }
                return Ok(false);
            }
            admitted.push(name);
        }
        Ok(true)
    }
}

/// The rate that a tenant asks for, in requests a second on all targets together. At this rate it
/// uses its share of the slowest target's time.
fn rate(tenant: &Tenant, profiles: &[(TargetName, StoredProfile)]) -> f64 {
    let work =
        |(_, stored): &(_, StoredProfile)| stored.profile.work_seconds(IoKind::Write, tenant.bytes);
    let slowest = profiles.iter().map(work).fold(0.0, f64::max);
    tenant.share / slowest * profiles.len() as f64
}
