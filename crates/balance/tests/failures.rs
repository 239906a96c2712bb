//! Tests of policies that fail. Such a policy moves nothing, and its error names the program, the
//! version and the line.

mod common;

use std::sync::Arc;

use common::{clock, decide, failure, line_of, policy, tick};
use nacre_balance::{Inputs, Policy, UnitRates};
use nacre_clock::Clock;
use nacre_object::{Error, ErrorKind};

fn refused(source: &str) -> Error {
    Policy::compile("balancer/test", 7, source).expect_err("the policy compiles")
}

#[test]
fn a_source_that_does_not_compile_is_refused_with_the_line_in_the_source() {
    for (source, line) in [
        ("\nwhen = [[", 2),
        ("\n\nx = = 1", 3),
        ("-- a policy\nmetaload = 'IRD +'", 2),
        ("-- a policy\nmetaload = [[\n  IRD\n  + + 2]]", 4),
        ("-- a policy\nmdsload = [[MDSs[i]['all']]", 2),
        ("-- a policy\nmdsload = [[MDSs[i] all]]", 2),
        ("when = [[\nif MDSs[whoami] load then\n]]\nwhere = ''", 2),
        ("when = [[if true then]]\nwhere = [[\n  targets[1] == 2\n]]", 3),
        ("when = 'true'\n\nwhere = \"targets[1] = \\\"x\\\" + + 1\"", 3),
        ("howmuch = '{ \"half\" '", 1),
    ] {
        let error = refused(source);
        assert_eq!(error.kind(), ErrorKind::Fault, "{source}: {error}");
        assert_eq!(line_of(&error), Some(line), "{source}: {error}");
        assert_eq!(error.fault().unwrap().version, 7);
    }
}

