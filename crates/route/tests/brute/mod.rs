//! A simple reference analysis to compare the real one with. It tries every IO of a small header
//! space, byte by byte and rule by rule.

use std::collections::BTreeSet;

use nacre_object::{ObjectId, TargetName};
use nacre_route::{
    Destination, Finding, FindingKind, Follow, Io, Location, Operation, Routes, Rule, Span,
    SwitchName, longest_prefix_first,
};

/// What is wrong with rules, without examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    loops: bool,
    missing: BTreeSet<String>,
    shadowed: BTreeSet<(String, String)>,
    missed: bool,
    contradictions: BTreeSet<(String, String, String)>,
    circumvented: bool,
}

impl Facts {
    pub fn add(&mut self, other: Self) {
        self.loops |= other.loops;
        self.missing.extend(other.missing);
        self.shadowed.extend(other.shadowed.into_iter().take(1));
        self.missed |= other.missed;
        self.contradictions.extend(other.contradictions.into_iter().take(1));
        self.circumvented |= other.circumvented;
    }

    pub fn is_rich(&self) -> bool {
        let sets = [self.missing.len(), self.shadowed.len(), self.contradictions.len()];
        self.loops && self.missed && self.circumvented && sets.iter().all(|count| *count > 0)
    }
}

pub fn facts(findings: &[Finding]) -> Facts {
    let mut facts = Facts::default();
    for finding in findings {
        match finding.kind.clone() {
            FindingKind::Loop => facts.loops = true,
            FindingKind::BlackHole { missing } => drop(facts.missing.insert(missing)),
            FindingKind::Shadowed { switch, rule } => {
                facts.shadowed.insert((switch.to_string(), rule));
            }
            FindingKind::MissedWrite => facts.missed = true,
            FindingKind::Contradiction { switch, rule, other, .. } => {
                facts.contradictions.insert((switch.to_string(), rule, other));
            }
            FindingKind::GrantCircumvented => facts.circumvented = true,
            FindingKind::EncodedOtherwise
            | FindingKind::PromiseLeft { .. }
            | FindingKind::UncountedLink { .. }
            | FindingKind::Incomplete => panic!("{finding}"),
        }
    }
    facts
}

/// How one byte ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// So many of these.
    Copies(usize, Vec<(ObjectId, Option<TargetName>)>),
    Controller,
    Loop,
    Missing(String),
}

#[derive(Debug, Clone)]
struct Path {
    switches: Vec<SwitchName>,
    bypassed: BTreeSet<String>,
    follow: Option<(Follow, SwitchName)>,
    through: bool,
    uncached: bool,
    end: End,
}

struct Brute<'a> {
    routes: &'a Routes,
    /// The rules of each switch in order.
    rules: Vec<(SwitchName, Vec<Rule>)>,
}

pub fn brute(routes: &Routes) -> Facts {
    let of = |switch: &SwitchName| {
        let own = routes.insertions.iter().filter(|insertion| insertion.switch == *switch);
        own.flat_map(|insertion| longest_prefix_first(insertion.rules.clone())).collect::<Vec<_>>()
    };
    let switches = routes.topology.switches.iter();
    let rules = switches.map(|(name, _)| (name.clone(), of(name))).collect();
    let brute = Brute { routes, rules };
    let mut facts = Facts::default();
    for object in objects() {
        brute.follow(&object, &mut facts);
    }
    brute.compare(&mut facts);
    facts
}

/// An object for each combination of the rules from which the test chooses.
fn objects() -> Vec<ObjectId> {
    let names = ["a", "b", "z", "aa", "ab", "az", "zb", "azb", "ba", "za"];
    let of = |pool: &str| names.map(|name| format!("{pool}/{name}").parse().unwrap());
    ["p", "q"].iter().flat_map(|pool| of(pool)).collect()
}

/// Each byte that the rules can distinguish, and IO without bytes.
fn bytes() -> Vec<Option<Span>> {
    (0..5).map(|byte| Span::new(byte, byte + 1)).chain([None]).collect()
}

