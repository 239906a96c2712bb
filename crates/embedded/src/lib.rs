//! The engine that keeps objects in one directory of one machine.
