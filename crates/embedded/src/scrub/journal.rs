//! The first stage of a scrub: checks the manifest, and the journal groups that would be replayed
//! if the engine crashed now.
//!
//! The tables have these groups, or will have them within moments. So a checkpoint repairs damage
//! in the groups or in the manifest: it writes a new manifest, and the groups are never read again.

use nacre_object::{ErrorKind, Result};

use super::{Damage, ScrubCursor, ScrubStep};
use crate::core::Core;
use crate::journal::recovery::Reading;
use crate::journal::segment::file_name;
use crate::manifest::{Loaded, Manifest};

pub(super) fn step(core: &Core) -> Result<ScrubStep> {
    let mut step = ScrubStep { next: Some(ScrubCursor::files(None)), ..ScrubStep::default() };
    for mut damage in look(core)? {
        damage.is_repaired = core.upkeep.make_checkpoint().is_ok() && look(core)?.is_empty();
        step.add(damage);
    }
    Ok(step)
}

fn look(core: &Core) -> Result<Vec<Damage>> {
    // Pin before the manifest is read, so that the segments it needs are kept.
    let _pin = core.segments.pin();
    let last = core.journal.durable();
    let manifest = match Manifest::load(&core.disk, &core.folder) {
        Ok(Some(Loaded { manifest, damage: None })) => manifest,
        Ok(Some(Loaded { damage: Some(damage), .. })) => return Ok(vec![damage]),
        Ok(None) => return Ok(vec![Damage::of_store("MANIFEST", "the file is missing")]),
        Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
        Err(error) => return Ok(vec![Damage::of_store("MANIFEST", error.message())]),
    };
    let segments = core.segments.open_from(manifest.checkpoint.segment)?;
    let reading = Reading { segments: &segments, salt: manifest.salt };
    match reading.first_damaged(manifest.checkpoint, last) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(at)) => {
            let place = format!("{} at byte {}", file_name(at.segment), at.offset);
            let problem = format!("group {} of the journal cannot be read back", at.group);
            Ok(vec![Damage::of_store(place, problem)])
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            Ok(vec![Damage::of_store("journal", error.message())])
        }
        Err(error) => Err(error),
    }
}
