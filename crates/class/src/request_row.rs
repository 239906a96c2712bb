//! Requests that are numbers, and perhaps a text after them: a method is given the numbers, and no text is made.
//!
//! A generated class says of which columns the requests of a method are when it registers it: `i` for each number,
//! `s` for a text at the end. `nacre_brados::tuple` says how they are written.

use nacre_script::Numbers;

/// How a number and a text are marked, both in what is registered and in a request.
const INT: u8 = b'i';
const TEXT: u8 = b's';
/// From here on numbers are not exact.
const NUMBER_END: i64 = 1 << 53;

/// The numbers of a request of such columns, and how many bytes its text has, if it has one. Before them, how long it
/// is. Nothing if it is no such request.
pub(crate) fn numbers(request: &[u8], columns: &[u8]) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    numbers.push(request.len() as f64);
    let mut rest = request;
    for column in columns {
        let number = match *column {
            INT => take_int(&mut rest)?,
            TEXT => take_text_length(&mut rest)?,
            _ => return None,
        };
        numbers.push(number as f64).then_some(())?;
    }
    rest.is_empty().then_some(numbers)
}

fn take_int(rest: &mut &[u8]) -> Option<i64> {
    let (tag, after) = rest.split_first()?;
    let (number, after) = after.split_first_chunk()?;
    let number = i64::from_le_bytes(*number);
    let is_exact = -NUMBER_END < number && number < NUMBER_END;
    *rest = after;
    (*tag == INT && is_exact).then_some(number)
}

/// The text is the rest, or there is none.
fn take_text_length(rest: &mut &[u8]) -> Option<i64> {
    let (tag, after) = rest.split_first()?;
    let (length, text) = after.split_first_chunk()?;
    *rest = &[];
    let is_all = usize::try_from(u32::from_le_bytes(*length)).ok()? == text.len();
    (*tag == TEXT && is_all).then_some(text.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(number: i64) -> Vec<u8> {
        [&[INT][..], &number.to_le_bytes()].concat()
    }

    fn text(text: &str) -> Vec<u8> {
        [&[TEXT][..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
    }

    #[test]
    fn numbers_and_the_length_of_a_text_are_told() {
        let request = [int(7), int(-NUMBER_END + 1), text("abc")].concat();
        let found = numbers(&request, b"iis").unwrap();
        assert_eq!(found.as_slice(), [26.0, 7.0, -9_007_199_254_740_991.0, 3.0]);
        assert_eq!(
            numbers(&int(NUMBER_END - 1), b"i").unwrap().as_slice()[1],
            9_007_199_254_740_991.0
        );
        assert_eq!(numbers(&text(""), b"s").unwrap().as_slice(), [5.0, 0.0]);
        assert_eq!(numbers(b"", b"").unwrap().as_slice(), [0.0]);
    }

    #[test]
    fn what_is_no_such_request_gives_none() {
        let request = [int(7), text("abc")].concat();
        for length in 0..request.len() {
            assert_eq!(numbers(&request[..length], b"is"), None, "{length} bytes");
        }
        let longer = [&request[..], b"x"].concat();
        for (request, columns) in [
            (&longer[..], &b"is"[..]),
            (&request, b"ii"),
            (&request, b"i"),
            (&request, b"iss"),
            (&request, b"i?"),
            (&int(NUMBER_END), b"i"),
            (&int(-NUMBER_END), b"i"),
            (&int(i64::MIN), b"i"),
            (&int(1).repeat(Numbers::MAX), &b"i".repeat(Numbers::MAX)),
        ] {
            assert_eq!(numbers(request, columns), None, "{request:?} as {columns:?}");
        }
    }
}
