//! Tests the capability programs of the standard library with the questions of an authority.

use std::sync::Arc;
use std::time::Duration;

use nacre_capability::{Asker, Authority, Command, Event, Policies, Policy, Terms, Wish};
use nacre_clock::{Clock, SystemClock};
use nacre_object::ErrorKind;
use nacre_program::Digest;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind};
use nacre_resource::{CapabilityHook, CapabilityPolicies, LiveCapabilityPrograms};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn shipped(name: &str) -> String {
    let path = format!("{}/../../programs/capability/{name}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// A node's live programs, with the hook that makes them live.
struct Node {
    live: LiveCapabilityPrograms,
    hook: CapabilityHook,
}

impl Node {
    fn new() -> Self {
        let live = LiveCapabilityPrograms::new();
        Self { hook: CapabilityHook::new(clock()).installing_into(live.clone()), live }
    }

    fn install(&self, version: u64, source: &str) -> nacre_object::Result<()> {
        let id = ProgramId::new(ProgramKind::Capability, "p".parse().unwrap());
        let (digest, source) = (Digest::of(source.as_bytes()), source.into());
        self.hook.install(&LiveProgram { id, version, digest, source })
    }

    fn policy(&self) -> Arc<dyn Policy> {
        CapabilityPolicies::of(self.live.clone()).named("p")
    }
}

/// An authority whose grants a program decides.
struct Served {
    authority: Authority,
    policy: Arc<dyn Policy>,
    asked: u64,
}

impl Served {
    fn by(source: &str) -> Self {
        let node = Node::new();
        node.install(1, source).unwrap();
        Self { authority: Authority::default(), policy: node.policy(), asked: 0 }
    }

    fn asks(&mut self, now: Duration, client: u64, tenant: &str) -> Vec<Command> {
        self.asked += 1;
        let entity = format!("client.{client}");
        let asker = Asker { client, entity: entity.into(), tenant: tenant.into() };
        let (ticket, number, wish) = (self.asked, self.asked, Wish::Exclusive);
        self.handle(now, Event::Asked { ticket, asker, wish, number })
    }

    fn returns(&mut self, now: Duration, client: u64, operations: u64) -> Vec<Command> {
        let of = |granted: &&nacre_capability::Granted| granted.asker().client == client;
        let number = self.authority.grants().iter().find(of).expect("it holds a grant").number();
        self.handle(now, Event::Returned { client, number, operations })
    }

    fn handle(&mut self, now: Duration, event: Event) -> Vec<Command> {
        self.authority.handle(now, event, &*self.policy)
    }
}

fn terms(commands: &[Command]) -> Terms {
    match commands {
        [Command::Grant { terms, .. }] => *terms,
        other => panic!("{other:?}"),
    }
}

fn is_round_trip(commands: &[Command]) -> bool {
    matches!(commands, [Command::Serve { .. }])
}

#[test]
fn best_effort_grants_to_a_client_that_is_alone_and_revokes_when_another_asks() {
    let mut served = Served::by(&shipped("best_effort"));
    assert_eq!(terms(&served.asks(ms(0), 1, "a")), Terms::default());
    assert_eq!(served.asks(ms(10), 2, "a"), [Command::Revoke { client: 1 }]);
    assert!(is_round_trip(&served.returns(ms(11), 1, 5)));
    assert!(is_round_trip(&served.asks(ms(500), 2, "a")));
    assert_eq!(terms(&served.asks(ms(1011), 2, "a")), Terms::default());
}

#[test]
fn the_delay_policy_lets_a_holder_keep_the_capability_for_a_time() {
    let mut served = Served::by(&shipped("delay"));
    assert_eq!(terms(&served.asks(ms(0), 1, "a")).hold, Some(ms(250)));
    assert_eq!(served.asks(ms(10), 2, "a"), []);
    assert_eq!(served.authority.due_at(), Some(ms(250)));
    assert_eq!(served.handle(ms(250), Event::Tick), [Command::Revoke { client: 1 }]);
    assert_eq!(terms(&served.returns(ms(251), 1, 5)).hold, Some(ms(250)));
}

#[test]
fn the_quota_policy_limits_a_holder_by_operations_and_time() {
    let mut served = Served::by(&shipped("quota"));
    let expected = Terms { operations: Some(10_000), hold: Some(ms(250)) };
    assert_eq!(terms(&served.asks(ms(0), 1, "a")), expected);
    assert_eq!(served.asks(ms(10), 2, "a"), []);
    assert_eq!(terms(&served.returns(ms(20), 1, 10_000)), expected);
}

#[test]
fn the_fair_policy_serves_the_tenant_with_the_fewest_operations_next() {
    let mut served = Served::by(&shipped("fair"));
    for (client, tenant, operations) in [(1, "greedy", 900), (2, "modest", 100)] {
        assert_eq!(terms(&served.asks(ms(0), client, tenant)).hold, Some(ms(50)));
        assert_eq!(served.returns(ms(1), client, operations), []);
    }
    terms(&served.asks(ms(2), 3, "third"));
    assert_eq!(served.asks(ms(3), 1, "greedy"), []);
    assert_eq!(served.asks(ms(4), 2, "modest"), []);
    assert!(matches!(served.returns(ms(52), 3, 5)[..], [Command::Grant { ticket: 5, .. }]));
}

#[test]
fn a_tenant_of_a_greater_priority_interrupts_a_holder_and_is_served_first() {
    let mut served = Served::by(&shipped("priority"));
    assert_eq!(terms(&served.asks(ms(0), 1, "batch")).hold, Some(ms(250)));
    assert_eq!(served.asks(ms(1), 2, "batch"), []);
    assert_eq!(served.authority.due_at(), Some(ms(250)));
    assert_eq!(served.asks(ms(2), 3, "interactive"), [Command::Revoke { client: 1 }]);
    assert!(matches!(served.returns(ms(3), 1, 5)[..], [Command::Grant { ticket: 3, .. }]));
    // The first one of the batch asks still.
    assert_eq!(served.authority.due_at(), Some(ms(253)));
}

#[test]
fn the_never_policy_makes_every_operation_a_round_trip() {
    let mut served = Served::by(&shipped("never"));
    assert!(is_round_trip(&served.asks(ms(0), 1, "a")));
    assert!(is_round_trip(&served.asks(ms(9000), 1, "a")));
}

#[test]
fn a_holder_keeps_its_grant_through_a_change_of_policy_that_would_grant_it() {
    let node = Node::new();
    node.install(1, &shipped("best_effort")).unwrap();
    let mut served = Served { authority: Authority::default(), policy: node.policy(), asked: 0 };
    terms(&served.asks(ms(0), 1, "a"));
    node.install(2, &shipped("delay")).unwrap();
    assert_eq!(served.policy.version(), 2);
    assert_eq!(served.authority.reconsider(ms(10), &*served.policy), []);
    assert_eq!(served.asks(ms(20), 2, "a"), []);
    assert_eq!(served.authority.due_at(), Some(ms(250)));
    node.install(3, &shipped("never")).unwrap();
    let commands = served.authority.reconsider(ms(30), &*served.policy);
    assert_eq!(commands, [Command::Revoke { client: 1 }]);
}

#[test]
fn the_best_effort_policy_replaces_a_program_that_fails() {
    let source =
        "function grant(ask) if ask.client == 'client.1' then error('no') end return 7 end";
    let mut served = Served::by(source);
    assert_eq!(terms(&served.asks(ms(0), 1, "a")), Terms::default());
}

#[test]
fn a_program_with_an_invalid_result_is_refused_with_its_line() {
    let refused = |source: &str| Node::new().install(1, source).unwrap_err();
    for (source, line, text) in [
        ("function grant(ask)\n  return 'yes'\nend", 1, "`grant` returned a string"),
        ("function grant() return { hold = -1 } end", 1, "`hold` gives no number of seconds"),
        ("function grant() return { quota = 5 } end", 1, "there is no condition \"quota\""),
        (
            "function grant() return { operations = 0.5 } end",
            1,
            "`operations` must be a whole number",
        ),
        ("function grant() return true end\nfunction keep() end", 2, "`keep` gives no number"),
        (
            "function grant() return true end\nfunction turn() return 4 end",
            2,
            "no place from 1 to 3",
        ),
        ("function grant(ask)\n  return ask.nobody.name\nend", 2, "attempt to index nil"),
    ] {
        let error = refused(source);
        assert!(error.message().contains(text), "{error}");
        assert_eq!(error.fault().and_then(|fault| fault.line), Some(line), "{error}");
    }
    let missing = refused("local x = 1");
    assert!(missing.message().contains("must define a function `grant`"), "{missing}");
    assert_eq!(refused("function grant() while true do end end").kind(), ErrorKind::Exhausted);
}
