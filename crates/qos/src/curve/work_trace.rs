//! The requests of a trace at one device: the arrival time and the work of each.

use nacre_object::{Error, Result};

/// A request as a device sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkArrival {
    /// The time at which it arrives.
    pub at_seconds: f64,
    /// How long the device needs for this request alone.
    pub work_seconds: f64,
}

/// The requests of a trace that one device serves.
///
/// **Invariant:** the arrivals are sorted by time, and no work is negative.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkTrace {
    arrivals: Vec<WorkArrival>,
    duration_seconds: f64,
}

impl WorkTrace {
    /// Creates a trace of these arrivals.
    ///
    /// `duration_seconds` is the time from the first to the last request of the whole trace. It is
    /// longer than the time spanned by `arrivals` if other devices served the first or the last
    /// request.
    ///
    /// # Errors
    /// `Invalid` if the arrivals are not sorted by time, or if a number is negative or NaN.
    pub fn new(arrivals: Vec<WorkArrival>, duration_seconds: f64) -> Result<Self> {
        let is_ordered = arrivals.windows(2).all(|pair| pair[0].at_seconds <= pair[1].at_seconds);
        let is_number = |arrival: &WorkArrival| {
            arrival.at_seconds.is_finite()
                && arrival.work_seconds.is_finite()
                && arrival.work_seconds >= 0.0
        };
        if !is_ordered || !arrivals.iter().all(is_number) {
            return Err(Error::invalid(
                "the arrivals are not sorted by time, or a time or work is negative or not finite",
            ));
        }
        let own = match (arrivals.first(), arrivals.last()) {
            (Some(first), Some(last)) => last.at_seconds - first.at_seconds,
            _ => 0.0,
        };
        if !duration_seconds.is_finite() || duration_seconds < own {
            let message = format!(
                "the duration of the trace is {duration_seconds} s, but its arrivals span {own} s"
            );
            return Err(Error::invalid(message));
        }
        Ok(Self { arrivals, duration_seconds })
    }

    /// The requests.
    pub fn arrivals(&self) -> &[WorkArrival] {
        &self.arrivals
    }

    /// The time from the first to the last request of the whole trace.
    pub fn duration_seconds(&self) -> f64 {
        self.duration_seconds
    }

    /// The sum of the work of all requests.
    pub fn work_seconds(&self) -> f64 {
        self.arrivals.iter().map(|arrival| arrival.work_seconds).sum()
    }

    /// The lowest rate at which a device does all the work within the duration.
    ///
    /// # Errors
    /// `Invalid` if the trace has no work, or if its duration is 0.
    pub fn least_rate(&self) -> Result<f64> {
        let rate = self.work_seconds() / self.duration_seconds;
        match rate.is_finite() && rate > 0.0 {
            true => Ok(rate),
            false => Err(Error::invalid(
                "the trace has no rate: all requests came at one time, or no request needs any work",
            )
            .hint("use a trace with requests at two or more times")),
        }
    }
}
