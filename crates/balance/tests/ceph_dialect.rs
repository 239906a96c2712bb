//! The dialect of upstream Mantle, with its strict checks.

mod common;

use common::{clock, decide, failure, line_of, moves, policy, tick};
use nacre_balance::{Dialect, Policy};
use nacre_object::ErrorKind;

fn ceph(body: &str) -> String {
    format!("--!mantle\n{body}")
}

#[test]
fn the_first_line_of_a_policy_chooses_the_dialect_of_ceph() {
    assert_eq!(Dialect::of("--!mantle\nreturn {}"), Dialect::Ceph);
    assert_eq!(Dialect::of("\u{feff}--!mantle\r\nreturn {}"), Dialect::Ceph);
    assert_eq!(Dialect::of("\n--!mantle"), Dialect::Hooks);
    assert_eq!(Dialect::of("-- a policy"), Dialect::Hooks);
    assert_eq!(policy(&ceph("return {}")).dialect(), Dialect::Ceph);
}

#[test]
fn ranks_count_from_zero_and_have_the_metrics_of_ceph() {
    let source = ceph(
        r#"assert(whoami == 1 and mds[0] and mds[1] and mds[2] == nil)
        local me = mds[whoami]
        assert(me["auth.meta_load"] == 3 and me["all.meta_load"] == 4 and me["req_rate"] == 5)
        assert(me["queue_len"] == 6 and me["cpu_load_avg"] == 7)
        assert(string.format and math.max and table.concat)
        return { [0] = 2, [1] = 0 }"#,
    );
    let mut inputs = tick(1, &[0.0, 3.0], &[1.0, 2.0]);
    let me = &mut inputs.ranks[1];
    (me.all, me.requests, me.queue, me.cpu) = (4.0, 5.0, 6.0, 7.0);
    let decision = decide(&policy(&source), &inputs);
    assert_eq!(decision.targets, [2.0, 0.0]);
    assert_eq!((decision.loads.as_slice(), decision.total), (&[0.0, 4.0][..], 4.0));
    assert_eq!(moves(&decision), "u2>0");
}

#[test]
fn a_policy_of_upstream_ceph_runs_unmodified() {
    // The shape of Ceph's greedyspill.lua: it walks `mds`, gives each rank a load, and logs.
    let source = ceph(
        r#"local metrics = {"auth.meta_load", "all.meta_load", "req_rate", "queue_len", "cpu_load_avg"}
        for rank, metrics_of in pairs(mds) do
          local line = "MDS" .. rank .. ":"
          for _, metric in ipairs(metrics) do line = line .. " " .. metric .. "=" .. metrics_of[metric] end
          metrics_of.load = metrics_of["all.meta_load"]
          BAL_LOG(5, line .. " load=" .. metrics_of.load)
        end
        local targets = {}
        for rank in pairs(mds) do targets[rank] = 0 end
        if mds[whoami + 1] and mds[whoami]["load"] > 0.01 and mds[whoami + 1]["load"] < 0.01 then
          targets[whoami + 1] = mds[whoami]["load"] / 2
        end
        return targets"#,
    );
    let decision = decide(&policy(&source), &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
    assert!(decision.is_due);
    assert_eq!(moves(&decision), "u1>1");
    assert_eq!(decision.log.len(), 2);
    let of_rank_0 = decision.log.iter().find(|line| line.text.starts_with("MDS0:")).unwrap();
    let text =
        "MDS0: auth.meta_load=10 all.meta_load=10 req_rate=0 queue_len=0 cpu_load_avg=0 load=10";
    assert_eq!((of_rank_0.level, of_rank_0.text.as_str()), (5, text));
    // The last rank has nowhere to send its load.
    assert!(!decide(&policy(&source), &tick(1, &[0.0, 10.0], &[5.0, 5.0])).is_due);
}

#[test]
fn anything_but_one_number_for_each_rank_is_an_invalid_argument() {
    let inputs = tick(0, &[10.0, 0.0], &[5.0, 5.0]);
    for body in [
        "",
        "return",
        "return nil",
        "return 3",
        "return {}",
        "return { [0] = 0 }",
        "return { [0] = 0, [1] = 1, [2] = 1 }",
        "return { 0, 1 }",
        "return { [0] = 0, one = 1 }",
        "return { [0] = 0, [1.5] = 1 }",
        "return { [0] = 0, ['1'] = 1 }",
        "return { [0] = 0, [1] = '1' }",
        "return { [0] = 0, [1] = {} }",
        "return { [0] = 0, [1] = 0/0 }",
        "return { [0] = 0, [1] = 1/0 }",
        "return { [0] = 0, [1] = -1 }",
        "return { [-1] = 0, [1] = 1 }",
    ] {
        let error = failure(&ceph(&format!("-- {body}\n{body}")), &inputs);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{body}: {error}");
        assert!(error.message().starts_with("invalid argument: "), "{body}: {error}");
        assert_eq!(error.fault().unwrap().version, 7);
        assert_eq!(line_of(&error), (!body.is_empty()).then_some(3), "{body}");
    }
}

#[test]
fn a_target_for_the_own_rank_voids_all_targets() {
    let source = ceph("return { [0] = 1, [1] = 5 }");
    let decision = decide(&policy(&source), &tick(0, &[10.0, 0.0], &[5.0, 5.0]));
    assert!(!decision.is_due && decision.moves.is_empty());
    assert_eq!(decision.targets, [0.0, 0.0]);
}

#[test]
fn a_log_level_that_is_no_integer_fails_the_policy() {
    let inputs = tick(0, &[1.0], &[]);
    for call in ["BAL_LOG()", "BAL_LOG('5', 'x')", "BAL_LOG(1.5, 'x')", "BAL_LOG(nil)"] {
        let error = failure(&ceph(&format!("{call}\nreturn {{ [0] = 0 }}")), &inputs);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{call}");
        assert_eq!(line_of(&error), Some(2), "{call}: {error}");
    }
}

#[test]
fn the_log_of_a_policy_is_bounded() {
    let source =
        ceph("for i = 1, 1000 do BAL_LOG(0, string.rep('x', 10000), i) end return { [0] = 0 }");
    let log = decide(&policy(&source), &tick(0, &[1.0], &[])).log;
    assert_eq!(log.len(), nacre_balance::limits::MAX_LOG_LINES);
    assert!(log.iter().all(|line| line.text.len() == nacre_balance::limits::MAX_LOG_CHARACTERS));
}

#[test]
fn an_empty_policy_is_not_found() {
    for source in ["", " \n", "--!mantle", "--!mantle\n\n"] {
        let error = Policy::compile("balancer/test", 1, source).expect_err("it is empty");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{source:?}");
    }
}

#[test]
fn units_are_measured_as_by_the_original_policy() {
    let rates = nacre_balance::UnitRates { iwr: 3.0, ..Default::default() };
    let loads = policy(&ceph("return {}")).measure(&[rates], &clock());
    assert_eq!(loads.unwrap(), [6.0]);
}
