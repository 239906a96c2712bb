//! `cls_lua` line by line: the functions of `objclass` and `bufferlist`.

use crate::support::stores::MethodHost;
use crate::support::{Node, check, status, write};
use bytes::Bytes;
use nacre_object::{MapEntry, Op, OpResult};

const EIO: i32 = -5;
const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EINVAL: i32 = -22;

#[test]
fn log_joins_its_arguments_and_knows_a_level() {
    let node = Node::new();
    let cases = [
        ("log()", "nil", None),
        ("log(1)", "1", Some("10 1")),
        ("log(-1)", "-1", Some("10 -1")),
        ("log('x')", "x", Some("10 x")),
        ("log(0, 0)", "0", Some("0 0")),
        ("log(1, 1)", "1", Some("1 1")),
        ("log(-10, -10)", "-10 -10", Some("10 -10 -10")),
        ("log('x', 'y')", "x y", Some("10 x y")),
        ("log(1, 'one', 'two')", "one two", Some("1 one two")),
        ("log('one', 'two', 'three')", "one two three", Some("10 one two three")),
        ("log(true, nil, {}, false)", "true nil table false", Some("10 true nil table false")),
    ];
    for (call, joined, line) in cases {
        let (status, output) =
            node.body("o", &format!("local s = objclass.{call} output:append(tostring(s))"));
        assert_eq!((status, output.as_str()), (0, joined), "{call}");
        let heard = std::mem::take(&mut *node.heard.lines.lock().unwrap());
        if MethodHost::here().is_within_earshot() {
            assert_eq!(heard, line.into_iter().collect::<Vec<_>>(), "{call}");
        }
    }
    let nothing =
        "assert(select('#', objclass.log()) == 0) local s = objclass.log() objclass.log(s)";
    assert_eq!(node.body("o", nothing).0, 0);
    let long = format!("objclass.log(('x'):rep({}))", 1 << 20);
    assert_eq!(node.body("o", &long).0, 0);
    if MethodHost::here().is_within_earshot() {
        assert!(node.heard.lines.lock().unwrap().last().unwrap().len() < 5000);
    }
}

#[test]
fn create_and_remove_give_the_status_of_cls_lua() {
    let node = Node::new();
    assert_eq!(node.body("o", "objclass.create(true)").0, 0);
    assert_eq!(node.body("o", "objclass.create(true)").0, EEXIST);
    assert_eq!(node.body("o", "objclass.create(false)").0, 0);
    assert_eq!(node.body("o", "objclass.create()").0, 0);
    assert_eq!(node.body("o", "objclass.remove()").0, 0);
    assert_eq!(node.body("o", "objclass.remove()").0, ENOENT);
    assert_eq!(node.body("o", "objclass.create(true) objclass.remove()").0, 0);
    assert_eq!(node.body("o", "objclass.stat()").0, ENOENT);
}

#[test]
fn stat_gives_size_and_seconds() {
    let node = Node::new();
    write(&node, "o", &[7; 1024]);
    let Some(OpResult::Stat(stat)) = node.submit("o", vec![Op::Stat]).unwrap().pop() else {
        panic!("stat answers a stat");
    };
    let expected = format!("1024,{}", stat.modified_micros / 1_000_000);
    let (status, output) =
        node.body("o", "local s, t = objclass.stat() output:append(s .. ',' .. t)");
    assert_eq!((status, output), (0, expected));
}

#[test]
fn bytes_written_by_a_script_equal_the_input() {
    let node = Node::new();
    let every_byte: Vec<u8> = (0..=255).collect();
    let script = "function w(input) objclass.write(0, #input, input) end objclass.register(w)";
    assert_eq!(status(node.eval("o", script, "w", &every_byte)), 0);
    assert_eq!(&node.read("o").unwrap()[..], every_byte);
    let script = "function r(input, output)
                      local size = objclass.stat()
                      output:append(objclass.read(0, size):str())
                  end objclass.register(r)";
    assert_eq!(&node.eval("o", script, "r", b"").unwrap().output[..], every_byte);
}

