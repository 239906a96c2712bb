//! Tests that a program reaches only the object on which it was called. The tests call every host
//! function with arguments that try to reach other data, stall the host or break it.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nacre_class::CLASS_INTERFACE;
use nacre_conformance::peak_memory_kib;
use nacre_object::{ErrorKind, ListRequest, ObjectStat, Op, OpResult, PoolName};
use nacre_program::Item;
use support::{Node, small_budget};

/// Hostile uses of host functions. A test fails if this list lacks a host function.
const CASES: &[(&str, &[&str])] = &[
    ("objclass.append", &["objclass.append(('x'):rep(2^22))", "objclass.append(objclass)"]),
    ("objclass.create", &["objclass.create('data/victim')", "objclass.create({})"]),
    ("objclass.current_subop_num", &["objclass.current_subop_num(-1)"]),
    ("objclass.current_subop_version", &["objclass.current_subop_version('victim')"]),
    ("objclass.current_version", &["objclass.current_version('data/victim')"]),
    ("objclass.exists", &["output:append(tostring(objclass.exists('data/victim')))"]),
    (
        "objclass.getxattr",
        &["objclass.getxattr('../victim')", "objclass.getxattr(('n'):rep(2^20))"],
    ),
    ("objclass.fail", &["objclass.fail(-22, ('x'):rep(2^23))", "objclass.fail(0, 'x')"]),
    ("objclass.getxattrs", &["objclass.getxattrs('data/victim')"]),
    (
        "objclass.log",
        &[
            "while true do objclass.log(0, ('x'):rep(2^16)) end",
            "objclass.log({}, {})",
            "objclass.log(unpack(table.create(400, ('x'):rep(2^23))))",
        ],
    ),
    ("objclass.map_clear", &["objclass.map_clear('data/victim')"]),
    ("objclass.map_get", &["objclass.map_get('../../victim')", "objclass.map_get(0/0)"]),
    (
        "objclass.map_get_str",
        &["objclass.map_get_str('../../victim')", "objclass.map_get_str(('k'):rep(2^20))"],
    ),
    (
        "objclass.map_get_keys",
        &["objclass.map_get_keys('', 2^53)", "objclass.map_get_keys({}, -1)"],
    ),
    ("objclass.map_get_val", &["objclass.map_get_val('victim\0k')"]),
    ("objclass.map_get_vals", &["objclass.map_get_vals('', '', math.huge)"]),
    (
        "objclass.map_set_parts",
        &[
            r"objclass.map_set_parts(('\255'):rep(2^20), '', '')",
            "objclass.map_set_parts('k', ('v'):rep(2^22), ('v'):rep(2^22))",
        ],
    ),
    (
        "objclass.map_set_rest",
        &[
            r"objclass.map_set_rest(('\255'):rep(2^20), '', 1)",
            "objclass.map_set_rest('k', ('v'):rep(2^22), 2^53)",
            "objclass.map_set_rest('k', {}, -1)",
        ],
    ),
    (
        "objclass.map_get_int",
        &[
            "objclass.map_get_int('../../victim', 1)",
            "objclass.map_get_int(('k'):rep(2^23), -2^53)",
            "objclass.map_get_int('k', 0/0)",
        ],
    ),
    (
        "objclass.map_set_int",
        &[
            "objclass.map_set_int(('k'):rep(2^20), 1, 'v')",
            "objclass.map_set_int('k', 2^53, 'v')",
            "objclass.map_set_int('k', 1, {})",
        ],
    ),
    (
        "objclass.map_set_int_rest",
        &[
            "objclass.map_set_int_rest(('k'):rep(2^20), 1, '', 1)",
            "objclass.map_set_int_rest('k', 1, ('v'):rep(2^22), 2^53)",
            "objclass.map_set_int_rest('k', 1, 'v', -1)",
            "objclass.map_set_int_rest('k', 1, bufferlist, 1)",
        ],
    ),
    (
        "objclass.hex_key",
        &["while true do objclass.hex_key(('p'):rep(2^20), 1) end", "objclass.hex_key('p', -1)"],
    ),
    ("objclass.map_last", &[r"objclass.map_last(('\255'):rep(2^20))"]),
    (
        "objclass.map_page",
        &["objclass.map_page('', '', 2^52, 2^52)", "objclass.map_page('', '', -1, 0)"],
    ),
    (
        "objclass.map_range",
        &["objclass.map_range('', '', 2^53)", "objclass.map_range('', '', -2^53)"],
    ),
    ("objclass.map_read_header", &["objclass.map_read_header('data/victim')"]),
    ("objclass.map_remove_key", &["objclass.map_remove_key('data/victim/k')"]),
    ("objclass.map_set", &["while true do objclass.map_set(math.random(), ('x'):rep(2^16)) end"]),
    ("objclass.map_set_val", &["objclass.map_set_val(('k'):rep(2^20), bufferlist.new())"]),
    (
        "objclass.map_set_vals",
        &[
            "objclass.map_set_vals(setmetatable({}, {__pairs = function() while true do end end}))",
            "local t = {} t[t] = t objclass.map_set_vals(t)",
            "local t, s = {}, ('x'):rep(2^23) for i = 1, 400 do t['k' .. i] = s end objclass.map_set_vals(t)",
            "local t, s = {}, ('x'):rep(2^20) for i = 1, 4000 do t['k' .. i] = s end objclass.map_set_vals(t)",
        ],
    ),
    ("objclass.map_write_header", &["objclass.map_write_header(('x'):rep(2^23))"]),
    ("objclass.now", &["output:append(tostring(objclass.now('tomorrow')))"]),
    (
        "objclass.read",
        &["objclass.read(0, 2^53)", "objclass.read(-1, -1)", "objclass.read('data/victim')"],
    ),
    (
        "objclass.register",
        &["objclass.register(h)", "objclass.register(print)", "objclass.register('h')"],
    ),
    ("objclass.remove", &["objclass.remove('data/victim')"]),
    ("objclass.rmxattr", &["objclass.rmxattr('../victim')"]),
    (
        "objclass.setxattr",
        &["while true do objclass.setxattr('a' .. math.random(), ('x'):rep(2^16)) end"],
    ),
    ("objclass.source", &["objclass.source('admin')"]),
    ("objclass.stat", &["objclass.stat('data/victim')"]),
    (
        "objclass.truncate",
        &["objclass.truncate(2^52)", "objclass.truncate(-1)", "objclass.truncate(0/0)"],
    ),
    ("objclass.write", &["objclass.write(2^52, 1, 'x')", "objclass.write(-1, 2^53, 'x')"]),
    ("objclass.write_full", &["objclass.write_full(('x'):rep(2^23))"]),
    ("objclass.zero", &["objclass.zero(0, 2^53)", "objclass.zero(2^53, 2^53)"]),
    ("bufferlist.new", &["while true do local b = bufferlist.new() b:append(('x'):rep(2^16)) end"]),
    (
        "bufferlist:append",
        &["local b = bufferlist.new() while true do b:append(b) b:append('xx') end"],
    ),
    (
        "bufferlist:str",
        &["local b = bufferlist.new() b:append(('x'):rep(2^20)) while true do b:str() end"],
    ),
];

