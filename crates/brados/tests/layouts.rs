//! Tests layouts: which are possible and why others are not, where rows are stored, and that a
//! class never misreads an object that is in another layout.

mod support;

use nacre_brados::layout::{Choices, TableLocation, check};
use nacre_brados::{Compiled, Layout, Value, compile, with_layout};

use support::{Subject, shown};

const PROGRAM: &str = "state do
  table :epoch, [] => [:epoch:int]
  table :log, [:pos:int] => [:data:bytes]
  table :tag, [:name:string]
  table :owner, [:name:string] => [:pos:int]
  interface input, :put, [:pos:int, :data:bytes]
  interface input, :drop, [:pos:int]
  interface input, :get, [:pos:int]
  interface input, :all, [:unused:int]
  interface input, :seal, [:epoch:int]
  interface output, :row, [:pos:int] => [:data:bytes]
  interface output, :sealed, [:epoch:int]
  interface output, :most, [:pos:int, :count:int]
end
bloom do
  log <+- put
  log <- (drop * log).rights(:pos => :pos)
  row <= (get * log).rights(:pos => :pos)
  row <= (all * log).rights
  epoch <+- seal
  sealed <= (all * epoch).rights
  owner <+- put{|p| ['last', p.pos]}
  temp :last <= log.group([], max(:pos), count)
  most <= (all * last).rights
end
";

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn compiled(source: &str) -> Compiled {
    compile(source).unwrap_or_else(|errors| panic!("{}", errors.render("p", source)))
}

fn put(subject: &Subject, pos: i64, data: &[u8]) {
    subject.call("put", &[Value::Int(pos), Value::Bytes(data.to_vec())]).unwrap();
}

fn ask(subject: &Subject, method: &str, number: i64) -> String {
    shown(&subject.call(method, &[Value::Int(number)]))
}

#[test]
fn an_impossible_layout_is_refused_with_the_reason() {
    let compiled = compiled(PROGRAM);
    for (text, reasons) in [
        (
            "tag: slots(16)",
            "`tag`: slots are found by a number, its key is [:name:string]: it must be one `int`",
        ),
        (
            "tag: appended(map)",
            "`tag`: it has no columns besides its key: nothing would be appended",
        ),
        (
            "owner: appended(stream)",
            "`owner`: slots are found by a number, its key is [:name:string]: it must be one `int`",
        ),
        (
            "epoch: slots(16)",
            "`epoch`: its one row is a field of the header; say where that is: `header: attribute`",
        ),
        (
            "log: slots(4096), owner: appended(map)",
            "`log`: it and `owner` would both grow at the end of the byte stream; say how many slots it has: slots(BYTES, COUNT)",
        ),
        (
            "log: slots(4096, 100000)",
            "`log`: the byte stream has at most 134217728 bytes, too few for its slots; make them fewer or smaller",
        ),
        ("lag: slots(16)", "`lag`: there is no such table; did you mean `log`?"),
        ("last: slots(16)", "`last`: there is no such table"),
    ] {
        let found: Vec<_> =
            check(&compiled, &layout(text)).iter().map(ToString::to_string).collect();
        assert_eq!(found.join("\n"), reasons, "{text}");
    }
    for text in [
        "map",
        "log: slots(4096), header: stream",
        "log: slots(4096, 1000), owner: appended(map)",
        "log: appended(stream), owner: appended(map), header: attribute",
    ] {
        assert_eq!(check(&compiled, &layout(text)), [], "{text}");
    }
}

#[test]
fn every_legal_combination_is_listed_once() {
    let compiled = compiled(PROGRAM);
    let choices = Choices::of(&compiled, &[64, 4096]);
    let names: Vec<_> = choices.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["log", "tag", "owner"]);
    let mut texts: Vec<_> = choices.layouts.iter().map(ToString::to_string).collect();
    assert_eq!(texts[0], "map");
    // `log` can be in five locations: the map, slots of two widths, and two ways to append. `owner`
    // can be in two locations: the map, and one way to append. The header can be in three
    // locations. If `owner` is appended, `log` cannot be in slots, because both would grow at the
    // end of the stream.
    assert_eq!(texts.len(), (5 * 2 - 2) * 3);
    assert!(choices.illegal.iter().all(|(layout, _)| !texts.contains(&layout.to_string())));
    assert_eq!(choices.illegal.len(), 2 * 3);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), choices.layouts.len());
    for layout in &choices.layouts {
        assert_eq!(check(&compiled, layout), [], "{layout}");
    }
    let tag = &choices.tables[1];
    assert_eq!(tag.locations, [TableLocation::Map]);
    assert_eq!(tag.illegal.len(), 4);
}

