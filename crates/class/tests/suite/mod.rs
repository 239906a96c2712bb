//! The suite of tests for classes. Each test binary that includes this module runs the suite on a
//! store of its own.

mod brados;
mod cls_lua;
mod cls_lua_api;
mod extensions;
mod layouts;
mod runtime;
