//! The protocol: sessions, the remote store, the server.
