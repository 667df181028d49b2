//! `plan --live` shows the writes of the controller, with its policy, its projects and
//! clusters, and its invalid rules.

use kube::Api;
use kube::api::{Patch, PatchParams};

use super::embedded::Cluster;
use super::*;

/// A cluster with a set `set`, two of its Applications that differ from the generated
/// ones, and one that is no longer generated.
async fn cluster() -> Cluster {
    let finalizers = ["resources-finalizer.argocd.argoproj.io"];
    Cluster::with_set(&["a", "b"], &["a", "b", "z"], "https://old", &finalizers).await
}

/// Name, change and message of each Application.
async fn changes(cluster: &Cluster, file: Option<&str>, args: &[&str]) -> (i32, Vec<[String; 3]>) {
    let mut all = vec!["plan", "--live", "-o", "json"];
    match file {
        Some(file) => all.extend(["-f", file]),
        None => all.push("set"),
    }
    all.extend(args);
    let run = cluster.run(&all).await;
    let text = |live: &Value, field: &str| live[field].as_str().unwrap().to_owned();
    let report = run.json();
    let rows = report["live"]
        .as_array()
        .unwrap()
        .iter()
        .map(|live| ["application", "change", "message"].map(|field| text(live, field)));
    (run.code, rows.collect())
}

