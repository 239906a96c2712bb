//! The hook of balancer policies: what it refuses, what it warns of, and what it makes live.

mod common;

use std::sync::Arc;

use common::{clock, decide, tick};
use nacre_balance::{BALANCER_INTERFACE, BalancerHook, LivePolicies};
use nacre_object::ErrorKind;
use nacre_program::Digest;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind, SourceError};

fn id() -> ProgramId {
    "balancer/spread".parse().unwrap()
}

fn live(version: u64, source: &str) -> LiveProgram {
    LiveProgram {
        id: id(),
        version,
        digest: Digest::of(source.as_bytes()),
        source: Arc::from(source),
    }
}

fn check(source: &str) -> Result<(), SourceError> {
    BalancerHook::new(clock()).check(&id(), source)
}

#[test]
fn the_balancer_hook_serves_programs_of_the_balancer_kind() {
    let hook = BalancerHook::new(clock());
    assert_eq!(hook.kind(), ProgramKind::Balancer);
    assert_eq!(hook.interface().purpose, BALANCER_INTERFACE.purpose);
}

#[test]
fn a_policy_chooses_how_clients_reach_moved_units() {
    check("mode = 'proxy'").unwrap();
    check("mode = 'client'").unwrap();
    assert!(check("mode = 'other'").is_err());
}

#[test]
fn a_policy_that_fails_on_the_last_rank_is_refused() {
    let when = "when = [[\nif MDSs[whoami]['load'] > .01 and MDSs[whoami+1]['load'] < .01 then]]";
    let error = check(&format!("{when}\nwhere = 'targets[whoami+1] = 1'")).unwrap_err();
    assert_eq!(error.line, Some(2));
    let guarded = when.replace("if ", "if whoami < #MDSs and ");
    check(&format!("{guarded}\nwhere = 'targets[whoami+1] = 1'")).unwrap();
}

#[test]
fn a_policy_that_fails_without_a_state_is_refused() {
    let error = check("when = [[return RDstate() > 0]]").unwrap_err();
    assert_eq!(error.line, Some(1));
    check("when = [[return (RDstate() or 0) > 0]]").unwrap();
}

#[test]
fn a_policy_that_fails_only_with_its_own_state_is_refused() {
    let error =
        check("when = [[\nlocal last = RDstate()\nWRstate('x')\nreturn last and last > 0]]");
    assert_eq!(error.unwrap_err().line, Some(4));
}

#[test]
fn a_policy_that_fails_on_an_idle_cluster_is_refused() {
    let where_ = "where = [[targets[whoami % #MDSs + 1] = authmetaload / total]]";
    let error = check(&format!("when = 'true'\n{where_}")).unwrap_err();
    assert!(error.message.starts_with("targets["), "{error}");
    assert_eq!(error.line, Some(2));
}

#[test]
fn the_hook_checks_a_policy_in_the_ceph_dialect_too() {
    check("--!mantle\nlocal t = {} for r in pairs(mds) do t[r] = 0 end return t").unwrap();
    let error = check("--!mantle\nreturn { [0] = 0 }").unwrap_err();
    assert!(error.message.contains("invalid argument"), "{error}");
}

#[test]
fn a_syntax_error_has_its_line() {
    assert_eq!(check("\nwhen = = 1").unwrap_err().line, Some(2));
    assert_eq!(check("").unwrap_err().message, "the policy is empty");
}

#[test]
fn a_name_that_is_not_available_is_suspicious() {
    let hook = BalancerHook::new(clock());
    let suspicions = hook.suspicions("function when()\n  return os.time() > 0\nend");
    let [suspicion] = &suspicions[..] else { panic!("{suspicions:?}") };
    assert_eq!((suspicion.line, suspicion.column), (Some(2), Some(10)));
    assert!(suspicion.message.starts_with("`os.time` is not available"), "{suspicion}");
    let suspicions =
        hook.suspicions("\nwhere = [[\n  if false then targets[1] = MDS[1].load end]]");
    let [suspicion] = &suspicions[..] else { panic!("{suspicions:?}") };
    assert_eq!((suspicion.line, suspicion.column), (Some(3), Some(30)));
    let fine =
        "limit = 3 when = [[local t = MDSs[whoami].load if t > limit and total > Max(1, 2) then]]";
    assert!(hook.suspicions(fine).is_empty());
    let fine = "--!mantle\nBAL_LOG(1, whoami) return { [0] = mds[0]['all.meta_load'] }";
    assert!(hook.suspicions(fine).is_empty());
}

#[test]
fn an_installed_policy_is_live_until_it_is_replaced_or_dropped() {
    let policies = LivePolicies::new();
    let hook = BalancerHook::new(clock()).installing_into(policies.clone());
    assert!(policies.get("spread").is_none());
    hook.install(&live(1, "when = 'false'")).unwrap();
    let first = policies.get("spread").unwrap();
    assert_eq!((first.name(), first.version()), ("balancer/spread", 1));
    assert_eq!(first.digest(), Digest::of(b"when = 'false'"));
    // A new source of the same name replaces the policy at once, so no rank continues with the old
    // source.
    hook.install(&live(2, "when = 'true'")).unwrap();
    let second = policies.get("spread").unwrap();
    assert_eq!((second.name(), second.version()), ("balancer/spread", 2));
    assert!(!decide(&first, &tick(0, &[1.0], &[])).is_due);
    assert!(decide(&second, &tick(0, &[1.0], &[])).is_due);
    hook.uninstall(&id()).unwrap();
    hook.uninstall(&id()).unwrap();
    assert!(policies.get("spread").is_none());
}

#[test]
fn a_policy_that_fails_its_probe_leaves_the_other_version_live() {
    let policies = LivePolicies::new();
    let hook = BalancerHook::new(clock()).installing_into(policies.clone());
    hook.install(&live(1, "when = 'false'")).unwrap();
    let error = hook.install(&live(2, "when = 'nothing.at_all'")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault);
    let site = error.fault().unwrap();
    assert_eq!((site.program.as_str(), site.version), ("balancer/spread", 2));
    assert_eq!(policies.get("spread").unwrap().version(), 1);
}

#[test]
fn a_process_that_runs_no_policies_installs_none() {
    let hook = BalancerHook::new(clock());
    assert_eq!(
        hook.install(&live(1, "when = 'false'")).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    hook.uninstall(&id()).unwrap();
}
