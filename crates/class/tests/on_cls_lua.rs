//! The suite of classes, its methods run by Ceph's own class in the OSD of the object, where
//! it can run them as they are meant; the engine runs the rest.

mod suite;
mod support;

#[test]
fn what_both_mean_alike_is_run_there_and_the_rest_is_not() {
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
        "assert(('%d %s'):format(2.0, 4 / 2) == '2 2') output:append('x')",
    ] {
        assert!(ran_there(body), "{body}");
    }
    for body in [
        // A read of what it wrote.
        "objclass.map_set_val('k', input) assert(objclass.map_get_val('k') == input)
         output:append('x')",
        // What is refused counts, even if the program goes on.
        "pcall(objclass.map_write_header, input) output:append('x')",
        "assert(tostring(0.5) == '0.5') output:append('x')",
        "local n = 1 n += 1 output:append('x')",
        "assert(objclass.now() > 0) output:append('x')",
        "assert(next({}) == nil) output:append('x')",
    ] {
        assert!(!ran_there(body), "{body}");
    }
}
