//! `wavegate sync -f`: the sync engine without an Application.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::World;

fn folder(files: &[(&str, Value)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, object) in files {
        std::fs::write(folder.path().join(name), format!("{object:#}\n")).unwrap();
    }
    folder
}

fn config_map(name: &str, wave: i32) -> Value {
    let annotations = json!({"argocd.argoproj.io/sync-wave": wave.to_string()});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": annotations}, "data": {"of": "file"},
    })
}

/// A Job as a hook; `delay` and `outcome` are those of the simulated workloads.
fn hook(name: Value, phase: &str, delay: &str, outcome: &str) -> Value {
    let simulate =
        json!({"simulate.wavegate.dev/outcome": outcome, "simulate.wavegate.dev/delay": delay});
    let mut metadata = name;
    metadata["annotations"] = simulate.clone();
    metadata["annotations"]["argocd.argoproj.io/hook"] = phase.into();
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": simulate}, "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.invalid/job:1"}],
        }}},
    })
}

fn path(folder: &TempDir) -> String {
    folder.path().to_str().unwrap().to_owned()
}

/// Waits until the run has this number of Jobs; their names and UIDs.
async fn jobs(world: &World, count: usize) -> BTreeMap<String, String> {
    let jobs: Api<Job> = Api::namespaced(world.client.clone(), &world.target);
    let found = async {
        loop {
            let list = jobs.list(&ListParams::default().labels("wavegate.dev/sync")).await.unwrap();
            if list.items.len() == count {
                let metadata = list.items.into_iter().map(|job| job.metadata);
                return metadata.map(|of| (of.name.unwrap(), of.uid.unwrap())).collect();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(World::wait_limit(), found).await.expect("the hooks are created")
}

pub async fn manifests_are_applied_in_waves_and_pruned(world: World) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.target);
    // Of the same namespace, without the label of the run.
    let theirs = serde_json::from_value(json!({"metadata": {"name": "theirs"}})).unwrap();
    maps.create(&PostParams::default(), &theirs).await.unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    let folder = folder(&[
        ("a.json", config_map("late", 1)),
        ("b.json", config_map("early", -1)),
        ("c.json", hook(json!({"name": "before"}), "PreSync", "50ms", "succeed")),
        // Its Endpoints get its labels, and are not part of the run.
        ("d.json", service),
    ]);
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "shop", "--timeout", "4m"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    let order = [
        "3 to apply",
        "PreSync, wave 0",
        "PreSync hook Job",
        "Succeeded",
        "Sync, wave -1",
        "early",
        "Sync, wave 1",
        "late",
        "successfully synced",
    ];
    let mut rest = out.as_str();
    for part in order {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in its place: {out}"));
        rest = &rest[at + part.len()..];
    }
    let (code, out, err) = world.wavegate(&[&args[..], &["-o", "json"]].concat()).await;
    assert_eq!(code, 0, "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["application"], "shop");
    let messages: Vec<&str> = (result["resources"].as_array().unwrap().iter())
        .filter(|resource| resource["kind"] == "ConfigMap")
        .map(|resource| resource["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages, ["configmap/early unchanged", "configmap/late unchanged"]);

    std::fs::remove_file(folder.path().join("a.json")).unwrap();
    let dry = [&args[..], &["--prune", "--dry-run"]].concat();
    let (code, out, err) = world.wavegate(&dry).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("2 unchanged, 1 to prune"), "{out}");
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(maps.get_opt("late").await.unwrap().is_some(), "without --prune it stays");
    // Another name, and another namespace: other runs, which own nothing of this one.
    let mut other = args;
    other[6] = "other";
    let (code, out, err) = world.wavegate(&[&other[..], &["--prune"]].concat()).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("it was applied by the run ") && err.contains(".shop;"), "{err}");
    assert!(maps.get_opt("late").await.unwrap().is_some(), "{code} {out}{err}");
    let (code, out, err) = world.wavegate(&[&args[..], &["--prune"]].concat()).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(maps.get_opt("late").await.unwrap().is_none(), "{out}");
    for name in ["early", "theirs"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name} is not touched");
    }
    world.finish().await;
}

/// A run leaves nothing that the next one continues: hooks run again, and all is owned by the run.
pub async fn a_run_after_a_kill_begins_anew(world: World) {
    let hooks = |outcome: &str| {
        [
            ("b.json", hook(json!({"name": "check"}), "Sync", "50ms", outcome)),
            ("c.json", hook(json!({"generateName": "migrate-"}), "Sync", "50ms", outcome)),
        ]
    };
    let maps = [("a.json", config_map("early", -1)), ("d.json", config_map("late", 1))];
    // They run until the process is killed.
    let folder = folder(&[&maps[..], &hooks("hang")].concat());
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "killed", "--timeout", "4m"];
    let mut command = world.command(&args).await;
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let first = jobs(&world, 2).await;
    let api: Api<Job> = Api::namespaced(world.client.clone(), &world.target);
    let finalizers = api.get("check").await.unwrap().metadata.finalizers;
    assert_eq!(finalizers, None, "no process would remove them after a kill");
    // A second run at the same time is refused, and touches nothing of the first.
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("it is in progress by ") && err.contains("wait for its end"), "{err}");
    assert_eq!(jobs(&world, 2).await, first, "the hooks of the other run are not touched");
    child.kill().unwrap();
    child.wait().unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.target);
    assert!(maps.get_opt("late").await.unwrap().is_none(), "it was killed before");

    for (name, object) in hooks("succeed") {
        std::fs::write(folder.path().join(name), format!("{object:#}\n")).unwrap();
    }
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("until its Lease wavegate-sync-killed is renewed or expires"), "{err}");
    assert!(out.contains("1 to apply, 1 unchanged"), "{out}");
    let second = jobs(&world, 3).await;
    assert_ne!(second["check"], first["check"], "the hook with a name was deleted and runs again");
    let generated = |jobs: &BTreeMap<String, String>| -> BTreeSet<String> {
        jobs.keys().filter(|name| name.starts_with("migrate-")).cloned().collect()
    };
    assert!(generated(&second).is_superset(&generated(&first)), "that of the killed run stays");
    for name in ["early", "late"] {
        let labels = maps.get(name).await.unwrap().metadata.labels.unwrap_or_default();
        assert_eq!(labels["wavegate.dev/sync"], format!("{target}.killed"), "{name}");
    }
    // It has ended, so that the next one begins at once, and prunes what both have applied.
    for file in ["a.json", "d.json"] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    let (code, out, err) = world.wavegate(&[&args[..], &["--prune"]].concat()).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(!err.contains("Lease"), "{err}");
    assert_eq!(generated(&jobs(&world, 4).await).len(), 3);
    for name in ["early", "late"] {
        assert!(maps.get_opt(name).await.unwrap().is_none(), "{name}: {out}");
    }
    world.finish().await;
}

