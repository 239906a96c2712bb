//! Tests stripes: which column decides the stripe, which requests every stripe runs, and why some
//! programs cannot be striped. Stripes must give the same results as one object.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nacre_brados::layout::Stripes;
use nacre_brados::stripes::{Route, Striping, striping};
use nacre_brados::{Compiled, Expected, Layout, Script, Step, Value, compile, with_layout};
use nacre_calls::OutputRows;
use nacre_clock::Random;
use nacre_conformance::seeds;

use support::Subject;
use support::generator::Generated;
use support::reference::Reference;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class");
const LOG: &str = include_str!("support/striped_log.brados");
const STRIPES: u32 = 3;
const REQUESTS: usize = 40;

fn source(program: &str) -> String {
    fs::read_to_string(format!("{PROGRAMS}/{program}.brados")).unwrap()
}

/// How the methods of a program of the library are sent, in words.
fn routes(program: &str) -> Vec<String> {
    routes_of(&source(program))
}

fn routes_of(source: &str) -> Vec<String> {
    let compiled = compile(source).unwrap();
    let name = |id| compiled.analysis.program.collection(id).name.clone();
    let striping = match striping(&compiled) {
        Ok(striping) => striping,
        Err(reasons) => {
            return reasons.iter().map(|one| format!("{}: {}", one.method, one.reason)).collect();
        }
    };
    let route = |(input, route): &(_, Route)| match route {
        Route::Any => format!("{} any", name(*input)),
        Route::Column(column) => {
            let columns = &compiled.analysis.program.collection(*input).columns;
            format!("{} by {}", name(*input), columns[*column].name)
        }
        Route::Every { apart } => {
            let apart: Vec<_> = apart.iter().map(|id| name(*id)).collect();
            format!("{} every, apart: {}", name(*input), apart.join(" "))
        }
    };
    striping.methods.iter().map(route).collect()
}

#[test]
fn a_method_is_routed_by_a_column_or_spread_to_every_stripe() {
    assert_eq!(
        routes_of(LOG),
        [
            "seal every, apart: ",
            "write by pos",
            "read by pos",
            "forget every, apart: ",
            "max_position every, apart: max"
        ]
    );
    assert_eq!(routes("numops")[8..], ["get by key", "list every, apart: "]);
    let chunks = [
        "refer by fingerprint",
        "release by fingerprint",
        "find by fingerprint",
        "idle every, apart: ",
        "forget by fingerprint",
    ];
    assert_eq!(routes("chunks"), chunks);
    let user = routes("user");
    for route in ["set by bucket", "totals every, apart: total", "last_synced any"] {
        assert!(user.contains(&route.to_owned()), "{user:?}");
    }
    let queue = routes("queue");
    let reason =
        "enqueue: `stored` is one for all stripes, and computed from rows of which each has a part";
    assert!(queue.contains(&reason.to_owned()), "{queue:?}");
    assert_eq!(routes("refs"), ["put_ref: every stripe would send to `remove_object`"]);
    let timelog = routes("timelog");
    let reason = "add: every stripe carries it out, and each would put the same rows into `stored`";
    assert!(timelog.contains(&reason.to_owned()), "{timelog:?}");
    assert_eq!(routes("version"), [": no table has a key by which it could be divided"]);
}

/// A program's stripes.
struct Stripe {
    subjects: BTreeMap<String, Subject>,
    striping: Striping,
    compiled: Compiled,
}

impl Stripe {
    fn new(source: &str, stripes: Stripes) -> Option<Self> {
        let mut layout = Layout::default();
        layout.stripes = stripes;
        let striped = with_layout(source, &layout, &[]);
        let compiled = compile(&striped).ok()?;
        let striping = striping(&compiled).expect("a program that says so can be striped");
        let names = (0..STRIPES).map(|number| format!("o.{number}"));
        let subjects = names.map(|name| (name, Subject::new(&striped))).collect();
        Some(Self { subjects, striping, compiled })
    }

