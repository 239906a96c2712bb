//! Which target holds an object: weighted rendezvous hashing, and the store that routes by it.