#[test]
fn read_and_write_work_at_offsets() {
    let node = Node::new();
    write(&node, "o", b"0123456789");
    let read = |arguments: &str| {
        node.body("o", &format!("output:append(objclass.read({arguments}):str())"))
    };
    assert_eq!(read("2, 3"), (0, "234".into()));
    assert_eq!(read("8, 100"), (0, "89".into()));
    assert_eq!(read("20, 1"), (0, String::new()));
    // A length of 0 reads to the end, as in an OSD; numeric strings are numbers.
    assert_eq!(read("0, 0"), (0, "0123456789".into()));
    assert_eq!(read("'4', '1'"), (0, "4".into()));
    assert_eq!(read("-1, 1").0, EINVAL);
    assert_eq!(read("1.5, 1").0, EIO);
    assert_eq!(node.body("o", "objclass.write(3, #input, input)").0, 0);
    assert_eq!(&node.read("o").unwrap()[..], b"012the input");
    assert_eq!(node.body("o", "objclass.write(0, #input + 1, input)").0, EINVAL);
    assert_eq!(node.body("o", "objclass.write(-1, #input, input)").0, EINVAL);
    // There is nothing to read of an object that does not exist.
    assert_eq!(
        node.body("absent", "output:append(objclass.read(0, 10):str())"),
        (0, String::new())
    );
}

#[test]
fn write_full_of_200_bytes_over_1024_leaves_200() {
    let node = Node::new();
    write(&node, "o", &[1; 1024]);
    let script = "function w(input) objclass.write_full(input) end objclass.register(w)";
    assert_eq!(status(node.eval("o", script, "w", &[2; 200])), 0);
    assert_eq!(&node.read("o").unwrap()[..], [2; 200]);
}

#[test]
fn attributes_round_trip() {
    let node = Node::new();
    let get = |name: &str| node.submit("o", vec![Op::GetAttribute { name: name.into() }]);
    assert_eq!(node.body("o", "objclass.setxattr('fooz', input)").0, 0);
    assert_eq!(get("fooz").unwrap(), [OpResult::Data(Bytes::from_static(b"the input"))]);
    assert_eq!(node.body("o", "output:append(objclass.getxattr('fooz'):str())").1, "the input");
    let all = "local names = {} local all = objclass.getxattrs()
               for name in pairs(all) do table.insert(names, name) end
               table.sort(names)
               for _, name in ipairs(names) do output:append(name .. '/' .. all[name]:str() .. '/') end";
    assert_eq!(node.body("o", all).1, "fooz/the input/");
    assert_eq!(node.body("o", "objclass.setxattr('a', bufferlist.new())").0, 0);
    assert_eq!(node.body("o", all).1, "a//fooz/the input/");
    node.submit("bare", vec![Op::Create { exclusive: true }]).unwrap();
    assert_eq!(node.body("bare", all), (0, String::new()));
}

#[test]
fn map_values_can_be_set_and_read() {
    let node = Node::new();
    assert_eq!(node.body("o", "objclass.map_set_val('foo', input)").0, 0);
    assert_eq!(node.map("o"), [("foo".into(), "the input".into())]);
    assert_eq!(node.body("o", "output:append(objclass.map_get_val('foo'):str())").1, "the input");
    assert_eq!(node.body("o", "objclass.map_set_val(7, input) objclass.map_get_val('7')").0, 0);
    assert_eq!(node.body("o", "objclass.map_remove_key('7')").0, 0);
    assert_eq!(node.body("o", "objclass.map_remove_key('never there')").0, 0);
    assert_eq!(node.body("absent", "objclass.map_remove_key('k')").0, ENOENT);
    assert_eq!(node.map("o").len(), 1);
    assert_eq!(node.body("o", "objclass.map_clear()").0, 0);
    assert_eq!(node.map("o"), []);
    assert_eq!(node.body("absent", "objclass.map_clear()").0, ENOENT);
}

