//! `TypeLibrary`: the functions that file types call, and the methods that they add.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mlua::{Function, LuaString};
use nacre_object::{Error, Result};
use nacre_script::{Host, Library, raise};

use super::Access;

/// Methods of one file type: more is a mistake.
const MAX_METHODS: usize = 256;

/// The methods that the running chunk has added, in the VM of a thread.
pub(super) struct TypeLibrary(Rc<RefCell<Methods>>);

/// Makes an error of a text.
type Refusal = fn(String) -> Error;
type Methods = BTreeMap<String, (Access, Function)>;

impl TypeLibrary {
    /// Forgets the methods of the last run.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// The methods by name.
    pub fn methods(&self) -> BTreeMap<String, Access> {
        let methods = self.0.borrow();
        methods.iter().map(|(name, (access, _))| (name.clone(), *access)).collect()
    }

    /// A method.
    ///
    /// # Errors
    /// `Unsupported` with the methods there are.
    pub fn method(&self, name: &str) -> Result<(Access, Function)> {
        let methods = self.0.borrow();
        methods.get(name).cloned().ok_or_else(|| {
            let names: Vec<_> = methods.keys().map(String::as_str).collect();
            Error::unsupported(format!("the file type has no method {name:?}"))
                .hint(format!("call one of {}", names.join(", ")))
        })
    }
}

impl Library for TypeLibrary {
    fn install(host: &Host<'_>) -> mlua::Result<Self> {
        let methods = Rc::<RefCell<Methods>>::default();
        let table = host.lua.create_table()?;
        for (name, access) in [("read", Access::Read), ("write", Access::Write)] {
            let methods = Rc::clone(&methods);
            let add = host.function(move |_, (name, method): (LuaString, Function)| {
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
        host.globals.raw_set("filetype", table)?;
        Ok(Self(methods))
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
