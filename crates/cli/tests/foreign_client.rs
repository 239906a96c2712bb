//! A client in another language, with stock grpcio and the `.proto` files alone.

mod common;

use std::path::Path;
use std::process::Command;

use common::RunningCluster;

/// Debian's Python, which has Debian's grpcio. `make install-test-deps` installs them and `protoc`.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn python_reads_writes_and_calls_a_method() {
    let cluster = RunningCluster::start();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let counter = here.join("../../programs/class/counter.lua");
    cluster.run(&["program", "put", "class/counter", counter.to_str().unwrap(), "--activate"]);

    let generated = tempfile::tempdir().unwrap();
    let protocol = here.join("../protocol/proto");
    let run = |command: &mut Command| {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}; `make install-test-deps` installs what it needs");
        String::from_utf8(output.stdout).unwrap()
    };
    let out = generated.path().to_str().unwrap();
    run(Command::new("protoc")
        .args(["--python_out", out, "--grpc_python_out", out])
        .arg("--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin")
        .arg("-I")
        .arg(&protocol)
        .args(["error.proto", "object.proto", "nacre.proto"].map(|f| format!("nacre/v1/{f}"))));
    let socket = cluster.folder().join("run/storage.0.sock");
    let client = here.join("tests/foreign_client.py");
    assert_eq!(run(Command::new(PYTHON).arg(client).arg(generated.path()).arg(socket)), "ok\n");
}

/// The code block of a language in the page about clients.
fn block(language: &str) -> &'static str {
    let page = include_str!("../../../docs/clients.md");
    let (_, after) = page.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0
}

#[test]
fn the_client_of_the_documentation_works_over_sockets_and_over_tls() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| {
        let output = command.current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}; `make install-test-deps` installs what it needs");
        String::from_utf8(output.stdout).unwrap()
    };
    std::os::unix::fs::symlink(here.join("crates"), folder.path().join("crates")).unwrap();
    run(Command::new("sh").args(["-ec", block("sh")]));
    std::fs::write(folder.path().join("client.py"), block("python")).unwrap();
    let counter = here.join("programs/class/counter.lua");
    let put = ["program", "put", "class/counter", counter.to_str().unwrap(), "--activate"];
    for (cluster, place) in
        [(RunningCluster::start(), ""), (RunningCluster::start_tls(), "tls/admin.json")]
    {
        cluster.run(&put);
        let place = cluster.folder().join(place);
        for count in ["5\n", "10\n"] {
            let counted = run(Command::new(PYTHON).arg("client.py").arg(&place));
            assert_eq!(counted, count, "{}", place.display());
        }
    }
}