fn names_and_changes(rows: &[[String; 3]]) -> Vec<(&str, &str)> {
    rows.iter().map(|[name, change, _]| (name.as_str(), change.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_shows_fields_and_policies() {
    let cluster = cluster().await;
    let run = cluster.run(&["plan", "--live", "set", "-o", "json"]).await;
    let report = run.json();
    assert_eq!(report["live"][0]["fields"], json!(["spec.source.repoURL"]), "{report}");
    assert_eq!(report["live"][0]["message"], "changes spec.source.repoURL");
    let want = [("a", "update"), ("b", "update"), ("z", "delete")];
    assert_eq!(names_and_changes(&changes(&cluster, None, &[]).await.1), want);

    // A flag of the controller, and the same in its ConfigMap (AS-150, AS-500).
    let want = [("a", "none"), ("b", "none"), ("z", "delete")];
    let flags = ["--policy", "create-delete"];
    assert_eq!(names_and_changes(&changes(&cluster, None, &flags).await.1), want);
    let keys = json!({
        "metadata": {"name": "argocd-cmd-params-cm"},
        "data": {"applicationsetcontroller.policy": "create-update"},
    });
    cluster.create_map(keys).await;
    let rows = changes(&cluster, None, &[]).await.1;
    assert_eq!(names_and_changes(&rows[..2]), [("a", "update"), ("b", "update")]);
    assert!(rows.iter().all(|[_, change, _]| change != "delete"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_references_are_refused_and_deletions_wait_as_148_as_180() {
    let cluster = cluster().await;
    let file: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    let cases = [
        ("/spec/template/spec/project", json!("missing"), "missing"),
        ("/spec/template/spec/destination/server", json!("https://2"), "https://2"),
        ("/spec/template/metadata/name", json!("App_{{name}}"), "App_"),
    ];
    for (place, value, word) in cases {
        let mut file = file.clone();
        *file.pointer_mut(place).unwrap() = value;
        let files = folder(&[("set.json", &file.to_string())]);
        let (code, rows) = changes(&cluster, Some(&in_folder(&files, "set.json")), &[]).await;
        assert_eq!(code, 1, "{place}");
        let refused =
            rows.iter().filter(|[_, change, why]| change == "refuse" && why.contains(word));
        assert_eq!(refused.count(), 2, "{place}: {rows:?}");
        assert!(rows.iter().any(|[name, change, _]| name == "z" && change == "wait"), "{rows:?}");
        assert!(rows.iter().all(|[_, change, _]| change != "delete"), "{rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_rule_is_shown_where_it_applies_as_162() {
    let cluster = cluster().await;
    let mut file: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    file["spec"]["ignoreApplicationDifferences"] =
        json!([{"name": "a", "jqPathExpressions": [".spec["]}]);
    let files = folder(&[("set.json", &file.to_string())]);
    let (code, rows) = changes(&cluster, Some(&in_folder(&files, "set.json")), &[]).await;
    assert_eq!(code, 1);
    let want = [("a", "refuse"), ("b", "update"), ("z", "wait")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
}

/// Two sets of which the first one no longer generates `z`, and the second one does; `z` is
/// owned by the first one.
async fn with_taker(cluster: &Cluster) -> Value {
    let mut taker: Value = serde_json::from_str(&set(&["z"], json!([{}]))).unwrap();
    taker["metadata"] = json!({"name": "taker", "namespace": "argocd"});
    cluster.create("ApplicationSet", taker.clone()).await;
    taker
}

/// AS-142: an Application that another set of the namespace generates is not deleted; it
/// changes its owner, and both sets show that, also when the other one comes from a file.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_changes_its_owner_is_not_shown_as_deleted_as_142() {
    let cluster = cluster().await;
    let rows = changes(&cluster, None, &[]).await.1;
    assert_eq!(names_and_changes(&rows[2..]), [("z", "delete")], "no other set generates it");

    let mut taker: Value = serde_json::from_str(&set(&["z"], json!([{}]))).unwrap();
    taker["metadata"] = json!({"name": "taker", "namespace": "argocd"});
    let mut first: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    first["metadata"]["namespace"] = "argocd".into();
    let files = folder(&[("set.yaml", &format!("{first}\n---\n{taker}\n"))]);
    let run = cluster.run(&["plan", "--live", "-f", &in_folder(&files, "set.yaml")]).await;
    for words in ["ApplicationSet taker generates it", "takes it over from ApplicationSet set"] {
        assert!(run.out.contains(words), "no {words}: {}{}", run.out, run.err);
    }
    assert!(!run.out.contains("delete"), "{}", run.out);

    with_taker(&cluster).await;
    let rows = changes(&cluster, None, &[]).await.1;
    assert_eq!(names_and_changes(&rows[2..]), [("z", "move")], "{rows:?}");
    assert!(rows[2][2].contains("ApplicationSet taker generates it"), "{rows:?}");
    let taking = cluster.run(&["plan", "--live", "taker", "-o", "json"]).await.json();
    let row = &taking["live"][0];
    assert_eq!((&row["application"], &row["change"]), (&json!("z"), &json!("update")), "{taking}");
    assert!(row["message"].as_str().unwrap().contains("takes it over from"), "{taking}");
    assert_eq!(row["fields"], json!(["metadata.ownerReferences"]), "{taking}");
    // What is planned is what `diff` predicts.
    let diff = cluster.run(&["diff", "appset/set"]).await;
    assert!(!diff.out.contains("would be deleted"), "{}{}", diff.out, diff.err);

    // One that keeps its Applications gives none away.
    let keep = ["--policy", "create-update"];
    let rows = changes(&cluster, None, &keep).await.1;
    assert!(rows.iter().all(|[_, change, _]| !["move", "delete"].contains(&change.as_str())));
}

/// A set that cannot be generated may or may not take the Application over.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_names_the_set_that_cannot_be_read_as_142() {
    let cluster = cluster().await;
    let mut broken: Value = serde_json::from_str(&set(&["z"], json!([{}]))).unwrap();
    broken["metadata"] = json!({"name": "broken", "namespace": "argocd"});
    broken["spec"]["generators"] = json!([{"git": {"repoURL": "/nowhere", "revision": "HEAD", "directories": [{"path": "*"}]}}]);
    cluster.create("ApplicationSet", broken).await;
    let rows = changes(&cluster, None, &[]).await.1;
    assert_eq!(names_and_changes(&rows[2..]), [("z", "delete")]);
    assert!(rows[2][2].contains("unless ApplicationSet broken generates it"), "{rows:?}");
}

/// SE-029: of a `sourceHydrator`, the branch that is synced is shown, and its fields are
/// compared.
#[tokio::test(flavor = "multi_thread")]
async fn sources_of_a_hydrator_are_shown_and_compared_se_029() {
    let cluster = cluster().await;
    let hydrator = |path: &str| {
        json!({
            "drySource": {"repoURL": "https://dry", "targetRevision": "main", "path": "{{name}}"},
            "syncSource": {"targetBranch": "environments/prod", "path": path},
        })
    };
    let mut file: Value = serde_json::from_str(&set(&["a", "b", "z"], json!([{}]))).unwrap();
    let spec = file["spec"]["template"]["spec"].as_object_mut().unwrap();
    // What was there before has no effect.
    spec.insert("sourceHydrator".to_owned(), hydrator("hydrated/{{name}}"));
    let files = folder(&[("set.json", &file.to_string())]);
    let path = in_folder(&files, "set.json");
    let table = cluster.run(&["render", "-f", &path, "-o", "table"]).await;
    for name in ["a", "b", "z"] {
        let shown = format!("https://dry//hydrated/{name}@environments/prod");
        assert!(table.out.contains(&shown), "{}", table.out);
    }
    let rows = changes(&cluster, Some(&path), &[]).await.1;
    assert!(rows[0][2].contains("spec.sourceHydrator"), "{rows:?}");

    for name in ["a", "b", "z"] {
        let live = if name == "b" { "elsewhere".to_owned() } else { format!("hydrated/{name}") };
        let mut own = hydrator(&live);
        own["drySource"]["path"] = name.into();
        let patch = json!({"spec": {"sourceHydrator": own, "source": {"repoURL": "https://r"}}});
        let applications = cluster.api("Application");
        let params = kube::api::PatchParams::default();
        applications.patch(name, &params, &kube::api::Patch::Merge(&patch)).await.unwrap();
    }
    let rows = changes(&cluster, Some(&path), &[]).await.1;
    let want = [("a", "none"), ("b", "update"), ("z", "none")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
    assert_eq!(rows[1][2], "changes spec.sourceHydrator.syncSource.path");
}

/// SE-072, SE-080: what no Application of a project deploys is reported before the change.
#[tokio::test(flavor = "multi_thread")]
async fn guards_that_hold_everything_are_reported_with_the_plan_se_072() {
    let cluster = cluster().await;
    let entry = json!({"group": "", "kind": "Secret", "name": "tls-*"});
    let list = |entry: Value| json!({"spec": {"namespaceResourceBlacklist": [entry]}});
    let applied = list(entry).to_string();
    let mut patch = list(json!({"group": "", "kind": "Secret"}));
    patch["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        applied.into();
    let projects = cluster.api("AppProject");
    let params = kube::api::PatchParams::default();
    projects.patch("default", &params, &kube::api::Patch::Merge(&patch)).await.unwrap();
    let words = "spec.namespaceResourceBlacklist[0].name of AppProject default";
    for command in [&["plan", "--live", "set"][..], &["render", "--live", "set"]] {
        let run = cluster.run(command).await;
        assert!(run.err.contains(words), "{command:?}: {}", run.err);
        assert_eq!(run.err.matches(words).count(), 1, "{}", run.err);
    }
}

/// Who may not list ApplicationSets still gets the plan, with a note.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_needs_no_permission_to_list_sets_as_142() {
    use kube_sim::{Effect, InjectedFault, RequestRecord};
    let cluster = cluster().await;
    let lists = |request: &RequestRecord| {
        request.resource == "applicationsets" && request.verb == "list" && request.client != "test"
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(403), lists).times(usize::MAX));
    let run = cluster.run(&["plan", "--live", "-n", "argocd", "set", "-o", "json"]).await;
    assert_eq!(run.json()["live"][2]["change"], "delete", "{}{}", run.out, run.err);
    assert!(run.err.contains("another ApplicationSet takes Applications over"), "{}", run.err);
}

/// Policies that may not be read may hold anything: that is noted, and no hash is that of the plan.
/// Where they cannot exist there is nothing to note.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_its_policies_says_so_and_has_no_hash() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube_sim::{Effect, InjectedFault, RequestRecord};
    let cluster = cluster().await;
    let plan = async |args: &[&str]| {
        let all = [&["plan", "--live", "-n", "argocd", "set"][..], args].concat();
        cluster.run(&all).await
    };
    let known = plan(&["-o", "json"]).await;
    let hash = known.json()["steering"]["hash"].as_str().unwrap().to_owned();
    assert!(!known.err.contains("policies"), "{}", known.err);

    let lists = |request: &RequestRecord| {
        request.resource == "rolloutpolicies" && request.verb == "list" && request.client != "test"
    };
    cluster.server.inject(InjectedFault::new(Effect::Status(403), lists).times(2));
    let hidden = plan(&["-o", "json"]).await;
    assert_eq!(hidden.code, known.code, "{}", hidden.err);
    assert_eq!(hidden.json()["steering"]["hash"], Value::Null, "{}", hidden.out);
    assert!(hidden.err.contains("what policies hold and limit is not known"), "{}", hidden.err);
    let checked = plan(&["--check", &hash]).await;
    checked.fails(1, &[&format!("the plan of set has no hash, and not {hash}")]);

    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    definitions.delete("rolloutpolicies.wavegate.dev", &Default::default()).await.unwrap();
    let absent = plan(&["-o", "json"]).await;
    assert_eq!(absent.json()["steering"]["hash"], hash, "{}", absent.err);
    assert!(!absent.err.contains("policies"), "{}", absent.err);
}

/// A generator that finds nothing where it found something deletes nothing: the plan and the
/// prediction of `diff` say so, with the command that approves.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_that_are_held_are_not_shown_as_deletions() {
    let cluster = cluster().await;
    let sets = cluster.api("ApplicationSet");
    let generators = json!([{"clusters": {"selector": {"matchLabels": {"env": "gone"}}}}]);
    let patch = json!({"spec": {"generators": generators}});
    sets.patch("set", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let rows = changes(&cluster, None, &[]).await.1;
    let want = [("a", "wait"), ("b", "wait"), ("z", "wait")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
    let approval = "annotate applicationset set --overwrite wavegate.dev/approved-deletions=";
    assert!(rows.iter().all(|[_, _, message]| message.contains(approval)), "{rows:?}");
    let diff = cluster.run(&["diff", "appset/set"]).await;
    assert!(!diff.out.contains("would be deleted"), "{}{}", diff.out, diff.err);
    // Switched off in the ConfigMap of the controllers.
    let keys = json!({
        "metadata": {"name": "argocd-cmd-params-cm"},
        "data": {"applicationsetcontroller.hold.deletions": "false"},
    });
    cluster.create_map(keys).await;
    let rows = changes(&cluster, None, &[]).await.1;
    let want = [("a", "delete"), ("b", "delete"), ("z", "delete")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
}

/// ST-050: deletions beyond the limit of a policy wait for an approval, and are no deletions of the
/// plan and of the prediction.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_beyond_the_limit_of_a_policy_are_not_shown_as_deletions() {
    let cluster = cluster().await;
    let files = folder(&[("set.json", &set(&["a"], json!([{}])))]);
    let path = in_folder(&files, "set.json");
    let rows = changes(&cluster, Some(&path), &[]).await.1;
    let want = [("a", "update"), ("b", "delete"), ("z", "delete")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
    let diff = cluster.run(&["diff", "-f", &path]).await;
    assert!(diff.out.contains(": would be deleted"), "{}{}", diff.out, diff.err);

    let policy = |max: u64| {
        json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": format!("at-most-{max}")}, "spec": {"deletions": {"max": max}},
        })
    };
    cluster.create("RolloutPolicy", policy(2)).await;
    let rows = changes(&cluster, Some(&path), &[]).await.1;
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
    cluster.create("RolloutPolicy", policy(1)).await;
    let rows = changes(&cluster, Some(&path), &[]).await.1;
    let want = [("a", "update"), ("b", "wait"), ("z", "wait")];
    assert_eq!(names_and_changes(&rows), want, "{rows:?}");
    let why = "2 Applications would be deleted, and policy at-most-1 permits 1";
    let approval = "annotate applicationset set --overwrite wavegate.dev/approved-deletions=";
    for [name, _, message] in &rows[1..] {
        assert!(message.contains(why) && message.contains(approval), "{name}: {message}");
    }
    let diff = cluster.run(&["diff", "-f", &path]).await;
    assert!(!diff.out.contains(": would be deleted"), "{}{}", diff.out, diff.err);
}

/// "With `none` for all Applications, nothing will change" (docs/install.md): the controller that
/// starts then writes to none of them; and where `plan` says `update`, it does.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_plan_is_none_the_controller_writes_to_no_application() {
    let cluster = Cluster::start().await;
    cluster.permits("guestbook-dev").await;
    let file = std::fs::read_to_string("tests/data/argo-cd.yaml").unwrap();
    let set = file.split("---\n").find(|text| text.contains("kind: ApplicationSet")).unwrap();
    let object = wavegate_api::yaml::parse_value(set).unwrap();
    let created = cluster.create("ApplicationSet", object).await;
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "guestbook", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    let rendered = with_input(&["render", "-f", "-", "-o", "json"], set);
    for app in rendered.json()["items"].as_array().unwrap() {
        let mut app = app.clone();
        app["metadata"]["ownerReferences"] = json!([owner]);
        cluster.create("Application", app).await;
    }
    let planned = async || {
        let args = ["plan", "--live", "-n", "argocd", "guestbook", "--enable-progressive-syncs"];
        let args: Vec<&str> = args.into_iter().chain(["-o", "json"]).collect();
        let live = cluster.run(&args).await.json()["live"].clone();
        let live = live.as_array().unwrap().iter();
        live.map(|row| row["change"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    assert_eq!(planned().await, ["none", "none"]);
    let applications = cluster.api("Application");
    let versions = async || {
        let all = applications.list(&Default::default()).await.unwrap().items.into_iter();
        all.map(|app| app.metadata.resource_version).collect::<Vec<_>>()
    };
    let before = versions().await;
    let flags = ["--enable-progressive-syncs", "--sync-engine=external", "--metrics-addr="];
    let flags = [&flags[..], &["--probe-addr=", "--webhook-addr="]].concat();
    let sets = cluster.api("ApplicationSet");
    let reconciled = |set: &Value| {
        let all = set["status"]["conditions"].as_array().into_iter().flatten();
        all.into_iter().any(|one| one["type"] == "ResourcesUpToDate" && one["status"] == "True")
    };
    let running = super::arguments::Running::start(&cluster, &flags, &[]);
    crate::support::waiting::until("the set is reconciled", async || {
        reconciled(&sets.get("guestbook").await.unwrap().data)
    })
    .await;
    assert_eq!(versions().await, before, "{}", running.log());

    let other = json!({"metadata": {"labels": {"team": "blue"}}, "spec": {"project": "other"}});
    applications
        .patch("guestbook-dev", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .unwrap();
    crate::support::waiting::until("what the plan would change is changed", async || {
        applications.get("guestbook-dev").await.unwrap().data["spec"]["project"] == "default"
    })
    .await;
    drop(running);
    applications
        .patch("guestbook-prod", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .unwrap();
    assert_eq!(planned().await, ["none", "update"]);
}

/// A project whose name is misspelt is reported with the one that there is; one that resembles none
/// without a guess.
#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_project_is_told_with_the_one_that_is_meant() {
    let cluster = cluster().await;
    let mut file: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    for (project, hint) in [("defualt", "; did you mean default?"), ("payments", "")] {
        file["spec"]["template"]["spec"]["project"] = project.into();
        let files = folder(&[("set.json", &file.to_string())]);
        let (code, rows) = changes(&cluster, Some(&in_folder(&files, "set.json")), &[]).await;
        assert_eq!(code, 1, "{project}");
        let want = format!("AppProject {project} does not exist in namespace argocd{hint}");
        let told =
            rows.iter().filter(|[_, change, why]| change == "refuse" && why.ends_with(&want));
        assert_eq!(told.count(), 2, "{project}: {rows:?}");
    }
}
