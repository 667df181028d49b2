//! `wavegate run`: runs the controllers against the cluster of a kubeconfig, or the
//! cluster that this process runs in.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use wavegate_cluster::act::control_plane::project;
use wavegate_cluster::watch::failure;
use wavegate_cluster::watch::trust::Trust;
use wavegate_controller::config::{self, Config, Flags, SyncEngine};
use wavegate_controller::leader::Candidate;
use wavegate_controller::live_settings::{ConfigMaps, LiveSettings, UnreadConfigMap};
use wavegate_controller::serve::{self, Readiness};
use wavegate_controller::{self as controller, Controllers, Led};
use wavegate_net::clock::Clock;
use wavegate_net::redact;
use wavegate_net::telemetry::{self, LogFormat};
use wavegate_sandbox::{self as confined, Confinement};
use wavegate_source::{self as source, Allow, ArtifactSettings, Repositories};

pub(in crate::cli) mod other_controllers;
mod setting_events;

/// How long an HTTP server may take to end before the next one uses its address.
const SERVER_GRACE: Duration = Duration::from_secs(5);

/// Run the controllers in a cluster
///
/// Each option may also be set in the environment, and in the ConfigMaps
/// argocd-cmd-params-cm and argocd-cm of the control plane: a flag wins over the
/// environment, and the environment over the ConfigMaps. -h lists the common options, --help
/// all of them. Runs until a signal, or until the lease is lost.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    flags: Flags,
    /// Context of the kubeconfig [default: the current one, else the cluster that this
    /// process runs in]
    #[arg(long, value_name = "CONTEXT", help_heading = "Cluster access")]
    context: Option<String>,
    /// Directory for checkouts of Git repositories [default: the directory for temporary
    /// files]
    #[arg(long, value_name = "DIR", help_heading = "Sources")]
    cache_dir: Option<std::path::PathBuf>,
}

impl RunArgs {
    /// The settings.
    pub(in crate::cli) fn into_flags(self) -> Flags {
        self.flags
    }
}

/// Runs until a signal, the loss of the lease, or an error.
///
/// # Errors
///
/// When the configuration is invalid, the cluster cannot be reached, or a controller fails.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run_async(args))
}

