//! Tests of one switch, event by event, and of the steps of the controller.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{rule, rules};
use nacre_object::{Op, Request};
use nacre_route::limits::{MAX_CONTROLLER_WAIT, MAX_HELD_IOS};
use nacre_route::{
    Command, Controller, ControllerCommand, ControllerEvent, Destination, Event, Header, IoId,
    Order, OrderAnswer, Outcome, PeerAnswer, PeerQuestion, Record, Span, Stamp, Stored, Switch,
    SwitchName, SwitchRules, Term, Wanted,
};

const NOW: Duration = Duration::ZERO;

fn name(text: &str) -> SwitchName {
    text.parse().unwrap()
}

fn order(switch: &mut Switch, term: u64, order: Order) -> Vec<Command> {
    switch.handle(NOW, Event::Ordered { ticket: 7, term: Term(term), order })
}

fn answered(commands: &[Command]) -> Option<OrderAnswer> {
    commands.iter().find_map(|command| match command {
        Command::AnswerOrder { answer, .. } => Some(*answer),
        _ => None,
    })
}

fn serving_with(text: &[&str], peers: &[&str]) -> Switch {
    let mut switch = Switch::new(name("s"));
    let peers = peers.iter().map(|peer| name(peer)).collect();
    let rules = SwitchRules { insertions: vec![rules(text)], peers, ..SwitchRules::default() };
    order(&mut switch, 1, Order::Install(rules));
    order(&mut switch, 1, Order::Resume);
    switch
}

fn serving(text: &[&str]) -> Switch {
    serving_with(text, &[])
}

fn ask(switch: &mut Switch, io: u64, op: Op) -> Vec<Command> {
    let request = Request::new("data/x".parse().unwrap(), vec![op]).unwrap();
    switch.handle(
        NOW,
        Event::Arrived { io: IoId(io), request: request.into(), via: None, home: None, term: None },
    )
}

fn read(switch: &mut Switch, io: u64, offset: u64, length: u64) -> Vec<Command> {
    ask(switch, io, Op::Read { offset, length })
}

fn write(switch: &mut Switch, io: u64, offset: u64) -> Vec<Command> {
    ask(switch, io, Op::Write { offset, data: Bytes::from_static(b"abcd") })
}

fn done(switch: &mut Switch, io: u64, piece: usize) -> Vec<Command> {
    switch.handle(NOW, Event::PieceDone { io: IoId(io), piece, outcome: Outcome::Done })
}

/// Where commands send IO, and which they answer.
fn told(commands: &[Command]) -> Vec<String> {
    let tell = |command: &Command| match command {
        Command::Forward { io, destination, .. } => {
            let to = destination.as_ref().map_or("on".to_owned(), Destination::to_string);
            Some(format!("{} to {to}", io.0))
        }
        Command::Finish { io } => Some(format!("{} finished", io.0)),
        Command::Refuse { io, error } => Some(format!("{} refused: {}", io.0, error.0)),
        _ => None,
    };
    commands.iter().filter_map(tell).collect()
}

