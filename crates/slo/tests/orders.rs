//! Tests of the shipped order programs, and of what happens when an order program fails.

use std::sync::Arc;
use std::time::Duration;

use nacre_clock::{Clock, Random, SystemClock};
use nacre_conformance::seeds;
use nacre_object::{ProgramName, TenantName};
use nacre_program::Digest;
use nacre_qos::scheduler::{
    DeviceLimits, KindLimits, NewRequest, Next, RequestId, Scheduler, ServiceOrder, TenantId,
    TenantSettings, Ties, Waiting, Work,
};
use nacre_qos::{IoKind, RateBurst};
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind};
use nacre_slo::{Candidate, LiveOrders, Order, OrderHook, OrderPrograms, Orders};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn shipped(name: &str) -> String {
    let path = format!("{}/../../programs/slo/{name}.lua", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// A node's live order programs, with the hook that installs them.
struct Node {
    hook: OrderHook,
    orders: OrderPrograms,
}

impl Node {
    fn new() -> Self {
        let (live, clock) = (LiveOrders::new(), Arc::new(SystemClock::default()));
        let clock: Arc<dyn Clock> = clock;
        let hook = OrderHook::new(Arc::clone(&clock)).installing_into(live.clone());
        Self { hook, orders: OrderPrograms::of(live, clock) }
    }

    fn running(source: &str) -> Self {
        let node = Self::new();
        node.install(1, source).unwrap();
        node
    }

    fn install(&self, version: u64, source: &str) -> nacre_object::Result<()> {
        let id = ProgramId::new(ProgramKind::Slo, name());
        let (digest, source) = (Digest::of(source.as_bytes()), source.into());
        self.hook.install(&LiveProgram { id, version, digest, source })
    }

    fn order(&self) -> Option<Arc<dyn Order>> {
        self.orders.named(&name())
    }
}

fn name() -> ProgramName {
    "p".parse().unwrap()
}

/// A target that takes one request at a time, with a scheduler whose order a program chooses.
struct Bed {
    scheduler: Scheduler,
    order: Chosen,
}

/// Calls the program, with the names and promises of the tenants.
struct Chosen {
    order: Arc<dyn Order>,
    tenants: Vec<(TenantId, TenantName, Option<f64>)>,
}

impl ServiceOrder for Chosen {
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize> {
        let candidates = waiting.iter().map(|waiting| {
            let known = self.tenants.iter().find(|(id, ..)| *id == waiting.tenant).unwrap();
            Candidate { tenant: &known.1, slo_seconds: known.2, waiting }
        });
        self.order.choose(&candidates.collect::<Vec<_>>())
    }
}

impl Bed {
    fn new(node: &Node) -> Self {
        let kind = KindLimits { requests: 1, bytes: 1 << 30 };
        let limits = DeviceLimits { reads: kind, writes: kind };
        let scheduler = Scheduler::new(limits, Ties::FirstCome).unwrap();
        let order = Chosen { order: node.order().unwrap(), tenants: vec![] };
        Self { scheduler, order }
    }

    fn promised(&mut self, tenant: &str, priority: u32, slo: f64, burst_seconds: f64) -> TenantId {
        let bucket = RateBurst { rate: 0.1, burst_seconds };
        let settings = TenantSettings::promised(priority, vec![bucket]);
        self.add(tenant, settings, Some(slo))
    }

    fn weighted(&mut self, tenant: &str, weight: f64) -> TenantId {
        self.add(tenant, TenantSettings::weighted(weight), None)
    }

    fn add(&mut self, tenant: &str, settings: TenantSettings, slo: Option<f64>) -> TenantId {
        let id = self.scheduler.add_tenant(settings, ms(0)).unwrap();
        self.order.tenants.push((id, tenant.parse().unwrap(), slo));
        id
    }

    fn comes(&mut self, tenant: TenantId, work_seconds: f64, now: Duration) -> RequestId {
        let work = Work::seconds(work_seconds).unwrap();
        let request = NewRequest { tenant, kind: IoKind::Read, bytes: 4096, work, deadline: None };
        self.scheduler.enqueue(request, now).unwrap()
    }

    /// Sends requests until none waits or `most` are sent. Returns their tenants in the order of
    /// sending.
    fn sends(&mut self, most: usize, now: Duration) -> Vec<TenantId> {
        let mut sent = vec![];
        while sent.len() < most
            && let Next::Send(next) = self.scheduler.next_by(&mut self.order, now)
        {
            assert!(self.scheduler.complete(next.request, None, now), "it is sent once");
            sent.push(next.tenant);
        }
        sent
    }
}

#[test]
fn the_thesis_order_serves_tenants_within_their_buckets_first_by_priority() {
    let mut bed = Bed::new(&Node::running(&shipped("thesis")));
    let bulk = bed.weighted("bulk", 1.0);
    let silver = bed.promised("silver", 2, 0.2, 1.0);
    let gold = bed.promised("gold", 1, 0.1, 0.02);
    for tenant in [bulk, silver, gold] {
        bed.comes(tenant, 0.02, ms(0));
        bed.comes(tenant, 0.02, ms(0));
    }
    // The bucket of gold covers one request.
    let sent = bed.sends(9, ms(0));
    assert_eq!(sent[..3], [gold, silver, silver]);
    assert_eq!(sent.len(), 6);
}

#[test]
fn the_earliest_deadline_order_serves_the_request_whose_promise_ends_first() {
    let mut bed = Bed::new(&Node::running(&shipped("earliest_deadline")));
    let bulk = bed.weighted("bulk", 1.0);
    let slow = bed.promised("slow", 2, 0.5, 1.0);
    let fast = bed.promised("fast", 1, 0.1, 1e-3);
    bed.comes(bulk, 0.01, ms(0));
    bed.comes(slow, 0.01, ms(0));
    // The buckets of the tenant `fast` do not cover its second request. The deadlines of `fast` are
    // at 0.4 s and 0.55 s, and the deadline of `slow` is at 0.5 s.
    bed.comes(fast, 0.01, ms(300));
    assert_eq!(bed.sends(1, ms(300)), [fast]);
    bed.comes(fast, 0.01, ms(450));
    assert_eq!(bed.sends(9, ms(450)), [slow, fast, bulk]);
}

#[test]
fn the_weighted_fair_order_gives_tenants_work_in_proportion_to_their_weights() {
    let mut bed = Bed::new(&Node::running(&shipped("weighted_fair")));
    let promised = bed.promised("promised", 1, 0.1, 1.0);
    let heavy = bed.weighted("heavy", 3.0);
    let light = bed.weighted("light", 1.0);
    for _ in 0..200 {
        for tenant in [promised, heavy, light] {
            bed.comes(tenant, 0.01, ms(0));
        }
    }
    let sent = bed.sends(250, ms(0));
    let count = |of: TenantId| sent.iter().filter(|tenant| **tenant == of).count();
    assert_eq!([promised, heavy, light].map(count), [50, 150, 50]);
}

#[test]
fn an_idle_tenant_gets_no_extra_work_later_by_the_weighted_fair_order() {
    let mut bed = Bed::new(&Node::running(&shipped("weighted_fair")));
    let (early, late) = (bed.weighted("early", 1.0), bed.weighted("late", 1.0));
    for tenant in [early, late] {
        bed.comes(tenant, 0.01, ms(0));
    }
    for _ in 0..100 {
        bed.comes(early, 0.01, ms(0));
    }
    bed.sends(60, ms(0));
    for _ in 0..40 {
        bed.comes(late, 0.01, ms(1));
    }
    let sent = bed.sends(20, ms(1));
    let of_late = sent.iter().filter(|tenant| **tenant == late).count();
    assert!((9..=11).contains(&of_late), "{of_late} of 20");
}

/// Sends the same traffic to two schedulers: one uses the built-in order, the other a program.
struct Pair {
    random: Random,
    now: Duration,
    native: Scheduler,
    by_program: Bed,
    ids: Vec<TenantId>,
    outstanding: Vec<RequestId>,
}

impl Pair {
    fn new(node: &Node, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let mut of_kind = || KindLimits {
            requests: 1 + random.below(4) as usize,
            bytes: 4096 * (1 + random.below(8)),
        };
        let limits = DeviceLimits { reads: of_kind(), writes: of_kind() };
        let mut native = Scheduler::new(limits, Ties::FirstCome).unwrap();
        let mut by_program = Bed::new(node);
        by_program.scheduler.set_limits(limits).unwrap();
        let mut ids = vec![];
        for number in 0..2 + random.below(6) {
            let settings = match random.below(3) {
                0 => TenantSettings::weighted([0.5, 1.0, 2.0][random.below(3) as usize]),
                _ => {
                    let rate = random.below(8) as f64 / 8.0;
                    let burst_seconds = (1 + random.below(64)) as f64 / 128.0;
                    let bucket = RateBurst { rate, burst_seconds };
                    TenantSettings::promised(random.below(3) as u32, vec![bucket])
                }
            };
            ids.push(native.add_tenant(settings.clone(), ms(0)).unwrap());
            by_program.add(&format!("t{number}"), settings, Some(0.1));
        }
        Self { random, now: ms(0), native, by_program, ids, outstanding: vec![] }
    }

    fn step(&mut self) {
        match self.random.below(8) {
            0 => self.now += Duration::from_micros(self.random.below(400_000)),
            1..=3 => self.enqueue(),
            4 | 5 => self.decide(),
            _ => self.complete(),
        }
    }

    fn enqueue(&mut self) {
        let tenant = *self.random.pick(&self.ids).unwrap();
        let kind = *self.random.pick(&IoKind::ALL).unwrap();
        let bytes = 4096 * self.random.below(8) as u32;
        let work = match self.random.one_in(6) {
            true => Work::UNKNOWN,
            false => Work::seconds(self.random.below(128) as f64 / 512.0).unwrap(),
        };
        let request = NewRequest { tenant, kind, bytes, work, deadline: None };
        let taken = self.native.enqueue(request, self.now);
        assert_eq!(taken, self.by_program.scheduler.enqueue(request, self.now));
    }

    fn decide(&mut self) {
        let expected = self.native.next(self.now);
        let Bed { scheduler, order } = &mut self.by_program;
        assert_eq!(scheduler.next_by(order, self.now), expected, "at {:?}", self.now);
        if let Next::Send(sent) = expected {
            self.outstanding.push(sent.request);
        }
    }

    fn complete(&mut self) {
        let Some(request) = self.random.pick(&self.outstanding).copied() else { return };
        self.outstanding.retain(|other| *other != request);
        let work = self.random.one_in(2).then(|| self.random.below(128) as f64 / 512.0);
        assert!(self.native.complete(request, work, self.now));
        assert!(self.by_program.scheduler.complete(request, work, self.now));
    }
}

#[test]
fn the_thesis_program_decides_like_the_built_in_order() {
    let node = Node::running(&shipped("thesis"));
    for seed in seeds(30) {
        println!("seed {seed}");
        let mut pair = Pair::new(&node, seed);
        (0..400).for_each(|_| pair.step());
    }
}

#[test]
fn a_new_live_version_makes_the_next_decision() {
    let node = Node::running("function choose(waiting) return 1 end");
    let mut bed = Bed::new(&node);
    let (one, other) = (bed.weighted("one", 1.0), bed.weighted("other", 1.0));
    for _ in 0..4 {
        bed.comes(one, 0.01, ms(0));
        bed.comes(other, 0.01, ms(0));
    }
    assert_eq!(bed.sends(2, ms(0)).len(), 2);
    let always_one = "function choose(waiting)\n  for place, entry in waiting do\n    \
                      if entry.tenant == 'one' then return place end\n  end\nend";
    node.install(2, always_one).unwrap();
    bed.order.order = node.order().unwrap();
    let sent = bed.sends(9, ms(0));
    assert_eq!(sent.len(), 6, "each request that waited goes once");
    let of_one = sent.iter().take_while(|tenant| **tenant == one).count();
    assert!(of_one >= 2 && sent[of_one..].iter().all(|tenant| *tenant == other), "{sent:?}");
    node.hook.uninstall(&ProgramId::new(ProgramKind::Slo, name())).unwrap();
    assert!(node.order().is_none());
}

#[test]
fn the_built_in_order_decides_when_a_program_fails() {
    let fails = "function choose(waiting)\n  if waiting[1].tenant ~= 'made-up' then\n    \
                 error('no')\n  end\n  return 1\nend";
    let mut bed = Bed::new(&Node::running(fails));
    let bulk = bed.weighted("bulk", 1.0);
    let gold = bed.promised("gold", 1, 0.1, 1.0);
    bed.comes(bulk, 0.01, ms(0));
    bed.comes(gold, 0.01, ms(0));
    assert_eq!(bed.sends(9, ms(0)), [gold, bulk]);
}

#[test]
fn a_program_that_has_exceeded_its_budget_is_not_asked_for_a_while() {
    let node = Node::running(
        "function choose(waiting)\n  while waiting[1].tenant ~= 'made-up' do end\n  return 1\nend",
    );
    let mut bed = Bed::new(&node);
    let bulk = bed.weighted("bulk", 1.0);
    let gold = bed.promised("gold", 1, 0.1, 1.0);
    bed.comes(bulk, 0.01, ms(0));
    bed.comes(gold, 0.01, ms(0));
    assert_eq!(bed.sends(9, ms(0)), [gold, bulk]);
    assert!(node.order().is_none());
    node.install(2, "function choose(waiting) return 1 end").unwrap();
    assert!(node.order().is_some(), "another version is asked at once");
}

#[test]
fn a_program_with_an_impossible_answer_is_refused_with_the_line_of_the_fault() {
    for (source, line, text) in [
        ("function choose(waiting)\n  return 'gold'\nend", 1, "`choose` returned a string"),
        ("\nfunction choose(waiting) return 0 end", 2, "`choose` returned 0"),
        ("function choose(waiting)\n  return waiting[1].slo.ms\nend", 2, "attempt to index"),
    ] {
        let error = Node::new().install(1, source).unwrap_err();
        assert!(error.message().contains(text), "{error}");
        assert_eq!(error.fault().and_then(|fault| fault.line), Some(line), "{error}");
    }
    let error = Node::new().install(1, "x = 1").unwrap_err();
    assert!(error.message().contains("must define a function `choose`"), "{error}");
}
