//! Programs: put, list, show, diff, activate, roll back, remove.

mod common;

use std::sync::Arc;

use common::{NOW_MICROS, maps, program, programs, shipped_hooks, store};
use nacre_clock::{Clock, ManualClock};
use nacre_object::{ErrorKind, Op, PoolName, Request, Store};
use nacre_registry::limits::MAX_VERSIONS;
use nacre_registry::{ProgramKind, Programs, Removal, Severity};

#[tokio::test]
async fn a_program_of_a_kind_without_a_hook_is_refused() {
    let maps = maps(&store());
    let with_hooks = programs(&maps);
    let balancer = program("balancer/greedy");
    with_hooks.put(&balancer, "return 1").await.unwrap();
    with_hooks.put(&balancer, "return 2").await.unwrap();
    with_hooks.activate(&balancer, 1).await.unwrap();
    with_hooks.activate(&balancer, 2).await.unwrap();

    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW_MICROS));
    let programs = Programs::new(maps.clone(), Arc::clone(&clock), shipped_hooks(&clock));
    let refusals = [
        programs.put(&balancer, "return 3").await.map(drop),
        programs.activate(&balancer, 1).await.map(drop),
        programs.activate_instead(&balancer, 1, 2).await,
        programs.rollback(&balancer).await.map(drop),
    ];
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("class, map"), "{error}");
    }
    assert_eq!(programs.get(&balancer).await.unwrap().versions.len(), 2, "nothing was stored");
}

