//! Generators that find nothing where they found something (C16, design rule 8): nothing is
//! deleted until a person approves it.

use super::*;
use wavegate_api::annotations::{APPROVED_DELETIONS, FOUND};

pub(super) fn of_clusters(more: Value) -> Value {
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    let mut generators = vec![clusters];
    generators.extend(more.as_array().unwrap().clone());
    let mut spec = set(Value::Null);
    spec["goTemplate"] = true.into();
    spec["generators"] = generators.into();
    spec["template"]["metadata"]["name"] = "{{.name}}".into();
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    spec
}

impl ClusterState {
    fn secrets(&self) -> Api<k8s_openapi::api::core::v1::Secret> {
        Api::namespaced(self.server.client_as("test"), NAMESPACE)
    }

    pub(super) async fn add_cluster(&self, name: &str) {
        self.add_cluster_of(name, "prod").await;
    }

    async fn add_cluster_of(&self, name: &str, env: &str) {
        let labels = json!({"argocd.argoproj.io/secret-type": "cluster", "env": env});
        let server = format!("https://{name}.example.com");
        let secret = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "stringData": {"name": name, "server": server, "config": "{}"},
        }));
        self.secrets().create(&PostParams::default(), &secret.unwrap()).await.unwrap();
    }

    pub(super) async fn remove_cluster(&self, name: &str) {
        self.secrets().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(super) async fn until_found(&self, text: &str) {
        let has = |set: &Value| {
            set["metadata"]["annotations"][FOUND].as_str().is_some_and(|found| found.contains(text))
        };
        self.until("ApplicationSet", "set", has).await;
    }

    async fn until_deletions_are_held(&self, names: &str) -> String {
        let kind = "DeletionsHeld";
        let set = self.until_condition(kind, "True", "GeneratorFoundNothing", names).await;
        condition(&set, kind)["message"].as_str().unwrap().to_owned()
    }
}

/// Two Applications for each cluster.
fn two_for_each() -> Value {
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    let apps = json!({"list": {"elements": [{"app": "a"}, {"app": "b"}]}});
    let mut spec = of_clusters(json!([]));
    spec["generators"] = json!([{"matrix": {"generators": [clusters, apps]}}]);
    spec["template"]["metadata"]["name"] = "{{.app}}-{{.name}}".into();
    spec
}

/// Inside of a matrix, too; a cluster of several is an ordinary change.
#[tokio::test]
async fn a_generator_that_finds_nothing_any_more_deletes_nothing_without_approval() {
    const NAMES: [&str; 2] = ["a-one", "b-one"];
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    for name in ["one", "two"] {
        world.add_cluster(name).await;
    }
    world.create("ApplicationSet", "set", two_for_each()).await;
    for name in ["a-one", "b-one", "a-two", "b-two"] {
        world.until("Application", name, |_| true).await;
    }
    let place = "spec.generators[0].matrix.generators[0].clusters";
    world.until_found(place).await;
    world.remove_cluster("two").await;
    for name in ["a-two", "b-two"] {
        world.until_gone("Application", name).await;
    }
    world.remove_cluster("one").await;
    let message = world.until_deletions_are_held("a-one, b-one").await;
    assert!(message.starts_with(place), "{message}");
    // Also after a restart, and after an approval of something else.
    world.restart(progressive(Default::default()));
    let approve = |hash: &str| json!({"metadata": {"annotations": {APPROVED_DELETIONS: hash}}});
    world.patch("ApplicationSet", "set", approve("0123456789abcdef")).await;
    world.reconcile().await;
    for name in NAMES {
        world
            .until("Application", name, |live| live["metadata"]["deletionTimestamp"].is_null())
            .await;
    }
    let reported = world.until_deletions_are_held("0123456789abcdef is no approval of these").await;
    assert!(reported.contains("a-one, b-one"), "{reported}");

    let (_, hash) = message.rsplit_once(&format!("{APPROVED_DELETIONS}=")).unwrap();
    let command = "kubectl -n argocd annotate applicationset set --overwrite ";
    assert!(message.contains(command), "{message}");
    world.patch("ApplicationSet", "set", approve(hash)).await;
    for name in NAMES {
        world.until_gone("Application", name).await;
    }
    world.until_nothing_is_held().await;
}

