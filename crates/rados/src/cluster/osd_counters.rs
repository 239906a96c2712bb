//! Counts of clients' operations, as an OSD reports them.

use nacre_object::{Error, Result};
use serde::Deserialize;

use crate::cluster::failure::operation_failed;
use crate::ffi::Cluster;

/// How many operations of clients an OSD has carried out as the primary since it started. Copies of
/// writes that other OSDs send to it do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OsdCounters {
    /// Operations that only read.
    pub reads: u64,
    /// Operations that write, including those that also read.
    pub writes: u64,
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Bytes that came with writes.
    pub written_bytes: u64,
}

/// The part of an OSD's answer to `perf dump` that is needed.
#[derive(Debug, Deserialize)]
struct PerfDump {
    osd: ClientOps,
}

#[derive(Debug, Deserialize)]
struct ClientOps {
    op_r: u64,
    op_r_out_bytes: u64,
    op_w: u64,
    op_w_in_bytes: u64,
    op_rw: u64,
    op_rw_in_bytes: u64,
}

impl OsdCounters {
    /// Asks an OSD, and waits.
    pub fn ask(cluster: &Cluster, osd: i32) -> Result<Self> {
        let command = r#"{"prefix":"perf dump","logger":"osd","format":"json"}"#;
        let answer = cluster.ask_osd(osd, command);
        let answer = answer.map_err(operation_failed)?;
        Self::of_dump(&answer)
    }

    fn of_dump(dump: &[u8]) -> Result<Self> {
        let dump: PerfDump = serde_json::from_slice(dump).map_err(|error| {
            Error::corrupt(format!("the answer of the OSD to `perf dump` is malformed: {error}"))
                .hint("check the cluster with `nacre ceph check`")
        })?;
        let ops = dump.osd;
        Ok(Self {
            reads: ops.op_r,
            writes: ops.op_w + ops.op_rw,
            read_bytes: ops.op_r_out_bytes,
            written_bytes: ops.op_w_in_bytes + ops.op_rw_in_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_read_and_write_count_as_writes() {
        let dump = br#"{"osd":{"op_wip":0,"op":7,"op_r":1,"op_r_out_bytes":10,"op_w":2,"op_w_in_bytes":20,
            "op_rw":4,"op_rw_in_bytes":40,"op_rw_out_bytes":5,"op_latency":{"avgcount":7,"sum":0.1}}}"#;
        let counters = OsdCounters::of_dump(dump).unwrap();
        let expected = OsdCounters { reads: 1, writes: 6, read_bytes: 10, written_bytes: 60 };
        assert_eq!(counters, expected);
    }

    #[test]
    fn an_answer_without_counters_is_refused() {
        let refused = OsdCounters::of_dump(b"{}").unwrap_err();
        assert!(refused.message().contains("perf dump"), "{refused}");
    }
}
