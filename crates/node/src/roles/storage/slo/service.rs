//! The service by which a node reports about latencies.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `report` | – | the node's [`TargetReport`](nacre_slo::TargetReport)s in JSON |
//! | `watch` | a [`WatchRequest`] in JSON | –; later reports contain the arrival curves of that tenant |
//! | `sent` | – | the requests that the node has sent to each target, as a JSON object of [`IoCounts`](nacre_slo::IoCounts) |
//! | `locate` | `POOL/OBJECT` | the target that receives a request on the object; on Ceph this is the primary OSD |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{Error, ObjectId, Result, TenantName};
use nacre_slo::NodeSlo;
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};

/// The name of the service.
pub const SLO_SERVICE: &str = "slo";
/// The method by which a gateway reports its counts.
pub(super) const SENT: &str = "sent";

/// The tenant whose traffic is to be watched, and for how long.
#[derive(Debug, Serialize, Deserialize)]
pub struct WatchRequest {
    /// The tenant.
    pub tenant: String,
    /// How long.
    pub seconds: f64,
}

/// Serves requests about one node's latencies.
#[derive(Debug)]
pub(super) struct SloService(pub Arc<NodeSlo>);

#[async_trait]
impl Service for SloService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "report" => {
                let report = serde_json::to_vec(&self.0.report());
                report.map(Bytes::from).map_err(|cause| Error::corrupt(cause.to_string()))
            }
            SENT => {
                let sent = self.0.sent().into_iter();
                let sent = sent.map(|(target, counts)| (target.to_string(), counts));
                let sent = serde_json::to_vec(&sent.collect::<BTreeMap<_, _>>());
                sent.map(Bytes::from).map_err(|cause| Error::corrupt(cause.to_string()))
            }
            "watch" => {
                let request: WatchRequest = serde_json::from_slice(&input)
                    .map_err(|cause| Error::invalid(format!("the input is malformed: {cause}")))?;
                let time = Duration::try_from_secs_f64(request.seconds).map_err(|_| {
                    Error::invalid(format!(
                        "the time to watch, {} s, is out of range",
                        request.seconds
                    ))
                })?;
                self.0.watch(&TenantName::new(request.tenant)?, time).map(|()| Bytes::new())
            }
            "locate" => {
                let object = std::str::from_utf8(&input)
                    .map_err(|_| Error::invalid("the input is not a UTF-8 string"))?;
                let target = self.0.target_of(&object.parse::<ObjectId>()?).await?;
                Ok(Bytes::from(target.to_string()))
            }
            _ => Err(Error::unsupported(format!("the service slo has no method {method:?}"))
                .hint("run one release of nacre on clients and nodes")),
        }
    }
}