    /// Sends a request to the stripes. Returns the combined reply, without the outputs that each
    /// stripe computes from its own rows only. Also returns whether all stripes succeeded, and
    /// whether the request went to every stripe.
    fn request(
        &self,
        method: &str,
        row: &[Value],
    ) -> (Vec<OutputRows>, bool, BTreeSet<String>, bool) {
        let program = &self.compiled.analysis.program;
        let (names, apart) = self.striping.stripes_of(program, "o", method, row).expect(method);
        let apart = apart.iter().map(|id| program.collection(*id).name.clone()).collect();
        let mut united: BTreeMap<String, BTreeSet<Vec<Value>>> = BTreeMap::new();
        let mut is_done = true;
        for name in &names {
            match self.subjects[name].call(method, row) {
                Ok(outputs) => {
                    outputs.into_iter().for_each(|(output, rows)| {
                        united.entry(output).or_default().extend(rows);
                    });
                }
                Err(_) => is_done = false,
            }
        }
        let rows = united.into_iter().map(|(name, rows)| (name, rows.into_iter().collect()));
        (rows.collect(), is_done, apart, names.len() > 1)
    }
}

/// The outputs to compare, by name: all except those that each stripe computes from its own rows.
fn comparable(
    outputs: Vec<OutputRows>,
    apart: &BTreeSet<String>,
) -> BTreeMap<String, Vec<Vec<Value>>> {
    outputs.into_iter().filter(|(name, _)| !apart.contains(name)).collect()
}

/// Sends requests both to stripes and to one object, and compares the results. Returns how many
/// requests went to one stripe, and how many went to all stripes.
fn compare(
    source: &str,
    mut request: impl FnMut() -> (String, Vec<Value>),
) -> Option<(usize, usize)> {
    let stripes = Stripe::new(source, Stripes::Count(STRIPES))?;
    let mut reference = Reference::new(&stripes.compiled.analysis);
    let mut trace = String::new();
    let mut counts = (0, 0);
    for _ in 0..REQUESTS {
        let (method, row) = request();
        trace.push_str(&format!("    {method} {row:?}\n"));
        let expected = reference.request(&method, &row);
        let (outputs, is_done, apart, is_spread) = stripes.request(&method, &row);
        match expected {
            Ok(expected) => {
                assert!(is_done, "{source}\n{trace}");
                let (got, wanted) = (comparable(outputs, &apart), comparable(expected, &apart));
                assert_eq!(got, wanted, "{source}\n{trace}");
            }
            // Some stripes may have done their part: there is nothing more to compare.
            Err(_) if is_spread => break,
            Err(_) => assert!(!is_done, "{source}\n{trace}"),
        }
        *(if is_spread { &mut counts.1 } else { &mut counts.0 }) += 1;
    }
    Some(counts)
}

#[test]
fn the_librarys_programs_give_the_same_results_on_stripes() {
    let paths = fs::read_dir(PROGRAMS).unwrap().map(|entry| entry.unwrap().path());
    let (mut striped, mut sent) = (vec![], (0, 0));
    for path in paths.filter(|path| path.extension().is_some_and(|own| own == "test")) {
        let source = fs::read_to_string(path.with_extension("brados")).unwrap();
        let compiled = compile(&source).unwrap();
        let script = Script::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        let steps: Vec<_> = script.cases.into_iter().flat_map(|case| case.steps).collect();
        let program = &compiled.analysis.program;
        let is_method = |method: &str| {
            compiled.plan.methods.iter().any(|plan| program.collection(plan.input).name == method)
        };
        let is_row = |step: &Step| match &step.expected {
            Expected::Failure(kind) => kind != "invalid",
            Expected::Reply(_) => true,
        };
        let steps: Vec<_> =
            steps.into_iter().filter(|step| is_row(step) && is_method(&step.method)).collect();
        for seed in seeds(6) {
            let mut random = Random::seeded(seed);
            let request = || {
                let step = random.pick(&steps).unwrap();
                (step.method.clone(), step.row.clone())
            };
            if let Some(counts) = compare(&source, request) {
                striped.push(path.file_stem().unwrap().to_string_lossy().into_owned());
                sent = (sent.0 + counts.0, sent.1 + counts.1);
            }
        }
    }
    striped.dedup();
    println!("{striped:?}: {} requests to one stripe, {} to all", sent.0, sent.1);
    assert!(striped.len() >= 3 && sent.0 > 100 && sent.1 > 10, "{striped:?} {sent:?}");
}

