//! Encodes many requests of one method as one call. The call names `METHOD.batch`, which exists for
//! every method of a Brados class.
//!
//! A batch runs its requests one after another in one transaction. Each sees the changes of those
//! before it and has an outcome of its own. A refused request changes nothing, and the next one
//! runs. If a request fails after it began to write, the whole call fails.
//!
//! | input | |
//! |---|---|
//! | `u32` | once the answers have this many bytes, no further request runs |
//! | `u32` | how many requests |
//! | each: `u32`, bytes | the length of the request and its bytes |
//!
//! The output has the outcomes of the requests that ran, at least one. Once the output is half
//! full, no further request runs, whatever limit the caller gave. If the answer of a request does
//! not fit any more and the request changed nothing, the batch ends before it, and the client sends
//! it again. Adjacent equal outcomes are combined. So if everything succeeds, the 64 bytes that an
//! OSD returns for a change are enough:
//!
//! | output | |
//! |---|---|
//! | `u32` | how many adjacent requests had this outcome |
//! | `i32` | the status: negative if the request was refused |
//! | `u32`, bytes | the length and the bytes of the output, or of the reason for the refusal |
//!
//! All numbers are little-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{CallReply, Error, Result, Status};

/// The suffix that turns the name of a method into the name of its batch. No method of a Brados
/// class may end in it.
pub const BATCH_SUFFIX: &str = ".batch";
/// The most requests of one batch. Each takes some microseconds, so a batch stays far below the
/// time budget of a call.
pub const MAX_BATCH_REQUESTS: usize = 1024;

/// The bytes of each number before the requests: the limit, the count, and the length of each
/// request.
const LENGTH_BYTES: usize = 4;
/// The bytes before each answer: how many requests had it, its status and its length.
const ANSWER_HEAD_BYTES: usize = 12;

/// The input of a batch.
pub fn encode_batch(byte_limit: u32, requests: &[Vec<u8>]) -> Bytes {
    let bytes = requests.iter().map(Vec::len).sum();
    encode_batch_with(byte_limit, bytes, requests, |input, request| input.extend(request))
}

/// Encodes a batch whose requests are written in place; `bytes` is their estimated total length.
pub fn encode_batch_with<T>(
    byte_limit: u32,
    bytes: usize,
    requests: &[T],
    put: impl Fn(&mut Vec<u8>, &T),
) -> Bytes {
    let mut input = Vec::with_capacity((2 + requests.len()) * LENGTH_BYTES + bytes);
    input.put_u32_le(byte_limit);
    input.put_u32_le(requests.len() as u32);
    for request in requests {
        let start = input.len() + LENGTH_BYTES;
        input.put_u32_le(0);
        put(&mut input, request);
        let length = (input.len() - start) as u32;
        input[start - LENGTH_BYTES..start].copy_from_slice(&length.to_le_bytes());
    }
    input.into()
}

/// Decodes the outcomes of a batch of `asked` requests. The output has at least one outcome, but
/// may lack those of the last requests.
///
/// # Errors
/// `Corrupt` if the bytes are not the output of a batch.
pub fn decode_answers(mut output: Bytes, asked: usize) -> Result<Vec<CallReply>> {
    let mut answers = Vec::with_capacity(asked);
    while output.has_remaining() {
        let (count, answer) = decode_answer(&mut output).ok_or_else(unexpected)?;
        if count == 0 || count > asked - answers.len() {
            return Err(unexpected());
        }
        answers.extend(std::iter::repeat_n(answer, count));
    }
    if answers.is_empty() && asked > 0 { Err(unexpected()) } else { Ok(answers) }
}

fn decode_answer(output: &mut Bytes) -> Option<(usize, CallReply)> {
    let count = output.try_get_u32_le().ok()? as usize;
    let status = output.try_get_i32_le().ok()?;
    Some((count, CallReply { status, output: sized(output)? }))
}

fn unexpected() -> Error {
    Error::corrupt("the reply to a batch is malformed")
}

fn sized(bytes: &mut Bytes) -> Option<Bytes> {
    let length = bytes.try_get_u32_le().ok()? as usize;
    (length <= bytes.len()).then(|| bytes.split_to(length))
}