#[test]
fn a_hook_of_the_wrong_type_is_refused_with_its_line() {
    for (source, text) in [
        ("\nmetaload = 5", "`metaload` is a number; it must be a function or a string"),
        ("\nwhere = {}", "`where` is a table; it must be a function or a string"),
        ("\nplacement = 'x'", "`placement` is a string; it must be a function"),
        ("\nmode = 'server'", r#"`mode` is "server"; it must be "client" or "proxy""#),
        ("\nmode = 1", r#"`mode` is a number; it must be "client" or "proxy""#),
        ("\nhowmuch = {}", "`howmuch` lists 0 selectors; it must list 1 to 16"),
        (
            "\nhowmuch = { 'biggest' }",
            r#"there is no selector "biggest"; there are big_first, small_first, big_small, half, big_half, small_half"#,
        ),
        ("\nhowmuch = { 5 }", "`howmuch[1]` is a number; it must be a name or a function"),
        ("\nhowmuch = 5", "`howmuch` is a number; it must be a list of selectors"),
        (
            "\nhowmuch = '{ \"biggest\" }'",
            r#"there is no selector "biggest"; there are big_first, small_first, big_small, half, big_half, small_half"#,
        ),
    ] {
        let error = refused(source);
        assert_eq!(error.message(), text);
        assert_eq!((error.kind(), line_of(&error)), (ErrorKind::Fault, Some(2)), "{source}");
    }
}

#[test]
fn invalid_targets_are_faults() {
    let inputs = tick(0, &[10.0, 0.0, 0.0], &[5.0, 5.0]);
    let good = "a target is a finite number that is not negative";
    for (where_, text) in [
        ("targets[4] = 1", "targets[4]: there is no such rank, there are 1 to 3".to_owned()),
        ("targets[0] = 1", "targets[0]: there is no such rank, there are 1 to 3".to_owned()),
        ("targets[-1] = 1", "targets[-1]: there is no such rank, there are 1 to 3".to_owned()),
        ("targets[1e300] = 1", "1e300 is no rank; the keys of targets are integers".to_owned()),
        ("targets[1.5] = 1", "1.5 is no rank; the keys of targets are integers".to_owned()),
        ("targets.two = 1", "a string is no rank; the keys of targets are integers".to_owned()),
        ("targets[2] = 0/0", format!("targets[2] is NaN; {good}")),
        ("targets[2] = 1/0", format!("targets[2] is inf; {good}")),
        ("targets[3] = -1", format!("targets[3] is -1; {good}")),
        ("targets[3] = '1'", format!("targets[3] is a string; {good}")),
        ("targets = 5", "`targets` is a number; it must be a table".to_owned()),
        // The error is reported even if the targets are void.
        ("targets[1] = 1 targets[2] = -1", format!("targets[2] is -1; {good}")),
    ] {
        let error = failure(&format!("when = 'true'\n\nwhere = [[{where_}]]"), &inputs);
        assert_eq!(error.message(), text);
        assert_eq!((error.kind(), line_of(&error)), (ErrorKind::Fault, Some(3)), "{where_}");
    }
}

#[test]
fn invalid_loads_are_faults() {
    let unit = [UnitRates::default()];
    for metaload in ["0/0", "1/0", "-1", "nil", "{}", "'x'", "true"] {
        for source in [
            format!("\n metaload = [[\n{metaload}]]"),
            format!("\n\nfunction metaload() return {metaload} end"),
        ] {
            let error = policy(&source).measure(&unit, &clock()).unwrap_err();
            assert!(error.message().starts_with("`metaload` of unit 1 gives "), "{error}");
            assert_eq!(error.kind(), ErrorKind::Fault);
            assert!(matches!(line_of(&error), Some(2..=3)), "{source}: {error:?}");
        }
    }
    for mdsload in ["0/0", "1/0", "nil", "'5'"] {
        let error = failure(&format!("\nmdsload = [[{mdsload}]]"), &tick(0, &[1.0], &[]));
        assert!(error.message().starts_with("`mdsload` of rank 1 gives "), "{error}");
        assert_eq!((error.kind(), line_of(&error)), (ErrorKind::Fault, Some(2)));
    }
    let error = failure("mdsload = '1e308'", &tick(0, &[1.0, 1.0], &[]));
    assert_eq!(error.message(), "the sum of all loads is not finite");
}

#[test]
fn the_error_of_an_invalid_load_names_its_unit() {
    let mut units = vec![UnitRates { ird: 2.0, ..UnitRates::default() }; 2000];
    units[1234].ird = 0.0;
    for source in ["metaload = '4 / IRD'", "function metaload() return 4 / IRD end"] {
        let error = policy(source).measure(&units, &clock()).unwrap_err();
        let text =
            "`metaload` of unit 1235 gives inf; a load is a finite number that is not negative";
        assert_eq!((error.message(), line_of(&error)), (text, Some(1)));
    }
}

#[test]
fn a_fault_in_a_string_hook_names_the_line_of_the_source() {
    let unit = [UnitRates::default()];
    let source = "-- a policy\nmetaload = [[\n  IRD +\n  MISSING]]";
    let error = policy(source).measure(&unit, &clock()).unwrap_err();
    assert_eq!(line_of(&error), Some(4), "{error}");
    let source = "when = [[\n\nif true then]]\n\n\nwhere = [[\n  local x = nil\n  x.y = 1\n]]";
    let error = failure(source, &tick(0, &[1.0], &[]));
    assert_eq!(line_of(&error), Some(8), "{error}");
    assert!(error.fault().unwrap().traceback.contains("balancer/test:8"), "{error:?}");
}

#[test]
fn an_error_names_the_unknown_name_that_a_policy_uses() {
    let error = failure("when = [[if MDS[whoami].load > 1 then]]", &tick(0, &[1.0], &[]));
    assert!(error.message().starts_with("`MDS` is not available"), "{error}");
}

#[test]
fn answers_of_the_wrong_type_are_faults() {
    let base = "when = 'true'\nwhere = 'targets[2] = 5'\n";
    for (source, text) in [
        ("when = '5'".to_owned(), "`when` gives a number; it must give true or false"),
        (
            "function when() return {} end".to_owned(),
            "`when` gives a table; it must give true or false",
        ),
        (
            format!("{base}function placement() return 0 end"),
            "`placement` returned a number; it must return true or false",
        ),
        (
            format!("{base}howmuch = {{ function() return 5 end }}"),
            "the selector howmuch[1] returned a number; it must return a list of indexes of units",
        ),
        (
            format!("{base}howmuch = {{ function() return {{ 1, 1 }} end }}"),
            "the selector howmuch[1] returned a unit twice; it must return a list of indexes of units",
        ),
        (
            format!("{base}howmuch = {{ function() return {{ 1, 3 }} end }}"),
            "the selector howmuch[1] returned an entry 2 that is no unit; it must return a list of indexes of units",
        ),
        (
            format!("{base}howmuch = {{ function() return {{ 0 }} end }}"),
            "the selector howmuch[1] returned an entry 1 that is no unit; it must return a list of indexes of units",
        ),
    ] {
        let error = failure(&source, &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
        assert_eq!((error.kind(), error.message()), (ErrorKind::Fault, text));
        assert!(line_of(&error).is_some(), "{error}");
    }
}

#[test]
fn a_policy_that_never_returns_is_stopped() {
    let clock: Arc<dyn Clock> = Arc::new(nacre_clock::SystemClock::default());
    let looping = policy("function when()\n  while true do end\nend");
    let error = looping.decide(&tick(0, &[1.0], &[]), &clock).unwrap_err();
    assert_eq!((error.kind(), line_of(&error)), (ErrorKind::Exhausted, Some(2)));
    let caught =
        policy("when = [[while true do pcall(function() while true do end end) end return true]]");
    let error = caught.decide(&tick(0, &[1.0], &[]), &clock).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(refused("while true do end").kind(), ErrorKind::Exhausted);
    // The next policy runs as if the failed one had not run.
    assert!(decide(&policy("when = 'true'\nwhere = ''"), &tick(0, &[1.0], &[])).is_due);
}

#[test]
fn the_state_of_a_policy_is_bounded() {
    for (value, kind, text) in [
        ("string.rep('x', 5000)", ErrorKind::Exhausted, "the state of a policy exceeds 4096 bytes"),
        ("table.create(5000, 1)", ErrorKind::Exhausted, "the state of a policy exceeds 4096 bytes"),
        (
            "string.rep('\\1', 2000)",
            ErrorKind::Exhausted,
            "the state of a policy exceeds 4096 bytes",
        ),
        (
            "{{{{{{{{{}}}}}}}}}",
            ErrorKind::Invalid,
            "the state of a policy has tables deeper than 8",
        ),
        ("0/0", ErrorKind::Invalid, "the state of a policy cannot hold NaN"),
        ("print", ErrorKind::Invalid, ""),
        ("type", ErrorKind::Invalid, "the state of a policy cannot hold a function"),
        ("'\\255'", ErrorKind::Invalid, "the state of a policy is not UTF-8"),
        (
            "{ 1, x = 2 }",
            ErrorKind::Invalid,
            "the state of a policy has a table that is neither a list nor has strings as keys",
        ),
        (
            "{ [5] = 1 }",
            ErrorKind::Invalid,
            "the state of a policy has a table that is neither a list nor has strings as keys",
        ),
    ] {
        let source = format!("when = [[\nWRstate({value})\nreturn false]]");
        if text.is_empty() {
            // A name that does not exist is nil, which can be kept.
            assert!(decide(&policy(&source), &tick(0, &[1.0], &[])).state.is_nil());
            continue;
        }
        let error = failure(&source, &tick(0, &[1.0], &[]));
        assert_eq!(
            (error.kind(), error.message(), line_of(&error)),
            (kind, text, Some(2)),
            "{value}"
        );
    }
}

#[test]
fn inputs_that_contradict_each_other_are_invalid() {
    let good = tick(0, &[1.0, 2.0], &[1.0]);
    type Spoil = fn(&mut Inputs);
    let spoilt: [(Spoil, &str); 6] = [
        (|it| it.whoami = 2, "rank 2 is to decide, but there are only 2 ranks"),
        (|it| it.ranks.clear(), "rank 0 is to decide, but there are only 0 ranks"),
        (|it| it.unit_loads.clear(), "there are 0 loads for 1 units"),
        (
            |it| it.unit_loads[0] = f64::NAN,
            "the load of unit u1 is NaN; it must be a number of at least 0",
        ),
        (
            |it| it.unit_loads[0] = -1.0,
            "the load of unit u1 is -1; it must be a number of at least 0",
        ),
        (|it| it.ranks[1].cpu = f64::INFINITY, "a number of rank 1 is not finite"),
    ];
    for (spoil, text) in spoilt {
        let mut inputs = good.clone();
        spoil(&mut inputs);
        let error = policy("-- nothing").decide(&inputs, &clock()).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, text));
    }
}

#[test]
fn a_policy_can_access_only_its_environment() {
    for name in ["os", "io", "debug", "require", "load", "loadstring", "getfenv", "print"] {
        let source = format!("when = [[return {name} == nil]]\nwhere = ''");
        assert!(decide(&policy(&source), &tick(0, &[1.0], &[])).is_due, "{name}");
    }
}
