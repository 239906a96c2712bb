//! `RuleTable`: the rules of one switch in order, with an index to look up IO.

use std::collections::BTreeSet;

use nacre_object::{Error, ObjectId, Result, TargetName};

use super::prefix_map::PrefixMap;
use super::slot::{Slot, SlotKey, Slots};
use crate::fast_hash::FastHashMap;
use crate::limits::{MAX_PATTERN_RULES, MAX_PIECES, MAX_RULES};
use crate::model::{
    ApplicationName, Destination, Header, Io, LayerName, ObjectMatch, Operation, Operations,
    Options, Pattern, Rule, RuleId, SourceMatch, Span, longest_prefix_first, text_of,
};

/// Some bytes of an IO, and the rule that decides about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The bytes; `None` if the IO touches none.
    pub span: Option<Span>,
    /// The first rule that matches them; `None` if no rule does.
    pub rule: Option<RuleId>,
}

/// Where the newest bytes of a span are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The bytes.
    pub span: Span,
    /// Where they are.
    pub destination: Destination,
    /// The application whose rule sent them there.
    pub application: ApplicationName,
}

/// The rules of one switch. Of the rules that match an IO, the one that was installed first decides
/// (sRoute paper, section 3.3).
///
/// For an IO, the table looks up the object's name and the prefixes of the name in hash tables, and then
/// the bytes in disjoint ranges. So the cost hardly depends on the number of rules.
#[derive(Debug, Clone, Default)]
pub struct RuleTable {
    rules: FastHashMap<RuleId, Rule>,
    /// The ids of `rules`, in the order in which they decide.
    order: BTreeSet<RuleId>,
    by_header: FastHashMap<Header, BTreeSet<RuleId>>,
    /// The id of the next rule to install.
    next: i64,
    /// How many rules the switch has made itself so far.
    made: i64,
    /// The bytes of all rules that the switch has made and that are still there.
    placed_bytes: u128,
    exact: FastHashMap<ObjectId, Slots>,
    prefixes: PrefixMap<Slots>,
    /// By literal prefix.
    patterns: PrefixMap<Vec<(Pattern, Slots)>>,
    pattern_rules: usize,
    waypoint_rules: usize,
}

/// The waypoint to which a rule sends IO.
fn waypoint_of(rule: &Rule) -> Option<&LayerName> {
    match &rule.destination {
        Destination::Waypoint(layer) => Some(layer),
        _ => None,
    }
}

impl RuleTable {
    /// Installs rules behind the present ones, the longest prefix first. Returns their ids in the
    /// order of installation. After an error, none of them is installed.
    ///
    /// # Errors
    /// `Exhausted` past [`MAX_RULES`] or [`MAX_PATTERN_RULES`].
    pub fn insert(&mut self, rules: Vec<Rule>) -> Result<Vec<RuleId>> {
        let is_pattern = |rule: &&Rule| matches!(rule.header.object, ObjectMatch::Pattern(_));
        let patterns = rules.iter().filter(is_pattern).count();
        if self.rules.len() + rules.len() > MAX_RULES {
            return Err(Error::exhausted(format!("a switch has {MAX_RULES} rules at most"))
                .hint("replace many rules by one for a prefix or a longer range"));
        }
        if self.pattern_rules + patterns > MAX_PATTERN_RULES {
            return Err(Error::exhausted(format!(
                "a switch has {MAX_PATTERN_RULES} rules at most with a star before the end of the object"
            ))
            .hint("use prefixes, which end with the star"));
        }
        self.pattern_rules += patterns;
        let ordered = longest_prefix_first(rules);
        Ok(ordered.into_iter().map(|rule| self.install_last(rule)).collect())
    }

