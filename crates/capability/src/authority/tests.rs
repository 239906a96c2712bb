//! What an authority decides, event by event.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{ALONE, LEASE, MAX_KEEP};
use crate::policy::{
    Ask, Asker, BestEffort, Holding, Mode, Never, Policy, Terms, Time, Verdict, Wish,
};
use crate::{Authority, Command, Event};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Grants to whoever asks, on these terms.
#[derive(Debug, Default)]
struct Always(Terms);

impl Policy for Always {
    fn grant(&self, _: &Ask<'_>) -> Verdict {
        Verdict::Grant(self.0)
    }
}

/// Serves the tenant first that has done least.
#[derive(Debug)]
struct LeastUsed;

impl Policy for LeastUsed {
    fn grant(&self, _: &Ask<'_>) -> Verdict {
        Verdict::Grant(Terms::default())
    }

    fn keep(&self, _: &Holding<'_>, _: &Ask<'_>) -> Duration {
        ms(50)
    }

    fn turn(&self, waiting: &[Ask<'_>]) -> usize {
        let least = waiting.iter().enumerate().min_by_key(|(_, ask)| ask.operations);
        least.map_or(0, |(at, _)| at)
    }
}

fn asked(client: u64, wish: Wish, number: u64) -> Event {
    let asker = Asker { client, entity: Arc::from("e"), tenant: Arc::from(format!("t{client}")) };
    Event::Asked { ticket: client * 100 + number, asker, wish, number }
}

fn returned(client: u64, number: u64, operations: u64) -> Event {
    Event::Returned { client, number, operations }
}

fn heard(client: u64, number: u64, answered: u64) -> Event {
    Event::Heard { client, number, operations: 0, answered }
}

fn granted(ticket: u64, number: u64, mode: Mode, terms: Terms) -> Command {
    Command::Grant { ticket, number, mode, terms }
}

fn exclusive(ticket: u64, number: u64) -> Command {
    granted(ticket, number, Mode::Exclusive, Terms::default())
}

fn serve(ticket: u64) -> Command {
    Command::Serve { ticket, again: ALONE }
}

/// Runs steps. Each step is a time, an event, and the commands that must follow the event.
fn check(policy: &dyn Policy, steps: Vec<(Time, Event, Vec<Command>)>) -> Authority {
    let mut authority = Authority::default();
    for (n, (now, event, commands)) in steps.into_iter().enumerate() {
        let told = authority.handle(now, event.clone(), policy);
        assert_eq!(told, commands, "step {n}: {event:?}");
    }
    authority
}

const E: Wish = Wish::Exclusive;

#[test]
fn a_client_that_is_alone_gets_the_exclusive_capability() {
    let authority = check(&BestEffort, vec![(ms(0), asked(1, E, 1), vec![exclusive(101, 1)])]);
    assert!(!authority.is_free());
    assert_eq!(authority.granted(1, 1).map(|granted| granted.is_revoked()), Some(false));
}

#[test]
fn a_holder_yields_to_another_client_and_both_use_round_trips_until_one_is_alone() {
    let late = ms(30) + ALONE;
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(10), asked(2, Wish::Write, 1), vec![Command::Revoke { client: 1 }]),
            (ms(20), returned(1, 1, 9), vec![serve(201)]),
            (ms(20), asked(2, E, 2), vec![serve(202)]),
            (ms(30), asked(1, E, 2), vec![serve(102)]),
            (late - ms(1), asked(1, E, 3), vec![serve(103)]),
            (late, asked(1, E, 4), vec![exclusive(104, 4)]),
        ],
    );
}

#[test]
fn the_never_policy_makes_no_grant() {
    check(&Never, vec![(ms(0), asked(1, E, 1), vec![serve(101)])]);
}

#[test]
fn a_client_without_a_number_gets_no_grant() {
    check(&Always::default(), vec![(ms(0), asked(0, E, 1), vec![serve(1)])]);
}