async fn run_async(args: RunArgs) -> anyhow::Result<ExitCode> {
    let client = crate::cli::cluster::client(args.context.as_deref()).await?;
    let environment: fn(&str) -> Option<String> = |name| std::env::var(name).ok();
    // Twice, since the flags name the namespace of the ConfigMaps.
    let first = Config::resolve(args.flags.clone(), &environment, &BTreeMap::new())?;
    let namespace = &first.application_sets.control_plane_namespace;
    let shutdown = CancellationToken::new();
    let readiness = Readiness::default();
    stop_on_signal(shutdown.clone());
    // What is known so far says how to log, and where the probes are, while this waits.
    telemetry::check_level(&first.log_level)?;
    let format: LogFormat = first.log_format.parse()?;
    let waits = || Some(Waiting::start(format, &first, &readiness));
    // What is known of these stays known when the controllers start again with other settings.
    let trust = Arc::new(Trust::default());
    let maps = ConfigMaps::new(trust.absent().clone());
    let read = read_config_maps(&client, &first, &readiness, &maps, waits);
    let Some(settings) = shutdown.run_until_cancelled(read).await else {
        return Ok(ExitCode::SUCCESS);
    };
    let config = Config::resolve(args.flags.clone(), &environment, &settings);
    let config = config.and_then(|config| config.check().map(|()| config));
    // What reads the log expects JSON in each line, also of settings that end the program.
    let config = config.inspect_err(|_| drop(telemetry::init_logging(format, &first.log_level)));
    let mut config = config?;
    telemetry::init_logging(config.log_format.parse()?, &config.log_level)?;
    warn_of_unknown_variables();
    warn_of_missing_namespace(&client, namespace).await;
    for name in maps.never_seen() {
        tracing::info!(
            "ConfigMap {namespace}/{name} does not exist: what it could set has its default"
        );
    }
    let others = shutdown.run_until_cancelled(other_controllers::check(&client, &config));
    let Some(others) = others.await else { return Ok(ExitCode::SUCCESS) };
    others?;
    // Always the same, so that what a killed process has left there is found and removed.
    let temporary = std::env::temp_dir();
    let cache_dir = args.cache_dir.as_deref().unwrap_or(&temporary);
    let mut live = LiveSettings::new(args.flags.clone(), environment);
    live.start(&mut config)?;
    let confinement = config.applications.render.programs.confinement;
    let artifacts = config.applications.artifacts.clone();
    let sources =
        Arc::new(open_sources(cache_dir, config.allowed_sources, confinement, artifacts)?);
    let required = confinement == Confinement::Required;
    confined::WorkerPool::set_up(confined::PoolSettings { required, ..Default::default() });
    warn_of_missing_confinement(confinement).await;
    // A lease is a write, too. A process that writes nothing needs no lease. Both stay as they
    // are while it runs.
    let dry_run = config.application_sets.dry_run;
    let lease = (config.leader_election && !dry_run)
        .then(|| Candidate::new(client.clone(), namespace, identity(), Clock::system()));
    if let Some(addr) = config.probe_addr.clone() {
        let stop = shutdown.child_token();
        start_server("--probe-addr", serve::serve_probes(addr, readiness.clone(), stop).boxed());
    }
    let mut has_led = false;
    loop {
        let served = shutdown.child_token();
        report_settings(&config, namespace);
        let mut settings = config.settings();
        if let Some(applications) = &mut settings.applications {
            applications.render.programs.environment = proxies();
        }
        let controllers = Controllers::trusting(
            client.clone(),
            settings,
            sources.clone(),
            Arc::clone(&trust),
            Clock::system(),
        );
        if let Some(candidate) = &lease {
            controllers.metrics().show_leadership(candidate.may_write());
        }
        let servers = serve(&config, &controllers, &served);
        // A replica that waits for the lease is ready; otherwise a rolling update of the
        // Deployment would never complete.
        readiness.set(true);
        if let Some(candidate) = &lease {
            tracing::info!("waiting for the lease");
            let read =
                async || read_config_maps(&client, &config, &readiness, &maps, || None).await;
            // What it saw in the meantime is what may not vanish.
            let settings = tokio::select! {
                biased;
                settings = candidate.acquire_and(&shutdown, read) => settings,
                () = maps.follow(&client, namespace) => None,
            };
            let Some(settings) = settings else { return Ok(ExitCode::SUCCESS) };
            // It may have waited for days, and acts first with the settings of now: what they
            // protect must not be deleted because it was not protected then.
            match live.resolve(&settings, &config) {
                Ok(next) if next != config => {
                    end_servers(&served, servers).await;
                    config = next;
                    continue;
                }
                Ok(_) => {}
                // The former ones stay, as for any change while it leads.
                Err(_) if has_led => {}
                // A start would refuse them, too.
                Err(error) => {
                    candidate.release().await;
                    return Err(error.into());
                }
            }
        }
        // A replica may have waited for the Lease for days.
        if let Some(candidate) = lease.as_ref().filter(|_| !has_led)
            && let Err(others) = other_controllers::check(&client, &config).await
        {
            candidate.release().await;
            return Err(others);
        }
        create_default_project(&client, &config).await;
        if !config.application_sets.dry_run {
            let client = client.clone();
            let problems = setting_events::Problems {
                not_understood: config.warnings.clone(),
                without_effect: config.without_effect.clone(),
            };
            let namespace = namespace.clone();
            tokio::spawn(async move { setting_events::write(&client, &namespace, problems).await });
        }
        let mut next = None;
        let may_sync = |config: Config| {
            let client = client.clone();
            async move {
                let checked = other_controllers::check(&client, &config).await;
                checked.map_err(|error| error.to_string())
            }
        };
        let outdated = async {
            next = Some(live.changed(&client, namespace, &maps, &config, may_sync).await);
        };
        let led = controllers.lead(lease.as_ref(), &shutdown, outdated).await;
        if let (Ok(Led::UntilOutdated), Some(next)) = (&led, next) {
            end_servers(&served, servers).await;
            config = live.settled(&client, namespace, &maps, next).await;
            has_led = true;
            continue;
        }
        readiness.set(false);
        anyhow::ensure!(
            led? == Led::UntilShutdown,
            "the lease was lost: another replica holds it, or it could not be renewed in time"
        );
        return Ok(ExitCode::SUCCESS);
    }
}

