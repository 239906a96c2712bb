//! `nacre balancer cephfs` on a real file system with two ranks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

const NACRE: &str = env!("CARGO_BIN_EXE_nacre");
const GREEDY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/balancer/ceph/greedy_spill.lua");

/// A policy that fails on rank 1 of CephFS, but not in nacre's dry run. Ceph's Lua writes `whoami /
/// 1` as `1.0`, a name that the table lacks; nacre's Luau writes `1`.
const FAILS_ON_RANK_1: &str = r#"--!mantle
local targets = {}
for rank in pairs(mds) do targets[rank] = 0 end
local names = { ["1"] = "last" }
if whoami == 1 then BAL_LOG(2, "the " .. names[tostring(whoami / 1)] .. " rank") end
return targets
"#;

/// A file system with two ranks whose ticks are short.
struct TwoRanks {
    ceph: CephCluster,
    scratch: tempfile::TempDir,
}

impl TwoRanks {
    /// Starts it, and has the ranks balance.
    fn start() -> Self {
        let ranks = Self::as_made();
        if ranks.balances() == Some(false) {
            ranks.turn_on();
        }
        ranks
    }

    /// Starts the file system with Ceph's defaults. In Ceph 18 and later, ranks do not balance
    /// until an operator turns balancing on.
    fn as_made() -> Self {
        let options = ["--osds", "1", "--mds", "2", "--set", "mds_bal_interval=2"];
        Self { ceph: CephCluster::start(&options), scratch: tempfile::tempdir().unwrap() }
    }

    /// Whether the ranks balance; `None` in versions of Ceph where they always do.
    fn balances(&self) -> Option<bool> {
        self.map()["flags_state"]["balance_automate"].as_bool()
    }

    fn turn_on(&self) {
        self.ceph.client("ceph", &["fs", "set", "cephfs", "balance_automate", "true"]);
    }

    /// A policy's file.
    fn file(&self, name: &str, source: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        std::fs::write(&path, source).unwrap();
        path
    }

    /// Runs a command; its exit status, and what it printed and said.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(NACRE)
            .args(["balancer", "cephfs"])
            .args(arguments)
            .arg("--ceph")
            .arg(self.ceph.conf())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let [printed, said] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code(), printed, said)
    }

    /// Runs it; the document that it printed.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let (status, printed, said) = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    fn push(&self, file: &Path) -> (Option<i32>, String, String) {
        self.run(&["push", file.to_str().unwrap()])
    }

    /// The object of the active policy, as the monitors know it.
    fn active(&self) -> String {
        self.map()["balancer"].as_str().unwrap().to_owned()
    }

    /// The file system, as the monitors know it.
    fn map(&self) -> Value {
        let map = self.ceph.client("ceph", &["fs", "get", "cephfs", "--format", "json"]);
        serde_json::from_str::<Value>(&map).unwrap()["mdsmap"].clone()
    }

    /// Waits until rank 0 has loaded a policy.
    fn await_loaded(&self, object: &str) {
        let line = format!("mantle balancer version changed: {object}");
        eventually_blocking("rank 0 loads the policy", || {
            let log = std::fs::read_to_string(self.ceph.folder().join("log/cluster.log")).unwrap();
            log.contains(&line)
        });
    }
}

#[test]
fn a_policy_is_pushed_watched_taken_back_and_rolled_back() {
    let ranks = TwoRanks::as_made();
    let source = std::fs::read_to_string(GREEDY).unwrap();
    assert_eq!(ranks.json(&["status"])["object"], "");

    if ranks.balances() == Some(false) {
        let (status, _, said) = ranks.push(Path::new(GREEDY));
        assert!(
            status == Some(1) && said.contains("ceph fs set cephfs balance_automate true"),
            "{said}"
        );
        assert_eq!(ranks.active(), "");
        assert!(ranks.run(&["status"]).1.contains("balance_automate is off"));
        ranks.turn_on();
    }

    let first = ranks.json(&["push", GREEDY])["active"].as_str().unwrap().to_owned();
    assert!(first.starts_with("greedy_spill.v1."), "{first}");
    assert_eq!(ranks.active(), first);
    ranks.await_loaded(&first);
    let status = ranks.json(&["status"]);
    assert_eq!((&status["name"], &status["version"]), (&"greedy_spill".into(), &1.into()));
    assert_eq!(status["ranks"].as_array().unwrap().len(), 2, "{status}");
    assert_eq!(ranks.run(&["pull"]).1, source);

    // Rank 0 can run it, rank 1 cannot.
    let failing = ranks.file("failing.lua", FAILS_ON_RANK_1);
    let (status, _, said) = ranks.push(&failing);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("taken back: a rank could not run it: mds.1 (mds."), "{said}");
    assert!(said.contains("Invalid argument") && !said.contains("mds.0"), "{said}");
    assert_eq!(ranks.active(), first);

    // A rank does not notice that an object was overwritten, so the changed policy must get another
    // name.
    let changed = ranks.file("greedy_spill.lua", &source.replace("0.01", "0.02"));
    let (status, _, said) = ranks.push(&changed);
    assert_eq!(status, Some(0), "{said}");
    let second = ranks.active();
    assert!(second.starts_with("greedy_spill.v2."), "{second}");
    ranks.await_loaded(&second);
    assert!(ranks.run(&["pull"]).1.contains("0.02"));

    let (_, history, _) = ranks.run(&["history"]);
    let states: Vec<_> = history.lines().skip(1).map(str::trim_end).collect();
    assert!(states.len() == 3 && states[0].ends_with("  -"), "{history}");
    assert!(
        states[1].contains("failing")
            && states[1].contains("taken back: a rank could not run it: mds.1"),
        "{history}"
    );
    assert!(states[2].ends_with("active"), "{history}");

    assert_eq!(ranks.json(&["rollback"])["active"], first);
    assert_eq!(ranks.active(), first);
    assert_eq!(ranks.run(&["pull"]).1, source);
    assert_eq!(ranks.json(&["rollback"])["active"], "");
    assert_eq!(ranks.run(&["rollback"]).0, Some(1));
}

