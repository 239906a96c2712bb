//! The dialect of the Mantle paper: what a policy finds, and what its hooks may be.

mod common;

use common::{FRAGMENTS, clock, decide, failure, line_of, moves, policy, tick};
use nacre_balance::{Mode, Policy, RankLoad, UnitRates};
use nacre_object::ErrorKind;

/// A policy that always moves, with the given `where`.
fn moving(where_: &str) -> String {
    format!("when = 'return true'\nwhere = [[{where_}]]")
}

#[test]
fn an_empty_policy_is_the_original_of_cephfs() {
    let original = policy("-- nothing");
    let mut inputs = tick(0, &[111.4, 0.0], &FRAGMENTS);
    let decision = decide(&original, &inputs);
    assert!(decision.is_due);
    assert_eq!(decision.loads, [111.4, 0.0]);
    // Half the load times 0.8, as Mantle tells in section 3.3: 15.7 + 14.6 + 14.6.
    assert!((decision.targets[1] - 44.56).abs() < 1e-9, "{:?}", decision.targets);
    assert_eq!(moves(&decision), "u5>1 u4>1 u8>1");
    assert_eq!(decision.selectors, [(1, "big_first".to_owned())]);
    assert!((decision.moved_load() - 44.9).abs() < 1e-9);
    inputs.whoami = 1;
    assert!(!decide(&original, &inputs).is_due);
}

#[test]
fn the_original_policy_weighs_loads_as_the_mantle_paper_says() {
    let rates = UnitRates { ird: 1.0, iwr: 10.0, readdir: 100.0, fetch: 1000.0, store: 10_000.0 };
    let loads = policy("-- nothing").measure(&[rates, UnitRates::default()], &clock());
    assert_eq!(loads.unwrap(), [1.0 + 20.0 + 100.0 + 2000.0 + 40_000.0, 0.0]);
    let mut inputs = tick(0, &[0.0], &[]);
    inputs.ranks[0] =
        RankLoad { auth: 10.0, all: 100.0, requests: 1000.0, queue: 5.0, ..RankLoad::default() };
    assert_eq!(decide(&policy("-- nothing"), &inputs).loads, [8.0 + 20.0 + 1000.0 + 50.0]);
}

#[test]
fn the_original_policy_pairs_the_busiest_ranks_with_the_idlest_ranks() {
    // The average load is 50. Rank 0 is 40 above it and rank 1 is 30 above it. Rank 2 is 50 below
    // it and rank 3 is 20 below it.
    let loads = [90.0, 80.0, 0.0, 30.0];
    let original = policy("-- nothing");
    let targets = |whoami| decide(&original, &tick(whoami, &loads, &[1.0])).targets;
    assert_eq!(targets(0), [0.0, 0.0, 0.8 * 40.0, 0.0]);
    assert_eq!(targets(1), [0.0, 0.0, 0.8 * 10.0, 0.8 * 20.0]);
    assert_eq!(targets(2), [0.0; 4]);
}

#[test]
fn the_original_policy_moves_nothing_under_a_minimum() {
    let decision = decide(&policy("-- nothing"), &tick(0, &[0.015, 0.0], &[0.015]));
    assert!(decision.is_due);
    assert_eq!((decision.targets, decision.moves), (vec![0.0, 0.0], vec![]));
}