#[test]
fn the_layout_decides_where_rows_are_stored() {
    for (text, size, map) in [
        ("map", 0, vec!["@bra", "log.", "log.", "owne"]),
        // The stream ends with the row in the slot of position 5. The other row is wider than a
        // slot, so it is in the map.
        ("log: slots(100)", 5 * 100 + 1 + 4 + 3, vec!["@bra", "log.", "owne"]),
        ("log: slots(400)", 5 * 400 + 1 + 4 + 3, vec!["@bra", "owne"]),
        ("log: appended(map)", 16 + 320, vec!["@bra", "log@", "log@", "owne"]),
        ("log: appended(stream, 10)", 10 * 16 + 16 + 320, vec!["@bra", "owne"]),
        // The header takes 16 bytes of signature, 25 of the program's fields and 655 of the heap's.
        (
            "owner: appended(map), header: stream",
            16 + 25 + 655 + 16,
            vec!["@bra", "log.", "log.", "owne"],
        ),
    ] {
        let subject = Subject::new(&with_layout(PROGRAM, &layout(text), &[]));
        put(&subject, 5, b"abc");
        put(&subject, 3, &[b'x'; 300]);
        let keys = subject.keys().into_iter();
        let keys: Vec<_> =
            keys.map(|key| String::from_utf8_lossy(&key[..4]).into_owned()).collect();
        assert_eq!((subject.size(), keys.join(" ")), (size, map.join(" ")), "{text}");
    }
}

#[test]
fn the_space_of_a_removed_row_is_reused() {
    let subject = Subject::new(&with_layout(PROGRAM, &layout("log: appended(map)"), &[]));
    for round in 0..50 {
        for pos in 0..20 {
            put(&subject, pos, &vec![b'a'; 100 + (round * 7 + pos as usize) % 60]);
        }
        for pos in 0..20 {
            subject.call("drop", &[Value::Int(pos)]).unwrap();
        }
        assert_eq!(ask(&subject, "all", 0), "nothing");
    }
    // At most twenty blocks of each of the sizes 112, 128, 160 and 192 bytes.
    assert!(subject.size() <= 20 * (112 + 128 + 160 + 192), "{}", subject.size());
}

#[test]
fn slots_without_a_row_read_as_absent_rows() {
    for text in ["log: slots(32)", "log: appended(stream, 1000)"] {
        let subject = Subject::new(&with_layout(PROGRAM, &layout(text), &[]));
        for pos in [10, 900, 5_000_000_000, -3] {
            put(&subject, pos, b"x");
        }
        for pos in [9, 11, 500, 899, 901, 20_000, 5_000_000_001, -4, 0] {
            assert_eq!(ask(&subject, "get", pos), "nothing", "{text} {pos}");
        }
        let all =
            "row(-3, 'x') row(10, 'x') row(900, 'x') row(5000000000, 'x') most(5000000000, 4)";
        assert_eq!(ask(&subject, "all", 0), all, "{text}");
        subject.call("drop", &[Value::Int(900)]).unwrap();
        assert_eq!(ask(&subject, "get", 900), "nothing", "{text}");
    }
}

#[test]
fn an_object_in_another_layout_is_refused_and_left_as_it_is() {
    let texts = [
        "map",
        "log: slots(64)",
        "log: slots(32)",
        "log: appended(map)",
        "header: attribute",
        "header: stream",
        "log: slots(64), header: stream",
    ];
    for made in texts {
        let subject = Subject::new(&with_layout(PROGRAM, &layout(made), &[]));
        put(&subject, 1, b"one");
        for other in texts.into_iter().filter(|other| *other != made) {
            subject.becomes(&with_layout(PROGRAM, &layout(other), &[]));
            assert_eq!(ask(&subject, "get", 1), "invalid", "{made} read as {other}");
            assert_eq!(ask(&subject, "drop", 1), "invalid", "{made} written as {other}");
        }
        subject.becomes(&with_layout(PROGRAM, &layout(made), &[]));
        assert_eq!(ask(&subject, "get", 1), "row(1, 'one')", "{made}");
    }
}

#[test]
fn a_layout_never_exceeds_the_size_of_an_object() {
    let most = u64::from(nacre_brados::limits::MAX_STREAM_BYTES);
    assert!(most <= nacre_object::limits::MAX_OBJECT_BYTES);
    let widest = nacre_brados::limits::MAX_SLOT_BYTES as usize;
    assert!(widest <= nacre_object::limits::MAX_MAP_VALUE_BYTES);
}

#[test]
fn a_class_does_not_use_a_stream_that_another_writer_used() {
    let subject = Subject::new(&with_layout(PROGRAM, &layout("log: slots(64)"), &[]));
    subject.write(b"a picture");
    assert_eq!(ask(&subject, "seal", 1), "invalid");
    subject.becomes(PROGRAM);
    assert_eq!(ask(&subject, "seal", 1), "nothing");
}

#[test]
fn slots_of_impossible_widths_are_not_listed() {
    let compiled = compile(PROGRAM).unwrap();
    let choices = Choices::of(&compiled, &[0, 1, u32::MAX, 64]);
    let only = Choices::of(&compiled, &[64]);
    assert_eq!(choices, only);
}