/// A batch that was asked for.
#[derive(Debug)]
pub struct Batch {
    byte_limit: usize,
    /// Bytes that the output may have.
    output_bytes: usize,
    count: usize,
    /// The requests, each after its length. [`Batch::decode`] has checked them.
    requests: Bytes,
}

impl Batch {
    /// Decodes a batch from the input of a call.
    ///
    /// # Errors
    /// `Invalid` if the input is not a batch, or has too many requests.
    pub fn decode(mut input: Bytes) -> Result<Self> {
        let refused = || {
            Error::invalid("the input is not a batch")
                .hint("encode the requests as `encode_batch` does")
        };
        let byte_limit = input.try_get_u32_le().map_err(|_| refused())? as usize;
        let count = input.try_get_u32_le().map_err(|_| refused())? as usize;
        if count > MAX_BATCH_REQUESTS {
            return Err(Error::invalid(format!("a batch cannot have {count} requests"))
                .hint(format!("send at most {MAX_BATCH_REQUESTS} requests")));
        }
        let batch = Self { byte_limit, output_bytes: MAX_REPLY_BYTES, count, requests: input };
        let found = batch.requests().fold((0, 0), |(count, bytes), request| {
            (count + 1, bytes + LENGTH_BYTES + request.len())
        });
        if found == (count, batch.requests.len()) { Ok(batch) } else { Err(refused()) }
    }

    /// Limits the output of the batch to at most `output_bytes`.
    pub fn within(self, output_bytes: usize) -> Self {
        Self { output_bytes: output_bytes.min(self.output_bytes), ..self }
    }

    /// The requests, as far as there are bytes of them.
    pub fn requests(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.requests[..];
        (0..self.count).map_while(move |_| {
            let length = rest.try_get_u32_le().ok()? as usize;
            let (request, others) = rest.split_at_checked(length)?;
            rest = others;
            Some(request)
        })
    }
}

/// A running batch: the requests that are left, and the outcomes of those before.
#[derive(Debug)]
pub struct Progress {
    left: usize,
    requests: Bytes,
    byte_limit: usize,
    bytes: usize,
    /// Without the last answer.
    output: BytesMut,
    output_bytes: usize,
    last: Option<(u32, CallReply)>,
}

impl Progress {
    /// Nothing is carried out yet.
    pub fn of(batch: Batch) -> Self {
        let Batch { byte_limit, output_bytes, count, requests } = batch;
        let output = BytesMut::new();
        Self { left: count, requests, byte_limit, bytes: 0, output, output_bytes, last: None }
    }

    /// The request to carry out now, if one is left and its answer is still wanted.
    pub fn next_request(&mut self) -> Option<Bytes> {
        self.left = self.left.checked_sub(1)?;
        sized(&mut self.requests)
    }

    /// Whether an answer of this many bytes fits after those before it. The first answer always
    /// fits.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.last.is_none() || self.size() + ANSWER_HEAD_BYTES + bytes <= self.output_bytes
    }

    /// No further request is carried out.
    pub fn end(&mut self) {
        self.left = 0;
    }

    /// Records the outcome of the request that ran last.
    pub fn answer(&mut self, status: Status, output: &[u8]) {
        self.bytes += output.len();
        match &mut self.last {
            Some((count, last)) if last.status == status && last.output == output => *count += 1,
            _ => {
                self.put_last();
                let output = Bytes::copy_from_slice(output);
                self.last = Some((1, CallReply { status, output }));
            }
        }
        // Keep half of the output free for the next answer. If a request changes something and its
        // answer then does not fit, the client cannot send it again.
        if self.bytes >= self.byte_limit || self.size() >= self.output_bytes / 2 {
            self.end();
        }
    }

    /// Bytes of the output, the last answer included.
    fn size(&self) -> usize {
        let last = self.last.as_ref();
        self.output.len() + last.map_or(0, |(_, last)| ANSWER_HEAD_BYTES + last.output.len())
    }

    fn put_last(&mut self) {
        if let Some((count, CallReply { status, output })) = self.last.take() {
            self.output.put_u32_le(count);
            self.output.put_i32_le(status);
            self.output.put_u32_le(output.len() as u32);
            self.output.put_slice(&output);
        }
    }

    /// The output of the batch.
    pub fn finish(&mut self) -> Bytes {
        self.put_last();
        self.output.split().freeze()
    }
}

