//! Control programs: what they see, what they may change, and the shipped applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use nacre_clock::{Clock, ManualClock};
use nacre_object::{ApplicationName, ErrorKind, TenantName};
use nacre_route::{
    CacheLoad, CacheTenant, ControlInput, ControlProgram, MissRatioCurve, ObjectLoad, Rule,
    Setting, Settings, SwitchRule, TargetLoad, TenantLoad, WaitingIo,
};

fn compile(source: &str) -> nacre_object::Result<ControlProgram> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(0));
    ControlProgram::compile("control/p", 3, source, &clock)
}

/// A cluster of three targets on which a program runs again and again.
struct Bed {
    program: ControlProgram,
    given: Settings,
    input: ControlInput,
    told: Vec<String>,
    shares: Option<BTreeMap<String, u64>>,
}

fn target(name: &str, rate: f64) -> TargetLoad {
    TargetLoad { name: name.to_owned(), answers: true, requests: rate, ..TargetLoad::default() }
}

impl Bed {
    fn new(source: &str, given: &[(&str, &str)]) -> Self {
        let program = compile(source).unwrap();
        let given = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), program.parse_setting(name, value).unwrap()));
        let given: Settings = given.collect();
        let input = ControlInput {
            now: 0.0,
            seconds: 0.0,
            settings: program.settings(&given).unwrap(),
            state: serde_json::json!({}),
            targets: ["a", "b", "c"].map(|name| target(name, 0.0)).into(),
            objects: vec![],
            cache: None,
            rules: vec![],
            waiting: vec![],
        };
        Self { program, given, input, told: vec![], shares: None }
    }

    /// Runs the program once, a second later. Every rule that it makes must be well formed.
    fn run(&mut self) -> &[SwitchRule] {
        self.input.now += 1.0;
        self.input.seconds = if self.input.now > 1.0 { 1.0 } else { 0.0 };
        let output = self.program.control(&self.input).unwrap();
        let tests = ApplicationName::new("tests").unwrap();
        for one in &output.rules {
            Rule::from_line(&tests, &one.rule).unwrap();
        }
        (self.input.rules, self.input.state) = (output.rules, output.state);
        self.told.extend(output.told);
        let named = |shares: BTreeMap<TenantName, u64>| {
            shares.into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect()
        };
        self.shares = output.shares.map(named);
        if let (Some(shares), Some(cache)) = (&self.shares, &mut self.input.cache) {
            for tenant in &mut cache.tenants {
                tenant.share = shares.get(&tenant.name).copied();
            }
        }
        &self.input.rules
    }

    fn load(&mut self, target: usize, rate: f64) {
        self.input.targets[target].requests = rate;
    }
}

fn rule(switch: &str, rule: &str) -> SwitchRule {
    SwitchRule { switch: switch.to_owned(), rule: rule.to_owned() }
}

const TAIL: &str = include_str!("../../../programs/control/tail.lua");
const REPLICAS: &str = include_str!("../../../programs/control/replicas.lua");
const CACHES: &str = include_str!("../../../programs/control/caches.lua");
const FIRST_WRITE: &str = include_str!("../../../programs/control/first_write.lua");
const SNAPSHOTS: &str = include_str!("../../../programs/control/snapshots.lua");
const BUSIEST_TENANT: &str = include_str!("../../../programs/control/busiest_tenant.lua");

#[test]
fn a_burst_sends_writes_to_other_targets_and_its_end_brings_them_home() {
    let mut bed = Bed::new(TAIL, &[("recent_seconds", "10"), ("average_seconds", "100")]);
    for _ in 0..60 {
        bed.load(0, 100.0);
        assert_eq!(bed.run(), []);
    }
    bed.load(0, 1000.0);
    let sent = (0..40).position(|_| !bed.run().is_empty()).expect("a burst is noticed");
    assert!(sent < 5, "noticed after {sent} s");
    assert_eq!(bed.input.rules, [rule("a", "* w data/* -> pool nacre.routed follow")]);
    for _ in 0..200 {
        assert_eq!(bed.run().len(), 1, "the burst does not become the usual load");
    }
    bed.input.settings.insert("pools".to_owned(), Setting::Text("logs data".to_owned()));
    assert_eq!(bed.run().len(), 2);
    bed.input.settings.insert("pools".to_owned(), Setting::Text("data".to_owned()));
    assert_eq!(bed.run().len(), 1, "no rule of other settings is left");
    bed.load(0, 100.0);
    let home = (0..60).position(|_| bed.run().is_empty()).expect("the end is noticed");
    assert!(home < 40, "noticed after {home} s");
    assert_eq!(bed.told.len(), 2, "{:?}", bed.told);
}

