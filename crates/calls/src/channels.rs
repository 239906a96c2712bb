//! The names of channels whose messages the runtime delivers. `nacre_brados::delivery` says what
//! each of them does.

/// Removes the object.
pub const REMOVE_OBJECT: &str = "remove_object";
/// Notifies the object's watchers.
pub const NOTIFY: &str = "notify";
/// The name of the channel whose messages call a method of another object. If a program has several
/// such channels, for rows with different columns, their names begin with this name.
pub const ENQUEUE: &str = "enqueue";

/// Whether the channel of this name calls methods of other objects.
pub fn is_enqueue(name: &str) -> bool {
    let rest = name.strip_prefix(ENQUEUE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}
