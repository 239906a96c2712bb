//! An engine that exists only for measurements, so that they do not disturb an engine in use. It
//! has its own folder, or its own pool of a Ceph cluster.

use std::path::Path;
use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{Error, Result, Store};
use nacre_rados::{RadosEngine, RadosOptions, examine};
use tempfile::TempDir;

use crate::fingerprint::Fingerprint;
use crate::workbench::Workbench;

/// Where objects of the tuner are.
const POOL: &str = "tuner";
/// How scratch folders are called.
const SCRATCH: &str = "nacre-tuner.";

/// An engine with its fingerprint.
pub struct OwnEngine {
    bench: Workbench,
    fingerprint: Fingerprint,
    embedded: Option<(EmbeddedEngine, TempDir)>,
}

impl OwnEngine {
    /// Opens an embedded engine in a temporary folder within `base`, so that measurements use the
    /// disk of `base`. The folder is deleted when the engine is dropped.
    ///
    /// # Errors
    /// `Unavailable` if `base` cannot be written.
    pub fn embedded(base: &Path) -> Result<Self> {
        let unwritable = |error: std::io::Error| {
            Error::unavailable(format!(
                "cannot make a scratch folder in {}: {error}",
                base.display()
            ))
            .hint("name a writable folder with --folder")
        };
        let permissions = nacre_files::folder_permissions();
        let mut builder = tempfile::Builder::new();
        let folder = builder.prefix(SCRATCH).permissions(permissions).tempdir_in(base);
        let folder = folder.map_err(unwritable)?;
        let fingerprint = Fingerprint::of_folder(folder.path())?;
        let classes = Workbench::classes();
        let engine = EmbeddedEngine::open(Options::new(folder.path(), classes.clone(), clock()))?;
        let store: Arc<dyn Store> = Arc::new(engine.clone());
        let bench = Workbench::new(store, classes, POOL.parse()?);
        Ok(Self { bench, fingerprint, embedded: Some((engine, folder)) })
    }

    /// A pool of a Ceph cluster.
    ///
    /// # Errors
    /// As [`RadosEngine::connect`].
    pub async fn on_ceph(options: RadosOptions) -> Result<Self> {
        let classes = Workbench::classes();
        let engine = RadosEngine::connect(options.clone(), classes.clone(), clock()).await?;
        let (survey, examination) = (engine.survey().await?, examine(options).await?);
        let fingerprint = Fingerprint::of_ceph(&survey, &examination.osds);
        let bench = Workbench::new(Arc::new(engine), classes, POOL.parse()?);
        Ok(Self { bench, fingerprint, embedded: None })
    }

    /// Where to measure.
    pub fn bench(&self) -> &Workbench {
        &self.bench
    }

    /// The fingerprint of the engine.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        if let Some((engine, _)) = &self.embedded {
            engine.close();
        }
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}
