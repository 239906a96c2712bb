//! A line of a source with a caret, for a terminal.

/// One line of a source, counted from 1, with a caret under the column if the column is known.
/// Columns count characters from 1. Returns an empty string if the source has no such line.
pub fn excerpt(source: &[u8], line: u32, column: Option<u32>) -> String {
    let Some(text) = line_of(source, line) else { return String::new() };
    let gutter = format!("{line:>5} | ");
    let Some(column) = column else { return format!("{gutter}{text}\n") };
    // Tabs stay tabs, so that the caret stands where the token does.
    let indent: String = text
        .chars()
        .take(column as usize - 1)
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    format!("{gutter}{text}\n{:>5} | {indent}^\n", "")
}

/// A line of a source, 1-based.
pub fn line_of(source: &[u8], line: u32) -> Option<String> {
    let index = (line as usize).checked_sub(1)?;
    let line = source.split(|byte| *byte == b'\n').nth(index)?;
    Some(String::from_utf8_lossy(line).trim_end_matches('\r').to_owned())
}