    /// Notes that the newest bytes of a range are at a destination. From now on every read of these
    /// bytes goes there, whatever its source and whatever other rules say. IO without bytes, such
    /// as IO on attributes, is not affected. The note replaces earlier notes about these bytes. See
    /// [`crate::Follow`].
    ///
    /// # Errors
    /// `Exhausted` past [`MAX_RULES`]. One call adds at most two rules.
    pub fn place(&mut self, object: &ObjectId, placed: Placement) -> Result<()> {
        let Placement { span, destination, application } = placed;
        if self.rules.len() + 2 > MAX_RULES {
            return Err(Error::exhausted(format!("a switch has {MAX_RULES} rules at most"))
                .hint("bring routed bytes home: nacre route rm APPLICATION"));
        }
        let mut whole = span;
        for (other_span, id) in self.made_near(object, span) {
            let Some((_, other)) = self.uninstall(id) else { continue };
            if other.destination == destination {
                let start = whole.start().min(other_span.start());
                whole = Span::new(start, whole.end().max(other_span.end())).unwrap_or(whole);
                continue;
            }
            let before = Span::new(other_span.start(), other_span.end().min(span.start()));
            let after = Span::new(other_span.start().max(span.end()), other_span.end());
            for rest in [before, after].into_iter().flatten() {
                let header = Header { span: rest, ..other.header.clone() };
                self.make(Rule { header, ..other.clone() });
            }
        }
        let header = Header {
            source: SourceMatch::Any,
            operations: Operations::of([Operation::Read]).unwrap_or(Operations::ALL),
            object: ObjectMatch::Exact(object.clone()),
            span: whole,
            home: None,
        };
        self.make(Rule { header, destination, options: Options::default(), application });
        Ok(())
    }

    /// The rules that the switch made about bytes that overlap `span` or touch it.
    fn made_near(&self, object: &ObjectId, span: Span) -> Vec<(Span, RuleId)> {
        // The ids of made rules come before all others.
        if self.order.first().is_none_or(|first| !first.is_made()) {
            return vec![];
        }
        let near = Span::new(span.start().saturating_sub(1), span.end().saturating_add(1));
        let slots = self.exact.get(object);
        let slot = slots.and_then(|slots| slots.of_any(Operation::Read));
        slot.zip(near).map_or(vec![], |(slot, near)| slot.made_over(near))
    }

    /// A rule that the switch made about some byte of `span`, if there is one.
    pub fn made_over(&self, object: &ObjectId, span: Span) -> Option<&Rule> {
        let near = self.made_near(object, span);
        near.into_iter().find(|(made, _)| made.overlaps(span)).and_then(|(_, id)| self.get(id))
    }

    /// The noted destinations of the newest bytes of a range, in the order of the bytes.
    pub fn placed(&self, object: &ObjectId, span: Span) -> Vec<Placement> {
        let near = self.made_near(object, span).into_iter();
        let placement = |(made, id): (Span, RuleId)| {
            let Rule { destination, application, .. } = self.get(id)?.clone();
            Some(Placement { span: made.intersect(span)?, destination, application })
        };
        let mut placed: Vec<_> = near.filter_map(placement).collect();
        placed.sort_by_key(|placement| placement.span);
        placed
    }

    /// All notes of the switch about where newest bytes are.
    pub fn all_placed(&self) -> impl Iterator<Item = (&ObjectId, &Rule)> {
        let made = self.order.range(..RuleId(0)).filter_map(|id| self.rules.get(id));
        made.filter_map(|rule| match &rule.header.object {
            ObjectMatch::Exact(object) => Some((object, rule)),
            _ => None,
        })
    }

    /// The bytes of all these notes together.
    pub fn placed_bytes(&self) -> u64 {
        u64::try_from(self.placed_bytes).unwrap_or(u64::MAX)
    }

    /// Removes the notes of the switch about a range. Then other rules decide about its bytes
    /// again.
    pub fn forget(&mut self, object: &ObjectId, span: Span) {
        for (made, id) in self.made_near(object, span) {
            if !made.overlaps(span) {
                continue;
            }
            let Some((_, rule)) = self.uninstall(id) else { continue };
            let before = Span::new(made.start(), made.end().min(span.start()));
            let after = Span::new(made.start().max(span.end()), made.end());
            for rest in [before, after].into_iter().flatten() {
                let header = Header { span: rest, ..rule.header.clone() };
                self.make(Rule { header, ..rule.clone() });
            }
        }
    }

