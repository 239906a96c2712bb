//! The system pool: calls native classes on its objects, and notifies the watchers of these
//! objects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{
    Capability, ClassCall, ClassName, EntityName, Error, ErrorKind, MethodName, ObjectId,
    ObjectName, Op, OpResult, PoolName, Request, Result, Store, Watch, WatchStream,
};
use prost::Message;

/// How long a committer waits until watchers have acknowledged a notification. A watcher whose
/// process was killed never acknowledges, but the store may take half a minute to notice.
const ANNOUNCE_PATIENCE: Duration = Duration::from_millis(500);

/// A store with its watch, used on behalf of one entity.
#[derive(Clone)]
pub(crate) struct System {
    store: Arc<dyn Store>,
    watch: Arc<dyn Watch>,
    /// The entity on whose behalf requests are made. With `None` the session decides.
    source: Option<EntityName>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("store", &self.store).field("source", &self.source).finish()
    }
}

/// An object of the system pool.
pub(crate) fn system_object(name: &str) -> ObjectId {
    let name = ObjectName::new(name).expect("names of system objects are built from checked names");
    ObjectId::new(PoolName::system(), name)
}

/// Whether a later attempt may succeed.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

impl System {
    pub(crate) fn new(store: Arc<dyn Store>, watch: Arc<dyn Watch>) -> Self {
        Self { store, watch, source: None }
    }

    pub(crate) fn acting_as(&self, source: EntityName) -> Self {
        Self { source: Some(source), ..self.clone() }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Runs ops on an object.
    pub(crate) async fn submit(&self, object: &ObjectId, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        let mut request = Request::new(object.clone(), ops)?;
        if let Some(source) = &self.source {
            request.header.source = source.clone();
        }
        let reply = self.store.submit(request).await.map_err(|error| error.on(object))?;
        Ok(reply.results)
    }

    /// Calls a method of a native class. Input and output are protocol-buffer messages.
    pub(crate) async fn call<Answer: Message + Default>(
        &self,
        object: &ObjectId,
        class: &'static str,
        method: &'static str,
        question: &impl Message,
    ) -> Result<Answer> {
        let call = ClassCall {
            class: ClassName::new(class).expect("class names are literals in the source"),
            method: MethodName::new(method).expect("method names are literals in the source"),
            version: None,
            input: Bytes::from(question.encode_to_vec()),
        };
        let results = self
            .submit(object, vec![Op::Call(call)])
            .await
            .map_err(|error| error.during(method))?;
        let [OpResult::Called(reply)] = results.as_slice() else {
            return Err(Error::corrupt(
                "the store answered a method call with something else than a reply",
            )
            .during(method)
            .on(object));
        };
        Answer::decode(reply.output.clone()).map_err(|cause| {
            Error::corrupt(format!("the answer cannot be decoded: {cause}"))
                .during(method)
                .on(object)
        })
    }

    /// Watches an object.
    pub(crate) async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.watch.watch(object).await.map_err(|error| error.on(object))
    }

    /// Whether the store notifies watchers of changes by itself.
    pub(crate) fn reports_changes(&self) -> bool {
        self.store.capabilities().has(Capability::WatchChanges)
    }

    /// Notifies an object's watchers that the object changed, unless the store does that itself.
    /// The commit stands even if a watcher is not notified, because watchers also read the object
    /// from time to time.
    pub(crate) async fn announce(&self, object: &ObjectId) {
        if !self.reports_changes() {
            let telling = self.watch.notify(object, Bytes::new());
            let _ = tokio::time::timeout(ANNOUNCE_PATIENCE, telling).await;
        }
    }
}

/// Decodes a class method's input.
pub(crate) fn decode_input<Question: Message + Default>(input: Bytes) -> Result<Question> {
    Question::decode(input)
        .map_err(|cause| Error::invalid(format!("the input cannot be decoded: {cause}")))
}

/// Decodes what is stored in a system object.
pub(crate) fn decode_stored<Stored: Message + Default>(what: &str, bytes: Bytes) -> Result<Stored> {
    Stored::decode(bytes).map_err(|cause| {
        Error::corrupt(format!("{what} is damaged and cannot be decoded: {cause}"))
            .hint("find all damage with `nacre scrub`; `nacre salvage` copies what can be read")
    })
}