#[test]
fn a_log_gives_the_same_results_on_stripes() {
    let mut sent = (0, 0);
    for seed in seeds(20) {
        let mut random = Random::seeded(seed);
        let request = || {
            let (epoch, pos) = (random.below(4) as i64, Value::Int(random.below(30) as i64));
            let (epoch, data) = (Value::Int(epoch), Value::Bytes(vec![random.below(3) as u8]));
            let (method, row) = match random.below(10) {
                0 => ("seal", vec![epoch]),
                1 => ("forget", vec![epoch, pos]),
                2 => ("max_position", vec![Value::Nil]),
                3..7 => ("write", vec![epoch, pos, data]),
                _ => ("read", vec![epoch, pos]),
            };
            (method.to_owned(), row)
        };
        let counts = compare(LOG, request).expect("it can be striped");
        sent = (sent.0 + counts.0, sent.1 + counts.1);
    }
    assert!(sent.0 > 400 && sent.1 > 100, "{sent:?}");
}

#[test]
fn striped_random_programs_give_the_same_results_as_one_object() {
    let (mut striped, mut sent) = (0, (0, 0));
    for seed in seeds(600) {
        let mut random = Random::seeded(seed);
        let program = Generated::new(&mut random);
        if let Some(counts) = compare(&program.source, || program.request(&mut random)) {
            striped += 1;
            sent = (sent.0 + counts.0, sent.1 + counts.1);
        }
    }
    println!("{striped} programs: {} requests to one stripe, {} to all", sent.0, sent.1);
    assert!(seeds(2).count() == 1 || striped > 3, "{striped} programs");
}

#[test]
fn a_value_is_always_in_the_same_stripe() {
    let name = |value: Value| Stripes::Count(8).name_of("o", &value).unwrap();
    assert_eq!(name(Value::Int(19)), "o.3");
    assert_eq!(name(Value::Int(-1)), "o.7");
    assert_eq!(name(Value::text("a")), "o.4");
    assert_eq!(name(Value::text("")), "o.5");
    let each = |value: Value| Stripes::Each.name_of("o", &value).unwrap();
    assert_eq!(each(Value::Int(-5)), "o.-5");
    assert_eq!(each(Value::text("a/b")), "o.x612f62");
    assert_eq!(Stripes::Each.name_of("o", &Value::Nil), None);
}

#[test]
fn a_program_that_cannot_be_striped_is_refused() {
    for (program, stripes, reason) in [
        ("queue", "stripes: 4", "`stripes`: method `enqueue`: `stored` is one for all stripes"),
        ("user", "stripes: each", "`stripes`: every stripe must carry `list` out"),
        ("version", "stripes: 2", "`stripes`: no table has a key"),
    ] {
        let text = format!("{}layout {stripes}\n", source(program));
        let errors = compile(&text).unwrap_err();
        let told = errors.first().unwrap().summary();
        assert!(told.contains(reason), "{program}: {told}");
    }
    assert!(compile(&format!("{}layout stripes: each\n", source("sequence"))).is_ok());
    let moved = format!("{}layout stripes: 4\nformer layout stripes: 2\n", source("sequence"));
    let told = compile(&moved).unwrap_err().first().unwrap().summary();
    assert!(told.contains("another number of stripes"), "{told}");
}
