//! The table `objclass`, with the functions that Ceph's `cls_lua` defines.
//!
//! | call | returns (`–` is nothing) |
//! |---|---|
//! | `register(fn)` | – |
//! | `log([level,] …)` | the arguments joined into a string; nothing without arguments |
//! | `create(exclusive)`, `remove()` | – |
//! | `stat()` | size in bytes; time of change in seconds |
//! | `read(offset, length)` | bufferlist; length 0 reads to the end |
//! | `write(offset, length, bl)`, `write_full(bl)` | – |
//! | `getxattr(name)` | bufferlist |
//! | `getxattrs()` | `{name = bl}` |
//! | `setxattr(name, bl)` | – |
//! | `map_get_val(key)` | bufferlist |
//! | `map_set_val(key, bl)` | – |
//! | `map_remove_key(key)`, `map_clear()` | – |
//! | `map_get_keys(after, max)` | `{key = true}` |
//! | `map_get_vals(after, prefix, max)` | `{key = bl}` |
//! | `map_set_vals({key = string})` | – |
//! | `map_read_header()` | bufferlist |
//! | `map_write_header(bl)` | – |
//! | `current_version()`, `current_subop_num()` | number |
//! | `current_subop_version()` | string |
//!
//! A function that fails raises the storage error. As in an OSD, reading the stream, the map or the
//! map's header of a missing object returns nothing instead of an error. A script can use `stat` to
//! find out whether the object exists.

use bytes::Bytes;
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};
use nacre_object::limits::MAX_MAP_RANGE_ENTRIES;
use nacre_object::{Error, ErrorKind, MapEntry, OWN_ATTRIBUTES, ObjectView, Result, bounds};
use nacre_script::{Host, Pulse, QuickAnswer, QuickArguments, raise};

use crate::arguments::Arguments;
use crate::buffer_list::BufferLists;
use crate::calling::{self, read, write};
use crate::errno::{self, ENODATA};

/// The most entries that one call returns, as in OSDs (`osd_max_omap_entries_per_request`).
pub(crate) const MAX_MAP_ENTRIES: usize = 131_072;
/// The longest log line in bytes; longer lines are cut.
pub(crate) const MAX_LOG_BYTES: usize = 4096;
/// The level `cls_lua` logs at unless told otherwise.
const DEFAULT_LOG_LEVEL: i64 = 10;

/// A table of host functions in the making.
pub(crate) struct Library<'a> {
    pub host: &'a Host<'a>,
    pub table: Table,
}

impl Library<'_> {
    /// Adds a function; `run` gets its arguments and the means to read them.
    pub fn add<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &'static str,
        run: impl Fn(Arguments<'_>, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let call = move |lua: &Lua, values: A| run(Arguments { lua, function: name }, values);
        self.table.raw_set(name, self.host.function(call)?)
    }

    /// As [`Library::add`], for a function that scripts call for each record: `quick` answers most
    /// calls at little cost (see [`QuickAnswer`]).
    pub fn add_quick<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        name: &'static str,
        quick: impl Fn(&QuickArguments<'_>) -> mlua::Result<QuickAnswer> + 'static,
        run: impl Fn(Arguments<'_>, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<()> {
        let call = move |lua: &Lua, values: A| run(Arguments { lua, function: name }, values);
        self.table.raw_set(name, self.host.quick_function(quick, call)?)
    }

    pub fn buffer_lists(&self) -> BufferLists {
        BufferLists::new(self.host.memory.clone())
    }
}

/// Puts the table into a VM's environment.
pub(crate) fn install(host: &Host<'_>, register: &Function) -> mlua::Result<()> {
    let library = Library { host, table: host.lua.create_table()? };
    errno::install(&library.table)?;
    add_management(&library, register)?;
    add_stream(&library)?;
    add_attributes(&library)?;
    add_map_values(&library)?;
    add_map_listings(&library)?;
    add_version(&library)?;
    crate::extensions::add(&library)?;
    host.globals.raw_set("objclass", library.table)
}

fn add_management(library: &Library<'_>, register: &Function) -> mlua::Result<()> {
    library.table.raw_set("register", register)?;
    let lists = library.buffer_lists();
    library.add("log", move |arguments, values| log(arguments, &lists, values))
}

