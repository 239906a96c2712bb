//! Migrates objects from every layout of a program to every other layout while requests go on.
//! Before, during and after the migration, replies and tables must equal those of the reference
//! interpreter. At the end nothing of the former layout may remain.
//!
//! Each step is one transaction of the store. So a migration that stopped between two steps can be
//! continued, even by a class whose present layout is neither the old nor the new one.

mod support;

use nacre_brados::{Compiled, Layout, Value, compile, shown_reply, with_layout};
use nacre_clock::Random;
use nacre_conformance::seeds;
use support::reference::Reference;
use support::{Subject, bounds_missing, layouts, shown};

const PROGRAM: &str = "state do
  table :epoch, [] => [:epoch:int]
  table :log, [:pos:int] => [:state:string, :data:bytes?]
  table :held, [:name:bytes, :pos:int] => [:size:int]
  interface input, :put, [:pos:int, :data:bytes]
  interface input, :drop, [:pos:int]
  interface input, :get, [:pos:int]
  interface input, :all, [:epoch:int]
  interface output, :row, [:pos:int] => [:state:string, :data:bytes?]
  interface output, :name, [:name:bytes, :pos:int]
  interface output, :told, [:pos:int, :count:int]
  channel :changed, [:pos:int]
end
bloom do
  log <+- put{|p| [p.pos, 'data', p.data] if p.pos != 3}
  log <+- put{|p| [p.pos, 'hole', nil] if p.pos == 3}
  held <+- put{|p| [p.data, p.pos, p.pos * 2]}
  held <- (drop * held).rights(:pos => :pos)
  log <- (drop * log).rights(:pos => :pos)
  row <= (get * log).rights(:pos => :pos)
  row <= (all * log).rights
  name <= (all * held).rights{|h| [h.name, h.pos]}
  epoch <+- all
  changed <~ drop
  temp :last <= log.group([], max(:pos), count)
  told <= (all * last).rights
end
";
/// How many layouts are tried, in every pair. `NACRE_SEEDS=n` takes n times as many.
const LAYOUTS: usize = 7;
/// Requests before each change of what goes on.
const REQUESTS: usize = 12;

struct Pair<'a> {
    subject: Subject,
    reference: Reference<'a>,
    random: Random,
    what: String,
}

impl<'a> Pair<'a> {
    fn new(compiled: &'a Compiled, from: &Layout, to: &Layout, seed: u64) -> Self {
        let source = with_layout(PROGRAM, from, &[]);
        let subject =
            if seed.is_multiple_of(2) { Subject::new(&source) } else { Subject::on_stock(&source) };
        let reference = Reference::new(&compiled.analysis);
        let what = format!("{from} to {to}");
        Self { subject, reference, random: Random::seeded(seed), what }
    }

    fn request(&mut self) {
        let pos = self.random.below(9) as i64 - 1;
        let data = vec![b'a' + self.random.below(3) as u8; self.random.below(40) as usize];
        let (method, row) = match self.random.below(6) {
            0..3 => ("put", vec![Value::Int(pos), Value::Bytes(data)]),
            3 => ("drop", vec![Value::Int(pos)]),
            4 => ("all", vec![Value::Int(pos)]),
            _ => ("get", vec![Value::Int(pos)]),
        };
        let expected = self.reference.request(method, &row).map(|rows| shown_reply(&rows));
        let got = shown(&self.subject.call(method, &row));
        assert_eq!(
            got,
            expected.unwrap_or("conflict".to_owned()),
            "{}: {method} {row:?}",
            self.what
        );
    }

    fn requests(&mut self) {
        (0..REQUESTS).for_each(|_| self.request());
    }

    fn migrate_and_ask(&mut self) {
        self.subject.migrate();
        self.request();
    }

    /// Does a step of the migration and then a request. Returns whether the object was settled
    /// after the step.
    fn step(&mut self) -> bool {
        let is_moving = self.subject.migrate();
        self.request();
        !is_moving
    }
}