#[tokio::test]
async fn a_person_who_changes_the_generators_means_it() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    let listed = json!([{"list": {"elements": [{"name": "b"}]}}]);
    world.create("ApplicationSet", "set", of_clusters(listed)).await;
    for name in ["a", "b"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].clusters").await;
    // What another generator lists is deleted by the same rule: nothing, while one is emptied.
    world.remove_cluster("a").await;
    world.until_deletions_are_held("a").await;
    let none = json!([{"list": {"elements": []}}]);
    world.patch("ApplicationSet", "set", json!({"spec": {"generators": none}})).await;
    for name in ["a", "b"] {
        world.until_gone("Application", name).await;
    }
}

/// A change of another generator is no word about the one that is emptied, also if it moves that
/// one in the list.
#[tokio::test]
async fn a_change_of_another_generator_releases_nothing() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    let spec = of_clusters(json!([{"list": {"elements": [{"name": "b"}]}}]));
    let clusters = spec["generators"][0].clone();
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a", "b"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].clusters").await;
    world.lose("a").await;
    let listed = |names: &[&str]| {
        let elements: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"list": {"elements": elements}})
    };
    let generators = |all: Value| json!({"spec": {"generators": all}});
    let more = generators(json!([clusters, listed(&["b", "c"])]));
    world.patch("ApplicationSet", "set", more).await;
    world.until("Application", "c", |_| true).await;
    world.stays("a").await;
    let before = generators(json!([listed(&["d"]), listed(&["b", "c"]), clusters]));
    world.patch("ApplicationSet", "set", before).await;
    world.until("Application", "d", |_| true).await;
    world.stays("a").await;
    let message = world.until_deletions_are_held("a").await;
    assert!(message.starts_with("spec.generators[2].clusters"), "{message}");
    world.until_found("spec.generators[2].clusters").await;
    // Nor does one of its own that finds nothing either: but its removal does.
    let other = json!({"clusters": {"selector": {"matchLabels": {"env": "test"}}}});
    let of_other = generators(json!([listed(&["d"]), listed(&["b", "c"]), other]));
    world.patch("ApplicationSet", "set", of_other).await;
    world.stays("a").await;
    let removed = generators(json!([listed(&["d"]), listed(&["b", "c"])]));
    world.patch("ApplicationSet", "set", removed).await;
    world.until_gone("Application", "a").await;
    world.until_nothing_is_held().await;
}

#[tokio::test]
async fn held_deletions_can_be_switched_off() {
    let settings =
        deciding(DecisionSettings { hold_deletions: false, ..DecisionSettings::default() });
    let world = ClusterState::start(settings).await;
    world.add_cluster("a").await;
    world.create("ApplicationSet", "set", of_clusters(json!([]))).await;
    world.until("Application", "a", |_| true).await;
    world.remove_cluster("a").await;
    world.until_gone("Application", "a").await;
}

/// Nor does a change of anything else in the spec permit it; a directory of several is an
/// ordinary change.
#[tokio::test]
async fn a_directory_that_is_renamed_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["apps/one", "apps/two"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("kustomization.yaml"), "").unwrap();
    }
    let mut spec = of_clusters(json!([]));
    spec["generators"] = json!([{"git": {
        "repoURL": folder.path().display().to_string(), "revision": "HEAD",
        "directories": [{"path": "apps/*"}],
    }}]);
    spec["template"]["metadata"]["name"] = "{{.path.basename}}".into();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", spec).await;
    for name in ["one", "two"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].git").await;
    std::fs::remove_dir_all(folder.path().join("apps/two")).unwrap();
    world.reconcile().await;
    world.until_gone("Application", "two").await;

    std::fs::rename(folder.path().join("apps"), folder.path().join("services")).unwrap();
    world.reconcile().await;
    let message = world.until_deletions_are_held("one").await;
    assert!(message.starts_with("spec.generators[0].git found nothing"), "{message}");
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "x"}}}}});
    world.patch("ApplicationSet", "set", label).await;
    world.reconcile().await;
    world.until("Application", "one", |live| live["metadata"]["deletionTimestamp"].is_null()).await;
    assert_eq!(world.sent("delete", "applications").len(), 1, "of `two`");

    // It is found again: nothing is held any more.
    std::fs::rename(folder.path().join("services"), folder.path().join("apps")).unwrap();
    world.reconcile().await;
    world.until("ApplicationSet", "set", |set| condition(set, "DeletionsHeld").is_null()).await;
}