/// Joins the arguments. If the first of several is a number from 0 on, it is the log level.
fn log(
    arguments: Arguments<'_>,
    lists: &BufferLists,
    values: MultiValue,
) -> mlua::Result<MultiValue> {
    let lua = arguments.lua;
    let mut parts: Vec<Value> = values.into_iter().collect();
    if parts.is_empty() {
        return Ok(MultiValue::new());
    }
    let mut level = DEFAULT_LOG_LEVEL;
    if parts.len() > 1
        && let Some(number) = lua.coerce_number(parts[0].clone())?
        && number > -1.0
    {
        level = number as i64;
        parts.remove(0);
    }
    // A script may pass one string many times, so the joined string can be much longer than the
    // script's memory. So check the length while joining.
    let mut text = lists.empty();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            text.append(lua, b" ")?;
        }
        match part {
            Value::Boolean(value) => text.append(lua, value.to_string().as_bytes())?,
            part => match lua.coerce_string(part.clone())? {
                Some(known) => text.append(lua, &known.as_bytes())?,
                None => text.append(lua, part.type_name().as_bytes())?,
            },
        }
    }
    let shown = String::from_utf8_lossy(&text.as_slice()[..text.len().min(MAX_LOG_BYTES)]);
    calling::log(level, &shown)?;
    (lua.create_string(text.as_slice())?,).into_lua_multi(lua)
}

fn add_stream(library: &Library<'_>) -> mlua::Result<()> {
    library.add("create", |_, exclusive: Value| {
        let exclusive = !matches!(exclusive, Value::Nil | Value::Boolean(false));
        write(|view| view.create(exclusive))
    })?;
    library.add("remove", |_, ()| write(|view| view.remove()))?;
    library.add("stat", |_, ()| {
        let stat = read(|view| view.stat())?;
        Ok((stat.size, stat.modified_micros / 1_000_000))
    })?;
    let lists = library.buffer_lists();
    library.add("read", move |arguments, (offset, length): (Value, Value)| {
        let offset = arguments.size(1, &offset)?;
        let length = match arguments.size(2, &length)? {
            0 => u64::MAX - offset,
            length => length,
        };
        let bytes = read(|view| if_present(view, |view| view.read(offset, length)))?;
        lists.make(arguments.lua, bytes)
    })?;
    library.add("write", |arguments, (offset, length, data): (Value, Value, Value)| {
        let (offset, length) = (arguments.size(1, &offset)?, arguments.size(2, &length)?);
        let data = arguments.buffer_list(3, &data)?.share();
        if length != data.len() as u64 {
            let text = format!("the length {length} does not match the {} bytes given", data.len());
            return Err(raise(Error::invalid(text)));
        }
        write(|view| view.write(offset, data))
    })?;
    library.add("write_full", |arguments, data: Value| {
        let data = arguments.buffer_list(1, &data)?.share();
        write(|view| view.write_full(data))
    })
}

/// Reads from the object. Returns nothing if the object does not exist.
pub(crate) fn if_present<R: Default>(
    view: &mut dyn ObjectView,
    look: impl FnOnce(&mut dyn ObjectView) -> Result<R>,
) -> Result<R> {
    match look(view) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(R::default()),
        other => other,
    }
}

fn add_attributes(library: &Library<'_>) -> mlua::Result<()> {
    let lists = library.buffer_lists();
    library.add("getxattr", move |arguments, name: Value| {
        let name = arguments.name(1, &name)?;
        let missing = || Error::not_found(format!("no attribute {name:?}")).with_status(-ENODATA);
        let value = read(|view| view.attribute(&name)?.ok_or_else(missing))?;
        lists.make(arguments.lua, value)
    })?;
    let lists = library.buffer_lists();
    library.add("getxattrs", move |arguments, ()| {
        let attributes = read(|view| view.attributes())?;
        let table = arguments.lua.create_table_with_capacity(0, attributes.len())?;
        for (name, value) in attributes {
            table.raw_set(name, lists.make(arguments.lua, value)?)?;
        }
        Ok(table)
    })?;
    library.add("setxattr", |arguments, (name, value): (Value, Value)| {
        let name = arguments.name(1, &name)?;
        let value = arguments.buffer_list(2, &value)?.share();
        if OWN_ATTRIBUTES.contains(&name.as_str()) {
            let error = Error::denied(format!("only nacre itself changes the attribute {name}"));
            return Err(raise(error.hint("choose another name for the attribute")));
        }
        write(|view| view.set_attribute(&name, value))
    })
}

fn add_map_values(library: &Library<'_>) -> mlua::Result<()> {
    let lists = library.buffer_lists();
    library.add("map_get_val", move |arguments, key: Value| {
        let key = arguments.text(1, &key)?;
        let value = read(|view| {
            let value = if_present(view, |view| view.map_get(&key.as_bytes()))?;
            value.ok_or_else(|| Error::not_found(format!("no key {}", key.display())))
        })?;
        lists.make(arguments.lua, value)
    })?;
    library.add("map_set_val", |arguments, (key, value): (Value, Value)| {
        let key = arguments.text(1, &key)?;
        let value = arguments.buffer_list(2, &value)?.share();
        write(|view| view.map_set(&key.as_bytes(), value))
    })?;
    library.add("map_set_vals", |arguments, values: Value| {
        let Value::Table(values) = values else {
            let got = values.type_name();
            let text = format!("bad argument #1 to 'map_set_vals' (table expected, got {got})");
            return Err(mlua::Error::runtime(text));
        };
        let entries = entries_of(arguments.lua, &values)?;
        entries
            .into_iter()
            .try_for_each(|MapEntry { key, value }| write(|view| view.map_set(&key, value)))
    })?;
    library.add("map_remove_key", |arguments, key: Value| {
        let key = arguments.text(1, &key)?;
        write(|view| view.map_remove(&key.as_bytes()))
    })?;
    library.add("map_clear", |_, ()| write(|view| view.map_clear()))?;
    let lists = library.buffer_lists();
    library.add("map_read_header", move |arguments, ()| {
        let header = read(|view| if_present(view, |view| view.map_header()))?;
        lists.make(arguments.lua, header)
    })?;
    library.add("map_write_header", |arguments, header: Value| {
        let header = arguments.buffer_list(1, &header)?.share();
        write(|view| view.set_map_header(header))
    })
}

