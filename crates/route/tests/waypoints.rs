//! Tests of waypoints without programs: which rules decide about IO on its way through them, and how a
//! waypoint that holds IO releases it.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use common::{io, rules};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_object::{Error, ErrorKind, Op, Request};
use nacre_route::limits::MAX_WAYPOINT_WAIT;
use nacre_route::{
    Command, Destination, Event, FindingKind, HoldingQueue, IoId, Limit, Order, OrderAnswer,
    Outcome, PieceOps, Placement, RefusedIo, Routes, RuleTable, Span, Switch, SwitchRules, Term,
    WaypointAsk, check,
};

const CASES: SeedCases =
    SeedCases { file: "waypoints_seeds.txt", text: include_str!("waypoints_seeds.txt") };
const NOW: Duration = Duration::ZERO;

fn table(text: &[&str]) -> RuleTable {
    let mut table = RuleTable::default();
    table.insert(rules(text)).unwrap();
    table
}

/// Where the first byte of an IO goes.
fn goes(table: &RuleTable, text: &str) -> String {
    let rule = table.route(&io(text)).unwrap()[0].rule;
    rule.map_or("home".to_owned(), |rule| table.get(rule).unwrap().destination.to_string())
}

#[test]
fn io_from_a_waypoint_is_decided_by_the_other_rules() {
    let table = table(&[
        "* rw data/* -> waypoint scramble",
        "layer:scramble w data/* 0..8 -> target t1",
        "* w data/* -> target t2",
    ]);
    assert_eq!(goes(&table, "w data/a 0..4"), "waypoint scramble");
    assert_eq!(goes(&table, "layer:scramble w data/a 0..4"), "target t1");
    assert_eq!(goes(&table, "layer:scramble w data/a 9..10"), "target t2");
    assert_eq!(goes(&table, "layer:scramble r data/a 0..4"), "home");
    assert_eq!(goes(&table, "layer:other r data/a 0..4"), "waypoint scramble");
}

#[test]
fn a_read_passes_its_waypoint_before_it_follows_a_write() {
    let mut table = table(&["* rw data/* 0..100 -> waypoint scramble"]);
    let placed = Placement {
        span: Span::new(50, 150).unwrap(),
        destination: Destination::from_line("target t1").unwrap(),
        application: "a".parse().unwrap(),
    };
    table.place(&"data/a".parse().unwrap(), placed).unwrap();
    let ways = |text: &str| -> Vec<String> {
        let segments = table.route(&io(text)).unwrap();
        let to = |rule| table.get(rule).unwrap().destination.to_string();
        let shown = segments
            .iter()
            .map(|one| format!("{} {}", one.span.unwrap(), one.rule.map_or("home".to_owned(), to)));
        shown.collect()
    };
    let expected = ["0..100 waypoint scramble", "100..150 target t1", "150..200 home"];
    assert_eq!(ways("r data/a 0..200"), expected);
    let expected = ["0..50 home", "50..150 target t1", "150..200 home"];
    assert_eq!(ways("layer:scramble r data/a 0..200"), expected);
}

#[test]
fn rules_for_single_waypoints_come_and_go() {
    let mut table = table(&["* rw data/* -> waypoint a", "* rw data/* 0..8 -> waypoint b"]);
    assert_eq!(goes(&table, "w data/x 0..4"), "waypoint a");
    assert_eq!(goes(&table, "layer:a w data/x 0..4"), "waypoint b");
    assert_eq!(table.delete(&rules(&["* rw data/* -> waypoint a"])[0].header).len(), 1);
    assert_eq!(goes(&table, "w data/x 0..4"), "waypoint b");
    assert_eq!(goes(&table, "w data/x 8..9"), "home");
    assert_eq!(table.delete(&rules(&["* rw data/* 0..8 -> waypoint b"])[0].header).len(), 1);
    assert_eq!(goes(&table, "w data/x 0..4"), "home");
}