pub async fn an_interrupted_run_is_terminated(world: World) {
    let folder = folder(&[
        ("a.json", config_map("settings", 0)),
        ("b.json", hook(json!({"name": "wait"}), "PreSync", "50ms", "hang")),
    ]);
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "interrupted"];
    let mut command = world.command(&args).await;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    jobs(&world, 1).await;
    let killed =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    let ended = ended.unwrap();
    let (out, err) =
        (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert_eq!(ended.status.code(), Some(130), "{out}{err}");
    assert!(out.contains("Operation terminated"), "{out}{err}");
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.target);
    assert!(maps.get_opt("settings").await.unwrap().is_none(), "nothing is applied after it");
    let (code, out, err) = world.wavegate(&[&args[..], &["--timeout", "1s"]].concat()).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("the time is over"), "{err}");
    assert!(!err.contains("Lease"), "it was released: {err}");
    world.finish().await;
}

/// Copies of what a run has applied, and what others have, are neither pruned nor taken over.
pub async fn a_run_touches_only_its_own(world: World) {
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.target);
    let create = async |metadata: Value| {
        let map = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    };
    create(json!({"name": "before"})).await;
    let folder = folder(&[
        ("a.json", config_map("one", 0)),
        ("b.json", config_map("before", 0)),
        ("c.json", config_map("taken", 0)),
    ]);
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "own", "--timeout", "4m", "--prune"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    let noted = format!("ConfigMap {target}/before: it existed before this run, and is managed");
    assert!(err.contains(&noted), "{err}");
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(!err.contains("existed before"), "{err}");

    // A copy has the label and the annotations of the original.
    let one = maps.get("one").await.unwrap().metadata;
    assert!(one.annotations.as_ref().unwrap().contains_key("wavegate.dev/sync-id"));
    create(json!({"name": "copy", "labels": one.labels, "annotations": one.annotations})).await;
    // An Application takes over one of them.
    let id = format!("app:/ConfigMap:{target}/taken");
    let mark = json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": id}}});
    let merge = kube::api::Patch::Merge(&mark);
    maps.patch("taken", &kube::api::PatchParams::default(), &merge).await.unwrap();
    for extra in [&[][..], &["--dry-run"][..]] {
        let (code, out, err) = world.wavegate(&[&args[..], extra].concat()).await;
        assert_eq!(code, 1, "{out}{err}");
        let refused = format!("ConfigMap {target}/taken: it is tracked by Application app");
        assert!(err.contains(&refused) && err.contains("nothing was changed"), "{err}");
    }
    for file in ["a.json", "c.json"] {
        std::fs::remove_file(folder.path().join(file)).unwrap();
    }
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(maps.get_opt("one").await.unwrap().is_none(), "{out}");
    for name in ["copy", "taken", "before"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name} is not deleted: {out}");
    }
    world.finish().await;
}