#[test]
fn the_map_can_be_listed_by_keys_and_values() {
    let node = Node::new();
    let entry =
        |key: &str| MapEntry { key: key.to_owned().into(), value: format!("{key}str").into() };
    let entries = ["k1", "k2", "k3", "xx1", "xx2"].map(entry).to_vec();
    node.submit("o", vec![Op::MapSet { entries }]).unwrap();
    let keys = |arguments: &str| {
        let body = format!(
            "local names = {{}}
             for name, value in pairs(objclass.map_get_keys({arguments})) do
                 assert(value == true) table.insert(names, name)
             end
             table.sort(names) output:append(table.concat(names, ' '))"
        );
        node.body("o", &body)
    };
    assert_eq!(keys("'', 5").1, "k1 k2 k3 xx1 xx2");
    assert_eq!(keys("'', 2").1, "k1 k2");
    assert_eq!(keys("'k2', 2").1, "k3 xx1");
    assert_eq!(keys("'xx2', 9").1, "");
    assert_eq!(keys("'', 0").1, "");
    let values = |arguments: &str| {
        let body = format!(
            "local all = {{}}
             for name, value in pairs(objclass.map_get_vals({arguments})) do
                 table.insert(all, name .. '/' .. value:str())
             end
             table.sort(all) output:append(table.concat(all, ' '))"
        );
        node.body("o", &body)
    };
    assert_eq!(values("'', '', 10").1, "k1/k1str k2/k2str k3/k3str xx1/xx1str xx2/xx2str");
    assert_eq!(values("'', 'xx', 10").1, "xx1/xx1str xx2/xx2str");
    assert_eq!(values("'k1', 'k', 1").1, "k2/k2str");
    for empty in ["objclass.map_get_keys('', 5)", "objclass.map_get_vals('', '', 5)"] {
        assert_eq!(node.body("absent", &format!("assert(next({empty}) == nil)")).0, 0);
    }
}

#[test]
fn listings_longer_than_a_page_are_whole() {
    let node = Node::with_budget(nacre_program::Budget::default());
    for chunk in 0..5 {
        let entry = |i: u32| MapEntry { key: format!("{i:06}").into(), value: Bytes::new() };
        let entries = (chunk * 2000..(chunk + 1) * 2000).map(entry).collect();
        node.submit("o", vec![Op::MapSet { entries }]).unwrap();
    }
    let count = "local n = 0 for k in pairs(objclass.map_get_keys('', 1e6)) do n += 1 end return n";
    assert_eq!(node.body("o", count).0, 10_000);
    let most =
        "local n = 0 for k in pairs(objclass.map_get_keys('000099', 5000)) do n += 1 end return n";
    assert_eq!(node.body("o", most).0, 5000);
}

#[test]
fn map_set_vals_takes_string_or_number_keys_and_string_values_only() {
    let node = Node::new();
    let cases: [(&str, &[(&str, &str)]); 5] = [
        ("{}", &[]),
        ("{a = 'a_val'}", &[("a", "a_val")]),
        ("{a = 'a_val', b = 'b_val'}", &[("a", "a_val"), ("b", "b_val")]),
        ("{'1_val', '2_val'}", &[("1", "1_val"), ("2", "2_val")]),
        (
            "{'1_val', a = 'a_val', [2] = '2_val', b = 'b\\0val'}",
            &[("1", "1_val"), ("2", "2_val"), ("a", "a_val"), ("b", "b\0val")],
        ),
    ];
    for (index, (values, expected)) in cases.into_iter().enumerate() {
        let object = format!("o{index}");
        node.submit(&object, vec![Op::Create { exclusive: true }]).unwrap();
        assert_eq!(node.body(&object, &format!("objclass.map_set_vals({values})")).0, 0);
        let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        assert_eq!(node.map(&object), expected, "{values}");
    }
    for wrong in ["{a = {}}", "{a = 1}", "{a = true}", "{a = bufferlist.new()}", "{[true] = 'x'}"] {
        assert_eq!(node.body("o", &format!("objclass.map_set_vals({wrong})")).0, EINVAL, "{wrong}");
    }
    assert_eq!(node.body("o", "objclass.map_set_vals('x')").0, EIO);
}

