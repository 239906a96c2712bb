//! Tests a node with a client in another language: Python with stock grpcio and modules generated
//! from the `.proto` files.
//!
//! Needs the Debian packages `python3-grpcio`, `protobuf-compiler` and `protobuf-compiler-grpc`.
//! (`python3-grpc-tools` does not work: Debian's version is older than Debian's protobuf.)

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use nacre_clock::SystemClock;
use nacre_conformance::{MemoryStore, TestClasses};

use crate::harness::{Node, SocketFolder};

/// Where Debian puts the Python its packages are for, whatever else there is on the path.
const PYTHON: &str = "/usr/bin/python3";

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; see this test's first lines for what to install")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_reads_writes_and_calls_a_method() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = SocketFolder::new();
    let generated = tempfile::tempdir().unwrap();
    let out = |kind: &str| format!("--{kind}={}", generated.path().display());
    let proto = crate_folder.join("../protocol/proto");
    run(Command::new("protoc")
        .arg(format!("--proto_path={}", proto.display()))
        .args([out("python_out"), out("grpc_out")])
        .arg("--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin")
        .args(["nacre", "object", "error"].map(|name| format!("nacre/v1/{name}.proto"))));

    let store = MemoryStore::new(Arc::new(TestClasses), Arc::new(SystemClock::default()));
    for endpoint in [folder.endpoint(), "127.0.0.1:0".parse().unwrap()] {
        let node = Node::of_store(&endpoint, &store).await;
        let script = crate_folder.join("tests/python/client.py");
        let (endpoint, folder) = (node.endpoint.to_string(), generated.path().to_owned());
        let client = move || run(Command::new(PYTHON).arg(script).arg(endpoint).arg(folder));
        let output = tokio::task::spawn_blocking(client).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok");
        // The object is written anew, so that the second client finds what the first did.
        node.stop().await.unwrap().unwrap();
        let remove = nacre_conformance::ops::truncate(0);
        nacre_object::Store::submit(&store, crate::harness::request("data/s", remove))
            .await
            .unwrap();
    }
}
