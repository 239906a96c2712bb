//! `nacre salvage` and `nacre scrub --offline`: they read storage folders that no node has open.
//! `salvage` copies the readable data; `scrub --offline` only checks the data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nacre::{Error, Result, damaged_target_files};
use nacre_clock::SystemClock;
use nacre_embedded::{
    Damage, Disk, EmbeddedEngine, LinkedDisk, Options, RealDisk, ScrubCursor, SegmentFiles, salvage,
};
use nacre_object::NoClasses;
use serde_json::json;
use tempfile::TempDir;

use crate::out::{Out, printable};

/// The folder of a cluster's storage target is named like this.
const TARGET_PREFIX: &str = "storage.";

/// The arguments of `nacre salvage`
#[derive(Debug, clap::Args)]
pub struct SalvageArguments {
    /// The damaged folder of one storage target; it is only read
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The new folder; the command creates it
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// What was found in one folder.
#[derive(Debug, Default)]
struct Found {
    damages: Vec<Damage>,
    /// How many further damages were found that are not listed.
    more_damages: u64,
    entries: u64,
    objects_bytes: u64,
}

/// Copies the readable content of a damaged storage folder into a new one.
///
/// # Errors
/// As [`nacre_embedded::salvage`].
pub fn run(arguments: &SalvageArguments, out: Out) -> Result<()> {
    let SalvageArguments { folder, to } = arguments;
    let (engine, damages) = save(folder, to, SegmentFiles::Copied, Arc::new(RealDisk))?;
    let found = scrub(&engine, damages)?;
    show(folder, &found, out)?;
    let value = json!({ "saved": to, "entries": found.entries, "damages": found.count() });
    out.show(&value, || {
        let (entries, damages) = (found.entries, damaged_places(found.count()));
        format!(
            "{} has {entries} entries; {damages}\nto use it, stop the cluster and put it \
             in the place of {}",
            to.display(),
            folder.display()
        )
    })
}

/// Checks a storage folder without changing anything in it. If the folder is a cluster's, it checks
/// the storage folder of each target.
///
/// # Errors
/// `Corrupt` if something is damaged; `Unavailable` while a node has a folder open; `NotFound` if
/// there is no storage folder.
pub fn examine(folder: &Path, out: Out) -> Result<()> {
    let mut count = 0;
    for target in targets_of(folder) {
        let (engine, mut damages, _scratch) = open_copy(&target)?;
        let files = damaged_target_files(&target).into_iter();
        damages.extend(files.map(|(file, problem)| Damage::of_store(file, problem)));
        let found = scrub(&engine, damages)?;
        show(&target, &found, out)?;
        count += found.count();
    }
    if count == 0 {
        return Ok(());
    }
    Err(Error::corrupt(damaged_places(count))
        .hint("copy the readable data with `nacre salvage DIR --to NEW_DIR`"))
}

/// The folders of a cluster's targets, in their order; else the folder itself.
fn targets_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_target = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(TARGET_PREFIX) && path.is_dir()
    };
    let mut targets: Vec<_> = entries.map(|entry| entry.path()).filter(is_target).collect();
    targets.sort();
    if targets.is_empty() { vec![folder.to_owned()] } else { targets }
}

/// Saves a folder into another one and opens that.
fn save(
    from: &Path,
    to: &Path,
    files: SegmentFiles,
    disk: Arc<dyn Disk>,
) -> Result<(EmbeddedEngine, Vec<Damage>)> {
    let salvaged = salvage(from, to, files).map_err(|error| error.during("salvage"))?;
    let clock = Arc::new(SystemClock::default());
    let options = Options { disk, ..Options::new(to, Arc::new(NoClasses), clock) };
    Ok((EmbeddedEngine::open(options)?, salvaged.damages))
}

/// Copies the readable content of a storage folder into a scratch folder, and opens it there. The
/// storage folder stays unchanged.
///
/// # Errors
/// As [`nacre_embedded::salvage`].
pub fn open_copy(folder: &Path) -> Result<(EmbeddedEngine, Vec<Damage>, TempDir)> {
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::unavailable(format!("cannot make a scratch folder: {error}")))?;
    let copy = scratch.path().join("store");
    let (engine, damages) = save(folder, &copy, SegmentFiles::Linked, Arc::new(LinkedDisk))?;
    Ok((engine, damages, scratch))
}

/// Scrubs what was saved of a folder.
fn scrub(engine: &EmbeddedEngine, damages: Vec<Damage>) -> Result<Found> {
    let mut found = Found { damages, ..Found::default() };
    let mut next = Some(ScrubCursor::default());
    while let Some(cursor) = next {
        let step = engine.scrub(&cursor)?;
        found.damages.extend(step.damages);
        found.more_damages += step.more_damages;
        found.entries += step.entries;
        found.objects_bytes += step.bytes;
        next = step.next;
    }
    engine.close();
    Ok(found)
}

impl Found {
    fn count(&self) -> u64 {
        self.damages.len() as u64 + self.more_damages
    }
}

pub fn damaged_places(count: u64) -> String {
    format!("{count} damaged {}", if count == 1 { "place" } else { "places" })
}

fn show(folder: &Path, found: &Found, out: Out) -> Result<()> {
    let name = folder.display();
    for damage in &found.damages {
        let Damage { object, snapshot, place, problem, .. } = damage;
        let value = json!({ "folder": folder, "damage": {
            "object": object, "snapshot": snapshot, "place": place, "problem": problem } });
        out.show(&value, || {
            let snapshot = snapshot.as_ref().map(|name| format!("@{name}")).unwrap_or_default();
            let whose =
                object.as_ref().map(|name| format!("{name}{snapshot}, ")).unwrap_or_default();
            printable(&format!("{name}: {whose}{place}: {problem}"))
        })?;
    }
    let (entries, bytes, damages) = (found.entries, found.objects_bytes, found.count());
    let value = json!({ "folder": folder, "entries": entries, "bytes": bytes, "damages": damages });
    out.show(&value, || {
        let damaged = match damages {
            0 => "nothing is damaged".to_owned(),
            damages => damaged_places(damages),
        };
        format!("{name}: {entries} entries, {} can be read; {damaged}", out.size(bytes))
    })
}