#[test]
fn the_map_header_round_trips() {
    let node = Node::new();
    node.submit("o", vec![Op::Create { exclusive: true }]).unwrap();
    let read = "output:append(objclass.map_read_header():str())";
    assert_eq!(node.body("o", read), (0, String::new()));
    assert_eq!(node.body("o", "objclass.map_write_header(input)").0, 0);
    assert_eq!(node.body("o", read), (0, "the input".into()));
    assert_eq!(node.body("absent", read), (0, String::new()));
}

#[test]
fn current_version_returns_the_objects_version() {
    let node = Node::new();
    let body = "output:append(objclass.current_version() .. ' ' .. objclass.current_subop_num()
                .. ' ' .. objclass.current_subop_version())";
    // An object that was never there has the least version that the next may follow.
    assert_eq!(node.body("o", body).0, 0);
    write(&node, "o", b"");
    write(&node, "o", b"");
    let version = node.version("o");
    assert_eq!(node.body("o", body), (0, format!("{version} 0 {version}.0")));
    assert_eq!(node.body("o", "assert(type(objclass.current_version()) == 'number')").0, 0);
}

// bufferlist

#[test]
fn buffer_lists_compare_and_concatenate() {
    let with = |body: &str| {
        format!(
            "local function bl(text) local b = bufferlist.new() b:append(text) return b end
             local none, a, b, ab = bufferlist.new(), bl('A'), bl('B'), bl('AB') {body}"
        )
    };
    let cases = [
        "assert(none == bufferlist.new() and none == none and a == a and a == bl('A'))",
        "assert(a ~= b and a ~= ab and bl('abc') ~= bl('abcd') and a ~= 'A' and a ~= nil)",
        "assert(a < b and a <= b and a <= a and not (a < a) and not (b < a) and none < a)",
        "assert(a < ab and ab < b and b > a and b >= a)",
        "assert(#none == 0 and #ab == 2 and ab:str() == 'AB' and none:str() == '')",
        "assert(a .. b == ab and b .. a ~= ab and (none .. none) == none and a .. none == a)",
        // A copy: later appends to an operand do not show.
        "local x = a .. b b:append('C') a:append('Z') assert(x == ab and b == bl('BC'))",
        "local x = a .. b x:append('C') assert(a == bl('A') and b == bl('B'))",
        "assert(bl('\\0\\255x'):str() == '\\0\\255x' and #bl('\\0') == 1)",
        // What was written does not change with the buffer list.
        "objclass.map_set_val('k', a) a:append('more') objclass.map_set_val('l', a)
         assert(objclass.map_get_val('k') == bl('A') and objclass.map_get_val('l') == a)",
    ];
    for (index, case) in cases.iter().enumerate() {
        let node = Node::new();
        assert_eq!(node.body(&format!("o{index}"), &with(case)).0, 0, "{case}");
    }
    for wrong in [
        "a:append(1)",
        "a:append(nil)",
        "a:append(b)",
        "a:append({})",
        "return a .. 'x'",
        "return 'x' .. a",
        "return a < 'x'",
        "a.x = 1",
        "a:nothing()",
        "bufferlist.new = 1",
    ] {
        assert_eq!(Node::new().body("o", &with(wrong)).0, EIO, "{wrong}");
    }
}

// nacre goes further

#[test]
fn reads_see_the_handlers_own_earlier_writes() {
    check(&[(
        "objclass.write_full(input) assert(objclass.read(0, 100) == input)
         objclass.setxattr('a', input) assert(objclass.getxattr('a') == input)
         objclass.map_set_val('k', input) assert(objclass.map_get_val('k') == input)
         assert(objclass.map_get_keys('', 9).k and objclass.map_get_vals('', '', 9).k == input)
         objclass.map_write_header(input) assert(objclass.map_read_header() == input)
         assert(objclass.stat() == #input)
         objclass.map_remove_key('k') assert(not pcall(objclass.map_get_val, 'k'))
         objclass.remove() assert(not pcall(objclass.stat))",
        0,
        "",
    )]);
}
