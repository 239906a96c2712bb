//! Classes that store the entries of logs: which classes can do so, and which logs use a class.

#[cfg(feature = "programs")]
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_log::view::View;
use nacre_log::{LogName, NATIVE_CLASS, PROGRAM_CLASS, storage_methods};
use nacre_object::{ClassName, Error, ErrorKind, MethodName, Result};
use nacre_registry::{ProgramId, ProgramKind};

use crate::Cluster;
#[cfg(not(feature = "programs"))]
use {
    crate::{LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE},
    nacre_log::BRADOS_CLASS,
};
#[cfg(feature = "programs")]
use {
    nacre_class::check_program,
    nacre_clock::{Clock, SystemClock},
};

/// How many views of logs are read at the same time.
const LOOKS_AT_ONCE: usize = 32;

/// The methods of a class program.
#[cfg(feature = "programs")]
fn methods_of(source: &str) -> Result<Vec<MethodName>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let methods = check_program(source, &clock)?.methods;
    Ok(methods.into_iter().map(|(method, _)| method).collect())
}

/// Without the compiler and the VM, this release knows only the methods of its own classes.
#[cfg(not(feature = "programs"))]
fn methods_of(source: &str) -> Result<Vec<MethodName>> {
    let class = match source {
        LOG_PROGRAM_SOURCE => PROGRAM_CLASS,
        LOG_BRADOS_SOURCE => BRADOS_CLASS,
        _ => {
            return Err(Error::unsupported("this client cannot check the class of a log").hint(
                "build it with the feature `programs`, or use a class that nacre brings along",
            ));
        }
    };
    storage_methods(&ClassName::new(class)?).iter().map(|method| method.parse()).collect()
}

impl Cluster {
    /// Refuses a class that cannot store the entries of a log. Checks nothing if the caller may not
    /// read the class.
    ///
    /// # Errors
    /// `NotFound` if the class is not active; `Invalid` with the methods it lacks; `Unavailable`.
    pub(crate) async fn check_log_class(&self, class: &ClassName) -> Result<()> {
        let Some((program, version)) = self.active_log_class(class).await? else { return Ok(()) };
        let source = match self.programs().show(&program, Some(version)).await {
            Ok(shown) => shown.source,
            Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
            Err(error) => return Err(error),
        };
        let methods = methods_of(&source)?;
        let has = |needed: &&str| methods.iter().any(|method| method.as_str() == *needed);
        let lacking: Vec<_> =
            storage_methods(class).iter().copied().filter(|needed| !has(needed)).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let text = format!("{program} cannot store logs: it has no method {}", lacking.join(", "));
        Err(Error::invalid(text).hint(
            "use log, log_native or log_brados, or a Brados class whose name begins with log_brados",
        ))
    }

    /// Returns the program of a log's class, with its active version. Returns `None` if the class
    /// is native.
    ///
    /// # Errors
    /// `NotFound` if no version is active; `Unavailable`.
    pub(crate) async fn active_log_class(
        &self,
        class: &ClassName,
    ) -> Result<Option<(ProgramId, u64)>> {
        if class.as_str() == NATIVE_CLASS {
            return Ok(None);
        }
        let program = ProgramId::new(ProgramKind::Class, class.as_str().parse()?);
        let version = self.programs().active(&program).await?.ok_or_else(|| {
            Error::not_found(format!("no version of {program} is active, so it cannot store a log"))
                .hint(format!("activate one, or use {PROGRAM_CLASS} or {NATIVE_CLASS}"))
        })?;
        Ok(Some((program, version)))
    }

    /// The logs whose entries a class stores. They include logs that are not completely removed
    /// yet.
    ///
    /// # Errors
    /// `Unavailable`; `Denied`.
    pub async fn logs_of_class(&self, class: &ClassName) -> Result<Vec<LogName>> {
        self.logs_whose_view(|view| view.class() == class).await
    }

    /// The logs whose view satisfies a condition, without removed logs.
    pub(crate) async fn logs_whose_view(
        &self,
        is_such: impl Fn(&View) -> bool,
    ) -> Result<Vec<LogName>> {
        let maps = self.maps().list().await?;
        // The futures are made before the first await, so that this function's future can move
        // between threads.
        let looks: Vec<_> = maps
            .iter()
            .filter_map(LogName::of_map)
            .map(|log| self.if_view(log, &is_such))
            .collect();
        let looked: Vec<_> = stream::iter(looks).buffered(LOOKS_AT_ONCE).try_collect().await?;
        Ok(looked.into_iter().flatten().collect())
    }

    async fn if_view(
        &self,
        log: LogName,
        is_such: impl Fn(&View) -> bool,
    ) -> Result<Option<LogName>> {
        match self.log_env().views.last(&log).await {
            Ok(view) => {
                let is_its = view.is_some_and(|view| !view.is_buried() && is_such(&view));
                Ok(is_its.then_some(log))
            }
            // No program can help a log whose view is damaged.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }
}
