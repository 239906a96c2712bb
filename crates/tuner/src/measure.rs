//! A workload for real.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use nacre_calls::encode_request;
use nacre_clock::Random;
use nacre_load::{self as load, Outcome};
use nacre_object::{ClassName, ObjectId, Result};

use crate::workbench::Workbench;
use crate::workload::{Line, Pattern, Workload};

/// A program with its layout on a store, and the workload's objects.
#[derive(Clone)]
pub(crate) struct Subject {
    bench: Workbench,
    class: ClassName,
    objects: Vec<(ObjectId, Arc<Mutex<u64>>)>,
}

impl Subject {
    /// Creates the objects for a measurement and fills them. `label` becomes part of the class name
    /// and must differ between the programs of a run. `names` becomes part of the objects' names
    /// and must differ between objects that exist at the same time.
    pub async fn prepare(
        bench: &Workbench,
        label: &str,
        names: &str,
        source: &str,
        workload: &Workload,
    ) -> Result<Self> {
        let class: ClassName = format!("tuner_{label}").parse()?;
        bench.install(&class, source)?;
        let object = |number| Ok((bench.object(names, number)?, Arc::default()));
        let objects = (0..workload.objects).map(object).collect::<Result<_>>()?;
        let subject = Self { bench: bench.clone(), class, objects };
        let fills = (0..workload.objects).map(|number| subject.fill(number, &workload.fill));
        // Wait for all of them, also after an error: data that one still writes would otherwise
        // remain after the removal.
        match join_all(fills).await.into_iter().collect::<Result<()>>() {
            Ok(()) => Ok(subject),
            Err(error) => {
                subject.clean().await?;
                Err(error)
            }
        }
    }

    async fn fill(&self, number: usize, lines: &[Line]) -> Result<()> {
        let mut random = Random::seeded(number as u64);
        for Line { count, request } in lines {
            for _ in 0..*count {
                self.ask(number, request, &mut random)?.await?;
            }
        }
        Ok(())
    }

    /// Sends requests of the mix for a while. The first part of that time does not count.
    pub async fn run(&self, workload: &Workload, span: Duration) -> Result<Outcome> {
        let workers = workload.concurrency;
        load::run(workers, span, |worker| {
            let (subject, workload) = (self.clone(), workload.clone());
            let mut random = Random::seeded(worker as u64);
            move |n| {
                let number = (worker + n as usize * workers) % workload.objects;
                let asked = subject.ask(number, workload.pick(&mut random), &mut random);
                async move { asked?.await }
            }
        })
        .await
    }

    /// Removes the objects and the class.
    pub async fn clean(self) -> Result<()> {
        self.bench.uninstall(&self.class);
        let objects: Vec<_> = self.objects.into_iter().map(|(object, _)| object).collect();
        self.bench.remove(&objects).await
    }

    /// Draws a request on an object; it is sent when it is awaited.
    fn ask(
        &self,
        number: usize,
        request: &Pattern,
        random: &mut Random,
    ) -> Result<impl Future<Output = Result<()>> + use<>> {
        let (object, next) = &self.objects[number];
        let row = request.draw(&mut next.lock().unwrap_or_else(PoisonError::into_inner), random);
        let input = Bytes::from(encode_request(&row));
        let (bench, class) = (self.bench.clone(), self.class.clone());
        let (object, method) = (object.clone(), request.method.clone());
        Ok(async move { bench.call(&object, &class, &method, input).await.map(drop) })
    }
}