/// How many steps it took.
fn migrate(compiled: &Compiled, from: &Layout, to: &Layout, seed: u64) -> usize {
    let mut pair = Pair::new(compiled, from, to, seed);
    pair.requests();
    pair.subject.becomes_slow(&with_layout(PROGRAM, to, std::slice::from_ref(from)));
    pair.requests();
    let mut steps = 1;
    while !pair.step() {
        steps += 1;
    }
    pair.requests();
    // A class that knows only the new layout finds the object complete, and nothing else in it.
    pair.subject.becomes(&with_layout(PROGRAM, to, &[]));
    pair.requests();
    if !to.uses_stream() {
        assert_eq!(pair.subject.size(), 0, "{}", pair.what);
    }
    let kinds = kinds_of_keys(&pair.subject);
    let fresh = Subject::new(&with_layout(PROGRAM, to, &[]));
    for pos in [0, 1, 2, 3, 4, 5, 6, 7, 8, -1] {
        fresh.call("put", &[Value::Int(pos), Value::text(&"x".repeat(pos as usize % 40))]).unwrap();
    }
    fresh.call("drop", &[Value::Int(8)]).unwrap();
    let all = kinds_of_keys(&fresh);
    assert!(kinds.iter().all(|kind| all.contains(kind)), "{}: {kinds:?} {all:?}", pair.what);
    steps
}

/// The beginnings of the keys of an object's map.
fn kinds_of_keys(subject: &Subject) -> Vec<String> {
    let kind = |key: &[u8]| {
        let end = key.iter().position(|byte| matches!(byte, b'.' | b'@' | b'~'));
        String::from_utf8_lossy(&key[..end.map_or(key.len(), |at| at + 1)]).into_owned()
    };
    let mut kinds: Vec<_> = subject.keys().iter().map(|key| kind(key)).collect();
    kinds.dedup();
    kinds
}

#[test]
fn the_class_has_the_bounds_that_the_tests_make_small() {
    let [map, slots] = ["map", "log: slots(64)"].map(|text| text.parse::<Layout>().unwrap());
    assert_eq!(bounds_missing(&with_layout(PROGRAM, &slots, &[map])), [""; 0]);
}

