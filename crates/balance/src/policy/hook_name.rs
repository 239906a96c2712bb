//! `HookName`: the parts of a policy.

use std::fmt;

/// A part of a policy: a global that its source sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookName {
    Metaload,
    Mdsload,
    When,
    Where,
    Howmuch,
    Placement,
    Mode,
}

impl HookName {
    /// The name of the global.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metaload => "metaload",
            Self::Mdsload => "mdsload",
            Self::When => "when",
            Self::Where => "where",
            Self::Howmuch => "howmuch",
            Self::Placement => "placement",
            Self::Mode => "mode",
        }
    }

    /// The line of a source, from 1, on which it sets the hook.
    pub fn line_in(self, source: &str) -> Option<u32> {
        source.lines().position(|line| self.is_set_by(line)).map(|at| at as u32 + 1)
    }

    fn is_set_by(self, line: &str) -> bool {
        let line = line.trim_start();
        let function = line.strip_prefix("function").map(str::trim_start);
        let rest = |text: &str, sign| {
            let rest = text.strip_prefix(self.as_str()).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with(sign) && !rest.starts_with("=="))
        };
        rest(line, '=') || function.is_some_and(|name| rest(name, '('))
    }
}

impl fmt::Display for HookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_sets_a_hook_is_found() {
        let source = "-- when = 1\nif when == 2 then\nend\n  when = [[\nfunction where()\nend";
        assert_eq!(HookName::When.line_in(source), Some(4));
        assert_eq!(HookName::Where.line_in(source), Some(5));
        assert_eq!(HookName::Mode.line_in(source), None);
    }
}
