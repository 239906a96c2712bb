//! Calls every function of every library with unsuitable arguments. Each call must return or fail
//! within the budget. Afterwards the VM must still work.

mod support;

use std::collections::BTreeSet;

use nacre_object::ErrorKind;
use nacre_program::Budget;
use support::{run, run_within, small, vm};

const LIBRARIES: [&str; 8] =
    ["string", "table", "math", "coroutine", "bit32", "buffer", "utf8", "global"];
/// The functions that belong to no library.
const GLOBALS: &str = "{assert = assert, error = error, getmetatable = getmetatable, \
    ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget, \
    rawlen = rawlen, rawset = rawset, select = select, setmetatable = setmetatable, \
    tonumber = tonumber, tostring = tostring, type = type, typeof = typeof, unpack = unpack, \
    pcall = pcall, xpcall = xpcall}";
/// The unsuitable arguments: small, huge and invalid numbers; long strings; patterns that
/// backtrack; tables that are sparse, contain themselves or raise errors when accessed; and values
/// of types that most functions refuse.
const ARGUMENTS: &str = "
    local loop = {} loop[1] = loop
    local sparse = {1, 2, 3} sparse[2^30] = 4
    local arguments = {
        false, 0, -1, 2^31, 2^53, -2^53, 0/0, math.huge, 'a', '', '%d%s%q%99.99f', '(.-)*%b()',
        ('x'):rep(200000), ('%w'):rep(5000), loop, sparse,
        setmetatable({}, {__index = error, __len = error, __tostring = error, __eq = error,
            __lt = error, __iter = error, __call = error, __concat = error}),
        coroutine.create(error), error, buffer.create(64),
    }";

fn functions_of(library: &str) -> Vec<String> {
    let table = if library == "global" { GLOBALS } else { library };
    let source = format!(
        "local names = {{}} for name, value in {table} do
            if type(value) == 'function' then table.insert(names, name) end
        end table.sort(names) return table.concat(names, ' ')"
    );
    let names = run(&mut vm(), &source).unwrap().remove(0);
    names.split(' ').map(str::to_owned).collect()
}

#[test]
fn every_library_function_survives_arguments_of_every_kind() {
    let (mut vm, mut tried) = (vm(), 0);
    let budget = small();
    for library in LIBRARIES {
        for name in functions_of(library) {
            let function =
                if library == "global" { name.clone() } else { format!("{library}.{name}") };
            for first in 1..=20 {
                let source = format!(
                    "{ARGUMENTS}
                    local a = arguments[{first}]
                    pcall({function}, a)
                    for _, b in arguments do pcall({function}, a, b) pcall({function}, a, b, b) end
                    return 1"
                );
                if let Err(error) = run_within(&mut vm, &source, &budget) {
                    let is_fair = matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Fault);
                    assert!(is_fair, "{function}, argument {first}: {error}");
                }
                if vm.is_damaged() {
                    vm = support::vm();
                }
                tried += 1;
            }
            assert_eq!(run(&mut vm, "return ('ok'):rep(2)").unwrap(), ["okok"], "{function}");
        }
    }
    assert!(tried > 2000, "{tried} runs");
}

/// A use of each string function that would take hours or all memory if it were let.
const HUGE: [(&str, &str); 17] = [
    ("byte", "string.byte(('x'):rep(1e6), 1, -1)"),
    ("char", "string.char(unpack(table.create(1e6, 65)))"),
    ("find", "string.find(('a'):rep(1e5), ('a-'):rep(50) .. 'b')"),
    ("format", "string.format('%099d' .. ('%s'):rep(2), ('x'):rep(8e6), ('x'):rep(8e6))"),
    ("gmatch", "for _ in string.gmatch(('a'):rep(1e5), ('a-'):rep(50) .. 'b') do end"),
    ("gsub", "string.gsub(('x'):rep(1e6), '', ('y'):rep(1e6))"),
    ("len", "for i = 1, math.huge do string.len(('x'):rep(1e6)) end"),
    ("lower", "while true do string.lower(('X'):rep(4e6)) end"),
    ("match", "string.match(('('):rep(1e5), ('%b()'):rep(30))"),
    ("pack", "string.pack(('s4'):rep(30), unpack(table.create(30, ('x'):rep(1e6))))"),
    ("packsize", "while true do string.packsize(('i8'):rep(1e4)) end"),
    ("rep", "string.rep(('x'):rep(1e6), 2^31 - 1)"),
    ("reverse", "while true do string.reverse(('x'):rep(4e6)) end"),
    ("split", "string.split((','):rep(4e6), ',')"),
    ("sub", "local t = {} while true do t[#t + 1] = string.sub(('x'):rep(1e6), #t) end"),
    ("unpack", "while true do string.unpack(('i1'):rep(200), ('x'):rep(1e6)) end"),
    ("upper", "local t = {} while true do t[#t + 1] = string.upper(('x'):rep(1e6) .. #t) end"),
];

#[test]
fn every_string_function_is_bounded() {
    let there: BTreeSet<_> = functions_of("string").into_iter().collect();
    let tried: BTreeSet<_> = HUGE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, tried, "each string function has its case, and no other");
    let mut vm = vm();
    for (name, source) in HUGE {
        let budget = Budget { memory_bytes: 16 * 1024 * 1024, ..small() };
        if let Err(error) = run_within(&mut vm, source, &budget) {
            let is_fair = matches!(error.kind(), ErrorKind::Exhausted | ErrorKind::Fault);
            assert!(is_fair, "{name}: {error}");
        }
        if vm.is_damaged() {
            vm = support::vm();
        }
        assert_eq!(run(&mut vm, "return 1").unwrap(), ["1"], "{name}");
    }
}
