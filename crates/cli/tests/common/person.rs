//! Somebody with an identity file, who runs the command from anywhere.

use std::path::PathBuf;
use std::process::Command;

use super::{NACRE, RunningCluster};

/// An entity of a cluster, with its identity file and nothing else.
pub struct Person {
    pub home: tempfile::TempDir,
    pub identity: PathBuf,
}

impl Person {
    pub fn add(cluster: &RunningCluster, name: &str, grants: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let identity = home.path().join("me.json");
        let mut arguments = vec!["entity", "add", name, "--out", identity.to_str().unwrap()];
        grants.iter().for_each(|grant| arguments.extend(["--grant", grant]));
        cluster.run(&arguments);
        for text in ["hello", "x"] {
            std::fs::write(home.path().join(text), text).unwrap();
        }
        Self { home, identity }
    }

    /// Runs the command as this person; whether it worked, and what it said.
    pub fn try_run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(NACRE)
            .args(arguments)
            .current_dir(self.home.path())
            .env_remove("NACRE_CLUSTER")
            .env("NACRE_IDENTITY", &self.identity)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let (worked, said) = self.try_run(arguments);
        assert!(worked, "nacre {arguments:?}: {said}");
        said
    }

    #[track_caller]
    pub fn is_denied(&self, arguments: &[&str]) -> String {
        let (worked, said) = self.try_run(arguments);
        assert!(!worked && said.contains("denied"), "nacre {arguments:?}: {said}");
        said
    }
}
