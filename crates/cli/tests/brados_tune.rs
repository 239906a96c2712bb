//! Tests that `nacre brados tune` chooses a layout with a profile of the engine that it runs on,
//! and refuses another engine's profile.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use nacre_tuner::{OwnEngine, Profile};

const NACRE: &str = env!("CARGO_BIN_EXE_nacre");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/kv.brados");
/// The test checks the output, not the measured times, so short measurements are enough.
const SPAN: Duration = Duration::from_millis(20);
const WORKLOAD: &str = "objects 4\nfill 8 put 'key', 'value'\nmix 1 get 'key'\n";

fn tune(folder: &Path, workload: &str) -> Output {
    fs::write(folder.join("w"), workload).unwrap();
    let arguments = ["brados", "tune", PROGRAM, "--workload", "w", "--rounds", "1"];
    Command::new(NACRE)
        .args(arguments)
        .args(["--seconds", "0.05", "--profile", "profile.json"])
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The explanation of the program's layout that `brados explain` prints with these arguments.
fn explained(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(NACRE)
        .args(["--json", "brados", "explain", PROGRAM, "--profile", "profile.json"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    said["why"].clone()
}

fn says_what_to_run(why: &serde_json::Value, what: &str) -> bool {
    why["next"].as_array().unwrap().iter().any(|step| step.as_str().unwrap().contains(what))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tuner_chooses_a_layout_with_the_profile_of_this_engine() {
    let folder = tempfile::tempdir().unwrap();
    let engine = OwnEngine::embedded(folder.path()).unwrap();
    let fingerprint = engine.fingerprint().clone();
    let profile = Profile::measure(engine.bench(), fingerprint, SPAN, &mut |_| {}).await.unwrap();
    drop(engine);
    let (path, text) = (folder.path().join("profile.json"), profile.to_json().unwrap());
    let unmeasured = explained(folder.path(), &[]);
    assert!(says_what_to_run(&unmeasured, "nacre brados profile"), "{unmeasured}");
    fs::write(&path, &text).unwrap();
    let unasked = explained(folder.path(), &[]);
    assert!(unasked["judged"].is_null() && says_what_to_run(&unasked, "--workload"), "{unasked}");
    assert!(!says_what_to_run(&unasked, "nacre brados profile"), "{unasked}");

    let tuned = tune(folder.path(), WORKLOAD);
    let said = String::from_utf8_lossy(&tuned.stdout);
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
    assert!(said.contains("chosen: ") && said.contains("always the map: "), "{said}");
    let judged = &explained(folder.path(), &["--workload", "w"])["judged"];
    let layouts = judged["foreseen"]["tried"].as_array().unwrap();
    assert!(layouts.len() > 1 && layouts[0]["layout"] == "map", "{judged}");
    assert_eq!((&judged["present"], &judged["foreseen"]["rules"][0][1]), (&0.into(), &0.into()));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "the workload and the profile are left: {left:?}");

    for (profile, workload, what) in [
        (text.replace("\"cpus\": ", "\"cpus\": 9"), WORKLOAD, "is the profile of another engine"),
        ("{}".to_owned(), WORKLOAD, "this is not a profile of an engine"),
        (text.clone(), "mix 1 get 'key', maybe", "line 1: `maybe` is not a column"),
        (text.clone(), "mix 1 got 'key'", "got"),
        (text.clone(), "mix 1 put 'key'", "put"),
    ] {
        fs::write(&path, profile).unwrap();
        let refused = tune(folder.path(), workload);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(what) && !said.contains("panicked"), "{workload}: {said}");
        assert!(matches!(refused.status.code(), Some(1 | 2)), "{workload}: {said}");
    }
}
