//! Bytes in whole pages of memory, as a disk takes them without a copy by the kernel.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The alignment of the memory, in bytes: no disk asks for more.
pub(crate) const PAGE_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

const EMPTY: Page = Page([0; PAGE_BYTES]);
const _: () = assert!(align_of::<Page>() == PAGE_BYTES && size_of::<Page>() == PAGE_BYTES);

/// A growing buffer whose memory begins at a page.
///
/// It keeps its pages when emptied: touching fresh ones costs a fault each, on a virtual machine
/// more than what is written to them.
#[derive(Debug, Default)]
pub(crate) struct PageBuffer {
    pages: Vec<Page>,
    length: usize,
}

impl PageBuffer {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.length]
    }

    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_bytes()[..self.length]
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.pages.capacity() * PAGE_BYTES
    }

    pub fn clear(&mut self) {
        self.length = 0;
    }

    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.set_length(start + bytes.len());
        self.as_mut_bytes()[start..].copy_from_slice(bytes);
    }

    /// Appends zeros until it has this length, which is not less than it has.
    pub fn pad_to(&mut self, length: usize) {
        let start = self.length;
        self.set_length(length);
        self.as_mut_bytes()[start..].fill(0);
    }

    fn set_length(&mut self, length: usize) {
        let pages = length.div_ceil(PAGE_BYTES);
        if pages > self.pages.len() {
            self.pages.resize(pages, EMPTY);
        }
        self.length = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_and_zeros_for_padding() {
        let mut buffer = PageBuffer::default();
        for length in [10, PAGE_BYTES, 3 * PAGE_BYTES + 1] {
            buffer.clear();
            buffer.extend_from_slice(&vec![7; length]);
            buffer.pad_to(length + 100);
            assert_eq!(buffer.as_bytes()[..length], vec![7; length]);
            assert_eq!(buffer.as_bytes()[length..], [0; 100], "what was there before is gone");
            assert!(buffer.as_bytes().as_ptr().addr().is_multiple_of(PAGE_BYTES));
        }
    }
}
