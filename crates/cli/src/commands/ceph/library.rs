//! Checks the file of the object class before it is installed: whether it is complete, and for
//! which version of Ceph it was built.
//!
//! An OSD maps the library into its memory. If the file is incomplete, the OSD crashes when it
//! reads a missing page, and no code of the library can prevent this.

/// The text in the library that precedes the version of Ceph for which it was built.
const BUILT_FOR: &[u8] = b"nacre-built-for-ceph:";
/// How an ELF file for 64 bits, least byte first, begins.
const ELF: &[u8] = b"\x7fELF\x02\x01";
/// Offsets of three fields in the ELF header: the position of the section table, the size of a
/// table entry, and the number of entries. The section table is the last part of the file.
const TABLE_START: usize = 0x28;
const ENTRY_BYTES: usize = 0x3a;
const ENTRIES: usize = 0x3c;

/// The version of Ceph that stands in a library, in digits and dots.
pub fn built_for(library: &[u8]) -> Option<String> {
    let at = library.windows(BUILT_FOR.len()).position(|bytes| bytes == BUILT_FOR)?;
    let rest = &library[at + BUILT_FOR.len()..];
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    String::from_utf8(rest[..length].to_vec()).ok().filter(|version| !version.is_empty())
}

/// The full length of a library according to its header. `None` if the file is no library.
pub fn whole_length(library: &[u8]) -> Option<u64> {
    library.starts_with(ELF).then_some(())?;
    let start = u64::from_le_bytes(bytes_at(library, TABLE_START)?);
    let [entry, entries] =
        [ENTRY_BYTES, ENTRIES].map(|at| bytes_at(library, at).map(u16::from_le_bytes));
    start.checked_add(u64::from(entry?) * u64::from(entries?))
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_ceph_is_read_from_a_library() {
        assert_eq!(built_for(b"x\0nacre-built-for-ceph:16.2.15main").as_deref(), Some("16.2.15"));
        assert_eq!(built_for(b"nacre-built-for-ceph:"), None);
        assert_eq!(built_for(b"another library"), None);
    }

    #[test]
    fn the_full_length_of_a_library_is_read_from_its_header() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(whole_length(&this), Some(this.len() as u64));
        assert_eq!(whole_length(&this[..ENTRIES]), None);
        assert_eq!(whole_length(b"a text"), None);
    }
}
