//! Helpers of several suites: names, curves, and a solver of small systems of equations.

#![allow(dead_code, reason = "each suite uses a part")]

use nacre_clock::Random;
use nacre_object::TenantName;
use nacre_qos::{ArrivalCurve, Queue, RateBurst};

pub fn name(tenant: &str) -> TenantName {
    TenantName::new(tenant).unwrap()
}

pub fn bucket(rate: f64, burst_seconds: f64) -> RateBurst {
    RateBurst { rate, burst_seconds }
}

/// The envelope of lines, each a rate and a burst.
pub fn curve(lines: &[(f64, f64)]) -> ArrivalCurve {
    let lines: Vec<_> = lines.iter().map(|(rate, burst)| bucket(*rate, *burst)).collect();
    ArrivalCurve::lower_envelope(&lines).unwrap()
}

pub fn device(number: usize) -> Queue {
    Queue { name: format!("target-{number}"), blocking_seconds: 0.0 }
}

/// A curve of up to four segments.
pub fn random_curve(random: &mut Random, rate: f64, burst: f64) -> ArrivalCurve {
    let mut part = || (1 + random.below(1000)) as f64 / 1000.0;
    let (mut rate, mut burst) = (rate * (0.5 + part()), burst * 0.3 * part());
    let mut lines = vec![(rate, burst)];
    for _ in 0..3 {
        rate *= 0.4 + 0.5 * part();
        burst *= 1.1 + 2.0 * part();
        lines.push((rate, burst));
    }
    curve(&lines)
}

/// Solves four linear equations, each with four coefficients. `None` if the solution is not unique.
pub fn corner(rows: [([f64; 4], f64); 4]) -> Option<[f64; 4]> {
    let mut matrix = rows.map(|(row, bound)| [row[0], row[1], row[2], row[3], bound]);
    for column in 0..4 {
        let pivot = (column..4).max_by(|one, other| {
            matrix[*one][column].abs().total_cmp(&matrix[*other][column].abs())
        })?;
        if matrix[pivot][column].abs() < 1e-10 {
            return None;
        }
        matrix.swap(column, pivot);
        let pivot_row = matrix[column];
        for row in (0..4).filter(|row| *row != column) {
            let factor = matrix[row][column] / pivot_row[column];
            for (value, above) in matrix[row].iter_mut().zip(pivot_row) {
                *value -= factor * above;
            }
        }
    }
    Some(std::array::from_fn(|at| matrix[at][4] / matrix[at][at]))
}
