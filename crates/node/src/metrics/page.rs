//! One collector's part of a scrape: each kind of metric in one call.

use std::fmt::Result;

use nacre_telemetry::HistogramSnapshot;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A metric's name without prefix and unit, its unit, and what it is.
#[derive(Debug)]
pub(crate) struct Title {
    pub name: &'static str,
    pub unit: Option<Unit>,
    pub help: &'static str,
}

/// A metric without a unit.
pub(crate) const fn plain(name: &'static str, help: &'static str) -> Title {
    Title { name, unit: None, help }
}

/// A metric in bytes.
pub(crate) const fn bytes(name: &'static str, help: &'static str) -> Title {
    Title { name, unit: Some(Unit::Bytes), help }
}

/// A metric in seconds.
pub(crate) const fn seconds(name: &'static str, help: &'static str) -> Title {
    Title { name, unit: Some(Unit::Seconds), help }
}

/// Labels of a series, by name.
pub(crate) type Labels<'a> = [(&'static str, &'a str)];

/// Where a collector writes.
pub(crate) struct Page<'a>(pub DescriptorEncoder<'a>);

impl Page<'_> {
    pub fn counter(&mut self, title: Title, value: u64) -> Result {
        self.series(title, MetricType::Counter, [value], |encoder, value| {
            encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    pub fn gauge(&mut self, title: Title, value: impl EncodeGaugeValue) -> Result {
        self.series(title, MetricType::Gauge, [value], |encoder, value| {
            encoder.encode_gauge(&value)
        })
    }

    pub fn histogram(&mut self, title: Title, value: &HistogramSnapshot) -> Result {
        self.series(title, MetricType::Histogram, [value], encode_histogram)
    }

    /// Counters that differ in their labels.
    pub fn counters<'l>(
        &mut self,
        title: Title,
        values: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, u64)>,
    ) -> Result {
        self.series(title, MetricType::Counter, values, |encoder, (labels, value)| {
            let labels: &Labels<'_> = &labels;
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
        })
    }

    /// Gauges that differ in their labels.
    pub fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        title: Title,
        values: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, V)>,
    ) -> Result {
        self.series(title, MetricType::Gauge, values, |encoder, (labels, value)| {
            let labels: &Labels<'_> = &labels;
            encoder.encode_family(&labels)?.encode_gauge(&value)
        })
    }

    /// Histograms that differ in their labels.
    pub fn histograms<'l>(
        &mut self,
        title: Title,
        values: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, &'l HistogramSnapshot)>,
    ) -> Result {
        self.series(title, MetricType::Histogram, values, |encoder, (labels, value)| {
            let labels: &Labels<'_> = &labels;
            encode_histogram(&mut encoder.encode_family(&labels)?, value)
        })
    }

    /// Facts in labels.
    pub fn info(&mut self, title: Title, labels: &Labels<'_>) -> Result {
        self.series(title, MetricType::Info, [labels], |encoder, labels| {
            encoder.encode_info(&labels)
        })
    }

    fn series<T>(
        &mut self,
        title: Title,
        kind: MetricType,
        values: impl IntoIterator<Item = T>,
        encode: impl Fn(&mut MetricEncoder<'_>, T) -> Result,
    ) -> Result {
        let Title { name, unit, help } = title;
        let mut encoder = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for value in values {
            encode(&mut encoder, value)?;
        }
        Ok(())
    }
}

fn encode_histogram(encoder: &mut MetricEncoder<'_>, value: &HistogramSnapshot) -> Result {
    encoder.encode_histogram::<NoLabelSet>(value.sum, value.count(), &value.buckets, None)
}
