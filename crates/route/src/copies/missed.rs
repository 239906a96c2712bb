//! `Missed`: which bytes of an object have changed while a copy of it was made.

use crate::limits::MAX_MISSED_SPANS;
use crate::model::Span;

/// Bytes that a copy in the making does not have yet, because updates changed them meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missed {
    /// The bytes: spans in ascending order, which neither overlap nor touch.
    pub spans: Vec<Span>,
    /// The version of the object after the last update; `None` if there was none since the switch
    /// ordered the copy.
    pub version: Option<u64>,
}

impl Missed {
    /// An update has changed these bytes.
    pub(super) fn add(&mut self, span: Span, version: u64) {
        self.version = self.version.max(Some(version));
        let (mut start, mut end) = (span.start(), span.end());
        self.spans.retain(|other| {
            let is_apart = other.end() < start || end < other.start();
            if !is_apart {
                (start, end) = (start.min(other.start()), end.max(other.end()));
            }
            is_apart
        });
        self.spans.extend(Span::new(start, end));
        self.spans.sort_unstable();
        if self.spans.len() > MAX_MISSED_SPANS {
            let hull = self.spans.first().zip(self.spans.last());
            let hull = hull.and_then(|(first, last)| Span::new(first.start(), last.end()));
            self.spans = hull.into_iter().collect();
        }
    }

    /// Takes the bytes out, because the runtime copies them again. The version stays.
    pub(super) fn take(&mut self) -> Self {
        Self { spans: std::mem::take(&mut self.spans), version: self.version }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nacre_clock::Random;

    use super::*;

    #[test]
    fn the_spans_contain_every_changed_byte_and_are_few_and_apart() {
        let mut random = Random::seeded(5);
        for _ in 0..300 {
            let (mut missed, mut bytes) = (Missed::default(), BTreeSet::new());
            for version in 1..random.below(200) {
                let start = random.below(400);
                let span = Span::new(start, start + 1 + random.below(3)).unwrap();
                bytes.extend(span.start()..span.end());
                missed.add(span, version);
                assert_eq!(missed.version, Some(version));
            }
            let has = |byte: &u64| {
                missed.spans.iter().any(|span| (span.start()..span.end()).contains(byte))
            };
            assert!(bytes.iter().all(has), "{missed:?}");
            assert!(missed.spans.len() <= MAX_MISSED_SPANS);
            assert!(missed.spans.windows(2).all(|two| two[0].end() < two[1].start()));
        }
    }

    #[test]
    fn few_spans_contain_nothing_else() {
        let mut missed = Missed::default();
        for (start, end) in [(0, 2), (8, 9), (2, 4), (6, 8)] {
            missed.add(Span::new(start, end).unwrap(), 1);
        }
        let spans = [(0, 4), (6, 9)].map(|(start, end)| Span::new(start, end).unwrap());
        assert_eq!(missed.take().spans, spans);
        assert_eq!(missed, Missed { spans: vec![], version: Some(1) });
    }
}
