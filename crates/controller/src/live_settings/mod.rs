//! Follows the ConfigMaps of the control plane while the controllers run: a change of a setting
//! acts without a restart of the process.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Client;
use kube::runtime::watcher;

use crate::config::{Config, ConfigError, Flags};
use wavegate_application::argocd_cache::RedisSettings;
use wavegate_cluster::act::redis;
use wavegate_net::redact;

mod config_maps;

use config_maps::config_map_events;
pub use config_maps::{ConfigMaps, UnreadConfigMap};

/// Changes that come together, such as those of both ConfigMaps, are read together, and no more often
/// than this.
const SETTLE: Duration = Duration::from_millis(200);

/// The settings of a running process.
#[derive(Debug)]
pub struct LiveSettings {
    flags: Flags,
    /// The variables of the process.
    environment: fn(&str) -> Option<String>,
    /// What the log has about them, so that it has it once.
    logged: Logged,
}

#[derive(Debug, Default)]
struct Logged {
    /// Why the last ones cannot be used; empty for nothing.
    refused: String,
    /// Why Redis cannot be used; empty for nothing.
    redis: String,
    /// Which of them need a restart.
    fixed: Vec<&'static str>,
}

impl LiveSettings {
    /// Those of a process with these flags and variables.
    pub fn new(flags: Flags, environment: fn(&str) -> Option<String>) -> Self {
        Self { flags, environment, logged: Logged::default() }
    }

    /// Switches off a Redis that cannot be used: the settings of a process that starts must not
    /// end it, since readers alone need Redis (CA-119).
    ///
    /// # Errors
    ///
    /// When flags of the process name that Redis.
    pub fn start(&mut self, config: &mut Config) -> Result<(), redis::Error> {
        let settings = &mut config.applications.redis;
        let Err(error) = usable(settings) else { return Ok(()) };
        let flags = &self.flags.application.redis;
        if flags.redis.is_some() || flags.sentinel.is_some() {
            return Err(error);
        }
        self.logged.redis = error.to_string();
        tracing::error!(
            %error,
            "Redis is not used: Argo CD's web page will show nothing of Applications, and the \
             health of resources stays in the status"
        );
        settings.switch_off();
        Ok(())
    }

    /// Returns the settings once they differ from those that are `used`, at once: an operation that
    /// is requested after the change must not begin with the former ones. What changes together with
    /// them is read by [`Self::settled`]. Whatever a ConfigMap holds besides settings of the controllers is no change. Settings that cannot be used are
    /// logged, and the ones in use stay.
    /// So do those of a ConfigMap that is gone, and those of another sync engine that `may_sync`
    /// refuses with its reason: another controller may do that work.
    pub async fn changed<F: Future<Output = Result<(), String>>>(
        &mut self,
        client: &Client,
        namespace: &str,
        maps: &ConfigMaps,
        used: &Config,
        may_sync: impl Fn(Config) -> F,
    ) -> Config {
        let mut events = config_map_events(client, namespace);
        let mut unread = String::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(
                        error,
                        "the ConfigMaps of namespace {namespace} cannot be watched; changed \
                         settings act once they can"
                    );
                    continue;
                }
            }
            // The change is noticed once, so it is read until it is known.
            let failed = |UnreadConfigMap { name, error, .. }: UnreadConfigMap| {
                if unread != error {
                    tracing::warn!(
                        error,
                        "ConfigMap {namespace}/{name} cannot be read; its last settings stay \
                         until it can"
                    );
                    unread = error;
                }
                std::future::ready(())
            };
            let settings = maps.until_read(client, namespace, failed).await;
            unread.clear();
            let resolved = self.resolve(&settings, used).map_err(|error| error.to_string());
            let checked = match resolved {
                Ok(config) if config.sync_engine != used.sync_engine => {
                    may_sync(config.clone()).await.map(|()| config)
                }
                resolved => resolved,
            };
            match checked {
                Ok(config) => {
                    self.logged.refused.clear();
                    if config != *used {
                        return config;
                    }
                }
                Err(error) => {
                    let error = redact::redact_text(&error).into_owned();
                    if self.logged.refused != error {
                        tracing::error!(
                            error,
                            "the changed settings cannot be used, the former ones stay"
                        );
                        self.logged.refused = error;
                    }
                }
            }
            tokio::time::sleep(SETTLE).await;
        }
        // The watches never end.
        std::future::pending().await
    }

    /// The settings after a change, once those have changed that change together with them. To be
    /// called while no controller runs.
    pub async fn settled(
        &mut self,
        client: &Client,
        namespace: &str,
        maps: &ConfigMaps,
        changed: Config,
    ) -> Config {
        tokio::time::sleep(SETTLE).await;
        let settings = maps.until_read(client, namespace, |_| std::future::ready(())).await;
        match self.resolve(&settings, &changed) {
            // Who else syncs is asked with the next change.
            Ok(settled) if settled.sync_engine == changed.sync_engine => settled,
            _ => changed,
        }
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
    ) -> Result<Config, ConfigError> {
        let mut config = Config::resolve(self.flags.clone(), &self.environment, settings)?;
        config.check()?;
        let fixed = config.keep_fixed(used);
        for key in fixed.iter().filter(|key| !self.logged.fixed.contains(key)) {
            tracing::warn!(
                "{key} has changed, and needs a restart of the process; its former value stays"
            );
        }
        self.logged.fixed = fixed;
        self.keep_redis(&mut config, used);
        Ok(config)
    }

    /// Keeps the settings of Redis in use when it cannot be used with the new ones; others act
    /// regardless.
    fn keep_redis(&mut self, config: &mut Config, used: &Config) {
        let Err(error) = usable(&config.applications.redis) else {
            self.logged.redis.clear();
            return;
        };
        let error = error.to_string();
        if self.logged.redis != error {
            tracing::error!(
                error,
                "the changed settings of Redis cannot be used, the former ones stay"
            );
            self.logged.redis = error;
        }
        config.applications.redis = used.applications.redis.clone();
    }
}

