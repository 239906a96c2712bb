//! One suite that every store must pass, and the plain in-memory store it is compared with.