#[test]
fn a_burst_that_the_target_cannot_serve_in_full_is_noticed_after_a_short_observation() {
    let mut bed = Bed::new(TAIL, &[("recent_seconds", "1"), ("average_seconds", "60")]);
    for _ in 0..4 {
        bed.load(0, 50.0);
        assert_eq!(bed.run(), []);
    }
    bed.load(0, 150.0);
    assert!((0..3).any(|_| !bed.run().is_empty()), "the burst is thrice the usual load");
}

#[test]
fn a_steady_load_is_no_burst_however_high() {
    for rate in [5000.0, 2.0] {
        let mut bed = Bed::new(TAIL, &[("recent_seconds", "10"), ("average_seconds", "100")]);
        bed.load(1, rate);
        assert!((0..300).all(|_| bed.run().is_empty()), "{rate} requests a second");
    }
}

#[test]
fn a_new_controller_continues_with_the_stored_state_of_a_burst() {
    let mut bed = Bed::new(TAIL, &[("recent_seconds", "5"), ("average_seconds", "100")]);
    for _ in 0..30 {
        bed.run();
    }
    bed.load(2, 500.0);
    while bed.run().is_empty() {}
    let mut next = Bed::new(TAIL, &[("recent_seconds", "5"), ("average_seconds", "100")]);
    next.input.state = bed.input.state.clone();
    next.input.rules = bed.input.rules.clone();
    next.load(2, 500.0);
    assert!((0..20).all(|_| next.run().len() == 1), "the burst goes on");
    next.load(2, 0.0);
    assert!((0..60).any(|_| next.run().is_empty()), "the burst ends");
}

fn object(name: &str, target: &str, reads: f64, writes: f64, seconds: f64) -> ObjectLoad {
    let (object, target) = (name.to_owned(), target.to_owned());
    ObjectLoad { object, target, reads, writes, read_only_seconds: seconds }
}

#[test]
fn replicas_spread_the_reads_of_an_object_until_it_is_written() {
    let mut bed = Bed::new(REPLICAS, &[]);
    bed.load(1, 900.0);
    bed.input.objects = vec![object("data/x", "a", 500.0, 0.0, 29.0)];
    assert_eq!(bed.run(), [], "it was written a moment ago");
    bed.input.objects = vec![
        object("data/x", "a", 500.0, 0.0, 31.0),
        object("data/cold", "a", 1.0, 0.0, 100.0),
        object("data/mixed", "a", 500.0, 3.0, 0.0),
    ];
    let expected = [rule("a", "* r data/x -> one a,c,b least-loaded")];
    assert_eq!(bed.run(), expected, "the least busy target comes first");
    bed.input.objects[0].reads = 20.0;
    assert_eq!(bed.run(), expected, "it is still read");
    bed.input.objects[0].writes = 1.0;
    assert_eq!(bed.run(), [], "it was written");
}

#[test]
fn the_busiest_tenant_gets_a_target_of_its_own_while_it_disturbs() {
    let mut bed = Bed::new(BUSIEST_TENANT, &[("refuge", "c")]);
    let writes = |writes: f64| vec![TenantLoad { name: "noisy".to_owned(), reads: 0.0, writes }];
    bed.run();
    bed.input.targets[0].writes = 1000.0;
    bed.input.targets[0].tenants = writes(900.0);
    assert_eq!(bed.run(), [rule("a", "tenant:noisy w data/* -> target c follow")]);
    bed.input.settings.insert("refuge".to_owned(), Setting::Text("b".to_owned()));
    assert_eq!(bed.run(), [rule("a", "tenant:noisy w data/* -> target b follow")]);
    bed.input.targets[0].tenants = writes(90.0);
    assert_eq!(bed.run(), []);
}

const MIB: u64 = 1 << 20;

/// A tenant: its name, its reads a second and its miss-ratio curve.
type Reader<'a> = (&'a str, f64, &'a [(u64, f64)]);

fn cache(tenants: &[Reader<'_>]) -> Option<CacheLoad> {
    let tenant = |(name, reads, curve): &Reader<'_>| CacheTenant {
        name: (*name).to_owned(),
        reads: *reads,
        share: None,
        curve: curve.to_vec(),
    };
    Some(CacheLoad { bytes: 64 * MIB, tenants: tenants.iter().map(tenant).collect() })
}

