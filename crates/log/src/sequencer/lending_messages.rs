//! The requests and answers about a sequencer's capability. The table in
//! [`messages`](super::messages) describes their encoding.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::Result;

use super::messages::{put_grant, take_grant, unexpected};
use crate::codec::{Decoded, Decoder, Undecodable};
use crate::core::{Grant, News, Returned};

/// The request `acquire` of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acquire {
    pub client: u64,
    /// Greater than that of every earlier attempt.
    pub number: u64,
    pub count: u32,
    /// The grant that it gives back, if it has one.
    pub returned: Option<Returned>,
}

/// The request `hold` of a holder: its poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    pub told: Returned,
    /// The sequencer numbers its requests for the tail. This is the last number that the holder had
    /// received when it read its tail, so this report answers that request and all earlier ones.
    pub answered: u64,
    /// Whether the holder reports each change of its tail, because a client follows the log.
    pub is_followed: bool,
    pub wait: Duration,
}

/// A number that a client drew; 0 is none.
pub(super) fn client_number<Input: Buf>(decoder: &mut Decoder<Input>) -> Decoded<u64> {
    decoder.u64().ok().filter(|client| *client != 0).ok_or(Undecodable)
}

pub(super) fn put_returned(input: &mut BytesMut, returned: Returned) {
    let Returned { client, number, tail, operations } = returned;
    [client, number, tail, operations].into_iter().for_each(|field| input.put_u64_le(field));
}

pub(super) fn take_returned(decoder: &mut Decoder<&[u8]>) -> Decoded<Returned> {
    let (client, number) = (client_number(decoder)?, decoder.u64()?);
    Ok(Returned { client, number, tail: decoder.u64()?, operations: decoder.u64()? })
}

fn flag<Input: Buf>(decoder: &mut Decoder<Input>) -> Decoded<bool> {
    match decoder.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Undecodable),
    }
}

impl Acquire {
    pub(super) fn encode(&self, input: &mut BytesMut) {
        input.put_u64_le(self.client);
        input.put_u64_le(self.number);
        input.put_u32_le(self.count);
        let returned = self.returned.unwrap_or(Returned {
            client: self.client,
            number: 0,
            tail: 0,
            operations: 0,
        });
        let Returned { number, tail, operations, .. } = returned;
        [number, tail, operations].into_iter().for_each(|field| input.put_u64_le(field));
    }

    pub(super) fn decode(decoder: &mut Decoder<&[u8]>) -> Decoded<Self> {
        let client = client_number(decoder)?;
        let (attempt, count) = (decoder.u64()?, decoder.u32()?);
        let (number, tail, operations) = (decoder.u64()?, decoder.u64()?, decoder.u64()?);
        let returned = Returned { client, number, tail, operations };
        let returned = match returned {
            Returned { number: 0, tail: 0, operations: 0, .. } => None,
            Returned { number: 0, .. } => return Err(Undecodable),
            returned => Some(returned),
        };
        Ok(Self { client, number: attempt, count, returned })
    }
}

impl Hold {
    pub(super) fn encode(&self, input: &mut BytesMut) {
        put_returned(input, self.told);
        input.put_u64_le(self.answered);
        input.put_u8(self.is_followed.into());
        input.put_u32_le(u32::try_from(self.wait.as_millis()).unwrap_or(u32::MAX));
    }

    pub(super) fn decode(decoder: &mut Decoder<&[u8]>) -> Decoded<Self> {
        let told = take_returned(decoder)?;
        let (answered, is_followed) = (decoder.u64()?, flag(decoder)?);
        let wait = Duration::from_millis(decoder.u32()?.into());
        Ok(Self { told, answered, is_followed, wait })
    }
}

/// The answer to `acquire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// Positions. For this time, the client shall not ask for the capability again.
    Positions(Grant, Duration),
    /// Positions, and the capability under the number of the attempt.
    Lent { grant: Grant, lease: Duration, end: u64, operations: Option<u64> },
}

