//! Methods that run inside OSDs: by nacre's own class, or by Ceph's class `lua`.

pub(crate) mod class_offers;
pub(crate) mod in_osd;
pub(crate) mod long_answers;
pub(crate) mod plugin_call;
pub(crate) mod stock_call;
pub(crate) mod stock_source;
pub(crate) mod survey;
