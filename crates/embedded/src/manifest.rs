//! The manifest says that a directory is a store, and from where its journal is replayed. Format 1.
//!
//! ```text
//! "NACRESTO", format u32, shards u32, segment u32, offset u32, group u64, salt u64,
//! then per shard the last sequence number that was in the tables u64, crc32c u32 of it all
//! ```
//!
//! The file is vital and small, so it is kept twice, as `MANIFEST` and `MANIFEST.copy`. Every
//! checkpoint replaces both, one after the other, by renaming. One good copy is enough to open the
//! directory; the opening then writes both anew. After a crash between the two renamings the copy
//! is one checkpoint older.
//!
//! **Invariants:**
//! - When a manifest is written, the tables have everything before its position safely on disk.
//!   Tables that lack any of it are damaged.
//! - Segments before its position are freed only after both files are durable. So a replay can also
//!   start at the position in the older file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nacre_object::{Error, ErrorKind, Result};

use crate::disk::{Create, Disk};
use crate::entry::codec::{Put, Take};
use crate::errors;
use crate::journal::Position;
use crate::journal::segment::Salt;
use crate::scrub::Damage;

const MAGIC: &[u8; 8] = b"NACRESTO";
/// The magic of development builds before release 0.1.0.
const UNRELEASED_MAGIC: &[u8; 8] = b"NACREMAN";
pub(crate) use nacre_files::STORE_MANIFEST as NAME;
pub(crate) const COPY_NAME: &str = "MANIFEST.copy";
const NEW_NAME: &str = "MANIFEST.new";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The random number that tells headers of journal groups from payloads.
    pub salt: Salt,
    /// Where a replay starts.
    pub checkpoint: Position,
    /// For each shard, the last sequence number that was in the tables.
    pub sequences: Vec<u64>,
}

/// A manifest and the state of its two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The manifest in the first file that can be read.
    pub manifest: Manifest,
    /// The other file, if it is missing or damaged.
    pub damage: Option<Damage>,
}

impl Manifest {
    /// The format that this release reads and writes.
    pub const FORMAT: u32 = 1;

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(Self::FORMAT);
        out.put_u32(self.sequences.len() as u32);
        out.put_u32(self.checkpoint.segment);
        out.put_u32(self.checkpoint.offset);
        out.put_u64(self.checkpoint.group);
        out.put_u64(self.salt.0);
        self.sequences.iter().for_each(|sequence| out.put_u64(*sequence));
        out.put_u32(crc32c::crc32c(&out));
        out
    }

    /// # Errors
    /// `Corrupt` if it is damaged, `Unsupported` if another release wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupt("the manifest fails its checksum");
        let (content, crc) =
            bytes.split_at_checked(bytes.len().saturating_sub(4)).ok_or_else(damaged)?;
        if crc32c::crc32c(content).to_le_bytes() != crc {
            return Err(damaged());
        }
        let mut from = Take(content);
        let magic = from.bytes(MAGIC.len())?;
        if magic == UNRELEASED_MAGIC {
            return Err(Error::unsupported(
                "a development build before release 0.1.0 wrote this manifest",
            )
            .hint("copy the objects with that build, and put them into a new cluster"));
        }
        if magic != MAGIC {
            return Err(damaged());
        }
        let format = from.u32()?;
        if format != Self::FORMAT {
            return Err(Error::unsupported(format!(
                "the manifest has the unknown format {format}"
            ))
            .hint("a later release of nacre wrote it: use that one, or a later one"));
        }
        let shards = from.u32()?;
        let checkpoint = Position { segment: from.u32()?, offset: from.u32()?, group: from.u64()? };
        let salt = Salt(from.u64()?);
        let sequences = (0..shards).map(|_| from.u64()).collect::<Result<_>>()?;
        Ok(Self { salt, checkpoint, sequences })
    }

    /// Reads `MANIFEST`, or `MANIFEST.copy` if the first is missing or damaged. `None` if neither
    /// exists, as in a new directory.
    ///
    /// # Errors
    /// `Corrupt` if no file is good, `Unsupported` if another release wrote them, or any error of
    /// the disk.
    pub fn load(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Option<Loaded>> {
        let first = Self::read(disk, folder, NAME);
        let second = Self::read(disk, folder, COPY_NAME);
        let damage = |name, problem: &str| Some(Damage::of_store(name, problem));
        match (first, second) {
            (Err(error), _) | (_, Err(error)) if error.kind() != ErrorKind::Corrupt => Err(error),
            (Ok(None), Ok(None)) => Ok(None),
            (Err(error), Err(_) | Ok(None)) | (Ok(None), Err(error)) => Err(error),
            (Ok(Some(manifest)), second) => {
                let damage = match second {
                    Ok(Some(_)) => None,
                    Ok(None) => damage(COPY_NAME, MISSING),
                    Err(error) => damage(COPY_NAME, error.message()),
                };
                Ok(Some(Loaded { manifest, damage }))
            }
            (first, Ok(Some(manifest))) => {
                let problem = first.err();
                let problem = problem.as_ref().map_or(MISSING, Error::message);
                Ok(Some(Loaded { manifest, damage: damage(NAME, problem) }))
            }
        }
    }

    fn read(disk: &Arc<dyn Disk>, folder: &Path, name: &str) -> Result<Option<Self>> {
        let path = folder.join(name);
        let read = || -> io::Result<Vec<u8>> {
            let file = disk.open(&path, Create::Never)?;
            let mut bytes = vec![0; file.length()? as usize];
            file.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => {
                result.map_err(|error| errors::io(format!("reading {}", path.display()), &error))?
            }
        };
        Self::decode(&bytes).map(Some).map_err(|error| error.on(path.display()))
    }

    /// Replaces both files; when this returns they survive a crash.
    ///
    /// # Errors
    /// Any error of the operating system. Each file then has its old or its new content.
    pub fn store(&self, disk: &Arc<dyn Disk>, folder: &Path) -> Result<()> {
        let new = folder.join(NEW_NAME);
        let write = |name| -> io::Result<()> {
            // A crash may have left a longer file of this name.
            let _ = disk.delete(&new);
            let file = disk.open(&new, Create::IfMissing)?;
            file.write_at(0, &self.encode())?;
            file.sync()?;
            disk.rename(&new, &folder.join(name))?;
            disk.sync_folder(folder)
        };
        [NAME, COPY_NAME]
            .into_iter()
            .try_for_each(write)
            .map_err(|error| errors::io(format!("writing {}", folder.join(NAME).display()), &error))
    }
}

