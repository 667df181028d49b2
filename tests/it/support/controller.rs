//! The controller under test: a task of this process, or a separate process that can be killed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wavegate_controller::config::{ApplicationFlags, Config, Flags, SyncEngine};
use wavegate_net::clock::Clock;
use wavegate_source::{Repositories, SourceSettings};

/// Settings of the controller; defaults are those of an installation, but without a delay
/// between waves.
#[derive(Clone, Debug)]
pub struct Setup {
    pub progressive_syncs: bool,
    pub sync_engine: SyncEngine,
    /// Seconds.
    pub progressing_timeout: u32,
    /// Namespaces in addition to the control plane's.
    pub namespaces: Vec<String>,
    pub allow_private_sinks: bool,
    /// Whether Applications are compared by time, as in an installation. What is counted must
    /// not depend on how long a case takes.
    pub compares_by_time: bool,
    /// Whether a process works under a Lease.
    pub leader_election: bool,
    /// The time of a task; by default the system's.
    pub clock: Clock,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            progressive_syncs: true,
            sync_engine: SyncEngine::Embedded,
            progressing_timeout: 300,
            namespaces: Vec::new(),
            allow_private_sinks: false,
            compares_by_time: true,
            leader_election: false,
            clock: Clock::system(),
        }
    }
}

impl Setup {
    /// For the stand-in of Argo CD's application controller.
    pub fn external() -> Self {
        Self { sync_engine: SyncEngine::External, ..Self::default() }
    }

    fn flags(&self, namespace: &str) -> Flags {
        Flags {
            namespace: Some(namespace.to_owned()),
            sync_engine: Some(self.sync_engine),
            enable_progressive_syncs: Some(self.progressive_syncs),
            default_application_progressing_timeout: Some(self.progressing_timeout),
            application: ApplicationFlags {
                sync_wave_delay: Some(0),
                app_resync: (!self.compares_by_time).then_some(Duration::ZERO),
                ..ApplicationFlags::default()
            },
            allow_local_sources: Some(true),
            allow_http_sources: Some(true),
            applicationset_namespaces: Some(self.namespaces.clone()),
            allow_private_sinks: Some(self.allow_private_sinks),
            ..Flags::default()
        }
    }

    fn arguments(&self, namespace: &str) -> Vec<String> {
        let engine = match self.sync_engine {
            SyncEngine::Embedded => "embedded",
            SyncEngine::External => "external",
        };
        let mut arguments = vec![
            "run".to_owned(),
            format!("--namespace={namespace}"),
            format!("--sync-engine={engine}"),
            format!("--enable-progressive-syncs={}", self.progressive_syncs),
            format!("--default-application-progressing-timeout={}", self.progressing_timeout),
            "--sync-wave-delay=0".to_owned(),
            "--allow-local-sources=true".to_owned(),
            "--allow-http-sources=true".to_owned(),
            format!("--enable-leader-election={}", self.leader_election),
            format!("--applicationset-namespaces={}", self.namespaces.join(",")),
            "--enable-scm-providers=false".to_owned(),
            format!("--allow-private-sinks={}", self.allow_private_sinks),
            "--probe-addr=".to_owned(),
            "--metrics-addr=".to_owned(),
            "--webhook-addr=".to_owned(),
            "--logformat=json".to_owned(),
        ];
        if !self.compares_by_time {
            arguments.push("--app-resync=0".to_owned());
        }
        arguments
    }
}

/// The program under test.
pub fn under_test() -> PathBuf {
    env!("CARGO_BIN_EXE_wavegate").into()
}

/// A controller that runs in this process.
pub struct Task {
    stop: CancellationToken,
    handle: JoinHandle<Result<(), String>>,
}

impl Task {
    /// Starts it; checkouts are below `dir`.
    pub fn start(client: Client, setup: &Setup, namespace: &str, dir: &Path) -> Self {
        let config = Config::resolve(setup.flags(namespace), &|_| None, &BTreeMap::new()).unwrap();
        let settings =
            SourceSettings { allow: config.allowed_sources, ..SourceSettings::default() };
        let sources = Arc::new(Repositories::open(dir, settings).unwrap());
        let stop = CancellationToken::new();
        let token = stop.clone();
        let clock = setup.clock.clone();
        let handle = tokio::spawn(async move {
            let run = wavegate_controller::run(client, config.settings(), sources, clock, token);
            run.await.map_err(|error| format!("{error:?}"))
        });
        Self { stop, handle }
    }

    /// Whether it ended by itself.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Stops it and waits; an error of the controller fails the case.
    pub async fn stop(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(300), self.handle).await;
        ended.expect("the controller stops when asked").unwrap().unwrap();
    }
}

/// A controller in a separate process.
pub struct Process {
    program: PathBuf,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// Starts it; its log and its checkouts are below `dir`.
    pub fn start(
        program: &Path,
        kubeconfig: &Path,
        setup: &Setup,
        namespace: &str,
        dir: &Path,
    ) -> Self {
        let mut arguments = setup.arguments(namespace);
        arguments.push(format!("--cache-dir={}", dir.join("checkouts").display()));
        let mut process = Self {
            program: program.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            arguments,
            log: dir.join("controller.log"),
            child: None,
        };
        process.spawn();
        process
    }

    fn spawn(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the binary under test starts"));
    }

    /// Kills it with SIGKILL, and starts it again.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the controller ended by itself: {ended:?}\n{}", self.log());
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Whether it ended by itself.
    pub fn is_finished(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    /// The log of all its starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
