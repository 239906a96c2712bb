//! Tests programs that are made to be slow or large. The compiler must compile or refuse them in
//! bounded time, on a thread with a stack of normal size.

mod support;

use std::time::Duration;

use nacre_brados::limits::{MAX_CLASS_BYTES, MAX_DIAGNOSTICS, MAX_SOURCE_BYTES};
use nacre_brados::{Severity, Value, check, compile, format};
use nacre_clock::{Clock, SystemClock};
use support::{Subject, shown};

/// The deadline, for an unoptimised compiler on a busy machine. An ordinary program takes
/// milliseconds.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Whether a program compiles. Checks that the compiler decides this in time.
fn compiles(what: &str, source: &str) -> bool {
    let clock = SystemClock::default();
    let before = clock.monotonic();
    let compiled = compile(source);
    let _ = format(source);
    let took = clock.monotonic() - before;
    println!("{what}: {} bytes in {took:?}", source.len());
    assert!(took < MAX_TIME, "{what} takes {took:?}");
    compiled.is_ok_and(|compiled| compiled.class.lua.len() <= MAX_CLASS_BYTES)
}

fn program(state: &str, rules: &str) -> String {
    format!(
        "state do\n  interface input, :ask, [:n:int]\n  interface output, :ret, [:n:int]\n{state}end\n\
         bloom do\n{rules}end\n"
    )
}

#[test]
fn the_sandbox_compiles_every_emitted_class() {
    assert_eq!(MAX_CLASS_BYTES, nacre_program::MAX_SOURCE_BYTES);
}

#[test]
fn a_long_chain_of_wide_temps_compiles() {
    let columns = |source: &str| {
        let all: Vec<_> = (0..32).map(|at| format!("{source}.c{at}")).collect();
        all.join(",")
    };
    let mut rules = String::from("  ret <= t80{|x| [x.c0]}\n");
    for at in (1..=80).rev() {
        rules += &format!("  temp :t{at} <= t{}{{|x| [{}]}}\n", at - 1, columns("x"));
    }
    let first: Vec<_> = (0..32).map(|at| format!("{at}")).collect();
    rules += &format!("  temp :t0 <= [[{}]]\n", first.join(","));
    assert!(compiles("a chain of temps", &program("", &rules)));
}

#[test]
fn a_program_with_many_inputs_and_joins_compiles_in_bounded_time() {
    let mut state = String::new();
    let mut rules = String::new();
    for at in 0..60 {
        state += &format!("  interface input, :in{at}, [:n:int]\n");
    }
    for at in 0..6 {
        state += &format!("  table :t{at}, [:n:int]\n");
        rules += &format!("  t{at} <= ask\n");
        (0..60).for_each(|input| rules += &format!("  t{at} <= in{input}\n"));
    }
    for _ in 0..100 {
        rules +=
            "  ret <= (t0*t1*t2*t3*t4*t5).combos(t0.n=>t1.n,t2.n=>t3.n){|a,b,c,d,e,f| [f.n]}\n";
    }
    assert!(!compiles("joins in every variant", &program(&state, &rules)));
}

#[test]
fn deep_nesting_is_compiled_or_refused_in_bounded_time() {
    for (what, open, close) in
        [("(", "(", ")"), ("not", "not ", ""), ("-", "- ", ""), ("[", "[", "]")]
    {
        for depth in [10, 40, 20_000 / open.len()] {
            let deep = format!("{}x.n{}", open.repeat(depth), close.repeat(depth));
            let rule = format!("  ret <= ask{{|x| [x.n] if {deep} == 1}}\n");
            compiles(what, &program("", &rule));
        }
    }
    for operator in ["and", "+", "*", "or"] {
        let long = vec!["x.n"; 6_000].join(&format!(" {operator} "));
        assert!(!compiles(operator, &program("", &format!("  ret <= ask{{|x| [{long}]}}\n"))));
    }
}

