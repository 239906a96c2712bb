//! Fuzzes the requests to a sequencer's host, and its answers.

use bytes::Bytes;
use nacre_fuzz::fuzz;
use nacre_host::{Question as _, decode_epoch, encode_epoch};
use nacre_object::ClassName;

use super::lending_messages::*;
use super::messages::*;
use crate::LogName;
use crate::core::{Grant, News, Returned};
use crate::view::View;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn fuzz_requests_to_a_sequencer() {
    const METHODS: [&str; 7] =
        ["next", "tail", "recover", "reconfigure", "acquire", "hold", "return"];
    let class = ClassName::new("log").unwrap();
    let told = Returned { client: 5, number: 6, tail: 9, operations: 4 };
    let told_wait = std::time::Duration::from_millis(100);
    let questions = [
        Question::Next { count: 3, client: 5 },
        Question::Tail { beyond: 9, wait: std::time::Duration::from_millis(5) },
        Question::Recover,
        Question::Reconfigure(Reconfiguration::Class(class)),
        Question::Acquire(Acquire { client: 5, number: 7, count: 3, returned: Some(told) }),
        Question::Hold(Hold { told, answered: 2, is_followed: true, wait: told_wait }),
        Question::Return(told),
    ];
    let samples: Vec<_> = (0_u8..)
        .zip(questions)
        .map(|(method, question)| {
            let log = LogName::new("orders").unwrap();
            [&[method], &question.encode(&log, 7)[..]].concat()
        })
        .collect();
    fuzz(CRATE, "sequencer_questions", &samples, |input| {
        let Some((method, rest)) = input.split_first() else { return false };
        let (method, rest) =
            (METHODS[usize::from(*method) % METHODS.len()], Bytes::copy_from_slice(rest));
        let Ok(Asked { log, epoch, question }) = Asked::decode(method, &rest) else { return false };
        let name = LogName::new(log).ok();
        if let Some(name) = &name {
            assert_eq!(question.encode(name, epoch), rest, "what is read is what was written");
        }
        name.is_some()
    });
}

#[test]
fn fuzz_answers_of_a_sequencer() {
    let grant = encode_grant(Grant { first: 1, count: 2, epoch: 3 });
    let (lease, end, operations) = (std::time::Duration::from_millis(300), 100, Some(9));
    let lent = Grant { first: 1, count: 2, epoch: 3 };
    let lent = encode_acquired(Acquired::Lent { grant: lent, lease, end, operations });
    let news = encode_news(Some(News { lease, end, epoch: 3, asked: 1, is_followed: true }));
    let samples = [grant, encode_epoch(4), lent, news].map(|sample| sample.to_vec());
    fuzz(CRATE, "sequencer_answers", &samples, |input| {
        let input = Bytes::copy_from_slice(input);
        let grant = decode_grant(input.clone()).is_ok();
        let tail = decode_tail(input.clone()).is_ok();
        let lent = decode_acquired(input.clone()).is_ok() || decode_news(input.clone()).is_ok();
        decode_epoch::<View>(&input).is_ok() || grant || tail || lent
    });
}
