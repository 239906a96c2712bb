//! Changes the layout of a running class while clients use the class. The command `nacre brados
//! adopt` and the layout tasks of storage nodes use this module.
//!
//! The source of a class in Brados says where the class keeps its rows. For a new layout,
//! [`Layouts::adopt`] stores two more versions of the class, a *bridge* and a *target* (`sources`).
//! The target is activated once the bridge is live on all nodes. Then a walk visits all objects and
//! moves their rows step by step (`walk`). Meanwhile requests find rows in the old and the new
//! location. New objects have the target's layout from the beginning.
//!
//! The map `layouts` records the progress (`record`, `change`). One process at a time does the work
//! (`lease`, `layout_task`), and any process can continue where another stopped. `nacre program
//! rollback` returns the class to its former version at any time; the walk then moves the objects
//! back.
//!
//! The beginning of an object's entry `@brados` identifies the object's class by its tables. So a
//! walk needs no index of objects by class: it goes through the names in all pools. A walk cannot
//! distinguish the objects of two classes with the same tables, so [`Layouts::adopt`] refuses to
//! change either class.

mod census;
mod change;
mod layout_task;
mod record;
mod sources;
mod walk;

use nacre::Cluster;
use nacre_brados::LayoutSignatures;
use nacre_object::{ClassName, Error, Result};
use nacre_registry::{Activation, Change, Event, ProgramId, ProgramKind, ProgramSite, Severity};

pub use self::change::{LayoutChange, Phase, Walk};
pub use self::layout_task::LayoutTask;
pub use self::record::ClassLayout;
use self::record::layouts_map;
use self::sources::{Sources, compiled};

/// The layouts of a cluster's classes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Layouts {
    cluster: Cluster,
}

impl Layouts {
    /// The layouts of the classes of `cluster`.
    pub fn of(cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone() }
    }

    /// The stored record of a class's layout.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn get(&self, class: &ClassName) -> Result<ClassLayout> {
        ClassLayout::find(&self.cluster.maps().get(&layouts_map()).await?, class)
    }

    /// The records of all classes that have one, by name.
    ///
    /// # Errors
    /// As [`Layouts::get`].
    pub async fn all(&self) -> Result<Vec<(ClassName, ClassLayout)>> {
        ClassLayout::all(&self.cluster.maps().get(&layouts_map()).await?)
    }

    /// The active version of a class, and its source.
    async fn active(&self, class: &ClassName) -> Result<(Activation, String)> {
        let (program, programs) = (program_of(class)?, self.cluster.programs());
        let active = programs.activation(&program).await?.ok_or_else(|| {
            Error::not_found(format!("no version of {program} is active"))
                .hint("activate one; `nacre program ls` shows the programs")
        })?;
        let source = programs.show(&program, Some(active.version)).await?.source;
        Ok((active, source))
    }

    /// Starts to change a class to a layout. The [`LayoutTask`]s do the work.
    ///
    /// # Errors
    /// `NotFound` if the class is not active. `Invalid` if the layout is impossible for the class,
    /// or is its present one. `Conflict` if a change of the class is under way, or if another class
    /// has the same tables.
    pub async fn adopt(&self, class: &ClassName, layout: &str) -> Result<LayoutChange> {
        let (program, programs) = (program_of(class)?, self.cluster.programs());
        let (active, source) = self.active(class).await?;
        let base = active.version;
        let record = self.get(class).await?;
        if let Some(change) = &record.change {
            return Err(under_way(class, change));
        }
        let sources = Sources::of(&source, layout, record.is_settled(active))?;
        self.refuse_twins(class, &sources).await?;
        let change = LayoutChange {
            layout: compiled(&sources.target)?.analysis.program.layout().to_string(),
            bridge: programs.put(&program, &sources.bridge).await?,
            target: programs.put(&program, &sources.target).await?,
            former: sources.former,
            base,
            phase: Phase::Bridge,
        };
        self.update(class, |record| match &record.change {
            Some(other) => Err(under_way(class, other)),
            None => {
                record.change = Some(change.clone());
                record.last = None;
                Ok(())
            }
        })
        .await?;
        let text = format!("{class} is brought into layout {}", change.layout);
        self.tell(class, Severity::Info, text).await;
        Ok(change)
    }

    /// Refuses the change if another class has the same tables: the walk over all objects would
    /// also move that class's objects.
    async fn refuse_twins(&self, class: &ClassName, sources: &Sources) -> Result<()> {
        let programs = self.cluster.programs();
        let own = LayoutSignatures::of(&compiled(&sources.target)?);
        for other in programs.list(Some(ProgramKind::Class)).await? {
            if other.id.name.as_str() == class.as_str() || other.active.is_none() {
                continue;
            }
            let source = programs.show(&other.id, other.active).await?.source;
            let Ok(others) = compiled(&source) else { continue };
            if LayoutSignatures::of(&others).overlap(&own) {
                let text = format!("{} keeps the same tables as {class}", other.id);
                return Err(Error::conflict(text)
                    .hint("migrate the objects one by one: nacre class migrate"));
            }
        }
        Ok(())
    }

    /// Changes the stored record of a class.
    async fn update(
        &self,
        class: &ClassName,
        mut change: impl FnMut(&mut ClassLayout) -> Result<()> + Send,
    ) -> Result<()> {
        let update = |state: &nacre_registry::MapState| -> Result<Vec<Change>> {
            let before = ClassLayout::find(state, class)?;
            let mut record = before.clone();
            change(&mut record)?;
            Ok(if record == before { vec![] } else { vec![record.to_change(class)] })
        };
        self.cluster.maps().update(&layouts_map(), update).await.map(drop)
    }

    /// Says something about a class in the cluster log.
    async fn tell(&self, class: &ClassName, severity: Severity, text: String) {
        let mut event = Event::new(severity, text);
        if let Ok(program) = program_of(class) {
            let (kind, name) = (program.kind, program.name);
            event = event.program(ProgramSite { kind, name, version: 0, line: None });
        }
        // The record says it as well.
        let _ = self.cluster.events().append(event).await;
    }
}

fn under_way(class: &ClassName, change: &LayoutChange) -> Error {
    Error::conflict(format!("{class} is already changing to the layout {}", change.destination()))
        .hint("wait until it is done; `nacre status` shows the progress")
}

fn program_of(class: &ClassName) -> Result<ProgramId> {
    Ok(ProgramId::new(ProgramKind::Class, class.as_str().parse()?))
}
