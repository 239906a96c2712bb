//! Fuzzes the files that a client reads before it can send a request.

use std::fs;

use nacre_fuzz::fuzz_slow;
use nacre_object::ErrorKind;

use crate::keys::Keys;
use crate::{ClusterFile, Layout};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Inputs of a short run: each is written to a file.
const SHORT_RUN: u64 = 3_000;

/// Whether a file that makes no sense may be refused with an error of this kind.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Unsupported)
}

#[test]
fn fuzz_cluster_and_identity_files() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = ["127.0.0.1:7000", "[::1]:7001"].map(str::to_owned).to_vec();
    let layout = Layout { engine: None, storage: 1, metadata: 1, addresses, sockets: true };
    let cluster = ClusterFile::lay_out(folder.path(), &layout).unwrap();
    let admin = Keys::create(&cluster).unwrap();
    let path = folder.path().join("cluster.json");
    let of = |what: u8, text: Vec<u8>| [&[what], &text[..]].concat();
    let samples = [of(0, fs::read(&path).unwrap()), of(1, fs::read(&admin).unwrap())];
    fuzz_slow(CRATE, "cluster_files", SHORT_RUN, &samples, |input| {
        let Some((what, text)) = input.split_first() else { return false };
        fs::write(if what % 2 == 0 { &path } else { &admin }, text).unwrap();
        let read = match what % 2 {
            0 => ClusterFile::read(folder.path()),
            _ => ClusterFile::of_identity(&admin),
        };
        match read {
            Ok(cluster) => {
                // What was read can be used.
                cluster.nodes().iter().for_each(|node| drop(cluster.endpoint(node).unwrap()));
                cluster.remote_nodes().ok();
                true
            }
            Err(error) => {
                assert!(is_refusal(error.kind()), "{error}");
                false
            }
        }
    });
}