#[test]
fn caches_are_divided_by_curves_and_the_share_of_an_idle_tenant_goes_to_others() {
    let mut bed = Bed::new(CACHES, &[]);
    let (gold, silver) = (&[(20 * MIB, 0.0)][..], &[(40 * MIB, 0.0)][..]);
    bed.run();
    assert_eq!(bed.shares, None, "nothing is cached");
    bed.input.cache = cache(&[("gold", 100.0, gold), ("silver", 50.0, silver)]);
    bed.run();
    let both = [("gold".to_owned(), 20 * MIB), ("silver".to_owned(), 40 * MIB)];
    assert_eq!(bed.shares, Some(both.into()));
    bed.run();
    assert_eq!(bed.shares, None, "the shares are in force");
    // Silver needs 50 MiB now, which it gets once gold is idle.
    let silver = &[(40 * MIB, 0.9), (50 * MIB, 0.0)][..];
    bed.input.cache = cache(&[("gold", 0.01, gold), ("silver", 50.0, silver)]);
    // An operator has turned caches off and on: nobody has a share of its own.
    bed.run();
    assert_eq!(bed.shares.clone().unwrap()["silver"], 50 * MIB, "{:?}", bed.shares);
}

#[test]
fn the_shipped_division_of_caches_misses_as_few_reads_as_the_one_along_hulls() {
    let mut random = nacre_clock::Random::seeded(11);
    for _ in 0..100 {
        let mut curve = |steps: u64| {
            let (mut bytes, mut ratio, mut curve) = (0, 1.0, vec![]);
            for _ in 0..steps {
                bytes += MIB * (1 + random.below(8));
                ratio *= random.below(100) as f64 / 100.0;
                curve.push((bytes, ratio));
            }
            (curve, random.below(1000) as f64)
        };
        let all = [curve(1), curve(4), curve(12)];
        let named: Vec<_> = ["a", "b", "c"]
            .iter()
            .zip(&all)
            .map(|(name, (curve, reads))| (*name, *reads, curve.as_slice()))
            .collect();
        let mut bed = Bed::new(CACHES, &[("least_saved", "0"), ("least_gain", "0")]);
        bed.run();
        bed.input.cache = cache(&named);
        bed.run();
        let curves: Vec<_> = all
            .iter()
            .map(|(curve, reads)| {
                let blocks = curve.iter().map(|(bytes, ratio)| (bytes / MIB, *ratio)).collect();
                (MissRatioCurve::from_steps(blocks).unwrap(), *reads)
            })
            .collect();
        let misses = |units: &[usize]| -> f64 {
            let of = |((curve, reads), units): (&(MissRatioCurve, f64), &usize)| {
                reads * curve.miss_ratio(*units as u64)
            };
            curves.iter().zip(units).map(of).sum()
        };
        let shares = bed.shares.unwrap_or_default();
        let own: Vec<_> = ["a", "b", "c"]
            .map(|name| (shares.get(name).copied().unwrap_or(0) / MIB) as usize)
            .into();
        assert!(own.iter().sum::<usize>() <= 63, "{own:?}");
        let best = nacre_route::allocate_by_hull(&curves, 63, 1);
        let (own, best) = (misses(&own), misses(&best));
        assert!(own <= best * 1.05 + 1e-9, "{own} misses, {best} along hulls: {curves:?}");
    }
}

#[test]
fn a_volume_gets_a_target_when_it_is_first_written() {
    let mut bed = Bed::new(FIRST_WRITE, &[("most_volumes", "3")]);
    let asks = rule("every", "* w data/vm* -> controller header");
    assert_eq!(bed.run(), std::slice::from_ref(&asks));
    bed.load(0, 900.0);
    bed.input.waiting = ["data/vm1.7", "data/vm1.8", "data/vm2.1"].map(waiting).into();
    let to =
        |object: &str, target| rule("every", &format!("* w {object} -> target {target} follow"));
    let made = bed.run().to_vec();
    assert_eq!(made.len(), 3, "{made:?}");
    assert!(made.contains(&to("data/vm1.*", "b")) && made.contains(&to("data/vm2.*", "c")));
    assert!(made.contains(&asks));
    bed.input.waiting = ["data/vm", "data/vm3.1"].map(waiting).into();
    let made = bed.run().to_vec();
    assert!(made.iter().any(|one| one.rule.starts_with("* w data/vm -> target ")), "{made:?}");
    assert!(made.contains(&rule("every", "* w data/vm* -> home")), "there are enough volumes");
    bed.input.waiting = vec![];
    assert_eq!(bed.run().len(), 4, "volumes keep their targets");
}

fn waiting(object: &str) -> WaitingIo {
    WaitingIo {
        object: object.to_owned(),
        target: "a".to_owned(),
        operation: "write".to_owned(),
        source: "alice".to_owned(),
        tenant: "gold".to_owned(),
        offset: Some(0),
        length: Some(4096),
    }
}

