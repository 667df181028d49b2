//! How Redis is reached, and how long values stay there (CA-101 … CA-119).

use std::fmt;
use std::time::Duration;

use super::node::ShownLabels;

/// The settings of Redis. Without a server or Sentinels nothing is written.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// Host and port; empty without Redis. Ignored with Sentinels.
    pub server: String,
    /// Number of the database.
    pub database: i64,
    /// Hosts and ports of the Sentinels.
    pub sentinels: Vec<String>,
    /// Name of the master group that the Sentinels watch.
    pub sentinel_master: String,
    /// Credentials of Redis.
    pub credentials: RedisCredentials,
    /// Credentials of the Sentinels.
    pub sentinel_credentials: RedisCredentials,
    /// TLS, for Redis and the Sentinels.
    pub tls: Option<RedisTls>,
    /// Whether values are compressed.
    pub is_gzip: bool,
    /// Put before each key.
    pub prefix: String,
    /// How long trees and managed resources stay.
    pub state_expiration: Duration,
    /// Items of a shard of a tree; 0 for one shard.
    pub shard_size: usize,
    /// Interval of the information about clusters.
    pub cluster_info_every: Duration,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            server: String::new(),
            database: 0,
            sentinels: Vec::new(),
            sentinel_master: "master".to_owned(),
            credentials: RedisCredentials::default(),
            sentinel_credentials: RedisCredentials::default(),
            tls: None,
            is_gzip: true,
            prefix: String::new(),
            state_expiration: Duration::from_secs(3600),
            shard_size: 0,
            cluster_info_every: Duration::from_secs(10),
        }
    }
}

impl RedisSettings {
    /// Whether there is a Redis to write to.
    pub fn is_on(&self) -> bool {
        !self.server.is_empty() || !self.sentinels.is_empty()
    }

    /// Switches it off: nothing is written, and no status counts on it.
    pub fn switch_off(&mut self) {
        self.server.clear();
        self.sentinels.clear();
    }

    /// Where values are written, for messages.
    pub fn place(&self) -> String {
        match self.sentinels.as_slice() {
            [] => self.server.clone(),
            sentinels => format!("{} of {}", self.sentinel_master, sentinels.join(", ")),
        }
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings").field("place", &self.place()).finish_non_exhaustive()
    }
}

/// What readers are shown beyond the objects, by `argocd-cm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderSettings {
    /// The labels that are shown.
    pub labels: ShownLabels,
    /// Annotations of Secrets whose values are masked (CA-350).
    pub masked_annotations: Vec<String>,
}

/// A user and a password; empty ones are not sent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisCredentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for RedisCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Settings of TLS, as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Certificate and key of the client.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// Certificates to trust instead of those of the machine.
    pub authorities: Option<Vec<u8>>,
    /// Whether the certificate of the server is not verified.
    pub is_insecure: bool,
}

impl fmt::Debug for RedisTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTls").field("is_insecure", &self.is_insecure).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{RedisCredentials, RedisSettings, RedisTls};

    /// One server, or sentinels that know it; with neither it is off (CA-101).
    #[test]
    fn redis_is_reached_at_a_server_or_by_sentinels_ca_101() {
        let of = |server: &str, sentinels: &[&str]| RedisSettings {
            server: server.to_owned(),
            sentinels: sentinels.iter().map(|&one| one.to_owned()).collect(),
            ..RedisSettings::default()
        };
        for (server, sentinels, is_on, place) in [
            ("", &[][..], false, ""),
            ("redis:6379", &[], true, "redis:6379"),
            ("", &["a", "b"], true, "master of a, b"),
            ("redis:6379", &["a"], true, "master of a"),
        ] {
            let mut settings = of(server, sentinels);
            assert_eq!((settings.is_on(), settings.place().as_str()), (is_on, place));
            settings.switch_off();
            assert!(!settings.is_on(), "{place}");
        }
    }

    /// No log has a password or a key.
    #[test]
    fn settings_of_redis_are_shown_without_secrets() {
        let secret = || "secret".to_owned();
        let credentials = RedisCredentials { user: secret(), password: secret() };
        assert_eq!(format!("{credentials:?}"), "Credentials");
        let key = Some((b"secret".to_vec(), b"secret".to_vec()));
        let tls = RedisTls { client: key, authorities: None, is_insecure: true };
        assert_eq!(format!("{tls:?}"), "RedisTls { is_insecure: true, .. }");
        let server = "redis:6379".to_owned();
        let tls = Some(tls);
        let settings = RedisSettings { server, credentials, tls, ..RedisSettings::default() };
        assert_eq!(format!("{settings:?}"), "RedisSettings { place: \"redis:6379\", .. }");
    }
}
