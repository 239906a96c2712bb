//! Methods next to the data: dispatch over `ObjectView`, the class cache, the native classes.

mod native;

pub use native::{MethodAccess, NativeClass, NativeMethod};
