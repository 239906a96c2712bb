//! `Burst`: a tenant that writes as fast as it can, from its own thread and over its own sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre::{Cluster, ClusterFile};
use nacre_object::{Error, ErrorKind, ObjectId, Result};

/// The size of its requests.
const BYTES: usize = 256 * 1024;
/// Requests that it has under way.
const REQUESTS: usize = 384;
/// After a refusal it waits this long.
const PAUSE: Duration = Duration::from_millis(20);

/// A burst that goes on.
pub(super) struct Burst {
    is_over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Burst {
    /// Begins to write these objects.
    ///
    /// # Errors
    /// `Unavailable` if there is no thread to be had.
    pub fn start(file: &ClusterFile, objects: &[ObjectId]) -> Result<Self> {
        let (is_over, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let work = Writing {
            file: file.clone(),
            objects: objects.to_vec(),
            is_over: Arc::clone(&is_over),
            bytes: Arc::clone(&bytes),
        };
        let thread = std::thread::Builder::new().name("burst".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|cause| Error::unavailable(cause.to_string()))?.block_on(work.run())
        });
        let thread = thread.map_err(|cause| Error::unavailable(cause.to_string()))?;
        Ok(Self { is_over, bytes, thread })
    }

    /// The bytes that were written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends it.
    ///
    /// # Errors
    /// That which ended it before.
    pub fn stop(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::unavailable("the bursting tenant panicked")))
    }
}

struct Writing {
    file: ClusterFile,
    objects: Vec<ObjectId>,
    is_over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl Writing {
    async fn run(self) -> Result<()> {
        let cluster = Cluster::connect(self.file.folder()).await?;
        let data = Bytes::from(vec![0xb0; BYTES]);
        let writers = (0..REQUESTS).map(|number| {
            let object = &self.objects[number % self.objects.len()];
            self.write(&cluster, object, &data)
        });
        join_all(writers).await.into_iter().collect()
    }

    async fn write(&self, cluster: &Cluster, object: &ObjectId, data: &Bytes) -> Result<()> {
        let object = cluster.object(object).await?;
        while !self.is_over.load(Ordering::Relaxed) {
            match object.write_full(data.clone()).await {
                Ok(()) => {
                    self.bytes.fetch_add(BYTES as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Exhausted => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
