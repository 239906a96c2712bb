//! Estimates from a sample how many objects a class has, and how many rows an object holds.
//!
//! The census lists the names of all objects. It looks at some objects of each page of names, and
//! counts the rows of a few. Besides the listing it needs a few hundred reads, however many objects
//! there are.

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use nacre_brados::layout::most_rows_in_stream;
use nacre_brados::{Compiled, LayoutSignatures, Whereabouts};
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{ClassName, ErrorKind, Result};
use nacre_tuner::{Objects, Rows};

use super::sources::compiled;
use super::walk::whereabouts;
use super::{Layouts, program_of};
use nacre::{Object, Pool};

/// How many objects are looked at on each page of names.
const LOOKED_AT: usize = 32;
/// How many objects of the class have their rows counted.
const COUNTED: usize = 8;
/// Entries that are read at a time.
const PAGE_ENTRIES: u32 = 1000;
/// How many entries of one object are counted at most; this takes about a second of reading. Of a
/// larger object the census only knows that it has more entries.
const MAX_COUNTED_ENTRIES: u64 = 64 * PAGE_ENTRIES as u64;

/// The counts so far.
#[derive(Default)]
struct Found {
    objects: f64,
    some: Vec<Object>,
}

impl Layouts {
    /// Estimates how many objects a class has, and how many rows an object has. Only the class
    /// knows which rows of a byte stream exist, so the census counts as many rows as the stream's
    /// length can hold.
    ///
    /// # Errors
    /// `NotFound` if there is no such class; `Unavailable`.
    pub async fn census(&self, class: &ClassName) -> Result<Objects> {
        let source = self.cluster.programs().show(&program_of(class)?, None).await?.source;
        let compiled = compiled(&source)?;
        let marks = LayoutSignatures::of(&compiled);
        let mut found = Found::default();
        for name in self.cluster.pools().await? {
            count(&self.cluster.pool(name.as_str()).await?, &marks, &mut found).await?;
        }
        let rows = rows(&compiled, &found.some).await?;
        Ok(Objects { count: Some(found.objects.round() as u64), rows })
    }
}

async fn count(pool: &Pool, marks: &LayoutSignatures, found: &mut Found) -> Result<()> {
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

/// How many rows objects have, on average.
async fn rows(compiled: &Compiled, objects: &[Object]) -> Result<Rows> {
    let (mut rows, mut counted, mut is_whole) = (0, 0, true);
    for object in objects {
        match rows_of(compiled, object).await {
            Ok((of_one, is_all)) => {
                rows += of_one;
                counted += 1;
                is_whole &= is_all;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(match (counted, is_whole) {
        (0, _) => Rows::Unknown,
        (_, true) => Rows::About(rows / counted),
        (_, false) => Rows::MoreThan(rows / counted),
    })
}

/// The number of rows of an object, and whether all rows were counted. The number is the object's
/// entries minus the entry `@brados`, which every object has, plus the rows that its byte stream
/// can hold.
async fn rows_of(compiled: &Compiled, object: &Object) -> Result<(u64, bool)> {
    let in_stream = match compiled.analysis.program.layout().uses_stream() {
        true => most_rows_in_stream(compiled, object.stat().await?.size),
        false => 0,
    };
    let (mut entries, mut after) = (0, Bytes::new());
    loop {
        let page = object.map_range(after, "", PAGE_ENTRIES).await?;
        entries += page.entries.len() as u64;
        after = page.entries.last().map(|last| last.key.clone()).unwrap_or_default();
        if !page.more || entries >= MAX_COUNTED_ENTRIES {
            return Ok((in_stream + entries.saturating_sub(1), !page.more));
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_brados::Value;
    use nacre_calls::encode_request;

    use super::super::sources::tests::KV;
    use super::*;
    use crate::LocalCluster;

    const ROWS: i64 = 1500;

    async fn census_of(source: &str) -> Objects {
        let folder = tempfile::tempdir().unwrap();
        let cluster = LocalCluster::embedded(folder.path()).await.unwrap();
        let class: ClassName = "kv".parse().unwrap();
        let program = program_of(&class).unwrap();
        let version = cluster.programs().put(&program, source).await.unwrap();
        cluster.programs().activate(&program, version).await.unwrap();
        let object = cluster.object(&"data/o".parse().unwrap()).await.unwrap();
        for at in 0..ROWS {
            let row = encode_request(&[Value::Int(at), Value::text("v")]);
            object.call("kv", "put", row).await.unwrap();
        }
        Layouts::of(&cluster).census(&class).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_census_counts_rows_in_every_layout() {
        for layout in ["", "layout kv: appended(map)\n", "layout kv: slots(16)\n"] {
            let objects = census_of(&format!("{KV}{layout}")).await;
            let expected = (Some(1), Rows::About(ROWS as u64));
            assert_eq!((objects.count, objects.rows), expected, "{layout}");
        }
    }
}
