//! An object that its class divides among stripes. Each stripe is an object of its own.
//!
//! The class's source declares the stripes (`layout … stripes: 8`), and `nacre_brados::stripes`
//! says which stripes carry a request out.
//!
//! - A request to one stripe is one transaction.
//! - A request to all stripes is one transaction on each stripe, all sent at the same time. Other
//!   requests may run in between. If the request fails, some stripes may have carried it out. The
//!   caller may then send it again, until all stripes have carried it out.
//!
//! A stripe refuses a call as stale if another version of the class is active. The client then
//! loads that version and sends the call again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures::stream::{self, StreamExt};
use nacre_brados::layout::Stripes;
use nacre_brados::stripes::{Striping, striping};
use nacre_brados::{Compiled, is_brados};
use nacre_calls::{OutputRows, Value, decode_reply, encode_request};
use nacre_object::{ClassCall, ClassName, Error, ErrorKind, ObjectId, Result};
use nacre_registry::{ProgramId, ProgramKind};

use crate::Cluster;

/// Stripes that are asked at once.
const MAX_ASKED: usize = 64;

/// A handle to a striped object.
#[derive(Debug)]
pub struct Striped {
    cluster: Cluster,
    object: ObjectId,
    class: ClassName,
    known: RwLock<Arc<Version>>,
}

/// A version of a class that divides objects.
#[derive(Debug)]
struct Version {
    /// A stripe refuses calls of any version but its active one.
    number: u64,
    compiled: Compiled,
    striping: Striping,
}

/// What the stripes replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripedReply {
    /// The merged rows of all stripes, in order.
    pub outputs: Vec<OutputRows>,
    /// The outputs that are not merged but reported for each stripe, by the stripe's name.
    pub apart: BTreeMap<String, Vec<OutputRows>>,
}

/// What a stripe replied.
struct StripeReply {
    stripe: String,
    outcome: Result<Vec<OutputRows>>,
}

impl StripeReply {
    /// It has not carried the request out.
    fn is_stale(&self) -> bool {
        self.outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stale)
    }
}

impl Striped {
    /// Opens a striped object. Returns `None` if the active version of its class does not divide
    /// objects among stripes.
    ///
    /// # Errors
    /// `Denied` if the caller may not read programs; `Unavailable`.
    pub async fn open(
        cluster: &Cluster,
        object: &ObjectId,
        class: &ClassName,
    ) -> Result<Option<Self>> {
        let Some(version) = Version::active(cluster, class).await? else { return Ok(None) };
        let (cluster, object, class) = (cluster.clone(), object.clone(), class.clone());
        let known = RwLock::new(Arc::new(version));
        Ok(Some(Self { cluster, object, class, known }))
    }

    fn known(&self) -> Arc<Version> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The names of the stripes that carry a request out.
    ///
    /// # Errors
    /// `Invalid` if there is no such method, or if `row` does not determine a stripe.
    pub fn stripes_of(&self, method: &str, row: &[Value]) -> Result<Vec<String>> {
        Ok(self.known().route(&self.object, method, row)?.0)
    }

    /// Sends a request to each stripe that it concerns.
    ///
    /// # Errors
    /// The first error of any stripe, once all have answered; `Stale` if the active version of the
    /// class divides objects in another way.
    pub async fn call(&self, method: &str, row: &[Value]) -> Result<StripedReply> {
        let mut version = self.known();
        let (names, mut apart) = version.route(&self.object, method, row)?;
        let mut replies = self.call_stripes(&version, names, method, row).await;
        while replies.iter().any(StripeReply::is_stale)
            && let Some(later) = self.later_than(&version).await?
        {
            version = later;
            (_, apart) = version.route(&self.object, method, row)?;
            // The other stripes have carried the request out.
            let stale = replies.iter_mut().filter(|reply| reply.is_stale());
            let (names, stale): (Vec<_>, Vec<_>) =
                stale.map(|reply| (reply.stripe.clone(), &mut reply.outcome)).unzip();
            let again = self.call_stripes(&version, names, method, row).await;
            stale.into_iter().zip(again).for_each(|(outcome, again)| *outcome = again.outcome);
        }
        united(replies, &apart)
    }

