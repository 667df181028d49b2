//! Globs of projects, windows, ignore rules and namespaces: an invalid pattern allows
//! nothing and is reported.

use wavegate_controller::settings::Namespaces;

use super::*;

impl World {
    /// Adds a project and an Application with automated sync in it.
    pub(super) async fn project(&self, name: &str, spec: Value) {
        let mut whole = json!({
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        });
        json_patch::merge(&mut whole, &spec);
        let project = json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": whole});
        self.create("argoproj.io/v1alpha1", "AppProject", &project).await;
    }

    async fn automated(&self, name: &str, project: &str, namespace: &str) {
        let mut app = self.application(name, "app");
        app["spec"]["project"] = project.into();
        app["spec"]["destination"]["namespace"] = namespace.into();
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        self.create_app(&app).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_with_alternatives_denies_each_of_them_se_070_se_071() {
    let world = World::start().await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "victim"}})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let repo = world.repo.path().to_str().unwrap().to_owned();
    let everywhere = json!({"server": "*", "namespace": "*"});
    let besides = |item: Value| json!({"destinations": [item, everywhere]});
    let victim = "namespace 'victim' do not match";
    let cases = [
        ("braces", besides(json!({"server": "*", "namespace": "!{victim,kube-system}"})), victim),
        ("class", besides(json!({"server": "*", "namespace": "!v[a-i]ctim"})), victim),
        ("no-cluster", besides(json!({"namespace": "!victim"})), victim),
        ("open-brace", besides(json!({"server": "*", "namespace": "!{kube-system"})), victim),
        ("open-allow", json!({"destinations": [{"server": "*", "namespace": "[victim"}]}), victim),
        ("repository", json!({"sourceRepos": ["*", format!("!{{{repo},x}}")]}), "is not permitted"),
        ("spelling", json!({"sourceRepos": ["*", format!("!file://{repo}/")]}), "is not permitted"),
    ];
    for (name, project, _) in &cases {
        world.project(name, project.clone()).await;
        world.automated(name, name, "victim").await;
    }
    for (name, _, message) in &cases {
        let denied = |app: &Value| condition(app, "InvalidSpecError", message);
        let app = world.until(name, "denied", denied).await;
        assert!(app["status"]["operationState"].is_null(), "{name}: {app}");
    }
    for (name, at) in [
        ("open-brace", "AppProject open-brace: spec.destinations[0].namespace: pattern"),
        ("open-allow", "AppProject open-allow: spec.destinations[0].namespace: pattern"),
    ] {
        world.until(name, "warned", |app| condition(app, "InvalidProjectWarning", at)).await;
    }
    assert!(world.get("v1", "ConfigMap", "victim", "one").await.is_null());
    // The same projects allow the others.
    world.automated("fine", "braces", "web").await;
    world.until_good("fine").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_are_denied_by_alternatives_and_by_invalid_patterns_se_072_to_se_075() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    for (name, kind) in [("either", "{Secret,ConfigMap}"), ("broken", "{Secret")] {
        let list = json!([{"group": "", "kind": kind}]);
        world.project(name, json!({"namespaceResourceBlacklist": list})).await;
        world.create_with(name, "app", json!({"spec": {"project": name}})).await;
        world.sync(name, json!({"revision": revision})).await;
    }
    for name in ["either", "broken"] {
        let app = world.until(name, "failed", settled).await;
        assert_ne!(app["status"]["operationState"]["phase"], "Succeeded", "{name}: {app}");
    }
    let at = "AppProject broken: spec.namespaceResourceBlacklist[0].kind: pattern";
    world.until("broken", "warned", |app| condition(app, "InvalidProjectWarning", at)).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_with_an_invalid_selector_blocks_se_401_se_410() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let window = |kind: &str, applications: &str| {
        json!({"syncWindows": [{
            "kind": kind, "schedule": "* * * * *", "duration": "1h", "applications": [applications],
        }]})
    };
    for (name, kind, glob) in [
        ("either", "deny", "{either,other}"),
        ("deny", "deny", "{other"),
        ("allow", "allow", "[other"),
    ] {
        world.project(name, window(kind, glob)).await;
        world.automated(name, name, "web").await;
    }
    for name in ["deny", "allow"] {
        let at = "spec.syncWindows[0]: applications[0]: pattern";
        world.until(name, "warned", |app| condition(app, "InvalidProjectWarning", at)).await;
    }
    for name in ["either", "deny", "allow"] {
        let app = world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        assert!(app["status"]["operationState"].is_null(), "{name}: {app}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignore_rule_with_an_invalid_kind_ignores_nothing_se_171() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    let rule = |kind: &str| json!([{"kind": kind, "jsonPointers": ["/data"]}]);
    app["spec"]["ignoreDifferences"] = rule("{ConfigMap");
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&app).await;
    let at = "spec.ignoreDifferences[0].kind: pattern";
    world.until("app", "reported", |app| condition(app, "SyncWarning", at)).await;
    // It is skipped, as in Argo CD: syncs go on.
    world.until_good("app").await;
    world.patch_map("one", json!({"data": {"value": "2"}})).await;
    world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    world.patch("app", json!({"spec": {"ignoreDifferences": rule("{Secret,Config[LM]ap}")}})).await;
    let is_read = |app: &Value| !condition(app, "SyncWarning", at) && is(app, "Synced", "Healthy");
    world.until("app", "read", is_read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_of_applications_are_selected_by_class_and_braces_as_400() {
    let patterns = ["team-[ab]", "{red", "blue}"].map(str::to_owned);
    let namespaces = Namespaces::parse(&patterns).unwrap();
    let world =
        World::with(ApplicationSettings { namespaces, ..ApplicationSettings::default() }).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let allowed = json!({"sourceNamespaces": ["team-[ab]", "/^(red|blue)$/"]});
    world.project("teams", allowed).await;
    for namespace in ["team-a", "team-c", "blue"] {
        world.create("v1", "Namespace", &json!({"metadata": {"name": namespace}})).await;
        let more = json!({"metadata": {"namespace": namespace}, "spec": {"project": "teams"}});
        world.create_with("app", "app", more).await;
    }
    for namespace in ["team-a", "blue"] {
        until(&format!("{namespace}: compared"), async || {
            let app = world.get("argoproj.io/v1alpha1", "Application", namespace, "app").await;
            is(&app, "OutOfSync", "Missing")
        })
        .await;
    }
    let other = world.get("argoproj.io/v1alpha1", "Application", "team-c", "app").await;
    assert!(other["status"].is_null(), "{other}");
}

/// SE-004, SE-077, AS-400: expressions with look-around select namespaces, in the settings and
/// in `sourceNamespaces`. One that is invalid permits nothing, denies everything and is named;
/// one that would take for ever ends, and matches nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_selected_by_look_around_as_400() {
    let endless = "/^(a+)+(?!a)$/";
    let patterns =
        ["/^(?!kube-|team-c)(team|kube)-/", "/(?<=x-)lab$/", "/^blue(?=-eu)/", "/(a+)+$/", endless];
    let namespaces = Namespaces::parse(&patterns.map(str::to_owned)).unwrap();
    let world =
        World::with(ApplicationSettings { namespaces, ..ApplicationSettings::default() }).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let list = |patterns: Value| json!({ "sourceNamespaces": patterns });
    let allowed = ["/^team-(?=[ab]$)/", "/(?<=x-)lab$/", "/^blue-(?!us)/", "/(/", endless];
    world.project("teams", list(json!(allowed))).await;
    world.project("broken", list(json!(["*", "!/(?<!/"]))).await;
    world.project("slow", list(json!(["*", format!("!{endless}")]))).await;
    // More steps than any machine has time for, if they were taken one by one.
    let long = format!("{}b", "a".repeat(60));
    let cases = [
        ("team-a", "teams", Some("compared")),
        ("x-lab", "teams", Some("compared")),
        ("blue-eu", "teams", Some("compared")),
        ("blue-eu-2", "slow", Some("compared")),
        ("team-d", "teams", Some("denied")),
        ("team-b", "broken", Some("denied")),
        ("team-c", "teams", None),
        ("y-lab", "teams", None),
        ("blue-us", "teams", None),
        ("kube-system-2", "teams", None),
        (long.as_str(), "teams", None),
    ];
    for (namespace, project, _) in &cases {
        world.create("v1", "Namespace", &json!({"metadata": {"name": namespace}})).await;
        let mut app = world.application("app", "app");
        app["metadata"]["namespace"] = (*namespace).into();
        app["spec"]["project"] = (*project).into();
        world.create_app(&app).await;
    }
    for (namespace, _, want) in cases.iter().filter(|(.., want)| want.is_some()) {
        let app = until_some(&format!("{namespace}: {want:?}"), async || {
            let app = world.get("argoproj.io/v1alpha1", "Application", namespace, "app").await;
            let fits = match *want {
                Some("denied") => condition(&app, "UnknownError", "is not permitted to use"),
                _ => is(&app, "OutOfSync", "Missing"),
            };
            fits.then_some(app)
        })
        .await;
        let invalid = match *namespace {
            "team-d" => "AppProject teams: spec.sourceNamespaces[3]: pattern \"/(/\"",
            "team-b" => "AppProject broken: spec.sourceNamespaces[1]: pattern \"/(?<!/\"",
            _ => continue,
        };
        assert!(condition(&app, "InvalidProjectWarning", invalid), "{app}");
    }
    for (namespace, ..) in cases.iter().filter(|(.., want)| want.is_none()) {
        let app = world.get("argoproj.io/v1alpha1", "Application", namespace, "app").await;
        assert!(app["status"].is_null(), "{namespace}: {app}");
    }
}
