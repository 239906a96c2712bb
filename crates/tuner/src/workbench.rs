//! The place of a measurement: a store, and the classes that it runs.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use nacre_class::{ClassProgram, ClassRuntime};
use nacre_clock::{Clock, SystemClock};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{
    ClassCall, ClassName, Error, ListRequest, ObjectId, ObjectName, Op, OpResult, PoolName,
    Request, Result, Store,
};
use nacre_program::Budget;

/// A store of one's own to measure on.
#[derive(Clone)]
pub struct Workbench {
    store: Arc<dyn Store>,
    classes: Arc<ClassRuntime>,
    pool: PoolName,
    /// A part of the objects' names, by which they differ from the objects of other runs.
    run: u64,
}

impl Workbench {
    /// A bench on a store that runs the methods of `classes`, by [`Workbench::classes`].
    pub fn new(store: Arc<dyn Store>, classes: Arc<ClassRuntime>, pool: PoolName) -> Self {
        Self { store, classes, pool, run: SystemClock::default().now_micros() }
    }

    /// Classes for a store to measure on.
    pub fn classes() -> Arc<ClassRuntime> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        Arc::new(ClassRuntime::new(Budget::default(), clock))
    }

    /// The pool of its objects.
    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// Installs a program as the class of this name, so that its methods can be called.
    ///
    /// # Errors
    /// `Invalid` if the source is not a program.
    pub fn install(&self, class: &ClassName, source: &str) -> Result<()> {
        self.classes.install(&ClassProgram::new(class.clone(), 1, source))
    }

    /// Removes a class.
    pub fn uninstall(&self, class: &ClassName) {
        self.classes.uninstall(class);
    }

    /// The name of an object that nothing else uses. `label` and `number` distinguish the objects
    /// of one run.
    ///
    /// # Errors
    /// `Invalid` if the label cannot be part of a name.
    pub fn object(&self, label: &str, number: usize) -> Result<ObjectId> {
        format!("{}/tuner-{}-{label}-{number}", self.pool, self.run).parse()
    }

    /// Calls a method; returns its output.
    ///
    /// # Errors The errors of the method and of the store.
    pub async fn call(
        &self,
        object: &ObjectId,
        class: &ClassName,
        method: &str,
        input: Bytes,
    ) -> Result<Bytes> {
        let method = method.parse()?;
        let call = ClassCall { class: class.clone(), method, version: None, input };
        match self.submit(object, vec![Op::Call(call)]).await?.into_iter().next() {
            Some(OpResult::Called(reply)) => Ok(reply.output),
            other => Err(Error::corrupt(format!(
                "the store answered a method call with something else than a reply: {other:?}"
            ))),
        }
    }

    /// Runs a transaction, and returns the results of its ops.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn submit(&self, object: &ObjectId, ops: Vec<Op>) -> Result<Vec<OpResult>> {
        Ok(self.store.submit(Request::new(object.clone(), ops)?).await?.results)
    }

    /// Lists the objects of this run that exist, at most one page of them.
    ///
    /// # Errors
    /// Any error of the store.
    pub async fn objects(&self) -> Result<Vec<ObjectName>> {
        let (pool, prefix) = (self.pool.clone(), format!("tuner-{}-", self.run));
        let request = ListRequest { pool, after: None, prefix, limit: MAX_LIST_ENTRIES };
        Ok(self.store.list(request).await?.names)
    }

    /// Removes objects, there or not.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn remove(&self, objects: &[ObjectId]) -> Result<()> {
        let remove = |object: &ObjectId| {
            let request =
                Request::new(object.clone(), vec![Op::Create { exclusive: false }, Op::Remove]);
            async { self.store.submit(request?).await }
        };
        try_join_all(objects.iter().map(remove)).await.map(drop)
    }
}
