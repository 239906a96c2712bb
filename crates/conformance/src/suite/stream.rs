//! The byte stream: writes anywhere, gaps, cuts, appends.

use nacre_object::ErrorKind::{Exists, NotFound};
use nacre_object::{Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![
    bytes_are_read_back_as_written,
    gaps_cuts_and_zeroed_spans_read_as_zeros,
    appends_go_to_the_end,
    an_object_is_made_by_the_first_write_and_only_then,
    streams_of_any_size_are_whole,
];

async fn bytes_are_read_back_as_written(bench: Bench) {
    let hello = || [write(0, "hello world")];
    let cases = [
        case("a read is cut at the end")
            .given(hello())
            .when([read(6, 100)])
            .answers([data("world")]),
        case("a read within").given(hello()).when([read(2, 3)]).answers([data("llo")]),
        case("a read of nothing").given(hello()).when([read(3, 0)]).answers([data("")]),
        case("a read at the end").given(hello()).when([read(11, 5)]).answers([data("")]),
        case("a read far past the end").given(hello()).when([read(1 << 40, 5)]).answers([data("")]),
        case("a read to the last offset there is")
            .given(hello())
            .when([read(10, u64::MAX)])
            .answers([data("d")]),
        case("a write over the middle")
            .given(hello())
            .when([write(3, "--"), read_all()])
            .answers([OpResult::Done, data("hel-- world")]),
        case("a write over the end")
            .given(hello())
            .when([write(9, "LD!!"), read_all()])
            .answers([OpResult::Done, data("hello worLD!!")]),
        case("a whole write leaves nothing of a longer one")
            .given(hello())
            .when([write_full("bye"), read_all()])
            .answers([OpResult::Done, data("bye")]),
        case("a whole write of nothing")
            .given(hello())
            .when([write_full(""), read_all()])
            .answers([OpResult::Done, data("")]),
        case("bytes of every value")
            .given([write_full((0..=255).collect::<Vec<u8>>())])
            .when([read_all()])
            .answers([data((0..=255).collect::<Vec<u8>>())]),
    ];
    try_all(&bench, cases).await;
}

async fn gaps_cuts_and_zeroed_spans_read_as_zeros(bench: Bench) {
    let eight = || [write(0, "abcdefgh")];
    let done = OpResult::Done;
    let cases = [
        case("a gap before the first write")
            .given([write(4, "x")])
            .when([read_all()])
            .answers([data("\0\0\0\0x")]),
        case("a gap after what is there")
            .given(eight())
            .when([write(10, "x"), read(6, 9)])
            .answers([done.clone(), data("gh\0\0x")]),
        case("a write of nothing past the end extends")
            .given(eight())
            .when([write(10, ""), read(6, 9)])
            .answers([done.clone(), data("gh\0\0")]),
        case("a write of nothing within changes nothing")
            .given(eight())
            .when([write(3, ""), read_all()])
            .answers([done.clone(), data("abcdefgh")]),
        case("a cut")
            .given(eight())
            .when([truncate(3), read_all()])
            .answers([done.clone(), data("abc")]),
        case("what was cut does not come back")
            .given(eight())
            .when([truncate(3), truncate(6), read_all()])
            .answers([done.clone(), done.clone(), data("abc\0\0\0")]),
        case("what was cut does not come back by a write after it")
            .given(eight())
            .when([truncate(2), write(5, "x"), read_all()])
            .answers([done.clone(), done.clone(), data("ab\0\0\0x")]),
        case("a cut to nothing")
            .given(eight())
            .when([truncate(0), read_all()])
            .answers([done.clone(), data("")]),
        case("zeros within")
            .given(eight())
            .when([zero(2, 3), read_all()])
            .answers([done.clone(), data("ab\0\0\0fgh")]),
        case("zeros do not extend")
            .given(eight())
            .when([zero(6, 100), read_all()])
            .answers([done.clone(), data("abcdef\0\0")]),
        case("zeros past the end do nothing")
            .given(eight())
            .when([zero(100, u64::MAX), read_all()])
            .answers([done.clone(), data("abcdefgh")]),
        case("no zeros")
            .given(eight())
            .when([zero(2, 0), read_all()])
            .answers([done.clone(), data("abcdefgh")]),
    ];
    try_all(&bench, cases).await;
}

async fn appends_go_to_the_end(bench: Bench) {
    let cases = [
        case("the first").when([append("abc")]).answers([OpResult::Offset(0)]),
        case("two in a list")
            .given([append("abc")])
            .when([append("de"), append("f"), read_all()])
            .answers([OpResult::Offset(3), OpResult::Offset(5), data("abcdef")]),
        case("of nothing").given([append("abc")]).when([append("")]).answers([OpResult::Offset(3)]),
        case("after a write past the end")
            .given([write(5, "x")])
            .when([append("y"), read_all()])
            .answers([OpResult::Offset(6), data("\0\0\0\0\0xy")]),
        case("after a cut")
            .given([append("abcdef")])
            .when([truncate(2), append("!"), read_all()])
            .answers([OpResult::Done, OpResult::Offset(2), data("ab!")]),
        case("after an extension")
            .given([truncate(3)])
            .when([append("!"), read_all()])
            .answers([OpResult::Offset(3), data("\0\0\0!")]),
    ];
    try_all(&bench, cases).await;
}

async fn an_object_is_made_by_the_first_write_and_only_then(bench: Bench) {
    let made_by = |name, op: Op, answer| {
        case(name).when([op, Op::AssertExists]).answers([answer, OpResult::Done])
    };
    let done = || OpResult::Done;
    let cases = [
        made_by("create", create(), done()),
        made_by("create if need be", ensure(), done()),
        made_by("write", write(0, "x"), done()),
        made_by("write of nothing", write(0, ""), done()),
        made_by("write-full", write_full("x"), done()),
        made_by("append of nothing", append(""), OpResult::Offset(0)),
        made_by("truncate", truncate(5), done()),
        case("create again").given([create()]).when([create()]).fails(Exists, "create"),
        case("create again if need be").given([create()]).when([ensure()]).answers([done()]),
        case("creation keeps what is there")
            .given([write(0, "x")])
            .when([ensure(), read_all()])
            .answers([done(), data("x")]),
        case("no read").when([read_all()]).fails(NotFound, "read"),
        case("no stat").when([Op::Stat]).fails(NotFound, "stat"),
        case("no zero").when([zero(0, 1)]).fails(NotFound, "zero"),
        case("no removal").when([Op::Remove]).fails(NotFound, "remove"),
        case("removal takes everything")
            .given([
                write(0, "x"),
                map_set([("k", "v")]),
                set_attribute("a", "v"),
                map_set_header("h"),
            ])
            .when([
                Op::Remove,
                ensure(),
                read_all(),
                map_range("", "", 9),
                Op::GetAttributes,
                Op::MapGetHeader,
            ])
            .answers([
                done(),
                done(),
                data(""),
                range::<&str, &str>([]),
                OpResult::Attributes(vec![]),
                data(""),
            ]),
        case("removal twice")
            .given([create()])
            .when([Op::Remove, Op::Remove])
            .fails(NotFound, "remove"),
    ];
    try_all(&bench, cases).await;
}

/// Writes streams of lengths around those at which engines divide streams. Then overwrites them in
/// the middle, cuts them, and reads them in pieces of other lengths.
async fn streams_of_any_size_are_whole(bench: Bench) {
    for size in [1_usize, 127, 4095, 4096, 4097, 65_535, 65_537, 1 << 20, (1 << 20) + 1, 5 << 20] {
        let object = bench.object(size);
        let mut expected: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
        object.does([write_full(expected.clone())]).await;

        let middle = size / 3;
        let patch = vec![0xEE; size / 5];
        expected[middle..middle + patch.len()].copy_from_slice(&patch);
        object.does([write(middle as u64, patch)]).await;
        expected.extend_from_slice(b"tail");
        assert_eq!(object.answers(append("tail")).await, OpResult::Offset(size as u64));

        for (offset, length) in [(0, size + 4), (size / 2, 1000), (size.saturating_sub(3), 100)] {
            let OpResult::Data(found) = object.answers(read(offset as u64, length as u64)).await
            else {
                panic!("a read answers data")
            };
            let end = (offset + length).min(expected.len());
            assert!(found == expected[offset..end], "{size} bytes: read({offset}, {length})");
        }

        let cut = size / 2;
        object.does([truncate(cut as u64)]).await;
        let found = object.content().await.expect("it exists").stream;
        assert!(found == expected[..cut], "{size} bytes cut to {cut}");
    }
}
