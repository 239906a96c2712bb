//! The tests that classes must pass on every store. Each test binary that includes this module runs
//! them on one kind of store.

mod brados;
mod cls_lua;
mod cls_lua_api;
mod extensions;
mod layouts;
mod runtime;
