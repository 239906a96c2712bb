//! A request of a batch that is refused changed nothing, whatever it is refused for: the others go on.

mod support;

use nacre_brados::Value;
use support::{Outcome, Subject, as_a_batch, one_by_one};

/// Bytes of a key that is too long, just.
const TOO_LONG: usize = 4097;

/// What requests of a method come to, which is the same one by one and as a batch.
fn outcomes(source: &str, method: &str, rows: &[Vec<Value>]) -> Vec<i32> {
    let (single, batched) = (Subject::new(source), Subject::new(source));
    let outcomes: Vec<Outcome> = one_by_one(&single, method, rows);
    assert_eq!(as_a_batch(&batched, method, rows), outcomes, "{source}");
    assert_eq!(batched.content(), single.content(), "{source}");
    outcomes.iter().map(|(status, _)| *status).collect()
}

#[test]
fn a_key_that_is_too_long_is_refused_alone() {
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
