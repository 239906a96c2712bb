//! What people write for latencies, sizes and probabilities.

use std::time::Duration;

use nacre_qos::Link;
use nacre_slo::LINK_BYTES_PER_SECOND;

/// A latency with its unit.
pub(super) fn latency(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').ok_or("say a unit: 20ms or 0.5s")?, 1.0),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| "say a number: 20ms or 0.5s")? * unit;
    match seconds > 0.0 && seconds <= nacre_qos::limits::MAX_SLO_SECONDS {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("a latency is above 0 and at most an hour".to_owned()),
    }
}

/// A number of bytes above 0, such as 4096, 4k or 4KiB.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const HELP: &str = "say bytes, or a number with k, M or G: 4096, 4k, 4KiB (a k is 1024 bytes)";
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "ki" | "kib" => 10,
        "m" | "mi" | "mib" => 20,
        "g" | "gi" | "gib" => 30,
        _ => return Err(HELP.to_owned()),
    };
    let number = number.parse::<u64>().map_err(|_| HELP)?;
    match number.checked_mul(1 << shift) {
        None | Some(0) => Err("a size is above 0 and has 64 bits at most".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

/// The speed of a link.
pub(super) fn speed(text: &str) -> Result<Link, String> {
    const HELP: &str = "say bits or bytes a second with a unit: 100Mbit, 1Gbit or 125MB";
    let digits = |letter: char| !letter.is_ascii_digit() && letter != '.';
    let (number, unit) = text.split_at(text.find(digits).unwrap_or(text.len()));
    let bytes = match unit.trim().to_ascii_lowercase().as_str() {
        "kbit" => 125.0,
        "mbit" => 125e3,
        "gbit" => 125e6,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(HELP.to_owned()),
    };
    let speed = number.parse::<f64>().map_err(|_| HELP)? * bytes;
    match LINK_BYTES_PER_SECOND.contains(&speed) {
        true => Link::new(speed).map_err(|error| error.to_string()),
        false => Err("a link carries from 1kB to 1000GB a second".to_owned()),
    }
}

/// The speed of a link, or the word for none.
#[derive(Debug, Clone, Copy)]
pub struct LinkSpeed(pub(super) Option<Link>);

/// The speed of a link, or `off`.
pub(super) fn speed_or_off(text: &str) -> Result<LinkSpeed, String> {
    match text {
        "off" => Ok(LinkSpeed(None)),
        speed_text => speed(speed_text).map(Some).map(LinkSpeed),
    }
}

/// The part of the requests that may be late.
pub(super) fn violation(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().map_err(|_| "say a number: 0.001 is one request in 1,000")?;
    match part > 0.0 && part < 1.0 {
        true => Ok(part),
        false => Err("it is between 0 and 1: 0.001 is one request in 1,000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_a_unit() {
        assert_eq!(latency("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(latency("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(latency("1.5 ms"), Ok(Duration::from_micros(1500)));
        for wrong in ["20", "ms", "0ms", "-1s", "nans", "2h", "4000s"] {
            assert!(latency(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_size_may_have_a_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            ("2 M", 2 << 20),
            ("1G", 1 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "0", "0k", "-1", "1.5k", "4kB", "4x", "1e3", "99999999999G", "ü"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_speed_has_a_unit_of_bits_or_bytes() {
        let bytes = |text: &str| speed(text).map(|link| link.bytes_per_second());
        assert_eq!(bytes("1Gbit"), Ok(125e6));
        assert_eq!(bytes("100 Mbit"), Ok(12.5e6));
        assert_eq!(bytes("2.5MB"), Ok(2.5e6));
        assert!(matches!(speed_or_off("off"), Ok(LinkSpeed(None))));
        for wrong in ["", "1", "Gbit", "0Gbit", "-1Gbit", "1.2.3MB", "1Tbit", "9999999GB", "nanMB"]
        {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_violation_is_between_0_and_1() {
        assert_eq!(violation("0.001"), Ok(0.001));
        assert_eq!(violation("1e-3"), Ok(0.001));
        for wrong in ["0", "1", "-0.1", "nan", "1%"] {
            assert!(violation(wrong).is_err(), "{wrong}");
        }
    }
}
