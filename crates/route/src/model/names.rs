//! Names of layers, switches and control applications.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use nacre_object::limits::MAX_IDENTIFIER_BYTES;
use nacre_object::{Error, Result};

fn check(what: &str, text: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || text.len() > MAX_IDENTIFIER_BYTES || !text.chars().all(is_allowed) {
        return Err(Error::invalid(format!("{text:?} is not the name of {what}"))
            .hint(format!("use 1 to {MAX_IDENTIFIER_BYTES} letters, digits, '.', '_' or '-'")));
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes `text`.
            ///
            /// # Errors
            /// `Invalid` if it is empty, too long or holds a character it must not.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check($what, text)?;
                Ok(Self(text.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }
    };
}

name_type!(
    /// A layer of the IO path: the *stage* of the sRoute paper (section 3.3).
    LayerName,
    "a layer"
);
name_type!(
    /// A switch: the layer that applies rules.
    SwitchName,
    "a switch"
);
name_type!(
    /// A control application: who wants a rule.
    ApplicationName,
    "an application"
);