/// Reads the entries of a table whose keys are strings or numbers and whose values are strings. One
/// string of the VM may be the value of many keys. So this function stops before it copies more
/// than a transaction may write.
fn entries_of(lua: &Lua, values: &Table) -> mlua::Result<Vec<MapEntry>> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    values.for_each(|key: Value, value: Value| {
        let name = match &key {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                lua.coerce_string(key.clone())?
            }
            _ => None,
        };
        let Some(name) = name else {
            let text = format!("map_set_vals: invalid key type ({})", key.type_name());
            return Err(raise(Error::invalid(text)));
        };
        let Value::String(value) = value else {
            let (got, name) = (value.type_name(), name.display());
            let text = format!("map_set_vals: invalid val type ({got}) for key ({name})");
            return Err(raise(Error::invalid(text)));
        };
        let (name, value) = (name.as_bytes(), value.as_bytes());
        bytes += name.len() + value.len();
        let fits = bounds::check_map_value(&value);
        fits.and_then(|()| bounds::check_transaction_bytes(bytes)).map_err(raise)?;
        let [key, value] = [name, value].map(|text| Bytes::copy_from_slice(&text));
        entries.push(MapEntry { key, value });
        Ok(())
    })?;
    Ok(entries)
}

fn add_map_listings(library: &Library<'_>) -> mlua::Result<()> {
    let pulse = library.host.pulse.clone();
    library.add("map_get_keys", move |arguments, (after, most): (Value, Value)| {
        let after = arguments.text(1, &after)?;
        let most = arguments.size(2, &most)?;
        let keys = arguments.lua.create_table()?;
        let after = after.as_bytes();
        for_each_entry(arguments.lua, &pulse, &after, b"", most, |entry| {
            keys.raw_set(arguments.lua.create_string(&entry.key)?, true)
        })?;
        Ok(keys)
    })?;
    let (lists, pulse) = (library.buffer_lists(), library.host.pulse.clone());
    library.add("map_get_vals", move |arguments, (after, prefix, most): (Value, Value, Value)| {
        let (after, prefix) = (arguments.text(1, &after)?, arguments.text(2, &prefix)?);
        let most = arguments.size(3, &most)?;
        let values = arguments.lua.create_table()?;
        let (after, prefix) = (after.as_bytes(), prefix.as_bytes());
        for_each_entry(arguments.lua, &pulse, &after, &prefix, most, |entry| {
            let value = lists.make(arguments.lua, entry.value)?;
            values.raw_set(arguments.lua.create_string(&entry.key)?, value)
        })?;
        Ok(values)
    })
}

/// Visits up to `most` entries, page by page; returns whether there are more.
pub(crate) fn for_each_entry(
    lua: &Lua,
    pulse: &Pulse,
    after: &[u8],
    prefix: &[u8],
    most: u64,
    mut visit: impl FnMut(MapEntry) -> mlua::Result<()>,
) -> mlua::Result<bool> {
    let mut left = usize::try_from(most).unwrap_or(MAX_MAP_ENTRIES).min(MAX_MAP_ENTRIES);
    let mut after = Bytes::copy_from_slice(after);
    loop {
        pulse.step(lua)?;
        let limit = left.min(MAX_MAP_RANGE_ENTRIES);
        let page = read(|view| if_present(view, |view| view.map_range(&after, prefix, limit)))?;
        left = left.saturating_sub(page.entries.len());
        let last = page.entries.last().map(|entry| entry.key.clone());
        page.entries.into_iter().try_for_each(&mut visit)?;
        match last {
            Some(last) if page.more && left > 0 => after = last,
            _ => return Ok(page.more),
        }
    }
}

fn add_version(library: &Library<'_>) -> mlua::Result<()> {
    library.add("current_version", |_, ()| read(|view| view.version()))?;
    // A method cannot tell which op of its transaction it is.
    library.add("current_subop_num", |_, ()| Ok(0))?;
    library.add("current_subop_version", |_, ()| {
        let version = read(|view| view.version())?;
        Ok(format!("{version}.0"))
    })
}
