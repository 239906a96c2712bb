//! Functions of `prelude.luau` that are written in Rust. They must take linear time, be bounded, or
//! draw numbers from the run's seed, which they could not do in Luau.

use std::cell::RefCell;
use std::rc::Rc;

use memchr::memmem;
use mlua::{
    FromLuaMulti, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value, Variadic,
};
use nacre_clock::Random;
use nacre_object::Error;
use nacre_program::Limit;

use crate::fault::{cause_text, raise, raised};
use crate::limits::{MAX_PATTERN_BYTES, MAX_PATTERN_WORK};
use crate::meter::Meter;

/// The VM's message when its allocator refuses memory, which it does only because of the limit.
pub(crate) const OUT_OF_MEMORY: &str = "not enough memory";

/// The functions that `prelude.luau` calls as `host.…`.
pub(crate) fn host_table(lua: &Lua, meter: &Rc<Meter>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    let watcher = meter.clone();
    host.raw_set("caught", lua.create_function(move |lua, error| caught(lua, &watcher, error))?)?;
    host.raw_set("find_plain", costly(lua, meter, find_plain)?)?;
    host.raw_set("split", costly(lua, meter, split)?)?;
    host.raw_set("check_pattern", costly(lua, meter, check_pattern)?)?;
    Ok(host)
}

/// Makes a host function after which the meter checks the budget at the next step. It is for
/// functions that take long, and for functions after which the prelude calls a library function
/// that takes long.
fn costly<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    meter: &Rc<Meter>,
    function: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function> {
    let meter = meter.clone();
    lua.create_function(move |lua, arguments| {
        meter.look_soon();
        function(lua, arguments)
    })
}

/// The values that a script gets when it catches `error`. An exceeded budget is raised again.
pub(crate) fn caught(lua: &Lua, meter: &Meter, error: Value) -> mlua::Result<MultiValue> {
    let values = match error {
        Value::String(text) if text.as_bytes() == OUT_OF_MEMORY.as_bytes() => {
            return Err(meter.exceed(Limit::Memory));
        }
        Value::Error(error) => {
            if let Some(exceeded) = meter.exceeded() {
                return Err(raise(exceeded.error));
            }
            match raised(&error) {
                Some(error) => vec![
                    Value::Integer(error.status().into()),
                    Value::String(lua.create_string(error.message())?),
                ],
                None => vec![Value::String(lua.create_string(cause_text(&error))?)],
            }
        }
        other => vec![other],
    };
    Ok(MultiValue::from_vec(values))
}

/// `string.find` without patterns, in linear time.
fn find_plain(
    _: &Lua,
    (subject, pattern, init): (LuaString, LuaString, Option<i64>),
) -> mlua::Result<(Option<usize>, Option<usize>)> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let start = match init.unwrap_or(1) {
        init if init < 0 => subject.len().saturating_sub(init.unsigned_abs() as usize),
        init => usize::try_from(init - 1).unwrap_or(0),
    };
    let found = subject.get(start..).and_then(|rest| memmem::find(rest, &pattern));
    let first = found.map(|at| start + at + 1);
    Ok((first, first.map(|first| first + pattern.len() - 1)))
}

/// `string.split`, in linear time.
fn split(lua: &Lua, (subject, separator): (LuaString, LuaString)) -> mlua::Result<Table> {
    let (subject, separator) = (subject.as_bytes(), separator.as_bytes());
    let pieces = lua.create_table()?;
    let mut start = 0;
    for at in memmem::find_iter(&subject, &separator) {
        pieces.raw_push(lua.create_string(&subject[start..at])?)?;
        start = at + separator.len();
    }
    pieces.raw_push(lua.create_string(&subject[start..])?)?;
    Ok(pieces)
}

/// Refuses a pattern that could keep the matcher busy for a long time between two steps.
fn check_pattern(_: &Lua, (subject, pattern): (LuaString, LuaString)) -> mlua::Result<()> {
    let pattern = pattern.as_bytes();
    if pattern.len() > MAX_PATTERN_BYTES {
        let text = format!("the pattern has {} bytes", pattern.len());
        return Err(mlua::Error::runtime(format!("{text}; at most {MAX_PATTERN_BYTES} fit")));
    }
    let length = subject.as_bytes().len();
    let per_byte = 1 + longest_set(&pattern);
    if length.saturating_mul(per_byte) > MAX_PATTERN_WORK {
        let text = format!("matching a set of {per_byte} bytes over a subject of {length} bytes");
        return Err(mlua::Error::runtime(format!(
            "{text} takes too long; match parts of the subject"
        )));
    }
    Ok(())
}

