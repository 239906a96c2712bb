//! The bytes of a file: pages that copies share until they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A file's content. What was never written reads as zeros and takes no room.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    length: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE as usize]>>,
}

impl Pages {
    pub fn len(&self) -> u64 {
        self.length
    }

    pub fn set_len(&mut self, length: u64) {
        if length < self.length {
            self.pages.retain(|page, _| page * PAGE < length);
            let inside = (length % PAGE) as usize;
            if let Some(last) = self.pages.get_mut(&(length / PAGE)) {
                Arc::make_mut(last)[inside..].fill(0);
            }
        }
        self.length = length;
    }

    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = (offset + length).min(self.length);
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (at, page, inside, count) in parts(offset, out.len()) {
            if let Some(found) = self.pages.get(&page) {
                out[at..at + count].copy_from_slice(&found[inside..inside + count]);
            }
        }
        out
    }

    /// Writes within the length or beyond it.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.length = self.length.max(offset + data.len() as u64);
        for (at, page, inside, count) in parts(offset, data.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[inside..inside + count].copy_from_slice(&data[at..at + count]);
        }
    }
}

/// Divides the range of `length` bytes at `offset` at page borders. For each part, yields its
/// offset within the range, its page, its offset in the page, and its length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (usize, u64, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let inside = (place % PAGE) as usize;
        let count = (length - at).min(PAGE as usize - inside);
        let part = (at, place / PAGE, inside, count);
        at += count;
        (count > 0).then_some(part)
    })
}
