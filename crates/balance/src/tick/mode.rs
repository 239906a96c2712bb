//! `Mode`: how clients reach a unit that has moved.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How clients reach a unit that has moved (Malacology, section "Balancing modes").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Clients are redirected to the new rank.
    #[default]
    Client,
    /// Clients keep sending requests to the old rank, which forwards them to the new rank.
    Proxy,
}

impl Mode {
    /// The word for it, as policies write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Proxy => "proxy",
        }
    }

    /// The mode that a word is for.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Client, Self::Proxy].into_iter().find(|mode| mode.as_str() == word)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
