//! The commands that a newcomer types, and what they print, on the embedded server as on
//! a real one.
//!
//! The table is the one place for them: whoever wants to run the same commands
//! elsewhere takes [`COMMANDS`].

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One command.
pub struct Line {
    /// As typed into a shell, in a namespace of its own.
    pub command: &'static str,
    /// What it prints, both streams together. Spaces count as one; `*` is any text within
    /// a line, `...` any lines. One of several, where versions of Kubernetes differ.
    pub prints: &'static [&'static str],
    /// Why a real server of Kubernetes 1.20 without nodes cannot do it.
    pub lacking: Option<&'static str>,
}

const fn line(command: &'static str, prints: &'static [&'static str]) -> Line {
    Line { command, prints, lacking: None }
}

const fn newer(command: &'static str, prints: &'static [&'static str], why: &'static str) -> Line {
    Line { command, prints, lacking: Some(why) }
}

const NO_NODE: &str = "no kubelet answers";
const NO_SUCH_VERSION: &str = "Kubernetes 1.20 does not serve this version";

const ROLLED_OUT: &[&str] = &["...\ndeployment \"web\" successfully rolled out"];

/// All of them, in their order: later ones need what earlier ones created.
pub const COMMANDS: &[Line] = &[
    line(
        "kubectl create deployment web --image=example.com/web:1 --replicas=2",
        &["deployment.apps/web created"],
    ),
    line("kubectl rollout status deployment web --timeout=60s", ROLLED_OUT),
    line("kubectl get deployments", &["NAME READY UP-TO-DATE AVAILABLE AGE\nweb 2/2 2 2 *s"]),
    line(
        "kubectl wait pod -l app=web --for=condition=Ready --timeout=60s",
        &["pod/web-*-* condition met\npod/web-*-* condition met"],
    ),
    line(
        "kubectl wait replicaset -l app=web --for=jsonpath='{.status.readyReplicas}'=2 --timeout=60s",
        &["replicaset.apps/web-* condition met"],
    ),
    line(
        "kubectl get all",
        &["NAME READY STATUS RESTARTS AGE\n\
           pod/web-*-* 1/1 Running 0 *s\n\
           pod/web-*-* 1/1 Running 0 *s\n\
           \n\
           NAME READY UP-TO-DATE AVAILABLE AGE\n\
           deployment.apps/web 2/2 2 2 *s\n\
           \n\
           NAME DESIRED CURRENT READY AGE\n\
           replicaset.apps/web-* 2 2 2 *s"],
    ),
    line(
        "kubectl set image deployment/web web=example.com/web:2",
        &["deployment.apps/web image updated"],
    ),
    line(
        "kubectl annotate deployment web kubernetes.io/change-cause='second image'",
        &["deployment.apps/web annotated"],
    ),
    line("kubectl rollout status deployment web --timeout=60s", ROLLED_OUT),
    line(
        "kubectl rollout history deployment web",
        &["deployment.apps/web\nREVISION CHANGE-CAUSE\n1 <none>\n2 second image"],
    ),
    line("kubectl rollout undo deployment web", &["deployment.apps/web rolled back"]),
    line("kubectl rollout status deployment web --timeout=60s", ROLLED_OUT),
    line(
        "kubectl rollout history deployment web",
        &["deployment.apps/web\nREVISION CHANGE-CAUSE\n2 second image\n3 <none>"],
    ),
    line(
        "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'",
        &["example.com/web:1"],
    ),
    line("kubectl rollout restart deployment web", &["deployment.apps/web restarted"]),
    line("kubectl rollout status deployment web --timeout=60s", ROLLED_OUT),
    line("kubectl scale deployment web --replicas=3", &["deployment.apps/web scaled"]),
    line(
        "kubectl wait deployment web --for=jsonpath='{.status.readyReplicas}'=3 --timeout=60s",
        &["deployment.apps/web condition met"],
    ),
    line(
        "kubectl get events --field-selector involvedObject.kind=Deployment",
        &["LAST SEEN TYPE REASON OBJECT MESSAGE\n\
           *s Normal ScalingReplicaSet deployment/web Scaled up replica set web-* to *\n..."],
    ),
    line(
        "kubectl describe deployment web",
        &[
            "Name: web\n...\nReplicas: 3 desired | 3 updated | 3 total | 3 available | 0 unavailable\n...\n\
           Image: example.com/web:1\n...\nNewReplicaSet: web-* (3/3 replicas created)\nEvents:\n...",
        ],
    ),
    newer(
        "kubectl logs deployment/web --tail=1",
        &["Found 3 pods, using pod/web-*\nsimulation: ready"],
        NO_NODE,
    ),
    line("kubectl expose deployment web --port=80", &["service/web exposed"]),
    line("kubectl create service clusterip other --tcp=80:8080", &["service/other created"]),
    line(
        "kubectl get services",
        &["NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE\n\
           other ClusterIP 10.* <none> 80/TCP *s\nweb ClusterIP 10.* <none> 80/TCP *s"],
    ),
    line(
        "kubectl autoscale deployment web --min=1 --max=5 --cpu-percent=80",
        &["horizontalpodautoscaler.autoscaling/web autoscaled"],
    ),
    line(
        "kubectl create ingress web --rule='shop.example.com/*=web:80'",
        &["ingress.networking.k8s.io/web created"],
    ),
    newer(
        "kubectl create pdb web --selector=app=web --min-available=1",
        &["poddisruptionbudget.policy/web created"],
        NO_SUCH_VERSION,
    ),
    line("kubectl create quota limits --hard=pods=20", &["resourcequota/limits created"]),
    line(
        "kubectl create role reader --verb=get,list --resource=pods",
        &["role.rbac.authorization.k8s.io/reader created"],
    ),
    line(
        "kubectl create rolebinding reader --role=reader --serviceaccount=default:robot",
        &["rolebinding.rbac.authorization.k8s.io/reader created"],
    ),
    line("kubectl create serviceaccount robot", &["serviceaccount/robot created"]),
    line("kubectl create token robot", &["*.*.*"]),
    line(
        "kubectl create configmap settings --from-literal=colour=blue",
        &["configmap/settings created"],
    ),
    line("kubectl create secret generic keys --from-literal=key=value", &["secret/keys created"]),
    line("kubectl get secret keys -o jsonpath='{.data.key}'", &["dmFsdWU="]),
    line("kubectl create job once --image=example.com/job:1 -- true", &["job.batch/once created"]),
    line(
        "kubectl wait job once --for=condition=Complete --timeout=60s",
        &["job.batch/once condition met"],
    ),
    line(
        "kubectl get jobs",
        &[
            "NAME STATUS COMPLETIONS DURATION AGE\nonce Complete 1/1 *s *s",
            "NAME COMPLETIONS DURATION AGE\nonce 1/1 *s *s",
        ],
    ),
    newer(
        "kubectl create cronjob nightly --image=example.com/job:1 --schedule='0 3 * * *'",
        &["cronjob.batch/nightly created"],
        NO_SUCH_VERSION,
    ),
    newer(
        "kubectl create job by-hand --from=cronjob/nightly",
        &["job.batch/by-hand created"],
        NO_SUCH_VERSION,
    ),
    line(
        "kubectl explain deployment.spec.replicas",
        &["...\nFIELD: replicas <integer>\n...\nDESCRIPTION:\nNumber of desired pods. *\n..."],
    ),
    line(
        "kubectl explain pods --recursive",
        &[
            "...\ncontainers <[]*> -required-\n...\nimagePullPolicy <string>\n...",
            "...\ncontainers <[]Object>\n...\nimagePullPolicy <string>\n...",
        ],
    ),
    line("kubectl auth can-i create pods", &["yes"]),
    line(
        "kubectl api-resources --api-group=apps -o name",
        &[
            "controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps",
        ],
    ),
    line("kubectl label configmap settings tier=front", &["configmap/settings labeled"]),
    line("kubectl get configmaps -l tier=front -o name", &["configmap/settings"]),
    line(
        "kubectl patch configmap settings --type merge -p '{\"data\":{\"colour\":\"red\"}}'",
        &["configmap/settings patched"],
    ),
    line(
        "kubectl get configmap settings -o yaml | sed s/red/green/ | kubectl diff -f - | grep '^[-+] '",
        &["- colour: red\n+ colour: green"],
    ),
    line(
        "kubectl create deployment api --image=example.com/api:1 --dry-run=client -o yaml | kubectl apply -f -",
        &["deployment.apps/api created"],
    ),
    line(
        "kubectl create deployment api --image=example.com/api:1",
        &["error: failed to create deployment: deployments.apps \"api\" already exists"],
    ),
    line("kubectl run one --image=example.com/one:1", &["pod/one created"]),
    line("kubectl wait pod one --for=condition=Ready --timeout=60s", &["pod/one condition met"]),
    line("kubectl top pods", &["error: Metrics API not available"]),
    newer(
        "kubectl exec one -- true",
        &[
            "*exec is not available: Pods of the embedded API server are simulated, and nothing runs in them",
        ],
        NO_NODE,
    ),
    line("kubectl delete pod one", &["pod \"one\" deleted*"]),
    line(
        "kubectl delete pods -l app=web",
        &["pod \"web-*\" deleted*\npod \"web-*\" deleted*\npod \"web-*\" deleted*"],
    ),
    line(
        "kubectl wait deployment web --for=jsonpath='{.status.readyReplicas}'=3 --timeout=60s",
        &["deployment.apps/web condition met"],
    ),
    line(
        "kubectl delete deployment web api --wait",
        &["deployment.apps \"web\" deleted*\ndeployment.apps \"api\" deleted*"],
    ),
    line("kubectl get deployments", &["No resources found in * namespace."]),
];

/// The first minor version of kubectl whose output the table has, and which knows
/// all of its commands.
const OLDEST: u64 = 31;

/// For how long a command that reads is repeated, on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Whether a command only reads: what others have created follows in steps, and a command that
/// is too early is repeated.
pub fn is_read(command: &str) -> bool {
    let reads = ["get ", "describe ", "logs ", "wait ", "rollout status ", "rollout history "];
    let arguments = command.strip_prefix("kubectl ").unwrap_or_default();
    reads.iter().any(|verb| arguments.starts_with(verb))
}

/// Whether there is a kubectl of a known version; says so when there is none.
pub fn is_installed() -> bool {
    let found = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output();
    let minor = found.ok().and_then(|output| {
        let version: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        version["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse::<u64>().ok()
    });
    match minor {
        Some(minor) if minor >= OLDEST => return true,
        Some(minor) => eprintln!("skipped: kubectl is version 1.{minor}, not 1.{OLDEST} or newer"),
        None => eprintln!("skipped: there is no kubectl on PATH"),
    }
    false
}

/// A shell whose kubectl uses a kubeconfig and a namespace.
pub struct Shell {
    home: tempfile::TempDir,
}

impl Shell {
    /// Copies the kubeconfig, with the namespace as that of its context.
    pub fn new(kubeconfig: &Path, namespace: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let shell = Self { home };
        std::fs::copy(kubeconfig, shell.kubeconfig()).unwrap();
        let set = format!("kubectl config set-context --current --namespace={namespace}");
        let (printed, success) = shell.run(&set);
        assert!(success, "{printed}");
        shell
    }

    fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// What a command prints on both streams, and whether it succeeded.
    pub fn run(&self, command: &str) -> (String, bool) {
        let Output { status, stdout, stderr } = Command::new("sh")
            .args(["-c", command])
            // Discovery is kept there.
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.kubeconfig())
            .env("PATH", path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(stderr) + &text(stdout), status.success())
    }

    /// What a command prints, and whether that is one of these; one that reads is repeated until
    /// it is.
    pub fn prints(&self, command: &str, wanted: &[&str]) -> (String, bool) {
        let begun = Instant::now();
        loop {
            let (printed, _) = self.run(command);
            let is_wanted = wanted.iter().any(|one| matches(one, &printed));
            if is_wanted || !is_read(command) || begun.elapsed() > LIMIT {
                return (printed, is_wanted);
            }
        }
    }
}

/// `PATH` with the program under test.
fn path() -> std::ffi::OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_wavegate"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}

/// Whether an output is as wanted: see [`Line::prints`].
fn matches(wanted: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted: Vec<String> = wanted.lines().map(words).collect();
    let printed: Vec<String> = printed.trim().lines().map(words).collect();
    lines_match(&wanted, &printed)
}

fn lines_match(wanted: &[String], printed: &[String]) -> bool {
    match wanted.split_first() {
        None => printed.iter().all(String::is_empty),
        Some((any, rest)) if any == "..." => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, lines)| text_matches(first, line) && lines_match(rest, lines)),
    }
}

fn text_matches(wanted: &str, text: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|end| text_matches(rest, &text[end..]))
        }),
    }
}
