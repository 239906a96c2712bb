//! Selects the parts of the runtime that a class uses. The parts are sections of `runtime.lua`,
//! `channels.lua` (messages), `layout.lua` (rows outside the map) and `migrate.lua` (changes of
//! layout).

use std::collections::BTreeSet;

const FILES: [&str; 4] = [
    include_str!("runtime.lua"),
    include_str!("channels.lua"),
    include_str!("layout.lua"),
    include_str!("migrate.lua"),
];
/// The beginning of a section.
const MARK: &str = "\n--- ";

/// Which sections a class uses.
#[derive(Debug, Default)]
pub(super) struct Runtime(BTreeSet<String>);

impl Runtime {
    /// Uses a section; returns its name, to write it where it is used.
    pub fn need(&mut self, name: &'static str) -> &'static str {
        self.0.insert(name.to_owned());
        name
    }

    /// The code of all sections in use, each after the sections that it uses.
    pub fn text(&self) -> String {
        let sections: Vec<_> = sections().collect();
        let mut needed = self.0.clone();
        // A section uses earlier ones only, so one walk from the end finds all.
        for section in sections.iter().rev() {
            if needed.contains(section.name) {
                needed.extend(section.uses.iter().map(|name| (*name).to_owned()));
            }
        }
        let used = sections.iter().filter(|section| needed.contains(section.name));
        used.map(|section| section.text).collect()
    }
}

struct Section {
    name: &'static str,
    uses: Vec<&'static str>,
    text: &'static str,
}

/// All sections, without the text before the first section of each file.
fn sections() -> impl Iterator<Item = Section> {
    FILES.iter().flat_map(|file| file.split(MARK).skip(1)).map(|part| {
        let (head, text) = part.split_once('\n').unwrap_or((part, ""));
        let (name, uses) = head.split_once(": ").unwrap_or((head, ""));
        Section { name, uses: uses.split_whitespace().collect(), text }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_uses_only_earlier_sections() {
        let mut seen = vec![];
        for section in sections() {
            assert!(section.uses.iter().all(|name| seen.contains(name)), "{}", section.name);
            seen.push(section.name);
        }
        assert!(seen.len() > 20);
    }

    #[test]
    fn the_lua_code_and_the_layouts_have_equal_bounds() {
        let stated = format!("STREAM_END = 16, {}\n", crate::limits::MAX_STREAM_BYTES);
        let is_said = |text: &str| sections().any(|section| section.text.contains(text));
        assert!(is_said(&stated));
        assert!(is_said("unpack(\"<I6I4I4\", noted, 2)"));
        // The slot's state; then the entry's kind, offset, length and block length.
        assert_eq!(crate::layout::stream::INDEX_BYTES, 1 + 1 + 6 + 4 + 4);
    }

    #[test]
    fn a_section_is_emitted_with_the_sections_that_it_uses() {
        let mut runtime = Runtime::default();
        runtime.need("pend");
        let text = runtime.text();
        assert!(text.contains("local fail") && text.contains("local function same"));
        assert!(!text.contains("local function settle"));
    }
}
