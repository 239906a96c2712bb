//! Emits calls of `pack`. If every value is a literal, the class contains the packed bytes instead.

use super::encoding::quoted;
use super::literal::Literal;

/// Returns Lua code that packs these values. `format` is a format of `string.pack` without the
/// leading `<`. If all values are literals, the code is the packed string itself.
pub(super) fn pack(format: &str, values: &[String]) -> String {
    let spelled = bytes_of(format, values).map(|bytes| quoted(&bytes));
    spelled.unwrap_or_else(|| format!("pack(\"<{format}\", {})", values.join(", ")))
}

fn bytes_of(format: &str, values: &[String]) -> Option<Vec<u8>> {
    let fields = fields(format);
    if fields.len() != values.len() {
        return None;
    }
    let packed = fields.iter().zip(values).map(|(field, value)| Literal::of(value)?.packed(field));
    packed.collect::<Option<Vec<_>>>().map(|packed| packed.concat())
}

/// The fields of a format: a letter, and a length if it has one.
fn fields(format: &str) -> Vec<&str> {
    let starts: Vec<_> =
        format.char_indices().filter(|(_, c)| c.is_ascii_alphabetic()).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([format.len()]);
    starts.iter().zip(ends).map(|(start, end)| &format[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(format: &str, values: &[&str]) -> String {
        pack(format, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_compiler_packs_literals() {
        assert_eq!(
            packed("s4s4", &["\"filled\"", "\"\""]),
            r#""\006\000\000\000filled\000\000\000\000""#
        );
        assert_eq!(
            packed("c2i8B", &["\"ab\"", "-2", "1"]),
            r#""ab\254\255\255\255\255\255\255\255\001""#
        );
        assert_eq!(
            packed("s4", &[r#""\"\\\0001""#]),
            r#""\005\000\000\000\"\\\0001""#.replace("005", "004")
        );
        assert_eq!(packed("", &[]), "\"\"");
    }

    #[test]
    fn the_class_packs_values_that_are_not_literals() {
        assert_eq!(packed("s4i8", &["\"a\"", "n"]), "pack(\"<s4i8\", \"a\", n)");
        // These are no literals, although they begin and end like some.
        assert_eq!(packed("s4", &["\"a\" .. \"b\""]), "pack(\"<s4\", \"a\" .. \"b\")");
        assert_eq!(packed("i8", &["1 + 1"]), "pack(\"<i8\", 1 + 1)");
        assert_eq!(packed("i8", &["1e3"]), "pack(\"<i8\", 1e3)");
    }
}