pub async fn a_dry_run_needs_the_namespaces(world: World) {
    let folder = folder(&[("a.json", config_map("one", 0))]);
    let (dir, missing) = (path(&folder), format!("{}-missing", world.target));
    let args = ["sync", "-f", &dir, "-n", &missing, "--name", "dry", "--dry-run"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains(&format!("namespace {missing}: it does not exist")), "{err}");
    assert!(err.contains("--option CreateNamespace=true"), "{err}");
    let create = [&args[..], &["--option", "CreateNamespace=true"]].concat();
    let (code, out, err) = world.wavegate(&create).await;
    assert_eq!(code, 0, "{out}{err}");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": missing}});
    std::fs::write(folder.path().join("b.json"), namespace.to_string()).unwrap();
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    world.finish().await;
}

/// A chart is rendered for the cluster, by a Helm that reads nothing else of the machine.
pub async fn a_chart_is_rendered_for_the_cluster(world: World) {
    const HELM: &str = r#"#!/bin/sh
echo "apiVersion: v1"
echo "kind: ConfigMap"
echo "metadata: {name: rendered}"
echo "data:"
if cat SECRET > /dev/null 2>&1; then echo "  secret: 'read'"; else echo "  secret: 'kept'"; fi
echo "  args: |"
for a in "$@"; do echo "    $a"; done
"#;
    let programs = tempfile::tempdir().unwrap();
    let secrets = tempfile::tempdir().unwrap();
    let secret = secrets.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let draft = programs.path().join("draft");
    std::fs::write(&draft, HELM.replace("SECRET", secret.to_str().unwrap())).unwrap();
    crate::application_controller::install(&draft, &programs.path().join("helm"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), "name: c\nversion: 0.1.0\n").unwrap();
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "chart", "--timeout", "4m"];
    let mut command = world.command(&args).await;
    let others = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{others}", programs.path().display()));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.target);
    let data = maps.get("rendered").await.unwrap().data.unwrap();
    let args: Vec<&str> = data["args"].lines().collect();
    let version = world.client.apiserver_version().await.unwrap().git_version;
    let version = version.trim_start_matches('v').split(['-', '+']).next().unwrap().to_owned();
    let version = format!("--kube-version={version}");
    for want in [
        version.as_str(),
        "--api-versions=v1/ConfigMap",
        "--api-versions=apps/v1",
        "--api-versions=apps/v1/Deployment",
    ] {
        assert!(args.contains(&want), "{want}: {args:?}");
    }
    let probe = world.command(&["__confine", "probe"]).await.output().unwrap();
    if probe.stdout.is_empty() {
        assert_eq!(data["secret"], "kept", "files outside of the chart are not readable");
    } else {
        eprintln!("skipped: {}", String::from_utf8_lossy(&probe.stdout));
    }
    world.finish().await;
}

