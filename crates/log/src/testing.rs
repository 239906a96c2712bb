//! Small views for the tests of the cores.

use nacre_object::{ClassName, Locate, NodeName, ObjectId, PoolName, TargetName};

use crate::view::{Layout, View};
use crate::{LogName, NATIVE_CLASS};

/// Any store with one target.
pub struct OneTarget;

impl Locate for OneTarget {
    fn locate(&self, _: &ObjectId) -> TargetName {
        TargetName::new("only").unwrap()
    }

    fn targets(&self) -> Vec<TargetName> {
        vec![TargetName::new("only").unwrap()]
    }
}

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// The first view of a log, epoch 1.
pub fn view_of(width: u32, slots: u32) -> View {
    let log = LogName::new("test").unwrap();
    let pool = PoolName::new("log").unwrap();
    let class = ClassName::new(NATIVE_CLASS).unwrap();
    View::first(log, pool, class, Layout { width, slots }, 0, &OneTarget, &[]).unwrap()
}

/// The successor that is cut at `tail`.
pub fn cut_at(view: &View, tail: u64) -> View {
    view.cut(tail, view.layout(), &OneTarget, &[]).unwrap()
}
