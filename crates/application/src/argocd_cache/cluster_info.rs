//! What is known of a cluster (CA-360 … CA-365).

use serde::Serialize;

use wavegate_api::Time;
use wavegate_api::kind::Capabilities;

/// Shown of a cluster that nobody watches and no Application uses.
const UNUSED: &str = "Cluster has no applications and is not being monitored.";

/// The state of the connection to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ShownCluster {
    /// Its objects are known.
    Synced {
        /// Its version and kinds.
        capabilities: Capabilities,
        /// The number of objects that are known.
        resources: usize,
        /// The number of kinds that are watched.
        kinds: usize,
        /// When it was last listed.
        listed_at: Option<Time>,
    },
    /// It cannot be read, with the reason.
    Failed(String),
    /// It was not read yet.
    Unread,
}

impl ShownCluster {
    /// The version of Kubernetes, if it is known (CA-361).
    pub fn server_version(&self) -> Option<String> {
        match self {
            Self::Synced { capabilities, .. } => {
                Some(format!("v{}", capabilities.version.trim_start_matches('v')))
            }
            Self::Failed(_) | Self::Unread => None,
        }
    }

    /// The label that a Secret of the cluster should have instead of its own (CA-510). A version
    /// that is no value of a label is left out.
    pub fn label(&self, has: Option<&str>) -> Option<String> {
        let version = self.server_version()?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_value = version.len() <= 63
            && version.chars().all(is_part)
            && version.ends_with(|c: char| c.is_ascii_alphanumeric());
        (is_value && has != Some(&*version)).then_some(version)
    }
}

/// The information about a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    server_version: String,
    connection_state: ConnectionState,
    cache_info: CacheInfo,
    applications_count: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    api_versions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionState {
    status: &'static str,
    message: String,
    attempted_at: Time,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CacheInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apis_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_cache_sync_time: Option<Time>,
}

impl ClusterInfo {
    /// The information at a time, with the number of Applications that have this destination.
    pub fn of(state: ShownCluster, applications: usize, now: Time) -> Self {
        let (status, message) = match &state {
            ShownCluster::Synced { .. } => ("Successful", String::new()),
            ShownCluster::Failed(reason) => ("Failed", reason.clone()),
            ShownCluster::Unread if applications == 0 => ("Unknown", UNUSED.to_owned()),
            ShownCluster::Unread => ("Unknown", String::new()),
        };
        let server_version = state.server_version().unwrap_or_default();
        let connection_state = ConnectionState { status, message, attempted_at: now };
        let (cache_info, api_versions) = match state {
            ShownCluster::Synced { capabilities, resources, kinds, listed_at } => {
                let info = CacheInfo {
                    resources_count: Some(resources).filter(|count| *count > 0),
                    apis_count: Some(kinds).filter(|count| *count > 0),
                    last_cache_sync_time: listed_at,
                };
                (info, capabilities.api_versions.to_vec())
            }
            ShownCluster::Failed(_) | ShownCluster::Unread => Default::default(),
        };
        Self {
            server_version,
            connection_state,
            cache_info,
            applications_count: applications,
            api_versions,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ClusterInfo, ShownCluster, UNUSED};
    use wavegate_api::Time;
    use wavegate_api::kind::Capabilities;
    use wavegate_api::time::from_rfc3339;

    fn synced(version: &str, resources: usize, kinds: usize) -> ShownCluster {
        let capabilities = Capabilities {
            version: version.to_owned(),
            api_versions: vec!["apps/v1".to_owned()].into(),
        };
        ShownCluster::Synced { capabilities, resources, kinds, listed_at: None }
    }

    /// The version is a label where it is a valid value, and not there yet (CA-365).
    #[test]
    fn the_version_of_a_cluster_is_a_label_ca_365() {
        for (version, has, want) in [
            ("1.36", None, Some("v1.36")),
            ("v1.36", None, Some("v1.36")),
            ("v1.36", Some("v1.35"), Some("v1.36")),
            ("v1.36", Some("v1.36"), None),
            ("1.36-a_b", None, Some("v1.36-a_b")),
            ("1.36+", None, None),
            ("1.36-", None, None),
            ("1.36 a", None, None),
            (&"1".repeat(62), None, Some(&*format!("v{}", "1".repeat(62)))),
            (&"1".repeat(63), None, None),
        ] {
            assert_eq!(synced(version, 1, 1).label(has).as_deref(), want, "{version} {has:?}");
        }
        assert_eq!(ShownCluster::Unread.label(None), None);
        assert_eq!(ShownCluster::Failed(String::new()).server_version(), None);
    }

    /// What the page of a cluster shows (CA-360 … CA-364).
    #[test]
    fn a_cluster_is_shown_by_its_last_read_ca_360() {
        let now = "2026-01-01T00:00:00Z";
        let of = |state, applications| {
            json!(ClusterInfo::of(state, applications, Time(from_rfc3339(now).unwrap())))
        };
        let connection = |status: &str, message: &str| json!({"status": status, "message": message, "attemptedAt": now});
        let read = |resources, kinds, cache: Value| {
            let want = json!({
                "serverVersion": "v1.36", "connectionState": connection("Successful", ""),
                "cacheInfo": cache, "applicationsCount": 3, "apiVersions": ["apps/v1"],
            });
            assert_eq!(of(synced("1.36", resources, kinds), 3), want);
        };
        read(1, 2, json!({"resourcesCount": 1, "apisCount": 2}));
        read(0, 0, json!({}));
        for (state, applications, status, message) in [
            (ShownCluster::Failed("why".to_owned()), 1, "Failed", "why"),
            (ShownCluster::Unread, 0, "Unknown", UNUSED),
            (ShownCluster::Unread, 1, "Unknown", ""),
        ] {
            let want = json!({"connectionState": connection(status, message), "cacheInfo": {},
                "applicationsCount": applications});
            assert_eq!(of(state, applications), want, "{status} {applications}");
        }
    }
}