/// What the analysis finds if the waypoint `scramble` re-encodes.
fn found(text: &str) -> Vec<FindingKind> {
    let network = "nacre routes 1\npool data\ntarget t0\nswitch s at source *\nlayer scramble\n";
    let mut routes: Routes = format!("{network}application a on s\n{text}").parse().unwrap();
    routes.topology.encoding.insert("scramble".parse().unwrap());
    check(&routes).unwrap().findings.into_iter().map(|finding| finding.kind).collect()
}

#[test]
fn the_analysis_finds_reads_that_do_not_pass_the_waypoint_of_their_writes() {
    assert_eq!(found("  * rw data/* -> waypoint scramble\n"), []);
    let follow = "  layer:scramble w data/* -> target t0 follow\n";
    assert_eq!(found(&format!("  * rw data/* -> waypoint scramble\n{follow}")), []);
    for wrong in [
        "  * w data/* -> waypoint scramble\n",
        "  tenant:gold rw data/* -> waypoint scramble\n",
        "  * r data/a -> home\n  * rw data/* -> waypoint scramble\n",
        "  * r data/a -> home\n  * rw data/* -> waypoint scramble\n  layer:scramble w data/* -> target t0 follow\n",
    ] {
        assert!(found(wrong).contains(&FindingKind::EncodedOtherwise), "{wrong}");
    }
}

fn order(switch: &mut Switch, term: u64, order: Order) -> Vec<Command> {
    switch.handle(NOW, Event::Ordered { ticket: 7, term: Term(term), order })
}

fn install(switch: &mut Switch, term: u64, text: &[&str]) -> Vec<Command> {
    let rules = SwitchRules { insertions: vec![rules(text)], ..SwitchRules::default() };
    order(switch, term, Order::Install(rules));
    order(switch, term, Order::Resume)
}

fn serving(text: &[&str]) -> Switch {
    let mut switch = Switch::new("s".parse().unwrap());
    install(&mut switch, 1, text);
    switch
}

fn arrive(switch: &mut Switch, io: u64, via: Option<&str>, ops: Vec<Op>) -> Vec<Command> {
    let request = Request::new("data/x".parse().unwrap(), ops).unwrap().into();
    let via = via.map(|layer| layer.parse().unwrap());
    switch.handle(NOW, Event::Arrived { io: IoId(io), request, via, home: None, term: None })
}

fn write_op(offset: u64, data: &'static [u8]) -> Op {
    Op::Write { offset, data: Bytes::from_static(data) }
}

fn write(switch: &mut Switch, io: u64) -> Vec<Command> {
    arrive(switch, io, None, vec![write_op(0, b"abcd")])
}

fn whole(switch: &mut Switch, io: u64, via: Option<&str>, ops: Vec<Op>) -> Vec<Command> {
    let request = Request::new("data/x".parse().unwrap(), ops).unwrap().into();
    let via = via.map(|layer| layer.parse().unwrap());
    let (io, span, home) = (IoId(io), Span::WHOLE, None);
    switch.handle(NOW, Event::ArrivedHomeward { io, request, span, via, home })
}

fn admit_at(switch: &mut Switch, now: Duration, io: u64, layer: &str) -> Vec<Command> {
    let (io, object, layer) = (IoId(io), "data/x".parse().unwrap(), layer.parse().unwrap());
    switch.handle(now, Event::WaypointAnswered { io, object, layer, answer: Ok(()) })
}

fn admit(switch: &mut Switch, io: u64) -> Vec<Command> {
    admit_at(switch, NOW, io, "w")
}

fn done(switch: &mut Switch, io: u64) -> Vec<Command> {
    switch.handle(NOW, Event::PieceDone { io: IoId(io), piece: 0, outcome: Outcome::Done })
}

fn asked(commands: &[Command]) -> Option<(u64, &WaypointAsk)> {
    match commands {
        [Command::AskWaypoint { io, ask }] => Some((io.0, ask)),
        _ => None,
    }
}

