//! The suite of classes. Each test binary that includes this module runs it on a store of its own.

mod brados;
mod cls_lua;
mod cls_lua_api;
mod extensions;
mod layouts;
mod runtime;
