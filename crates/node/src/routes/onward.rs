//! `Onward`: the paths (stacks of layers) from the switch to the object itself.

use nacre_object::{Op, Request, Stack};
use nacre_route::{Destination, Io, Operation, RuleId, Span, Touch};

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
        let io = Io::of(&request.header, None, None, touch);
        let core = self.core();
        let segments = core.table().route(&io).ok()?;
        let bypassing = segments.iter().map(|segment| {
            let id = segment.rule?;
            matches!(core.table().get(id)?.destination, Destination::Bypass(_)).then_some(id)
        });
        bypassing.reduce(|one, other| other.and(one)).flatten()
    }
}
