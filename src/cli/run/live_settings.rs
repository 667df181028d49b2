//! Follows the ConfigMaps of the control plane while the controllers run: a change of a setting
//! acts without a restart of the process.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};

use super::config_maps::{self, Unread};
use crate::config::{CONFIG_MAPS, Config, Error, Flags};
use crate::redact;
use crate::watch::failure;

/// Changes that come together, such as those of both ConfigMaps, are read together.
const SETTLE: Duration = Duration::from_millis(200);

/// The settings of a running process.
#[derive(Debug)]
pub(super) struct LiveSettings {
    flags: Flags,
    /// What the log has about them, so that it has it once.
    said: Said,
}

#[derive(Debug, Default)]
struct Said {
    /// Why the last ones cannot be used; empty for nothing.
    refused: String,
    /// Which of them need a restart.
    fixed: Vec<&'static str>,
}

impl LiveSettings {
    /// Those of a process with these flags.
    pub fn new(flags: Flags) -> Self {
        Self { flags, said: Said::default() }
    }

    /// Returns the settings once they differ from those that are `used`. Whatever a ConfigMap
    /// holds besides settings of the controllers is no change. Settings that cannot be used are
    /// logged, and the ones in use stay.
    pub async fn changed(&mut self, client: &Client, namespace: &str, used: &Config) -> Config {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let watches = CONFIG_MAPS.map(|name| {
            let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
            watcher(api.clone(), only).default_backoff().boxed()
        });
        let mut events = pin!(stream::select_all(watches));
        let mut unread = String::new();
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
                        "the ConfigMaps of namespace {namespace} cannot be watched; changed \
                         settings act once they can"
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
                        "ConfigMap {namespace}/{name} cannot be read; its last settings stay \
                         until it can"
                    );
                    unread = error;
                }
            };
            let settings = config_maps::until_read(client, namespace, failed).await;
            unread.clear();
            match self.resolve(&settings, used) {
                Ok(config) => {
                    self.said.refused.clear();
                    if config != *used {
                        return config;
                    }
                }
                Err(error) => {
                    let error = redact::text(&error.to_string()).into_owned();
                    if self.said.refused != error {
                        tracing::error!(
                            error,
                            "the changed settings cannot be used, the former ones stay"
                        );
                        self.said.refused = error;
                    }
                }
            }
        }
        // The watches never end.
        std::future::pending().await
    }

    /// The settings that these ConfigMaps make of those that are `used`: what is set up once, at
    /// the start of the process, stays.
    ///
    /// # Errors
    ///
    /// As at the start of the process.
    pub fn resolve(
        &mut self,
        settings: &BTreeMap<String, String>,
        used: &Config,
    ) -> Result<Config, Error> {
        let environment = |name: &str| std::env::var(name).ok();
        let mut config = Config::resolve(self.flags.clone(), &environment, settings)?;
        config.check()?;
        let fixed = config.keep_fixed(used);
        for key in fixed.iter().filter(|key| !self.said.fixed.contains(key)) {
            tracing::warn!(
                "{key} has changed, and needs a restart of the process; its former value stays"
            );
        }
        self.said.fixed = fixed;
        Ok(config)
    }
}
