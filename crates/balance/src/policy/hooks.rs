//! The hooks of a policy, as its source sets them. Each hook is a function, a string as in the
//! Mantle paper, or left out.

use mlua::Value;
use nacre_object::Result;
use nacre_script::type_of;

use super::hook_name::HookName;
use super::mapped_script::Piece;
use super::original;
use super::running::Running;
use crate::limits::MAX_SELECTORS;
use crate::{Mode, Selector};

/// A hook as the source sets it.
#[derive(Debug, Clone)]
pub(crate) enum HookForm {
    /// A function.
    Function,
    /// A string, the line on which it begins, and whether the source has it unchanged.
    Text { text: String, line: Option<u32>, is_verbatim: bool },
    /// Left out: the original policy's.
    Original,
}

impl HookForm {
    /// The string of the hook; `None` for a function.
    pub fn piece(&self, hook: HookName) -> Option<Piece<'_>> {
        match self {
            Self::Function => None,
            Self::Text { text, line, is_verbatim } => {
                Some(Piece { text, line: *line, is_verbatim: *is_verbatim })
            }
            Self::Original => {
                Some(Piece { text: original::text_of(hook), line: None, is_verbatim: false })
            }
        }
    }
}

/// The hooks of a policy.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub metaload: HookForm,
    pub mdsload: HookForm,
    pub when: HookForm,
    pub where_: HookForm,
    /// The hook `howmuch`: a list of selectors, a string with such a list, or left out.
    pub howmuch: HookForm,
    pub mode: Mode,
}

impl Hooks {
    /// The hooks of the original policy.
    pub fn original() -> Self {
        Self {
            metaload: HookForm::Original,
            mdsload: HookForm::Original,
            when: HookForm::Original,
            where_: HookForm::Original,
            howmuch: HookForm::Original,
            mode: Mode::default(),
        }
    }

    /// Reads the hooks that an executed source has set.
    pub fn read(running: &Running<'_>, source: &str) -> Result<Self> {
        check_placement(running)?;
        Ok(Self {
            metaload: read_form(running, source, HookName::Metaload)?,
            mdsload: read_form(running, source, HookName::Mdsload)?,
            when: read_form(running, source, HookName::When)?,
            where_: read_form(running, source, HookName::Where)?,
            howmuch: read_howmuch(running, source)?,
            mode: read_mode(running)?,
        })
    }
}

fn read_form(running: &Running<'_>, source: &str, hook: HookName) -> Result<HookForm> {
    match running.global(hook.as_str())? {
        Value::Nil => Ok(HookForm::Original),
        Value::Function(_) => Ok(HookForm::Function),
        Value::String(text) => Ok(located(source, hook, text.to_string_lossy())),
        other => Err(running.fault(
            hook,
            format!("`{hook}` is a {}; it must be a function or a string", type_of(&other)),
        )),
    }
}

/// A string with the line on which it begins.
fn located(source: &str, hook: HookName, text: String) -> HookForm {
    let set_on = hook.line_in(source);
    let start_of = |line: u32| {
        let before = source.split_inclusive('\n').take(line as usize - 1);
        before.map(str::len).sum::<usize>()
    };
    let start = set_on.map_or(0, start_of);
    let found = source[start..].find(&text).filter(|_| !text.is_empty());
    let line = found.map(|at| source[..start + at].matches('\n').count() as u32 + 1);
    HookForm::Text { text, line: line.or(set_on), is_verbatim: line.is_some() }
}

fn read_mode(running: &Running<'_>) -> Result<Mode> {
    let refuse = |what: String| {
        let text = format!(r#"`mode` is {what}; it must be "client" or "proxy""#);
        running.fault(HookName::Mode, text)
    };
    match running.global("mode")? {
        Value::Nil => Ok(Mode::default()),
        Value::String(word) => {
            let word = word.to_string_lossy();
            Mode::named(&word).ok_or_else(|| refuse(format!("{word:?}")))
        }
        other => Err(refuse(format!("a {}", type_of(&other)))),
    }
}

fn check_placement(running: &Running<'_>) -> Result<()> {
    match running.global("placement")? {
        Value::Nil | Value::Function(_) => Ok(()),
        other => {
            let text = format!("`placement` is a {}; it must be a function", type_of(&other));
            Err(running.fault(HookName::Placement, text))
        }
    }
}

/// Reads how `howmuch` is set. A list counts as a function, because both are values of the source
/// itself.
fn read_howmuch(running: &Running<'_>, source: &str) -> Result<HookForm> {
    match running.global("howmuch")? {
        Value::Nil => Ok(HookForm::Original),
        Value::String(text) => {
            let text = text.to_string_lossy();
            // The name of one selector stands for a list of it.
            let Some(selector) = Selector::named(&text) else {
                return Ok(located(source, HookName::Howmuch, text));
            };
            let (text, line) = (format!("{{\"{selector}\"}}"), HookName::Howmuch.line_in(source));
            Ok(HookForm::Text { text, line, is_verbatim: false })
        }
        list => read_selectors(running, &list).map(|_| HookForm::Function),
    }
}

/// A selector of a policy.
pub(crate) enum PolicySelector {
    /// A built-in selector, and its name in the policy.
    BuiltIn(Selector, String),
    /// A selector that is a function of the policy, and its name in a decision.
    Function(mlua::Function, String),
}

impl PolicySelector {
    pub fn name(&self) -> &str {
        match self {
            Self::BuiltIn(_, name) | Self::Function(_, name) => name,
        }
    }
}

/// Reads a list of selectors.
pub(crate) fn read_selectors(running: &Running<'_>, list: &Value) -> Result<Vec<PolicySelector>> {
    let refuse = |text: String| running.fault(HookName::Howmuch, text);
    let Value::Table(list) = list else {
        let text = format!("`howmuch` is a {}; it must be a list of selectors", type_of(list));
        return Err(refuse(text));
    };
    let length = list.raw_len();
    if length == 0 || length > MAX_SELECTORS {
        let text = format!("`howmuch` lists {length} selectors; it must list 1 to {MAX_SELECTORS}");
        return Err(refuse(text));
    }
    let read = |at: usize| match running.explained(list.raw_get::<Value>(at))? {
        Value::Function(function) => {
            Ok(PolicySelector::Function(function, format!("howmuch[{at}]")))
        }
        Value::String(name) => {
            let name = name.to_string_lossy();
            let selector = Selector::named(&name).ok_or_else(|| {
                let known = Selector::ALL.map(Selector::as_str).join(", ");
                refuse(format!("there is no selector {name:?}; there are {known}"))
            })?;
            Ok(PolicySelector::BuiltIn(selector, name))
        }
        other => {
            let what = type_of(&other);
            Err(refuse(format!("`howmuch[{at}]` is a {what}; it must be a name or a function")))
        }
    };
    (1..=length).map(read).collect()
}
