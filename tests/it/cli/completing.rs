//! The completion scripts, run by real shells.

use std::process::Command;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use wavegate_cluster::watch::object::kind_resource;

use super::embedded::Cluster;
use super::*;

/// What bash offers for a command line whose last word is being written.
fn bash(kubeconfig: &Path, line: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_wavegate"));
    let words: Vec<&str> = line.split(' ').collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "set -u; source <(wavegate completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; COMPREPLY=(); \
         _clap_complete_wavegate wavegate \"${{COMP_WORDS[COMP_CWORD]}}\" ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-c", &script]);
    command.env("PATH", path).env("KUBECONFIG", kubeconfig);
    command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("POD_NAMESPACE");
    let run = finish(command, b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}: {}", run.out);
    run.out.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

async fn offered(cluster: &Cluster, line: &str) -> Vec<String> {
    let (kubeconfig, line) = (cluster.kubeconfig(), line.to_owned());
    tokio::task::spawn_blocking(move || bash(&kubeconfig, &line)).await.unwrap()
}

/// Waits until exactly these are offered: on a busy machine the API server may not answer in
/// the short time of a completion.
async fn offers(cluster: &Cluster, line: &str, want: &[&str]) {
    let until = Instant::now() + WAIT;
    loop {
        let found = offered(cluster, line).await;
        if found == want {
            return;
        }
        assert!(Instant::now() < until, "{line}: {found:?} instead of {want:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_completes_names_from_the_cluster() {
    let cluster = Cluster::start().await;
    let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    for name in ["shop", "shipping", "other"] {
        object["metadata"]["name"] = name.into();
        cluster.create("ApplicationSet", object.clone()).await;
    }
    let api: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), "default", &kind_resource("ApplicationSet"));
    object["metadata"]["name"] = "elsewhere".into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();

    offers(&cluster, "wavegate status sh", &["shipping", "shop"]).await;
    offers(&cluster, "wavegate explain o", &["other"]).await;
    offers(&cluster, "wavegate status -n default e", &["elsewhere"]).await;
    offers(&cluster, "wavegate status --namespace arg", &["argocd"]).await;
    offers(&cluster, "wavegate expl", &["explain"]).await;
    offers(&cluster, "wavegate plan --enable-prog", &["--enable-progressive-syncs"]).await;
    let contexts = offered(&cluster, "wavegate status --context ").await;
    assert_eq!(contexts.len(), 1, "{contexts:?}");
    for name in ["shop", "shop-dev", "shop-qa"] {
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {"project": "default", "destination": {"server": "https://1"},
                "source": {"repoURL": "https://r"}},
        });
        cluster.create("Application", application).await;
    }
    offers(&cluster, "wavegate diff s", &["shipping", "shop", "shop-dev", "shop-qa"]).await;
    offers(&cluster, "wavegate refresh shop-", &["shop-dev", "shop-qa"]).await;
    offers(&cluster, "wavegate explain shop-", &["shop-dev", "shop-qa"]).await;
    offers(&cluster, "wavegate refresh appset/sho", &["appset/shop"]).await;
    offers(&cluster, "wavegate sync shop-dev shop-", &["shop-qa"]).await;
    offers(&cluster, "wavegate sync shop-qa", &["shop-qa"]).await;
    offers(&cluster, "wavegate approve sh", &["shipping", "shop"]).await;
    offers(&cluster, "wavegate skip shop-dev shop-", &["shop-qa"]).await;
    offers(&cluster, "wavegate retry shop", &["shop", "shop-dev", "shop-qa"]).await;
    assert_eq!(offered(&cluster, "wavegate status zz").await, Vec::<String>::new());
}

#[test]
fn completions_of_a_dead_cluster_are_fast_silent_and_safe() {
    // A server that accepts connections and never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let context = |name: &str| json!({"name": name, "context": {"cluster": "c", "user": "u"}});
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "good",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [context("good"), context("$(touch pwned)"), context("a b"), context("*"), context("admin@k8s")],
    });
    let program = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", "echo noise >&2; sleep 60"], "interactiveMode": "Never"}});
    let mut hanging = kubeconfig.clone();
    hanging["users"][0]["user"] = program;
    let files = folder(&[
        ("config", &kubeconfig.to_string()),
        ("hanging", &hanging.to_string()),
        ("broken", "{"),
    ]);
    for file in ["config", "hanging", "broken", "missing"] {
        let path = files.path().join(file);
        let line = |line: &str| {
            let offered = bash(&path, line);
            offered.into_iter().filter(|word| !word.starts_with('-')).collect::<Vec<_>>()
        };
        assert_eq!(line("wavegate explain "), Vec::<String>::new(), "{file}");
        assert_eq!(line("wavegate status -n "), Vec::<String>::new(), "{file}");
        let want: &[&str] =
            if matches!(file, "config" | "hanging") { &["admin@k8s", "good"] } else { &[] };
        assert_eq!(line("wavegate explain --context "), want, "{file}");
    }
    // Without a shell, since its own start is not ours.
    for file in ["config", "hanging"] {
        let mut command = super::program(&["--", "wavegate", "explain", ""]);
        command.env("KUBECONFIG", files.path().join(file));
        command.env("_WAVEGATE_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
        let start = Instant::now();
        let run = finish(command, b"");
        let took = start.elapsed();
        let names = run.out.split(char::is_whitespace).filter(|word| !word.starts_with('-'));
        assert_eq!((run.code, names.collect::<String>(), run.err.as_str()), (0, String::new(), ""));
        // 350 ms, and the start of the process on a busy machine; the program hangs for 60 s.
        assert!(took < Duration::from_secs(50), "{file}: {took:?}");
    }
    assert_eq!(
        super::program(&["--"]).env("_WAVEGATE_COMPLETE", "nonsense").status().unwrap().code(),
        Some(0)
    );
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = wavegate(&["completions", shell]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{shell}");
        assert!(run.out.contains("_WAVEGATE_COMPLETE"), "{shell}: {}", run.out);
    }
}
