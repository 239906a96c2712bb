//! The original policy of CephFS (Mantle, table 1). If a policy leaves out a hook, the hook of the
//! original policy is used.
//!
//! Its text is that of the shipped program `programs/balancer/cephfs_hybrid.lua`, whose hooks are
//! strings.

use super::hook_name::HookName;

/// The program that has the original's hooks.
const PROGRAM: &str = include_str!("../../../../programs/balancer/cephfs_hybrid.lua");

/// What stands in the program between two marks.
fn between(begin: &str, end: &str) -> &'static str {
    let (_, rest) = PROGRAM.split_once(begin).expect("the shipped program has the hook");
    rest.split_once(end).expect("the shipped program ends the hook").0
}

/// The selectors by which the original chooses units.
pub(crate) const HOWMUCH: [&str; 1] = ["big_first"];

/// The original's hook, in the dialect of the paper.
pub(crate) fn text_of(hook: HookName) -> &'static str {
    match hook {
        HookName::Metaload => between("\nmetaload = \"", "\""),
        HookName::Mdsload => between("\nmdsload = [=[", "]=]"),
        HookName::When => between("\nwhen = [[", "]]\n"),
        HookName::Where => between("\nwhere = [==[", "]==]"),
        HookName::Howmuch => r#"{"big_first"}"#,
        HookName::Placement | HookName::Mode => "nil",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hook_of_the_original_is_found_whole() {
        assert_eq!(text_of(HookName::Metaload), "IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE");
        assert!(text_of(HookName::Mdsload).ends_with(r#"+ 10*MDSs[i]["q"]"#));
        assert_eq!(text_of(HookName::When), r#"if MDSs[whoami]["load"] > total/#MDSs then"#);
        let text = text_of(HookName::Where);
        assert!(text.contains("local average") && text.trim_end().ends_with("end"), "{text}");
    }
}