#[test]
fn objects_migrate_from_every_layout_to_every_other() {
    let compiled = compile(PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
    let layouts = layouts(PROGRAM, LAYOUTS * seeds(1).count());
    assert!(layouts.len() > 5, "only {} layouts", layouts.len());
    let (mut pairs, mut steps) = (0, 0);
    for from in &layouts {
        for to in layouts.iter().filter(|to| *to != from) {
            steps += migrate(&compiled, from, to, pairs);
            pairs += 1;
        }
    }
    println!("{pairs} migrations in {steps} steps");
    assert!(steps as u64 > 3 * pairs, "{steps} steps of {pairs} migrations are not many");
}

#[test]
fn any_class_with_both_layouts_can_continue_a_migration() {
    let compiled = compile(PROGRAM).unwrap();
    let layouts = layouts(PROGRAM, 2 * LAYOUTS);
    for seed in seeds(15) {
        let mut random = Random::seeded(seed);
        let first = random.pick(&layouts).unwrap();
        let mut pair = Pair::new(&compiled, first, first, seed);
        pair.requests();
        let mut known = vec![first.clone()];
        for _ in 0..6 {
            // The object is to migrate to a random layout, which it may have had before. All other
            // layouts that it had are the former layouts of the class.
            let next = random.pick(&layouts).unwrap().clone();
            known.retain(|layout| *layout != next);
            pair.subject.becomes_slow(&with_layout(PROGRAM, &next, &known));
            pair.what.push_str(&format!(" to {next}"));
            known.push(next);
            pair.requests();
            if known.len() > 1 {
                (0..random.below(6)).for_each(|_| pair.migrate_and_ask());
            }
        }
        pair.requests();
    }
}

#[test]
fn a_small_object_is_migrated_in_one_request_and_an_empty_one_is_left_alone() {
    let [map, slots] = ["map", "log: slots(64)"].map(|text| text.parse::<Layout>().unwrap());
    let subject = Subject::new(&with_layout(PROGRAM, &map, &[]));
    let put = |pos| drop(subject.call("put", &[Value::Int(pos), Value::text("x")]).unwrap());
    (0..100).for_each(put);
    subject.becomes(&with_layout(PROGRAM, &slots, std::slice::from_ref(&map)));
    assert!(!subject.migrate(), "it is settled");
    subject.becomes(&with_layout(PROGRAM, &map, std::slice::from_ref(&slots)));
    assert!(!subject.migrate(), "it is settled again");
    assert_eq!(subject.size(), 0);
    let absent = Subject::new(&with_layout(PROGRAM, &slots, &[map]));
    assert!(!absent.migrate());
    assert!(absent.keys().is_empty());
}

#[test]
fn rows_that_leave_slots_keep_no_bytes_of_the_slot() {
    let wide: Layout = "log: slots(4352)".parse().unwrap();
    let each = |subject: &Subject, method: &str, data: Option<Value>| {
        for pos in 0..20 {
            let row: Vec<_> = [Some(Value::Int(pos)), data.clone()].into_iter().flatten().collect();
            assert_eq!(ask(subject, method, &row), "nothing");
        }
    };
    let fill = |subject: &Subject, bytes| {
        each(subject, "put", Some(Value::text(&"x".repeat(bytes))));
    };
    let lengths = |subject: &Subject| -> Vec<_> {
        let entries = subject.content().0.into_iter();
        let rows = entries.filter(|(key, _)| !key.starts_with(b"~"));
        rows.map(|(key, value)| (key, value.len())).collect()
    };
    for to in ["map", "log: slots(192)", "log: appended(map)"] {
        let to: Layout = to.parse().unwrap();
        let [from_wide, own] =
            [std::slice::from_ref(&wide), &[]].map(|former| with_layout(PROGRAM, &to, former));
        let fresh = Subject::new(&own);
        fill(&fresh, 20);
        for becomes in [Subject::becomes, Subject::becomes_slow] {
            let subject = Subject::new(&with_layout(PROGRAM, &wide, &[]));
            // After the present data of a slot come bytes of the slot's earlier data.
            fill(&subject, 90);
            each(&subject, "drop", None);
            fill(&subject, 20);
            becomes(&subject, &from_wide);
            while subject.migrate() {}
            assert_eq!(lengths(&subject), lengths(&fresh), "{to}");
            assert_eq!(subject.size(), fresh.size(), "{to}");
        }
    }
}

#[test]
fn a_migration_reads_empty_slots_in_several_steps() {
    let [map, slots] = ["map", "log: slots(4352)"].map(|text| text.parse::<Layout>().unwrap());
    let subject = Subject::new(&with_layout(PROGRAM, &slots, &[]));
    let put = |pos| ask(&subject, "put", &[Value::Int(pos), Value::text("x")]);
    let get = |pos| ask(&subject, "get", &[Value::Int(pos)]);
    [0, 2000].into_iter().for_each(|pos| assert_eq!(put(pos), "nothing"));
    subject.becomes(&with_layout(PROGRAM, &map, &[slots]));
    let mut steps = 1;
    while subject.migrate() {
        steps += 1;
    }
    // Of somewhat more than a mebibyte each.
    let mebibytes = 2000 * 4352 / (1 << 20);
    assert!((mebibytes - 1..=mebibytes + 1).contains(&steps), "{steps} steps");
    [0, 2000].into_iter().for_each(|pos| assert_eq!(get(pos), format!("row({pos}, 'data', 'x')")));
}

/// Two tables. A method returns the greatest key of one of them.
const ENDS: &str = "state do
  table :first, [:pos:int] => [:data:bytes]
  table :second, [:pos:int] => [:data:bytes]
  interface input, :put, [:pos:int, :data:bytes]
  interface input, :tell, [:unused:int]
  interface input, :get, [:pos:int]
  interface output, :last, [:pos:int]
  interface output, :row, [:pos:int] => [:data:bytes]
end
bloom do
  first <+- put
  second <+- put
  temp :greatest <= second.group([], max(:pos))
  last <= (tell * greatest).rights
  row <= (get * first).rights(:pos => :pos)
end
";

#[test]
fn the_greatest_key_is_correct_although_an_earlier_class_did_not_store_it() {
    let [map, slots, appended] =
        ["map", "first: slots(64)", "second: appended(map)"].map(|text| text.parse().unwrap());
    let subject = Subject::new(&with_layout(ENDS, &map, &[]));
    let put = |pos| ask(&subject, "put", &[Value::Int(pos), Value::text("x")]);
    let end = || ask(&subject, "tell", &[Value::Int(0)]);
    (1..=5).for_each(|pos| assert_eq!(put(pos), "nothing"));
    subject.becomes_slow(&with_layout(ENDS, &slots, &[map]));
    assert!(subject.migrate(), "it is between two layouts");
    assert_eq!(put(7), "nothing");
    subject.becomes(&with_layout(ENDS, &appended, &[slots]));
    assert_eq!(end(), "last(7)");
    assert_eq!(put(6), "nothing");
    assert_eq!(end(), "last(7)");
    while subject.migrate() {}
    assert_eq!(end(), "last(7)");
}

/// The outcome of a request of a test, in the words of scripts.
fn ask(subject: &Subject, method: &str, row: &[Value]) -> String {
    shown(&subject.call(method, row))
}

fn held_where_it_is(subject: &Subject, from: &Layout, to: &Layout) {
    let put = |pos| ask(subject, "put", &[Value::Int(pos), Value::text("x")]);
    let [first, second] = [1, 2].map(|pos| move || ask(subject, "get", &[Value::Int(pos)]));
    assert_eq!(put(1), "nothing");
    subject.write(b"a picture");
    let (_, picture, _) = subject.content();
    let is_untouched = || assert_eq!(subject.content().1, picture, "{from} to {to}");

    subject.becomes(&with_layout(PROGRAM, to, std::slice::from_ref(from)));
    assert_eq!(put(2), "nothing");
    assert_eq!([first(), second()], ["row(1, 'data', 'x')", "row(2, 'data', 'x')"]);
    assert_eq!(ask(subject, "layout_migrate", &[]), "invalid", "{from} to {to}");
    is_untouched();

    subject.becomes(&with_layout(PROGRAM, from, &[]));
    assert_eq!([first(), second()], ["row(1, 'data', 'x')", "row(2, 'data', 'x')"]);
    assert!(ask(subject, "all", &[Value::Int(0)]).contains("told(2, 2)"), "{from} to {to}");
    subject.becomes(&with_layout(PROGRAM, from, std::slice::from_ref(to)));
    assert!(!subject.migrate());
    is_untouched();

    subject.becomes(&with_layout(PROGRAM, to, std::slice::from_ref(from)));
    subject.empty_stream();
    while subject.migrate() {}
    subject.becomes(&with_layout(PROGRAM, to, &[]));
    assert_eq!([first(), second()], ["row(1, 'data', 'x')", "row(2, 'data', 'x')"]);
}

#[test]
fn an_object_whose_stream_another_writer_used_stays_in_its_layout() {
    for from in ["map", "header: attribute"] {
        for to in ["header: stream", "log: slots(16)", "held: appended(map), header: attribute"] {
            let [from, to] = [from, to].map(|text| text.parse::<Layout>().unwrap());
            let source = with_layout(PROGRAM, &from, &[]);
            held_where_it_is(&Subject::new(&source), &from, &to);
            held_where_it_is(&Subject::on_stock(&source), &from, &to);
        }
    }
}
