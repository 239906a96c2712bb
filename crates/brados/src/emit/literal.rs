//! Literals, in the Lua that this compiler writes.

/// A literal of Lua, as this compiler writes them.
#[derive(Debug, PartialEq)]
pub(super) enum Literal {
    Number(i64),
    Text(Vec<u8>),
}

impl Literal {
    /// Parses a Lua expression; `None` if it is not a literal.
    pub fn of(expr: &str) -> Option<Self> {
        match expr.strip_prefix('"') {
            Some(text) => Self::text(text),
            None => expr.parse().ok().map(Self::Number),
        }
    }

    /// Parses a result of [`super::encoding::quoted`] without the first quote.
    fn text(spelled: &str) -> Option<Self> {
        let (mut text, mut rest) = (vec![], spelled.bytes());
        loop {
            match rest.next()? {
                b'"' => return rest.next().is_none().then_some(Self::Text(text)),
                b'\\' => match rest.next()? {
                    quoted @ (b'"' | b'\\') => text.push(quoted),
                    first => {
                        let digits = [first, rest.next()?, rest.next()?];
                        text.push(std::str::from_utf8(&digits).ok()?.parse().ok()?);
                    }
                },
                plain => text.push(plain),
            }
        }
    }

    /// Its bytes in a field of a format.
    pub fn packed(&self, field: &str) -> Option<Vec<u8>> {
        match (self, field) {
            (Self::Number(number), "i8") => Some(number.to_le_bytes().to_vec()),
            (Self::Number(number), "B") => Some(vec![u8::try_from(*number).ok()?]),
            (Self::Text(text), "s4") => {
                let length = u32::try_from(text.len()).ok()?;
                Some([&length.to_le_bytes()[..], text].concat())
            }
            (Self::Text(text), field) => {
                let length: usize = field.strip_prefix('c')?.parse().ok()?;
                (length == text.len()).then(|| text.clone())
            }
            _ => None,
        }
    }
}
