//! Tests of a switch with rules that name a program, event by event. The test itself plays the
//! program.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::rules;
use nacre_object::{Error, ErrorKind, Op, Request};
use nacre_route::{
    Command, Declared, Destination, Event, FindingKind, Header, IoId, Order, Outcome, PieceOps,
    ProgramAsk, ProgramDecision, Programs, Record, RefusedIo, Routes, Rule, RuleChange, Switch,
    SwitchRules, Term, Wanted, check,
};

const NOW: Duration = Duration::ZERO;
const RULE: &str = "* w data/* -> program p follow";

fn to(text: &str) -> Destination {
    Destination::from_line(text).unwrap()
}

fn declared(version: u64) -> Programs {
    let destinations = vec![to("home"), to("target t1"), to("target t2")];
    [("p".parse().unwrap(), Declared { version, destinations })].into()
}

fn order(switch: &mut Switch, term: u64, order: Order) -> Vec<Command> {
    switch.handle(NOW, Event::Ordered { ticket: 7, term: Term(term), order })
}

fn install(switch: &mut Switch, term: u64, version: u64, text: &[&str]) -> Vec<Command> {
    let (insertions, programs) = (vec![rules(text)], declared(version));
    let rules = SwitchRules { insertions, programs, ..SwitchRules::default() };
    order(switch, term, Order::Install(rules));
    order(switch, term, Order::Resume)
}

fn serving(text: &[&str]) -> Switch {
    let mut switch = Switch::new("s".parse().unwrap());
    install(&mut switch, 1, 1, text);
    switch
}

fn ask(switch: &mut Switch, io: u64, op: Op) -> Vec<Command> {
    let request = Request::new("data/x".parse().unwrap(), vec![op]).unwrap();
    switch.handle(
        NOW,
        Event::Arrived { io: IoId(io), request: request.into(), via: None, home: None, term: None },
    )
}

fn write(switch: &mut Switch, io: u64, offset: u64) -> Vec<Command> {
    ask(switch, io, Op::Write { offset, data: Bytes::from_static(b"abcd") })
}

fn read(switch: &mut Switch, io: u64, offset: u64, length: u64) -> Vec<Command> {
    ask(switch, io, Op::Read { offset, length })
}

fn done(switch: &mut Switch, io: u64) -> Vec<Command> {
    switch.handle(NOW, Event::PieceDone { io: IoId(io), piece: 0, outcome: Outcome::Done })
}

fn decide(switch: &mut Switch, asked: &[Command], said: &str) -> Vec<Command> {
    decide_with(switch, asked, said, &[])
}

fn decide_with(
    switch: &mut Switch,
    asked: &[Command],
    said: &str,
    changes: &[RuleChange],
) -> Vec<Command> {
    let (io, term, asks) = asks(asked);
    let decision = |ask: &ProgramAsk| ProgramDecision {
        rule: ask.rule,
        span: ask.io.span,
        destination: to(said),
        changes: changes.to_vec(),
    };
    let (object, decided) = (asks[0].io.object.clone(), asks.iter().map(decision).collect());
    switch.handle(NOW, Event::ProgramsDecided { io, object, term, decided: Ok(decided) })
}