impl ClusterState {
    /// Removes the only cluster, and waits until the deletion of its Application is held.
    async fn lose(&self, name: &str) -> String {
        self.remove_cluster(name).await;
        self.until_deletions_are_held(name).await
    }

    pub(super) async fn approve(&self, message: &str) {
        let (_, hash) = message.rsplit_once(&format!("{APPROVED_DELETIONS}=")).unwrap();
        let approval = json!({"metadata": {"annotations": {APPROVED_DELETIONS: hash}}});
        self.patch("ApplicationSet", "set", approval).await;
    }

    pub(super) async fn until_nothing_is_held(&self) {
        let is_over = |set: &Value| {
            condition(set, "DeletionsHeld").is_null()
                && set["metadata"]["annotations"][APPROVED_DELETIONS].is_null()
        };
        self.until("ApplicationSet", "set", is_over).await;
    }

    async fn stays(&self, name: &str) {
        self.reconcile().await;
        let is_left = |live: &Value| live["metadata"]["deletionTimestamp"].is_null();
        self.until("Application", name, is_left).await;
        assert_eq!(self.sent("delete", "applications"), []);
    }
}

/// Without a selector, the local cluster is yielded also without any Secret; `flatList` yields
/// one parameter set whatever there is.
#[tokio::test]
async fn the_plain_clusters_generator_is_emptied_with_its_secrets() {
    let each = json!({"clusters": {}});
    let flat =
        json!({"clusters": {"flatList": true, "selector": {"matchLabels": {"env": "prod"}}}});
    let name = "{{range .clusters}}{{.name}}{{else}}none{{end}}";
    for (generator, name) in [(each, "{{.name}}"), (flat, name)] {
        let mut spec = of_clusters(json!([]));
        spec["generators"] = json!([generator]);
        spec["template"]["metadata"]["name"] = name.into();
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.add_cluster("one").await;
        world.create("ApplicationSet", "set", spec).await;
        world.until("Application", "one", |_| true).await;
        let message = world.lose("one").await;
        assert!(message.starts_with("spec.generators[0].clusters (cluster Secrets)"), "{message}");
        world.stays("one").await;
        world.approve(&message).await;
        world.until_gone("Application", "one").await;
    }
}

/// `envs/prod` is renamed while `envs/dev` is as it was: one evaluation of the generator.
#[tokio::test]
async fn one_evaluation_of_a_generator_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["envs/dev/a", "envs/prod/a"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("kustomization.yaml"), "").unwrap();
    }
    let mut spec = of_clusters(json!([]));
    let envs = json!({"list": {"elements": [{"env": "dev"}, {"env": "prod"}]}});
    let directories = json!({"git": {
        "repoURL": folder.path().display().to_string(), "revision": "HEAD",
        "directories": [{"path": "envs/{{.env}}/*"}],
    }});
    spec["generators"] = json!([{"matrix": {"generators": [envs, directories]}}]);
    spec["template"]["metadata"]["name"] = "{{.path.basename}}-{{.env}}".into();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a-dev", "a-prod"] {
        world.until("Application", name, |_| true).await;
    }
    let envs = folder.path().join("envs");
    std::fs::rename(envs.join("prod"), envs.join("production")).unwrap();
    world.reconcile().await;
    let message = world.until_deletions_are_held("a-prod").await;
    assert!(message.starts_with("spec.generators[0].matrix.generators[1].git["), "{message}");
    world.stays("a-prod").await;
}

/// What a generator found is known before its Applications are created, also while another
/// one is emptied.
#[tokio::test]
async fn a_generator_that_found_something_while_another_one_is_emptied_is_known() {
    let stage = json!({"clusters": {"selector": {"matchLabels": {"env": "stage"}}}});
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    world.create("ApplicationSet", "set", of_clusters(json!([stage]))).await;
    world.until("Application", "a", |_| true).await;
    world.lose("a").await;
    world.add_cluster_of("b", "stage").await;
    world.until("Application", "b", |_| true).await;
    world.until_found("spec.generators[1].clusters").await;
    world.add_cluster("a").await;
    world.until_nothing_is_held().await;
    world.remove_cluster("a").await;
    world.until_deletions_are_held("a").await;
    world.remove_cluster("b").await;
    world.until_deletions_are_held("a, b").await;
    world.stays("b").await;
}

