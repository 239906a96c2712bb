//! An object that its class divides among stripes, each an object of its own.
//!
//! The class's source says so (`layout … stripes: 8`), and which stripes carry a request out (see
//! `nacre_brados::stripes`). A request to one stripe is one transaction. One to all of them is a transaction
//! on each, sent at once: others may be carried out between them. If it fails, some stripes may have
//! carried it out; it may be sent again, and then all of them have.
//!
//! Another version of the class, as one in another layout, is found out about by a call that is refused as
//! stale, which is sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_brados::layout::Stripes;
use nacre_brados::stripes::{Striping, striping};
use nacre_brados::{Compiled, OutputRows, Value, decode_reply, encode_request, is_brados};
use nacre_object::{ClassCall, ClassName, Error, ErrorKind, ObjectId, Result};
use nacre_registry::{ProgramId, ProgramKind};

use crate::Cluster;

/// Stripes that are asked at once.
const MAX_ASKED: usize = 64;

/// A handle on a striped object.
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
    /// A call is refused where another is active.
    number: u64,
    compiled: Compiled,
    striping: Striping,
}

/// What the stripes replied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripedReply {
    /// The rows of all of them, in order.
    pub outputs: Vec<OutputRows>,
    /// The outputs that each answers for itself, by the stripe's name.
    pub apart: BTreeMap<String, Vec<OutputRows>>,
}

impl Striped {
    /// The object's stripes; `None` if its class, as it is active, does not divide it.
    ///
    /// # Errors
    /// `Denied` to who may not read programs; `Unavailable`.
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
    /// `Invalid` if there is no such method, or its row decides no stripe.
    pub fn stripes_of(&self, method: &str, row: &[Value]) -> Result<Vec<String>> {
        Ok(self.known().route(&self.object, method, row)?.0)
    }

    /// Has the stripes that a request is about carry it out.
    ///
    /// # Errors
    /// The first of any of them, and whose it is; `Stale` if by now the class divides objects otherwise.
    pub async fn call(&self, method: &str, row: &[Value]) -> Result<StripedReply> {
        let known = self.known();
        match self.call_version(&known, method, row).await {
            Err(error) if error.kind() == ErrorKind::Stale => {
                let now = Version::active(&self.cluster, &self.class).await?;
                let Some(now) = now.filter(|now| now.divides_like(&known)) else {
                    return Err(error);
                };
                let now = Arc::new(now);
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&now);
                self.call_version(&now, method, row).await
            }
            outcome => outcome,
        }
    }

    async fn call_version(
        &self,
        version: &Version,
        method: &str,
        row: &[Value],
    ) -> Result<StripedReply> {
        let (names, apart) = version.route(&self.object, method, row)?;
        let asked = names.into_iter().map(|name| self.call_stripe(version, name, method, row));
        let replies: Vec<_> = stream::iter(asked).buffered(MAX_ASKED).try_collect().await?;
        Ok(united(replies, &apart))
    }

    async fn call_stripe(
        &self,
        version: &Version,
        name: String,
        method: &str,
        row: &[Value],
    ) -> Result<(String, Vec<OutputRows>)> {
        let id = ObjectId::new(self.object.pool.clone(), name.parse()?);
        let object = self.cluster.object(&id).await?;
        let call = ClassCall {
            class: self.class.clone(),
            method: method.parse()?,
            version: Some(version.number),
            input: encode_request(row).into(),
        };
        let reply = object.call_version(call).await?;
        let outputs =
            decode_reply(&reply.output).map_err(|error| Error::corrupt(error.to_string()))?;
        Ok((name, outputs))
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
        let compiled = nacre_brados::compile(&shown.source)
            .map_err(|errors| Error::invalid(errors.to_string()))?;
        if compiled.analysis.program.layout().stripes == Stripes::None {
            return Ok(None);
        }
        let striping = striping(&compiled)
            .map_err(|_| Error::invalid("the program says that it is striped, and cannot be"))?;
        Ok(Some(Self { number: shown.version, compiled, striping }))
    }

    /// Whether requests go to the same stripes.
    fn divides_like(&self, other: &Self) -> bool {
        let stripes = |version: &Self| version.compiled.analysis.program.layout().stripes;
        stripes(self) == stripes(other)
    }

    /// The stripes that carry a request out, and the outputs that each answers for itself.
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
                let text = format!("no stripe of {object} is meant by {method} with this row");
                Error::invalid(text)
            })?;
        let apart = apart.iter().map(|id| program.collection(*id).name.clone());
        Ok((names, apart.collect()))
    }
}

fn united(replies: Vec<(String, Vec<OutputRows>)>, of_each: &BTreeSet<String>) -> StripedReply {
    let mut apart = BTreeMap::new();
    // In the order in which outputs are first told, which is that of their declaration.
    let mut order: Vec<String> = vec![];
    let mut rows: BTreeMap<String, BTreeSet<Vec<Value>>> = BTreeMap::new();
    for (name, outputs) in replies {
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
    StripedReply { outputs: outputs.collect(), apart }
}
