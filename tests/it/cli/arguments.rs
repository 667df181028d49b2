//! The arguments and the environment of Argo CD's controllers.

use std::process::Child;
use std::time::{Duration, Instant};

use super::embedded::Cluster;
use super::*;

/// A running controller, which is killed at the end, and its log.
pub(super) struct Running {
    pub child: Child,
    log: PathBuf,
    _files: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    pub fn start(cluster: &Cluster, args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_with(&cluster.kubeconfig(), args, environment)
    }

    /// The same with another kubeconfig.
    pub fn start_with(kubeconfig: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let log = files.path().join("log");
        let mut command = program(&["run", "--namespace=argocd"]);
        command
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .env("NO_COLOR", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        Self { child: command.spawn().unwrap(), log, _files: files }
    }

    /// The complete lines of its log so far: the last one may be half written.
    pub fn log(&self) -> String {
        let mut log = std::fs::read(&self.log).unwrap();
        let end = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        log.truncate(end);
        String::from_utf8(log).unwrap()
    }

    /// Waits until the log contains these words, and returns it.
    pub async fn until_logged(&mut self, words: &str) -> String {
        let until = Instant::now() + WAIT;
        loop {
            let log = self.log();
            if log.contains(words) {
                return log;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {log}");
            assert!(Instant::now() < until, "no {words:?} in {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// All arguments of Argo CD's controller, except for addresses.
const ARGUMENTS: [&str; 35] = [
    "--metrics-addr=",
    "--probe-addr=",
    "--webhook-addr=",
    "--enable-leader-election=false",
    "--applicationset-namespaces=team-*,argocd",
    "--argocd-repo-server",
    "argocd-repo-server:8081",
    "--policy=sync",
    "--enable-policy-override=True",
    "--debug=0",
    "--logformat",
    "text",
    "--loglevel=warning",
    "--dry-run=false",
    "--enable-progressive-syncs",
    "--enable-new-git-file-globbing",
    "--repo-server-plaintext",
    "--repo-server-strict-tls=false",
    "--repo-server-ca-cert-path=/ca.crt",
    "--repo-server-client-cert-path=/tls.crt",
    "--repo-server-client-cert-key-path=/tls.key",
    "--repo-server-timeout-seconds=60",
    "--concurrent-reconciliations=10",
    "--concurrent-application-updates=2",
    "--scm-root-ca-path=",
    "--allowed-scm-providers=https://git.example.com",
    "--enable-scm-providers=true",
    "--token-ref-strict-mode",
    "--preserved-annotations=a,b",
    "--preserved-labels=c",
    "--webhook-parallelism-limit=50",
    "--metrics-applicationset-labels=team",
    "--enable-github-api-metrics",
    "--max-resources-status-count=5000",
    "--cache-sync-period=10h",
];

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_argo_cd_start_unchanged_as_501() {
    let cluster = Cluster::start().await;
    let args: Vec<&str> = ARGUMENTS.iter().chain(&["--loglevel=info"]).copied().collect();
    let args: Vec<&str> = args.into_iter().filter(|arg| *arg != "--loglevel=warning").collect();
    let environment = [
        ("ARGOCD_K8S_CLIENT_QPS", "100"),
        ("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_PROXY_URL", "http://proxy:3128"),
        ("ARGOCD_APPLICATIONSET_CONTROLLER_REQUEUE_AFTER", "9000h"),
        ("ARGOCD_APPLICATIONSET_CONTROLLER_CONCURRENT_RECONCILIATIONS", "none"),
        ("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_QUERY_TIMEOUT", "s3cr3t"),
        ("AWS_ACCES_KEY_ID", "s3cr3t"),
    ];
    let mut running = Running::start(&cluster, &args, &environment);
    let log = running.until_logged(" starting ").await;
    for place in ["--argocd-repo-server", "--cache-sync-period", "ARGOCD_K8S_CLIENT_QPS"] {
        let named = log.matches(&format!("{place} is accepted without effect: ")).count();
        assert_eq!(named, 1, "AS-501: {place} is named once: {log}");
    }
    assert!(
        log.contains("REQUEUE_AFTER: \"9000h\" is not understood, the default is used"),
        "AS-500, AS-503: {log}"
    );
    for misspelt in [
        "CONTROLLER_SCM_QUERY_TIMEOUT (environment) is no setting of Argo CD 3.5 or Wavegate, and \
         has no effect",
        "AWS_ACCES_KEY_ID (environment) is no setting of Argo CD 3.5 or Wavegate, and has no \
         effect; did you mean AWS_ACCESS_KEY_ID?",
    ] {
        assert!(log.contains(misspelt), "{log}");
    }
    assert!(!log.contains("s3cr3t"), "only the names are shown: {log}");
    assert!(!log.contains("CONCURRENT_RECONCILIATIONS"), "AS-500: the flag wins: {log}");
    assert!(log.contains("progressive_syncs=true"), "{log}");
}

/// Those of Argo CD's application controller, except for addresses; each one without a meaning is
/// named.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_the_application_controller_start_unchanged() {
    let cluster = Cluster::start().await;
    let honoured = [
        "--app-resync=180",
        "--app-hard-resync=0",
        "--app-resync-jitter=0",
        "--app-state-cache-expiration=1h",
        "--application-namespaces=team-*",
        "--default-cache-expiration=24h",
        "--enable-k8s-event=none",
        "--ignore-normalizer-jq-execution-timeout-seconds=1",
        "--kubectl-parallelism-limit=20",
        "--logformat=text",
        "--loglevel=info",
        "--metrics-application-conditions=ComparisonError",
        "--metrics-application-labels=team",
        "--persist-resource-health",
        "--repo-error-grace-period-seconds=180",
        "--self-heal-backoff-cap-seconds=300",
        "--self-heal-backoff-factor=3",
        "--self-heal-backoff-timeout-seconds=2",
        "--self-heal-timeout-seconds=5",
        "--server-side-diff-enabled",
        "--status-processors=20",
        "--sync-timeout=0",
    ];
    let without_effect = [
        "--commit-server=commit:8086",
        "--dynamic-cluster-distribution-enabled",
        "--gloglevel=0",
        "--hydrator-enabled",
        "--metrics-cache-expiration=24h",
        "--operation-processors=10",
        "--otlp-address=collector:4317",
        "--otlp-attrs=key:value",
        "--otlp-headers=key=value",
        "--otlp-insecure",
        "--repo-server=repo:8081",
        "--self-heal-backoff-cooldown-seconds=330",
        "--sharding-method=legacy",
        "--wq-backoff-factor=1.5",
        "--wq-basedelay-ns=1",
        "--wq-bucket-qps=1",
        "--wq-bucket-size=1",
        "--wq-cooldown-ns=1",
        "--wq-maxdelay-ns=1",
    ];
    let addresses = ["--metrics-addr=", "--probe-addr=", "--webhook-addr="];
    let providers = ["--enable-scm-providers=false"];
    let args = [&addresses[..], &providers, &honoured, &without_effect].concat();
    let mut running = Running::start(&cluster, &args, &[]);
    let log = running.until_logged(" starting ").await;
    for argument in without_effect {
        let flag = argument.split('=').next().unwrap();
        let named = log.matches(&format!("{flag} is accepted without effect: ")).count();
        assert_eq!(named, 1, "{flag}: {log}");
    }
    let count = log.matches(" is accepted without effect: ").count();
    assert_eq!(count, without_effect.len(), "{log}");
}

/// AS-504: users of further namespaces must not send requests to any server.
#[tokio::test(flavor = "multi_thread")]
async fn further_namespaces_need_a_list_of_providers_as_504() {
    let cluster = Cluster::start().await;
    let run = [
        "run",
        "--namespace=argocd",
        "--probe-addr=",
        "--metrics-addr=",
        "--webhook-addr=",
        "--applicationset-namespaces=team",
    ];
    let refused = cluster.run(&run).await;
    refused.fails(2, &["--allowed-scm-providers", "--enable-scm-providers=false"]);
    let line: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(line["level"], "ERROR", "a line of the log, as it has JSON: {line}");
    // In a ConfigMap, too.
    let key = "applicationsetcontroller.allowed.scm.providers";
    cluster.sets(json!({ key: "https://git.example.com" })).await;
    let mut running = Running::start(&cluster, &run[2..], &[]);
    running.until_logged("\"starting\"").await;
}

#[test]
fn misspelt_arguments_are_refused() {
    wavegate(&["run", "--argocd-repo-sever=x"]).fails(2, &["--argocd-repo-sever"]);
    wavegate(&["run", "--webhook-parallelism-limit=0"]).fails(2, &["1..=1000"]);
    wavegate(&["run", "--debug=maybe"]).fails(2, &["write true or false"]);
}
