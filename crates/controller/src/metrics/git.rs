//! What was asked of Git servers.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::encode::counters;
use super::kept::Kept;
use super::labels::Labels;

impl Kept {
    /// What was asked of Git servers.
    pub(super) fn encode_git(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(requests) = self.git.get() else { return Ok(()) };
        let all = requests.all();
        let of_kind = |(repo, kind): &(String, &'static str)| -> Labels {
            vec![("repo", repo.clone()), ("request_type", (*kind).to_owned())]
        };
        let counts = all.iter().map(|(key, requests)| (of_kind(key), requests.count));
        counters(encoder, ("argocd_git_request", "Requests to Git servers"), counts)?;
        let failures: [(&str, &str, &str); 2] = [
            ("argocd_git_fetch_fail", "Fetches from Git servers that failed", "fetch"),
            ("argocd_git_lsremote_fail", "Reads of references that failed", "ls-remote"),
        ];
        for (name, help, kind) in failures {
            let of_kind = all.iter().filter(|((_, of), _)| *of == kind);
            let failed = of_kind.map(|((repo, _), found)| ([("repo", repo.clone())], found.failed));
            counters(encoder, (name, help), failed)?;
        }
        let mut metric = encoder.encode_descriptor(
            "argocd_git_request_duration_seconds",
            "Duration of requests to Git servers in seconds",
            None,
            MetricType::Histogram,
        )?;
        for (key, requests) in &all {
            let bounds = wavegate_source::BOUNDS.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(requests.by_duration).collect();
            let labels = of_kind(key);
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(
                requests.seconds,
                requests.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}