/// A policy that forbids deletions is no approval.
#[tokio::test]
async fn what_a_policy_kept_is_held_when_the_policy_changes() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    let mut spec = of_clusters(json!([]));
    spec["syncPolicy"]["applicationsSync"] = "create-update".into();
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "a", |_| true).await;
    world.remove_cluster("a").await;
    world.stays("a").await;
    let policy = json!({"spec": {"syncPolicy": {"applicationsSync": "sync"}}});
    world.patch("ApplicationSet", "set", policy).await;
    world.until_deletions_are_held("a").await;
    world.stays("a").await;
}

/// An approval that was not needed any more, or that Git applies again, approves no later
/// deletion of the same names.
#[tokio::test]
async fn an_approval_is_not_used_twice() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    world.create("ApplicationSet", "set", of_clusters(json!([]))).await;
    world.until("Application", "a", |_| true).await;
    let message = world.lose("a").await;
    // It is found again when the person approves.
    world.add_cluster("a").await;
    world.until_nothing_is_held().await;
    world.approve(&message).await;
    world.until_nothing_is_held().await;
    let message = world.lose("a").await;
    world.stays("a").await;

    world.approve(&message).await;
    world.until_gone("Application", "a").await;
    world.add_cluster("a").await;
    world.until("Application", "a", |_| true).await;
    world.until_found("spec.generators[0].clusters").await;
    world.remove_cluster("a").await;
    world.until_deletions_are_held("a").await;
    world.approve(&message).await;
    let reports = |set: &Value| {
        let message = condition(set, "DeletionsHeld")["message"].to_string();
        message.contains(" is no approval of these")
    };
    world.until("ApplicationSet", "set", reports).await;
    world.until("Application", "a", |live| live["metadata"]["deletionTimestamp"].is_null()).await;
}

/// The state says what is: an error that is over is not left because deletions are held.
#[tokio::test]
async fn an_error_that_is_over_does_not_stay_while_deletions_are_held() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    world.create("ApplicationSet", "set", of_clusters(json!([]))).await;
    world.until("Application", "a", |_| true).await;
    let named = |name: &str| json!({"spec": {"template": {"metadata": {"name": name}}}});
    world.patch("ApplicationSet", "set", named("{{.name")).await;
    let has_failed = |set: &Value| condition(set, "ErrorOccurred")["status"] == "True";
    world.until("ApplicationSet", "set", has_failed).await;
    world.remove_cluster("a").await;
    world.patch("ApplicationSet", "set", named("{{.name}}")).await;
    world.until_deletions_are_held("a").await;
    let is_mended = |set: &Value| condition(set, "ErrorOccurred")["status"] == "False";
    world.until("ApplicationSet", "set", is_mended).await;
}

/// Two directories of a repository.
fn two_apps() -> (tempfile::TempDir, impl Fn(&str) -> Value) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["apps/one", "apps/two"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("kustomization.yaml"), "").unwrap();
    }
    let url = folder.path().display().to_string();
    let of = move |path: &str| json!({"git": {"repoURL": url, "revision": "HEAD", "directories": [{"path": path}]}});
    (folder, of)
}

