//! The cluster log.

mod common;

use std::time::Duration;

use common::{faulty_maps, maps, store};
use futures::StreamExt;
use nacre_class::FaultSink;
use nacre_conformance::Fault;
use nacre_conformance::faults::scripted;
use nacre_conformance::wait::within_deadline;
use nacre_object::{Error, FaultSite, NodeName};
use nacre_registry::{
    Event, EventItem, FaultReporter, ProgramFault, ProgramKind, ProgramSite, Severity,
};

fn event(text: &str) -> Event {
    Event::new(Severity::Warning, text).field("why", "because")
}

#[tokio::test]
async fn events_are_numbered_and_read_back_as_appended() {
    let maps = maps(&store());
    let events = maps.events();
    assert!(events.recent(10).await.unwrap().is_empty());
    let site = ProgramSite {
        kind: ProgramKind::Class,
        name: "c".parse().unwrap(),
        version: 3,
        line: Some(9),
    };
    let full = event("one").node(NodeName::new("n").unwrap()).program(site);
    let full = Event { at_micros: 5, ..full };
    assert_eq!(events.append(full.clone()).await.unwrap(), 1);
    for text in ["two", "three"] {
        events.append(event(text)).await.unwrap();
    }
    let all = events.after(0, 10).await.unwrap();
    assert_eq!(all[0], Event { sequence: 1, ..full });
    let expected = Event { sequence: 3, at_micros: common::NOW_MICROS, ..event("three") };
    assert_eq!(all[2], expected);
    assert_eq!(events.recent(2).await.unwrap(), all[1..]);
    assert_eq!(events.after(1, 1).await.unwrap(), all[1..2]);
}

#[tokio::test(start_paused = true)]
async fn an_append_whose_answer_is_lost_is_not_repeated() {
    let store = store();
    let plan = scripted([Some(Fault::FailAfter), Some(Fault::FailBefore), Some(Fault::FailAfter)]);
    let (maps, _) = faulty_maps(&store, plan);
    assert_eq!(maps.events().append(event("once")).await.unwrap(), 1);
    assert_eq!(maps.events().append(event("once")).await.unwrap(), 2, "another one like it");
    assert_eq!(maps.events().recent(9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_follower_hears_every_event() {
    let maps = maps(&store());
    let events = maps.events().clone();
    events.append(event("0")).await.unwrap();
    let followed = events.follow(0).into_stream().take(20);
    let append = async {
        for n in 1..20 {
            events.append(event(&n.to_string())).await.unwrap();
        }
    };
    let (items, ()) = tokio::join!(followed.collect::<Vec<_>>(), append);
    let texts = items.into_iter().map(|item| match item.unwrap() {
        EventItem::Event(event) => event.text,
        EventItem::Missed { .. } => panic!("nothing is missed"),
    });
    assert!(texts.eq((0..20).map(|n| n.to_string())));
}

#[tokio::test(start_paused = true)]
async fn a_program_that_fails_often_is_reported_once_a_second_with_a_count() {
    let maps = maps(&store());
    let events = maps.events().clone();
    let reporter = FaultReporter::start(events.clone(), NodeName::new("n").unwrap());
    let site = ProgramSite {
        kind: ProgramKind::Class,
        name: "c".parse().unwrap(),
        version: 2,
        line: None,
    };
    let fault = FaultSite { line: Some(4), traceback: "c:4".into(), ..FaultSite::default() };
    let error = Error::fault_at(fault, "oh");
    for _ in 0..100 {
        reporter.report(ProgramFault::new(site.clone(), &error));
    }
    let mut follower = events.follow(0);
    let mut reported = Vec::new();
    while reported.len() < 2 {
        if let EventItem::Event(event) =
            within_deadline("what is told next", follower.next()).await.unwrap()
        {
            reported.push(event);
        }
    }
    let counts: Vec<_> = reported.iter().map(|event| event.fields["count"].as_str()).collect();
    assert_eq!(counts, ["1", "99"]);
    assert_eq!(reported[0].text, "oh\nc:4");
    assert_eq!(reported[0].program.as_ref().unwrap().line, Some(4));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(events.recent(9).await.unwrap().len(), 2, "a quiet program is not reported");
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_class_runtime_are_reported_by_kind_and_name() {
    let maps = maps(&store());
    let events = maps.events().clone();
    let reporter = FaultReporter::start(events.clone(), NodeName::new("n").unwrap());
    let error = Error::fault_at(FaultSite::default(), "oh");
    for (program, version) in [("eval", 0), ("counter", 2), ("map/quota", 3)] {
        let fault = nacre_class::ProgramFault {
            program,
            version,
            method: "m",
            line: Some(1),
            error: &error,
            limit: None,
        };
        reporter.fault(&fault);
    }
    let followed = events.follow(0).into_stream().take(2).collect::<Vec<_>>().await;
    let sites = followed.into_iter().map(|item| match item.unwrap() {
        EventItem::Event(event) => {
            let site = event.program.unwrap();
            (site.kind, site.name.to_string(), site.version)
        }
        EventItem::Missed { .. } => panic!("nothing is missed"),
    });
    let expected =
        [(ProgramKind::Class, "counter".to_owned(), 2), (ProgramKind::Map, "quota".to_owned(), 3)];
    assert!(sites.eq(expected));
}
