//! The file that says what a directory is and from where its journal is replayed. Format 5.
//!
//! ```text
//! "NACREMAN", format u32, shards u32, segment u32, offset u32, group u64, salt u64,
//! then per shard the sequence that was in the tables u64, crc32c u32 of it all
//! ```
//!
//! Format 1 has no salt, and its tables are fjall's; in format 2 no head has a stream in it. In both and in format 3
//! the counts of live bytes may be wrong: what was moved out of a segment, of a value of several payloads, was taken
//! off once for each. Up to format 4 references name every owner of a payload, also those its record names. A
//! directory of an earlier format is made one of this when it is opened.
//!
//! Replaced whole at every checkpoint, by renaming. **Invariant:** when it is written, the tables
//! have everything before the position safely on disk; so tables that know less are damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nacre_object::{Error, Result};

use crate::codec::{Put, Take};
use crate::disk::{Create, Disk};
use crate::errors;
use crate::journal::Position;
use crate::journal::segment::Marking;

const MAGIC: &[u8; 8] = b"NACREMAN";
pub(crate) const NAME: &str = "MANIFEST";
const NEW_NAME: &str = "MANIFEST.new";

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The format of the directory.
    pub format: u32,
    /// How groups of the journal are marked.
    pub marking: Marking,
    /// Where a replay starts.
    pub checkpoint: Position,
    /// Per shard, the last sequence that was in the tables; as many as there are shards.
    pub sequences: Vec<u64>,
}

impl Manifest {
    /// The format of a directory that this release has written to.
    pub const FORMAT: u32 = 5;

    /// Whether counts of live bytes may be wrong.
    pub fn has_doubtful_counts(&self) -> bool {
        self.format < 4
    }

    /// Whether every owner of a payload is named by a reference.
    pub fn has_all_references(&self) -> bool {
        self.format < 5
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.put_u32(self.format);
        out.put_u32(self.sequences.len() as u32);
        out.put_u32(self.checkpoint.segment);
        out.put_u32(self.checkpoint.offset);
        out.put_u64(self.checkpoint.group);
        if let Marking::Salt(salt) = self.marking {
            out.put_u64(salt);
        }
        self.sequences.iter().for_each(|sequence| out.put_u64(*sequence));
        out.put_u32(crc32c::crc32c(&out));
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corrupt("it fails its checksum");
        let (content, crc) =
            bytes.split_at_checked(bytes.len().saturating_sub(4)).ok_or_else(damaged)?;
        if crc32c::crc32c(content).to_le_bytes() != crc {
            return Err(damaged());
        }
        let mut from = Take(content);
        if from.bytes(MAGIC.len())? != MAGIC {
            return Err(damaged());
        }
        let format = from.u32()?;
        if !(1..=Self::FORMAT).contains(&format) {
            return Err(Error::unsupported(format!("it is of format {format}"))
                .hint("a later release of nacre wrote it: use that one, or a later one"));
        }
        let shards = from.u32()?;
        let checkpoint = Position { segment: from.u32()?, offset: from.u32()?, group: from.u64()? };
        let marking = if format == 1 { Marking::Plain } else { Marking::Salt(from.u64()?) };
        let sequences = (0..shards).map(|_| from.u64()).collect::<Result<_>>()?;
        Ok(Self { format, marking, checkpoint, sequences })
    }

    fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// Reads it; `None` if there is none, as in a new directory.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, `Unsupported` if it is of a later format.
    pub fn load(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Option<Self>> {
        let path = Self::path(folder);
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

    /// Replaces it; when this returns it survives a crash.
    ///
    /// # Errors
    /// What the operating system says; the old one is still there.
    pub fn store(&self, disk: &Arc<dyn Disk>, folder: &Path) -> Result<()> {
        let new = folder.join(NEW_NAME);
        let write = || -> io::Result<()> {
            // One left by a crash may be longer.
            let _ = disk.delete(&new);
            let file = disk.open(&new, Create::IfMissing)?;
            file.write_at(0, &self.encode())?;
            file.sync()?;
            disk.rename(&new, &Self::path(folder))?;
            disk.sync_folder(folder)
        };
        write().map_err(|error| errors::io(format!("writing {}", new.display()), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(format: u32, marking: Marking) -> Manifest {
        let checkpoint = Position { segment: 3, offset: 4096, group: 17 };
        Manifest { format, marking, checkpoint, sequences: vec![5, 6] }
    }

    #[track_caller]
    fn reads_and_writes(sample: &Manifest, expected: &str) {
        let hex: String = sample.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex[..hex.len() - 8], *expected);
        assert_eq!(Manifest::decode(&sample.encode()).unwrap(), *sample);
    }

    #[test]
    fn samples_of_each_format_read_and_write() {
        let format_1 = "4e414352454d414e010000000200000003000000001000001100000000000000\
                        05000000000000000600000000000000";
        reads_and_writes(&sample(1, Marking::Plain), format_1);
        let format_2 = "4e414352454d414e020000000200000003000000001000001100000000000000\
                        887766554433221105000000000000000600000000000000";
        let salt = Marking::Salt(0x1122_3344_5566_7788);
        reads_and_writes(&sample(2, salt), format_2);
        reads_and_writes(&sample(3, salt), &format_2.replacen("02", "03", 1));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample(Manifest::FORMAT, Marking::Salt(7)).encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
        }
    }
}
