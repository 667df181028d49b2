//! What is known of clusters (SE-552). Nothing is requested from them for it.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{counters, gauges, value};
use super::kept::Kept;
use super::labels::{Labels, with};
use wavegate_net::redact;

impl Kept {
    pub(super) fn encode_clusters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(clusters) = self.clusters.get().and_then(std::sync::Weak::upgrade) else {
            return Ok(());
        };
        let all = clusters.facts();
        let all: Vec<_> = all
            .into_iter()
            .map(|(server, (name, facts))| {
                (redact::redact_url(&server), name, facts.unwrap_or_default())
            })
            .collect();
        let of_server = |server: &str| -> Labels { vec![("server", server.to_owned())] };
        let version =
            |version: &Option<String>| ("k8s_version", version.clone().unwrap_or_default());
        let info = all.iter().map(|(server, name, facts)| {
            let more = [version(&facts.version), ("name", name.clone())];
            (with(of_server(server), more), 1.0)
        });
        gauges(encoder, ("argocd_cluster_info", "Clusters that Applications may use"), info)?;
        let objects =
            all.iter().map(|(server, _, facts)| (of_server(server), value(facts.objects as u64)));
        let help = "Objects of a cluster that are known";
        gauges(encoder, ("argocd_cluster_api_resource_objects", help), objects)?;
        let kinds =
            all.iter().map(|(server, _, facts)| (of_server(server), value(facts.kinds as u64)));
        let help = "Kinds of a cluster that are watched";
        gauges(encoder, ("argocd_cluster_api_resources", help), kinds)?;
        let age = all.iter().map(|(server, _, facts)| {
            let age = facts.listed_at.map_or(-1.0, |at| at.elapsed().as_secs() as f64);
            (of_server(server), age)
        });
        let help = "Time since all kinds were listed, in seconds; -1 before the first time";
        gauges(encoder, ("argocd_cluster_cache_age_seconds", help), age)?;
        let status = all.iter().map(|(server, _, facts)| {
            let labels = with(of_server(server), [version(&facts.version)]);
            // One that nothing is watched of is not connected.
            (labels, f64::from(facts.is_readable && facts.kinds > 0))
        });
        let help = "Whether a cluster can be read: 1, or 0";
        gauges(encoder, ("argocd_cluster_connection_status", help), status)?;
        let events = all.iter().flat_map(|(server, _, facts)| {
            facts.events.iter().map(move |((group, kind), count)| {
                let more = [("group", group.clone()), ("kind", kind.clone())];
                (with(of_server(server), more), *count)
            })
        });
        counters(encoder, ("argocd_cluster_events", "Events of objects of a cluster"), events)
    }
}
