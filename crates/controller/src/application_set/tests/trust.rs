//! A generator that a server has refused reads again when its keys, certificates or
//! credentials change, and not at the next interval (AS-097).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::*;

/// A `git` that knows the host `git.invalid`: it demands the key, the certificate or the
/// password as a real one would, and reads the folder then.
fn git(folder: &Path) -> String {
    let program = folder.join("git");
    let repository = folder.join("repository");
    let script = format!(
        r#"#!/bin/sh
case " $* " in
*" ls-remote "*|*" fetch "*)
    case " $* " in
    *"ssh://git@git.invalid/"*)
        file=$(printf %s "$GIT_SSH_COMMAND" | sed -n 's/.*UserKnownHostsFile="\([^"]*\)".*/\1/p')
        grep -q '^git.invalid ssh-ed25519 AAAA' "$file" 2>/dev/null || {{
            echo 'Host key verification failed.' >&2; exit 128; }};;
    *"https://git.invalid/certificate"*)
        grep -q 'CERTIFICATE of git.invalid' "$GIT_SSL_CAINFO" 2>/dev/null || {{
            echo 'fatal: server certificate verification failed' >&2; exit 128; }};;
    *"https://git.invalid/password"*)
        [ "$("$GIT_ASKPASS" "Password for 'https://git.invalid': " 2>/dev/null)" = swordfish ] || {{
            echo 'fatal: Authentication failed' >&2; exit 128; }};;
    esac;;
esac
GIT_ALLOW_PROTOCOL=file exec git -c safe.directory='*' \
    -c url.{repository}.insteadOf=ssh://git@git.invalid/team/repo \
    -c url.{repository}.insteadOf=https://git.invalid/certificate \
    -c url.{repository}.insteadOf=https://git.invalid/password "$@"
"#,
        repository = repository.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(repository.join("one")).unwrap();
    std::fs::write(repository.join("one/app.yaml"), "").unwrap();
    let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid"];
    for args in [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "-m", "one"]] {
        let mut command = Command::new("git");
        command.current_dir(&repository).args(identity).args(args);
        assert!(command.status().unwrap().success(), "{args:?}");
    }
    program.display().to_string()
}

impl ClusterState {
    /// Creates a set that reads a repository, and waits until it is refused.
    async fn refused(&self, name: &str, url: &str, text: &str) {
        let generator = json!({"git": {
            "repoURL": url, "revision": "HEAD", "directories": [{"path": "*"}],
        }});
        let spec = json!({
            "goTemplate": true, "generators": [generator],
            "syncPolicy": {"preserveResourcesOnDeletion": true},
            "template": {
                "metadata": {"name": format!("{name}-{{{{.path.basename}}}}")},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://example.com/repo", "path": "p"},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": "x"},
                },
            },
        });
        self.create("ApplicationSet", name, spec).await;
        let says = |set: &Value| {
            condition(set, "ErrorOccurred")["message"]
                .as_str()
                .is_some_and(|message| message.contains(text))
        };
        self.until("ApplicationSet", name, says).await;
    }
}

#[tokio::test]
async fn a_refused_generator_reads_again_when_keys_certificates_or_credentials_change_as_097() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let sources = wavegate_source::SourceSettings {
        program: git(folder.path()).into(),
        ..ClusterState::local()
    };
    let settings = ApplicationSetSettings::default();
    world._stop =
        ClusterState::run_with(&world.server, settings, sources, Clock::system(), Controller);
    let maps: Api<ConfigMap> = Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let put = async |name: &str, data: Value| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data,
        });
        let apply = PatchParams::apply("test").force();
        maps.patch(name, &apply, &Patch::Apply(map)).await.unwrap();
    };
    put("argocd-ssh-known-hosts-cm", json!({"ssh_known_hosts": "other ssh-ed25519 BBBB"})).await;

    world.refused("ssh", "ssh://git@git.invalid/team/repo", "argocd-ssh-known-hosts-cm").await;
    let hosts = "other ssh-ed25519 BBBB\ngit.invalid ssh-ed25519 AAAA\n";
    put("argocd-ssh-known-hosts-cm", json!({ "ssh_known_hosts": hosts })).await;
    world.until("Application", "ssh-one", |_| true).await;

    world.refused("certificate", "https://git.invalid/certificate", "argocd-tls-certs-cm").await;
    put("argocd-tls-certs-cm", json!({"git.invalid": "CERTIFICATE of git.invalid"})).await;
    world.until("Application", "certificate-one", |_| true).await;

    world.refused("password", "https://git.invalid/password", "credentials").await;
    let secret = json!({
        "metadata": {
            "name": "repository", "labels": {"argocd.argoproj.io/secret-type": "repository"},
        },
        "stringData": {
            "url": "https://git.invalid/password", "username": "bot", "password": "swordfish",
        },
    });
    let secrets: Api<Secret> = Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    world.until("Application", "password-one", |_| true).await;
}