/// The length in bytes of the longest set (`[…]`) of a pattern. For one byte of the subject, the
/// matcher may test every byte of a set.
fn longest_set(pattern: &[u8]) -> usize {
    let mut longest = 0;
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'%' => at += 2,
            b'[' => {
                let end = set_end(pattern, at);
                longest = longest.max(end - at);
                at = end;
            }
            _ => at += 1,
        }
    }
    longest
}

/// The end of the set that opens at `open`. Its first byte never closes it.
fn set_end(pattern: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    if pattern.get(at) == Some(&b'^') {
        at += 1;
    }
    let first = at;
    while at < pattern.len() {
        match pattern[at] {
            b']' if at > first => return at + 1,
            b'%' => at += 2,
            _ => at += 1,
        }
    }
    pattern.len()
}

/// Installs `math.random` and `math.randomseed`, over a generator that each run seeds.
pub(crate) fn install_random(lua: &Lua, random: &Rc<RefCell<Random>>) -> mlua::Result<()> {
    let math: Table = lua.globals().raw_get("math")?;
    let generator = random.clone();
    let draw = lua.create_function(move |_, bounds: Variadic<f64>| {
        draw(&mut generator.borrow_mut(), &bounds).map_err(mlua::Error::runtime)
    })?;
    math.raw_set("random", draw)?;
    let generator = random.clone();
    let seed = lua.create_function(move |_, seed: f64| {
        *generator.borrow_mut() = Random::seeded(seed.to_bits());
        Ok(())
    })?;
    math.raw_set("randomseed", seed)
}

/// Draws a random number. Without bounds it is a fraction from 0 to below 1. With one bound it is
/// an integer from 1 to the bound; with two, an integer between the two.
fn draw(random: &mut Random, bounds: &[f64]) -> Result<f64, Error> {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS;
    let (first, last) = match *bounds {
        [] => {
            let bits = random.next_u64() >> (u64::BITS - FRACTION_BITS);
            return Ok(bits as f64 / (1_u64 << FRACTION_BITS) as f64);
        }
        [last] => (1.0, last.floor()),
        [first, last] => (first.floor(), last.floor()),
        _ => return Err(Error::invalid("wrong number of arguments to 'random'")),
    };
    let width = last - first;
    if !(0.0..(1_u64 << FRACTION_BITS) as f64).contains(&width) {
        return Err(Error::invalid(format!(
            "'random' got the interval from {first} to {last}: it must not be empty, and its width \
             must be below 2^53"
        )));
    }
    Ok(first + random.below(width as u64 + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_set_is_found_as_the_matcher_reads_it() {
        assert_eq!(longest_set(b"abc%[d"), 0);
        assert_eq!(longest_set(b"[abc]x[a]"), 5);
        assert_eq!(longest_set(b"[]ab]"), 5);
        assert_eq!(longest_set(b"[^]ab]"), 6);
        assert_eq!(longest_set(b"[a%]b]"), 6);
        assert_eq!(longest_set(b"[never closed"), 13);
    }

    #[test]
    fn random_numbers_stay_within_their_bounds_and_repeat_with_the_seed() {
        let run = || {
            let mut random = Random::seeded(7);
            (0..1000).map(|_| draw(&mut random, &[3.0, 5.0]).unwrap() as i64).collect::<Vec<_>>()
        };
        assert!(run().iter().all(|n| (3..=5).contains(n)));
        assert_eq!(run(), run());
        let mut random = Random::seeded(1);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&draw(&mut random, &[]).unwrap())));
        for wrong in [&[0.0][..], &[2.0, 1.0], &[f64::NAN, 1.0], &[0.0, 1e300], &[1.0, 2.0, 3.0]] {
            assert!(draw(&mut random, wrong).is_err(), "{wrong:?}");
        }
    }
}
