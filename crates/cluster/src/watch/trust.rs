//! Whom Git servers are trusted to be, and whom signatures of commits: the ConfigMaps
//! `argocd-ssh-known-hosts-cm`, `argocd-tls-certs-cm` and `argocd-gpg-keys-cm`, followed live; and
//! who signs webhooks. What had values and is gone stays as it was ([`AbsentSettings`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::absent_settings::AbsentSettings;
use super::failure::has_code;
use super::follow::{follow_objects, with_log};

/// The ConfigMap with the host keys of ssh servers.
pub const KNOWN_HOSTS: &str = "argocd-ssh-known-hosts-cm";
/// The ConfigMap with the certificates of https servers, by host name.
pub const CERTIFICATES: &str = "argocd-tls-certs-cm";
/// The ConfigMap with the GnuPG keys that commits are signed with, by key ID.
pub const SIGNING_KEYS: &str = "argocd-gpg-keys-cm";
/// The ConfigMaps that are read here.
pub const TRUST_MAPS: [&str; 3] = [KNOWN_HOSTS, CERTIFICATES, SIGNING_KEYS];
/// How [`AbsentSettings`] name the ConfigMaps, and the Secret with the secrets of webhooks.
const SOURCES: [&str; TRUST_MAPS.len()] = [
    "ConfigMap argocd-ssh-known-hosts-cm",
    "ConfigMap argocd-tls-certs-cm",
    "ConfigMap argocd-gpg-keys-cm",
];
const WEBHOOK_SOURCE: &str = "Secret argocd-secret";
/// The beginning of the keys of that Secret that are secrets of webhooks.
const WEBHOOK_PREFIX: &str = "webhook.";
/// The key of the host keys, as lines of `known_hosts`.
const KNOWN_HOSTS_KEY: &str = "ssh_known_hosts";

/// The keys and certificates of Git servers, and the keys of those who sign commits.
#[derive(Debug)]
pub struct Trust {
    known: RwLock<KnownTrust>,
    /// Those of webhooks, as they were read last.
    webhook_secrets: Mutex<BTreeMap<String, Vec<u8>>>,
    absent: AbsentSettings,
    /// How often they have changed, and which ConfigMaps were listed.
    changes: watch::Sender<(u64, ListedMaps)>,
}

/// Which of [`TRUST_MAPS`] were listed.
type ListedMaps = [bool; TRUST_MAPS.len()];

#[derive(Debug, Default)]
struct KnownTrust {
    /// `None` without the ConfigMap.
    hosts: Option<String>,
    certificates: BTreeMap<String, String>,
    /// Armoured public keys.
    signing_keys: Arc<BTreeMap<String, String>>,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            webhook_secrets: Mutex::default(),
            absent: AbsentSettings::default(),
            changes: watch::channel((0, [false; TRUST_MAPS.len()])).0,
        }
    }
}

impl Trust {
    /// The lines of `known_hosts`; `None` when there is no such ConfigMap, so that those of
    /// the machine count.
    pub fn known_hosts(&self) -> Option<String> {
        self.known.read().hosts.clone()
    }

    /// The certificates for a host, in PEM; `None` for those of the machine.
    pub fn certificates(&self, host: &str) -> Option<String> {
        let known = self.known.read();
        let mut all = known.certificates.iter();
        let found = all.find(|(name, _)| name.eq_ignore_ascii_case(host));
        found.map(|(_, pem)| pem.clone()).filter(|pem| !pem.trim().is_empty())
    }

