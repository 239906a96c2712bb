//! The errno constants of `objclass`, as positive numbers.

use mlua::Table;

/// The classic ones, without ENOTBLK and ETXTBSY as in `cls_lua`; the last three are nacre's.
pub(crate) const CONSTANTS: [(&str, i32); 35] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("ESRCH", 3),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("E2BIG", 7),
    ("ENOEXEC", 8),
    ("EBADF", 9),
    ("ECHILD", 10),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENODEV", 19),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("ESPIPE", 29),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("EPIPE", 32),
    ("EDOM", 33),
    ("ERANGE", 34),
    ("ENODATA", 61),
    ("EOPNOTSUPP", 95),
    ("ESTALE", 116),
];

/// Status of a method or handler that does not exist.
pub(crate) const EOPNOTSUPP: i32 = 95;
/// Status of an attribute that does not exist.
pub(crate) const ENODATA: i32 = 61;

/// Puts the constants into a table.
pub(crate) fn install(table: &Table) -> mlua::Result<()> {
    CONSTANTS.iter().try_for_each(|(name, value)| table.raw_set(*name, *value))
}
