//! Runs transactions that need not read their object: one compound write is enough for each.
//!
//! The ops of such a transaction return nothing. They fail only if the object exists but must not,
//! does not exist but must, or has another version than expected. After such a failure the client
//! runs the transaction again with a read, to find out which op failed and why.

use bytes::Bytes;
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{Op, bounds};
use nacre_rados_layout::{HEADER_KEY, escape_key};

use crate::cluster::failure::status;
use crate::ffi::Change;

/// A transaction as changes alone.
#[derive(Debug)]
pub struct WriteOnly {
    /// The changes, guards first.
    pub changes: Vec<Change>,
    /// Whether the object exists after them.
    pub exists: bool,
}

/// Whether a status says that the object did not have the expected state.
pub fn needs_knowledge(status: i32) -> bool {
    use status::{ABSENT, NEWER, OLDER, PRESENT};
    [ABSENT, PRESENT, NEWER, OLDER].contains(&status)
}

/// The changes of a transaction; `None` if the transaction must read the object.
pub fn write_only(ops: &[Op]) -> Option<WriteOnly> {
    let mut changes = Vec::new();
    let mut writes = false;
    // Whether, after the ops so far, the object certainly exists when the next op runs.
    let mut exists = false;
    for (position, op) in ops.iter().enumerate() {
        let first = position == 0;
        let change = match op {
            Op::AssertExists if !writes => Change::AssertExists,
            Op::AssertVersion(version) if *version > 0 && !writes => {
                Change::AssertVersion(*version)
            }
            Op::Create { exclusive: true } if first => Change::CreateExclusive,
            Op::Remove if !writes && position + 1 == ops.len() => {
                changes.push(Change::Remove);
                return Some(WriteOnly { changes, exists: false });
            }
            Op::Write { offset, data } if !data.is_empty() => {
                bounds::check_stream_end(*offset, data.len() as u64).ok()?;
                Change::Write { offset: *offset, data: data.clone() }
            }
            Op::WriteFull { data } => Change::WriteFull(data.clone()),
            // RADOS extends to its limit by writing alone.
            Op::Truncate { size } if exists && *size < MAX_OBJECT_BYTES => Change::Truncate(*size),
            Op::MapSet { entries } if !entries.is_empty() => {
                let mut stored = Vec::with_capacity(entries.len());
                for entry in entries {
                    bounds::check_map_key(&entry.key).ok()?;
                    bounds::check_map_value(&entry.value).ok()?;
                    stored.push((Bytes::from(escape_key(&entry.key)), entry.value.clone()));
                }
                Change::SetKeys(stored)
            }
            Op::MapSetHeader { value } => {
                bounds::check_map_value(value).ok()?;
                Change::SetKeys(vec![(Bytes::from_static(HEADER_KEY), value.clone())])
            }
            Op::MapRemove { keys } if exists && !keys.is_empty() => {
                keys.iter().try_for_each(|key| bounds::check_map_key(key)).ok()?;
                Change::RemoveKeys(keys.iter().map(|key| escape_key(key).into()).collect())
            }
            Op::MapClear if exists => {
                // Clearing an empty map alone would not be a change to RADOS.
                changes.push(Change::Create);
                Change::ClearMap
            }
            _ => return None,
        };
        writes |= op.is_write();
        exists = true;
        changes.push(change);
    }
    writes.then_some(WriteOnly { changes, exists: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_that_reads_is_not_write_only() {
        let data = Bytes::from_static(b"x");
        let write = Op::Write { offset: 0, data: data.clone() };
        let seeing = [
            vec![Op::Append { data }],
            vec![Op::Stat, write.clone()],
            vec![Op::Create { exclusive: false }],
            vec![Op::Zero { offset: 0, length: 1 }],
            vec![Op::Truncate { size: 1 }],
            vec![Op::MapClear],
            vec![Op::AssertExists],
            vec![write.clone(), Op::Remove],
            vec![write.clone(), Op::Create { exclusive: true }],
            vec![write.clone(), Op::AssertVersion(3)],
            vec![Op::AssertVersion(0), write],
        ];
        for ops in seeing {
            assert!(write_only(&ops).is_none(), "{ops:?}");
        }
    }

    #[test]
    fn guards_come_before_the_changes_they_guard() {
        let write = Op::WriteFull { data: Bytes::from_static(b"x") };
        let found = write_only(&[Op::AssertVersion(3), write, Op::MapClear]).unwrap();
        let data = Bytes::from_static(b"x");
        let expected = vec![
            Change::AssertVersion(3),
            Change::WriteFull(data),
            Change::Create,
            Change::ClearMap,
        ];
        assert_eq!((found.changes, found.exists), (expected, true));
    }
}
