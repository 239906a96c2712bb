//! Which methods are *brief*: methods that look up single rows and never scan rows. An engine may
//! run a brief method on the caller's thread.

use std::fs;
use std::path::Path;

use nacre_brados::{Layout, compile, with_layout};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class");

fn brief(source: &str) -> Vec<String> {
    let compiled =
        compile(source).unwrap_or_else(|errors| panic!("{}", errors.render("p", source)));
    compiled.brief().map(str::to_owned).collect()
}

fn library(name: &str) -> String {
    fs::read_to_string(Path::new(PROGRAMS).join(name).with_extension("brados")).unwrap()
}

/// A program with these rules, a table `log`, and an input `ask` whose row is a number.
fn with_rules(rules: &str) -> String {
    format!(
        "state do
  table :log, [:pos:int] => [:data:bytes]
  table :owner, [:name:string, :pos:int]
  channel :notify, [:payload:string]
  interface input, :ask, [:pos:int]
  interface output, :ret, [:pos:int]
end
bloom do
  {}
end
",
        rules.replace("; ", "\n  ")
    )
}

#[test]
fn library_methods_that_look_up_single_rows_take_bounded_time() {
    // `seal` and `max_position` scan for the greatest position, and `trim_to` may remove many
    // entries. So these three methods may take long.
    assert_eq!(brief(&library("log")), ["read", "write", "fill", "trim"]);
    assert_eq!(brief(&library("kv")), ["put", "put_if", "delete", "delete_if", "get"]);
}

#[test]
fn a_method_that_may_scan_rows_takes_unbounded_time() {
    for (rules, is_brief) in [
        ("ret <= (ask * log).lefts(:pos => :pos)", true),
        ("log <+- ask{|a| [a.pos, '']}", true),
        ("log <+ ask.notin(log, :pos => :pos){|a| [a.pos, '']}", true),
        // Literal rows: a join of several lists of them may have any number of rows.
        (
            "temp :a <= [[1], [2]]; temp :b <= [[3], [4]]; ret <= (a * b).pairs{|a, b| [a.c0 + b.c0]}",
            false,
        ),
        // A table, and a part of one.
        ("ret <= (ask * log).rights{|l| [l.pos]}", false),
        ("ret <= (ask * owner).rights{|o| [o.pos] if o.name == 'a'}", false),
        ("log <+ ask.notin(owner, :pos => :pos){|a| [a.pos, '']}", false),
        // The end of a table. The search for it may pass many removed rows.
        (
            "temp :last <= log.group([], max(:pos)); ret <= (ask * last).pairs{|a, l| [l.max_pos]}",
            false,
        ),
        // A greatest value, whose row may be removed.
        ("temp :most <= owner.group([:name], max(:pos)); owner <- ask{|a| ['a', a.pos]}", false),
        ("temp :most <= owner.group([:name], max(:pos)); owner <+ ask{|a| ['a', a.pos]}", true),
        ("temp :many <= owner.group([:name], count); owner <- ask{|a| ['a', a.pos]}", true),
        // What is sent, others carry out.
        ("ret <= ask; notify <~ ask{|a| ['']}", false),
    ] {
        let source = with_rules(rules);
        assert_eq!(brief(&source) == ["ask"], is_brief, "{source}");
    }
}

#[test]
fn a_recursion_takes_unbounded_time() {
    let source = "state do
  scratch :down, [:n:int]
  interface input, :ask, [:n:int]
  interface output, :ret, [:n:int]
end
bloom do
  down <= ask
  down <= down{|d| [d.n - 1] if d.n > 0}
  ret <= down
end
";
    assert!(brief(source).is_empty());
}

#[test]
fn a_look_up_takes_bounded_time_in_every_layout_but_not_with_former_layouts() {
    let (source, map) = (library("log"), Layout::default());
    let elsewhere = compile(&format!("layout log: slots(4096)\n{source}")).unwrap();
    let elsewhere = elsewhere.analysis.program.layout();
    assert!(brief(&with_layout(&source, &elsewhere, &[])).contains(&"write".to_owned()));
    assert!(brief(&with_layout(&source, &map, &[elsewhere])).is_empty());
}
