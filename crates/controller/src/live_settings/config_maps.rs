//! Reads the ConfigMaps of the control plane, and keeps what those had that are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::config::CONFIG_MAPS;
use wavegate_cluster::watch::absent_settings::AbsentSettings;
use wavegate_cluster::watch::failure;
use wavegate_cluster::watch::follow::follow_objects;

/// How [`AbsentSettings`] name them.
const SOURCES: [&str; CONFIG_MAPS.len()] =
    ["ConfigMap argocd-cmd-params-cm", "ConfigMap argocd-cm"];

/// How long the API server may take to answer a request for settings.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The first and the longest pause between attempts to read the settings, while the API server
/// does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// Why a ConfigMap cannot be read.
#[derive(Debug)]
pub struct UnreadConfigMap {
    /// Its name.
    pub name: &'static str,
    /// The reason, in one line.
    pub error: String,
    /// Whether the API server refuses to show it, instead of not answering.
    pub is_refused: bool,
}

/// The ConfigMaps as they were read last.
#[derive(Debug)]
pub struct ConfigMaps {
    /// The keys of those that existed at least once.
    known: Mutex<BTreeMap<&'static str, BTreeMap<String, String>>>,
    /// Where those are named that had keys and are gone.
    absent: AbsentSettings,
}

impl ConfigMaps {
    /// None of them was read yet.
    pub fn new(absent: AbsentSettings) -> Self {
        Self { known: Mutex::default(), absent }
    }

    /// The keys of the ConfigMaps, which are read again until the API server shows all of them;
    /// `failed` is called after each attempt without success. The last keys of one that does not
    /// exist any more count: what they guard must not be open while it is created again.
    pub async fn until_read<F: Future<Output = ()>>(
        &self,
        client: &Client,
        namespace: &str,
        mut failed: impl FnMut(UnreadConfigMap) -> F,
    ) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        for (name, source) in CONFIG_MAPS.into_iter().zip(SOURCES) {
            let read = config_map_until_read(client, namespace, name, &mut failed).await;
            let mut known = self.known.lock();
            let had_keys = known.get(name).is_some_and(|map| !map.is_empty());
            self.absent.set(source, read.is_none() && had_keys);
            if let Some(map) = read {
                known.insert(name, map);
            }
            // The keys of those before take precedence.
            for (key, value) in known.get(name).into_iter().flatten() {
                settings.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        settings
    }

    /// Keeps what they have while a replica waits for the Lease: what vanishes before it acts had
    /// values all the same. Never ends.
    pub async fn follow(&self, client: &Client, namespace: &str) {
        let mut events = config_map_events(client, namespace);
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                Ok(_) => {}
                // Whoever gets the Lease reads them again, and says what is wrong.
                Err(error) => {
                    tracing::debug!(error, "the ConfigMaps cannot be watched");
                    continue;
                }
            }
            self.until_read(client, namespace, |_| std::future::ready(())).await;
        }
        // The watches never end.
        std::future::pending().await
    }

    /// The names of those that have not existed since this process started.
    pub fn never_seen(&self) -> Vec<&'static str> {
        let known = self.known.lock();
        CONFIG_MAPS.into_iter().filter(|name| !known.contains_key(name)).collect()
    }
}

/// The events of the ConfigMaps, and in one line why there are none.
pub(super) fn config_map_events(
    client: &Client,
    namespace: &str,
) -> BoxStream<'static, Result<watcher::Event<ConfigMap>, String>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let watches = CONFIG_MAPS.map(|name| {
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        follow_objects(api.clone(), only)
    });
    // Of the client: the text of a watcher contains debug output.
    let shown = |error: watcher::Error| match &error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => failure::error_reason(cause),
        _ => "the watch ended".to_owned(),
    };
    stream::select_all(watches).map_err(shown).boxed()
}

/// The keys of one of them; `None` when it does not exist.
async fn config_map_until_read<F: Future<Output = ()>>(
    client: &Client,
    namespace: &str,
    name: &'static str,
    failed: &mut impl FnMut(UnreadConfigMap) -> F,
) -> Option<BTreeMap<String, String>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let (first, longest) = PAUSES;
    let pauses = ExponentialBuilder::default().with_min_delay(first).with_max_delay(longest);
    let mut pauses = pauses.without_max_times().build();
    loop {
        let attempt = tokio::time::timeout(ANSWER_WITHIN, api.get_opt(name));
        let (error, is_refused) = match attempt.await {
            Ok(Ok(map)) => return map.map(|map| map.data.unwrap_or_default()),
            Ok(Err(error)) => (failure::error_reason(&error), !failure::is_transient(&error)),
            Err(_) => (format!("no answer within {} s", ANSWER_WITHIN.as_secs()), false),
        };
        failed(UnreadConfigMap { name, error, is_refused }).await;
        tokio::time::sleep(pauses.next().unwrap_or(longest)).await;
    }
}
