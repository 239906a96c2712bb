//! Compares the output of a command with the output on a page. On the page, `…` stands for text
//! that differs from run to run.

/// Stands for one or more characters within a line. A line with only this character stands for any
/// number of lines.
const ANYTHING: &str = "…";

/// Whether these lines are those that the page shows.
pub fn is_shown(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [ANYTHING, rest @ ..] => (0..=printed.len()).any(|skip| is_shown(rest, &printed[skip..])),
        [line, rest @ ..] => printed
            .split_first()
            .is_some_and(|(first, others)| is_shown_line(line, first) && is_shown(rest, others)),
    }
}

fn is_shown_line(shown: &str, printed: &str) -> bool {
    let Some((head, tail)) = shown.split_once(ANYTHING) else { return shown == printed };
    let Some(rest) = printed.strip_prefix(head) else { return false };
    let ends = rest.char_indices().map(|(start, character)| start + character.len_utf8());
    ends.into_iter().any(|end| is_shown_line(tail, &rest[end..]))
}

#[test]
fn an_ellipsis_matches_any_text() {
    let is_shown = |shown: &str, printed: &str| {
        is_shown(&Vec::from_iter(shown.lines()), &Vec::from_iter(printed.lines()))
    };
    assert!(is_shown("pid …, up", "pid 1234, up"));
    assert!(is_shown("…ms…", "1 ms, 2 ms."));
    assert!(is_shown("a\n…\nb", "a\nb") && is_shown("a\n…\nb", "a\nx\ny\nb"));
    assert!(!is_shown("pid …, up", "pid , up") && !is_shown("pid …", "pid 1\nmore"));
    assert!(!is_shown("a\n…\nb", "a\nx") && !is_shown("a", "b") && !is_shown("", "b"));
}