/// The memory that the test process may use, in KiB. The calls of this test need more if a host
/// function copies a string each time that a script passes it.
const MAX_PEAK_KIB: u64 = 1 << 20;

/// Says, as lines, what host functions there are.
const ENUMERATE: &str = r"
    for _, library in {'objclass', 'bufferlist'} do
        local functions = library == 'objclass' and objclass or bufferlist
        for name, value in functions do
            if type(value) == 'function' then output:append(library .. '.' .. name .. '\n') end
        end
    end";
/// Methods of a buffer list cannot be listed from inside.
const BUFFER_LIST_METHODS: [&str; 2] = ["bufferlist:append", "bufferlist:str"];

/// A node with an object that no call is made on.
struct House {
    node: Node,
    before: Vec<OpResult>,
}

impl House {
    fn new() -> Self {
        let node = Node::with_budget(small_budget());
        let key = (Bytes::from_static(b"k"), Bytes::from_static(b"v"));
        let ops = vec![
            Op::WriteFull { data: Bytes::from_static(b"nobody's business") },
            Op::SetAttribute { name: "a".into(), value: Bytes::from_static(b"1") },
            nacre_conformance::ops::map_set([key]),
        ];
        node.submit("victim", ops).unwrap();
        let before = Self::look(&node);
        Self { node, before }
    }

    fn look(node: &Node) -> Vec<OpResult> {
        let ops = vec![Op::Read { offset: 0, length: 1 << 20 }, Op::Stat, Op::GetAttributes];
        node.submit("victim", ops).unwrap()
    }

    /// Runs a body on an object of its own, and checks that no other object has changed.
    fn attack(&self, what: &str, body: &str) {
        let script = format!("function h(input, output) {body} end objclass.register(h)");
        if let Err(error) = self.node.eval("own", &script, "h", b"in") {
            let kind = error.kind();
            let is_fair = !matches!(kind, ErrorKind::Unavailable | ErrorKind::Corrupt);
            assert!(is_fair, "{what}: {body}: {error}");
        }
        assert_eq!(Self::look(&self.node), self.before, "{what}: {body}");
        let peak = peak_memory_kib();
        assert!(peak < MAX_PEAK_KIB, "{what}: {body}: {peak} KiB");
        let request = ListRequest {
            pool: PoolName::new("data").unwrap(),
            after: None,
            prefix: String::new(),
            limit: 100,
        };
        let listed = futures::executor::block_on(self.node.store.list(request)).unwrap().names;
        let names: BTreeSet<_> = listed.iter().map(|name| name.as_str()).collect();
        assert!(names.is_subset(&BTreeSet::from(["own", "victim"])), "{what}: {body}: {names:?}");
        assert_eq!(
            self.node.body("own", "output:append('ok')"),
            (0, "ok".into()),
            "{what}: {body}"
        );
    }
}