/// The IO that goes somewhere, with its destination.
fn sent(commands: &[Command]) -> Vec<(u64, Option<String>)> {
    let to = |to: &Option<Destination>| to.as_ref().map(ToString::to_string);
    let forward = |command: &Command| match command {
        Command::Forward { io, destination, .. } => Some((io.0, to(destination))),
        _ => None,
    };
    commands.iter().filter_map(forward).collect()
}

fn to_waypoint(io: u64) -> Vec<(u64, Option<String>)> {
    vec![(io, Some("waypoint w".to_owned()))]
}

#[test]
fn an_io_goes_to_its_waypoint_once_it_is_admitted_and_ends_after_the_one_that_comes_out() {
    let mut switch =
        serving(&["* rw data/* -> waypoint w", "layer:w w data/* -> target t1 follow"]);
    let commands = write(&mut switch, 1);
    let (io, ask) = asked(&commands).unwrap();
    assert_eq!((io, ask.layer.as_str(), ask.bytes), (1, "w", 4));
    assert_eq!(switch.load(), (0, 1), "it is not in flight");
    assert_eq!(sent(&admit(&mut switch, 1)), to_waypoint(1));
    let out = arrive(&mut switch, 2, Some("w"), vec![write_op(0, b"dcba")]);
    assert_eq!(sent(&out), [(2, Some("target t1".to_owned()))]);
    assert_eq!(done(&mut switch, 2), [Command::Finish { io: IoId(2) }]);
    assert_eq!(done(&mut switch, 1), [Command::Finish { io: IoId(1) }]);
    let placed = switch.table().placed(&"data/x".parse().unwrap(), Span::WHOLE);
    assert_eq!(placed.len(), 1);
    assert_eq!(placed[0].destination, Destination::from_line("target t1").unwrap());
}

#[test]
fn overlapping_io_keeps_its_order_at_a_waypoint() {
    let mut switch = serving(&["* rw data/* -> waypoint w"]);
    write(&mut switch, 1);
    assert_eq!(write(&mut switch, 2), [], "it waits behind the first one");
    let other = arrive(&mut switch, 3, None, vec![write_op(100, b"abcd")]);
    assert_eq!(asked(&other).unwrap().0, 3, "other bytes do not wait");
    let commands = admit(&mut switch, 1);
    assert_eq!(sent(&commands), to_waypoint(1));
    assert!(commands.iter().any(|one| matches!(one, Command::AskWaypoint { io: IoId(2), .. })));
    assert_eq!(sent(&admit(&mut switch, 2)), [], "the first one is in flight");
    assert_eq!(sent(&admit(&mut switch, 3)), to_waypoint(3));
    assert_eq!(sent(&done(&mut switch, 1)), to_waypoint(2));
}

#[test]
fn rules_change_while_io_waits_for_a_waypoint() {
    let mut switch = serving(&["* rw data/* -> waypoint w"]);
    write(&mut switch, 1);
    let header = rules(&["* rw data/* -> waypoint w"])[0].header.clone();
    order(&mut switch, 2, Order::Quiesce(vec![header]));
    let answer = order(&mut switch, 2, Order::Drain);
    assert_eq!(answer, [Command::AnswerOrder { ticket: 7, answer: OrderAnswer::Done }]);
    let commands = install(&mut switch, 2, &[]);
    assert_eq!(sent(&commands), [(1, None)], "it goes home without the waypoint");
    assert_eq!(admit(&mut switch, 1), [], "a late answer does no harm");
}

