//! How many objects a class has, and how full they are: estimated from some.
//!
//! All names are listed; of each page some objects are looked at. So it takes a listing of the pools and
//! a few hundred small reads, however many objects there are.

use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_brados::{Marks, Whereabouts};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{ClassName, ErrorKind, Result};
use nacre_tuner::Objects;

use super::sources::compiled;
use super::walk::whereabouts;
use super::{Layouts, program_of};
use crate::{Object, Pool};

/// Objects that are looked at of each page of names.
const LOOKED_AT: usize = 32;
/// Of the class's, objects whose rows are counted.
const COUNTED: usize = 8;
/// Entries that are counted of one.
const MAX_COUNTED_ENTRIES: u32 = 1000;

/// What was found so far.
#[derive(Default)]
struct Found {
    objects: f64,
    some: Vec<Object>,
}

impl Layouts {
    /// About how many objects a class has, and how many rows one of them. Rows in the byte stream are not
    /// counted, as nobody but the class knows where they end: then how many is not known.
    ///
    /// # Errors
    /// `NotFound` if there is no such class; `Unavailable`.
    pub async fn census(&self, class: &ClassName) -> Result<Objects> {
        let source = self.cluster.programs().show(&program_of(class)?, None).await?.source;
        let compiled = compiled(&source)?;
        let marks = Marks::of(&compiled);
        let mut found = Found::default();
        for name in self.cluster.pools().await? {
            count(&self.cluster.pool(name.as_str()).await?, &marks, &mut found).await?;
        }
        let rows = match compiled.analysis.program.layout().uses_stream() {
            true => None,
            false => entries(&found.some).await?,
        };
        Ok(Objects { count: Some(found.objects.round() as u64), rows })
    }
}

async fn count(pool: &Pool, marks: &Marks, found: &mut Found) -> Result<()> {
    let mut after = None;
    loop {
        let page = pool.list(after, "", MAX_LIST_ENTRIES).await?;
        let every = page.names.len().div_ceil(LOOKED_AT).max(1);
        let some: Vec<Object> = page
            .names
            .iter()
            .step_by(every)
            .map(|name| pool.object(name.as_str()))
            .collect::<Result<_>>()?;
        let looked = some.len();
        let own: Vec<Object> = stream::iter(some)
            .map(|object| async move {
                let place = whereabouts(&object, marks).await?;
                Ok::<_, nacre_object::Error>((place != Whereabouts::Foreign).then_some(object))
            })
            .buffered(LOOKED_AT)
            .try_filter_map(|own| async move { Ok(own) })
            .try_collect()
            .await?;
        if looked > 0 {
            found.objects += own.len() as f64 * page.names.len() as f64 / looked as f64;
        }
        let room = COUNTED.saturating_sub(found.some.len());
        found.some.extend(own.into_iter().take(room));
        after = page.names.last().cloned();
        if !page.more {
            return Ok(());
        }
    }
}

/// How many entries objects have, on average, besides the one that each has.
async fn entries(objects: &[Object]) -> Result<Option<u64>> {
    let (mut entries, mut counted) = (0, 0);
    for object in objects {
        match object.map_range("", "", MAX_COUNTED_ENTRIES).await {
            Ok(range) => {
                entries += range.entries.len().saturating_sub(1) as u64;
                counted += 1;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok((counted > 0).then(|| entries / counted))
}
