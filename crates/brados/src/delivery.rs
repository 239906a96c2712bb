//! Channels whose messages the runtime delivers. The runtime recognises these channels by their
//! names. The messages of any other channel wait until the application fetches them.
//!
//! | channel | columns | what the runtime does with a message |
//! |---|---|---|
//! | `remove_object` | any; they give people the reason for the removal | removes the object, unless the object has changed meanwhile |
//! | `notify` | one, `string` or `bytes` | notifies the object's watchers and passes them the column |
//! | `enqueue`, `enqueue_…` | `object`, `class`, `method`, then the columns of the method's row | calls this method of this object in the sender's pool, with this row |

use crate::compile::Compiled;
use crate::diagnostic::Diagnostic;
use crate::ir::{Collection, Program};
use crate::syntax::ast::Kind;
use crate::syntax::token::MergeOp;
use nacre_calls::{Base, Type};

pub use nacre_calls::{ENQUEUE, NOTIFY, REMOVE_OBJECT, is_enqueue};

/// The first columns of `enqueue`.
const ADDRESS: [&str; 3] = ["object", "class", "method"];

impl Collection {
    /// Whether it is a channel whose messages the runtime delivers.
    pub fn is_delivered(&self) -> bool {
        let is_known = matches!(&*self.name, REMOVE_OBJECT | NOTIFY) || is_enqueue(&self.name);
        self.kind == Kind::Channel && is_known
    }
}

impl Program {
    /// Whether it has channels that the runtime delivers.
    pub fn has_delivered_channels(&self) -> bool {
        self.collections.iter().any(Collection::is_delivered)
    }

    /// Whether it has channels that the application drains.
    pub fn has_drained_channels(&self) -> bool {
        let mut channels = self.of_kind(Kind::Channel);
        channels.any(|id| !self.collection(id).is_delivered())
    }

    /// Whether it may have its object removed.
    pub fn has_removal(&self) -> bool {
        let mut channels = self.of_kind(Kind::Channel);
        channels.any(|id| self.collection(id).name == REMOVE_OBJECT)
    }
}

impl Compiled {
    /// The methods that may send messages that the runtime delivers.
    pub fn senders(&self) -> impl Iterator<Item = &str> {
        let program = &self.analysis.program;
        let sends = |rule: usize| {
            let rule = &program.rules[rule];
            rule.op == MergeOp::Send && program.collection(rule.head).is_delivered()
        };
        let methods = self.plan.methods.iter();
        // An object is not removed before the application has drained its channels.
        let drained = program.has_removal() && program.has_drained_channels();
        methods
            .filter(move |method| method.rules().any(|plan| sends(plan.rule)))
            .map(|method| &*program.collection(method.input).name)
            .chain(drained.then_some("channel_delivered"))
    }
}

/// Checks the columns of a channel whose messages the runtime delivers. Returns the mistake, if
/// there is one. Gives a column without a declared type the type that the runtime requires.
pub(crate) fn check_columns(channel: &mut Collection) -> Option<Diagnostic> {
    let wrong = match &*channel.name {
        NOTIFY => notify_is_wrong(channel),
        name if is_enqueue(name) => enqueue_is_wrong(channel),
        _ => None,
    };
    wrong.map(|(message, help)| Diagnostic::error(channel.span, message).help(help))
}

fn notify_is_wrong(channel: &mut Collection) -> Option<(String, &'static str)> {
    let is_payload = match &mut channel.columns[..] {
        [only] => is_text(only.declared.get_or_insert(text_type(Base::Bytes))),
        _ => false,
    };
    let message = "`notify` has one column, a `string` or `bytes`: what watchers are told";
    (!is_payload).then(|| (message.to_owned(), "write `channel :notify, [:payload:bytes]`"))
}

fn enqueue_is_wrong(channel: &mut Collection) -> Option<(String, &'static str)> {
    let mut columns = channel.columns.iter_mut();
    let is_address = ADDRESS.iter().all(|name| {
        columns.next().is_some_and(|column| {
            let declared = column.declared.get_or_insert(text_type(Base::String));
            column.name == *name && is_text(declared)
        })
    });
    let name = &channel.name;
    let message =
        format!("`{name}` begins with where a message goes: texts `object`, `class` and `method`");
    let help = "write `[:object:string, :class:string, :method:string, …]`, then the columns of the \
                method's input";
    (!is_address).then_some((message, help))
}

fn text_type(base: Base) -> Type {
    Type { base, may_be_nil: false }
}

fn is_text(ty: &Type) -> bool {
    matches!(ty.base, Base::String | Base::Bytes) && !ty.may_be_nil
}
