//! Builds the environment of a script from an allow-list. A script can use only the names in this
//! list.
//!
//! When a VM is made, its globals and the tables of its libraries are reduced to the names below.
//! `prelude.luau` replaces some library functions, and the host adds functions of its own. Then all
//! these tables become read-only. Each run gets an empty table of globals; names that it lacks are
//! looked up in these base globals.
//!
//! The base must be the VM's own globals, not a copy. The VM resolves names of library functions in
//! its own globals when it loads a chunk, even if the chunk later runs in another environment.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::chunk::Compiler;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use nacre_clock::Random;

use crate::guards::{self, OUT_OF_MEMORY};
use crate::host::Host;
use crate::limits::{EXPECTED_GLOBALS, MAX_UNEXAMINED_WORK, MAX_VALUE_ENTRIES};
use crate::meter::Meter;

/// The global functions and constants that scripts may use. The list leaves out `load`,
/// `loadstring`, `require`, `dofile`, `getfenv`, `setfenv`, `collectgarbage`, `gcinfo`, `newproxy`,
/// `print`, `os`, `debug` and `io`.
const GLOBALS: &[&str] = &[
    "_VERSION",
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "typeof",
    "unpack",
];

/// The libraries, and the functions of each that stay.
const LIBRARIES: &[(&str, &[&str])] = &[
    (
        "string",
        &[
            "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "pack",
            "packsize", "rep", "reverse", "split", "sub", "unpack", "upper",
        ],
    ),
    (
        "table",
        &[
            "clear", "clone", "concat", "create", "find", "freeze", "insert", "isfrozen", "move",
            "pack", "remove", "sort", "unpack",
        ],
    ),
    (
        "math",
        &[
            "abs",
            "acos",
            "asin",
            "atan",
            "atan2",
            "ceil",
            "clamp",
            "cos",
            "cosh",
            "deg",
            "exp",
            "floor",
            "fmod",
            "frexp",
            "huge",
            "ldexp",
            "log",
            "log10",
            "max",
            "min",
            "modf",
            "pi",
            "pow",
            "rad",
            "random",
            "randomseed",
            "round",
            "sign",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
        ],
    ),
    (
        "coroutine",
        &["close", "create", "isyieldable", "resume", "running", "status", "wrap", "yield"],
    ),
    (
        "bit32",
        &[
            "arshift", "band", "bnot", "bor", "btest", "bxor", "byteswap", "countlz", "countrz",
            "extract", "lrotate", "lshift", "replace", "rrotate", "rshift",
        ],
    ),
    (
        "buffer",
        &[
            "copy",
            "create",
            "fill",
            "fromstring",
            "len",
            "readbits",
            "readf32",
            "readf64",
            "readi16",
            "readi32",
            "readi8",
            "readstring",
            "readu16",
            "readu32",
            "readu8",
            "tostring",
            "writebits",
            "writef32",
            "writef64",
            "writei16",
            "writei32",
            "writei8",
            "writestring",
            "writeu16",
            "writeu32",
            "writeu8",
        ],
    ),
    ("utf8", &["char", "charpattern", "codepoint", "codes", "len", "offset"]),
];

/// Global functions of `prelude.luau`, and the table of globals itself.
const PRELUDE_GLOBALS: &[&str] = &["_G", "pcall", "xpcall"];
/// Library functions of `prelude.luau` that Luau does not have.
const PRELUDE_FUNCTIONS: &[(&str, &str)] =
    &[("math", "tointeger"), ("math", "type"), ("math", "ult")];

/// Whether every script has this global or, if `field` is given, this field of it. A host may add
/// others.
pub(crate) fn is_in_environment(global: &str, field: Option<&str>) -> bool {
    let Some((_, functions)) = LIBRARIES.iter().find(|(library, _)| *library == global) else {
        return GLOBALS.contains(&global) || PRELUDE_GLOBALS.contains(&global);
    };
    field.is_none_or(|field| {
        functions.contains(&field) || PRELUDE_FUNCTIONS.contains(&(global, field))
    })
}