/// The status of a request that was refused.
pub fn refusal(error: &Error) -> Status {
    error.status().min(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: Status, output: &'static str) -> CallReply {
        CallReply { status, output: Bytes::from_static(output.as_bytes()) }
    }

    #[test]
    fn equal_adjacent_outcomes_are_combined() {
        let batch = Batch::decode(encode_batch(1000, &[vec![1], vec![], vec![2, 3]])).unwrap();
        assert_eq!(batch.requests().collect::<Vec<_>>(), [&[1][..], &[], &[2, 3]]);
        let all = [answer(0, "a"), answer(0, "a"), answer(-22, "a"), answer(0, "a")];
        let mut progress = Progress::of(batch);
        all.iter().for_each(|answer| progress.answer(answer.status, &answer.output));
        let output = progress.finish();
        assert_eq!(output.len(), 3 * 13);
        assert_eq!(decode_answers(output.clone(), 4).unwrap(), all);
        assert!(decode_answers(output, 3).is_err(), "more than was asked");
    }

    #[test]
    fn past_the_limit_no_further_request_is_carried_out() {
        for (limit, carried_out) in [(0, 1), (2, 1), (3, 2), (4, 2), (100, 3)] {
            let batch = Batch::decode(encode_batch(limit, &[vec![1], vec![2], vec![3]])).unwrap();
            let mut progress = Progress::of(batch);
            let mut count = 0;
            while progress.next_request().is_some() {
                progress.answer(0, b"ab");
                count += 1;
            }
            assert_eq!(count, carried_out, "of {limit} bytes");
        }
    }

    #[test]
    fn the_output_of_a_batch_stays_within_the_bound_of_a_run() {
        // Each answer has ten bytes, and 22 with the bytes before it.
        for (bytes, carried_out) in [(0, 1), (44, 1), (46, 2), (88, 2), (90, 3), (10_000, 4)] {
            let requests = [vec![1], vec![2], vec![3], vec![4]];
            let batch = Batch::decode(encode_batch(u32::MAX, &requests)).unwrap().within(bytes);
            let mut progress = Progress::of(batch);
            assert!(progress.has_room_for(100_000), "as there is no other");
            let mut count = 0;
            while progress.next_request().is_some() {
                progress.answer(0, &[count; 10]);
                count += 1;
                let room = bytes.saturating_sub(22 * usize::from(count) + 12);
                assert!(progress.has_room_for(room) || room == 0, "of {bytes} bytes");
                assert!(!progress.has_room_for(room + 1), "of {bytes} bytes");
            }
            assert_eq!(count, carried_out, "of {bytes} bytes");
        }
    }

    #[test]
    fn equal_adjacent_outcomes_take_space_once() {
        let batch = Batch::decode(encode_batch(u32::MAX, &vec![vec![1]; 100])).unwrap().within(60);
        let mut progress = Progress::of(batch);
        while progress.next_request().is_some() {
            progress.answer(0, b"the same");
        }
        assert_eq!(decode_answers(progress.finish(), 100).unwrap().len(), 100);
    }

    #[test]
    fn a_truncated_or_too_long_batch_is_refused() {
        let input = encode_batch(7, &[vec![1, 2], vec![3]]);
        for length in 0..input.len() {
            assert!(Batch::decode(input.slice(..length)).is_err(), "{length}");
        }
        assert!(Batch::decode([&input[..], &[0]].concat().into()).is_err());
        assert!(Batch::decode(encode_batch(7, &vec![vec![]; MAX_BATCH_REQUESTS + 1])).is_err());
        assert!(decode_answers(Bytes::new(), 1).is_err());
        assert!(decode_answers(Bytes::from_static(&[0; 12]), 1).is_err(), "of no request");
    }
}
