//! Checks that a store refuses each request for a capability that it does not declare.

use nacre_object::ErrorKind::Unsupported;
use nacre_object::{Capability, ListRequest};

use super::Bench;
use crate::ops::*;

checks![what_a_store_cannot_do_is_unsupported];

async fn what_a_store_cannot_do_is_unsupported(bench: Bench) {
    let object = bench.object_with("a", [write(0, "x")]).await;
    let needing = [
        (Capability::Classes, call("echo", "x")),
        (Capability::Snapshots, snapshot_create("s")),
        (Capability::Snapshots, nacre_object::Op::SnapshotList),
        (Capability::Snapshots, snapshot_remove("s")),
        (Capability::Snapshots, rollback("s")),
        (Capability::Clone, clone_from(bench.object("b").name(), "s")),
    ];
    for (capability, op) in needing {
        if !bench.subject.has(capability) {
            let name = op.name();
            let error = object.refuses([append("lost"), op]).await;
            assert_eq!((error.kind(), error.operation()), (Unsupported, Some(name)), "{error}");
        }
    }
    if !bench.subject.has(Capability::Snapshots) {
        let error = object.submit_at("s", [read_all()]).await.expect_err("there are no snapshots");
        assert_eq!(error.kind(), Unsupported, "{error}");
    }
    if !bench.subject.has(Capability::List) {
        let pool = bench.subject.pool().clone();
        let request = ListRequest { pool, after: None, prefix: String::new(), limit: 1 };
        let error = bench.subject.store().list(request).await.expect_err("it cannot list");
        assert_eq!(error.kind(), Unsupported, "{error}");
    }
}