fn sources() -> Vec<(&'static str, &'static str)> {
    vec![("alice", "gold"), ("alice", "x"), ("bob", "gold"), ("bob", "x")]
}

fn io(object: &ObjectId, source: (&str, &str), operation: Operation, span: Option<Span>) -> Io {
    Io {
        source: source.0.parse().unwrap(),
        tenant: source.1.parse().unwrap(),
        via: None,
        operation,
        object: object.clone(),
        span,
        home: None,
    }
}

impl Brute<'_> {
    fn permits(&self, io: &Io, object: &ObjectId) -> bool {
        let grants = &self.routes.grants;
        let is_it =
            |g: &nacre_route::Grant| g.permits(&io.source, &io.tenant, io.operation, object);
        grants.is_empty() || grants.iter().any(is_it)
    }

    fn follow(&self, object: &ObjectId, facts: &mut Facts) {
        for span in bytes() {
            let (mut reads, mut writes) = (vec![], vec![]);
            for source in sources() {
                for operation in Operation::ALL {
                    let io = io(object, source, operation, span);
                    if !self.permits(&io, object) {
                        continue;
                    }
                    let path = self.path(&io);
                    match &path.end {
                        End::Loop => facts.loops = true,
                        End::Missing(what) => drop(facts.missing.insert(what.clone())),
                        End::Controller => {}
                        End::Copies(_, all) => {
                            let is_reserved = |to: &ObjectId| {
                                self.routes.reserved.iter().any(|prefix| prefix.matches(to))
                            };
                            let is_foreign = |to: &ObjectId| {
                                to != object && !is_reserved(to) && !self.permits(&io, to)
                            };
                            facts.circumvented |= all.iter().any(|(to, _)| is_foreign(to));
                        }
                    }
                    match operation {
                        Operation::Read => reads.push(path),
                        Operation::Write => writes.push(path),
                        _ => {}
                    }
                }
            }
            if span.is_some() {
                let misses = |r: &Path| writes.iter().any(|w| misses(r, w));
                facts.missed |= reads.iter().any(misses);
            }
        }
    }

    fn path(&self, io: &Io) -> Path {
        let entry = self.routes.topology.switches.iter().find(|(_, at)| match at {
            Location::Source(source) => source.matches(io),
            _ => false,
        });
        let mut path = Path {
            switches: vec![],
            bypassed: BTreeSet::new(),
            follow: None,
            through: false,
            uncached: false,
            end: End::Loop,
        };
        let (mut io, mut to) = (io.clone(), (io.object.clone(), None));
        let mut at = entry.map(|(name, _)| name.clone());
        for _ in 0..40 {
            let Some(here) = at.clone() else {
                path.end = End::Copies(1, vec![to]);
                return path;
            };
            path.switches.push(here.clone());
            let rules = &self.rules.iter().find(|(name, _)| *name == here).unwrap().1;
            let rule = rules.iter().find(|rule| matches(rule, &io));
            if let Some(rule) = rule {
                if rule.options.follow != Follow::No {
                    path.follow = Some((rule.options.follow, here.clone()));
                }
                path.through |= rule.options.is_write_through;
                path.uncached |= rule.options.is_uncached;
            }
            let targets = &self.routes.topology.targets;
            match rule.map(|rule| &rule.destination) {
                None => {}
                Some(Destination::Home) => to = (io.object.clone(), None),
                Some(Destination::Object(object)) => to = (object.clone(), None),
                Some(Destination::Pool(pool)) => {
                    to = (ObjectId::new(pool.clone(), io.object.name.clone()), None);
                }
                Some(Destination::Target(target)) => to = (io.object.clone(), Some(target.clone())),
                Some(Destination::Bypass(layer)) => drop(path.bypassed.insert(layer.to_string())),
                Some(
                    Destination::Versions(_) | Destination::Snapshots(_) | Destination::Erasure(_),
                ) => {}
                Some(Destination::Waypoint(layer)) => {
                    io.via = Some(layer.clone());
                    at = self.routes.topology.layers[layer].clone().or(Some(here));
                    continue;
                }
                Some(Destination::Scatter(scatter)) => {
                    let copy = |target: &TargetName| (io.object.clone(), Some(target.clone()));
                    let all = scatter.among.iter().map(copy).collect();
                    path.end = End::Copies(scatter.count(), all);
                    return path;
                }
                Some(Destination::Program(_)) => unreachable!("the rules here name no program"),
                Some(Destination::Controller(_)) => {
                    path.end = End::Controller;
                    return path;
                }
            }
            if let Some(target) = to.1.as_ref().filter(|target| !targets.contains(*target)) {
                path.end = End::Missing(format!("target {target}"));
                return path;
            }
            let next = self.routes.topology.switches.iter().find(|(_, place)| match place {
                Location::Target(target) => to.1.as_ref() == Some(target),
                Location::Pool(pool) => to.1.is_none() && to.0.pool == *pool,
                _ => false,
            });
            at = next.map(|(name, _)| name.clone()).filter(|next| *next != here);
        }
        path
    }

    /// Rules that no IO meets, and rules of two applications for one IO.
    fn compare(&self, facts: &mut Facts) {
        for (switch, rules) in &self.rules {
            let mut met = BTreeSet::new();
            for object in objects() {
                for (source, operation) in sources()
                    .into_iter()
                    .flat_map(|s| Operation::ALL.map(|operation| (s, operation)))
                {
                    for span in bytes() {
                        for via in [None, Some("cache"), Some("pack"), Some("steady")] {
                            let via = via.map(|layer| layer.parse().unwrap());
                            let io = Io { via, ..io(&object, source, operation, span) };
                            let all: Vec<_> =
                                (0..rules.len()).filter(|at| matches(&rules[*at], &io)).collect();
                            met.extend(all.first().copied());
                            self.contradict(switch, rules, &all, facts);
                        }
                    }
                }
            }
            let shadowed = (0..rules.len()).filter(|at| !met.contains(at));
            facts.shadowed.extend(shadowed.map(|at| (switch.to_string(), rules[at].to_string())));
        }
    }

    fn contradict(&self, switch: &SwitchName, rules: &[Rule], all: &[usize], facts: &mut Facts) {
        let Some(first) = all.first() else { return };
        let application = &rules[*first].application;
        let other = all.iter().find(|at| rules[**at].application != *application);
        if let Some(other) = other
            && rules[*first].destination != rules[*other].destination
        {
            let (rule, other) = (rules[*first].to_string(), rules[*other].to_string());
            facts.contradictions.insert((switch.to_string(), rule, other));
        }
    }
}

