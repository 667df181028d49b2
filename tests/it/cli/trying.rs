//! What is not pushed yet: `diff APP --local` compares an Application as its controller would
//! render it from the work tree, and `plan --live` a whole set, with a work tree or a revision.

use std::process::Command;
use std::sync::Arc;

use kube_sim::RequestRecord;

use super::embedded::Cluster;
use super::*;
use crate::git_server::{Certificates, GitServer};
use crate::support::controller::{Setup, Task};
use crate::support::manifests::IN_CLUSTER;
use crate::support::repository::Repository;
use crate::support::waiting::until;

/// A cluster, a repository, and a clone of it that is not pushed.
struct Fleet {
    cluster: Cluster,
    repository: Repository,
    dir: TempDir,
}

fn config_map(name: &str, color: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": color}})
        .to_string()
}

fn git(directory: &Path, args: &[&str]) -> String {
    let run = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(run.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

impl Fleet {
    async fn new(files: &[(&str, String)]) -> Self {
        let cluster = Cluster::start().await;
        cluster.permits("shop").await;
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::new(dir.path().join("repository"));
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.clone()));
        repository.commit("first", &files.collect::<Vec<_>>());
        git(dir.path(), &["clone", "--quiet", &repository.url(), "clone"]);
        Self { cluster, repository, dir }
    }

    fn clone(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    /// Writes a file of the clone, or removes it.
    fn edit(&self, path: &str, text: Option<&str>) {
        let path = self.clone().join(path);
        match text {
            Some(text) => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            None => std::fs::remove_dir_all(path).unwrap(),
        }
    }

    async fn application(&self, name: &str, mut spec: Value) {
        if spec["project"].is_null() {
            spec["project"] = "default".into();
        }
        spec["destination"] = json!({"server": IN_CLUSTER, "namespace": "shop"});
        self.cluster.create("Application", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name}, "spec": spec})).await;
    }

    /// A set with an Application for each directory below `apps`, in two steps.
    fn by_directory(&self) -> Value {
        let url = self.repository.url();
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "fleet", "namespace": "argocd"},
            "spec": {
                "goTemplate": true,
                "generators": [{"git": {"repoURL": url, "revision": "main", "directories": [{"path": "apps/*"}]}}],
                "strategy": {"type": "RollingSync", "rollingSync": {"steps": [selects(&["a", "b"], Value::Null), selects(&["c", "d"], Value::Null)]}},
                "template": {
                    "metadata": {"name": "{{.path.basename}}", "labels": {"app": "{{.path.basename}}"}},
                    "spec": {
                        "project": "default",
                        "source": {"repoURL": url, "targetRevision": "main", "path": "{{.path.path}}"},
                        "destination": {"server": IN_CLUSTER, "namespace": "shop"},
                    },
                },
            },
        })
    }

    /// The set with `a`, `b` and `c`, rolled out.
    async fn rolled_out() -> Self {
        let files = ["a", "b", "c"].map(|name| (format!("apps/{name}/map.json"), name));
        let files: Vec<(&str, String)> =
            files.iter().map(|(path, name)| (path.as_str(), config_map(name, "red"))).collect();
        let fleet = Self::new(&files).await;
        fleet.cluster.create("ApplicationSet", fleet.by_directory()).await;
        let setup = Setup::default();
        let checkouts = fleet.dir.path().join("checkouts");
        let controller = Task::start(fleet.cluster.client.clone(), &setup, "argocd", &checkouts);
        until("all are rolled out", async || {
            let all = fleet.cluster.api("Application").list(&Default::default()).await.unwrap();
            let is_good = |app: &kube::core::DynamicObject| {
                let status = &app.data["status"];
                status["sync"]["status"] == "Synced" && status["health"]["status"] == "Healthy"
            };
            all.items.len() == 3 && all.items.iter().all(is_good)
        })
        .await;
        controller.stop().await;
        fleet
    }

    /// Runs a command that must not write to the cluster.
    async fn reads(&self, args: &[&str]) -> Run {
        let before = self.cluster.server.requests().len();
        let run = self.cluster.run(args).await;
        let sent = self.cluster.server.requests().split_off(before);
        let writes = |request: &&RequestRecord| {
            !request.dry_run && !matches!(request.verb.as_str(), "get" | "list" | "watch")
        };
        assert_eq!(sent.iter().find(writes).map(|one| format!("{one:?}")), None, "{args:?}");
        run
    }
}