    /// The armoured public keys of those who sign commits, by key ID.
    pub fn signing_keys(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&self.known.read().signing_keys)
    }

    /// The sources of settings that are absent although they had values: these, and those that
    /// others add.
    pub fn absent(&self) -> &AbsentSettings {
        &self.absent
    }

    /// The data of the Secret with the secrets of webhooks that counts, after this was read:
    /// without the Secret, which had some, nobody may send webhooks unsigned.
    pub fn webhook_secrets(
        &self,
        read: Option<BTreeMap<String, Vec<u8>>>,
    ) -> BTreeMap<String, Vec<u8>> {
        let mut known = self.webhook_secrets.lock();
        self.absent.set(WEBHOOK_SOURCE, read.is_none() && !known.is_empty());
        if let Some(mut data) = read {
            data.retain(|key, _| key.starts_with(WEBHOOK_PREFIX));
            *known = data;
        }
        known.clone()
    }

    /// Increased by each change.
    pub fn version(&self) -> u64 {
        self.changes.borrow().0
    }

    /// Notified about each change.
    fn subscribe(&self) -> watch::Receiver<(u64, ListedMaps)> {
        self.changes.subscribe()
    }

    /// Calls `then` after each change, as long as the caller waits.
    pub async fn follow_changes(&self, mut then: impl FnMut()) {
        let mut changes = self.subscribe();
        let mut last = changes.borrow_and_update().0;
        // The sender is part of it.
        while changes.changed().await.is_ok() {
            let now = changes.borrow_and_update().0;
            if std::mem::replace(&mut last, now) != now {
                then();
            }
        }
    }

    /// Waits until all ConfigMaps were listed once, or must not be listed.
    pub async fn listed(&self) {
        let mut changes = self.changes.subscribe();
        // The sender is part of `self`.
        let _ = changes.wait_for(|(_, listed)| *listed == [true; TRUST_MAPS.len()]).await;
    }

    /// Takes over what another one knows.
    pub fn take_over(&self, other: &Self) {
        let known = other.known.read();
        let hosts = known.hosts.clone().map(|hosts| [(KNOWN_HOSTS_KEY.to_owned(), hosts)].into());
        self.put(KNOWN_HOSTS, hosts);
        self.put(CERTIFICATES, Some(known.certificates.clone()));
        self.put(SIGNING_KEYS, Some((*known.signing_keys).clone()));
    }

    /// Follows the ConfigMaps; never ends.
    pub async fn follow(&self, client: &Client, namespace: &str) {
        let all = TRUST_MAPS.map(|name| self.follow_one(client, namespace, name));
        futures::future::join_all(all).await;
    }

    async fn follow_one(&self, client: &Client, namespace: &str, name: &'static str) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = with_log(follow_objects(api, config), format!("ConfigMap {name}"));
        let mut found = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => found = None,
                Ok(Event::InitApply(map)) => found = Some(map),
                Ok(Event::InitDone) => self.take(name, found.take()),
                Ok(Event::Apply(map)) => self.take(name, Some(map)),
                Ok(Event::Delete(_)) => self.take(name, None),
                Err(watcher::Error::InitialListFailed(error)) if has_code(&error, 403) => {
                    self.is_listed(name);
                }
                // It is retried.
                Err(_) => {}
            }
        }
    }

    fn take(&self, name: &str, map: Option<ConfigMap>) {
        self.put(name, map.map(|map| map.data.unwrap_or_default()));
    }

    /// Sets the content of one of the ConfigMaps, which counts as listed then; `None` when it
    /// does not exist: then the last content stays.
    pub fn put(&self, name: &str, data: Option<BTreeMap<String, String>>) {
        let Some(at) = TRUST_MAPS.iter().position(|map| *map == name) else { return };
        let mut known = self.known.write();
        let Some(data) = data else {
            let had_values = match name {
                // Also without a key: then no server is trusted, and those of the machine are not
                // used.
                KNOWN_HOSTS => known.hosts.is_some(),
                SIGNING_KEYS => !known.signing_keys.is_empty(),
                _ => !known.certificates.is_empty(),
            };
            drop(known);
            self.absent.set(SOURCES[at], had_values);
            return self.is_listed(name);
        };
        self.absent.set(SOURCES[at], false);
        let has_changed = if name == SIGNING_KEYS {
            let has_changed = *known.signing_keys != data;
            known.signing_keys = Arc::new(data);
            has_changed
        } else if name == KNOWN_HOSTS {
            let hosts = Some(data.get(KNOWN_HOSTS_KEY).cloned().unwrap_or_default());
            std::mem::replace(&mut known.hosts, hosts.clone()) != hosts
        } else {
            std::mem::replace(&mut known.certificates, data.clone()) != data
        };
        drop(known);
        if has_changed {
            self.changes.send_modify(|(count, _)| *count += 1);
        }
        self.is_listed(name);
    }

    fn is_listed(&self, name: &str) {
        let Some(at) = TRUST_MAPS.iter().position(|map| *map == name) else { return };
        self.changes.send_if_modified(|(_, listed)| !std::mem::replace(&mut listed[at], true));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use kube_sim::Server;

    async fn until(trust: &Trust, holds: impl Fn(&Trust) -> bool) {
        let mut changes = trust.subscribe();
        let wait = async {
            while !holds(trust) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
    }

    async fn until_absent(trust: &Trust, names: &[&str]) {
        let mut changes = trust.absent().subscribe();
        let wait = changes.wait_for(|all| all.iter().copied().eq(names.iter().copied()));
        tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap().unwrap();
    }

    #[test]
    fn webhooks_are_signed_although_their_secrets_are_gone() {
        let trust = Trust::default();
        let data = |keys: &[&str]| {
            keys.iter().map(|key| ((*key).to_owned(), b"s".to_vec())).collect::<BTreeMap<_, _>>()
        };
        assert!(trust.webhook_secrets(None).is_empty());
        assert!(trust.absent().names().is_empty(), "it never existed");
        let known = trust.webhook_secrets(Some(data(&["webhook.github.secret", "admin.password"])));
        assert_eq!(known, data(&["webhook.github.secret"]));
        assert_eq!(trust.webhook_secrets(None), known);
        assert_eq!(trust.absent().names(), ["Secret argocd-secret"]);
        assert!(trust.webhook_secrets(Some(data(&["admin.password"]))).is_empty());
        assert!(trust.absent().names().is_empty());
        assert!(trust.webhook_secrets(None).is_empty());
        assert!(trust.absent().names().is_empty(), "it had no such keys");
    }

    #[tokio::test]
    async fn keys_and_certificates_are_followed_live() {
        let server = Server::new();
        let client = server.client_as("test");
        let namespace = serde_json::from_value(json!({"metadata": {"name": "argocd"}})).unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let trust = Arc::new(Trust::default());
        let follower = tokio::spawn({
            let (trust, client) = (Arc::clone(&trust), client.clone());
            async move { trust.follow(&client, "argocd").await }
        });
        tokio::time::timeout(Duration::from_secs(60), trust.listed()).await.unwrap();
        assert_eq!(trust.known_hosts(), None, "without the ConfigMap, those of the machine count");

        let maps: Api<ConfigMap> = Api::namespaced(client, "argocd");
        let put = async |name: &str, data: serde_json::Value| {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
            let params = PatchParams::apply("test").force();
            maps.patch(name, &params, &Patch::Apply(map)).await.unwrap();
        };
        put(KNOWN_HOSTS, json!({})).await;
        until(&trust, |trust| trust.known_hosts().as_deref() == Some("")).await;
        put(KNOWN_HOSTS, json!({"ssh_known_hosts": "h ssh-ed25519 AAAA"})).await;
        until(&trust, |trust| trust.known_hosts().as_deref() == Some("h ssh-ed25519 AAAA")).await;
        put(CERTIFICATES, json!({"git.example.com": "PEM"})).await;
        until(&trust, |trust| trust.certificates("GIT.example.com").is_some()).await;
        assert_eq!(trust.certificates("example.com"), None);
        put(SIGNING_KEYS, json!({"4AEE18F83AFDEB23": "KEY"})).await;
        until(&trust, |trust| trust.signing_keys().contains_key("4AEE18F83AFDEB23")).await;
        // What is gone stays in force, until it is written again.
        maps.delete(SIGNING_KEYS, &DeleteParams::default()).await.unwrap();
        maps.delete(KNOWN_HOSTS, &DeleteParams::default()).await.unwrap();
        let gone = ["ConfigMap argocd-gpg-keys-cm", "ConfigMap argocd-ssh-known-hosts-cm"];
        until_absent(&trust, &gone).await;
        assert!(!trust.signing_keys().is_empty());
        assert_eq!(trust.known_hosts().as_deref(), Some("h ssh-ed25519 AAAA"));
        put(SIGNING_KEYS, json!({})).await;
        put(KNOWN_HOSTS, json!({"ssh_known_hosts": "other"})).await;
        until_absent(&trust, &[]).await;
        until(&trust, |trust| trust.signing_keys().is_empty()).await;
        until(&trust, |trust| trust.known_hosts().as_deref() == Some("other")).await;
        follower.abort();
    }
}
