//! The formats of traces.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nacre_object::{Error, Result};

use super::reader::LineReader;
use super::{alibaba, blkparse, fio, msr, nacre, priority_meister, tencent};

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// nacre's own format, which names objects.
    Nacre,
    /// The format of PriorityMeister and of WorkloadCompactor.
    PriorityMeister,
    /// The block traces of MSR Cambridge.
    Msr,
    /// The block traces of Tencent CBS.
    Tencent,
    /// The block traces of Alibaba.
    Alibaba,
    /// The traces that fio writes with `write_iolog`, version 2 or 3.
    Fio,
    /// The text that blkparse prints by default.
    Blkparse,
    /// The binary format of libCacheSim.
    OracleGeneral,
}

impl TraceFormat {
    /// Every format, in declaration order.
    pub const ALL: [Self; 8] = [
        Self::Nacre,
        Self::PriorityMeister,
        Self::Msr,
        Self::Tencent,
        Self::Alibaba,
        Self::Fio,
        Self::Blkparse,
        Self::OracleGeneral,
    ];

    /// The word for this format on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nacre => "nacre",
            Self::PriorityMeister => "priority-meister",
            Self::Msr => "msr",
            Self::Tencent => "tencent",
            Self::Alibaba => "alibaba",
            Self::Fio => "fio",
            Self::Blkparse => "blkparse",
            Self::OracleGeneral => "oracle-general",
        }
    }

    /// The format of a trace with this first line; `None` if the line fits no format or several.
    pub fn detect(first_line: &str) -> Option<Self> {
        let line = first_line.trim_end();
        if line == nacre::HEADER {
            return Some(Self::Nacre);
        }
        if fio::version(line).is_some() {
            return Some(Self::Fio);
        }
        let mut fitting = Self::ALL.into_iter().filter(|format| format.fits(line));
        match (fitting.next(), fitting.next()) {
            (Some(format), None) => Some(format),
            _ => None,
        }
    }

    fn fits(self, line: &str) -> bool {
        let needs_no_header = !matches!(self, Self::Nacre | Self::Fio);
        needs_no_header && self.reader().is_ok_and(|mut reader| reader.read_line(line).is_ok())
    }

    /// The resolution of times in this format. A single trace may have finer times.
    pub(super) const fn clock_step(self) -> Duration {
        match self {
            Self::Nacre | Self::PriorityMeister | Self::Blkparse => Duration::from_nanos(1),
            Self::Msr => Duration::from_nanos(100),
            Self::Alibaba | Self::Fio => Duration::from_micros(1),
            Self::Tencent | Self::OracleGeneral => Duration::from_secs(1),
        }
    }

    /// A reader for the lines of this format.
    pub(super) fn reader(self) -> Result<Box<dyn LineReader>> {
        Ok(match self {
            Self::Nacre => Box::new(nacre::Lines::default()),
            Self::PriorityMeister => Box::new(priority_meister::Lines),
            Self::Msr => Box::new(msr::Lines),
            Self::Tencent => Box::new(tencent::Lines),
            Self::Alibaba => Box::new(alibaba::Lines),
            Self::Fio => Box::new(fio::Lines::default()),
            Self::Blkparse => Box::new(blkparse::Lines::default()),
            Self::OracleGeneral => return Err(one_second_clock(self.as_str())),
        })
    }
}

/// The error of a trace whose clock is too coarse for a curve.
pub(crate) fn one_second_clock(what: &str) -> Error {
    Error::unsupported(format!("the times of {what} traces are whole seconds"))
        .hint("all requests of a second look like one burst; use a trace with times of a millisecond or less")
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TraceFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|format| format.as_str()).collect();
            Error::invalid(format!("there is no trace format {text:?}"))
                .hint(format!("the formats are {}", names.join(", ")))
        })
    }
}
