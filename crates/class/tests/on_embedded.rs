//! The suite of classes, its methods run by the embedded engine.

mod suite;
mod support;