/// The program `helm` or `kustomize` in a folder of its own; `None` where it is missing.
fn with_programs() -> Option<(TempDir, String)> {
    let folder = PathBuf::from(std::env::var_os("WAVEGATE_TEST_PROGRAMS")?);
    let links = tempfile::tempdir().unwrap();
    for (name, program) in [("helm", "helm4/helm"), ("kustomize", "kustomize/kustomize")] {
        let program = folder.join(program);
        if !program.is_file() {
            return None;
        }
        std::os::unix::fs::symlink(program, links.path().join(name)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", links.path().display());
    Some((links, path))
}

/// The colors of the ConfigMaps that an Application would have.
fn colors(run: &Run) -> Vec<String> {
    let resources = run.json()["resources"].as_array().unwrap().clone();
    let color = |one: &Value| one["predicted"]["data"]["color"].as_str().unwrap().to_owned();
    resources.iter().map(color).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_tree_is_rendered_as_the_controller_would() {
    let Some((_links, path)) = with_programs() else {
        eprintln!("skipped: helm or kustomize is missing");
        return;
    };
    let chart = || "apiVersion: v2\nname: web\nversion: 1.0.0\n".to_owned();
    let template = || {
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {color: '{{ .Values.color }}'}\n"
            .to_owned()
    };
    let files = [
        ("base/kustomization.yaml", "resources: [map.yaml]\n".to_owned()),
        ("base/map.yaml", config_map("overlaid", "pushed")),
        ("overlays/dev/kustomization.yaml", "resources: [../../base]\n".to_owned()),
        ("charts/values.yaml", "color: pushed\n".to_owned()),
        ("charts/web/Chart.yaml", chart()),
        ("charts/web/templates/map.yaml", template()),
        ("lib/color.libsonnet", "'pushed'\n".to_owned()),
        ("jsonnet/map.jsonnet", "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'j'}, data: {color: import 'color.libsonnet'}}\n".to_owned()),
    ];
    let fleet = Fleet::new(&files).await;
    let charts = Repository::new(fleet.dir.path().join("charts"));
    let of_chart = [("web/Chart.yaml", chart()), ("web/templates/map.yaml", template())];
    charts.commit("first", &of_chart.map(|(path, text)| (path.to_owned(), text)));
    let url = fleet.repository.url();
    let source = |path: &str, options: Value| {
        let mut source = json!({"repoURL": url, "targetRevision": "main", "path": path});
        source.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        json!({ "source": source })
    };
    fleet.application("overlay", source("overlays/dev", json!({}))).await;
    let values = json!({"helm": {"valueFiles": ["../values.yaml"]}});
    fleet.application("values", source("charts/web", values)).await;
    let libs = json!({"directory": {"jsonnet": {"libs": ["lib"]}}});
    fleet.application("jsonnet", source("jsonnet", libs)).await;
    let several = json!({"sources": [
        {"repoURL": url, "targetRevision": "main", "ref": "own"},
        {"repoURL": charts.url(), "targetRevision": "main", "path": "web", "helm": {"valueFiles": ["$own/charts/values.yaml"]}},
    ]});
    fleet.application("several", several).await;
    fleet.application("two", json!({"sources": [
        {"repoURL": url, "targetRevision": "main", "path": "overlays/dev"},
        {"repoURL": url, "targetRevision": "main", "path": "jsonnet", "directory": {"jsonnet": {"libs": ["lib"]}}},
    ]})).await;

    // Nothing of it is committed, and some of it is new.
    fleet.edit("base/map.yaml", Some(&config_map("overlaid", "tried")));
    fleet.edit("base/more.yaml", Some(&config_map("overlaid-new", "tried")));
    fleet.edit("base/kustomization.yaml", Some("resources: [map.yaml, more.yaml]\n"));
    fleet.edit("charts/values.yaml", Some("color: tried\n"));
    fleet.edit("lib/color.libsonnet", Some("'tried'\n"));
    let state = || git(&fleet.clone(), &["status", "--porcelain", "--untracked-files=all"]);
    let before = state();
    let root = fleet.clone();
    let variables = [("PATH", path.as_str())];
    let cases: [(&str, &[&str], usize); 5] = [
        ("overlay", &["", "overlays/dev"], 2),
        ("values", &["", "charts/web"], 1),
        ("jsonnet", &["", "jsonnet"], 1),
        ("several", &[""], 1),
        ("two", &["", "jsonnet"], 3),
    ];
    for (name, folders, count) in cases {
        let pushed = fleet.cluster.run_with(&["diff", name, "-o", "json"], &variables).await;
        assert_eq!(pushed.code, 1, "{name}: {}", pushed.err);
        assert!(colors(&pushed).iter().all(|color| color == "pushed"), "{name}: {}", pushed.out);
        for folder in folders {
            let local = root.join(folder).display().to_string();
            let args = ["diff", name, "--local", &local, "-o", "json"];
            let tried = fleet.cluster.run_with(&args, &variables).await;
            assert_eq!((tried.code, tried.err.as_str()), (1, ""), "{name} {folder}");
            assert_eq!(colors(&tried), vec!["tried"; count], "{name} {folder}: {}", tried.out);
        }
    }
    assert_eq!(state(), before, "nothing of the work tree is changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_said_what_was_taken_in_place_of_which_repository() {
    let fleet = Fleet::new(&[("app/map.json", config_map("map", "pushed"))]).await;
    let url = fleet.repository.url();
    let source = json!({"repoURL": url, "targetRevision": "main", "path": "app"});
    fleet.application("one", json!({ "source": source })).await;
    let other = Repository::new(fleet.dir.path().join("other"));
    other.commit("first", &[("web/map.json".to_owned(), config_map("web", "pushed"))]);
    let web = json!({"repoURL": other.url(), "targetRevision": "main", "path": "web"});
    fleet.application("two", json!({"sources": [source, web]})).await;
    let diff = async |name: &str, local: &Path, more: &[&str]| {
        let local = local.display().to_string();
        let mut args = vec!["diff", name, "--local", &local, "-o", "json"];
        args.extend(more);
        fleet.reads(&args).await
    };

    // A folder without Git, as the Application's and as the root.
    let plain = folder(&[
        ("app/map.json", &config_map("map", "plain")),
        ("map.json", &config_map("map", "of-the-root")),
    ]);
    let run = diff("one", &plain.path().join("app"), &[]).await;
    assert_eq!((run.code, colors(&run)), (1, vec!["plain".to_owned()]), "{}", run.err);
    says(&run.err, "app is in no Git work tree of");
    says(&run.err, "it is taken for its folder app, and nothing outside of it is read");
    let run = diff("one", plain.path(), &[]).await;
    assert_eq!((run.code, colors(&run)), (1, vec!["plain".to_owned()]), "{}", run.err);
    says(&run.err, "it is taken for the root of it");

    // A copy without remotes can only be meant for the only repository.
    git(plain.path(), &["init", "--quiet"]);
    let run = diff("one", &plain.path().join("app"), &[]).await;
    assert_eq!((run.code, colors(&run)), (1, vec!["plain".to_owned()]), "{}", run.err);
    says(&run.err, "has no remotes: it is read in place of");
    let run = diff("two", plain.path(), &[]).await;
    run.fails(2, &["has no remotes, and the Application has sources in", &url, &other.url()]);
    run.fails(2, &["name with --repo the one"]);
    let run = diff("two", plain.path(), &["--repo", &url]).await;
    assert_eq!(colors(&run), ["plain", "pushed"], "{}", run.err);
    let run = diff("two", plain.path(), &["--repo", "https://example.com/none"]).await;
    run.fails(2, &["--repo https://example.com/none is none of the Application's repositories"]);

    // Of several sources, only the one of the work tree is another one; its remote may be
    // written in another way.
    git(&fleet.clone(), &["remote", "set-url", "origin", &format!("file://{url}/.git")]);
    fleet.edit("app/map.json", Some(&config_map("map", "tried")));
    let run = diff("two", &fleet.clone(), &[]).await;
    assert_eq!((run.err.as_str(), colors(&run)), ("", vec!["tried".into(), "pushed".into()]));
    // From another folder of it, too.
    fleet.edit("docs/text", Some("x"));
    let run = diff("one", &fleet.clone().join("docs"), &[]).await;
    assert_eq!(colors(&run), ["tried"], "{}", run.err);
    says(&run.err, "is compared, with the path app of the Application in it, and not");
    // And from another work tree of the same repository.
    git(&fleet.clone(), &["worktree", "add", "--quiet", "../second", "-b", "second"]);
    let run = diff("one", &fleet.dir.path().join("second"), &[]).await;
    assert_eq!((run.err.as_str(), colors(&run)), ("", vec!["pushed".into()]));

    // What leads out of the work tree is refused, as by the controller, and `.git` is no part.
    std::os::unix::fs::symlink(other.url(), fleet.clone().join("app/out")).unwrap();
    std::os::unix::fs::symlink(
        PathBuf::from(other.url()).join("web/map.json"),
        fleet.clone().join("app/out.json"),
    )
    .unwrap();
    let run = diff("one", &fleet.clone(), &[]).await;
    run.fails(2, &["app/out"]);
    assert!(!run.out.contains("pushed"), "{}", run.out);
    std::fs::remove_file(fleet.clone().join("app/out")).unwrap();
    std::fs::remove_file(fleet.clone().join("app/out.json")).unwrap();
    let inside = json!([{"op": "replace", "path": "/spec/source/path", "value": ".git"}]);
    let patch: json_patch::Patch = serde_json::from_value(inside).unwrap();
    let (params, patch) = (Default::default(), kube::api::Patch::Json::<()>(patch));
    fleet.cluster.api("Application").patch("one", &params, &patch).await.unwrap();
    diff("one", &fleet.clone(), &[]).await.fails(2, &[".git"]);
}

/// What is not committed cannot be signed, and is nothing that is deployed.
#[tokio::test(flavor = "multi_thread")]
async fn a_work_tree_is_compared_without_signatures() {
    let fleet = Fleet::new(&[("app/map.json", config_map("map", "pushed"))]).await;
    fleet
        .cluster
        .create(
            "AppProject",
            json!({"metadata": {"name": "signed"}, "spec": {
                "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}],
            }}),
        )
        .await;
    let source = json!({"repoURL": fleet.repository.url(), "path": "app"});
    fleet.application("one", json!({"project": "signed", "source": source})).await;
    let pushed = fleet.reads(&["diff", "one"]).await;
    assert_eq!((pushed.code, pushed.out.as_str()), (2, ""), "{}", pushed.err);
    fleet.edit("app/map.json", Some(&config_map("map", "tried")));
    let clone = fleet.clone().display().to_string();
    let tried = fleet.reads(&["diff", "one", "--local", &clone, "-o", "json"]).await;
    assert_eq!(colors(&tried), ["tried"], "{}", tried.err);
}

/// Name, step and what becomes of each Application.
fn becomes(run: &Run) -> Vec<(String, Value, String)> {
    let applications = run.json()["trial"]["applications"].as_array().unwrap().clone();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let one = |one: &Value| (text(one, "application"), one["step"].clone(), text(one, "becomes"));
    applications.iter().map(one).collect()
}

fn became(name: &str, step: impl Into<Value>, what: &str) -> (String, Value, String) {
    (name.to_owned(), step.into(), what.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_tried_for_a_whole_set_before_the_push() {
    let fleet = Fleet::rolled_out().await;
    let clone = fleet.clone().display().to_string();
    let plan = ["plan", "--live", "fleet", "-o", "json"];
    let local = async || fleet.reads(&[&plan[..], &["--local", &clone]].concat()).await;
    let same = local().await;
    assert_eq!((same.code, same.err.as_str()), (0, ""));
    assert_eq!(same.json()["trial"]["summary"], "0 of 3 change: 3 as they are");

    // A changed file, a new folder and a removed one.
    fleet.edit("apps/a/map.json", Some(&config_map("a", "blue")));
    fleet.edit("apps/d/map.json", Some(&config_map("d", "blue")));
    fleet.edit("apps/c", None);
    let want = [
        became("a", 1, "changed"),
        became("b", 1, "unchanged"),
        became("c", Value::Null, "deleted"),
        became("d", 2, "created"),
    ];
    let summary = "3 of 4 change: 1 created, 1 changed, 1 deleted, 1 as it is";
    let run = local().await;
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(becomes(&run), want);
    let trial = run.json()["trial"].clone();
    assert_eq!(
        (&trial["with"], &trial["summary"]),
        (&json!(format!("--local {clone}")), &json!(summary))
    );
    let changes = &trial["applications"][0]["manifests"]["resources"][0]["changes"];
    assert_eq!(*changes, json!([{"path": "/data/color", "from": "red", "to": "blue"}]));
    let created = &trial["applications"][3]["manifests"]["resources"][0];
    assert_eq!((&created["action"], &created["name"]), (&json!("create"), &json!("d")));
    assert_eq!(run.json()["steering"]["hash"], Value::Null, "it is no plan to approve");
    let inner = format!("{clone}/apps/d");
    let text = fleet.reads(&["plan", "--live", "fleet", "--local", &inner]).await;
    assert_eq!(text.code, 0, "{}", text.err);
    assert_eq!(text.out.lines().last(), Some(summary), "{}", text.out);
    let row = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = text.out.lines().map(row).collect();
    for want in [
        "APPLICATION STEP CHANGE RESOURCES MESSAGE",
        "a 1 changed 1 updated ConfigMap shop/a",
        "b 1 - -",
        "d 2 created 1 created ConfigMap shop/d",
    ] {
        assert!(rows.iter().any(|row| row == want), "no {want:?} in {}", text.out);
    }

    // The same by a revision of the repository, of which the branch of the set knows nothing.
    git(&fleet.clone(), &["checkout", "--quiet", "-b", "next"]);
    git(&fleet.clone(), &["add", "--all"]);
    git(&fleet.clone(), &["commit", "--quiet", "-m", "next"]);
    git(&fleet.clone(), &["tag", "v2"]);
    git(&fleet.clone(), &["push", "--quiet", "origin", "next", "v2"]);
    let commit = git(&fleet.clone(), &["rev-parse", "HEAD"]).trim().to_owned();
    for revision in ["next", "v2", &commit, &commit[..8]] {
        let run = fleet.reads(&[&plan[..], &["--revision", revision]].concat()).await;
        assert_eq!((run.code, becomes(&run)), (0, want.to_vec()), "{revision}: {}", run.err);
        let of = &run.json()["trial"]["applications"][0]["manifests"]["revisions"];
        assert_eq!(*of, json!([commit]), "{revision}");
    }
    let run = fleet.reads(&[&plan[..], &["--revision", "nowhere"]].concat()).await;
    run.fails(1, &["cannot generate", "nowhere"]);

    // What is wrong with one hides nothing of the others.
    fleet.edit("apps/b/map.json", Some("{"));
    let run = local().await;
    assert_eq!(run.code, 1, "{}", run.err);
    let mut want = want.to_vec();
    want[1] = became("b", 1, "failed");
    assert_eq!(becomes(&run), want);
    let report = run.json();
    let problem = &report["problems"][0];
    assert_eq!((&problem["code"], &problem["step"]), (&json!("NotCompared"), &json!(1)));
    says(problem["message"].as_str().unwrap(), "application b: ");
    says(problem["message"].as_str().unwrap(), "apps/b/map.json");
    assert_eq!(
        report["trial"]["summary"],
        "3 of 4 change: 1 created, 1 changed, 1 deleted, 1 failed"
    );
}

/// What a push does not change counts as it is: what was changed by hand, and what waits to be
/// rolled out.
#[tokio::test(flavor = "multi_thread")]
async fn what_differs_already_is_no_effect_of_a_commit() {
    let fleet = Fleet::rolled_out().await;
    let clone = fleet.clone().display().to_string();
    let args = ["plan", "--live", "fleet", "--local", &clone, "-o", "json"];
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        fleet.cluster.client.clone(),
        "shop",
    );
    let by_hand = kube::api::Patch::Merge(json!({"data": {"color": "by-hand"}}));
    maps.patch("b", &Default::default(), &by_hand).await.unwrap();
    // Pushed, and not rolled out: nothing runs.
    fleet.edit("apps/c/map.json", Some(&config_map("c", "blue")));
    git(&fleet.clone(), &["commit", "--quiet", "-am", "second"]);
    git(Path::new(&fleet.repository.url()), &["checkout", "--quiet", "--detach"]);
    git(&fleet.clone(), &["push", "--quiet", "origin", "main"]);
    let run = fleet.reads(&args).await;
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let trial = run.json()["trial"].clone();
    assert_eq!(trial["summary"], "0 of 3 change: 3 as they are");
    for index in [1, 2] {
        let one = &trial["applications"][index];
        assert_eq!(one["manifests"]["modified"], true);
        assert_eq!(one["message"], "differs from the cluster already, and no more by this");
    }
    fleet.edit("apps/b/map.json", Some(&config_map("b", "green")));
    fleet.edit("apps/c/map.json", Some(&config_map("c", "green")));
    let run = fleet.reads(&args).await;
    let want = [became("a", 1, "unchanged"), became("b", 1, "changed"), became("c", 2, "changed")];
    assert_eq!(becomes(&run), want, "{}", run.err);
    // Without the repository, the cluster alone says what changes.
    std::fs::rename(fleet.repository.url(), fleet.dir.path().join("away")).unwrap();
    let run = fleet.reads(&args).await;
    assert_eq!((run.code, becomes(&run)), (0, want.to_vec()), "{}", run.err);
    says(&run.err, "what is pushed cannot be compared");
}

/// A set of a file is tried, too: what a commit does to the set and to its manifests at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_set_of_a_work_tree_is_tried_with_its_manifests() {
    let fleet = Fleet::rolled_out().await;
    let mut set = fleet.by_directory();
    set["spec"]["template"]["metadata"]["labels"]["team"] = "x".into();
    fleet.edit("set.json", Some(&set.to_string()));
    fleet.edit("apps/a/map.json", Some(&config_map("a", "blue")));
    let (clone, file) = (fleet.clone().display().to_string(), fleet.clone().join("set.json"));
    let file = file.display().to_string();
    let args = ["plan", "--live", "-f", &file, "--local", &clone, "-o", "json"];
    let run = fleet.reads(&args).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let trial = run.json()["trial"].clone();
    assert_eq!(trial["summary"], "3 of 3 change: 3 changed");
    let modified = |index: usize| trial["applications"][index]["manifests"]["modified"].clone();
    assert_eq!([modified(0), modified(1), modified(2)], [json!(true), json!(false), json!(false)]);
    assert_eq!(trial["applications"][1]["fields"], json!(["metadata.labels.team"]));
}

/// People commit to the dry source of hydrated manifests: it is what is tried.
#[tokio::test(flavor = "multi_thread")]
async fn hydrated_manifests_are_tried_by_their_dry_source() {
    let fleet = Fleet::new(&[("apps/a/map.json", config_map("a", "red"))]).await;
    let mut set = fleet.by_directory();
    let spec = &mut set["spec"]["template"]["spec"];
    let dry = spec["source"].take();
    spec.as_object_mut().unwrap().remove("source");
    let sync = json!({"targetBranch": "environments/prod", "path": "hydrated/{{.path.basename}}"});
    spec["sourceHydrator"] = json!({"drySource": dry, "syncSource": sync});
    fleet.cluster.create("ApplicationSet", set).await;
    fleet.edit("apps/a/map.json", Some(&config_map("a", "tried")));
    let clone = fleet.clone().display().to_string();
    let run = fleet.reads(&["plan", "--live", "fleet", "--local", &clone, "-o", "json"]).await;
    assert_eq!(becomes(&run), [became("a", 1, "created")], "{}{}", run.out, run.err);
    let resource = &run.json()["trial"]["applications"][0]["manifests"]["resources"][0];
    assert_eq!(resource["predicted"]["data"]["color"], "tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_tried_says_why() {
    let fleet = Fleet::new(&[("apps/a/map.json", config_map("a", "red"))]).await;
    fleet.cluster.create("ApplicationSet", fleet.by_directory()).await;
    let url = fleet.repository.url();
    let clone = fleet.clone().display().to_string();
    let other = folder(&[("apps/a/map.json", "{}")]);
    let plain = other.path().display().to_string();
    let plan = ["plan", "--live", "fleet"];
    let tried = async |more: &[&str]| fleet.reads(&[&plan[..], more].concat()).await;
    let read = format!("ApplicationSet argocd/fleet reads {url}");
    tried(&["--local", &plain]).await.fails(2, &["it is in no Git work tree", &read, "--repo"]);
    git(other.path(), &["init", "--quiet"]);
    git(other.path(), &["remote", "add", "origin", "https://me:word@example.com/fork"]);
    let run = tried(&["--local", &plain]).await;
    run.fails(2, &["is a clone of https://***@example.com/fork, and", &read]);
    assert!(!run.err.contains("word"), "{}", run.err);
    let run = tried(&["--local", &plain, "--repo", &url, "-o", "json"]).await;
    assert_eq!(becomes(&run).len(), 1, "a fork can be named: {}", run.err);
    let run = tried(&["--local", &clone, "--repo", "https://example.com/fork"]).await;
    run.fails(2, &["it is of https://example.com/fork, and", &read]);
    tried(&["--local", "/nonexistent"]).await.fails(2, &["cannot read: --local /nonexistent"]);
    tried(&["--local", &clone, "--revision", "main"]).await.fails(2, &["cannot be used with"]);
    tried(&["--repo", &url]).await.fails(2, &["--local <DIR>|--revision <REVISION>"]);
    let run = fleet.reads(&["plan", "fleet", "--local", &clone]).await;
    run.fails(2, &["--live"]);
    let run = fleet.reads(&["plan", "--live", "flet", "--local", &clone]).await;
    run.fails(2, &["ApplicationSet argocd/flet: it does not exist", "fleet"]);
    let run = fleet.reads(&["diff", "fleet", "--local", &clone]).await;
    run.fails(2, &["--local is for Applications", "wavegate plan --live"]);

    // Of several repositories, `--repo` has to name the one of the revision.
    let mut two = fleet.by_directory();
    two["metadata"]["name"] = "two".into();
    two["spec"]["template"]["spec"]["source"]["repoURL"] = "https://example.com/manifests".into();
    fleet.cluster.create("ApplicationSet", two).await;
    let run = fleet.reads(&["plan", "--live", "two", "--revision", "main"]).await;
    run.fails(2, &[&url, "https://example.com/manifests", "name with --repo"]);
}

/// One fetch, whatever the number of Applications; none for a work tree.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_applications_share_one_checkout() {
    const COUNT: usize = 200;
    let fleet = Fleet::new(&[("app/map.json", config_map("map", "red"))]).await;
    let certificates = Arc::new(Certificates::new());
    let server = GitServer::start(&certificates, Default::default()).await;
    server.publish(Path::new(&fleet.repository.url()), "team/app.git");
    let url = server.url("team/app.git");
    fleet
        .cluster
        .create_map(json!({
            "metadata": {"name": "argocd-tls-certs-cm"},
            "data": {"localhost": certificates.text("ca.crt")},
        }))
        .await;
    let names: Vec<String> = (0..COUNT).map(|index| format!("app-{index:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut object: Value = serde_json::from_str(&set(&names, json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    let spec = &mut object["spec"]["template"]["spec"];
    spec["source"] = json!({"repoURL": url, "targetRevision": "main", "path": "app"});
    spec["destination"] = json!({"server": IN_CLUSTER, "namespace": "shop"});
    fleet.cluster.create("ApplicationSet", object).await;
    git(&fleet.clone(), &["remote", "set-url", "origin", &url]);

    let clone = fleet.clone().display().to_string();
    for (option, value, most) in [("--local", clone.as_str(), 0), ("--revision", "main", 8)] {
        let (asked, sent) = (server.seen().len(), fleet.cluster.server.requests().len());
        let run = fleet.reads(&["plan", "--live", "set", option, value]).await;
        assert_eq!(run.code, 0, "{}", run.err);
        assert_eq!(run.out.lines().last(), Some("200 of 200 change: 200 created"));
        let asked = server.seen().len() - asked;
        assert!(asked <= most, "{option}: {asked} requests to the Git server");
        // The object, and others of its kind, of each Application; the rest once.
        let sent = fleet.cluster.server.requests().len() - sent;
        assert!(sent <= 2 * COUNT + 100, "{option}: {sent} requests to the API server");
    }
}
