//! Follows the ConfigMaps of the control plane while the controllers run: a change of a setting
//! acts without a restart of the process.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use super::config_maps::{self, Unread};
use crate::config::{CONFIG_MAPS, Config, Flags};
use crate::redact;
use crate::watch::failure;

/// Changes that come together, such as those of both ConfigMaps, are read together.
const SETTLE: Duration = Duration::from_millis(200);

/// Returns the settings once they differ from those that are `used`. Whatever a ConfigMap holds
/// besides settings of the controllers is no change. Settings that cannot be used are logged,
/// and the ones in use stay.
pub(super) async fn changed(
    client: &Client,
    namespace: &str,
    flags: &Flags,
    used: &Config,
) -> Config {
    let environment = |name: &str| std::env::var(name).ok();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let watches = CONFIG_MAPS.map(|name| {
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        watcher(api.clone(), only).default_backoff().boxed()
    });
    let mut events = pin!(stream::select_all(watches));
    let (mut refused, mut unread) = (String::new(), String::new());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
            Ok(_) => {}
            Err(error) => {
                // Of the client: the text of a watcher contains debug output.
                let error = match &error {
                    watcher::Error::InitialListFailed(cause)
                    | watcher::Error::WatchStartFailed(cause)
                    | watcher::Error::WatchFailed(cause) => failure::reason(cause),
                    _ => "the watch ended".to_owned(),
                };
                tracing::warn!(
                    error,
                    "the ConfigMaps of namespace {namespace} cannot be watched; changed settings \
                     act once they can"
                );
                continue;
            }
        }
        tokio::time::sleep(SETTLE).await;
        // The change is noticed once, so it is read until it is known.
        let failed = async |Unread { name, error, .. }: Unread| {
            if unread != error {
                tracing::warn!(
                    error,
                    "ConfigMap {namespace}/{name} cannot be read; its last settings stay until \
                     it can"
                );
                unread = error;
            }
        };
        let settings = config_maps::until_read(client, namespace, failed).await;
        unread.clear();
        let resolved = Config::resolve(flags.clone(), &environment, &settings);
        match resolved.and_then(|config| config.check().map(|()| config)) {
            Ok(config) if config != *used => return config,
            Ok(_) => refused.clear(),
            Err(error) => {
                let error = redact::text(&error.to_string()).into_owned();
                if refused != error {
                    tracing::error!(
                        error,
                        "the changed settings cannot be used, the former ones stay"
                    );
                    refused = error;
                }
            }
        }
    }
    // The watches never end.
    std::future::pending().await
}