#[tokio::test]
async fn a_program_is_put_listed_and_shown() {
    let programs = programs(&maps(&store()));
    let (balancer, route) = (program("balancer/greedy"), program("route/greedy"));
    assert_eq!(programs.put(&balancer, "return 1\n").await.unwrap(), 1);
    assert_eq!(programs.put(&balancer, "return 1\n").await.unwrap(), 1, "nothing new");
    assert_eq!(programs.put(&balancer, "return 2\n").await.unwrap(), 2);
    assert_eq!(programs.put(&route, "return 2\n").await.unwrap(), 1);

    let listed: Vec<_> =
        programs.list(None).await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(listed, [balancer.clone(), route]);
    let [info] = &programs.list(Some(ProgramKind::Balancer)).await.unwrap()[..] else {
        panic!("there is one balancer")
    };
    assert_eq!((info.versions.len(), info.active), (2, None));
    assert_eq!((info.versions[1].bytes, info.versions[1].created_at_micros), (9, NOW_MICROS));

    let latest = programs.show(&balancer, None).await.unwrap();
    assert_eq!((latest.version, latest.source.as_str()), (2, "return 2\n"));
    assert_eq!(programs.show(&balancer, Some(1)).await.unwrap().source, "return 1\n");
    for (id, version) in [("balancer/greedy", Some(3)), ("balancer/none", None)] {
        let error = programs.show(&program(id), version).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test]
async fn a_source_that_fails_its_check_is_not_stored() {
    let store = store();
    let programs = programs(&maps(&store));
    let cases = [
        ("route/r", "x = 1\ny = do\n", Some(2), Some(5), "    2 | y = do\n      |     ^\n"),
        ("map/m", "x = = 1", Some(1), None, "    1 | x = = 1\n"),
        ("map/m", "local t = nil\nt.x = 1", Some(2), None, "    2 | t.x = 1\n"),
        ("map/m", "return 1", None, None, ""),
        ("map/m", "while true do end", Some(1), None, "    1 | while true do end\n"),
        ("map/programs", "function commit() end", None, None, ""),
    ];
    for (id, source, line, column, excerpt) in cases {
        let id = program(id);
        let error = programs.check(&id, source).unwrap_err();
        assert_eq!((error.line, error.column), (line, column), "{source}: {error}");
        assert_eq!(error.excerpt(source), excerpt, "{source}: {error}");
        let error = programs.put(&id, source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{source}: {error}");
        assert_eq!(error.fault().unwrap().line, line);
    }
    assert!(programs.list(None).await.unwrap().is_empty());
    let everything = nacre_object::ListRequest {
        pool: PoolName::system(),
        after: None,
        prefix: String::new(),
        limit: 10,
    };
    assert!(store.list(everything).await.unwrap().names.is_empty(), "nothing was stored");
}

#[tokio::test]
async fn diff_shows_how_two_versions_differ() {
    let programs = programs(&maps(&store()));
    let id = program("route/r");
    programs.put(&id, "local a = 1\nlocal b = 2\nreturn a\n").await.unwrap();
    programs.put(&id, "local a = 1\nlocal b = 3\nreturn a\n").await.unwrap();
    let expected = "--- route/r version 1\n+++ route/r version 2\n@@ -1,3 +1,3 @@\n local a = 1\n\
                    -local b = 2\n+local b = 3\n return a\n";
    assert_eq!(programs.diff(&id, 1, 2).await.unwrap(), expected);
    assert_eq!(programs.diff(&id, 1, 1).await.unwrap(), "");
}

#[tokio::test]
async fn activation_and_rollback_are_one_commit_and_one_event_each() {
    let maps = maps(&store());
    let programs = programs(&maps);
    let (one, two) = (program("route/one"), program("balancer/two"));
    for source in ["return 1", "return 2", "return 3"] {
        programs.put(&one, source).await.unwrap();
    }
    programs.put(&two, "return 1").await.unwrap();

    let both = [(one.clone(), 1), (two.clone(), 1)];
    let epoch = programs.activate_all(&both).await.unwrap();
    assert_eq!(epoch, 5, "four puts and one activation");
    assert_eq!(programs.activate_all(&both).await.unwrap(), 5, "nothing to do");
    programs.activate(&one, 3).await.unwrap();
    assert_eq!(programs.active(&one).await.unwrap(), Some(3));
    assert_eq!(programs.get(&one).await.unwrap().rollback_to, Some(1));
    assert_eq!(programs.rollback(&one).await.unwrap(), 1);
    assert_eq!(programs.active(&one).await.unwrap(), Some(1));
    assert_eq!(programs.rollback(&one).await.unwrap_err().kind(), ErrorKind::Invalid);

    let events = maps.events().recent(10).await.unwrap();
    let texts: Vec<_> = events.iter().map(|event| event.text.as_str()).collect();
    let expected = [
        "route/one version 1 is active",
        "balancer/two version 1 is active",
        "route/one version 3 is active",
        "route/one version 1 is active",
    ];
    assert_eq!(texts, expected);
    assert!(events.iter().all(|event| event.severity == Severity::Info));
    assert_eq!(events[3].fields["former"], "3");
    assert_eq!((events[3].sequence, events[3].at_micros), (4, NOW_MICROS));
}

#[tokio::test]
async fn several_activations_happen_together_or_not_at_all() {
    let programs = programs(&maps(&store()));
    let one = program("route/one");
    programs.put(&one, "return 1").await.unwrap();
    let versions = [(one.clone(), 1), (program("route/none"), 1)];
    let error = programs.activate_all(&versions).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(programs.active(&one).await.unwrap(), None);
}

#[tokio::test]
async fn an_active_version_is_removed_only_by_force() {
    let programs = programs(&maps(&store()));
    let id = program("route/r");
    programs.put(&id, "return 1").await.unwrap();
    programs.put(&id, "return 2").await.unwrap();
    programs.activate(&id, 1).await.unwrap();
    for version in [Some(1), None] {
        let error = programs.remove(&id, version, Removal::UnlessActive).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    programs.remove(&id, Some(2), Removal::UnlessActive).await.unwrap();
    programs.remove(&id, None, Removal::EvenIfActive).await.unwrap();
    assert!(programs.list(None).await.unwrap().is_empty());
    let error = programs.remove(&id, None, Removal::EvenIfActive).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(programs.put(&id, "return 1").await.unwrap(), 3);
}

#[tokio::test]
async fn the_oldest_inactive_versions_make_room_for_new_ones() {
    let programs = programs(&maps(&store()));
    let id = program("route/r");
    programs.put(&id, "return 0").await.unwrap();
    programs.activate(&id, 1).await.unwrap();
    for n in 1..=MAX_VERSIONS {
        programs.put(&id, &format!("return {n}")).await.unwrap();
    }
    let info = programs.get(&id).await.unwrap();
    assert_eq!(info.versions.len(), MAX_VERSIONS);
    assert_eq!((info.versions[0].version, info.versions[1].version), (1, 3));
}

#[tokio::test]
async fn a_damaged_source_is_reported_as_corrupt() {
    let store = store();
    let programs = programs(&maps(&store));
    let id = program("route/r");
    programs.put(&id, "return 1").await.unwrap();
    let digest = programs.show(&id, None).await.unwrap().digest;
    let object = format!("nacre.system/program/{digest}").parse().unwrap();
    let data = "return 2".into();
    store.submit(Request::new(object, vec![Op::WriteFull { data }]).unwrap()).await.unwrap();
    assert_eq!(programs.show(&id, None).await.unwrap_err().kind(), ErrorKind::Corrupt);
    // Put again it is whole again.
    programs.put(&id, "return 1").await.unwrap();
    assert_eq!(programs.show(&id, None).await.unwrap().source, "return 1");
}
