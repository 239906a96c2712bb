//! What the engine on Ceph and the object class share: how nacre's objects lie in RADOS, and a byte
//! stream within a transaction ([`DraftStream`]), which neither may write before it has succeeded.
//!
//! | nacre | RADOS |
//! |---|---|
//! | pool | namespace of one RADOS pool |
//! | object | object of the same name |
//! | byte stream | the object's data |
//! | map entry | omap entry, its key [escaped](escape_key) |
//! | map header | omap entry [`HEADER_KEY`]: librados' C interface cannot reach RADOS' own header |
//! | attribute | xattr, a long name [abbreviated](Attribute) |
//! | version | the object's user version |
//! | watches | the watches of the pool's [mailboxes](mailbox) |
//!
//! So a plain client sees what it expects to see, but for keys with bytes 0 or 1 and long names.

mod attributes;
mod draft_stream;
mod keys;
mod mailboxes;

pub use attributes::Attribute;
pub use draft_stream::{DraftStream, Patch};
pub use keys::{HEADER_KEY, StoredKey, escape_key, unescape_key};
pub use mailboxes::{MAILBOXES, decode_letter, encode_letter, mailbox, mailbox_namespace};
