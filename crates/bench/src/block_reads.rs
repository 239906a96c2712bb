//! Reads blocks of objects at random, and checks what they return.

use std::time::Duration;

use bytes::Bytes;
use nacre::Object;
use nacre_clock::Random;
use nacre_object::{Error, Result};

use crate::load;

/// The bytes of a read.
pub(crate) const READ_BYTES: u64 = 4096;
/// The bytes of an object.
pub(crate) const OBJECT_BYTES: usize = 64 * 1024;
/// Each byte of an object.
const CONTENT: u8 = 7;

/// The content of so many bytes of an object.
pub(crate) fn content(bytes: usize) -> Bytes {
    Bytes::from(vec![CONTENT; bytes])
}

/// So many readers read blocks of the objects, each one at a time.
///
/// # Errors
/// `Corrupt` if a read returns other bytes; the errors of the reads.
pub(crate) async fn read_blocks(
    readers: usize,
    span: Duration,
    objects: &[Object],
) -> Result<load::Outcome> {
    let blocks = OBJECT_BYTES as u64 / READ_BYTES;
    load::run(readers, span, |reader| {
        let (objects, mut random) = (objects.to_vec(), Random::seeded(reader as u64));
        move |_| {
            let object = objects[random.below(objects.len() as u64) as usize].clone();
            let offset = READ_BYTES * random.below(blocks);
            async move {
                let data = object.read(offset, READ_BYTES).await?;
                match data.len() as u64 == READ_BYTES && data.iter().all(|byte| *byte == CONTENT) {
                    true => Ok(()),
                    false => Err(Error::corrupt("a read returned other bytes").on(object.id())),
                }
            }
        }
    })
    .await
}
