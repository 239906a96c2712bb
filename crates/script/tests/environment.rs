//! What a script can and cannot reach.

mod support;

use std::sync::Arc;

use nacre_clock::{Clock, SystemClock};
use nacre_object::ErrorKind;
use nacre_script::{Terms, Vm};
use support::{run, script, unhurried, vm};

fn check(vm: &mut Vm, source: &str) {
    if let Err(error) = run(vm, source) {
        panic!("{error}\n{source}");
    }
}

#[test]
fn the_environment_has_no_function_that_reaches_outside() {
    let mut vm = vm();
    let absent = "load loadstring loadfile dofile require getfenv setfenv collectgarbage gcinfo \
                  newproxy print os io debug package module vector class integer";
    for name in absent.split_whitespace() {
        check(&mut vm, &format!("assert({name} == nil and _G.{name} == nil)"));
    }
    check(&mut vm, "assert(string.dump == nil and table.foreach == nil and math.noise == nil)");
}

#[test]
fn the_environment_has_every_function_of_the_list() {
    let mut vm = vm();
    let present = "assert error getmetatable ipairs next pairs pcall rawequal rawget rawlen rawset \
                   select setmetatable tonumber tostring type typeof unpack xpcall string.pack \
                   string.unpack string.gsub table.concat table.sort table.move math.floor \
                   math.random bit32.band buffer.create utf8.codepoint coroutine.wrap";
    for name in present.split_whitespace() {
        check(&mut vm, &format!("assert(type({name}) == 'function', '{name}')"));
    }
    check(&mut vm, "assert(math.huge > 0 and math.pi > 3 and type(_VERSION) == 'string')");
}

#[test]
fn library_tables_and_the_metatable_of_strings_cannot_be_changed() {
    let mut vm = vm();
    let attempts = [
        "string.rep = 1",
        "table.insert(math, 1)",
        "rawset(string, 'rep', 1)",
        "setmetatable(string, {})",
        "table.clear(table)",
        "getmetatable('').__index = {}",
        "getmetatable(_G).__index.string = {}",
        "getmetatable(_G).__index = {}",
        "table.move({1, 2}, 1, 2, 1, math)",
    ];
    for source in attempts {
        let error = run(&mut vm, source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault, "{source}: {error}");
    }
    check(&mut vm, "assert(('x'):rep(3) == 'xxx')");
}

#[test]
fn a_run_sees_no_state_of_an_earlier_run() {
    let mut vm = vm();
    let source = "count = (count or 0) + 1
                  string = { mine = true }
                  return count, _G.count, string.mine";
    for _ in 0..3 {
        assert_eq!(run(&mut vm, source).unwrap(), ["1", "1", "true"]);
    }
    check(&mut vm, "assert(count == nil and string.mine == nil and string.rep)");
}

#[test]
fn locals_of_a_chunk_start_anew_with_every_run_though_it_stays_loaded() {
    use std::sync::Arc;
    let mut vm = vm();
    let script = support::script("local n = 0 local seen = {} n += 1 seen[n] = 1 return n, #seen");
    let clock: Arc<dyn nacre_clock::Clock> = Arc::new(nacre_clock::SystemClock::default());
    for _ in 0..3 {
        let budget = support::small();
        let terms = nacre_script::Terms { budget: &budget, clock: &clock, seed: 0 };
        let values = vm.start(&script, &terms).unwrap().load().unwrap();
        assert_eq!(values.iter().map(|v| v.as_i32().unwrap()).collect::<Vec<_>>(), [1, 1]);
    }
}

#[test]
fn random_numbers_depend_on_the_seed_alone() {
    let source = "return math.random(), math.random(6), math.random(10, 20)";
    let first = run(&mut vm(), source).unwrap();
    let mut used = vm();
    check(&mut used, "for i = 1, 7 do math.random() end");
    assert_eq!(run(&mut used, source).unwrap(), first);
    check(
        &mut used,
        "math.randomseed(5) a = math.random() math.randomseed(5) assert(a == math.random())",
    );
    check(
        &mut used,
        "for i = 1, 99 do local n = math.random(3) assert(n == 1 or n == 2 or n == 3) end",
    );
    check(&mut used, "assert(not pcall(math.random, 0) and not pcall(math.random, 2, 1))");
}

