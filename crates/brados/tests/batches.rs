//! Tests batches: a refused request changes nothing, whatever the reason, and the other requests
//! still run.

mod support;

use nacre_brados::{Value, with_layout};
use support::{Outcome, Subject, as_a_batch, one_by_one, shown};

/// The greatest number there is.
const MOST: i64 = (1 << 53) - 1;
/// The length in bytes of a key that is one byte too long.
const TOO_LONG: usize = 4097;

/// Runs requests of a method one by one and as a batch, and checks that the results are the same.
/// Returns the status of each request.
fn outcomes(source: &str, method: &str, rows: &[Vec<Value>]) -> Vec<i32> {
    let (single, batched) = (Subject::new(source), Subject::new(source));
    let outcomes: Vec<Outcome> = one_by_one(&single, method, rows);
    assert_eq!(as_a_batch(&batched, method, rows), outcomes, "{source}");
    assert_eq!(batched.content(), single.content(), "{source}");
    outcomes.iter().map(|(status, _)| *status).collect()
}

fn call(subject: &Subject, method: &str, row: &[i64]) -> String {
    shown(&subject.call(method, &numbers(row)))
}

fn numbers(row: &[i64]) -> Vec<Value> {
    row.iter().map(|number| Value::Int(*number)).collect()
}

#[test]
fn a_request_with_a_too_long_key_fails_alone_in_its_batch() {
    let text = |length: usize| vec![Value::Bytes(vec![b'k'; length])];
    for (op, group) in [("<+-", ""), ("<+", ""), ("<+-", "  temp :of <= t.group([:v], count)\n")] {
        let source = format!(
            "state do\n  table :t, [:k:bytes] => [:v:bytes]\n  interface input, :put, [:k:bytes]\n\
             end\nbloom do\n  t {op} put{{|p| [p.k, p.k]}}\n{group}end\n"
        );
        let rows = [text(1), text(TOO_LONG), text(2)];
        let statuses = outcomes(&source, "put", &rows);
        assert_eq!(statuses, [0, -22, 0], "{source}");
    }
}

#[test]
fn a_request_with_a_too_long_group_key_fails_alone_in_its_batch() {
    let source = "state do
  table :t, [:k:int] => [:name:bytes]
  interface input, :put, [:k:int, :name:bytes]
  interface input, :ask, [:k:int]
  interface output, :ret, [:name:bytes, :count:int]
end
bloom do
  t <+- put
  temp :of <= t.group([:name], count)
  ret <= (ask * of).rights
end
";
    let row = |k, length| vec![Value::Int(k), Value::Bytes(vec![b'n'; length])];
    let statuses = outcomes(source, "put", &[row(1, 1), row(2, TOO_LONG), row(3, 1)]);
    assert_eq!(statuses, [0, -22, 0]);
}

/// A program that puts one row or two, deletes rows, and moves rows with their values.
const SUMS: &str = "state do
  table :t, [:k:int] => [:v:int]
  interface input, :put, [:k:int, :v:int]
  interface input, :both, [:k:int, :v:int]
  interface input, :drop, [:from:int, :upto:int]
  interface input, :move, [:from:int, :to:int]
  interface input, :sum, [:u:int]
  interface output, :ret, [:sum:int, :avg:int, :count:int, :max:int]
end
bloom do
  t <+- put
  t <+- both{|b| [b.k, b.v]}
  t <+- both{|b| [b.k + 100, b.v]}
  t <- (drop * t).pairs{|d, t| [t.k, t.v] if t.k >= d.from and t.k <= d.upto}
  t <- (move * t).rights(:from => :k)
  t <+ (move * t).pairs(:from => :k){|m, t| [m.to, t.v]}
  temp :all <= t.group([], sum(:v), avg(:v), count, max(:v))
  ret <= (sum * all).rights
end
";

fn in_layouts() -> impl Iterator<Item = String> {
    let layouts = ["map", "t: slots(16)", "t: appended(map)", "header: attribute"];
    layouts.into_iter().map(|layout| with_layout(SUMS, &layout.parse().unwrap(), &[]))
}

#[test]
fn a_request_whose_sum_is_not_exact_fails_alone_in_its_batch() {
    for source in in_layouts() {
        for (method, most) in [("put", MOST), ("both", MOST / 2)] {
            let rows = [[1, most], [2, 5], [3, 0], [1, 2]].map(|row| numbers(&row));
            let statuses = outcomes(&source, method, &rows);
            assert!(statuses[1] < 0, "{method}: {statuses:?}\n{source}");
            assert_eq!([statuses[0], statuses[2], statuses[3]], [0; 3], "{method}\n{source}");
        }
    }
}

#[test]
fn a_sum_does_not_depend_on_the_order_of_changes() {
    for source in in_layouts() {
        for to in 2..20 {
            let subject = Subject::new(&source);
            call(&subject, "put", &[1, MOST]);
            assert_eq!(call(&subject, "move", &[1, to]), "nothing", "to {to}\n{source}");
            let expected = format!("ret({MOST}, {MOST}, 1, {MOST})");
            assert_eq!(call(&subject, "sum", &[0]), expected);
        }
        for sign in [1, -1] {
            let subject = Subject::new(&source);
            for (k, v) in [(1, MOST), (2, -MOST), (3, MOST), (4, -MOST), (5, -5)] {
                assert_eq!(call(&subject, "put", &[k, sign * v]), "nothing");
            }
            assert_eq!(call(&subject, "put", &[3, sign * (MOST - 1)]), "nothing", "\n{source}");
            assert_eq!(call(&subject, "drop", &[1, 4]), "nothing", "{sign}\n{source}");
            let left = -5 * sign;
            assert_eq!(call(&subject, "sum", &[0]), format!("ret({left}, {left}, 1, {left})"));
        }
    }
}