#[test]
fn a_holder_keeps_its_grant_as_long_as_its_terms_say() {
    let terms = Terms { hold: Some(ms(250)), operations: None };
    check(
        &Always(terms),
        vec![
            (ms(0), asked(1, E, 1), vec![granted(101, 1, Mode::Exclusive, terms)]),
            (ms(100), asked(2, E, 1), vec![]),
            (ms(240), heard(1, 1, 0), vec![]),
            (ms(250), Event::Tick, vec![Command::Revoke { client: 1 }]),
            (ms(251), returned(1, 1, 5), vec![granted(201, 1, Mode::Exclusive, terms)]),
        ],
    );
}

#[test]
fn a_grant_for_a_single_operation_is_a_round_trip() {
    let terms = Terms { hold: Some(ms(250)), operations: Some(1) };
    check(
        &Always(terms),
        vec![
            (ms(0), asked(1, E, 1), vec![serve(101)]),
            (ms(1), asked(2, Wish::Shared, 1), vec![serve(201)]),
        ],
    );
}

#[test]
fn a_quota_without_a_time_ends_at_the_longest_time_of_a_grant() {
    let terms = Terms { hold: None, operations: Some(10) };
    let mut authority = check(
        &Always(terms),
        vec![
            (ms(0), asked(1, E, 1), vec![granted(101, 1, Mode::Exclusive, terms)]),
            (ms(100), asked(2, E, 1), vec![]),
        ],
    );
    assert_eq!(authority.due_at(), Some(MAX_KEEP));
    let told = authority.handle(MAX_KEEP, heard(1, 1, 0), &Always(terms));
    assert_eq!(told, [Command::Revoke { client: 1 }]);
}

#[test]
fn a_holder_that_is_silent_is_evicted_when_its_lease_is_over_and_not_before() {
    let over = ms(10) + LEASE;
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(10), heard(1, 1, 0), vec![]),
            // Nobody needs it.
            (over + ms(500), Event::Tick, vec![]),
        ],
    );
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(10), heard(1, 1, 0), vec![]),
            (ms(20), asked(2, E, 1), vec![Command::Revoke { client: 1 }]),
            // A holder whose grant is revoked does not extend its lease by asking for news.
            (ms(30), heard(1, 1, 0), vec![]),
            (over - ms(1), Event::Tick, vec![]),
            (over, Event::Tick, vec![Command::Evict { client: 1 }]),
            // The holder returns its grant too late. The authority has already ended, so it serves
            // no client.
            (over + ms(1), returned(1, 1, 7), vec![]),
            (over + ms(2), asked(3, E, 1), vec![]),
        ],
    );
}

#[test]
fn a_client_that_missed_its_grant_gets_a_new_one() {
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(50), asked(1, E, 2), vec![exclusive(102, 2)]),
            // Earlier requests that arrive late change nothing.
            (ms(60), asked(1, E, 1), vec![Command::Refuse { ticket: 101 }]),
            (ms(60), asked(1, E, 2), vec![Command::Refuse { ticket: 102 }]),
            (ms(70), returned(1, 1, 9), vec![]),
            (ms(80), asked(2, E, 1), vec![Command::Revoke { client: 1 }]),
        ],
    );
}

#[test]
fn many_readers_share_a_capability_and_a_writer_waits_for_all_of_them() {
    let shared = |ticket| granted(ticket, 1, Mode::Shared, Terms::default());
    check(
        &Always::default(),
        vec![
            (ms(0), asked(1, Wish::Shared, 1), vec![shared(101)]),
            (ms(0), asked(2, Wish::Shared, 1), vec![shared(201)]),
            (ms(0), asked(3, Wish::Read, 1), vec![serve(301)]),
            (
                ms(1),
                asked(4, Wish::Write, 1),
                vec![Command::Revoke { client: 1 }, Command::Revoke { client: 2 }],
            ),
            (ms(2), returned(1, 1, 0), vec![]),
            (ms(3), returned(2, 1, 0), vec![serve(401)]),
        ],
    );
}