#[test]
fn long_and_large_programs_are_compiled_or_refused_in_bounded_time() {
    let rows: Vec<_> = (0..5_000).map(|at| format!("[{at}]")).collect();
    compiles("a literal", &program("", &format!("  ret <= [{}]\n", rows.join(","))));
    let items: Vec<_> = (0..5_000).map(|at| format!("[{at}]")).collect();
    let rule = format!("  ret <= ask{{|x| [x.n] if [{}].include?([x.n])}}\n", items.join(","));
    compiles("a list that is asked", &program("", &rule));
    let rules: String = (0..2_000).map(|at| format!("  ret <= ask{{|x| [{at}]}}\n")).collect();
    assert!(!compiles("rules", &program("", &rules)));
    let state: String = (0..2_000).map(|at| format!("  scratch :s{at}, [:n:int]\n")).collect();
    assert!(!compiles("collections", &program(&state, "  ret <= ask\n")));
    let temps: String =
        (1..1_500).map(|at| format!("  temp :t{at} <= t{}.notin(ask)\n", at - 1)).collect();
    assert!(!compiles("temps", &program("", &temps)));
    let texts: String =
        (0..400).map(|at| format!("  s <= ask{{|x| [x.n, 'text {at}']}}\n")).collect();
    let state = "  scratch :s, [:n:int, :t:string]\n";
    let rule = "  ret <= s{|x| [x.n] if x.t == 'other'}\n";
    assert!(compiles("texts", &program(state, &format!("{texts}{rule}"))));
    assert!(!compiles("bytes", &" ".repeat(MAX_SOURCE_BYTES + 1)));
    let recursion: String = (0..40)
        .map(|at| format!("  s{} <= (s{at} * t).pairs(:n=>:n){{|a, b| [b.m]}}\n", (at + 1) % 40))
        .collect();
    let state: String = (0..40).map(|at| format!("  scratch :s{at}, [:n:int]\n")).collect();
    let rules = format!("  s0 <= ask\n  ret <= s7\n{recursion}");
    assert!(compiles(
        "a long cycle",
        &program(&format!("  table :t, [:n:int, :m:int]\n{state}"), &rules)
    ));
}

#[test]
fn an_error_is_reported_even_after_many_warnings() {
    let products = "  ret <= (t * u).pairs{|t, u| [t.n]}\n".repeat(3 * MAX_DIAGNOSTICS);
    let state = "  table :t, [:n:int]\n  table :u, [:n:int]\n  table :greatest, [] => [:m:int]\n";
    let rule = "  t <+ ask\n  greatest <= t.group([], max(:n))\n";
    let source = program(state, &format!("{products}{rule}"));
    let found = check(&source);
    assert_eq!(found.len(), MAX_DIAGNOSTICS);
    assert!(found.iter().any(|one| one.severity == Severity::Error), "{found:?}");
    assert!(found.is_sorted_by_key(|one| one.span.start));
}

#[test]
fn a_program_full_of_mistakes_gives_a_bounded_report() {
    let source = ";".repeat(65_000);
    let clock = SystemClock::default();
    let before = clock.monotonic();
    let errors = compile(&source).unwrap_err();
    let text = errors.render("program", &source);
    let took = clock.monotonic() - before;
    assert_eq!(errors.0.len(), MAX_DIAGNOSTICS);
    assert!(text.len() < 100_000, "{} bytes", text.len());
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(text.lines().any(|line| line.ends_with('^')));
}

#[test]
fn the_sandbox_accepts_a_class_with_a_long_list_and_many_tables() {
    let items: Vec<_> = (0..1_000).map(|at| at.to_string()).collect();
    let rule = format!("  ret <= ask{{|x| [x.n] if [{}].include?(x.n)}}\n", items.join(","));
    let subject = Subject::new(&program("", &rule));
    for (asked, expected) in [(999, "ret(999)"), (1_000, "nothing")] {
        assert_eq!(shown(&subject.call("ask", &[Value::Int(asked)])), expected);
    }
    for tables in [20, 26, 27, 40, 63, 64, 67, 80, 93] {
        for op in ["<+", "<+-", "<-", "<="] {
            let (mut state, mut rules) = (String::new(), String::from("  ret <= ask\n"));
            for at in 0..tables {
                state += &format!("  table :t{at}, [:k:int] => [:v:int]\n");
                rules += &format!("  t{at} {op} ask{{|x| [x.n, 1]}}\n");
            }
            let subject = Subject::new(&program(&state, &rules));
            let got = shown(&subject.call("ask", &[Value::Int(7)]));
            assert_eq!(got, "ret(7)", "{tables} tables {op}");
        }
    }
}