/// The shared base of every run's environment.
pub(crate) struct Environment {
    fresh: Function,
    template: Table,
}

impl Environment {
    /// Builds the base in a new VM and makes it read-only.
    pub fn new(
        lua: &Lua,
        meter: &Rc<Meter>,
        random: &Rc<RefCell<Random>>,
        library: impl FnOnce(&Host<'_>) -> mlua::Result<()>,
    ) -> mlua::Result<Self> {
        guards::install_random(lua, random)?;
        let quiet = lua.create_table()?;
        let prelude = load_prelude(lua, meter, &quiet)?;
        for (library, names) in LIBRARIES {
            let table: Table = lua.globals().raw_get(*library)?;
            strip(&table, names)?;
            if let Some(replacements) = prelude.raw_get::<Option<Table>>(*library)? {
                copy_all(&replacements, &table)?;
            }
        }
        let base = lua.globals();
        let libraries = LIBRARIES.iter().map(|(name, _)| *name);
        strip(&base, &GLOBALS.iter().copied().chain(libraries).collect::<Vec<_>>())?;
        copy_all(&prelude.raw_get("base")?, &base)?;
        library(&Host::new(lua, &base, &quiet, meter))?;
        // Makes the base, its tables and the metatable of strings read-only.
        lua.sandbox(true)?;
        let template = lua.create_table_with_capacity(0, EXPECTED_GLOBALS)?;
        let metatable = lua.create_table()?;
        metatable.raw_set("__index", base)?;
        metatable.set_readonly(true);
        template.set_metatable(Some(metatable))?;
        Ok(Self { fresh: prelude.raw_get("environment")?, template })
    }

    /// A new table of globals.
    pub fn fresh(&self) -> mlua::Result<Table> {
        let globals: Table = self.fresh.call(&self.template)?;
        // Lets the VM resolve library functions when it loads a chunk. They cannot change.
        globals.set_safeenv(true);
        Ok(globals)
    }
}

/// A VM with the libraries of the list and nothing that reaches outside.
pub(crate) fn new_lua() -> mlua::Result<Lua> {
    // Without these two flags, a `table.move` over a sparse range takes time for the whole range.
    let known = ["LuauTableMoveTimeoutFix", "LuauOptimizeStringSplit"]
        .map(|flag| Lua::set_fflag(flag, true));
    debug_assert!(known.iter().all(Result::is_ok), "this Luau has other flags");
    let libraries = StdLib::STRING
        | StdLib::TABLE
        | StdLib::MATH
        | StdLib::COROUTINE
        | StdLib::BIT
        | StdLib::BUFFER
        | StdLib::UTF8;
    Lua::new_with(libraries, LuaOptions::new())
}

fn load_prelude(lua: &Lua, meter: &Rc<Meter>, quiet: &Table) -> mlua::Result<Table> {
    let limits = lua.create_table()?;
    limits.raw_set("out_of_memory", OUT_OF_MEMORY)?;
    limits.raw_set("unexamined_work", MAX_UNEXAMINED_WORK)?;
    limits.raw_set("entries_at_once", MAX_VALUE_ENTRIES)?;
    let compiler = Compiler::new().set_optimization_level(1).set_debug_level(0);
    lua.load(include_str!("prelude.luau")).set_name("=prelude").set_compiler(compiler).call((
        guards::host_table(lua, meter)?,
        limits,
        quiet,
    ))
}

/// Removes every entry that is not listed.
fn strip(table: &Table, names: &[&str]) -> mlua::Result<()> {
    for pair in table.pairs::<String, Value>() {
        let (name, _) = pair?;
        if !names.contains(&name.as_str()) {
            table.raw_remove(name)?;
        }
    }
    Ok(())
}

fn copy_all(from: &Table, to: &Table) -> mlua::Result<()> {
    from.for_each(|name: String, value: Value| to.raw_set(name, value))
}
