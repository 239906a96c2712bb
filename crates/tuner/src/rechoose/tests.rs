//! The decisions, told what happens in every order.

use std::collections::BTreeMap;

use nacre_class::{ColumnSeen, MethodSeen};
use nacre_clock::Random;

use super::*;

const SECOND: u64 = MICROS_PER_SECOND;
const TERMS: Terms = Terms {
    requests: 100,
    seconds: 10,
    drift: 0.15,
    gain: 0.15,
    margin: 3.0,
    horizon_seconds: 1000,
    rest_seconds: 60,
};
const LAYOUTS: [&str; 3] = ["map", "log: slots(256)", "log: appended(map)"];

fn engine(number: usize) -> Fingerprint {
    let device = format!("disk {number}");
    Fingerprint { engine: "test".into(), device, cpus: 1, version: "0".into() }
}

/// So many requests, of which these are reads.
fn seen(requests: u64, reads: u64) -> CallsSeen {
    let method = |requests| MethodSeen { requests, sizes: vec![requests], ..MethodSeen::default() };
    let methods =
        [("read".to_owned(), method(reads)), ("write".to_owned(), method(requests - reads))];
    CallsSeen { methods: BTreeMap::from(methods), met: requests }
}

/// The layouts each suit another mix, on one engine more than on another.
fn seconds(layout: &str, window: &CallsSeen, engine: usize) -> f64 {
    let reads = window.methods["read"].requests as f64 / window.requests() as f64;
    let (read, write) = match layout {
        "map" => (2e-3, 2e-3),
        "log: slots(256)" => (1e-3, 4e-3),
        _ => (4e-3, 1e-3 * (1.0 + engine as f64)),
    };
    reads * read + (1.0 - reads) * write
}

fn estimate(present: &str, window: &CallsSeen, engine: usize, rewrite_seconds: f64) -> Estimate {
    let predicted = |layout: &str| Predicted {
        layout: layout.into(),
        seconds: seconds(layout, window, engine),
    };
    let all = LAYOUTS.map(predicted);
    let best = all.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap();
    Estimate { present: predicted(present), best: best.clone(), rewrite_seconds, rows: Some(1) }
}

/// Two layouts that take as long as was predicted, the better one so many times as long.
fn as_predicted(proposal: &Proposal, times: f64) -> Measured {
    let Estimate { present, best, .. } = &proposal.estimate;
    Measured { present_seconds: present.seconds, best_seconds: best.seconds * times }
}

fn chooser() -> Rechooser {
    let mut chooser = Rechooser::new(TERMS, Standing::default());
    chooser.handle(0, Event::Engine(engine(0)));
    chooser
}

/// Counts a window's worth of requests; what is to be done then.
fn window(chooser: &mut Rechooser, now: &mut u64, reads: u64) -> Vec<Command> {
    chooser.handle(*now, Event::Counted(seen(100, reads)));
    *now += TERMS.seconds * SECOND;
    chooser.handle(*now, Event::Counted(seen(100, reads)))
}

/// The same, with what is estimated answered.
fn judged(chooser: &mut Rechooser, now: &mut u64, reads: u64, present: &str) -> Vec<Command> {
    match &window(chooser, now, reads)[..] {
        [Command::Estimate(window)] => {
            let estimate = estimate(present, window, 0, 1.0);
            match &chooser.handle(*now, Event::Estimated(Some(estimate)))[..] {
                [Command::Measure(_, proposal)] => {
                    let measured = as_predicted(proposal, 1.0);
                    chooser.handle(*now, Event::Measured(Some(measured)))
                }
                other => other.to_vec(),
            }
        }
        other => other.to_vec(),
    }
}

