//! `bufferlist`: bytes that pass between object and method without being copied.

use bytes::{Bytes, BytesMut};
use mlua::{AnyUserData, Lua, MetaMethod, UserData, UserDataMethods, UserDataRef, Value};
use nacre_script::{Host, MemoryAccount};

/// A list of bytes that a script can append to. The bytes are stored outside the VM's heap, but
/// count against the run's memory budget.
pub(crate) struct BufferList {
    content: Content,
    memory: MemoryAccount,
}

enum Content {
    /// The bytes as they were read from the object or written to it.
    Shared(Bytes),
    /// Bytes to which the script appends.
    Owned(BytesMut),
}

impl BufferList {
    /// A buffer list of these bytes.
    ///
    /// # Errors
    /// `Exhausted` past the memory budget.
    pub fn new(lua: &Lua, memory: &MemoryAccount, bytes: Bytes) -> mlua::Result<Self> {
        memory.take(lua, bytes.len())?;
        Ok(Self { content: Content::Shared(bytes), memory: memory.clone() })
    }

    /// Returns the bytes. Later appends do not change the returned bytes.
    pub fn share(&mut self) -> Bytes {
        if let Content::Owned(bytes) = &mut self.content {
            self.content = Content::Shared(std::mem::take(bytes).freeze());
        }
        match &self.content {
            Content::Shared(bytes) => bytes.clone(),
            Content::Owned(_) => unreachable!("it was shared just now"),
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        match &self.content {
            Content::Shared(bytes) => bytes,
            Content::Owned(bytes) => bytes,
        }
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Adds bytes at its end.
    ///
    /// # Errors
    /// `Exhausted` past the memory budget.
    pub fn append(&mut self, lua: &Lua, more: &[u8]) -> mlua::Result<()> {
        self.memory.take(lua, more.len())?;
        if let Content::Shared(bytes) = &mut self.content {
            // If no other reference to the bytes is left, this copies nothing.
            let bytes = std::mem::take(bytes);
            let own = bytes.try_into_mut().unwrap_or_else(|bytes| BytesMut::from(&bytes[..]));
            self.content = Content::Owned(own);
        }
        if let Content::Owned(bytes) = &mut self.content {
            bytes.extend_from_slice(more);
        }
        Ok(())
    }
}

impl Drop for BufferList {
    fn drop(&mut self) {
        self.memory.give_back(self.len());
    }
}

impl UserData for BufferList {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("str", |lua, this, ()| lua.create_string(this.as_slice()));
        methods.add_method_mut("append", |lua, this, more: Value| match more {
            Value::String(more) => this.append(lua, &more.as_bytes()),
            other => Err(mlua::Error::runtime(format!(
                "bad argument #1 to 'append' (string expected, got {})",
                other.type_name()
            ))),
        });
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.len()));
        type Two = (UserDataRef<BufferList>, UserDataRef<BufferList>);
        methods
            .add_meta_function(MetaMethod::Eq, |_, (a, b): Two| Ok(a.as_slice() == b.as_slice()));
        methods.add_meta_function(MetaMethod::Lt, |_, (a, b): Two| Ok(a.as_slice() < b.as_slice()));
        methods
            .add_meta_function(MetaMethod::Le, |_, (a, b): Two| Ok(a.as_slice() <= b.as_slice()));
        methods.add_meta_function(MetaMethod::Concat, |lua, (a, b): Two| {
            let mut both = BufferList::new(lua, &a.memory, Bytes::new())?;
            both.append(lua, a.as_slice())?;
            both.append(lua, b.as_slice())?;
            Ok(both)
        });
    }
}

/// Makes buffer lists, for host functions that return them.
#[derive(Clone)]
pub(crate) struct BufferLists(MemoryAccount);

impl BufferLists {
    pub fn new(memory: MemoryAccount) -> Self {
        Self(memory)
    }

    /// Makes an empty list to which the host appends.
    pub fn empty(&self) -> BufferList {
        BufferList { content: Content::Owned(BytesMut::new()), memory: self.0.clone() }
    }

    pub fn make(&self, lua: &Lua, bytes: Bytes) -> mlua::Result<AnyUserData> {
        lua.create_userdata(BufferList::new(lua, &self.0, bytes)?)
    }
}

/// Puts the table `bufferlist` into a VM's environment.
pub(crate) fn install(host: &Host<'_>) -> mlua::Result<()> {
    let lists = BufferLists::new(host.memory.clone());
    let new = host.lua.create_function(move |lua, ()| lists.make(lua, Bytes::new()))?;
    let table = host.lua.create_table()?;
    table.raw_set("new", new)?;
    host.globals.raw_set("bufferlist", table)
}

/// The bytes of an argument that is a buffer list or a string. Shares the bytes of a buffer list;
/// copies those of a string.
pub(crate) fn data_of(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(Bytes::copy_from_slice(&text.as_bytes())),
        other => crate::arguments::buffer_list_of(other).map(|mut list| list.share()),
    }
}

/// Appends the bytes that [`data_of`] would return.
pub(crate) fn append_data(bytes: &mut BytesMut, value: &Value) -> Option<()> {
    match value {
        Value::String(text) => bytes.extend_from_slice(&text.as_bytes()),
        other => bytes.extend_from_slice(crate::arguments::buffer_list_of(other)?.as_slice()),
    }
    Some(())
}
