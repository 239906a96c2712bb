//! Runs the tests of classes on Ceph. A method that has the same effect in Ceph's own `cls_lua`
//! runs there, in the OSD. nacre's engine on Ceph runs all other methods.

mod suite;
mod support;

#[test]
fn ceph_runs_the_scripts_that_mean_the_same_there_and_the_engine_runs_the_others() {
    let node = support::Node::new();
    let ran_there = |body: &str| {
        let count = || node.rados.as_ref().unwrap().osd_counts().by_stock;
        let before = count();
        assert_eq!(node.body("o", body), (0, "x".into()), "{body}");
        count() > before
    };
    for body in [
        "output:append('x')",
        "objclass.write_full(input) output:append('x')",
        "assert(tostring(6 / 2) == '3') output:append('x')",
        "assert(objclass.read(0, 100) == input) output:append('x')",
        "assert(not pcall(objclass.map_get_val, 'absent')) output:append('x')",
        "assert('half' .. 4 / 2 .. '..' .. 2 ^ 3 .. -1 == 'half2..8-1') output:append('x')",
        "assert(#('a' .. 'b') == 2 and 1 .. 2 == '12' and not ('a' .. 1 == 'a1.0'))
         output:append('x')",
        "local ok, why = pcall(error, 'mine', 0) assert(why == 'mine') output:append('x')",
        "assert(tonumber(' 12 ') == 12 and tonumber('1e3') .. '' == '1000') output:append('x')",
        "assert(('%d %s'):format(2.0, 4 / 2) == '2 2') output:append('x')",
    ] {
        assert!(ran_there(body), "{body}");
    }
    for body in [
        // A read of what it wrote.
        "objclass.map_set_val('k', input) assert(objclass.map_get_val('k') == input)
         output:append('x')",
        // A refused function makes the call fail, even if the program catches the error and goes
        // on.
        "pcall(objclass.map_write_header, input) output:append('x')",
        "assert(tostring(0.5) == '0.5') output:append('x')",
        "local n = 1 n += 1 output:append('x')",
        "assert(objclass.now() > 0) output:append('x')",
        // Numbers of which stock Ceph would use only the lower bits.
        "assert(not pcall(objclass.write, 4294967296, #input, input)) output:append('x')",
        "assert(#objclass.read(4294967296, 4) == 0) output:append('x')",
        "assert(#objclass.read(2147483647, 1) == 0) output:append('x')",
        "assert(#objclass.map_get_keys('', 4294967296) == 0) output:append('x')",
        // Code that does different things in Luau and Lua 5.3, but fails in neither.
        "assert('half' .. 1 / 2 == 'half0.5') output:append('x')",
        "assert('n' .. (9007199254740992 + 1) ~= '') output:append('x')",
        "assert(tonumber('inf') ~= 5 and tonumber('0x1p4') ~= 5) output:append('x')",
        "assert(('%x'):format(-1) ~= '') output:append('x')",
        "assert(('%q'):format('a') ~= '') output:append('x')",
        "local ok, why = pcall(error, 'mine') assert(why ~= '') output:append('x')",
        "local ok, why = pcall(function() return 'x' + 1 end) assert(not ok) output:append('x')",
        "local seen = '' for key in pairs({ a = 1, b = 2 }) do seen = seen .. key end
         assert(#seen == 2) output:append('x')",
        "assert(next({}) == nil) output:append('x')",
    ] {
        assert!(!ran_there(body), "{body}");
    }
}

#[test]
fn a_write_past_what_ceph_can_address_changes_nothing() {
    let node = support::Node::new();
    support::write(&node, "o", b"kept");
    let past = "objclass.write(4294967296, #input, input)";
    assert!(node.body("o", past).0 < 0);
    assert_eq!(node.body("o", "output:append(objclass.read(0, 9):str())"), (0, "kept".into()));
}
