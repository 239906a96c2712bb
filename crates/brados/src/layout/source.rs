//! Replaces the layouts in a source and leaves the rest of the source as it is.

use super::Layout;
use crate::diagnostic::Diagnostics;
use crate::span::Span;
use crate::syntax::{lexer, parse};

/// Replaces the layouts that a source declares: the present layout, and the former layouts in which
/// some objects may still be.
pub fn with_layout(source: &str, present: &Layout, former: &[Layout]) -> String {
    let mut text = without_layouts(source).trim_end().to_owned() + "\n";
    if *present != Layout::default() || !former.is_empty() {
        text.push_str(&format!("\nlayout {present}\n"));
    }
    for layout in former {
        text.push_str(&format!("former layout {layout}\n"));
    }
    text
}

/// If the source is not a program, the lines that cannot be parsed stay.
fn without_layouts(source: &str) -> String {
    let mut ignored = Diagnostics::default();
    let tokens = lexer::tokens(source, &mut ignored);
    let mut declared = parse(source, tokens, &mut ignored).layouts;
    declared.sort_by_key(|layout| layout.span.start);
    let (mut text, mut kept) = (String::new(), 0);
    for layout in declared {
        let lines = whole_lines(source, layout.span);
        text.push_str(&source[kept..lines.0]);
        kept = lines.1;
    }
    text + &source[kept..]
}

/// The byte range of all lines that a declaration occupies, from the beginning of its first line to
/// the end of its last line. After the declaration, the last line can only have a comment, which
/// belongs to the range too.
fn whole_lines(source: &str, span: Span) -> (usize, usize) {
    let (start, end) = (span.start as usize, span.end as usize);
    let first = source[..start].rfind('\n').map_or(0, |at| at + 1);
    let last = source[end..].find('\n').map_or(source.len(), |at| end + at + 1);
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "state do\n  table :layout, [:a:int]\nend\n";

    #[test]
    fn with_layout_replaces_the_declared_layouts() {
        let slots: Layout = "layout: slots(16)".parse().unwrap();
        let put = with_layout(PROGRAM, &slots, &[Layout::default()]);
        assert_eq!(put, format!("{PROGRAM}\nlayout layout: slots(16)\nformer layout map\n"));
        assert_eq!(with_layout(&put, &slots, &[Layout::default()]), put);
        assert_eq!(with_layout(&put, &Layout::default(), &[]), PROGRAM);
    }

    #[test]
    fn with_layout_removes_only_lines_that_declare_a_layout() {
        let source =
            "bloom do\n  a <= (b *\n  layout * c)\nend\n  layout b: map # why\nstate do\nend\n";
        let kept = with_layout(source, &Layout::default(), &[]);
        assert_eq!(kept, "bloom do\n  a <= (b *\n  layout * c)\nend\nstate do\nend\n");
    }
}
