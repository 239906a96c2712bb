//! What classes do, wherever their methods are run: each binary that has this module runs it on a store
//! of its own.

mod brados;
mod cls_lua;
mod cls_lua_api;
mod extensions;
mod layouts;
mod runtime;