    /// Whether an installed rule sends reads away from home. `is_home` says which destinations have
    /// the bytes of the home.
    pub fn sends_reads_away(&self, is_home: impl Fn(&Destination) -> bool) -> bool {
        self.order.range(RuleId(0)..).filter_map(|id| self.rules.get(id)).any(|rule| {
            rule.header.operations.contains(Operation::Read) && !is_home(&rule.destination)
        })
    }

    fn make(&mut self, rule: Rule) {
        self.made += 1;
        self.placed_bytes += u128::from(rule.header.span.length());
        self.install(RuleId(-self.made), rule);
    }

    fn install_last(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.install(id, rule);
        id
    }

    fn install(&mut self, id: RuleId, rule: Rule) {
        let slots = match &rule.header.object {
            ObjectMatch::Exact(object) => self.exact.entry(object.clone()).or_default(),
            ObjectMatch::Prefix(prefix) => self.prefixes.entry(prefix),
            ObjectMatch::Pattern(pattern) => {
                let same = self.patterns.entry(pattern.literal_prefix());
                let at = same.iter().position(|(other, _)| other == pattern);
                let at = at.unwrap_or_else(|| {
                    same.push((pattern.clone(), Slots::default()));
                    same.len() - 1
                });
                &mut same[at].1
            }
        };
        for operation in rule.header.operations.iter() {
            let waypoint = waypoint_of(&rule);
            slots.insert(key_of(&rule.header, operation), id, rule.header.span, waypoint);
        }
        self.waypoint_rules += usize::from(waypoint_of(&rule).is_some());
        self.by_header.entry(rule.header.clone()).or_default().insert(id);
        self.order.insert(id);
        self.rules.insert(id, rule);
    }

    /// Whether there is a rule with exactly this header.
    pub fn has(&self, header: &Header) -> bool {
        self.by_header.contains_key(header)
    }

    /// Removes all rules with exactly this header, and returns them (`Delete` of the sRoute paper,
    /// table 2).
    pub fn delete(&mut self, header: &Header) -> Vec<(RuleId, Rule)> {
        let ids = self.by_header.remove(header).unwrap_or_default();
        ids.into_iter().filter_map(|id| self.uninstall(id)).collect()
    }

    fn uninstall(&mut self, id: RuleId) -> Option<(RuleId, Rule)> {
        let rule = self.rules.remove(&id)?;
        self.waypoint_rules -= usize::from(waypoint_of(&rule).is_some());
        self.order.remove(&id);
        if id.is_made() {
            self.placed_bytes -= u128::from(rule.header.span.length());
        }
        if let Some(same) = self.by_header.get_mut(&rule.header) {
            same.remove(&id);
            if same.is_empty() {
                self.by_header.remove(&rule.header);
            }
        }
        let Header { operations, object, span, .. } = &rule.header;
        let remove = |slots: &mut Slots| {
            for operation in operations.iter() {
                slots.remove(&key_of(&rule.header, operation), id, *span, waypoint_of(&rule));
            }
            slots.is_empty()
        };
        match object {
            ObjectMatch::Exact(object) => {
                if self.exact.get_mut(object).is_some_and(remove) {
                    self.exact.remove(object);
                }
            }
            ObjectMatch::Prefix(prefix) => {
                if self.prefixes.get_mut(prefix).is_some_and(remove) {
                    self.prefixes.remove(prefix);
                }
            }
            ObjectMatch::Pattern(pattern) => {
                self.pattern_rules -= 1;
                let literal = pattern.literal_prefix();
                if let Some(same) = self.patterns.get_mut(literal) {
                    same.retain_mut(|(other, slots)| other != pattern || !remove(slots));
                    if same.is_empty() {
                        self.patterns.remove(literal);
                    }
                }
            }
        }
        Some((id, rule))
    }

    /// The rules, in the order in which they decide.
    pub fn rules(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        self.order.iter().filter_map(|id| Some((*id, self.rules.get(id)?)))
    }