#[test]
fn replaced_functions_behave_like_the_library() {
    let mut vm = vm();
    // Long subjects and patterns take the guarded paths, short ones the library's own.
    check(
        &mut vm,
        "for _, n in {1, 3000} do
            local pad, key = ('ab'):rep(n), ('k'):rep(n)
            local s = pad .. key .. pad
            local first, last = s:find(key)
            assert(first == #pad + 1 and last == #pad + #key)
            assert(s:find(key, -#pad, true) == nil and s:find(key, #s + 2, true) == nil)
            assert(s:find(key, -#s - 5, true) == first and s:find('', 3, true) == 3)
            local pieces = s:split(key)
            assert(#pieces == 2 and pieces[1] == pad and pieces[2] == pad)
            assert(s:match('k+') == key and s:gsub('k', '') == pad .. pad)
            local count = 0
            for word in s:gmatch('[k]+') do count += 1 end
            assert(count == 1)
        end",
    );
    check(
        &mut vm,
        "local t = table.create(200000, 'x')
         t[200001] = 7
         local text = table.concat(t, ',')
         assert(#text == 400001 and text:sub(-4) == ',x,7')
         assert(table.concat({1, 2, 3}, '-', 2) == '2-3' and table.concat({}) == '')
         assert(not pcall(table.concat, {1, {}, 3}) and not pcall(table.concat))
         assert(table.concat({1, 2, 3}, '-', 2, 1) == '')",
    );
    check(
        &mut vm,
        "local t = {3, 1, 2}
         table.sort(t) assert(table.concat(t) == '123')
         table.sort(t, function(a, b) return a > b end) assert(table.concat(t) == '321')
         assert(not pcall(table.sort, {1, 'x'}))",
    );
    check(
        &mut vm,
        "local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) error('e' .. b, 0) end)
         local ok, n = coroutine.resume(co, 1) assert(ok and n == 2)
         local ok, e = coroutine.resume(co, 'x') assert(not ok and e == 'ex')
         assert(coroutine.status(co) == 'dead')
         local inside = coroutine.wrap(function() return pcall(function() return coroutine.yield(1) end) end)
         assert(inside() == 1) local ok, v = inside(2) assert(ok and v == 2)",
    );
}

#[test]
fn a_script_has_globals_of_its_own_in_each_run_unless_they_are_kept() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let (mut vm, budget) = (vm(), unhurried());
    let terms = Terms { budget: &budget, clock: &clock, seed: 1 };
    let source = "found = met met = true return found";
    for (script, is_found) in [(script(source), false), (script(source).kept(), true)] {
        for round in 0..3 {
            let run = vm.start(&script, &terms).unwrap();
            let returned = run.load().unwrap();
            let found = returned.iter().next().is_some_and(|value| !value.is_nil());
            assert_eq!(found, is_found && round > 1, "kept after the second run: {round}");
            if round > 0 {
                run.keep();
            }
        }
    }
}

/// Every name of the environment, a line each: globals, then the fields of tables.
const NAMES: &str = "
    local names = {}
    for global, value in getmetatable(_G).__index do
        if type(value) ~= 'table' then
            table.insert(names, global)
        else
            for field in value do table.insert(names, global .. '.' .. field) end
        end
    end
    table.insert(names, '_G')
    table.sort(names)
    return table.concat(names, ' ')";

#[test]
fn the_reference_lists_exactly_the_library() {
    let page = include_str!("../../../docs/lua-api.md");
    let (_, library) = page.split_once("Both kinds have these globals:").unwrap();
    let (library, _) = library.split_once("These tables").unwrap();
    let in_quotes = |text: &str| -> Vec<String> {
        text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let (globals, tables) = library.split_once("| table |").unwrap();
    let mut documented = in_quotes(globals);
    for row in tables.lines().filter(|line| line.starts_with("| `")) {
        let names = in_quotes(row);
        let (table, fields) = names.split_first().unwrap();
        documented.extend(fields.iter().map(|field| format!("{table}.{field}")));
    }
    documented.sort_unstable();
    let mut vm = vm();
    let there = run(&mut vm, NAMES).unwrap().join(" ");
    // What the host of these tests adds.
    let there: Vec<_> = there.split(' ').filter(|name| !["fail", "quiet"].contains(name)).collect();
    assert_eq!(documented, there);
}
