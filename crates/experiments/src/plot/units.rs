//! Numbers as people read them.

const KIB: f64 = 1024.0;
/// Numbers above this are written in thousands.
const MANY: f64 = 10_000.0;
/// A number below this is written with up to two decimal places.
const FEW: f64 = 10.0;

/// A size, exact where it is a whole number of its unit.
pub(super) fn bytes(bytes: f64) -> String {
    if bytes >= KIB { format!("{} KiB", bytes / KIB) } else { format!("{bytes} B") }
}

/// A rate, or a ratio.
pub(super) fn count(count: f64) -> String {
    match count {
        _ if count >= MANY => format!("{:.0}k", count / 1e3),
        _ if count >= 1e3 => format!("{:.1}k", count / 1e3),
        _ if count < FEW => format!("{}", (count * 1e2).round() / 1e2),
        _ => format!("{count:.0}"),
    }
}

/// A number of which nothing more is known.
pub(super) fn plain(number: f64) -> String {
    if number.abs() >= MANY { count(number) } else { format!("{}", (number * 1e3).round() / 1e3) }
}

/// A time.
pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.0} s")
}

/// 1, 2 and 5 times the powers of ten within a range.
pub(super) fn nice_steps(low: f64, high: f64) -> Vec<f64> {
    let first = low.max(1.0).log10().floor() as i32;
    let last = high.max(1.0).log10().ceil() as i32;
    let steps =
        (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
    steps.filter(|step| (low..=high).contains(step)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_numbers_are_short() {
        assert_eq!([bytes(128.0), bytes(1024.0), bytes(1536.0)], ["128 B", "1 KiB", "1.5 KiB"]);
        assert_eq!(
            [count(0.0), count(1.0755), count(0.8), count(12.3)],
            ["0", "1.08", "0.8", "12"]
        );
        assert_eq!([count(7.0), count(1234.0), count(56_789.0)], ["7", "1.2k", "57k"]);
        assert_eq!(nice_steps(90.0, 1100.0), [100.0, 200.0, 500.0, 1000.0]);
    }
}