/// Whether a Redis can be used with these settings, if there is one; whether it answers does not
/// matter.
fn usable(settings: &RedisSettings) -> Result<(), redis::Error> {
    if settings.is_on() { redis::check(settings) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, PostParams};
    use kube_sim::Server;
    use serde_json::json;
    use wavegate_cluster::watch::absent_settings::AbsentSettings;

    use super::*;
    use crate::config::CONFIG_MAPS;

    /// Settings that guard, by their ConfigMap.
    const GUARDS: [(&str, &str, &str); 14] = [
        (PARAMS, "applicationsetcontroller.enable.progressive.syncs", "true"),
        (PARAMS, "applicationsetcontroller.policy", "create-only"),
        (PARAMS, "applicationsetcontroller.sync.engine", "external"),
        (PARAMS, "applicationsetcontroller.namespaces", "team-*"),
        (PARAMS, "applicationsetcontroller.enable.tokenref.strict.mode", "true"),
        (PARAMS, "applicationsetcontroller.hold.deletions", "false"),
        (PARAMS, "application.namespaces", "team-*"),
        (CM, "installationID", "east"),
        (CM, "application.sync.impersonation.enabled", "true"),
        (CM, "resource.exclusions", "- kinds: [Service]"),
        (CM, "resource.inclusions", "- kinds: [Service]"),
        (CM, "globalProjects", "- {labelSelector: {}, projectName: guard}"),
        (CM, "application.instanceLabelKey", "example.com/instance"),
        (CM, "cluster.inClusterEnabled", "false"),
    ];
    const PARAMS: &str = CONFIG_MAPS[0];
    const CM: &str = CONFIG_MAPS[1];

    async fn read(maps: &ConfigMaps, client: &Client) -> Config {
        let failed = |unread: UnreadConfigMap| -> std::future::Ready<()> { panic!("{unread:?}") };
        let mut settings = maps.until_read(client, "default", failed).await;
        // Without it, the generators would have to be limited (AS-504).
        settings.insert("applicationsetcontroller.enable.scm.providers".into(), "false".into());
        let environment = |_: &str| None;
        let used = Config::resolve(Flags::default(), &environment, &settings).unwrap();
        LiveSettings::new(Flags::default(), |_| None).resolve(&settings, &used).unwrap()
    }

    /// What is requested after a change of settings must not begin with the former ones.
    #[tokio::test(start_paused = true)]
    async fn a_change_is_returned_at_once_and_what_changes_with_it_before_the_next_start() {
        let server = Server::new();
        let client = server.client_as("test");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let maps = ConfigMaps::new(AbsentSettings::default());
        let map = |name: &str, data| {
            serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
        };
        let providers = json!({"applicationsetcontroller.enable.scm.providers": "false"});
        for (name, data) in [(PARAMS, providers), (CM, json!({}))] {
            api.create(&PostParams::default(), &map(name, data)).await.unwrap();
        }
        let used = read(&maps, &client).await;
        let mut live = LiveSettings::new(Flags::default(), |_| None);
        let change = async {
            tokio::time::sleep(SETTLE * 10).await;
            let set = map(CM, json!({"installationID": "east"}));
            api.replace(CM, &PostParams::default(), &set).await.unwrap();
            tokio::time::Instant::now()
        };
        let changed = live.changed(&client, "default", &maps, &used, async |_| Ok(()));
        let (changed, at) = tokio::join!(changed, change);
        assert!(at.elapsed() < SETTLE, "{:?}", at.elapsed());
        assert_eq!(changed.applications.installation_id, "east");
        let set = map(CM, json!({"installationID": "west"}));
        api.replace(CM, &PostParams::default(), &set).await.unwrap();
        let settled = live.settled(&client, "default", &maps, changed).await;
        assert_eq!(settled.applications.installation_id, "west");
    }

    #[tokio::test]
    async fn each_guard_stays_when_its_config_map_is_gone_and_is_the_default_at_a_start() {
        let server = Server::new();
        let client = server.client_as("test");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let start = || ConfigMaps::new(AbsentSettings::default());
        let default = read(&start(), &client).await;
        for (name, key, value) in GUARDS {
            let absent = AbsentSettings::default();
            let maps = ConfigMaps::new(absent.clone());
            assert_eq!(read(&maps, &client).await, default);
            assert_eq!(maps.never_seen(), CONFIG_MAPS);
            let map = |data| {
                serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
            };
            let set = map(json!({ key: value }));
            api.create(&PostParams::default(), &set).await.unwrap();
            let guarded = read(&maps, &client).await;
            assert_ne!(guarded, default, "{key} is a setting");
            assert!(absent.names().is_empty());

            api.delete(name, &DeleteParams::default()).await.unwrap();
            for _ in 0..2 {
                assert_eq!(read(&maps, &client).await, guarded, "{key}: it is gone");
                assert_eq!(absent.names(), [format!("ConfigMap {name}")]);
            }
            let started = start();
            assert_eq!(read(&started, &client).await, default, "{key}: absent at a start");
            assert!(started.never_seen().contains(&name));

            // Written without data, it means the defaults; and then there is nothing to keep.
            api.create(&PostParams::default(), &map(json!({}))).await.unwrap();
            assert_eq!(read(&maps, &client).await, default, "{key}: empty");
            api.delete(name, &DeleteParams::default()).await.unwrap();
            assert_eq!(read(&maps, &client).await, default);
            assert!(absent.names().is_empty());
        }
    }
}