#[test]
fn a_policy_that_fails_in_the_dry_run_changes_nothing() {
    let ranks = TwoRanks::start();
    for (source, because) in [
        ("when = 'if true then'\nmdsload = 'MDSs[i].nothing + 1'", "nil"),
        ("--!mantle\nreturn {", "line"),
        (
            "--!mantle\nlocal load = mds[whoami + 1].queue_len\nreturn { [0] = 0, [1] = 0, [2] = 0 }",
            "line 2",
        ),
        ("--!mantle\nreturn { [0] = math.max(1, 2) }", "line 2"),
        ("--!mantle\nreturn {}", "invalid argument: 0 targets"),
    ] {
        let (status, _, said) = ranks.push(&ranks.file("policy.lua", source));
        assert!(status != Some(0) && said.contains(because), "{source}: {said}");
    }
    let (status, printed, said) = ranks.run(&["push", GREEDY, "--dry-run"]);
    assert!(status == Some(0) && printed.contains("rank 1 would send nothing"), "{said}");
    assert_eq!(ranks.active(), "");
    assert_eq!(ranks.run(&["history"]).1.lines().count(), 1, "only the header");
    assert_eq!(ranks.run(&["pull"]).0, Some(1));
    let (status, _, said) = ranks.run(&["status", "--fs", "other"]);
    assert!(status == Some(1) && said.contains("choose one with --fs: cephfs"), "{said}");
}

/// A client of the file system that makes and removes directories until it is dropped.
struct Load(std::process::Child);

impl Load {
    fn on(ranks: &TwoRanks) -> Self {
        const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cephfs_client.py");
        let mut client = Command::new("/usr/bin/python3");
        client.arg(CLIENT).arg(ranks.ceph.conf()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.spawn().unwrap();
        let mut line = String::new();
        let printed = client.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(printed), &mut line).unwrap();
        assert_eq!(line, "mounted\n");
        Self(client)
    }

    fn pause(&self) {
        let pid = i32::try_from(self.0.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests that all ranks serve a second.
fn requests(ranks: &TwoRanks) -> f64 {
    let status = ranks.json(&["status"]);
    let ranks = status["ranks"].as_array().unwrap().clone();
    ranks.iter().map(|rank| rank["requests_per_second"].as_f64().unwrap()).sum()
}

#[test]
fn a_policy_under_which_throughput_drops_is_taken_back_and_ticks_are_recorded() {
    let ranks = TwoRanks::start();
    let load = Load::on(&ranks);
    eventually_blocking("the file system is busy", || requests(&ranks) > 20.0);

    let ticks = ranks.scratch.path().join("ticks");
    let recorded = ranks.json(&["record", ticks.to_str().unwrap(), "--seconds", "5"]);
    assert!(recorded["ticks"].as_u64().unwrap() >= 2, "{recorded}");
    let lines = std::fs::read_to_string(&ticks).unwrap();
    assert!(lines.contains(r#""name":"/load0""#), "{lines}");
    for command in ["replay", "simulate"] {
        const PAPERS: &str =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/balancer/cephfs_hybrid.lua");
        let output = Command::new(NACRE)
            .args(["balancer", command, PAPERS, "--json", "--history"])
            .arg(&ticks)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!value["ticks"].as_array().unwrap().is_empty(), "{value}");
    }

    eventually_blocking("the file system is still busy", || requests(&ranks) > 20.0);
    // A policy in the dialect of the Mantle paper, which `push` translates. While `push` watches
    // the ranks, the test pauses the load, so the throughput drops.
    const PAPERS: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/balancer/greedy_spill.lua");
    let mut push = Command::new(NACRE)
        .args(["balancer", "cephfs", "push", PAPERS, "--watch", "60", "--ceph"])
        .arg(ranks.ceph.conf())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually_blocking("the policy is active", || {
        assert_eq!(push.try_wait().unwrap(), None, "the push has not ended");
        ranks.active().starts_with("greedy_spill.v1.")
    });
    load.pause();
    let ended = String::from_utf8(push.wait_with_output().unwrap().stderr).unwrap();
    assert!(ended.contains("lost: howmuch: "), "{ended}");
    assert!(ended.contains("was taken back: requests fell from "), "{ended}");
    assert_eq!(ranks.active(), "");
    let (_, history, _) = ranks.run(&["history"]);
    assert!(history.contains("taken back: requests fell"), "{history}");
}