#[test]
fn a_change_of_rules_for_io_from_a_waypoint_waits_for_io_that_goes_there() {
    let mut switch = serving(&["* rw data/* -> waypoint w"]);
    write(&mut switch, 1);
    admit(&mut switch, 1);
    let header = rules(&["layer:w w data/* -> target t1"])[0].header.clone();
    order(&mut switch, 2, Order::Quiesce(vec![header]));
    assert_eq!(order(&mut switch, 2, Order::Drain), []);
    let out = arrive(&mut switch, 2, Some("w"), vec![write_op(0, b"dcba")]);
    assert_eq!(sent(&out), [(2, None)], "it belongs to IO in flight, so it is not held");
    done(&mut switch, 2);
    let drained = Command::AnswerOrder { ticket: 7, answer: OrderAnswer::Done };
    assert!(done(&mut switch, 1).contains(&drained));
}

#[test]
fn an_io_that_no_waypoint_admits_in_time_fails() {
    let mut switch = serving(&["* rw data/* -> waypoint w"]);
    write(&mut switch, 1);
    assert_eq!(switch.handle(MAX_WAYPOINT_WAIT, Event::Tick), []);
    let late = MAX_WAYPOINT_WAIT + Duration::from_secs(3);
    let commands = switch.handle(late, Event::Tick);
    let [Command::Refuse { io: IoId(1), error: RefusedIo(error) }] = commands.as_slice() else {
        panic!("{commands:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    write(&mut switch, 2);
    let (object, layer) = ("data/x".parse().unwrap(), "w".parse().unwrap());
    let answer = Err(RefusedIo(Error::exhausted("full")));
    let event = Event::WaypointAnswered { io: IoId(2), object, layer, answer };
    assert!(matches!(switch.handle(NOW, event)[..], [Command::Refuse { io: IoId(2), .. }]));
    assert_eq!(switch.load(), (0, 0));
}

#[test]
fn a_request_on_the_whole_object_passes_the_waypoint_of_its_reads_and_writes() {
    let mut switch = serving(&["* rw data/* -> waypoint w"]);
    let ops = || vec![Op::Create { exclusive: false }, Op::WriteFull { data: "abc".into() }];
    let commands = whole(&mut switch, 1, None, ops());
    assert_eq!(asked(&commands).unwrap().1.bytes, 3);
    let commands = admit(&mut switch, 1);
    assert_eq!(sent(&commands), to_waypoint(1));
    assert_eq!(switch.homeward(IoId(1)), Some(Span::WHOLE));
    let out = whole(&mut switch, 2, Some("w"), ops());
    assert_eq!(sent(&out), [(2, None)]);
    done(&mut switch, 2);
    done(&mut switch, 1);
    for free in [vec![Op::Remove], vec![Op::Stat]] {
        let commands = whole(&mut switch, 3, None, free);
        assert_eq!(sent(&commands), [(3, None)], "the rule is not about it");
        done(&mut switch, 3);
    }
    let mut switch = serving(&["* rw data/* 0..8 -> waypoint w"]);
    let commands = whole(&mut switch, 1, None, ops());
    assert!(matches!(commands[..], [Command::Refuse { .. }]), "{commands:?}");
    let commands = arrive(&mut switch, 2, None, vec![write_op(4, b"abcdefgh")]);
    assert_eq!(asked(&commands).unwrap().0, 2);
    let commands = admit(&mut switch, 2);
    assert_eq!(sent(&commands), [(2, Some("waypoint w".to_owned())), (2, None)]);
    let is_part = |one: &Command| matches!(one, Command::Forward { ops: PieceOps::Part(_), .. });
    assert!(commands.iter().all(is_part), "a range of bytes passes, the rest does not");
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn limit(rate: f64, burst: f64, longest: usize) -> Limit {
    Limit { rate, burst, longest }
}

#[test]
fn a_queue_releases_io_by_priority_and_then_in_order_of_arrival() {
    let mut queue = HoldingQueue::new(NOW, limit(1.0, 2.0, 10));
    for (io, priority) in [(1, 1.0), (2, 1.0), (3, -0.5), (4, 0.0), (5, 1.0)] {
        queue.arrive(NOW, IoId(io), 1.0, priority).unwrap();
    }
    assert_eq!(queue.release(NOW), [IoId(3), IoId(4)]);
    assert_eq!(queue.release(seconds(0.5)), []);
    assert_eq!(queue.release(seconds(1.1)), [IoId(1)]);
    assert_eq!(queue.release(seconds(9.0)), [IoId(2), IoId(5)]);
    assert!(queue.is_empty() && queue.next().is_none());
}

#[test]
fn a_full_queue_refuses_io_and_io_does_not_wait_for_ever() {
    let mut queue = HoldingQueue::new(NOW, limit(1e-9, 1.0, 2));
    queue.arrive(NOW, IoId(1), 1.0, 0.0).unwrap();
    queue.arrive(NOW, IoId(2), 1.0, 0.0).unwrap();
    let error = queue.arrive(NOW, IoId(3), 1.0, 0.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(queue.release(NOW), [IoId(1)]);
    assert_eq!(queue.next(), Some(MAX_WAYPOINT_WAIT));
    assert_eq!(queue.expire(MAX_WAYPOINT_WAIT - Duration::from_millis(1)), []);
    assert_eq!(queue.expire(MAX_WAYPOINT_WAIT), [IoId(2)]);
    for wrong in [limit(0.0, 1.0, 1), limit(1.0, f64::NAN, 1), limit(1.0, 1.0, 0)] {
        assert_eq!(wrong.check().unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_queue_never_releases_more_than_its_rate_and_burst_and_loses_no_io() {
    CASES.each(200, |seed| {
        let mut random = Random::seeded(seed);
        let rate = 1.0 + random.below(50) as f64;
        let burst = 1.0 + random.below(10) as f64;
        let mut queue = HoldingQueue::new(NOW, limit(rate, burst, 1000));
        let (mut now, mut waiting) = (0.0, BTreeMap::new());
        let mut released: Vec<(f64, f64)> = vec![];
        for number in 0..200 {
            now += random.below(1000) as f64 / 10_000.0;
            let cost = random.below(8) as f64;
            let cost = cost.min(burst);
            queue.arrive(seconds(now), IoId(number), cost, random.below(3) as f64).unwrap();
            waiting.insert(IoId(number), cost);
            for io in queue.release(seconds(now)) {
                released.push((now, waiting.remove(&io).unwrap()));
            }
            assert_eq!(queue.len(), waiting.len());
        }
        // A run of at most twenty seconds: no IO is too late as long as it is released in order.
        while let Some(next) = queue.next() {
            now = next.as_secs_f64().max(now);
            let gone = queue.release(next.max(seconds(now)));
            assert!(!gone.is_empty() || !queue.expire(next).is_empty(), "it wakes for nothing");
            released.extend(gone.iter().map(|io| (now, waiting[io])));
        }
        for (at, (start, _)) in released.iter().enumerate() {
            let mut cost = 0.0;
            for (end, one) in &released[at..] {
                cost += one;
                assert!(
                    cost <= burst + rate * (end - start) + 1e-3,
                    "{cost} from {start} to {end}"
                );
            }
        }
    });
}

#[test]
fn an_io_that_costs_more_than_the_burst_is_paid_back_by_later_io() {
    let mut queue = HoldingQueue::new(NOW, limit(1.0, 2.0, 10));
    queue.arrive(NOW, IoId(1), 10.0, 0.0).unwrap();
    queue.arrive(NOW, IoId(2), 1.0, 0.0).unwrap();
    assert_eq!(queue.release(NOW), [IoId(1)], "the bucket is full");
    assert_eq!(queue.release(seconds(8.9)), []);
    assert_eq!(queue.release(seconds(9.1)), [IoId(2)]);
    queue.arrive(seconds(9.1), IoId(3), 1.0, 0.0).unwrap();
    queue.forget(IoId(3));
    queue.set_limit(seconds(9.1), limit(5.0, 1.0, 10));
    assert!(queue.is_empty());
}