#[test]
fn ranks_count_from_one_and_have_all_metrics() {
    let mut inputs = tick(1, &[0.0, 0.0, 0.0], &[3.0, 4.0]);
    inputs.ranks[1] = RankLoad {
        node: "n2".into(),
        auth: 1.0,
        all: 2.5,
        cpu: 3.0,
        mem: 4.0,
        queue: 5.0,
        requests: 6.0,
        labels: [("rack".to_owned(), "r1".to_owned())].into(),
        capacity: 2.0,
    };
    decide(
        &policy(
            r#"
            mdsload = "i"
            function when()
              assert(whoami == 2 and #MDSs == 3 and mds == MDSs and MDSs[4] == nil)
              local me = mds[whoami]
              assert(me["auth"] == 1 and me["all"] == 2.5 and me["cpu"] == 3 and me["mem"] == 4)
              assert(me["q"] == 5 and me["req"] == 6 and me["load"] == 2 and total == 6)
              assert(me.node == "n2" and me.labels.rack == "r1" and me.capacity == 2)
              assert(authmetaload == 7 and allmetaload == 8.5)
              assert(IRD == 7 and IWR == 0)
              assert(max(1, 2) == 2 and min(1, 2) == 1 and Max(1, 2) == 2 and Min(1, 2) == 1)
              assert(#units == 2 and units[2].name == "u2" and units[2].load == 4)
              assert(units[1].kind == "sequencer" and units[1].tenant == "alice")
              return false
            end"#,
        ),
        &inputs,
    );
}

#[test]
fn metaload_sees_the_counters_of_the_unit_under_evaluation() {
    let units = [
        UnitRates { ird: 1.0, iwr: 2.0, readdir: 3.0, fetch: 4.0, store: 5.0 },
        UnitRates { ird: 10.0, ..UnitRates::default() },
    ];
    let all = "IRD * 10000 + IWR * 1000 + READDIR * 100 + FETCH * 10 + STORE";
    for source in [
        format!("metaload = '{all}'"),
        format!("metaload = [[\n{all} -- a comment]]"),
        format!("function metaload() return {all} end"),
        format!("helper = function(x) return x end metaload = 'helper({all})'"),
    ] {
        assert_eq!(policy(&source).measure(&units, &clock()).unwrap(), [12_345.0, 100_000.0]);
    }
}

#[test]
fn each_unit_is_measured_by_its_own_counters() {
    for count in [0, 1, 7, 8, 9, 511, 512, 513, 1500] {
        let rates = |at: u32| UnitRates { ird: f64::from(at), iwr: 1.0, ..UnitRates::default() };
        let units: Vec<_> = (0..count).map(rates).collect();
        let expected: Vec<_> = (0..count).map(|at| f64::from(at) + 2.0).collect();
        let long = format!("metaload = [[IRD + 2*IWR {}]]", " ".repeat(2000));
        for source in ["-- nothing", "function metaload() return IRD + 2*IWR end", &long] {
            assert_eq!(policy(source).measure(&units, &clock()).unwrap(), expected, "{source}");
        }
    }
}

#[test]
fn a_policy_may_write_its_when_hook_in_any_of_five_forms() {
    for (source, is_due) in [
        ("when = [[if MDSs[whoami]['load'] > 5 then]]", true),
        ("when = [[local limit = 50 if MDSs[whoami]['load'] > limit then]]", false),
        ("when = [[when = MDSs[whoami]['load'] > 5]]", true),
        ("when = [[if MDSs[whoami]['load'] > 5 then when = true end]]", true),
        ("when = [[return MDSs[whoami]['load'] > 5]]", true),
        ("when = [[MDSs[whoami]['load'] > 5]]", true),
        ("function when() return mds[whoami]['load'] > 5 end", true),
        ("function when() end", false),
        ("when = [[local x = 1]]", false),
    ] {
        let source = format!("mdsload = 'MDSs[i].all'\nwhere = ''\n{source}");
        assert_eq!(
            decide(&policy(&source), &tick(0, &[10.0, 0.0], &[])).is_due,
            is_due,
            "{source}"
        );
    }
}

#[test]
fn the_locals_of_an_open_when_are_visible_in_where() {
    let source = "
        mdsload = 'MDSs[i].all'
        when = [[local t = 2 if MDSs[whoami]['load'] > 0 then]]
        where = [[targets[t] = MDSs[whoami]['load'] / 2]]
        howmuch = {'half'}";
    let decision = decide(&policy(source), &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
    assert_eq!(decision.targets, [0.0, 5.0]);
    assert_eq!(moves(&decision), "u1>1");
    assert!(decide(&policy(source), &tick(1, &[10.0, 0.0], &[])).moves.is_empty());
}

#[test]
fn an_open_when_works_with_a_where_that_is_a_function_or_missing() {
    let when = "when = [[if whoami == 1 then]]\n";
    let function = format!("{when}function where() targets[2] = 3 end");
    assert_eq!(decide(&policy(&function), &tick(0, &[9.0, 1.0], &[])).targets, [0.0, 3.0]);
    assert_eq!(decide(&policy(&function), &tick(1, &[9.0, 1.0], &[])).targets, [0.0, 0.0]);
    assert_eq!(decide(&policy(when), &tick(0, &[9.0, 1.0], &[])).targets, [0.0, 3.2]);
}

#[test]
fn a_policy_may_use_the_spelling_of_the_malacology_paper() {
    let source = "
        function when() return mds[whoami + 1] ~= nil and mds[whoami + 1]['load'] < 1 end
        function where() targets[#mds] = mds[whoami]['load'] / 2 end
        mode = 'proxy'";
    let policy = policy(source);
    assert_eq!(policy.mode(), Mode::Proxy);
    let decision = decide(&policy, &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
    assert_eq!(moves(&decision), "u1>1");
    // It waits until the receiver's load has fallen.
    assert!(!decide(&policy, &tick(0, &[10.0, 5.0], &[5.0, 5.0])).is_due);
}

#[test]
fn any_target_for_the_own_rank_voids_all_targets() {
    for own in ["targets[whoami] = 1", "targets[whoami] = 0"] {
        let source = moving(&format!("targets[2] = 5 {own}"));
        let decision = decide(&policy(&source), &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
        assert!(decision.is_due);
        assert_eq!((decision.targets, decision.moves), (vec![0.0, 0.0], vec![]));
    }
}

#[test]
fn every_selector_runs_and_the_nearest_wins() {
    let source = moving("targets[2] = 55.6");
    for (selectors, won, moved) in [
        ("'big_first', 'small_first', 'big_small', 'half'", "big_small", 56.3),
        ("'half', 'small', 'big'", "half", 53.9),
        ("'big', 'small_first'", "big", 58.6),
        ("'small'", "small", 66.5),
    ] {
        let source = format!("{source}\nhowmuch = {{ {selectors} }}");
        let decision = decide(&policy(&source), &tick(0, &[111.4, 0.0], &FRAGMENTS));
        assert_eq!(decision.selectors, [(1, won.to_owned())]);
        assert!((decision.moved_load() - moved).abs() < 1e-9, "{won}");
        let text = source.replace("howmuch = {", "howmuch = [[{").replace(" }", " }]]");
        assert_eq!(decide(&policy(&text), &tick(0, &[111.4, 0.0], &FRAGMENTS)), decision);
    }
}

#[test]
fn a_policy_may_name_one_selector_without_a_list() {
    let source = moving("targets[2] = 55.6") + "\nhowmuch = 'small_half'";
    let decision = decide(&policy(&source), &tick(0, &[111.4, 0.0], &FRAGMENTS));
    assert_eq!(decision.selectors, [(1, "small_half".to_owned())]);
}

#[test]
fn a_policy_may_select_units_with_a_function() {
    let source = moving("targets[2] = 55.6 targets[3] = 13")
        + "\nhowmuch = { 'half', function(list, target, rank)
             assert(list[1].kind == 'sequencer' and list[1].tenant == 'alice')
             if rank == 3 then return { 1 } end
             assert(target == 55.6)
             return { 5, 4, 8, 1 } -- 57.6
           end, 'big_first' }";
    let decision = decide(&policy(&source), &tick(0, &[111.4, 0.0, 0.0], &FRAGMENTS));
    // The target of rank 2 is 55.6, and the nearest selection is the first half of the units, with
    // a sum of 53.9. The target of rank 3 is 13, and the first of the remaining units is the
    // nearest selection.
    assert_eq!(moves(&decision), "u1>1 u2>1 u3>1 u4>1 u5>2");
    let selectors = [(1, "half".to_owned()), (2, "howmuch[2]".to_owned())];
    assert_eq!(decision.selectors, selectors);
}

#[test]
fn a_policys_state_is_nil_at_first_and_then_its_last_written_value() {
    let source = "
        function when()
          local state = RDstate()
          if state == nil then
            WRstate({ count = 1, list = { 1, 'two', true } })
          else
            assert(state.list[2] == 'two' and state.list[3] == true and RDState().count == state.count)
            WRState({ count = state.count + 1, list = state.list })
          end
          return false
        end";
    let policy = policy(source);
    let mut inputs = tick(0, &[1.0], &[]);
    for count in 1..=3 {
        inputs.state = decide(&policy, &inputs).state;
        assert_eq!(inputs.state.value()["count"], f64::from(count));
    }
    // A policy that writes no state keeps the stored one.
    let silent = common::policy("when = 'false'");
    assert_eq!(decide(&silent, &inputs).state, inputs.state);
}

#[test]
fn the_hook_placement_can_forbid_moves() {
    let source = moving("targets[2] = 5 targets[3] = 5")
        + "\nfunction placement(unit, rank)
             return MDSs[rank].labels.sequencers == 'yes' or unit.kind ~= 'sequencer'
           end";
    let mut inputs = tick(0, &[10.0, 0.0, 0.0], &[5.0, 5.0]);
    inputs.ranks[2].labels.insert("sequencers".into(), "yes".into());
    assert_eq!(moves(&decide(&policy(&source), &inputs)), "u1>2");
    inputs.units[1].kind = "directory".into();
    assert_eq!(moves(&decide(&policy(&source), &inputs)), "u2>1 u1>2");
}

#[test]
fn the_policies_of_the_mantle_paper_run_once_their_mistakes_are_fixed() {
    let listing_3 = r#"
        mdsload = [=[MDSs[i]["all"]]=]
        when = [[wait=RDState() or 0; go = 0;
          if MDSs[whoami]["cpu"]>48 then
            if wait>0 then WRState(wait-1)
            else WRState(2); go=1; end
          else WRState(2) end
          if go==1 then]]
        where = [[targets[whoami+1] = MDSs[whoami]["load"]/4]]"#;
    let mut inputs = tick(0, &[80.0, 0.0], &[20.0; 4]);
    inputs.ranks[0].cpu = 90.0;
    let policy_3 = policy(listing_3);
    let mut due = vec![];
    for _ in 0..6 {
        let decision = decide(&policy_3, &inputs);
        inputs.state = decision.state.clone();
        due.push(decision.is_due);
    }
    assert_eq!(due, [true, false, false, true, false, false]);
    let listing_4 = r#"
        metaload = "IWR"
        mdsload = [=[MDSs[i]["all"]]=]
        when = [[max=0
          for i=1,#MDSs do
              max = Max(MDSs[i]["load"], max)
          end
          myLoad = MDSs[whoami]["load"]
          if myLoad>total/2 and myLoad>=max then]]
        where = [[targetLoad=total/#MDSs
          for i=1,#MDSs do
              if MDSs[i]["load"]<targetLoad then
                  targets[i]=targetLoad-MDSs[i]["load"]
              end
          end]]
        howmuch = {"half", "small", "big", "big_small"}"#;
    let decision = decide(&policy(listing_4), &tick(0, &[90.0, 0.0, 0.0], &[30.0; 3]));
    assert_eq!(decision.targets, [0.0, 30.0, 30.0]);
    assert_eq!(decision.selectors[0].1, "half");
}

#[test]
fn a_neighbour_that_does_not_exist_is_a_fault_with_its_line() {
    let listing_1 = "mdsload = [=[MDSs[i]['all']]=]\n\nwhen = [[\nif MDSs[whoami]['load'] > .01 and\n   \
                     MDSs[whoami+1]['load'] < .01 then\n]]\nwhere = [[targets[whoami+1]=allmetaload/2]]";
    let spilled = decide(&policy(listing_1), &tick(0, &[9.0, 0.0], &[9.0]));
    assert_eq!(spilled.targets, [0.0, 4.5]);
    let error = failure(listing_1, &tick(1, &[0.0, 9.0], &[9.0]));
    assert_eq!((error.kind(), line_of(&error)), (ErrorKind::Fault, Some(5)));
    let site = error.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version), ("balancer/test", 7));
    assert_eq!(error.message(), "attempt to index nil with 'load'");
}

#[test]
fn a_decision_can_be_stored_and_replayed() {
    let original = policy("-- nothing");
    let inputs = tick(0, &[111.4, 0.0], &FRAGMENTS);
    let stored = serde_json::to_string(&inputs).unwrap();
    let decision = serde_json::to_string(&decide(&original, &inputs)).unwrap();
    let again: nacre_balance::Inputs = serde_json::from_str(&stored).unwrap();
    assert_eq!(again, inputs);
    assert_eq!(serde_json::to_string(&decide(&original, &again)).unwrap(), decision);
    let sparse: RankLoad = serde_json::from_str(r#"{"auth": 3}"#).unwrap();
    assert_eq!(sparse, RankLoad { auth: 3.0, ..RankLoad::default() });
    assert_eq!(sparse.capacity, 1.0);
}

#[test]
fn a_run_leaves_nothing_for_the_next_run() {
    let source = "when = [[count = (count or 0) + 1 when = count > 1]]";
    let policy: Policy = policy(source);
    for _ in 0..3 {
        assert!(!decide(&policy, &tick(0, &[1.0], &[])).is_due);
    }
}