#[test]
fn no_host_function_reaches_further_than_its_object() {
    let house = House::new();
    let (status, listed) = house.node.body("own", ENUMERATE);
    assert_eq!(status, 0);
    let cases: BTreeMap<_, _> = CASES.iter().copied().collect();
    let there: BTreeSet<_> = listed.lines().chain(BUFFER_LIST_METHODS).collect();
    let unknown: Vec<_> = there.iter().filter(|name| !cases.contains_key(**name)).collect();
    assert!(unknown.is_empty(), "host functions without a hostile case: {unknown:?}");
    let gone: Vec<_> = cases.keys().filter(|name| !there.contains(**name)).collect();
    assert!(gone.is_empty(), "cases of functions that are not there: {gone:?}");
    for (name, bodies) in CASES {
        for body in *bodies {
            house.attack(name, body);
            house.attack(name, &format!("pcall(function() {body} end)"));
            // In a coroutine, with errors that are objects.
            let inside =
                format!("coroutine.wrap(function() {body} error(setmetatable({{}}, {{}})) end)()");
            house.attack(name, &inside);
        }
    }
}

#[test]
fn the_reference_lists_exactly_the_host_functions() {
    let page = include_str!("../../../docs/lua-api.md");
    let is_of_classes = |row: &&str| {
        ["objclass.", "bufferlist.", "bl:"].iter().any(|name| row[3..].starts_with(name))
    };
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let documented: BTreeSet<_> = rows.filter(is_of_classes).map(str::to_owned).collect();
    let row = |item: &Item| format!("| `{}` | {} |", item.usage, item.what);
    let declared: BTreeSet<_> = CLASS_INTERFACE.environment.iter().map(row).collect();
    assert_eq!(documented, declared);
}

#[test]
fn the_interface_lists_exactly_the_host_functions() {
    let items = CLASS_INTERFACE.environment.iter();
    let declared: BTreeSet<_> =
        items.map(|item| item.name().replace("bl:", "bufferlist:")).collect();
    let (_, listed) = House::new().node.body("own", ENUMERATE);
    let there: BTreeSet<_> = listed.lines().chain(BUFFER_LIST_METHODS).map(str::to_owned).collect();
    assert_eq!(declared, there);
}

/// Calls every host function with every kind of unsuitable argument.
#[test]
fn host_functions_survive_arguments_of_every_kind() {
    let house = House::new();
    const ARGUMENTS: &str = r"
        local loop = {} loop[1] = loop
        local arguments = {
            false, -1, 0/0, math.huge, 2^53, 'victim', ('x'):rep(70000), '\0', loop,
            setmetatable({}, {__tostring = error, __len = error, __index = error, __iter = error}),
            coroutine.create(error), error, bufferlist.new(), buffer.create(8),
        }";
    let (_, listed) = house.node.body("own", ENUMERATE);
    for name in listed.lines().filter(|name| *name != "objclass.register") {
        let body = format!(
            "{ARGUMENTS}
            for _, a in arguments do
                pcall({name}, a)
                for _, b in arguments do pcall({name}, a, b) pcall({name}, b, a, a) end
            end"
        );
        house.attack(name, &body);
    }
    for method in ["append", "str"] {
        let body = format!(
            "{ARGUMENTS}
            local own = bufferlist.new()
            for _, a in arguments do pcall(own.{method}, a) pcall(own.{method}, own, a, a) end"
        );
        house.attack(method, &body);
    }
}

#[test]
fn metatables_errors_and_recursion_do_not_escape_the_sandbox() {
    let house = House::new();
    for body in [
        "getmetatable(output).__index = nil",
        "setmetatable(output, {})",
        "getmetatable(objclass).__index = function() return 1 end",
        "objclass.read = function() return 'mine' end",
        "rawset(objclass, 'read', nil)",
        "rawset(string, 'rep', nil)",
        "getmetatable('').__index = objclass",
        "setmetatable(string, {__index = objclass})",
        "error(objclass)",
        "error(setmetatable({}, {__tostring = function() return ('x'):rep(2^24) end}))",
        "error(setmetatable({}, {__tostring = function() error('again') end}))",
        "error(('x'):rep(2^23))",
        "error(coroutine.create(function() end))",
        "local function f() return f() + 1 end f()",
        "local function f() objclass.map_set('k', 'v') return f() + 1 end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local co co = coroutine.wrap(function() co() end) co()",
        "coroutine.wrap(function() objclass.write_full('x') coroutine.yield() end)()",
        "for i = 1, 2^20 do output:append('xxxxxxxxxxxxxxxx') end",
        "return ('x'):rep(100)",
        "return 2^60",
        "return 0/0",
        "return output, output, output",
    ] {
        house.attack("a way out", body);
    }
    let version = |results: &[OpResult]| match results {
        [_, OpResult::Stat(ObjectStat { version, .. }), _] => *version,
        other => panic!("{other:?}"),
    };
    assert_eq!(version(&House::look(&house.node)), version(&house.before));
}