/// IO from a layer does not match rules that send IO to this layer.
fn matches(rule: &Rule, io: &Io) -> bool {
    let returns =
        matches!(&rule.destination, Destination::Waypoint(layer) if Some(layer) == io.via.as_ref());
    !returns && rule.header.matches(io)
}

/// Whether some choice of copies lets the read miss the write.
fn misses(read: &Path, write: &Path) -> bool {
    match &write.follow {
        Some((Follow::Everywhere, _)) => return false,
        Some((Follow::Here, at)) if read.switches.contains(at) => return false,
        _ => {}
    }
    let (End::Copies(take, written), End::Copies(ask, asked)) = (&write.end, &read.end) else {
        return false;
    };
    let subsets = |all: usize, take: usize| {
        (0_u32..1 << all).filter(move |set| set.count_ones() as usize == take)
    };
    let are_apart = subsets(written.len(), *take).any(|w| {
        subsets(asked.len(), *ask).any(|r| {
            let is_in = |set: u32, at: usize| set & (1 << at) != 0;
            !written.iter().enumerate().any(|(i, place)| {
                is_in(w, i)
                    && asked.iter().enumerate().any(|(j, other)| is_in(r, j) && place == other)
            })
        })
    });
    let only_read = write.bypassed.iter().any(|layer| !read.bypassed.contains(layer));
    let only_written = read.bypassed.iter().any(|layer| !write.bypassed.contains(layer));
    are_apart || only_read && !read.uncached || only_written && !(write.through || write.uncached)
}