/// Says with which settings the controllers start, and which of them were not understood or
/// have no effect.
fn report_settings(config: &Config, namespace: &str) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    for setting in &config.without_effect {
        tracing::info!("{setting}");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace,
        progressive_syncs = config.application_sets.decisions.progressive_syncs,
        sync_engine = ?config.sync_engine,
        "starting"
    );
    if config.application_sets.dry_run {
        tracing::info!("dry run: nothing is written and no lease is acquired");
    }
}

/// Variables that resemble settings and are none, once: they stay while the process runs.
fn warn_of_unknown_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for warning in config::unknown_variables(names) {
        tracing::warn!("{warning}");
    }
}

/// A namespace that is mistyped looks like an empty one. A Pod does not ask: its role does
/// not allow that, and its own namespace exists.
async fn warn_of_missing_namespace(client: &Client, namespace: &str) {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if let Ok(None) = namespaces.get_opt(namespace).await {
        tracing::warn!(
            "namespace {namespace} of the control plane does not exist; create it, or select \
             another one with --namespace"
        );
    }
}

/// Creates the AppProject `default` where the sync engine needs it and it is missing. Argo CD's API
/// server does the same beside Argo CD.
async fn create_default_project(client: &Client, config: &Config) {
    let sets = &config.application_sets;
    if config.sync_engine != SyncEngine::Embedded || sets.dry_run {
        return;
    }
    let namespace = &sets.control_plane_namespace;
    match project::create_default(client, namespace).await {
        Ok(false) => {}
        Ok(true) => tracing::info!(
            "AppProject {namespace}/default was missing and has been created; it permits \
             everything"
        ),
        Err(error) => tracing::warn!(
            error = failure::error_reason(&error),
            "cannot make sure that there is an AppProject {namespace}/default; create it if it is \
             missing"
        ),
    }
}

/// Says once what the programs that read repositories are not kept from.
async fn warn_of_missing_confinement(confinement: Confinement) {
    if confinement == Confinement::Off {
        tracing::warn!("helm, kustomize and git are not confined, as --confinement=off says");
        return;
    }
    let effect = match confinement {
        Confinement::Required => "sources that need them fail, as --confinement=required says",
        Confinement::Auto | Confinement::Off => {
            "they run without it, so that who writes a repository may read files of other \
             repositories or of this machine by a flaw of these programs (a newer kernel, or \
             --confinement=required, prevents it)"
        }
    };
    let missing = tokio::task::spawn_blocking(confined::missing_restrictions).await;
    match missing.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => tracing::warn!(
            "this machine cannot confine helm, kustomize and git completely, {effect}: {}",
            missing.join("; ")
        ),
        Err(error) => {
            tracing::warn!(%error, "cannot find out how helm, kustomize and git are confined");
        }
    }
}

/// Starts an HTTP server. Without it the controllers run anyway.
fn start_server(
    flag: &'static str,
    server: BoxFuture<'static, std::io::Result<()>>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "cannot serve HTTP, the controllers run without it; {flag} selects another address");
        }
    })
}

/// Starts the HTTP servers of the controllers.
fn serve(
    config: &Config,
    controllers: &Controllers,
    shutdown: &CancellationToken,
) -> Vec<JoinHandle<()>> {
    let mut servers = Vec::new();
    let stop = || shutdown.child_token();
    if let Some(addr) = config.metrics_addr.clone() {
        let metrics = controllers.metrics();
        let text = Arc::new(move || metrics.text());
        servers
            .push(start_server("--metrics-addr", serve::serve_metrics(addr, text, stop()).boxed()));
    }
    if let Some(addr) = config.webhook_addr.clone() {
        let webhook = Arc::new(controllers.webhook());
        let (processing, until) = (Arc::clone(&webhook), stop());
        servers.push(tokio::spawn(async move { processing.run(until).await }));
        let receive: serve::Receive = Arc::new(move |headers, body| {
            let webhook = Arc::clone(&webhook);
            async move { webhook.receive(&headers, &body).await }.boxed()
        });
        servers.push(start_server(
            "--webhook-addr",
            serve::serve_webhook(addr, receive, stop()).boxed(),
        ));
    }
    servers
}

