//! `nacre program kinds`: lists the kinds of programs, what each must define, and what each may
//! use.

use std::sync::Arc;

use nacre::{Hook, ProgramKind, hooks};
use nacre_clock::SystemClock;
use nacre_object::Result;
use nacre_program::{FunctionSpec, Interface, Item};
use serde_json::{Value, json};

use crate::out::Out;

/// Prints the kinds, or one of them.
///
/// # Errors
/// `Unsupported` if that kind has no hook.
pub fn run(kind: Option<ProgramKind>, out: Out) -> Result<()> {
    let hooks = hooks(Arc::new(SystemClock::default()));
    let shown: Vec<&dyn Hook> = match kind {
        Some(kind) => vec![hooks.of(kind)?],
        None => hooks.iter().collect(),
    };
    for hook in shown {
        let (kind, interface) = (hook.kind(), hook.interface());
        out.show(&as_json(kind, interface), || as_text(kind, interface, out))?;
    }
    Ok(())
}

fn as_text(kind: ProgramKind, interface: &Interface, out: Out) -> String {
    let mut text = format!(
        "{kind}: {}\n  written in {}\n  defines\n",
        interface.purpose,
        interface.languages.join(" or ")
    );
    for FunctionSpec { usage, what, arguments, .. } in interface.functions {
        text += &format!("    {usage}  {what}\n");
        text += &items(arguments, "      ");
    }
    text += "  finds the library of docs/lua-api.md\n";
    text += &items(interface.environment, "    ");
    for constants in interface.constants {
        let names: Vec<_> = constants.values.iter().map(|(name, _)| *name).collect();
        text += &format!("    {}: {}\n", constants.table, names.join(" "));
    }
    let budget = &interface.budget;
    text + &format!(
        "  may use {} ms, {} steps, {} of memory, {} of output",
        budget.time.as_millis(),
        budget.steps,
        out.size(budget.memory_bytes as u64),
        out.size(budget.output_bytes as u64)
    )
}

fn items(items: &[Item], indent: &str) -> String {
    items.iter().map(|Item { usage, what }| format!("{indent}{usage}  {what}\n")).collect()
}

fn as_json(kind: ProgramKind, interface: &Interface) -> Value {
    let items = |items: &[Item]| -> Vec<Value> {
        items.iter().map(|item| json!({ "usage": item.usage, "what": item.what })).collect()
    };
    let functions = interface.functions.iter().map(|function| {
        json!({
            "usage": function.usage,
            "what": function.what,
            "required": function.is_required,
            "arguments": items(function.arguments),
        })
    });
    let constants = interface.constants.iter().flat_map(|constants| {
        constants
            .values
            .iter()
            .map(|(name, value)| (format!("{}.{name}", constants.table), json!(value)))
    });
    let budget = &interface.budget;
    json!({
        "kind": kind.as_str(),
        "purpose": interface.purpose,
        "languages": interface.languages,
        "functions": functions.collect::<Vec<_>>(),
        "environment": items(interface.environment),
        "constants": constants.collect::<serde_json::Map<_, _>>(),
        "budget": {
            "milliseconds": budget.time.as_millis() as u64,
            "steps": budget.steps,
            "memory_bytes": budget.memory_bytes,
            "output_bytes": budget.output_bytes,
        },
    })
}
