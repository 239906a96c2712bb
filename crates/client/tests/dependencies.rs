//! Which crates a program links that is only a client of a cluster.

use std::process::Command;

/// Crates that only nodes need: the engines, the compiler, the tuner, the VM and the class runtime.
const NODES_ALONE: [&str; 8] = [
    "nacre-embedded",
    "nacre-rados",
    "nacre-brados",
    "nacre-tuner",
    "nacre-class",
    "nacre-script",
    "mlua",
    "fjall",
];

/// The crates that a client links, with these features of `nacre`.
fn linked(features: &[&str]) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "-p", "nacre", "-e", "normal", "--prefix", "none"])
        .args(["--features", &features.join(",")])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        // With this variable, cargo would use the features of the whole workspace.
        .env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION");
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_client_links_no_engine_no_compiler_and_no_vm() {
    let linked = linked(&[]);
    assert!(linked.iter().any(|name| name == "nacre-wire"), "{linked:?}");
    let found: Vec<_> = linked.iter().filter(|name| NODES_ALONE.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_feature_programs_adds_the_compiler_and_the_vm_but_no_engine() {
    let linked = linked(&["programs"]);
    let has = |wanted: &str| linked.iter().any(|name| name == wanted);
    assert!(has("nacre-brados") && has("mlua"), "{linked:?}");
    assert!(!has("nacre-embedded") && !has("nacre-rados") && !has("nacre-tuner"), "{linked:?}");
}
