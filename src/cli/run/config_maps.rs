//! Reads the ConfigMaps of the control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use wavegate_cluster::watch::failure;
use wavegate_controller::config::CONFIG_MAPS;

/// How long the API server may take to answer a request for settings.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The first and the longest pause between attempts to read the settings, while the API server
/// does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// Why a ConfigMap cannot be read.
#[derive(Debug)]
pub(super) struct Unread {
    /// Its name.
    pub name: &'static str,
    /// The reason, in one line.
    pub error: String,
    /// Whether the API server refuses to show it, instead of not answering.
    pub is_refused: bool,
}

/// The keys of the ConfigMaps, which are read again until the API server shows all of them;
/// `failed` is called after each attempt without success.
pub(super) async fn until_read(
    client: &Client,
    namespace: &str,
    mut failed: impl AsyncFnMut(Unread),
) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for name in CONFIG_MAPS {
        let (first, longest) = PAUSES;
        let pauses = ExponentialBuilder::default().with_min_delay(first).with_max_delay(longest);
        let mut pauses = pauses.without_max_times().build();
        loop {
            let attempt = tokio::time::timeout(ANSWER_WITHIN, config_map(client, namespace, name));
            let (error, is_refused) = match attempt.await {
                Ok(Ok(map)) => {
                    // The keys of those before take precedence.
                    for (key, value) in map {
                        settings.entry(key).or_insert(value);
                    }
                    break;
                }
                Ok(Err(error)) => (failure::error_reason(&error), !failure::is_transient(&error)),
                Err(_) => (format!("no answer within {} s", ANSWER_WITHIN.as_secs()), false),
            };
            failed(Unread { name, error, is_refused }).await;
            tokio::time::sleep(pauses.next().unwrap_or(longest)).await;
        }
    }
    settings
}

async fn config_map(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<BTreeMap<String, String>, kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    Ok(api.get_opt(name).await?.and_then(|map| map.data).unwrap_or_default())
}
