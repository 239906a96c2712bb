//! Values of the VM as policies know them: Luau has one type of numbers.

use mlua::Value;
use nacre_script::type_of;

/// Whole numbers up to this are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A number; `None` for any other value, strings of digits included.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        _ => None,
    }
}

/// A number that is an integer.
pub(super) fn whole_number(value: &Value) -> Option<i64> {
    let whole = |number: &f64| number.fract() == 0.0 && number.abs() <= MAX_EXACT;
    number(value).filter(whole).map(|number| number as i64)
}

/// Describes a value for an error: a number itself, or the type of any other value.
pub(super) fn described(value: &Value) -> String {
    match number(value) {
        Some(number) if number.fract() == 0.0 && number.abs() <= MAX_EXACT => number.to_string(),
        Some(number) => format!("{number:?}"),
        None => format!("a {}", type_of(value)),
    }
}