/// The questions to programs among some commands.
fn asks(commands: &[Command]) -> (IoId, Term, Vec<ProgramAsk>) {
    let found = commands.iter().find_map(|command| match command {
        Command::AskPrograms { io, term, asks } => Some((*io, *term, asks.clone())),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no program is asked: {commands:?}"))
}

/// What commands do, in words.
fn told(commands: &[Command]) -> Vec<String> {
    let tell = |command: &Command| match command {
        Command::Forward { io, destination, ops, .. } => {
            let to = destination.as_ref().map_or("on".to_owned(), Destination::to_string);
            let bytes = match ops {
                PieceOps::Part(Op::Write { offset, data }) => format!(" {offset}+{}", data.len()),
                PieceOps::Part(Op::Read { offset, length }) => format!(" {offset}+{length}"),
                PieceOps::Part(op) => panic!("{op:?} is not divided"),
                PieceOps::All => String::new(),
            };
            format!("{}{bytes} to {to}", io.0)
        }
        Command::Finish { io } => format!("{} finished", io.0),
        Command::Refuse { io, error } => format!("{} refused: {}", io.0, error.0.message()),
        Command::AskPrograms { io, asks, .. } => {
            let versions: Vec<_> = asks.iter().map(|ask| ask.version.to_string()).collect();
            format!("{} asks version {}", io.0, versions.join(", "))
        }
        other => format!("{other:?}"),
    };
    commands.iter().map(tell).collect()
}

fn insert(header: &str, destination: &str) -> RuleChange {
    let (header, destination) = (Header::from_line(header).unwrap(), to(destination));
    RuleChange::Insert { header, destination }
}

#[test]
fn a_rule_that_names_a_program_is_read_as_it_is_printed() {
    let text = "nacre routes 1\npool data\ntarget t1\nswitch s at source *\nprogram p to home\n\
                program p to target t1\napplication a on s\n  * w data/* -> program p follow\n";
    let routes: Routes = text.parse().unwrap();
    assert_eq!(routes.to_string(), text);
    assert_eq!(routes.insertions[0].rules[0].destination, to("program p"));
    let chained = text.replace("program p to home", "program p to program q");
    let error = chained.parse::<Routes>().unwrap_err();
    assert!(error.to_string().contains("line 5"), "{error}");
}

fn findings(program: &str, rule: &str) -> Vec<FindingKind> {
    let text = format!(
        "nacre routes 1\npool data\ntarget t1\nswitch s at source *\n{program}application a on s\n  {rule}\n"
    );
    let checked = check(&text.parse().unwrap()).unwrap();
    checked.findings.into_iter().map(|finding| finding.kind).collect()
}

#[test]
fn the_analysis_follows_every_destination_that_a_program_declares() {
    let (home, away) = ("program p to home\n", "program p to target t1\n");
    assert_eq!(findings(&format!("{home}{away}"), RULE), []);
    let missing = |what: &str| vec![FindingKind::BlackHole { missing: what.to_owned() }];
    assert_eq!(findings(&format!("{home}program p to target t9\n"), RULE), missing("target t9"));
    assert_eq!(findings("", RULE), missing("program p"));
    let unfollowed = "* w data/* -> program p";
    assert_eq!(findings(home, unfollowed), []);
    assert_eq!(findings(&format!("{home}{away}"), unfollowed), [FindingKind::MissedWrite]);
}

#[test]
fn a_record_says_that_bytes_may_be_at_each_declared_destination_of_any_version() {
    let followed = |record: &Record| -> Vec<String> {
        record.followed.iter().map(|one| one.destination.to_string()).collect()
    };
    let rules = [("s".parse().unwrap(), vec![rules(&[RULE])])].into();
    let wanted = Wanted { rules, programs: declared(1), ..Wanted::default() };
    let record = Record::default().next(wanted.clone()).unwrap();
    assert_eq!(followed(&record), ["home", "target t1", "target t2"]);
    let mut newer = declared(2);
    newer.values_mut().for_each(|one| one.destinations = vec![to("target t3")]);
    let swapped = record.clone().with_programs(newer.clone());
    assert_eq!(followed(&swapped), ["home", "target t1", "target t2", "target t3"]);
    let next = record.next(Wanted { programs: newer, ..wanted }).unwrap();
    assert_eq!(followed(&next), followed(&swapped));
    assert!(record.concerned(&next).contains(&Header::from_line("* w data/*").unwrap()));
}

#[test]
fn an_io_waits_until_its_program_has_decided() {
    let mut switch = serving(&[RULE]);
    let asked = write(&mut switch, 1, 0);
    assert_eq!(told(&asked), ["1 asks version 1"]);
    let (_, _, questions) = asks(&asked);
    assert_eq!(questions[0].io.to_string(), "entity:local tenant:default w data/x 0..4");
    assert_eq!(read(&mut switch, 2, 0, 4), [], "a read of the same bytes keeps its order");
    assert_eq!(told(&read(&mut switch, 3, 100, 4)), ["3 to on"], "other bytes go on");
    assert_eq!(switch.handle(NOW, Event::Tick), [], "nobody is asked twice");
    assert_eq!(told(&decide(&mut switch, &asked, "target t1")), ["1 to target t1"]);
    let finished = done(&mut switch, 1);
    assert_eq!(told(&finished), ["1 finished", "2 to target t1"], "reads follow the write");
}

#[test]
fn no_program_is_asked_about_bytes_whose_rule_names_none() {
    let mut switch = serving(&["* w data/x 0..4 -> target t1 follow", RULE]);
    assert_eq!(told(&write(&mut switch, 1, 0)), ["1 to target t1"]);
    assert_eq!(told(&read(&mut switch, 2, 8, 4)), ["2 to on"]);
    let asked = write(&mut switch, 3, 2);
    let (_, _, questions) = asks(&asked);
    let spans: Vec<_> = questions.iter().map(|ask| ask.io.span.unwrap().to_string()).collect();
    assert_eq!(spans, ["4..6"], "a program is asked about the bytes of its own rule");
    done(&mut switch, 1);
    let sent = told(&decide(&mut switch, &asked, "target t2"));
    assert_eq!(sent, ["3 2+2 to target t1", "3 4+2 to target t2"]);
}

#[test]
fn a_failing_program_fails_only_the_io_it_was_asked_about() {
    let mut switch = serving(&[RULE]);
    let (first, second) = (write(&mut switch, 1, 0), write(&mut switch, 2, 100));
    let (io, term, questions) = asks(&first);
    let (object, decided) = (questions[0].io.object.clone(), Err(RefusedIo(Error::invalid("oh"))));
    let failed = switch.handle(NOW, Event::ProgramsDecided { io, object, term, decided });
    assert_eq!(told(&failed), ["1 refused: oh"]);
    assert_eq!(told(&decide(&mut switch, &second, "home")), ["2 to home"]);
    let third = write(&mut switch, 3, 200);
    let refused = told(&decide(&mut switch, &third, "target t9"));
    assert!(refused[0].contains("does not declare the destination \"target t9\""), "{refused:?}");
}

#[test]
fn a_switch_ignores_a_decision_of_a_replaced_version() {
    let mut switch = serving(&[RULE]);
    let asked = write(&mut switch, 1, 0);
    let again = install(&mut switch, 2, 2, &[RULE]);
    assert_eq!(told(&again[1..]), ["1 asks version 2"]);
    assert_eq!(decide(&mut switch, &asked, "target t1"), []);
    assert_eq!(told(&decide(&mut switch, &again, "target t2")), ["1 to target t2"]);
}

#[test]
fn a_drain_waits_for_io_that_an_earlier_version_decided() {
    let mut switch = serving(&[RULE]);
    let asked = write(&mut switch, 1, 0);
    decide(&mut switch, &asked, "target t1");
    let held = Header::from_line("* * data/*").unwrap();
    order(&mut switch, 2, Order::Quiesce(vec![held]));
    assert_eq!(order(&mut switch, 2, Order::Drain), []);
    assert_eq!(write(&mut switch, 2, 0), []);
    let ended = done(&mut switch, 1);
    assert!(
        matches!(ended[..], [Command::Finish { .. }, Command::AnswerOrder { .. }]),
        "{ended:?}"
    );
}

#[test]
fn a_rule_that_a_program_inserts_decides_instead_of_the_program() {
    let mut switch = serving(&[RULE]);
    let asked = write(&mut switch, 1, 0);
    let changes = [insert("* w data/x 0..6", "target t2")];
    let sent = decide_with(&mut switch, &asked, "target t1", &changes);
    assert_eq!(told(&sent), ["1 to target t1"], "the decision is about the IO itself");
    done(&mut switch, 1);
    assert_eq!(told(&write(&mut switch, 2, 0)), ["2 to target t2"]);
    done(&mut switch, 2);
    let asked = write(&mut switch, 3, 4);
    assert_eq!(asks(&asked).2[0].io.span.unwrap().to_string(), "6..8");
    let changes = [RuleChange::Delete(Header::from_line("* w data/x 0..6").unwrap())];
    let sent = decide_with(&mut switch, &asked, "home", &changes);
    let again = told(&sent);
    assert_eq!(again, ["3 asks version 1"], "the bytes of the deleted rule have no way now");
    let sent = decide(&mut switch, &sent, "target t1");
    assert_eq!(told(&sent), ["3 4+2 to target t1", "3 6+2 to home"]);
}

#[test]
fn a_program_inserts_rules_about_its_own_io_and_declared_destinations_only() {
    for (header, destination) in
        [("* w data/x", "target t9"), ("* r data/x", "target t1"), ("* w other/x", "target t1")]
    {
        let mut switch = serving(&[RULE]);
        let asked = write(&mut switch, 1, 0);
        let refused = decide_with(&mut switch, &asked, "home", &[insert(header, destination)]);
        assert!(told(&refused)[0].contains("refused"), "{header}: {refused:?}");
    }
}

#[test]
fn inserted_rules_last_until_the_rule_or_version_of_their_program_changes() {
    let mut switch = serving(&[RULE]);
    let asked = write(&mut switch, 1, 0);
    decide_with(&mut switch, &asked, "target t1", &[insert("* w data/x", "target t2")]);
    done(&mut switch, 1);
    install(&mut switch, 2, 1, &["* w data/y -> target t1 follow", RULE]);
    assert_eq!(told(&write(&mut switch, 2, 0)), ["2 to target t2"]);
    done(&mut switch, 2);
    install(&mut switch, 3, 2, &["* w data/y -> target t1 follow", RULE]);
    assert_eq!(told(&write(&mut switch, 3, 0)), ["3 asks version 2"]);
}

#[test]
fn io_to_an_unknown_program_is_unavailable() {
    let mut switch = serving(&["* w data/* -> program q follow"]);
    let refused = write(&mut switch, 1, 0);
    let [Command::Refuse { error, .. }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(error.0.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_header_covers_every_header_that_is_a_part_of_it() {
    let covers =
        |a: &str, b: &str| Header::from_line(a).unwrap().covers(&Header::from_line(b).unwrap());
    assert!(covers("* w data/*", "entity:a w data/x 0..4"));
    assert!(covers("tenant:a rw data/x", "tenant:a w data/x"));
    assert!(!covers("tenant:a w data/*", "* w data/x"));
    assert!(!covers("* w data/*", "* rw data/x"));
    assert!(!covers("* w data/* 0..4", "* w data/x 2..8"));
    assert!(!covers("* w data/a*", "* w data/*"));
    let rule = Rule::from_line(&"a".parse().unwrap(), RULE).unwrap();
    assert!(rule.header.covers(&rule.header));
}
