//! An object that its class divides among stripes, each an object of its own.
//!
//! The class's source says so (`layout … stripes: 8`), and which stripes carry a request out (see
//! `nacre_brados::stripes`). A request to one stripe is one transaction. One to all of them is a transaction
//! on each, sent at once: others may be carried out between them. If it fails, some stripes may have
//! carried it out; it may be sent again, and then all of them have.

use std::collections::{BTreeMap, BTreeSet};

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
    /// The version whose stripes these are: a call is refused where another is active.
    version: u64,
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
        let (cluster, object, class) = (cluster.clone(), object.clone(), class.clone());
        let version = shown.version;
        Ok(Some(Self { cluster, object, class, version, compiled, striping }))
    }

    /// The names of the stripes that carry a request out.
    ///
    /// # Errors
    /// `Invalid` if there is no such method, or its row decides no stripe.
    pub fn stripes_of(&self, method: &str, row: &[Value]) -> Result<Vec<String>> {
        Ok(self.route(method, row)?.0)
    }

    fn route(&self, method: &str, row: &[Value]) -> Result<(Vec<String>, BTreeSet<String>)> {
        let program = &self.compiled.analysis.program;
        let name = self.object.name.as_str();
        let (names, apart) =
            self.striping.stripes_of(program, name, method, row).ok_or_else(|| {
                let text =
                    format!("no stripe of {} is meant by {method} with this row", self.object);
                Error::invalid(text)
            })?;
        let apart = apart.iter().map(|id| program.collection(*id).name.clone());
        Ok((names, apart.collect()))
    }

    /// Has the stripes that a request is about carry it out.
    ///
    /// # Errors
    /// The first of any of them, and whose it is.
    pub async fn call(&self, method: &str, row: &[Value]) -> Result<StripedReply> {
        let (names, apart) = self.route(method, row)?;
        let asked = names.into_iter().map(|name| self.call_stripe(name, method, row));
        let replies: Vec<_> = stream::iter(asked).buffered(MAX_ASKED).try_collect().await?;
        Ok(united(replies, &apart))
    }

    async fn call_stripe(
        &self,
        name: String,
        method: &str,
        row: &[Value],
    ) -> Result<(String, Vec<OutputRows>)> {
        let id = ObjectId::new(self.object.pool.clone(), name.parse()?);
        let object = self.cluster.object(&id).await?;
        let call = ClassCall {
            class: self.class.clone(),
            method: method.parse()?,
            version: Some(self.version),
            input: encode_request(row).into(),
        };
        let reply = object.call_version(call).await?;
        let outputs =
            decode_reply(&reply.output).map_err(|error| Error::corrupt(error.to_string()))?;
        Ok((name, outputs))
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