    /// The rule with this id.
    pub fn get(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(&id)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Finds the rule that decides about each byte of an IO. The segments are in the order of the
    /// bytes.
    ///
    /// IO that comes from a waypoint does not match rules that send IO to this waypoint. Such rules
    /// have priority over the notes of [`RuleTable::place`]: first a read passes its waypoints, and
    /// then it goes to the newest bytes.
    ///
    /// # Errors
    /// `Exhausted` if the rules split the IO into more than [`MAX_PIECES`].
    pub fn route(&self, io: &Io) -> Result<Vec<Segment>> {
        let slots = self.slots(io);
        let Some(span) = io.span else {
            let via = io.via.as_ref();
            let rule = slots.iter().filter_map(|slot| slot.without_bytes(via)).min();
            return Ok(vec![Segment { span: None, rule }]);
        };
        let mut segments: Vec<Segment> = vec![];
        let mut at = span.start();
        while at < span.end() {
            let (mut made, mut installed, mut end) = (None, None, span.end());
            for slot in &slots {
                let found = slot.at(at, io.via.as_ref());
                end = end.min(found.until);
                made = [made, found.made].into_iter().flatten().min();
                installed = [installed, found.installed].into_iter().flatten().min();
            }
            let rule = match installed {
                Some(rule) if self.goes_to_waypoint(rule) => installed,
                _ => made.or(installed),
            };
            let start = match segments.last() {
                Some(last) if last.rule == rule => {
                    segments.pop().and_then(|last| last.span).map_or(at, Span::start)
                }
                _ => at,
            };
            if segments.len() == MAX_PIECES {
                return Err(Error::exhausted(format!(
                    "the rules split one IO into more than {MAX_PIECES} pieces"
                ))
                .during("route")
                .on(&io.object)
                .hint("ask for fewer bytes at once"));
            }
            segments.push(Segment { span: Span::new(start, end), rule });
            at = end;
        }
        Ok(segments)
    }

    fn goes_to_waypoint(&self, rule: RuleId) -> bool {
        self.waypoint_rules > 0
            && self.rules.get(&rule).is_some_and(|rule| waypoint_of(rule).is_some())
    }

    /// The slots whose rules match the source, operation and object of an IO.
    fn slots<'a>(&'a self, io: &'a Io) -> Vec<&'a Slot> {
        let mut matching = Matching { io, keys: None, found: vec![] };
        if let Some(slots) = self.exact.get(&io.object) {
            matching.collect(slots);
        }
        if self.prefixes.is_empty() && self.patterns.is_empty() {
            return matching.found;
        }
        let text = text_of(&io.object);
        self.prefixes.prefixes_of(&text).for_each(|slots| matching.collect(slots));
        let patterns = self.patterns.prefixes_of(&text).flatten();
        let fitting = patterns.filter(|(pattern, _)| pattern.matches(&text));
        fitting.for_each(|(_, slots)| matching.collect(slots));
        matching.found
    }
}

/// The slots that match an IO.
struct Matching<'a> {
    io: &'a Io,
    /// The sources and the home of the IO, as rules may name them; made when they are first needed.
    keys: Option<Vec<SlotKey>>,
    found: Vec<&'a Slot>,
}

impl<'a> Matching<'a> {
    fn collect(&mut self, slots: &'a Slots) {
        self.found.extend(slots.of_any(self.io.operation));
        if slots.has_named() {
            let keys = self.keys.get_or_insert_with(|| named_keys_of(self.io));
            self.found.extend(keys.iter().filter_map(|key| slots.of_named(key)));
        }
    }
}

fn key_of(header: &Header, operation: Operation) -> SlotKey {
    SlotKey { source: header.source.clone(), home: header.home.clone(), operation }
}

/// The keys of rules for single sources or homes that can match this IO.
fn named_keys_of(io: &Io) -> Vec<SlotKey> {
    let own = [SourceMatch::Entity(io.source.clone()), SourceMatch::Tenant(io.tenant.clone())];
    let layer = io.via.clone().map(SourceMatch::Layer);
    let sources: Vec<_> = own.into_iter().chain(layer).collect();
    let key = |source: &SourceMatch, home: Option<&TargetName>| SlotKey {
        source: source.clone(),
        home: home.cloned(),
        operation: io.operation,
    };
    let mut keys: Vec<_> = sources.iter().map(|source| key(source, None)).collect();
    if let Some(home) = &io.home {
        let any = [SourceMatch::Any];
        keys.extend(any.iter().chain(&sources).map(|source| key(source, Some(home))));
    }
    keys
}
