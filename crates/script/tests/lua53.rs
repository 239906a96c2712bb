//! Compares the functions that the environment takes over from Lua 5.3 with Lua 5.3 itself.

mod support;

use std::process::Command;

use nacre_script::Vm;
use support::{run, vm};

/// Debian's Lua. `make install-test-deps` installs it.
const LUA: &str = "lua5.3";

/// The values of an expression in Lua 5.3, as text, or `fails`.
fn in_lua(expression: &str) -> String {
    let program = format!(
        "local all = table.pack(pcall(function() return {expression} end))
         if not all[1] then print('fails') return end
         for at = 2, all.n do all[at] = tostring(all[at]) end
         print(table.concat(all, ' ', 2))"
    );
    let output = Command::new(LUA).args(["-e", &program]).output();
    let output = output.expect("`make install-test-deps` installs lua5.3");
    assert!(output.status.success(), "{expression}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
}

/// The same in nacre.
fn in_nacre(vm: &mut Vm, expression: &str) -> String {
    match run(vm, &format!("return {expression}")) {
        Ok(values) => values.join(" "),
        Err(_) => "fails".to_owned(),
    }
}

#[test]
fn the_environment_behaves_like_lua_53() {
    let mut vm = vm();
    for expression in [
        "('x'):rep(3, ',')",
        "('ab'):rep(1, ',')",
        "('ab'):rep(0, ',')",
        "('ab'):rep(-1, ',')",
        "('ab'):rep(2, '')",
        "('ab'):rep(2)",
        "('%s %s %s'):format(nil, true, false)",
        "('%5s|%-6s|'):format(true, nil)",
        "('%s'):format()",
        "('%d'):format(true)",
        "('%s'):format('plain')",
        "math.type(3)",
        "math.type(3.5)",
        "math.type('3')",
        "math.type(nil)",
        "math.type()",
        "math.tointeger(3)",
        "math.tointeger(-3.5)",
        "math.tointeger('x')",
        "math.tointeger({})",
        "math.ult(1, 2)",
        "math.ult(2, 1)",
        "math.ult(1, -1)",
        "math.ult(-1, 1)",
        "math.ult(-2, -1)",
        "math.ult(1, 1.5)",
        "math.ult('x', 1)",
        "table.insert({}, 2, 'x')",
        "table.insert({}, 0, 'x')",
        "table.insert({ 1, 2 }, 4, 'x')",
        "#(function(t) table.insert(t, 'x') table.insert(t, 1, 'y') table.insert(t, 3, 'z') return t end)({})",
        "table.insert({}, 1, 2, 3)",
        "table.insert(nil, 1)",
        "string.packsize('jJTi8')",
        "string.packsize('<bBhHiIlLnfd')",
        "#string.pack('s', 'abc')",
        "#string.pack('<s1s4sz', 'a', 'b', 'c', 'd')",
        "#string.pack('>!8 b Xj j', 1, 2)",
        "string.unpack('<j', string.pack('<j', -5))",
        "string.unpack('s', string.pack('s', 'text'))",
        "string.unpack('<I2s2B', '\\1\\0\\2\\0ab\\9')",
        "string.packsize('s')",
        "string.pack('j4', 1)",
    ] {
        assert_eq!(in_nacre(&mut vm, expression), in_lua(expression), "{expression}");
    }
}

#[test]
fn the_guide_lists_how_nacre_differs_from_lua_53() {
    let mut vm = vm();
    let page = include_str!("../../../docs/moving-from-cls-lua.md");
    let (_, table) = page.split_once("| expression | Lua 5.3 | nacre |\n").unwrap();
    let rows: Vec<_> = table.lines().skip(1).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for row in rows {
        let cells: Vec<_> = row.split('`').collect();
        let [_, expression, _, lua, _, nacre, _] = cells[..] else { panic!("{row}") };
        let seen = (in_lua(expression), in_nacre(&mut vm, expression));
        assert_eq!(seen, (lua.to_owned(), nacre.to_owned()), "{expression}");
    }
}