fn header(text: &str) -> Header {
    Header::parse(&text.split(' ').collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_switch_that_has_started_holds_all_io_until_it_has_rules() {
    let mut switch = Switch::new(name("s"));
    assert_eq!(read(&mut switch, 1, 0, 4), []);
    assert_eq!(switch.handle(NOW, Event::Tick), [Command::Join]);
    let resumed = order(&mut switch, 1, Order::Resume);
    assert_eq!(answered(&resumed), Some(OrderAnswer::NotInstalled));
    order(&mut switch, 1, Order::Install(SwitchRules::default()));
    assert_eq!(told(&order(&mut switch, 1, Order::Resume)), ["1 to on"]);
}

#[test]
fn quiesced_io_is_held_in_its_order_and_other_io_passes() {
    let mut switch = serving(&[]);
    order(&mut switch, 2, Order::Quiesce(vec![header("* w data/x")]));
    assert_eq!(write(&mut switch, 1, 0), []);
    assert_eq!(write(&mut switch, 2, 100), []);
    assert_eq!(write(&mut switch, 3, 0), []);
    assert_eq!(told(&read(&mut switch, 4, 50, 4)), ["4 to on"]);
    assert_eq!(read(&mut switch, 5, 0, 4), [], "a read keeps its order behind a held write");
    order(&mut switch, 2, Order::Install(SwitchRules::default()));
    let resumed = told(&order(&mut switch, 2, Order::Resume));
    assert_eq!(resumed, ["1 to on", "2 to on", "3 to on", "5 to on"]);
}

#[test]
fn a_drain_is_answered_when_no_quiesced_io_is_in_flight() {
    let mut switch = serving(&[]);
    write(&mut switch, 1, 0);
    read(&mut switch, 2, 50, 4);
    order(&mut switch, 2, Order::Quiesce(vec![header("* w data/x")]));
    assert_eq!(answered(&order(&mut switch, 2, Order::Drain)), None);
    assert_eq!(answered(&done(&mut switch, 1, 0)), Some(OrderAnswer::Done));
    assert_eq!(switch.load(), (1, 0), "the read is still in flight");
}

#[test]
fn an_order_of_an_earlier_term_is_refused() {
    let mut switch = serving(&[]);
    order(&mut switch, 5, Order::Quiesce(vec![]));
    let late = order(&mut switch, 4, Order::Install(SwitchRules::default()));
    assert_eq!(answered(&late), Some(OrderAnswer::Stale(Term(5))));
}

#[test]
fn an_io_follows_the_rules_of_one_term_from_beginning_to_end() {
    let mut switch = serving(&["* w data/x -> object spill/x"]);
    order(&mut switch, 2, Order::Quiesce(vec![header("* w data/x")]));
    order(&mut switch, 2, Order::Install(SwitchRules::default()));
    order(&mut switch, 2, Order::Resume);
    let mut sent_under = |term: u64, io: u64, op: Op| {
        let request = Request::new("data/x".parse().unwrap(), vec![op]).unwrap();
        let (via, term) = (None, Some(Term(term)));
        told(&switch.handle(
            NOW,
            Event::Arrived { io: IoId(io), request: request.into(), via, home: None, term },
        ))
    };
    let write = || Op::Write { offset: 0, data: Bytes::from_static(b"abcd") };
    let late = sent_under(1, 1, write());
    assert!(
        late[0].contains("stale: the IO was sent under rules that have changed since"),
        "{late:?}"
    );
    let unchanged = sent_under(1, 2, Op::Read { offset: 9, length: 1 });
    assert_eq!(unchanged, ["2 to on"], "no rule about it has changed");
    assert_eq!(sent_under(2, 3, write()), ["3 to on"]);
}

#[test]
fn a_switch_does_not_track_io_whose_replies_bypass_it() {
    let mut switch = serving(&["* r data/x -> target t1 reply-direct"]);
    assert_eq!(told(&read(&mut switch, 1, 0, 4)), ["1 to target t1"]);
    assert_eq!(switch.load(), (0, 0));
}

#[test]
fn overlapping_io_with_different_destinations_keeps_its_order() {
    let mut switch = serving(&["* w data/x 0..2 -> object spill/x"]);
    assert_eq!(told(&write(&mut switch, 1, 0)), ["1 to object spill/x", "1 to on"]);
    assert_eq!(write(&mut switch, 2, 0), [], "a split write waits for another");
    assert_eq!(read(&mut switch, 3, 3, 4), [], "and a read for both");
    assert_eq!(told(&read(&mut switch, 4, 100, 4)), ["4 to on"]);
    assert_eq!(told(&done(&mut switch, 1, 0)), Vec::<String>::new());
    let next = told(&done(&mut switch, 1, 1));
    assert_eq!(next, ["1 finished", "2 to object spill/x", "2 to on"]);
    done(&mut switch, 2, 1);
    assert_eq!(told(&done(&mut switch, 2, 0)), ["2 finished", "3 to on"]);
}

#[test]
fn io_that_no_rule_matches_does_not_wait() {
    let mut switch = serving(&["* w data/y -> object spill/y"]);
    assert_eq!(told(&write(&mut switch, 1, 0)), ["1 to on"]);
    assert_eq!(told(&write(&mut switch, 2, 0)), ["2 to on"]);
    assert_eq!(told(&read(&mut switch, 3, 0, 4)), ["3 to on"]);
}

#[test]
fn reads_follow_a_write_once_it_is_done() {
    let mut switch = serving(&["* w data/x -> object spill/x follow", "* r data/x -> home"]);
    write(&mut switch, 1, 4);
    assert_eq!(told(&read(&mut switch, 2, 0, 4)), ["2 to home"]);
    assert_eq!(read(&mut switch, 3, 4, 4), [], "a read of the same bytes waits");
    let next = told(&done(&mut switch, 1, 0));
    assert_eq!(next, ["1 finished", "3 to object spill/x"]);
    let split = told(&read(&mut switch, 4, 0, 8));
    assert_eq!(split, ["4 to home", "4 to object spill/x"]);
}

#[test]
fn reads_do_not_follow_a_failed_write() {
    let mut switch = serving(&["* w data/x -> object spill/x follow"]);
    write(&mut switch, 1, 0);
    switch.handle(NOW, Event::PieceDone { io: IoId(1), piece: 0, outcome: Outcome::Failed });
    assert_eq!(told(&read(&mut switch, 2, 0, 4)), ["2 to on"]);
}

#[test]
fn a_change_that_an_endpoint_refuses_as_older_is_sent_again_with_a_later_stamp() {
    let mut switch = serving(&[]);
    write(&mut switch, 1, 0);
    let newer = Stamp { counter: 1 << 40, switch: name("other") };
    let outcome = Outcome::Outrun(newer.clone());
    let again = switch.handle(NOW, Event::PieceDone { io: IoId(1), piece: 0, outcome });
    let [Command::Forward { stamp: Some(stamp), .. }] = again.as_slice() else {
        panic!("{again:?}")
    };
    assert!(*stamp > newer);
}

#[test]
fn an_io_fails_if_the_controller_does_not_answer_in_time() {
    let mut switch = serving(&["* w data/x -> controller header"]);
    let asked = write(&mut switch, 1, 0);
    assert!(matches!(asked.as_slice(), [Command::AskController { .. }]), "{asked:?}");
    assert_eq!(switch.handle(MAX_CONTROLLER_WAIT - Duration::from_nanos(1), Event::Tick), []);
    let given_up = told(&switch.handle(MAX_CONTROLLER_WAIT, Event::Tick));
    assert!(given_up[0].contains("the controller, which does not answer"), "{given_up:?}");
    assert_eq!(given_up.len(), 1);
}

fn controller_answers(switch: &mut Switch, io: u64) -> Vec<Command> {
    let object = "data/x".parse().unwrap();
    switch.handle(NOW, Event::ControllerAnswered { io: IoId(io), object, answer: Ok(()) })
}

#[test]
fn an_io_for_the_controller_waits_until_there_is_a_rule_about_it() {
    let mut switch = serving(&["* w data/x -> controller header"]);
    let asked = write(&mut switch, 1, 0);
    let [Command::AskController { io: IoId(1), asks }] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!(asks[0].io.object.to_string(), "data/x");
    assert_eq!(read(&mut switch, 2, 0, 4), [], "a read keeps its order behind the write");
    assert_eq!(told(&read(&mut switch, 3, 100, 4)), ["3 to on"]);
    done(&mut switch, 3, 0);
    order(&mut switch, 2, Order::Quiesce(vec![header("* w data/x")]));
    let drained = order(&mut switch, 2, Order::Drain);
    assert_eq!(answered(&drained), Some(OrderAnswer::Done), "no drain waits for the controller");
    let insertions = vec![rules(&["* w data/x -> target a follow"])];
    order(&mut switch, 2, Order::Install(SwitchRules { insertions, ..SwitchRules::default() }));
    assert_eq!(told(&order(&mut switch, 2, Order::Resume)), ["1 to target a"]);
    assert_eq!(controller_answers(&mut switch, 1), [], "a late answer changes nothing");
    assert_eq!(told(&done(&mut switch, 1, 0)), ["1 finished", "2 to target a"]);
}

#[test]
fn an_io_fails_if_the_controller_makes_no_other_rule_about_it() {
    let mut switch = serving(&["* w data/x -> controller header"]);
    write(&mut switch, 1, 0);
    let refused = told(&controller_answers(&mut switch, 1));
    assert!(refused[0].contains("has made no other rule for it"), "{refused:?}");
}

fn homeward(switch: &mut Switch, io: u64, op: Op) -> Vec<Command> {
    let request = Request::new("data/x".parse().unwrap(), vec![op]).unwrap().into();
    let (io, span, home) = (IoId(io), Span::WHOLE, None);
    switch.handle(NOW, Event::ArrivedHomeward { io, request, span, via: None, home })
}

#[test]
fn a_change_of_a_whole_object_waits_for_the_controller_too() {
    let mut switch = serving(&["* w data/x 0..4KiB -> controller header"]);
    assert_eq!(told(&homeward(&mut switch, 1, Op::Stat)), ["1 to on"]);
    done(&mut switch, 1, 0);
    let asked = homeward(&mut switch, 2, Op::WriteFull { data: Bytes::from_static(b"abcd") });
    assert!(matches!(asked.as_slice(), [Command::AskController { .. }]), "{asked:?}");
}

#[test]
fn a_switch_that_holds_too_many_ios_refuses_more() {
    let mut switch = Switch::new(name("s"));
    for io in 0..MAX_HELD_IOS as u64 {
        assert_eq!(read(&mut switch, io, 0, 4), []);
    }
    let refused = told(&read(&mut switch, u64::MAX, 0, 4));
    assert!(refused[0].contains("exhausted"), "{refused:?}");
}

#[test]
fn a_write_is_answered_when_all_peers_know_where_it_is() {
    let rules = ["* w data/x -> object spill/x follow-everywhere"];
    let mut switch = serving_with(&rules, &["p", "q"]);
    let hear = |switch: &mut Switch, peer: &str, asked: &Command, answer| {
        let Command::AskPeer { agreement, question, .. } = asked.clone() else {
            panic!("{asked:?}")
        };
        let peer = name(peer);
        let answer = Some(answer);
        switch.handle(NOW, Event::PeerAnswered { peer, agreement, question, answer })
    };
    let prepare = write(&mut switch, 1, 0);
    assert_eq!(
        (prepare.len(), told(&prepare).len()),
        (2, 0),
        "nothing is written before peers hold"
    );
    let prepared = PeerAnswer::Prepared { counter: 9 };
    assert_eq!(hear(&mut switch, "p", &prepare[0], prepared), []);
    let sent = hear(&mut switch, "q", &prepare[1], prepared);
    assert_eq!(told(&sent), ["1 to object spill/x"]);
    let commit = done(&mut switch, 1, 0);
    assert!(matches!(
        commit.as_slice(),
        [Command::AskPeer { question: PeerQuestion::Commit { .. }, .. }, _]
    ));
    assert_eq!(hear(&mut switch, "p", &commit[0], PeerAnswer::Done), []);
    assert_eq!(told(&hear(&mut switch, "q", &commit[1], PeerAnswer::Done)), ["1 finished"]);
}

#[test]
fn a_peer_holds_io_between_preparing_and_committing() {
    let mut switch = serving_with(&["* w data/x -> object spill/x follow-everywhere"], &["p"]);
    let agreement = Stamp { counter: 1 << 33, switch: name("p") };
    let ask_peer = |switch: &mut Switch, question| {
        let agreement = agreement.clone();
        switch.handle(NOW, Event::PeerAsked { ticket: 3, agreement, question })
    };
    let spans = vec![nacre_route::Span::new(0, 4).unwrap()];
    let object: nacre_object::ObjectId = "data/x".parse().unwrap();
    let prepare = PeerQuestion::Prepare { term: Term(1), object, spans };
    let answer = ask_peer(&mut switch, prepare);
    assert!(matches!(
        answer.as_slice(),
        [Command::AnswerPeer { answer: PeerAnswer::Prepared { .. }, .. }]
    ));
    assert_eq!(read(&mut switch, 1, 0, 4), []);
    assert_eq!(told(&ask_peer(&mut switch, PeerQuestion::Abort)), ["1 to on"]);
}

/// Two switches with one rule each.
fn wanted() -> Wanted {
    let insertion = vec![vec![rule("* w data/x -> object spill/x")]];
    let rules = [(name("a"), insertion.clone()), (name("b"), insertion)];
    Wanted { rules: rules.into(), ..Wanted::default() }
}

#[test]
fn the_controller_stores_rules_first_and_quiesces_all_before_any_drains() {
    let (mut controller, _) = Controller::new();
    let again = controller.handle(ControllerEvent::Loaded(Record::default()));
    assert!(matches!(again.as_slice(), [ControllerCommand::Store { .. }]), "{again:?}");
    let stored = |term| ControllerEvent::Stored { term: Term(term), outcome: Stored::Yes };
    let idle = controller.handle(stored(1));
    assert!(
        matches!(idle.as_slice(), [ControllerCommand::Gather { .. }]),
        "no switch is known yet"
    );
    controller.handle(ControllerEvent::Gathered { term: Term(1), placed: vec![] });
    let store = controller.begin(wanted()).unwrap();
    assert!(matches!(store.as_slice(), [ControllerCommand::Store { .. }]), "{store:?}");
    let mut commands = controller.handle(stored(2));
    for step in ["Quiesce", "Drain", "Gather", "Install", "Resume"] {
        if step == "Gather" {
            commands =
                controller.handle(ControllerEvent::Gathered { term: Term(2), placed: vec![] });
            continue;
        }
        assert_eq!(commands.len(), 2, "{step}: both switches");
        let orders = commands.clone();
        for (at, command) in orders.into_iter().enumerate() {
            let ControllerCommand::Order { switch, term, order } = command else {
                panic!("{step}")
            };
            assert!(format!("{order:?}").starts_with(step), "{order:?} at {step}");
            let answer = OrderAnswer::Done;
            commands = controller.handle(ControllerEvent::Answered { term, switch, order, answer });
            assert!(at == 1 || commands.is_empty(), "{step}: the next step waits for all");
        }
    }
    assert_eq!(commands, [ControllerCommand::Updated(Term(2))]);
}

#[test]
fn a_controller_is_deposed_by_another_record_or_a_later_term() {
    let (mut controller, _) = Controller::new();
    controller.handle(ControllerEvent::Loaded(Record::default()));
    let refused = ControllerEvent::Stored { term: Term(1), outcome: Stored::Refused };
    assert_eq!(controller.handle(refused), [ControllerCommand::Deposed]);
    assert!(controller.begin(wanted()).is_err());
}

#[test]
fn a_scattered_read_goes_home_and_does_not_wait_for_writes_if_copies_are_current() {
    let mut switch = Switch::new(name("s")).with_current_copies();
    let insertions = vec![rules(&["* r data/x -> one t0,t1"])];
    let installed = SwitchRules { insertions, ..SwitchRules::default() };
    order(&mut switch, 1, Order::Install(installed));
    order(&mut switch, 1, Order::Resume);
    let x = "data/x".parse().unwrap();
    assert!(!switch.is_changing(&x));
    assert_eq!(told(&write(&mut switch, 1, 0)), ["1 to on"]);
    assert_eq!(told(&read(&mut switch, 2, 0, 4)), ["2 to on"], "the home orders them");
    assert!(switch.is_changing(&x));
    done(&mut switch, 1, 0);
    assert!(!switch.is_changing(&x), "a read is no change");
    let mut other = serving(&["* r data/x -> one t0,t1"]);
    assert_eq!(told(&read(&mut other, 1, 0, 4)), ["1 to one t0,t1 random"]);
}

#[test]
fn a_rule_for_one_home_decides_only_about_its_objects() {
    let mut switch = Switch::new(name("s")).with_chosen_objects();
    let mut rules = rules(&["* w data/x -> target osd.2 follow"]);
    rules[0].header.home = Some("osd.1".parse().unwrap());
    let installed = SwitchRules { insertions: vec![rules], ..SwitchRules::default() };
    order(&mut switch, 1, Order::Install(installed));
    order(&mut switch, 1, Order::Resume);
    let mut arrives = |io, home: &str| {
        let request = nacre_object::Request::new(
            "data/x".parse().unwrap(),
            vec![Op::Write { offset: 0, data: "abcd".into() }],
        );
        let (request, home) = (request.unwrap().into(), Some(home.parse().unwrap()));
        let event = Event::Arrived { io: IoId(io), request, via: None, home, term: None };
        let commands = switch.handle(NOW, event);
        let outcome = Outcome::DoneAt(Destination::Home);
        switch.handle(NOW, Event::PieceDone { io: IoId(io), piece: 0, outcome });
        told(&commands)
    };
    assert_eq!(arrives(1, "osd.0"), ["1 to on"]);
    assert_eq!(arrives(2, "osd.1"), ["2 to target osd.2"]);
}

#[test]
fn reads_follow_a_write_to_the_object_that_the_runtime_chose() {
    let mut switch = Switch::new(name("s")).with_chosen_objects();
    let insertions = vec![rules(&["* w data/x -> target osd.2 follow"])];
    let installed = SwitchRules { insertions, ..SwitchRules::default() };
    order(&mut switch, 1, Order::Install(installed));
    order(&mut switch, 1, Order::Resume);
    assert_eq!(told(&write(&mut switch, 1, 0)), ["1 to target osd.2"]);
    assert!(write(&mut switch, 2, 0).is_empty(), "it might get another object, so it waits");
    let chosen = Destination::Object("nacre.routed/{0}data/x".parse().unwrap());
    let outcome = Outcome::DoneAt(chosen);
    let freed = switch.handle(NOW, Event::PieceDone { io: IoId(1), piece: 0, outcome });
    assert!(told(&freed).contains(&"2 to target osd.2".to_owned()), "{freed:?}");
    done(&mut switch, 2, 0);
    let read = told(&read(&mut switch, 3, 0, 4));
    assert_eq!(read, ["3 to target osd.2"], "the last write needed no choice");
}
