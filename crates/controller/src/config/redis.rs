//! Settings of Redis, under Argo CD's names (CA-101 … CA-118).

use std::path::Path;
use std::time::Duration;

use super::reader::{ConfigError, Reader, pause, switch};
use wavegate_application::argocd_cache::{
    ReaderSettings, RedisCredentials, RedisSettings, RedisTls, ShownLabels,
};

/// Flags of Redis, which Argo CD's API server reads.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RedisFlags {
    /// Host and port of the Redis that Argo CD's API server reads; empty is none [default: empty]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Argo CD's web page")]
    pub redis: Option<String>,
    /// Number of the database in Redis [default: 0]
    #[arg(long, value_name = "N", help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redisdb: Option<i64>,
    /// Host and port of a Redis Sentinel, instead of --redis; can be repeated [default: empty]
    #[arg(
        long,
        value_name = "HOST:PORT",
        help_heading = "Argo CD's web page",
        hide_short_help = true
    )]
    pub sentinel: Option<Vec<String>>,
    /// Name of the master group that the Sentinels watch [default: master]
    #[arg(long, value_name = "NAME", help_heading = "Argo CD's web page", hide_short_help = true)]
    pub sentinelmaster: Option<String>,
    /// Use TLS to Redis and the Sentinels [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redis_use_tls: Option<bool>,
    /// File with the certificate of the client for Redis, as PEM [default: empty]
    #[arg(long, value_name = "FILE", help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redis_client_certificate: Option<String>,
    /// File with its key, as PEM [default: empty]
    #[arg(long, value_name = "FILE", help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redis_client_key: Option<String>,
    /// Do not verify the certificate of Redis [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redis_insecure_skip_tls_verify: Option<bool>,
    /// File with the certificates to trust for Redis, as PEM [default: those of the machine]
    #[arg(long, value_name = "FILE", help_heading = "Argo CD's web page", hide_short_help = true)]
    pub redis_ca_certificate: Option<String>,
    /// Compression of the values in Redis, gzip or none [default: gzip]
    #[arg(
        long,
        value_name = "FORMAT",
        help_heading = "Argo CD's web page",
        hide_short_help = true
    )]
    pub redis_compress: Option<String>,
    /// How long the trees of Applications stay in Redis [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Argo CD's web page", hide_short_help = true)]
    pub app_state_cache_expiration: Option<Duration>,
    /// The same where --app-state-cache-expiration is 0 [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = pause, help_heading = "Argo CD's web page", hide_short_help = true)]
    pub default_cache_expiration: Option<Duration>,
}

/// Reads the settings of Redis.
///
/// # Errors
///
/// A file that cannot be read, or an unknown compression.
pub(super) fn read(read: &mut Reader<'_>, flags: RedisFlags) -> Result<RedisSettings, ConfigError> {
    let default = RedisSettings::default();
    let tls = match flags.redis_use_tls {
        Some(true) => Some(tls(&flags)?),
        Some(false) | None => None,
    };
    let compression = read.text(flags.redis_compress, "redis.compression", "gzip");
    let is_gzip = match compression.as_str() {
        "gzip" => true,
        "none" => false,
        other => {
            return Err(ConfigError::Redis(format!(
                "compression {other:?} is unknown; use gzip or none"
            )));
        }
    };
    let (credentials, sentinel_credentials) = credentials(read)?;
    let day = Duration::from_secs(24 * 3600);
    let expiration = read.pick(
        flags.app_state_cache_expiration,
        ("ARGOCD_APP_STATE_CACHE_EXPIRATION", "controller.app.state.cache.expiration"),
        |text| duration(text).filter(|found| *found <= 10 * Duration::from_secs(3600)),
        default.state_expiration,
    );
    let fallback = read.pick(
        flags.default_cache_expiration,
        ("ARGOCD_DEFAULT_CACHE_EXPIRATION", "controller.default.cache.expiration"),
        duration,
        day,
    );
    let state_expiration = match (expiration.is_zero(), fallback < Duration::from_secs(1)) {
        (false, _) => expiration.max(Duration::from_secs(1)),
        (true, false) => fallback,
        (true, true) => Duration::from_secs(3600),
    };
    Ok(RedisSettings {
        server: read.text(flags.redis, "redis.server", &default.server),
        database: read.pick(
            flags.redisdb,
            ("REDISDB", "redis.db"),
            |text| text.parse().ok(),
            default.database,
        ),
        sentinels: read.list(flags.sentinel, "redis.sentinel.hosts"),
        sentinel_master: read.text(
            flags.sentinelmaster,
            "redis.sentinel.master",
            &default.sentinel_master,
        ),
        credentials,
        sentinel_credentials,
        tls,
        is_gzip,
        prefix: read.text(None, ("ARGOCD_REDIS_KEY_PREFIX", "redis.key.prefix"), ""),
        state_expiration,
        shard_size: read.pick(
            None,
            ("ARGOCD_APPLICATION_TREE_SHARD_SIZE", "controller.application.tree.shard.size"),
            |text| text.parse().ok().filter(|size| *size <= 1000),
            default.shard_size,
        ),
        cluster_info_every: read.pick(
            None,
            ("ARGO_CD_UPDATE_CLUSTER_INFO_TIMEOUT", ""),
            |text| {
                let range = Duration::from_secs(10)..=Duration::from_secs(60);
                duration(text).filter(|found| range.contains(found))
            },
            default.cluster_info_every,
        ),
    })
}

