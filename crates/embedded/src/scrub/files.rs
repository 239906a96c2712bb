//! The second stage of a scrub: reads every table file whole from the disk and compares its
//! checksum. The third stage, which reads entries, is not enough: the cache may answer it, and it
//! does not read indexes and filters.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use nacre_object::{ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::{Damage, SCRUB_STEP_BYTES, ScrubCursor, ScrubStep};
use crate::core::Core;
use crate::errors;
use crate::tables::{TableFile, check_copy, check_list};

/// Read at a time.
const READ_BYTES: usize = 256 * 1024;

pub(super) fn step(core: &Core, after: Option<u64>) -> Result<ScrubStep> {
    let mut step = ScrubStep::default();
    if after.is_none()
        && let Some(damage) = look_at_list(core)?
    {
        let is_repaired = core.tables.mend_list().is_ok() && look_at_list(core)?.is_none();
        step.add(Damage { is_repaired, ..damage });
    }
    step.next = Some(ScrubCursor::entries([]));
    core.tables.visit_files(after, |file| {
        if let Some(problem) = check(file, &mut step.bytes)? {
            let place = file.path.strip_prefix(&core.folder).unwrap_or(file.path);
            step.add(Damage::of_store(place.display().to_string(), problem));
        }
        if step.bytes < SCRUB_STEP_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        step.next = Some(ScrubCursor::files(Some(file.number)));
        Ok(ControlFlow::Break(()))
    })?;
    Ok(step)
}

/// What is wrong with the list of files or its copy, if anything.
fn look_at_list(core: &Core) -> Result<Option<Damage>> {
    let look = || check_list(core.tables.folder()).and_then(|()| check_copy(core.tables.folder()));
    // Check twice: a flush or merge may replace the list and its copy between the two reads. Damage
    // that both checks see is real.
    match look().or_else(|_| look()) {
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let place = error.object().unwrap_or("tables").to_owned();
            Ok(Some(Damage::of_store(place, error.message())))
        }
        result => result.map(|()| None),
    }
}

/// What is wrong with a file, if anything.
fn check(file: &TableFile<'_>, bytes: &mut u64) -> Result<Option<&'static str>> {
    match checksum(file.path, bytes) {
        Ok(checksum) if checksum == file.checksum => Ok(None),
        Ok(_) => Ok(Some("this table file fails its checksum")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("the file is missing")),
        Err(error) => Err(errors::io(format!("reading {}", file.path.display()), &error)),
    }
}

/// xxh3 of a file; counts the bytes that were read.
pub(crate) fn checksum(path: &Path, bytes: &mut u64) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buffer) = (Xxh3::new(), vec![0; READ_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            read => {
                hasher.update(&buffer[..read]);
                *bytes += read as u64;
            }
        }
    }
}