const MISSING: &str = "the file is missing";

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::disk::RealDisk;

    fn sample(group: u64) -> Manifest {
        let checkpoint = Position { segment: 3, offset: 4096, group };
        Manifest { salt: Salt(0x1122_3344_5566_7788), checkpoint, sequences: vec![5, 6] }
    }

    #[test]
    fn the_sample_of_format_1_can_be_read_and_written() {
        let expected = "4e4143524553544f010000000200000003000000001000001100000000000000\
                        887766554433221105000000000000000600000000000000";
        let sample = sample(17);
        let hex: String = sample.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex[..hex.len() - 8], *expected);
        assert_eq!(Manifest::decode(&sample.encode()).unwrap(), sample);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample(17).encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_manifest_of_another_release_is_refused_and_not_called_damaged() {
        let sealed = |mut bytes: Vec<u8>| {
            let end = bytes.len() - 4;
            let crc = crc32c::crc32c(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&crc);
            Manifest::decode(&bytes).unwrap_err()
        };
        let mut later = sample(17).encode();
        later[8] = 2;
        let mut unreleased = sample(17).encode();
        unreleased[..8].copy_from_slice(UNRELEASED_MAGIC);
        for refused in [sealed(later), sealed(unreleased)] {
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
            assert!(refused.hint_text().is_some(), "{refused}");
        }
    }

    #[test]
    fn one_good_copy_of_a_manifest_is_enough() {
        let folder = TempDir::new().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let load = || Manifest::load(&disk, folder.path());
        assert_eq!(load().unwrap(), None);
        sample(17).store(&disk, folder.path()).unwrap();
        let whole = Loaded { manifest: sample(17), damage: None };
        assert_eq!(load().unwrap(), Some(whole));
        for name in [NAME, COPY_NAME] {
            let path = folder.path().join(name);
            let good = fs::read(&path).unwrap();
            let damages: [&dyn Fn(); 2] =
                [&|| fs::remove_file(&path).unwrap(), &|| fs::write(&path, "garbage").unwrap()];
            for damage in damages {
                damage();
                let loaded = load().unwrap().unwrap();
                assert_eq!(loaded.manifest, sample(17));
                assert_eq!(loaded.damage.unwrap().place, name);
            }
            fs::write(&path, good).unwrap();
        }
        for name in [NAME, COPY_NAME] {
            fs::write(folder.path().join(name), "garbage").unwrap();
        }
        assert_eq!(load().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
