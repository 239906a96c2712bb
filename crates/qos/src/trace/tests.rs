//! Tests of the trace formats: what is read, and what is refused.

use std::time::Duration;

use nacre_object::ErrorKind;

use super::{Trace, TraceFormat, TraceLocation, TraceRecord, read};
use crate::IoKind::{self, Read, Write};
use crate::limits::{MAX_TRACE_LINE_BYTES, MAX_TRACE_REQUEST_BYTES};

fn parsed(text: &str) -> Trace {
    read(text.as_bytes(), None).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str, format: TraceFormat) -> String {
    read(text.as_bytes(), Some(format)).unwrap_err().to_string()
}

fn record(nanos: u64, kind: IoKind, bytes: u64, location: TraceLocation) -> TraceRecord {
    TraceRecord { at: Duration::from_nanos(nanos), kind, bytes, location }
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.names.iter().map(|name| &**name).collect()
}

const fn block(volume: usize, offset: u64) -> TraceLocation {
    TraceLocation::Block { volume, offset }
}

#[test]
fn a_trace_of_priority_meister_has_decimal_times_and_hexadecimal_sizes() {
    let trace = parsed("100000000000,0x1,DiskWrite\n101000000000,10,DiskRead\n");
    assert_eq!(
        trace.records,
        [
            record(0, Write, 1, TraceLocation::Unknown),
            record(1_000_000_000, Read, 16, TraceLocation::Unknown)
        ]
    );
    assert_eq!(trace.clock_step, Duration::from_nanos(1));
    assert_eq!(trace.object(&trace.records[0], 4096), None);
}

#[test]
fn a_trace_of_msr_cambridge_counts_steps_of_100_ns() {
    let trace = parsed(
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
         128166372003061629,usr,0,Read,7014609920,24576,41286\n\
         128166372016382155,usr,1,Write,1317441536,8192,1963\n",
    );
    assert_eq!(
        trace.records,
        [
            record(0, Read, 24_576, block(0, 7_014_609_920)),
            record(1_332_052_600, Write, 8192, block(1, 1_317_441_536))
        ]
    );
    assert_eq!(names(&trace), ["usr,0", "usr,1"]);
}

#[test]
fn a_trace_of_tencent_counts_sectors_and_whole_seconds() {
    let text = "1538323200,12910952,128,0,1063\n1538323201,6,8,1,1064\n";
    let trace = read(text.as_bytes(), Some(TraceFormat::Tencent)).unwrap();
    assert_eq!(
        trace.records,
        [
            record(0, Read, 65_536, block(0, 6_610_407_424)),
            record(1_000_000_000, Write, 4096, block(1, 3072))
        ]
    );
    assert_eq!(trace.clock_step, Duration::from_secs(1));
    let finer = read(&b"5.25,0,8,0,1\n"[..], Some(TraceFormat::Tencent)).unwrap();
    assert_eq!(finer.clock_step, Duration::from_nanos(1));
}

#[test]
fn a_trace_of_alibaba_has_the_time_last() {
    let trace = parsed(
        "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
    );
    assert_eq!(
        trace.records,
        [
            record(0, Write, 16_384, block(0, 8_792_731_648)),
            record(46_000, Read, 360_448, block(1, 59_110_326_272))
        ]
    );
    assert_eq!(names(&trace), ["419", "725"]);
}

#[test]
fn an_iolog_of_version_3_has_a_time_on_each_line() {
    let trace = parsed(
        "fio version 3 iolog\n2 /dev/a add\n872 /dev/a open\n878 /dev/a write 0 16384\n\
         888 /dev/a trim 0 4096\n891 /dev/a read 4096 512\n10001677 /dev/a close\n",
    );
    assert_eq!(
        trace.records,
        [record(0, Write, 16_384, block(0, 0)), record(13_000, Read, 512, block(0, 4096))]
    );
}

#[test]
fn an_iolog_of_version_2_adds_up_its_waits() {
    let trace = parsed(
        "fio version 2 iolog\nf add\nf open\nf write 0 512\nf wait 250\nf read 512 512\n\
         f wait 1000\nf sync\nf read 0 512\nf close\n",
    );
    assert_eq!(
        trace.records,
        [
            record(0, Write, 512, block(0, 0)),
            record(250_000, Read, 512, block(0, 512)),
            record(1_250_000, Read, 512, block(0, 0))
        ]
    );
}

#[test]
fn an_iolog_without_times_is_refused() {
    let text = "fio version 2 iolog\nf write 0 512\nf write 512 512\n";
    assert!(refusal(text, TraceFormat::Fio).contains("no waits"));
    let waits = "fio version 3 iolog\n1 f wait 5\n";
    assert!(refusal(waits, TraceFormat::Fio).contains("line 2: invalid: there is no action"));
}

#[test]
fn blkparse_text_counts_requests_when_they_are_queued() {
    let trace = parsed(
        "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n  \
         8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n  \
         8,0    3        3     0.500000001   697  Q  RA 8 + 16 [cat]\n  \
         8,0    3        4     0.600000000   697  Q   D 8 + 16 [fstrim]\n  \
         8,0    3        5     0.600000000   697  Q  FN [sync]\n\
         CPU3 (8,0):\n Reads Queued:           1,        8KiB\n",
    );
    assert_eq!(
        trace.records,
        [
            record(0, Write, 4096, block(0, 223_490 * 512)),
            record(500_000_001, Read, 8192, block(0, 4096))
        ]
    );
}