pub async fn a_failed_run_runs_its_sync_fail_hook(world: World) {
    let folder = folder(&[
        ("a.json", hook(json!({"name": "fails"}), "PreSync", "50ms", "fail")),
        ("b.json", hook(json!({"name": "repairs"}), "SyncFail", "50ms", "succeed")),
        ("c.json", config_map("settings", 0)),
    ]);
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "failed", "--timeout", "4m"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.starts_with("error: the sync ended with phase Failed: run failed in"), "{err}");
    assert!(out.contains("SyncFail hook Job"), "{out}");
    let failed = format!("PreSync hook Job {target}/fails: Failed:");
    assert!(err.contains(&failed), "{err}");
    assert!(!out.contains(&failed), "one cause is not repeated: {out}");
    for (args, want) in [
        (vec!["sync", "-f", "/nonexistent/x"], "file not found"),
        (vec!["sync", "-f", "-"], "standard input has no name; name the run with --name"),
        (vec!["sync", "-f", &dir, "--name", "A b"], "such as a-b"),
        (vec!["sync", "-f", &dir, "--prune"], "add --name, such as --name "),
        (vec!["sync", "-f", &dir, "--option", "Prnue=true"], "did you mean Prune=true?"),
        (vec!["sync"], "required arguments were not provided"),
    ] {
        let (code, _, err) = world.wavegate(&args).await;
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(want), "no {want:?} in {err}");
    }
    world.finish().await;
}

/// A user who may list kinds only in some namespaces, as with a Role: it used to be an error
/// of the watch of the whole cluster. Requires faults of the embedded server.
pub async fn a_user_of_two_namespaces_needs_no_cluster_role(world: World) {
    let server = world.server().unwrap().clone();
    let everywhere = |request: &kube_sim::RequestRecord| {
        request.client == "wavegate"
            && matches!(request.verb.as_str(), "list" | "watch")
            && request.namespace.is_empty()
    };
    let forbid = kube_sim::Effect::Status(403);
    server.inject(kube_sim::InjectedFault::new(forbid, everywhere).times(100_000));
    let mut elsewhere = config_map("elsewhere", 0);
    elsewhere["metadata"]["namespace"] = world.namespace.clone().into();
    let folder = folder(&[
        ("a.json", config_map("here", 0)),
        ("b.json", elsewhere),
        ("c.json", hook(json!({"name": "before"}), "PreSync", "50ms", "succeed")),
    ]);
    let (dir, target) = (path(&folder), world.target.clone());
    let args = ["sync", "-f", &dir, "-n", &target, "--name", "two", "--timeout", "4m", "--prune"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(server.requests().iter().any(|request| request.code == 403), "nothing was refused");
    std::fs::remove_file(folder.path().join("a.json")).unwrap();
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    let maps =
        |namespace: &str| -> Api<ConfigMap> { Api::namespaced(world.client.clone(), namespace) };
    assert!(maps(&target).get_opt("here").await.unwrap().is_none(), "{out}");
    assert!(maps(&world.namespace).get_opt("elsewhere").await.unwrap().is_some(), "{out}");
    // What is in no namespace of the manifests cannot be found, which is reported.
    let both = BTreeSet::from([target.clone(), world.namespace.clone()]);
    let both = Vec::from_iter(both).join(" and ");
    assert!(err.contains(&format!("only namespaces {both} are searched")), "{err}");
    std::fs::remove_file(folder.path().join("b.json")).unwrap();
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(maps(&world.namespace).get_opt("elsewhere").await.unwrap().is_some(), "{out}");
    let want = format!("for what is left over, only namespace {target} is searched");
    assert!(err.contains(&want), "{err}");
    world.finish().await;
}
