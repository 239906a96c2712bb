//! How failures look from inside a script and from outside.

mod support;

use nacre_object::ErrorKind;
use support::{run, vm};

#[test]
fn a_fault_tells_program_version_line_and_traceback() {
    let source = "local function inner()\n  local x = nil\n  return x.field\nend\n\
                  function outer()\n  inner()\n  return 1\nend\nouter()";
    let error = run(&mut vm(), source).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Fault, -5));
    assert_eq!(error.message(), "attempt to index nil with 'field'");
    let site = error.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version, site.line), ("test", 3, Some(3)));
    let frames =
        "test:3: in function 'inner'\ntest:6: in function 'outer'\ntest:9: in function <test:1>";
    assert_eq!(site.traceback, frames);
}

#[test]
fn an_uncaught_host_error_keeps_its_kind_and_gets_a_line() {
    let error = run(&mut vm(), "\n\nfail('taken')").unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Conflict, "taken"));
    assert_eq!((error.status(), error.has_own_status()), (-125, true));
    assert_eq!(error.fault().unwrap().line, Some(3));
}

#[test]
fn a_raised_table_or_function_is_not_shown_by_its_address() {
    for (value, what) in [("{}", "table"), ("fail", "function"), ("function() end", "function")] {
        let error = run(&mut vm(), &format!("error({value})")).unwrap_err();
        let text =
            format!("the program raised a {what}; `error` takes a string that says what is wrong");
        assert_eq!((error.kind(), error.message()), (ErrorKind::Fault, text.as_str()));
    }
    let error = run(&mut vm(), "error('no such table: 0x')").unwrap_err();
    assert_eq!(error.message(), "no such table: 0x");
}

#[test]
fn a_caught_host_error_gives_status_and_message() {
    let mut vm = vm();
    let caught = "return pcall(fail, 'taken')";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "-125", "taken"]);
    let caught = "return pcall(function() local x = 1 fail('deep') end)";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "-125", "deep"]);
    let caught = "return xpcall(fail, function(...) return 'handled', ... end, 'taken')";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "handled", "-125", "taken"]);
    let caught = "return coroutine.resume(coroutine.create(fail), 'taken')";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "-125", "taken"]);
    let caught = "return pcall(coroutine.wrap(fail), 'taken')";
    assert_eq!(run(&mut vm, caught).unwrap(), ["false", "-125", "taken"]);
}

#[test]
fn a_function_whose_failures_are_caught_behaves_like_any_other() {
    let mut vm = vm();
    let mut outcome = |name: &str, arguments: &str| {
        run(&mut vm, &format!("return pcall({name}, {arguments})")).unwrap()
    };
    for arguments in ["'taken'", "'fine'", "5, 6"] {
        assert_eq!(outcome("quiet", arguments), outcome("fail", arguments), "{arguments}");
    }
    // Wrong arguments are caught, too, in other words.
    for arguments in ["{}", "nil"] {
        let (quiet, loud) = (outcome("quiet", arguments), outcome("fail", arguments));
        assert_eq!((quiet.len(), &quiet[0]), (2, &loud[0]), "{arguments}");
    }
    assert_eq!(run(&mut vm, "return quiet('fine')").unwrap(), ["fine", "2"]);
    assert_eq!(run(&mut vm, "quiet('taken')").unwrap_err().kind(), ErrorKind::Conflict);
    let nested = "return pcall(pcall, quiet, 'taken')";
    assert_eq!(run(&mut vm, nested).unwrap(), ["true", "false", "-125", "taken"]);
}

#[test]
fn a_caught_ordinary_error_is_the_value_that_was_raised() {
    let mut vm = vm();
    assert_eq!(run(&mut vm, "return pcall(error, 'x', 0)").unwrap(), ["false", "x"]);
    assert_eq!(run(&mut vm, "return pcall(error)").unwrap(), ["false", "nil"]);
    let table = "local t = {} local ok, e = pcall(error, t) return ok, e == t";
    assert_eq!(run(&mut vm, table).unwrap(), ["false", "true"]);
    let position = "return pcall(function()\n error('x') end)";
    assert_eq!(run(&mut vm, position).unwrap(), ["false", "test:2: x"]);
    assert_eq!(run(&mut vm, "return pcall(function() return 1, nil, 2 end)").unwrap().len(), 4);
    // What the host's argument checks say is a plain message.
    let argument = "local ok, a, b = pcall(fail, {}) return ok, type(a), type(b)";
    assert_eq!(run(&mut vm, argument).unwrap(), ["false", "string", "nil"]);
}

#[test]
fn error_objects_are_shown_by_their_tostring() {
    let mut vm = vm();
    let source = "error(setmetatable({}, { __tostring = function() return 'shown' end }))";
    assert_eq!(run(&mut vm, source).unwrap_err().message(), "shown");
    let faulty = "error(setmetatable({}, { __tostring = function() error('worse') end }))";
    assert_eq!(run(&mut vm, faulty).unwrap_err().kind(), ErrorKind::Fault);
    assert_eq!(run(&mut vm, "error()").unwrap_err().kind(), ErrorKind::Fault);
}

#[test]
fn an_error_raised_in_a_library_function_is_reported_at_the_scripts_line() {
    let mut vm = vm();
    for source in [
        "\n('x'):find()",
        "\n('x'):rep({})",
        "\ntable.sort({3, 'a'})",
        "\ntable.concat({1, {}})",
        "\nmath.random(0)",
        "\n('x'):rep(2^20):find('[' .. ('y'):rep(100) .. ']')",
    ] {
        let error = run(&mut vm, source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault, "{source}: {error}");
        assert_eq!(error.fault().unwrap().line, Some(2), "{source}: {error}");
        assert!(!error.message().contains("prelude"), "{error}");
    }
}