/// The proposal that is to be measured after what was counted.
fn to_be_measured(chooser: &mut Rechooser, now: u64, counted: &[Command]) -> Proposal {
    let [Command::Estimate(asked)] = counted else { panic!("{counted:?}") };
    let estimate = estimate("map", asked, 0, 1.0);
    match &chooser.handle(now, Event::Estimated(Some(estimate)))[..] {
        [Command::Measure(window, proposal)] if window == asked => proposal.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mix_that_another_layout_suits_better_makes_a_proposal_once() {
    let (mut chooser, mut now) = (chooser(), 0);
    let [Command::Propose(proposal)] = &judged(&mut chooser, &mut now, 100, "map")[..] else {
        panic!("{chooser:?}")
    };
    assert_eq!(proposal.estimate.best.layout, LAYOUTS[1]);
    let text = "slots(256) instead of map: 1000 us a request instead of 2000 are predicted, \
                1000 instead of 2000 measured, at ";
    assert!(proposal.to_string().contains(text), "{proposal}");
    for _ in 0..20 {
        assert_eq!(judged(&mut chooser, &mut now, 95, "map"), []);
    }
    assert_eq!(chooser.standing().proposal.as_ref(), Some(proposal));
    // Allowed, it is done, and once.
    let adopted = chooser.handle(now, Event::Allowed(true));
    assert_eq!(adopted, [Command::Adopt(proposal.clone())]);
    assert_eq!(chooser.handle(now, Event::Allowed(true)), []);
    assert_eq!(judged(&mut chooser, &mut now, 100, LAYOUTS[1]), []);
}

#[test]
fn what_is_no_longer_worth_it_is_withdrawn() {
    let (mut chooser, mut now) = (chooser(), 0);
    assert!(matches!(judged(&mut chooser, &mut now, 100, "map")[..], [Command::Propose(_)]));
    assert_eq!(judged(&mut chooser, &mut now, 50, "map"), [Command::Withdraw]);
    assert_eq!(chooser.standing().proposal, None);
}

#[test]
fn what_is_being_judged_anew_is_not_adopted_meanwhile() {
    let (mut chooser, mut now) = (chooser(), 0);
    assert!(matches!(judged(&mut chooser, &mut now, 100, "map")[..], [Command::Propose(_)]));
    let counted = window(&mut chooser, &mut now, 0);
    assert_eq!(chooser.handle(now, Event::Allowed(true)), [], "it may be withdrawn");
    let proposal = to_be_measured(&mut chooser, now, &counted);
    assert_eq!(chooser.handle(now, Event::Allowed(true)), []);
    let measured = Event::Measured(Some(as_predicted(&proposal, 1.0)));
    match &chooser.handle(now, measured)[..] {
        [Command::Adopt(adopted)] => assert_eq!(adopted.estimate, proposal.estimate),
        other => panic!("{other:?}"),
    }
}

/// Nodes tell of columns as they were of late, each time: looked at often, a window has them once.
#[test]
fn a_window_has_its_columns_once_however_often_they_were_told() {
    let mut told = seen(100, 100);
    let column = ColumnSeen { seen: 40, marks: vec![7], ..ColumnSeen::default() };
    told.methods.get_mut("read").unwrap().columns = vec![column.clone()];
    let (mut chooser, now) = (chooser(), TERMS.seconds * SECOND);
    for at in 0..9 {
        chooser.handle(at, Event::Counted(told.clone()));
    }
    match &chooser.handle(now, Event::Counted(told))[..] {
        [Command::Estimate(window)] => {
            assert_eq!(window.requests(), 1000);
            assert_eq!(window.methods["read"].columns, [column]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn little_is_not_judged_and_neither_is_what_costs_more_than_it_saves() {
    let (mut chooser, now) = (chooser(), 1000 * SECOND);
    chooser.handle(0, Event::Counted(seen(1, 0)));
    assert_eq!(chooser.handle(now, Event::Counted(seen(98, 0))), [], "99 requests are few");
    let window = match &chooser.handle(now, Event::Counted(seen(1, 0)))[..] {
        [Command::Estimate(window)] => window.clone(),
        other => panic!("{other:?}"),
    };
    // A tenth of a request a second, a millisecond each, in a thousand seconds: 0.1 s.
    let dear = estimate("map", &window, 0, 0.05);
    assert_eq!(chooser.handle(now, Event::Estimated(Some(dear))), []);
    assert_eq!(chooser.standing().proposal, None);
    let mut unjudged = self::chooser();
    let mut now = 0;
    assert!(matches!(self::window(&mut unjudged, &mut now, 0)[..], [Command::Estimate(_)]));
    assert_eq!(unjudged.handle(now, Event::Estimated(None)), []);
    assert!(matches!(self::window(&mut unjudged, &mut now, 0)[..], [Command::Estimate(_)]));
}

#[test]
fn what_is_measured_otherwise_is_not_proposed_and_what_cannot_be_is_predicted_again() {
    let (mut chooser, mut now) = (chooser(), 0);
    chooser.handle(now, Event::Allowed(true));
    let counted = window(&mut chooser, &mut now, 100);
    to_be_measured(&mut chooser, now, &counted);
    assert_eq!(window(&mut chooser, &mut now, 100), [], "it is being measured");
    assert_eq!(chooser.handle(now, Event::Measured(None)), []);
    let counted = chooser.handle(now, Event::Counted(seen(1, 1)));
    let proposal = to_be_measured(&mut chooser, now, &counted);
    // A seventh is saved where a half was to be.
    let measured = as_predicted(&proposal, 1.72);
    let refuted = Proposal { measured: Some(measured), ..proposal };
    let commands = chooser.handle(now, Event::Measured(Some(measured)));
    assert_eq!(commands, [Command::Refute(refuted)]);
    assert_eq!(chooser.standing().proposal, None);
    assert_eq!(window(&mut chooser, &mut now, 100), [], "it was judged");
    assert_eq!(chooser.handle(now, Event::Measured(Some(measured))), [], "nobody asked");
}

#[test]
fn what_an_earlier_release_proposed_unmeasured_is_left_to_people() {
    let (mut chooser, mut now) = (chooser(), 0);
    let counted = window(&mut chooser, &mut now, 100);
    let proposal = to_be_measured(&mut chooser, now, &counted);
    let standing = Standing { proposal: Some(proposal), ..Standing::default() };
    let mut kept = serde_json::to_value(standing).unwrap();
    kept["proposal"].as_object_mut().unwrap().remove("measured");
    let standing: Standing = serde_json::from_value(kept).unwrap();
    let mut chooser = Rechooser::new(TERMS, standing.clone());
    assert_eq!(chooser.handle(now, Event::Allowed(true)), []);
    assert_eq!(*chooser.standing(), standing);
}

#[test]
fn what_nobody_knows_the_cost_of_is_proposed_and_left_to_people() {
    let (mut chooser, mut now) = (chooser(), 0);
    chooser.handle(now, Event::Allowed(true));
    let counted = window(&mut chooser, &mut now, 100);
    let [Command::Estimate(asked)] = &counted[..] else { panic!("{counted:?}") };
    let guess = Estimate { rows: None, ..estimate("map", asked, 0, 1.0) };
    let measure = chooser.handle(now, Event::Estimated(Some(guess)));
    let [Command::Measure(_, proposal)] = &measure[..] else { panic!("{measure:?}") };
    let measured = Event::Measured(Some(as_predicted(proposal, 1.0)));
    let commands = chooser.handle(now, measured);
    let [Command::Propose(proposal)] = &commands[..] else { panic!("{commands:?}") };
    assert!(proposal.to_string().contains("1 s or more"), "{proposal}");
    assert_eq!(chooser.handle(now, Event::Allowed(true)), []);
    assert_eq!(window(&mut chooser, &mut now, 100), []);
}

#[test]
fn another_engine_is_a_reason() {
    let (mut chooser, mut now) = (chooser(), 0);
    judged(&mut chooser, &mut now, 50, "map");
    assert_eq!(judged(&mut chooser, &mut now, 50, "map"), []);
    chooser.handle(now, Event::Engine(engine(1)));
    assert!(matches!(window(&mut chooser, &mut now, 50)[..], [Command::Estimate(_)]));
}

/// A class whose decisions are carried out, as a world that is seeded has it.
struct World {
    chooser: Rechooser,
    random: Random,
    now: u64,
    present: &'static str,
    engine: usize,
    is_allowed: bool,
    asked: Option<CallsSeen>,
    measuring: Option<Proposal>,
    counted: u64,
    adopted: Vec<(u64, u64)>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            chooser: chooser(),
            random: Random::seeded(seed),
            now: 0,
            present: LAYOUTS[0],
            engine: 0,
            is_allowed: false,
            asked: None,
            measuring: None,
            counted: 0,
            adopted: vec![],
        }
    }

    fn tell(&mut self, event: Event) {
        for command in self.chooser.handle(self.now, event) {
            match command {
                Command::Estimate(window) => {
                    assert!(window.requests() >= TERMS.requests);
                    assert!(self.asked.replace(window).is_none(), "asked twice");
                }
                Command::Measure(window, proposal) => {
                    assert!(window.requests() >= TERMS.requests);
                    assert!(self.measuring.replace(proposal).is_none(), "measured twice");
                }
                Command::Propose(proposal) => self.check(&proposal),
                Command::Refute(proposal) => {
                    assert!(!proposal.is_worth_it(&TERMS), "{proposal}");
                    assert_eq!(self.chooser.standing().proposal, None);
                }
                Command::Withdraw => assert_eq!(self.chooser.standing().proposal, None),
                Command::Adopt(proposal) => self.adopt(&proposal),
            }
        }
    }

    fn check(&self, proposal: &Proposal) {
        assert!(LAYOUTS.contains(&&*proposal.estimate.best.layout), "{proposal}");
        assert_ne!(proposal.estimate.best.layout, self.present, "{proposal}");
        assert!(proposal.measured.is_some() && proposal.gain() >= TERMS.gain, "{proposal}");
    }

    fn adopt(&mut self, proposal: &Proposal) {
        self.check(proposal);
        assert!(self.is_allowed, "{proposal}");
        if let Some((last, counted)) = self.adopted.last() {
            assert!(self.now - last >= TERMS.rest_seconds * SECOND, "{proposal}");
            assert!(self.counted - counted >= TERMS.requests, "{proposal}");
        }
        self.adopted.push((self.now, self.counted));
        self.move_to(&proposal.estimate.best.layout);
    }

    fn move_to(&mut self, layout: &str) {
        self.present = LAYOUTS.into_iter().find(|one| *one == layout).unwrap();
        // Whoever was at work for the layout before is told that it is late.
        (self.asked, self.measuring) = (None, None);
    }

    fn count(&mut self, reads: u64) {
        let requests = self.random.below(400);
        self.counted += requests;
        self.tell(Event::Counted(seen(requests, requests * reads / 100)));
    }

    fn answer(&mut self) {
        if let Some(proposal) = self.measuring.take() {
            let measured = as_predicted(&proposal, 0.9 + self.random.below(10) as f64 / 10.0);
            let fails = self.random.one_in(5);
            return self.tell(Event::Measured((!fails).then_some(measured)));
        }
        let Some(window) = self.asked.take() else { return };
        let rewrite = self.random.below(40) as f64;
        let estimate = estimate(self.present, &window, self.engine, rewrite);
        let fails = self.random.one_in(5);
        self.tell(Event::Estimated((!fails).then_some(estimate)));
    }

    fn happen(&mut self, reads: u64) {
        self.now += self.random.below(20 * SECOND);
        match self.random.below(40) {
            0 => {
                self.is_allowed = self.random.one_in(2);
                self.tell(Event::Allowed(self.is_allowed));
            }
            1 => {
                self.engine = self.random.below(2) as usize;
                self.tell(Event::Engine(engine(self.engine)));
            }
            2 => {
                let layout = *self.random.pick(&LAYOUTS).unwrap();
                self.move_to(layout);
                self.tell(Event::Moved);
            }
            // An answer that nobody waits for.
            3 => {
                let late = estimate(self.present, &seen(100, 50), 0, 0.0);
                if self.asked.is_none() {
                    self.tell(Event::Estimated(Some(late)));
                }
                if self.measuring.is_none() {
                    let (present_seconds, best_seconds) = (1.0, 0.0);
                    self.tell(Event::Measured(Some(Measured { present_seconds, best_seconds })));
                }
            }
            4 => self.restart(),
            5..20 => self.answer(),
            _ => self.count(reads),
        }
    }

    /// Another process goes on from what is kept.
    fn restart(&mut self) {
        let kept = serde_json::to_string(self.chooser.standing()).unwrap();
        self.chooser = Rechooser::new(TERMS, serde_json::from_str(&kept).unwrap());
        (self.asked, self.measuring) = (None, None);
        self.tell(Event::Engine(engine(self.engine)));
        self.tell(Event::Allowed(self.is_allowed));
    }
}

#[test]
fn whatever_happens_nothing_is_done_that_was_not_allowed_or_is_not_worth_it() {
    let mut adopted = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut reads = 0;
        for _ in 0..600 {
            if world.random.one_in(40) {
                reads = world.random.below(101);
            }
            world.happen(reads);
        }
        adopted += world.adopted.len();
    }
    assert!(adopted > 50, "only {adopted} changes");
}

#[test]
fn a_mix_that_stays_is_changed_for_once_at_most() {
    for seed in 0..100 {
        let mut world = World::new(seed);
        world.is_allowed = true;
        world.tell(Event::Allowed(true));
        let reads = world.random.below(101);
        for _ in 0..400 {
            world.now += SECOND;
            world.count(reads);
            world.answer();
        }
        assert!(world.adopted.len() <= 1, "seed {seed}: {:?}", world.adopted);
    }
}

#[test]
fn a_mix_that_goes_to_and_fro_is_followed_ever_more_rarely() {
    let mut world = World::new(1);
    world.is_allowed = true;
    world.tell(Event::Allowed(true));
    let steps = 200_000;
    for step in 0..steps {
        world.now += SECOND;
        let reads = if step % 200 < 100 { 100 } else { 0 };
        world.counted += 100;
        world.tell(Event::Counted(seen(100, reads)));
        if let Some(window) = world.asked.take() {
            let estimate = estimate(world.present, &window, 0, 0.0);
            world.tell(Event::Estimated(Some(estimate)));
        }
        if let Some(proposal) = world.measuring.take() {
            let measured = as_predicted(&proposal, 1.0);
            world.tell(Event::Measured(Some(measured)));
        }
    }
    // Each rest twice the one before, up to the longest.
    let at_most =
        2 + MAX_RESTS.ilog2() as usize + steps / (MAX_RESTS * TERMS.rest_seconds) as usize;
    let changes = world.adopted.len();
    assert!((3..=at_most).contains(&changes), "{changes} changes, {at_most} at most");
}
