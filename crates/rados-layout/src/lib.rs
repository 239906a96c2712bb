//! What the engine on Ceph (crate `rados`) and the object class (crate `osd-class`) share. This
//! crate defines how nacre's objects are stored in RADOS. It also has [`DraftStream`], which holds
//! the changes of a byte stream until a transaction has succeeded.
//!
//! | nacre | RADOS |
//! |---|---|
//! | pool | namespace of a RADOS pool |
//! | object | object of the same name |
//! | byte stream | the object's data |
//! | map entry | omap entry, its key [escaped](escape_key) |
//! | map header | omap entry [`HEADER_KEY`]: librados' C interface cannot reach RADOS' own header |
//! | attribute | xattr, a long name [abbreviated](Attribute) |
//! | version | the object's user version |
//! | watches | the watches of the pool's [mailboxes](mailbox) |
//!
//! So a RADOS client without nacre reads objects in the expected form, except for keys with bytes 0
//! or 1 and for long names.

mod attributes;
mod draft_stream;
mod keys;
mod mailboxes;

pub use attributes::Attribute;
pub use draft_stream::{DraftStream, Patch};
pub use keys::{HEADER_KEY, StoredKey, escape_key, unescape_key};
pub use mailboxes::{MAILBOXES, decode_letter, encode_letter, mailbox, mailbox_namespace};
