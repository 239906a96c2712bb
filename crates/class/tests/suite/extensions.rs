//! What nacre adds to `objclass`, and what it adds around it.

use crate::support::{Node, status};
use nacre_object::ErrorKind;

#[test]
fn extensions_append_truncate_and_zero_the_stream() {
    let node = Node::new();
    let run = |body: &str| node.body("o", body);
    assert_eq!(run("assert(objclass.exists() == false)").0, 0);
    assert_eq!(run("return objclass.append(input)"), (0, String::new()));
    assert_eq!(run("return objclass.append('and text')").0, 9);
    assert_eq!(run("assert(objclass.exists()) objclass.zero(0, 4) objclass.truncate(12)").0, 0);
    assert_eq!(&node.read("o").unwrap()[..], b"\0\0\0\0inputand");
    assert_eq!(run("objclass.append({})").0, -5);
    assert_eq!(run("objclass.truncate(-1)").0, -22);
}

#[test]
fn attributes_can_be_removed() {
    let node = Node::new();
    let body = "objclass.setxattr('a', input) objclass.rmxattr('a') return (select(2, pcall(objclass.rmxattr, 'a')))";
    assert_eq!(node.body("o", body).0, -61);
}

#[test]
fn extensions_read_the_map_in_order_and_its_last_key() {
    let node = Node::new();
    let fill =
        "for i = 1, 9 do objclass.map_set('e' .. i, 'v' .. i) end objclass.map_set('f', input)";
    assert_eq!(node.body("o", fill).0, 0);
    let body = r"assert(objclass.map_get('e1'):str() == 'v1' and objclass.map_get('none') == nil)
                assert(objclass.map_get_str('e1') == 'v1' and objclass.map_get_str('none') == nil)
                local tail = bufferlist.new() tail:append('il')
                objclass.map_set_parts('parts', 'ta', tail)
                assert(objclass.map_get_str('parts') == 'tail')
                objclass.map_set_rest('parts', 'ta', 8) assert(objclass.map_get_str('parts') == 'taut')
                objclass.map_set_rest('parts', tail, 10) assert(objclass.map_get_str('parts') == 'il')
                assert(objclass.hex_key('k', 2^52 + 10) == 'k1000000000000a')
                assert(objclass.hex_key(('x'):rep(99), 0) == ('x'):rep(99) .. ('0'):rep(14))
                assert(not pcall(objclass.hex_key, 'k', -1) and not pcall(objclass.map_set_rest, 'k', {}, 1))
                objclass.map_set_int('n', 10, 'ten') objclass.map_set_int(('x'):rep(99), -1, tail)
                assert(objclass.map_get_str('np0000000000000a') == 'ten')
                assert(objclass.map_get_str(('x'):rep(99) .. 'm1fffffffffffff') == 'il')
                assert(objclass.map_get_int('n', 10) == 'ten' and objclass.map_get_int('n', 11) == nil)
                assert(objclass.map_get_int(('x'):rep(99), '-1') == 'il', 'as Lua converts numbers')
                objclass.map_set_int_rest('n', 10, 'ta', 8)
                assert(objclass.map_get_int('n', 10) == 'ta\2\0\0\0ut')
                objclass.map_set_int_rest('n', 10, tail, 10)
                assert(objclass.map_get_int('n', 10) == 'il\0\0\0\0')
                for _, number in {0/0, 1/0, 0.5, 2^53 + 2, {}} do
                  assert(not pcall(objclass.map_get_int, 'n', number))
                  assert(not pcall(objclass.map_set_int, 'n', number, ''))
                  assert(not pcall(objclass.map_set_int_rest, 'n', number, '', 1))
                end
                objclass.map_remove_key('np0000000000000a')
                objclass.map_remove_key(('x'):rep(99) .. 'm1fffffffffffff')
                objclass.map_remove_key('parts')
                local key, value = objclass.map_last('e') assert(key == 'e9' and value:str() == 'v9')
                assert(objclass.map_last('') == 'f' and objclass.map_last('x') == nil)
                local keys, values, more = objclass.map_range('e2', 'e', 3)
                assert(more and table.concat(keys, ' ') == 'e3 e4 e5' and values[2]:str() == 'v4')
                local keys, _, more = objclass.map_range('e7', 'e', 9) assert(#keys == 2 and not more)
                local function page(after, most, bytes)
                  local keys, values, last = {}, objclass.map_page(after, 'e', most, bytes)
                  for key, value in values do assert(value:str() == 'v' .. key:sub(2)) table.insert(keys, key) end
                  table.sort(keys)
                  return table.concat(keys, ' '), last
                end
                local keys, last = page('e2', 3, 100) assert(keys == 'e3 e4 e5' and last == 'e5')
                keys, last = page('e2', 100, 4) assert(keys == 'e3 e4' and last == 'e4')
                keys, last = page('e2', 100, 0) assert(keys == 'e3' and last == 'e3', 'at least one')
                keys, last = page('e7', 2, 4) assert(keys == 'e8 e9' and last == nil, 'there are no more')
                keys, last = page('e9', 2, 4) assert(keys == '' and last == nil)";
    assert_eq!(node.body("o", body).0, 0);
    let absent = "assert(objclass.map_get('k') == nil and objclass.map_last('') == nil)
                  assert(objclass.map_get_str('k') == nil)
                  local keys, values, more = objclass.map_range('', '', 5) assert(#keys == 0 and not more)
                  local values, last = objclass.map_page('', '', 5, 5) assert(next(values) == nil and not last)";
    assert_eq!(node.body("absent", absent).0, 0);
}

#[test]
fn a_method_can_read_the_time_and_its_caller() {
    let node = Node::new();
    let body =
        "assert(objclass.now() > 1e15 and objclass.now() < 2^53) output:append(objclass.source())";
    assert_eq!(node.body("o", body), (0, "local".into()));
}

#[test]
fn a_method_registered_read_only_may_read_and_is_denied_every_write() {
    let node = Node::new();
    assert_eq!(node.body("o", "objclass.write_full(input) objclass.map_set('k', 'v')").0, 0);
    let read_only = |body: &str| {
        let source =
            format!("function h(input, output) {body} end objclass.register(h, 'readonly')");
        node.eval("o", &source, "h", b"x")
    };
    assert_eq!(status(read_only("return #objclass.read(0, 100) + #objclass.map_get_val('k')")), 10);
    for write in [
        "create(false)",
        "remove()",
        "write(0, 1, input)",
        "write_full(input)",
        "append(input)",
        "truncate(0)",
        "zero(0, 1)",
        "setxattr('a', input)",
        "rmxattr('a')",
        "map_set_val('k', input)",
        "map_set('k', input)",
        "map_set('k', 'x')",
        "map_set_parts('k', 'x', input)",
        "map_set_rest('k', 'x', 1)",
        "map_set_rest('k', input, 1)",
        "map_set_int('k', 1, 'x')",
        "map_set_int('k', 1, input)",
        "map_set_int_rest('k', 1, 'x', 1)",
        "map_set_int_rest('k', 1, input, 1)",
        "map_set_vals({k = 'x'})",
        "map_remove_key('k')",
        "map_clear()",
        "map_write_header(input)",
    ] {
        let error = read_only(&format!("objclass.{write}")).unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Denied, -1), "{write}");
    }
    assert_eq!(status(read_only("return (select(2, pcall(objclass.remove)))")), -1);
    assert_eq!(node.body("o", "return #objclass.read(0, 100)").0, 9);
}

#[test]
fn output_beyond_the_budget_gives_exhausted() {
    let node = Node::with_budget(nacre_program::Budget::default());
    let fits = "output:append(('x'):rep(2^23))";
    assert_eq!(node.body("o", fits).1.len(), 1 << 23);
    let source = "function h(i, o) o:append(('x'):rep(2^23 + 1)) end objclass.register(h)";
    let error = node.eval("o", source, "h", b"").unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Exhausted, -28));
}