/// What readers are shown beyond the objects.
pub(super) fn readers(read: &mut Reader<'_>) -> ReaderSettings {
    let mut list = |key| read.list(None, ("", key));
    ReaderSettings {
        labels: ShownLabels {
            custom: list("resource.customLabels"),
            of_nodes: list("application.allowedNodeLabels"),
        },
        masked_annotations: list("resource.sensitive.mask.annotations"),
    }
}

/// A duration in Go's notation, or in days, such as `1d`.
fn duration(text: &str) -> Option<Duration> {
    match text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        Some(days) => Some(Duration::from_secs(u64::from(days) * 24 * 3600)),
        None => pause(text).ok(),
    }
}

fn tls(flags: &RedisFlags) -> Result<RedisTls, ConfigError> {
    let file = |path: &Option<String>| path.as_deref().map(bytes).transpose();
    let client = match (file(&flags.redis_client_certificate)?, file(&flags.redis_client_key)?) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(ConfigError::Redis(
                "a client certificate needs its key; set both --redis-client-certificate and \
                 --redis-client-key"
                    .to_owned(),
            ));
        }
    };
    let is_insecure = flags.redis_insecure_skip_tls_verify.unwrap_or(false);
    let authorities = match is_insecure {
        true => None,
        false => file(&flags.redis_ca_certificate)?,
    };
    Ok(RedisTls { client, authorities, is_insecure })
}

fn bytes(path: &str) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|error| ConfigError::Redis(format!("cannot read {path}: {error}")))
}

/// Credentials of Redis and of the Sentinels: from the files of a directory, or from the
/// environment (CA-116, CA-117).
fn credentials(read: &Reader<'_>) -> Result<(RedisCredentials, RedisCredentials), ConfigError> {
    let set = |name: &str| (read.environment)(name).unwrap_or_default();
    let directory = set("REDIS_CREDS_DIR_PATH");
    let of = |user: String, password: String| RedisCredentials { user, password };
    if directory.is_empty() {
        let own = of(set("REDIS_USERNAME"), set("REDIS_PASSWORD"));
        let sentinel = of(set("REDIS_SENTINEL_USERNAME"), set("REDIS_SENTINEL_PASSWORD"));
        return Ok((own, sentinel));
    }
    let directory = Path::new(&directory);
    if !directory.is_dir() {
        return Err(ConfigError::Redis(format!(
            "REDIS_CREDS_DIR_PATH: there is no directory {}",
            directory.display()
        )));
    }
    let file = |name: &str| {
        let path = directory.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => {
                Err(ConfigError::Redis(format!("cannot read {}: {error}", path.display())))
            }
        }
    };
    let own = of(file("auth_username")?, file("auth")?);
    let sentinel = of(file("sentinel_username")?, file("sentinel_auth")?);
    Ok((own, sentinel))
}
