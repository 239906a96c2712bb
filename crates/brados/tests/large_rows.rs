//! Tests rows of a megabyte each. A loop over rows may have only as many in memory as the run's
//! memory limit allows, however many rows there are.

mod support;

use nacre_brados::{Layout, Value, with_layout};
use nacre_calls::{OutputRows, decode_reply};
use support::{Subject, shown};

const BYTES: usize = 1_000_000;
/// The number of rows. So many rows fit neither into the memory of a run nor into one transaction.
const ROWS: i64 = 40;
const PROGRAM: &str = "state do
  table :t, [:k:int] => [:prio:int, :data:bytes]
  interface input, :put, [:k:int, :data:bytes]
  interface input, :drop, [:k:int]
  interface input, :most, [:u:int]
  interface input, :all, [:u:int]
  interface output, :ret, [:n:int, :size:int]
end
bloom do
  t <+- put{|p| [p.k, p.k * 10, p.data]}
  t <- (drop * t).rights(:k => :k)
  temp :top <= t.group([], max(:prio), count)
  ret <= (most * top).pairs{|m, top| [top.max_prio, top.count]}
  ret <= (all * t).pairs{|a, t| [t.k, t.prio]}
end
";
const SENDER: &str = "state do
  interface input, :tell, [:data:bytes]
  channel :told, [:data:bytes]
end
bloom do
  told <~ tell
end
";

fn data(number: i64) -> Value {
    Value::Bytes(vec![b'a' + number as u8 % 26; BYTES])
}

fn filled(layout: &Layout) -> Subject {
    let subject = Subject::new(&with_layout(PROGRAM, layout, &[]));
    for k in 0..ROWS {
        subject.call("put", &[Value::Int(k), data(k)]).unwrap();
    }
    subject
}

fn layouts() -> [Layout; 4] {
    ["map", "t: slots(64)", "t: appended(map)", "t: appended(stream)"]
        .map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn number(subject: &Subject, method: &str, number: i64) -> String {
    shown(&subject.call(method, &[Value::Int(number)]))
}

fn numbers_of(messages: &[OutputRows]) -> Vec<i64> {
    let rows = messages.iter().flat_map(|(_, rows)| rows);
    rows.map(|row| match &row[..] {
        [Value::Int(number), Value::Bytes(message)] => {
            let sent = &decode_reply(message).unwrap()[0].1[0];
            assert_eq!(sent[..], [data(*number)], "message {number}");
            *number
        }
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn an_application_can_fetch_more_messages_than_fit_into_a_reply() {
    for subject in [Subject::new(SENDER), Subject::on_stock(SENDER)] {
        for number in 1..=9 {
            subject.call("tell", &[data(number)]).unwrap();
        }
        let mut drained = vec![];
        loop {
            let some = numbers_of(&subject.call("channel_messages", &[]).unwrap());
            let Some(last) = some.last() else { break };
            assert_eq!(number(&subject, "channel_delivered", *last), "nothing");
            drained.extend(some);
        }
        assert_eq!(drained, (1..=9).collect::<Vec<_>>());
    }
}

#[test]
fn more_messages_than_fit_into_memory_are_dropped_together() {
    for subject in [Subject::new(SENDER), Subject::on_stock(SENDER)] {
        for number in 1..=ROWS {
            subject.call("tell", &[data(number)]).unwrap();
        }
        assert_eq!(number(&subject, "channel_delivered", ROWS - 1), "nothing");
        assert_eq!(numbers_of(&subject.call("channel_messages", &[]).unwrap()), [ROWS]);
    }
}

#[test]
fn the_greatest_row_can_be_removed_in_any_layout() {
    for layout in layouts() {
        let subject = filled(&layout);
        assert_eq!(number(&subject, "drop", ROWS - 1), "nothing", "{layout}");
        let expected = format!("ret({}, {})", 10 * (ROWS - 2), ROWS - 1);
        assert_eq!(number(&subject, "most", 0), expected, "{layout}");
    }
}

#[test]
fn large_rows_can_be_scanned_in_any_layout() {
    let expected: Vec<_> = (0..ROWS).map(|k| format!("ret({k}, {})", 10 * k)).collect();
    for layout in layouts() {
        assert_eq!(number(&filled(&layout), "all", 0), expected.join(" "), "{layout}");
    }
}

#[test]
fn large_rows_are_migrated_from_every_layout_to_every_other() {
    let mut steps = 0;
    for from in layouts() {
        for to in layouts().into_iter().filter(|to| *to != from) {
            let subject = filled(&from);
            subject.becomes(&with_layout(PROGRAM, &to, std::slice::from_ref(&from)));
            while subject.migrate() {
                steps += 1;
            }
            subject.becomes(&with_layout(PROGRAM, &to, &[]));
            let expected = format!("ret({}, {ROWS})", 10 * (ROWS - 1));
            assert_eq!(number(&subject, "most", 0), expected, "{from} to {to}");
        }
    }
    // Migrations between the map and slots move no rows: these rows are too long for slots, so they
    // are in the map in both layouts.
    assert!(steps > 100, "only {steps} steps");
}
