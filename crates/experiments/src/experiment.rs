//! The figures by name.

use std::str::FromStr;

use nacre_object::{Error, Result};

use crate::plan::{Over, Plan, Work};
use crate::plot::{Axis, Form, Look};
use crate::strategy::Strategy;

/// The entry sizes for which appends are measured: those of the Brados paper, and larger ones.
const SIZES: [usize; 5] = [128, 1024, 4096, 16_384, 65_536];
/// The log from which the Brados paper reads: its number of entries, and the bytes of each.
const READ_ENTRIES: u64 = 1024;
const READ_BYTES: usize = 1024;
/// The entry sizes for which the cost of metadata is measured: those of the Brados paper's figure
/// 4.
const METADATA_SIZES: [usize; 3] = [128, 1024, 4096];
/// The entry size with which the Brados paper measures a hard disk.
const DISK_BYTES: usize = 128;
/// How long a slow device is measured, as a multiple of the other measurements: long enough to show
/// rare events, such as pauses of the device.
const DISK_SPANS: usize = 8;

/// A figure of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experiment {
    /// Brados, figure 4: appends by mapping strategy.
    AppendThroughput,
    /// Brados, figure 5: random reads by mapping strategy.
    RandomReads,
    /// Brados, figure 6: what classes and their metadata cost an append.
    MetadataOverhead,
    /// Brados, figure 7: the map beside the byte stream on a slow device.
    SlowDevice,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::AppendThroughput, Self::RandomReads, Self::MetadataOverhead, Self::SlowDevice];

    /// Its name on the command line, and its folder in `experiments/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AppendThroughput => "brados-4-append-throughput",
            Self::RandomReads => "brados-5-random-reads",
            Self::MetadataOverhead => "brados-6-metadata-overhead",
            Self::SlowDevice => "brados-7-slow-device",
        }
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        match self {
            Self::AppendThroughput => "Appends by mapping strategy and entry size",
            Self::RandomReads => "Random reads by mapping strategy, 1,024 entries of 1 KiB",
            Self::MetadataOverhead => "What a class and its metadata cost an append",
            Self::SlowDevice => "Appends of 128 B on a slow device",
        }
    }

    /// What is measured for it.
    pub fn plan(self) -> Plan {
        let both = || [&Strategy::BARE[..], &Strategy::RELATIONS].concat();
        match self {
            Self::AppendThroughput => {
                Plan { strategies: both(), work: Work::Appends, over: Over::Sizes(SIZES.to_vec()) }
            }
            Self::RandomReads => Plan {
                strategies: both(),
                work: Work::RandomReads(READ_ENTRIES),
                over: Over::Sizes(vec![READ_BYTES]),
            },
            Self::MetadataOverhead => Plan {
                strategies: Strategy::METADATA.to_vec(),
                work: Work::Appends,
                over: Over::Sizes(METADATA_SIZES.to_vec()),
            },
            Self::SlowDevice => Plan {
                strategies: Strategy::MAP_BESIDE_STREAM.to_vec(),
                work: Work::Appends,
                over: Over::Time { spans: DISK_SPANS, bytes: DISK_BYTES },
            },
        }
    }

    /// How it is drawn.
    pub(crate) fn look(self) -> Look {
        let (form, by_way) = match self {
            Self::AppendThroughput => (Form::Lines(Axis::Log), true),
            Self::RandomReads => (Form::Bars, true),
            Self::MetadataOverhead => (Form::Bars, false),
            Self::SlowDevice => (Form::Lines(Axis::Linear), true),
        };
        Look { form, panel_for_each_way: by_way }
    }
}

impl FromStr for Experiment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no figure {text:?}"))
                .hint(format!("choose one of {names}"))
        })
    }
}
