//! The original policy of CephFS (Mantle, table 1). It supplies every hook that another policy
//! leaves out.
//!
//! The hooks are read from the shipped program `programs/balancer/cephfs_hybrid.lua`, which sets
//! each of them to a string.

use super::hook_name::HookName;

/// The program that has the original's hooks.
const PROGRAM: &str = include_str!("../../../../programs/balancer/cephfs_hybrid.lua");

/// The part of the program between two strings.
fn between(begin: &str, end: &str) -> &'static str {
    let (_, rest) = PROGRAM.split_once(begin).expect("the shipped program has the hook");
    rest.split_once(end).expect("the shipped program ends the hook").0
}

/// The selectors by which the original chooses units.
pub(crate) const HOWMUCH: [&str; 1] = ["big_first"];

/// The original policy's hook, in the dialect of the Mantle paper.
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
    fn each_hook_of_the_original_policy_is_found_complete() {
        assert_eq!(text_of(HookName::Metaload), "IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE");
        assert!(text_of(HookName::Mdsload).ends_with(r#"+ 10*MDSs[i]["q"]"#));
        assert_eq!(text_of(HookName::When), r#"if MDSs[whoami]["load"] > total/#MDSs then"#);
        let text = text_of(HookName::Where);
        assert!(text.contains("local average") && text.trim_end().ends_with("end"), "{text}");
    }
}