pub(crate) fn encode_acquired(acquired: Acquired) -> Bytes {
    let mut output = BytesMut::with_capacity(48);
    match acquired {
        Acquired::Positions(grant, again) => {
            output.put_u8(0);
            put_grant(&mut output, grant);
            output.put_u32_le(u32::try_from(again.as_millis()).unwrap_or(u32::MAX));
        }
        Acquired::Lent { grant, lease, end, operations } => {
            output.put_u8(1);
            put_grant(&mut output, grant);
            put_lease(&mut output, lease);
            output.put_u64_le(end);
            output.put_u64_le(operations.unwrap_or_default());
        }
    }
    output.freeze()
}

/// # Errors
/// `Corrupt` for an answer of another form.
pub(crate) fn decode_acquired(output: Bytes) -> Result<Acquired> {
    let parse = || {
        let mut decoder = Decoder::new(output);
        let kind = decoder.u8()?;
        let grant = take_grant(&mut decoder)?;
        let acquired = match kind {
            0 => Acquired::Positions(grant, Duration::from_millis(decoder.u32()?.into())),
            1 => Acquired::Lent {
                grant,
                lease: Duration::from_micros(decoder.u32()?.into()),
                end: decoder.u64()?,
                operations: Some(decoder.u64()?).filter(|operations| *operations > 0),
            },
            _ => return Err(Undecodable),
        };
        decoder.finish().map(|()| acquired)
    };
    parse().map_err(unexpected)
}

/// What a holder hears: news, or that its grant has ended.
pub(crate) fn encode_news(news: Option<News>) -> Bytes {
    let mut output = BytesMut::with_capacity(32);
    output.put_u8(news.is_none().into());
    if let Some(News { lease, end, epoch, asked, is_followed }) = news {
        put_lease(&mut output, lease);
        [end, epoch, asked].into_iter().for_each(|field| output.put_u64_le(field));
        output.put_u8(is_followed.into());
    }
    output.freeze()
}

/// # Errors
/// `Corrupt` for an answer of another form.
pub(crate) fn decode_news(output: Bytes) -> Result<Option<News>> {
    let parse = || {
        let mut decoder = Decoder::new(output);
        if flag(&mut decoder)? {
            return decoder.finish().map(|()| None);
        }
        let lease = Duration::from_micros(decoder.u32()?.into());
        let (end, epoch, asked) = (decoder.u64()?, decoder.u64()?, decoder.u64()?);
        let is_followed = flag(&mut decoder)?;
        decoder.finish().map(|()| Some(News { lease, end, epoch, asked, is_followed }))
    };
    parse().map_err(unexpected)
}

/// Encodes a lease. A lease that is too long for the field is shortened.
fn put_lease(output: &mut BytesMut, lease: Duration) {
    output.put_u32_le(u32::try_from(lease.as_micros()).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_decodes_to_what_was_encoded_and_a_cut_one_is_refused() {
        let grant = Grant { first: 1, count: 2, epoch: 3 };
        let (lease, again) = (Duration::from_micros(300_017), Duration::from_millis(1000));
        let lent = |operations| Acquired::Lent { grant, lease, end: 100, operations };
        for acquired in [Acquired::Positions(grant, again), lent(None), lent(Some(9))] {
            let encoded = encode_acquired(acquired);
            assert_eq!(decode_acquired(encoded.clone()).unwrap(), acquired);
            for length in 0..encoded.len() {
                assert!(decode_acquired(encoded.slice(..length)).is_err());
            }
        }
        let news = News { lease, end: 100, epoch: 3, asked: 7, is_followed: true };
        for news in [Some(news), None] {
            let encoded = encode_news(news);
            assert_eq!(decode_news(encoded.clone()).unwrap(), news);
            for length in 0..encoded.len() {
                assert!(decode_news(encoded.slice(..length)).is_err());
            }
        }
    }
}