#[test]
fn a_nacre_trace_names_objects() {
    let trace = parsed(include_str!("../../samples/nacre.trace"));
    assert_eq!(trace.records.len(), 3);
    assert_eq!(
        trace.records[1],
        record(125_000_000, Read, 4096, TraceLocation::Object { name: 0 })
    );
    assert_eq!(names(&trace), ["images/one", "a name with spaces"]);
    assert_eq!(trace.object(&trace.records[2], 1).unwrap(), "a name with spaces");
}

#[test]
fn a_volume_consists_of_objects_of_one_size() {
    let trace = parsed("v,R,8191,512,1\nv,R,8192,512,2\n");
    let objects: Vec<_> =
        trace.records.iter().map(|record| trace.object(record, 4096).unwrap()).collect();
    assert_eq!(objects, ["v.1", "v.2"]);
}

#[test]
fn records_out_of_order_are_sorted() {
    let trace = parsed("v,R,0,1,7\nv,R,0,2,5\nv,R,0,3,6\n");
    let bytes: Vec<_> = trace.records.iter().map(|record| record.bytes).collect();
    assert_eq!(bytes, [2, 3, 1]);
    assert!(trace.records[0].at.is_zero());
}

#[test]
fn a_one_second_clock_is_refused_with_the_reason() {
    let error = read(&[0_u8; 24][..], Some(TraceFormat::OracleGeneral)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("whole seconds"), "{error}");
}

#[test]
fn an_error_names_its_line() {
    let text = "v,R,0,1,7\nv,R,0,one,8\n";
    let message = refusal(text, TraceFormat::Alibaba);
    assert_eq!(message, "line 2: invalid: the size \"one\" is no whole number");
    let message = refusal("v,R,0,1\n", TraceFormat::Alibaba);
    assert_eq!(message, "line 1: invalid: the line has 4 fields instead of 5");
    let message = refusal("nacre trace 1\n0.1234567890 read 1 a\n", TraceFormat::Nacre);
    assert!(message.starts_with("line 2: invalid: the time"), "{message}");
}

#[test]
fn malformed_lines_are_refused() {
    let cases = [
        ("1,-5,DiskRead", TraceFormat::PriorityMeister, "hexadecimal"),
        ("1,+5,DiskRead", TraceFormat::PriorityMeister, "hexadecimal"),
        ("1,,DiskRead", TraceFormat::PriorityMeister, "hexadecimal"),
        ("1,5,Disk", TraceFormat::PriorityMeister, "neither DiskRead nor DiskWrite"),
        ("-1,5,DiskRead", TraceFormat::PriorityMeister, "the time"),
        ("1.,0,8,0,1", TraceFormat::Tencent, "the time"),
        ("1,18446744073709551615,8,0,1", TraceFormat::Tencent, "sectors"),
        ("1,0,8,2,1", TraceFormat::Tencent, "neither 0 nor 1"),
        ("1 f write 0 512", TraceFormat::Fio, "the first line"),
        ("0.5 read 1 a", TraceFormat::Nacre, "the first line"),
        ("x 1 1 0.1 1 Q R 1 + 1", TraceFormat::Blkparse, "is no device"),
        ("8,0 1 1 0.1 1 Q R 1 - 1", TraceFormat::Blkparse, "no +"),
        ("8,0 1 1 0.1 1 Q R 1 +", TraceFormat::Blkparse, "no size"),
    ];
    for (text, format, why) in cases {
        let message = refusal(text, format);
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn too_long_lines_and_requests_are_refused() {
    let line = "x".repeat(MAX_TRACE_LINE_BYTES + 1);
    assert!(
        refusal(&line, TraceFormat::Alibaba).contains("line 1: invalid: the line has more than")
    );
    let size = format!("v,R,0,{},1\n", MAX_TRACE_REQUEST_BYTES + 1);
    assert!(refusal(&size, TraceFormat::Alibaba).contains("the longest may have"));
    let whole = format!("v,R,0,{MAX_TRACE_REQUEST_BYTES},1\n");
    assert_eq!(parsed(&whole).records.len(), 1);
}

#[test]
fn a_trace_without_requests_is_refused() {
    assert!(refusal("", TraceFormat::Alibaba).contains("no requests"));
    let error = read(&b""[..], None).unwrap_err();
    assert!(error.to_string().contains("the trace is empty"));
}

#[test]
fn an_unknown_first_line_is_refused_with_the_known_formats() {
    let error = read(&b"hello world\n"[..], None).unwrap_err().to_string();
    assert!(error.contains("priority-meister"), "{error}");
}

#[test]
fn every_format_is_found_by_its_name() {
    for format in TraceFormat::ALL {
        assert_eq!(format.as_str().parse::<TraceFormat>().unwrap(), format);
    }
    assert!("vscsi".parse::<TraceFormat>().unwrap_err().to_string().contains("msr"));
}
