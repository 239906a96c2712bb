//! A walk over the names of a namespace, in the cluster's order.

use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;

use super::cluster::check;
use super::io_context::IoContext;
use super::library::Handle;

/// No more names.
const END: i32 = -2;

impl IoContext {
    /// Calls `visit` with the name of every object of the namespace, until `visit` breaks off. It
    /// waits for the cluster, so call it only on a thread that may block.
    ///
    /// # Errors
    /// librados' status.
    pub fn visit_names(
        self: &Arc<Self>,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), i32> {
        let library = self.cluster.library;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written only on success.
        check(unsafe { (library.rados_nobjects_list_open)(self.handle, &mut handle) })?;
        let walk = Walk { context: self, handle };
        loop {
            let (mut name, mut key, mut namespace) = (ptr::null(), ptr::null(), ptr::null());
            let (mut length, mut key_length, mut namespace_length) = (0, 0, 0);
            // SAFETY: the walk is alive; the name stays until the next step.
            unsafe {
                let status = (library.rados_nobjects_list_next2)(
                    walk.handle,
                    &mut name,
                    &mut key,
                    &mut namespace,
                    &mut length,
                    &mut key_length,
                    &mut namespace_length,
                );
                if status == END {
                    // A listing of a deleted pool ends like one of an empty pool, so check whether
                    // the pool exists.
                    return check(match self.or_pool_gone(END) {
                        END => 0,
                        gone => gone,
                    });
                }
                check(status)?;
                if visit(std::slice::from_raw_parts(name.cast(), length)).is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether the namespace holds an object. Waits as [`Self::visit_names`] does.
    ///
    /// # Errors
    /// librados' status.
    pub fn holds_objects(self: &Arc<Self>) -> Result<bool, i32> {
        let mut is_found = false;
        self.visit_names(|_| {
            is_found = true;
            ControlFlow::Break(())
        })?;
        Ok(is_found)
    }
}

struct Walk<'a> {
    context: &'a IoContext,
    handle: Handle,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        // SAFETY: opened by `visit_names`, closed once.
        unsafe { (self.context.cluster.library.rados_nobjects_list_close)(self.handle) }
    }
}
