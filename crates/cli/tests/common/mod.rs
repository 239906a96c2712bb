//! A real cluster in a scratch folder, and the `nacre` command against it.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod appenders;
pub mod follower;
pub mod layouts;
pub mod metrics_page;
pub mod numbered;
pub mod on_ceph;
pub mod person;
pub mod routes;
pub mod slo_profiles;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nacre_conformance::wait::{eventually_blocking, within_deadline_blocking};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The command under test.
pub const NACRE: &str = env!("CARGO_BIN_EXE_nacre");

/// `nacre up` in a folder of its own; stopped when dropped.
pub struct RunningCluster {
    folder: PathBuf,
    /// Removed at the end, unless the folder is somebody else's.
    _scratch: Option<TempDir>,
    up: Child,
    /// What `up` said: the nodes with their pids.
    pub announced: Value,
}

impl RunningCluster {
    /// A new cluster.
    pub fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let mut cluster = Self::start_in(scratch.path());
        cluster._scratch = Some(scratch);
        cluster
    }

    /// A new cluster that is reached by mutual TLS alone.
    pub fn start_tls() -> Self {
        Self::start_tls_with(&[])
    }

    /// As [`Self::start_tls`], with more arguments for `init`.
    pub fn start_tls_with(arguments: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let made = Command::new(NACRE)
            .args(["init", "--targets", "2", "--listen", "127.0.0.2:0", "--tls-only", "--cluster"])
            .arg(scratch.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut cluster = Self::start_in(scratch.path());
        cluster._scratch = Some(scratch);
        cluster
    }

    /// A cluster in a given folder, which may hold one already.
    pub fn start_in(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    /// As [`Self::start_in`], with more arguments for `up`.
    pub fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_told(folder, arguments, Stdio::inherit())
    }

    /// As [`Self::start_with`]. The standard error of `up` goes to `said`.
    pub fn start_told(folder: &Path, arguments: &[&str], said: Stdio) -> Self {
        let mut up = Command::new(NACRE);
        up.args(["up", "--json", "--cluster"]).arg(folder).args(arguments).stderr(said);
        Self::start_by(folder, up)
    }

    /// Starts a cluster by a command that runs `nacre up --json`.
    pub fn start_by(folder: &Path, mut up: Command) -> Self {
        let mut up = up.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(up.stdout.take().unwrap());
        let line = within_deadline_blocking("`nacre up` announces itself", move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| line)
        });
        let announced = serde_json::from_str(&line.unwrap()).expect("`nacre up` announces itself");
        Self { folder: folder.to_owned(), _scratch: None, up, announced }
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A `nacre` command against the cluster.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(NACRE);
        command.args(arguments).env("NACRE_CLUSTER", &self.folder);
        command
    }

    /// Runs it; what it printed, if it worked.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_with_input(arguments, "")
    }

    /// Runs it with something on standard input.
    #[track_caller]
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "nacre {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs it; the document it printed.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Runs it to fail; its exit status and what it said.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.output(arguments, "");
        assert!(!output.status.success(), "nacre {arguments:?} worked");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code().unwrap(), said)
    }

    fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads no input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        finish(child, &format!("nacre {arguments:?}"))
    }

    /// The current process of a node. `node` is its name here or in the cluster's maps.
    pub fn pid_of(&self, node: &str) -> Option<i32> {
        let status = self.run(&["status", "--json"]);
        let mut lines = status.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_it = |line: &Value| line["node"] == node || line["report"]["name"] == node;
        let found = lines.find(is_it).unwrap();
        found["report"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok())
    }

    /// Ends a node with SIGKILL.
    pub fn kill_node(&self, node: &str) -> i32 {
        let pid = self.pid_of(node).expect("the node is up");
        kill(pid);
        pid
    }

    /// Ends `nacre up` itself with SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        self.up.kill().unwrap();
        self.up.wait().unwrap();
    }

    /// Kills `nacre up` and one of its nodes at the same time, as a loss of power would. So neither
    /// can report that the other is down.
    pub fn vanish(&mut self, node: &str) {
        let node = self.pid_of(node).expect("the node is up");
        // Else it would tell of the node's end, or the node of its.
        suspend(i32::try_from(self.up.id()).unwrap());
        kill(node);
        self.kill();
    }

    /// Asks `nacre up` to finish, and waits for its end. Returns whether it succeeded.
    pub fn stop(&mut self) -> bool {
        self.terminate();
        self.ended()
    }

    /// Asks `nacre up` to finish.
    pub fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.up.id()).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
    }

    /// Waits until `nacre up` has ended; whether it ended well.
    pub fn ended(&mut self) -> bool {
        let mut status = None;
        eventually_blocking("the end of `nacre up`", || {
            status = self.up.try_wait().unwrap();
            status.is_some()
        });
        status.expect("it has ended").success()
    }
}

/// What a process printed, once it has ended.
pub fn finish(child: Child, what: &str) -> Output {
    let ended =
        within_deadline_blocking(&format!("the end of {what}"), || child.wait_with_output());
    ended.unwrap()
}

/// Stops a process as Ctrl-Z does. On a busy machine the signal takes effect late, so this waits
/// until every thread is stopped.
pub fn suspend(pid: i32) -> Pid {
    let process = Pid::from_raw(pid).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        status.contains("State:\tT")
    };
    eventually_blocking("the process is suspended", || {
        std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(is_stopped)
    });
    process
}

/// Ends a process with SIGKILL.
pub fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

impl Drop for RunningCluster {
    fn drop(&mut self) {
        if matches!(self.up.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

/// The file of a program that nacre ships, such as `control/tail.lua`.
pub fn shipped(name: &str) -> String {
    format!("{}/../../programs/{name}", env!("CARGO_MANIFEST_DIR"))
}
