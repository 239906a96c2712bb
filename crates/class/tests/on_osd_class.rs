//! The suite of classes, its methods run by nacre's class in the OSD of the object.

mod suite;
mod support;