/// Ends the HTTP servers of controllers with outdated settings.
async fn end_servers(served: &CancellationToken, servers: Vec<JoinHandle<()>>) {
    tracing::info!("the settings have changed; the controllers start again with them");
    served.cancel();
    for server in servers {
        // Its address is used again. Whether it can be served is logged by itself.
        drop(tokio::time::timeout(SERVER_GRACE, server).await);
    }
}

/// The variables of this process for proxies, which `git` and `helm` get as well.
pub fn proxies() -> BTreeMap<String, String> {
    let names = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
    let names = names.into_iter().flat_map(|name| [name.to_owned(), name.to_lowercase()]);
    let set = names.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
    let set: BTreeMap<String, String> = set.collect();
    set.values().for_each(|proxy| redact::know_url(proxy));
    set
}

/// Opens the cache of repositories.
pub fn open_sources(
    dir: &std::path::Path,
    allow: Allow,
    confinement: Confinement,
    artifacts: ArtifactSettings,
) -> anyhow::Result<Repositories> {
    let mut settings = source::SourceSettings {
        allow,
        confinement,
        artifacts,
        ..source::SourceSettings::default()
    };
    settings.environment = proxies();
    settings.programs.confinement = confinement;
    Repositories::open(dir, settings)
        .with_context(|| format!("cannot use {} for checkouts", dir.display()))
}

/// Reads the keys of the ConfigMaps of the control plane. A server that does not answer, or
/// refuses to show them, is waited for: they may say that nothing is to be written, which kinds
/// are protected, or that Argo CD does the syncing.
///
/// `waits` is called with the first failure, and returns what lasts until all of them are read.
async fn read_config_maps(
    client: &Client,
    config: &Config,
    readiness: &Readiness,
    maps: &ConfigMaps,
    waits: impl Fn() -> Option<Waiting>,
) -> BTreeMap<String, String> {
    let namespace = &config.application_sets.control_plane_namespace;
    let mut waiting = None;
    let failed = |UnreadConfigMap { name, error, is_refused }: UnreadConfigMap| {
        if waiting.is_none() {
            waiting = waits();
        }
        tracing::warn!(
            error,
            "ConfigMap {namespace}/{name} cannot be read; nothing starts before that, since it \
             may hold settings"
        );
        let unread = format!("ConfigMap {namespace}/{name} cannot be read: {error}");
        readiness.wait_for(&redact::redact_text(&unread));
        // Nothing else says it: the sets would keep the status of the last run.
        let is_reported = is_refused && !config.application_sets.dry_run;
        async move {
            if is_reported {
                let audience = controller::unread::Audience {
                    namespace: namespace.clone(),
                    others: config.application_sets.namespaces.clone(),
                };
                let clock = Clock::system();
                controller::unread::report_unread(client, &audience, &unread, &clock).await;
            }
        }
    };
    let settings = maps.until_read(client, namespace, failed).await;
    readiness.wait_for("");
    if let Some(waiting) = waiting {
        waiting.end().await;
    }
    settings
}

/// Logging and probes while the API server does not answer, by the flags and the environment.
struct Waiting {
    stop: CancellationToken,
    probes: Option<JoinHandle<std::io::Result<()>>>,
    _logging: Option<tracing::subscriber::DefaultGuard>,
}

impl Waiting {
    fn start(format: LogFormat, config: &Config, readiness: &Readiness) -> Self {
        let logging = telemetry::until_dropped(format, &config.log_level).ok();
        let stop = CancellationToken::new();
        let probes = config.probe_addr.clone().map(|addr| {
            tokio::spawn(serve::serve_probes(addr, readiness.clone(), stop.child_token()))
        });
        Self { stop, probes, _logging: logging }
    }

    /// Frees the address, which the controllers may be about to use.
    async fn end(self) {
        self.stop.cancel();
        if let Some(probes) = self.probes {
            // Whether it can be served is reported when the controllers start.
            drop(probes.await);
        }
    }
}

fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "wavegate".to_owned());
    format!("{host}_{}", std::process::id())
}

fn stop_on_signal(shutdown: CancellationToken) {
    tokio::spawn(async move {
        stop_signal().await;
        shutdown.cancel();
    });
}

/// Waits for SIGTERM or Ctrl-C.
pub(super) async fn stop_signal() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(error) => {
                tracing::warn!(%error, "cannot handle SIGTERM");
                // Without a handler Ctrl-C still has to work.
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