#[test]
fn readers_share_a_state_that_no_other_client_changed_for_a_while() {
    let shared = |ticket, number| granted(ticket, number, Mode::Shared, Terms::default());
    let late = ms(3) + ALONE;
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, Wish::Shared, 1), vec![shared(101, 1)]),
            (ms(1), asked(2, Wish::Shared, 1), vec![shared(201, 1)]),
            (ms(2), returned(1, 1, 0), vec![]),
            (ms(2), returned(2, 1, 0), vec![]),
            (ms(3), asked(1, Wish::Write, 2), vec![serve(102)]),
            (ms(4), asked(1, Wish::Shared, 3), vec![shared(103, 3)]),
            (ms(4), asked(2, Wish::Shared, 2), vec![serve(202)]),
            (late, asked(2, Wish::Shared, 3), vec![shared(203, 3)]),
        ],
    );
}

#[test]
fn a_client_that_stopped_waiting_is_not_served() {
    check(
        &BestEffort,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(1), asked(2, E, 1), vec![Command::Revoke { client: 1 }]),
            (ms(2), Event::Withdrawn { ticket: 201 }, vec![]),
            (ms(3), returned(1, 1, 0), vec![]),
        ],
    );
}

#[test]
fn the_policy_chooses_the_client_to_serve_next() {
    check(
        &LeastUsed,
        vec![
            (ms(0), asked(1, E, 1), vec![exclusive(101, 1)]),
            (ms(1), returned(1, 1, 1000), vec![]),
            (ms(2), asked(2, E, 1), vec![exclusive(201, 1)]),
            (ms(3), asked(1, E, 2), vec![]),
            (ms(4), asked(3, E, 1), vec![]),
            (ms(53), Event::Tick, vec![Command::Revoke { client: 2 }]),
            (ms(54), returned(2, 1, 10), vec![exclusive(301, 1)]),
        ],
    );
}

#[test]
fn a_poll_sent_before_a_request_for_a_report_does_not_answer_it() {
    let mut authority = check(&BestEffort, vec![(ms(0), asked(1, E, 1), vec![exclusive(101, 1)])]);
    let question = authority.question(ms(5))[0];
    authority.handle(ms(6), heard(1, 1, 0), &BestEffort);
    assert!(!authority.is_answered(question), "it was sent before");
    authority.handle(ms(7), heard(1, 1, 1), &BestEffort);
    assert!(authority.is_answered(question));
    assert_eq!(authority.due_at(), None);
}

#[test]
fn a_holder_that_sends_no_report_is_revoked_and_evicted() {
    let mut authority = check(&BestEffort, vec![(ms(0), asked(1, E, 1), vec![exclusive(101, 1)])]);
    authority.question(ms(5));
    // The holder polls, but its polls contain no report.
    assert_eq!(authority.handle(ms(200), heard(1, 1, 0), &BestEffort), []);
    let revoked = authority.handle(ms(5) + LEASE, Event::Tick, &BestEffort);
    assert_eq!(revoked, [Command::Revoke { client: 1 }]);
    let evicted = authority.handle(ms(200) + LEASE, Event::Tick, &BestEffort);
    assert_eq!(evicted, [Command::Evict { client: 1 }]);
}

#[test]
fn a_barred_authority_revokes_all_grants_and_makes_none() {
    let mut authority = check(&BestEffort, vec![(ms(0), asked(1, E, 1), vec![exclusive(101, 1)])]);
    assert_eq!(authority.bar(ms(1)), [Command::Revoke { client: 1 }]);
    assert_eq!(authority.handle(ms(2), returned(1, 1, 0), &BestEffort), []);
    assert_eq!(authority.handle(ms(3), asked(1, E, 2), &BestEffort), [serve(102)]);
    authority.unbar();
    assert_eq!(authority.handle(ms(4), asked(1, E, 3), &BestEffort), [exclusive(103, 3)]);
}
