//! Git servers are trusted as the control plane trusts them, when a cluster is reached: by its
//! ConfigMaps `argocd-ssh-known-hosts-cm` and `argocd-tls-certs-cm`.

use std::os::unix::fs::PermissionsExt;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;

use super::embedded::Cluster;
use super::*;
use crate::support::manifests::IN_CLUSTER;
use crate::support::repository::Repository;

const URL: &str = "ssh://git@git.invalid/team/repo";
const KEY: &str = "git.invalid ssh-ed25519 AAAA";

/// A folder with an `ssh` that connects to a repository when it is given the key of the
/// server, and that nobody has given the keys of this machine.
fn ssh(dir: &Path, repository: &Repository) -> PathBuf {
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = format!(
        r#"#!/bin/sh
for one in "$@"; do
    case "$one" in UserKnownHostsFile=*) file=$(echo "${{one#*=}}" | tr -d '"');; esac
done
if grep -q '^{KEY}' "$file" 2>/dev/null; then exec git upload-pack '{}'; fi
echo 'Host key verification failed.' >&2
exit 255
"#,
        repository.url()
    );
    std::fs::write(bin.join("ssh"), script).unwrap();
    std::fs::set_permissions(bin.join("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

async fn run(cluster: &Cluster, bin: &Path, args: &[&str]) -> Run {
    let mut command = program(args);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn git_servers_are_trusted_as_by_the_control_plane() {
    let cluster = Cluster::start().await;
    let dir = tempfile::tempdir().unwrap();
    let repository = Repository::new(dir.path().join("repository"));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    repository.commit("first", &[("one/map.yaml".to_owned(), map.to_string())]);
    let bin = ssh(dir.path(), &repository);

    let everything = json!({
        "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
    });
    cluster
        .create("AppProject", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"}, "spec": everything}))
        .await;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let spec = |name: &str| {
        json!({
            "project": "default",
            "source": {"repoURL": URL, "path": name},
            "destination": {"server": IN_CLUSTER, "namespace": "x"},
        })
    };
    let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "app"}, "spec": spec("one")});
    cluster.create("Application", application).await;
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"git": {
                "repoURL": URL, "revision": "HEAD", "directories": [{"path": "*"}],
            }}],
            "template": {
                "metadata": {"name": "{{.path.basename}}"}, "spec": spec("{{.path.path}}"),
            },
        },
    });
    let set = set.to_string();
    let hosts = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-ssh-known-hosts-cm", "namespace": "argocd"},
        "data": {"ssh_known_hosts": format!("{KEY}\n")},
    });
    let files = folder(&[("set.json", set.as_str()), ("hosts.json", &hosts.to_string())]);
    let (file, known) = (in_folder(&files, "set.json"), in_folder(&files, "hosts.json"));

    let commands: [&[&str]; 3] =
        [&["render", "-f", &file, "--live"], &["plan", "-f", &file, "--live"], &["diff", "app"]];
    for command in commands {
        let refused = run(&cluster, &bin, command).await;
        let advice = "add it to `ssh_known_hosts` of the ConfigMap argocd-ssh-known-hosts-cm";
        assert!(refused.err.contains(advice), "{command:?}: {}{}", refused.out, refused.err);
    }
    // Without a cluster, the files may hold it.
    let offline = run(&cluster, &bin, &["render", "-f", &file, "-f", &known]).await;
    assert_eq!(offline.code, 0, "{}", offline.err);
    assert!(offline.out.contains("name: one"), "{}", offline.out);

    cluster.create_map(hosts).await;
    for (command, code, found) in
        [(commands[0], 0, "name: one"), (commands[1], 0, "one"), (commands[2], 1, "ConfigMap")]
    {
        let read = run(&cluster, &bin, command).await;
        assert_eq!(read.code, code, "{command:?}: {}{}", read.out, read.err);
        assert!(read.out.contains(found), "{command:?}: {}{}", read.out, read.err);
    }
}
