//! nacre: the public API.
