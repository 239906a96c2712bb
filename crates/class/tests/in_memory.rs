//! The suite of classes, its methods run on the model.

mod suite;
mod support;
