//! Writes series.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;

/// Writes one gauge per series.
pub(super) fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

/// Counts become the values of gauges; the difference above 2^53 is not relevant.
pub(super) fn value(count: u64) -> f64 {
    count as f64
}

/// Writes one counter per series.
pub(super) fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, count) in series {
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
    }
    Ok(())
}

/// Writes one histogram per series.
pub(super) fn histograms<'h, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    series: impl Iterator<Item = (L, &'h Histogram)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, histogram) in series {
        histogram.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
