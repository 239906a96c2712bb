//! `TypeLibrary`: the functions that file types call, and the methods that they add.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Function, LuaString, Value};
use nacre_object::{Error, Result};
use nacre_script::{Host, Library, raise};

use super::file_type::no_method;
use super::{Access, Locking};

/// Methods of one file type: more is a mistake.
const MAX_METHODS: usize = 256;

/// The methods and settings that a file type's chunk has defined in the VM of one thread.
pub(super) struct TypeLibrary {
    methods: Rc<RefCell<Methods>>,
    /// The function given to `filetype.recovered`.
    recovery: Rc<RefCell<Option<Function>>>,
    /// Whether `filetype.store` was called.
    must_store: Rc<Cell<bool>>,
    /// What `filetype.capability` was given.
    locking: Rc<RefCell<Option<Locking>>>,
    /// Whether the Luau chunk that defines the file type has run to its end. After that the
    /// definition cannot change.
    is_loaded: Rc<Cell<bool>>,
}

/// Makes an error of a text.
type Refusal = fn(String) -> Error;
type Methods = BTreeMap<String, (Access, Function)>;

impl TypeLibrary {
    /// Forgets what the last run added and asked for.
    pub fn clear(&self) {
        self.methods.borrow_mut().clear();
        self.recovery.borrow_mut().take();
        self.must_store.set(false);
        self.locking.borrow_mut().take();
        self.is_loaded.set(false);
    }

    /// Records that the Luau chunk that defines the file type has run to its end. If the chunk
    /// itself called `filetype.store`, that has no effect.
    pub fn set_loaded(&self) {
        self.must_store.set(false);
        self.is_loaded.set(true);
    }

    /// Forgets that `filetype.store` was called.
    pub fn forget_store(&self) {
        self.must_store.set(false);
    }

    /// The methods by name.
    pub fn all_methods(&self) -> BTreeMap<String, (Access, Function)> {
        self.methods.borrow().clone()
    }

    /// The function given to `filetype.recovered`; `None` if the file type is journaled.
    pub fn recovery(&self) -> Option<Function> {
        self.recovery.borrow().clone()
    }

    /// Whether `filetype.store` was called.
    pub fn must_store(&self) -> bool {
        self.must_store.get()
    }

    /// What `filetype.capability` was given; `None` if it was not called.
    pub fn locking(&self) -> Option<Locking> {
        self.locking.borrow().clone()
    }

    /// The methods by name.
    pub fn methods(&self) -> BTreeMap<String, Access> {
        let methods = self.methods.borrow();
        methods.iter().map(|(name, (access, _))| (name.clone(), *access)).collect()
    }

    /// A method.
    ///
    /// # Errors
    /// `Unsupported` with the methods there are.
    pub fn method(&self, name: &str) -> Result<(Access, Function)> {
        let methods = self.methods.borrow();
        methods.get(name).cloned().ok_or_else(|| no_method(name, methods.keys()))
    }
}

impl Library for TypeLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let methods = Rc::<RefCell<Methods>>::default();
        let is_loaded = Rc::<Cell<bool>>::default();
        let table = host.lua.create_table()?;
        for (name, access) in [("read", Access::Read), ("write", Access::Write)] {
            let (methods, is_loaded) = (Rc::clone(&methods), Rc::clone(&is_loaded));
            let add = host.function(move |_, (name, method): (LuaString, Function)| {
                check_not_loaded(&is_loaded)?;
                add(&mut methods.borrow_mut(), &name, access, method).map_err(raise)
            })?;
            table.raw_set(name, add)?;
        }
        let refusals: [(&str, Refusal); 4] = [
            ("deny", Error::denied),
            ("conflict", Error::conflict),
            ("invalid", Error::invalid),
            ("not_found", Error::not_found),
        ];
        for (name, refusal) in refusals {
            let refuse = host.function(move |_, text: LuaString| {
                Err::<(), _>(raise(refusal(text.to_string_lossy().to_string())))
            })?;
            table.raw_set(name, refuse)?;
        }
        let recovery = Rc::<RefCell<Option<Function>>>::default();
        let (set, loaded) = (Rc::clone(&recovery), Rc::clone(&is_loaded));
        let recovered = host.function(move |_, function: Function| {
            check_not_loaded(&loaded)?;
            match set.borrow_mut().replace(function) {
                Some(_) => {
                    Err(raise(Error::invalid("the file type calls filetype.recovered twice")))
                }
                None => Ok(()),
            }
        })?;
        table.raw_set("recovered", recovered)?;
        let must_store = Rc::<Cell<bool>>::default();
        let set = Rc::clone(&must_store);
        let store = host.function(move |_, ()| {
            set.set(true);
            Ok(())
        })?;
        table.raw_set("store", store)?;
        let locking = Rc::<RefCell<Option<Locking>>>::default();
        let (set, loaded) = (Rc::clone(&locking), Rc::clone(&is_loaded));
        let capability = host.function(move |_, (mode, program): (Value, Value)| {
            check_not_loaded(&loaded)?;
            let given = Locking::parse(&mode, &program).map_err(raise)?;
            match set.borrow_mut().replace(given) {
                Some(_) => {
                    Err(raise(Error::invalid("the file type calls filetype.capability twice")))
                }
                None => Ok(()),
            }
        })?;
        table.raw_set("capability", capability)?;
        host.globals.raw_set("filetype", table)?;
        Ok(Self { methods, recovery, must_store, locking, is_loaded })
    }
}

/// Refuses to add a method or a rule to the file type while one of its methods runs.
///
/// # Errors
/// `Invalid` if a method runs: the change would be lost when the method ends.
fn check_not_loaded(is_loaded: &Cell<bool>) -> mlua::Result<()> {
    match is_loaded.get() {
        false => Ok(()),
        true => Err(raise(Error::invalid(
            "a method cannot change its file type: call this outside all functions",
        ))),
    }
}

fn add(methods: &mut Methods, name: &LuaString, access: Access, method: Function) -> Result<()> {
    let name = name.to_str().map_err(|_| Error::invalid("the name of a method is not UTF-8"))?;
    if methods.len() >= MAX_METHODS {
        return Err(Error::exhausted(format!("a file type has at most {MAX_METHODS} methods")));
    }
    match methods.insert(name.to_owned(), (access, method)) {
        Some(_) => Err(Error::invalid(format!("the method {name:?} is added twice"))),
        None => Ok(()),
    }
}
