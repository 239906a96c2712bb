//! What several tests use.
#![allow(dead_code, reason = "each test uses some of it")]

use nacre_clock::Random;
use nacre_route::{ApplicationName, Io, Rule, RuleId, RuleTable, Segment, Span};

pub fn rule(text: &str) -> Rule {
    let words: Vec<_> = text.split(' ').collect();
    Rule::parse(&ApplicationName::new("test").unwrap(), &words)
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub fn rules(text: &[&str]) -> Vec<Rule> {
    text.iter().map(|text| rule(text)).collect()
}

pub fn io(text: &str) -> Io {
    Io::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A simple reference matcher: it tries every rule, in order, for every byte.
pub fn linear(table: &RuleTable, io: &Io) -> Vec<Segment> {
    // A rule that the switch made is about bytes alone.
    let is_about = |id: RuleId, rule: &Rule, io: &Io| {
        rule.header.matches(io) && (io.span.is_some() || !id.is_made())
    };
    let first =
        |io: &Io| table.rules().find(|(id, rule)| is_about(*id, rule, io)).map(|(id, _)| id);
    let Some(span) = io.span else { return vec![Segment { span: None, rule: first(io) }] };
    let mut borders = vec![span.start(), span.end()];
    for (_, rule) in table.rules() {
        borders.extend([rule.header.span.start(), rule.header.span.end()]);
    }
    borders.retain(|border| span.start() <= *border && *border <= span.end());
    borders.sort_unstable();
    borders.dedup();
    let mut segments: Vec<Segment> = vec![];
    for pair in borders.windows(2) {
        let part = Span::new(pair[0], pair[1]).unwrap();
        let rule = first(&Io { span: Some(part), ..io.clone() });
        match segments.last_mut() {
            Some(last) if last.rule == rule => {
                last.span = Span::new(last.span.unwrap().start(), part.end());
            }
            _ => segments.push(Segment { span: Some(part), rule }),
        }
    }
    segments
}

/// The rule about the first byte.
pub fn first_rule(table: &RuleTable, text: &str) -> Option<RuleId> {
    table.route(&io(text)).unwrap()[0].rule
}

pub fn pick<'a>(random: &mut Random, items: &[&'a str]) -> &'a str {
    items[random.below(items.len() as u64) as usize]
}
