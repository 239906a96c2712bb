//! `Onward`: the paths (stacks of layers) from the switch to the object itself, and which of them a
//! read takes.

use nacre_object::{Op, Request, Stack};
use nacre_route::{Destination, Io, Operation, RuleId, RuleTable, Span, Touch};

use super::NodeSwitch;

/// The paths from the switch to the object itself.
#[derive(Debug, Clone)]
pub struct Onward {
    /// Through all layers.
    pub usual: Stack,
    /// Through all layers but the cache. Only reads may take it, because the cache must see all
    /// changes.
    pub past_cache: Stack,
}

impl Onward {
    /// The paths of a process that caches nothing.
    pub fn uncached(path: Stack) -> Self {
        Self { usual: path.clone(), past_cache: path }
    }

    /// The same paths with one more layer.
    #[must_use]
    pub fn map(self, layered: impl Fn(Stack) -> Stack) -> Self {
        Self { usual: layered(self.usual), past_cache: layered(self.past_cache) }
    }
}

impl NodeSwitch {
    /// The rule that sends a read past the cache, if such a rule decides about all of its bytes.
    pub(super) fn rule_past_cache(&self, request: &Request) -> Option<RuleId> {
        if !self.has_bypass() {
            return None;
        }
        let (Op::Read { offset, length }, rest) = request.ops.split_first()? else { return None };
        if !matches!(rest, [] | [Op::Stat]) {
            return None;
        }
        let span = Span::new(*offset, offset.saturating_add(*length))?;
        let touch = Touch { operation: Operation::Read, span: Some(span) };
        // On Ceph a rule may be only for the objects of one OSD.
        let locations = self.locations().rados();
        let home = locations.and_then(|locations| locations.known_primary(&request.header.object));
        let io = Io::of(&request.header, None, home, touch);
        let core = self.core();
        let bypassing = same_for_all_bytes(core.table(), &io, |destination| match destination {
            Destination::Bypass(layer) => Some(layer),
            _ => None,
        });
        bypassing.map(|(rule, _)| rule)
    }
}

/// What `of` finds in the destinations of the rules that decide about an IO, with the first of
/// these rules. `None` if it does not find the same for all bytes of the IO.
pub(super) fn same_for_all_bytes<'a, T: PartialEq>(
    table: &'a RuleTable,
    io: &Io,
    of: impl Fn(&'a Destination) -> Option<T>,
) -> Option<(RuleId, T)> {
    let segments = table.route(io).ok()?;
    let mut found = segments.iter().map(|segment| {
        let rule = segment.rule?;
        Some((rule, of(&table.get(rule)?.destination)?))
    });
    let first = found.next()??;
    found.all(|other| other.is_some_and(|(_, one)| one == first.1)).then_some(first)
}