#[test]
fn a_rule_of_the_same_header_is_replaced_and_a_run_that_fails_changes_nothing() {
    let source = r#"
        settings = { to = "home" }
        function control(cluster)
          insert("a", "* w data/* -> " .. cluster.settings.to .. " follow")
          insert("every", "* w data/x -> home")
          if cluster.settings.to == "pool fail" then error("no") end
          cluster.state.runs = (cluster.state.runs or 0) + 1
        end"#;
    let mut bed = Bed::new(source, &[("to", "target b")]);
    let first = bed.run().to_vec();
    assert_eq!(bed.run(), first, "the same rules again");
    bed.given.insert("to".to_owned(), Setting::Text("target c".to_owned()));
    bed.input.settings = bed.program.settings(&bed.given).unwrap();
    assert_eq!(bed.run()[0], rule("a", "* w data/* -> target c follow"));
    assert_eq!(bed.input.state["runs"], 3.0);
    bed.input.settings.insert("to".to_owned(), Setting::Text("pool fail".to_owned()));
    let error = bed.program.control(&bed.input).unwrap_err();
    let site = error.fault().expect("the error names the line");
    assert_eq!((site.program.as_str(), site.version, site.line), ("control/p", 3, Some(6)));
}

#[test]
fn delete_tells_whether_there_was_such_a_rule() {
    let source = r#"
        function control(cluster)
          assert(not delete("a", "* w data/*"))
          insert("a", "* w data/* -> home")
          assert(not delete("b", "* w data/*"))
          assert(delete("a", "* w data/*"))
        end"#;
    assert_eq!(Bed::new(source, &[]).run(), []);
}

#[test]
fn a_program_that_makes_no_sense_is_refused_with_a_hint() {
    for (source, said) in [
        ("x = 1", "must define a function `control`"),
        ("settings = 3 function control() end", "`settings` is a number"),
        ("settings = { a = {} } function control() end", "the setting a is a table"),
        ("settings = { objects = 7 } function control() end", "objects is not a string"),
        ("insert('a', '* w data/* -> home') function control() end", "only while it runs"),
    ] {
        let error = compile(source).unwrap_err();
        assert!(error.to_string().contains(said), "{source}: {error}");
    }
}

#[test]
fn settings_must_have_a_known_name_and_the_type_of_their_default() {
    let program = compile(TAIL).unwrap();
    let error = program.parse_setting("alfa", "2").unwrap_err();
    assert!(error.hint_text().unwrap().contains("alpha"), "{error}");
    assert_eq!(program.parse_setting("alpha", "x").unwrap_err().kind(), ErrorKind::Invalid);
    let given = [("alpha".to_owned(), Setting::Text("2".to_owned()))].into();
    assert_eq!(program.settings(&given).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_a_run_may_do_is_bounded() {
    let endless = Bed::new("function control() while true do end end", &[]);
    let error = endless.program.control(&endless.input).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    for (body, said) in [
        ("for i = 1, 600 do insert('a', `* w data/{i} -> home`) end", "512 rules at most"),
        ("for i = 1, 20 do tell('x') end", "16 events at most"),
        ("cluster.state.x = string.rep('x', 70000)", "cluster.state exceeds"),
    ] {
        let bed = Bed::new(&format!("function control(cluster) {body} end"), &[]);
        let error = bed.program.control(&bed.input).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{body}: {error}");
        assert!(error.to_string().contains(said), "{body}: {error}");
    }
}

/// The page of the paper's applications is also an example of how short one is.
#[test]
fn an_application_of_one_s_own_fits_in_fifty_lines() {
    assert!(BUSIEST_TENANT.lines().count() <= 50);
}

#[test]
fn snapshots_makes_a_snapshot_at_each_interval_and_keeps_the_last_ones() {
    let mut bed = Bed::new(SNAPSHOTS, &[("prefix", "data/docs/"), ("minutes", "1"), ("keep", "2")]);
    let mut seen = vec![];
    for _ in 0..190 {
        let [rule] = bed.run() else { panic!("one rule") };
        assert_eq!(rule.switch, "every");
        if seen.last() != Some(&rule.rule) {
            seen.push(rule.rule.clone());
        }
    }
    let names = ["auto-1", "auto-1,auto-61", "auto-61,auto-121", "auto-121,auto-181"];
    assert_eq!(seen, names.map(|names| format!("* * data/docs/* -> snapshots {names}")));
    assert_eq!(bed.told.len(), 4, "{:?}", bed.told);
}