/// `apps/*` became `app/*`: the whole fleet would be deleted.
#[tokio::test]
async fn a_mistake_in_a_generator_deletes_nothing() {
    let (_folder, git) = two_apps();
    let generators = |all: Value| json!({"spec": {"generators": all}});
    let one = || json!({"list": {"elements": [{"x": "1"}]}});
    let none = || json!({"list": {"elements": []}});
    let selected = |mut element: Value, by: &str| {
        element["selector"] = json!({"matchLabels": {"path.basename": by}});
        element
    };
    let matrix = |a: Value, b: Value| json!([{"matrix": {"generators": [a, b]}}]);
    let place = "spec.generators[0]";
    // What the set has, what it is changed to, what finds nothing then, and what is meant: null is
    // approved.
    let cases = [
        (json!([git("apps/*")]), json!([git("app/*")]), ".git", json!([none()])),
        (json!([git("apps/*")]), json!([none(), git("app/*")]), "", json!([])),
        (json!([git("apps/*")]), json!([selected(git("apps/*"), "wrong")]), ".git", json!(null)),
        (
            matrix(git("apps/*"), one()),
            matrix(git("app/*"), one()),
            ".matrix.generators[0].git",
            matrix(git("apps/*"), none()),
        ),
        (
            matrix(one(), git("apps/*")),
            matrix(one(), git("app/*")),
            ".matrix.generators[1].git",
            matrix(one(), git("apps/two")),
        ),
        (
            json!([git("apps/*")]),
            json!([{"clusters": {"selector": {"matchLabels": {"env": "none"}}}}]),
            ".clusters",
            json!([git("apps/two")]),
        ),
    ];
    for (before, mistake, at, meant) in cases {
        let mut spec = of_clusters(json!([]));
        spec["generators"] = before;
        spec["template"]["metadata"]["name"] = "{{.path.basename}}".into();
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", spec).await;
        for name in ["one", "two"] {
            world.until("Application", name, |_| true).await;
        }
        world.patch("ApplicationSet", "set", generators(mistake.clone())).await;
        let message = world.until_deletions_are_held("one, two").await;
        match at {
            "" => assert!(message.starts_with("spec.generators[1].git"), "{message}"),
            at => assert!(message.starts_with(&format!("{place}{at}")), "{message}"),
        }
        // Also when it is looked at again, by another controller, and after another mistake.
        world.restart(progressive(Default::default()));
        world.stays("one").await;
        world.patch("ApplicationSet", "set", generators(json!([git("apps/none")]))).await;
        world.stays("two").await;
        world.until_deletions_are_held("one, two").await;
        match meant.is_null() {
            true => world.approve(&world.until_deletions_are_held("one, two").await).await,
            false => world.patch("ApplicationSet", "set", generators(meant.clone())).await,
        }
        world.until_gone("Application", "one").await;
        world.until_nothing_is_held().await;
        match meant.to_string().contains("apps/two") {
            true => world.stays_but_one("two").await,
            false => world.until_gone("Application", "two").await,
        }
    }
}

impl ClusterState {
    /// It stays, while one other Application was deleted.
    async fn stays_but_one(&self, name: &str) {
        self.reconcile().await;
        self.until("Application", name, |live| live["metadata"]["deletionTimestamp"].is_null())
            .await;
        assert_eq!(self.sent("delete", "applications").len(), 1);
    }
}

/// A selector that matches none of a list, in a set that reads nothing else.
#[tokio::test]
async fn a_selector_that_matches_no_element_of_a_list_deletes_nothing() {
    let of = |selector: Value| {
        let elements = json!([{"name": "a", "env": "prod"}, {"name": "b", "env": "prod"}]);
        json!([{"list": {"elements": elements}, "selector": selector}])
    };
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = of_clusters(json!([]));
    spec["generators"] = of(json!({"matchLabels": {"env": "prod"}}));
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a", "b"] {
        world.until("Application", name, |_| true).await;
    }
    let mistake = of(json!({"matchLabels": {"env": "prd"}}));
    world.patch("ApplicationSet", "set", json!({"spec": {"generators": mistake}})).await;
    let message = world.until_deletions_are_held("a, b").await;
    assert!(message.starts_with("spec.generators[0].list"), "{message}");
    world.stays("a").await;
    world.approve(&message).await;
    for name in ["a", "b"] {
        world.until_gone("Application", name).await;
    }
    world.until_nothing_is_held().await;
}

/// An edit of a generator of which a part has always been empty is no mistake.
#[tokio::test]
async fn a_part_that_was_always_empty_holds_nothing() {
    let (_folder, git) = two_apps();
    let clusters = |label: &str| json!({"clusters": {"selector": {"matchLabels": {"env": label}}}});
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = of_clusters(json!([]));
    spec["generators"] = json!([git("apps/*"), clusters("later")]);
    let name = "{{with .name}}{{.}}{{else}}{{.path.basename}}{{end}}";
    spec["template"]["metadata"]["name"] = name.into();
    spec["goTemplateOptions"] = json!([]);
    world.create("ApplicationSet", "set", spec).await;
    for name in ["one", "two"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].git").await;
    let change = json!([git("apps/two"), clusters("later")]);
    world.patch("ApplicationSet", "set", json!({"spec": {"generators": change}})).await;
    world.until_gone("Application", "one").await;
    world.stays_but_one("two").await;
}