    /// Loads the active version of the class. Returns `None` if it is `known`, or if it divides
    /// objects among stripes in another way.
    async fn later_than(&self, known: &Version) -> Result<Option<Arc<Version>>> {
        let now = Version::active(&self.cluster, &self.class).await?;
        let now = now.filter(|now| now.number != known.number && now.divides_like(known));
        Ok(now.map(|now| {
            let now = Arc::new(now);
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
            now
        }))
    }

    /// Waits for the replies of all these stripes. Returns them in the order of `names`.
    async fn call_stripes(
        &self,
        version: &Version,
        names: Vec<String>,
        method: &str,
        row: &[Value],
    ) -> Vec<StripeReply> {
        let asked = names.into_iter().map(async |stripe| {
            let outcome = self.call_stripe(version, &stripe, method, row).await;
            StripeReply { stripe, outcome }
        });
        stream::iter(asked).buffered(MAX_ASKED).collect().await
    }

    async fn call_stripe(
        &self,
        version: &Version,
        name: &str,
        method: &str,
        row: &[Value],
    ) -> Result<Vec<OutputRows>> {
        let id = ObjectId::new(self.object.pool.clone(), name.parse()?);
        let object = self.cluster.object(&id).await?;
        let call = ClassCall {
            class: self.class.clone(),
            method: method.parse()?,
            version: Some(version.number),
            input: encode_request(row).into(),
        };
        let reply = object.call_version(call).await?;
        decode_reply(&reply.output).map_err(|error| Error::corrupt(error.to_string()))
    }
}

impl Version {
    /// The active one; `None` if it divides nothing.
    async fn active(cluster: &Cluster, class: &ClassName) -> Result<Option<Self>> {
        let program: ProgramId = format!("{}/{class}", ProgramKind::Class).parse()?;
        let shown = match cluster.programs().show(&program, None).await {
            Ok(shown) if is_brados(&shown.source) => shown,
            // A native class is no program.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => return Ok(None),
        };
        let compiled = nacre_brados::compile(&shown.source).map_err(|errors| {
            let version = shown.version;
            Error::invalid(format!("version {version} of {program} does not compile: {errors}"))
                .hint("activate a version that compiles")
        })?;
        if compiled.analysis.program.layout().stripes == Stripes::None {
            return Ok(None);
        }
        let striping = striping(&compiled).map_err(|_| {
            Error::invalid("the program declares stripes, but its methods do not allow them")
                .hint("`nacre brados layouts` shows the reason")
        })?;
        Ok(Some(Self { number: shown.version, compiled, striping }))
    }

    /// Whether requests go to the same stripes.
    fn divides_like(&self, other: &Self) -> bool {
        let stripes = |version: &Self| version.compiled.analysis.program.layout().stripes;
        stripes(self) == stripes(other)
    }

    /// Returns the stripes that carry a request out, and the outputs that are not merged but
    /// reported for each stripe.
    fn route(
        &self,
        object: &ObjectId,
        method: &str,
        row: &[Value],
    ) -> Result<(Vec<String>, BTreeSet<String>)> {
        let program = &self.compiled.analysis.program;
        let name = object.name.as_str();
        let (names, apart) =
            self.striping.stripes_of(program, name, method, row).ok_or_else(|| {
                let text =
                    format!("{method} with this row does not determine a stripe of {object}");
                Error::invalid(text)
            })?;
        let apart = apart.iter().map(|id| program.collection(*id).name.clone());
        Ok((names, apart.collect()))
    }
}

/// All replies taken together; the first error if there is one.
fn united(replies: Vec<StripeReply>, of_each: &BTreeSet<String>) -> Result<StripedReply> {
    let mut apart = BTreeMap::new();
    // The order of the outputs is that of their declaration, because each reply has this order.
    let mut order: Vec<String> = vec![];
    let mut rows: BTreeMap<String, BTreeSet<Vec<Value>>> = BTreeMap::new();
    for StripeReply { stripe: name, outcome } in replies {
        let outputs = outcome?;
        let (own, shared): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|(output, _)| of_each.contains(output));
        if !own.is_empty() {
            apart.insert(name, own);
        }
        for (output, more) in shared {
            if !order.contains(&output) {
                order.push(output.clone());
            }
            rows.entry(output).or_default().extend(more);
        }
    }
    let outputs = order.into_iter().map(|output| {
        let rows = rows.remove(&output).unwrap_or_default();
        (output, rows.into_iter().collect())
    });
    Ok(StripedReply { outputs: outputs.collect(), apart })
}
