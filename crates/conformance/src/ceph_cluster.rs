//! Runs a Ceph cluster of real daemons for a test. The script `scripts/ceph-cluster` starts the
//! daemons. The test holds a pipe to the script, and the script stops the daemons when the pipe is
//! closed.
//!
//! **Invariant:** however the test ends, even by SIGKILL, its end of the pipe is closed. The script
//! then stops every daemon and deletes the folder.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// What the script prints once the cluster serves.
const UP: &str = "a Ceph cluster runs";
/// How many bytes of each daemon's log are printed after a failed test.
const TOLD_BYTES: usize = 4096;

/// A running cluster. Dropping this value stops it.
#[derive(Debug)]
pub struct CephCluster {
    folder: PathBuf,
    holder: Child,
}

/// The folder with nacre's plugin for OSDs (a Ceph object class), which `make ceph-plugin` builds.
/// It lies in the build folder of this test binary.
///
/// # Panics
/// If it does not exist.
pub fn ceph_plugin_folder() -> PathBuf {
    // Tests are in `PROFILE/deps`, examples in `PROFILE/examples`.
    let this = std::env::current_exe().expect("a process has a program");
    let target = this.ancestors().nth(3).expect("it is in the target folder");
    let folder = target.join("release");
    let plugin = folder.join("libcls_nacre.so");
    assert!(plugin.exists(), "{} is not there: `make ceph-plugin` makes it", plugin.display());
    folder
}

impl CephCluster {
    /// Starts a cluster with these options of `ceph-cluster up`.
    ///
    /// # Panics
    /// If the cluster does not start. The script has printed the reason on standard error.
    pub fn start(options: &[&str]) -> Self {
        let folder = Self::unused_folder();
        let mut holder = Self::command("up", &folder)
            .args(options)
            .arg("--hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("scripts/ceph-cluster can be run");
        let output = holder.stdout.as_mut().expect("its output is a pipe");
        // An installation of packages may print something first.
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let said = lines.find(|line| line.contains(UP));
        let cluster = Self { folder, holder };
        assert!(said.is_some(), "the cluster did not come up");
        cluster
    }

    /// A call of the script with a command and a folder.
    pub fn command(command: &str, folder: &Path) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/ceph-cluster");
        let mut process = Command::new(script);
        process.arg(command).arg("--folder").arg(folder);
        process
    }

    /// A folder that no other test uses; it does not exist yet.
    pub fn unused_folder() -> PathBuf {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        std::env::temp_dir().join(format!("nacre-ceph-{}-{number}", std::process::id()))
    }

    /// The folder of the cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The configuration file for clients.
    pub fn conf(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }

    /// The daemons with their process ids. The id of a stopped daemon is `None`.
    ///
    /// # Panics
    /// If the script fails, as all functions below do.
    pub fn daemons(&self) -> Vec<(String, Option<u32>)> {
        let output = Self::command("status", &self.folder).output().expect("it can be asked");
        assert!(output.status.success(), "status: {output:?}");
        let text = String::from_utf8(output.stdout).expect("it answers text");
        let daemon = |line: &str| {
            let (name, state) = line.split_once('\t').expect("a name and a state");
            (name.to_owned(), state.strip_prefix("runs, pid ").and_then(|pid| pid.parse().ok()))
        };
        text.lines().map(daemon).collect()
    }

    /// Ends one daemon with SIGKILL.
    pub fn kill(&self, daemon: &str) {
        self.run("kill", daemon);
    }

    /// Starts one daemon again.
    pub fn restart(&self, daemon: &str) {
        self.run("start", daemon);
    }

    /// Cuts an OSD off the network; the cluster was started with `--networks`.
    pub fn block(&self, osd: &str) {
        self.run("block", osd);
    }

    /// Connects an OSD to the network again.
    pub fn unblock(&self, osd: &str) {
        self.run("unblock", osd);
    }

    /// Runs a program of Ceph, such as `ceph` or `rados`. Returns its output.
    pub fn client(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).arg("-c").arg(self.conf()).args(arguments).output();
        let output = output.expect("ceph-common is installed");
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The watchers of all objects of a pool, in all namespaces: one line for each.
    pub fn watchers(&self, pool: &str) -> Vec<String> {
        let mut watchers = Vec::new();
        for object in self.client("rados", &["-p", pool, "--all", "ls"]).lines() {
            let (namespace, name) = object.split_once('\t').expect("a namespace and a name");
            let who = self.client("rados", &["-p", pool, "-N", namespace, "listwatchers", name]);
            watchers.extend(who.lines().map(|who| format!("{namespace}/{name}: {who}")));
        }
        watchers
    }

    fn run(&self, command: &str, daemon: &str) {
        let status = Self::command(command, &self.folder).arg(daemon).status();
        assert!(status.is_ok_and(|status| status.success()), "{command} {daemon}");
    }
}

impl CephCluster {
    /// Prints the daemons and their logs, to analyse a failed test.
    fn tell(&self) {
        let mut stderr = std::io::stderr();
        if let Ok(status) = Self::command("status", &self.folder).output() {
            let _ = stderr.write_all(&status.stdout);
        }
        for log in std::fs::read_dir(self.folder.join("log")).into_iter().flatten().flatten() {
            let text = std::fs::read(log.path()).unwrap_or_default();
            let end = &text[text.len().saturating_sub(TOLD_BYTES)..];
            let _ = writeln!(stderr, "{}:\n{}", log.path().display(), String::from_utf8_lossy(end));
        }
    }
}

impl Drop for CephCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        drop(self.holder.stdin.take());
        // A panicking test must not panic again. If daemons are left, the next test notices.
        let _ = self.holder.wait();
    }
}
