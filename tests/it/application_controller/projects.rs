//! Restrictions of projects, and their deletion.

use super::hooks::{deployed, nameless};
use super::limits::Far;
use super::*;

const PROJECT: (&str, &str) = ("argoproj.io/v1alpha1", "AppProject");

/// A project for one namespace and no cluster-scoped kinds.
async fn narrow(world: &World) {
    let project = json!({
        "metadata": {"name": "narrow", "namespace": NAMESPACE},
        "spec": {
            "sourceRepos": [world.repo.path().to_str().unwrap()],
            "destinations": [
                {"server": "*", "namespace": "web"}, {"server": "*", "namespace": "fresh"},
            ],
            "namespaceResourceBlacklist": [{"group": "", "kind": "ConfigMap", "name": "admin-*"}],
        },
    });
    world.create(PROJECT.0, PROJECT.1, &project).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "victim"}})).await;
    // It is known by then.
    world.rest().await;
}

fn in_project(world: &World, name: &str, project: &str) -> Value {
    let mut app = world.application(name, name);
    app["spec"]["project"] = project.into();
    app
}

fn in_namespace(manifest: &str, namespace: &str) -> String {
    let mut manifest: Value = serde_json::from_str(manifest).unwrap();
    manifest["metadata"]["namespace"] = namespace.into();
    manifest.to_string()
}

fn binding() -> String {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"generateName": "admin-"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [],
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_with_generated_names_are_checked() {
    let world = World::start().await;
    narrow(&world).await;
    let map = |annotations: &[(&str, &str)]| config_map("x", "1", annotations);
    let hook = |kind: &str| in_namespace(&map(&[(HOOK, kind)]), "victim");
    let kind = "resource rbac.authorization.k8s.io:ClusterRoleBinding is not permitted";
    let namespace = "namespace victim is not permitted in project 'narrow'";
    let by_name = "resource :ConfigMap is not permitted in project narrow";
    let hooked = binding().replace(
        "\"metadata\":{",
        "\"metadata\":{\"annotations\":{\"argocd.argoproj.io/hook\":\"PreSync\"},",
    );
    let cases = [
        ("binding", binding(), kind),
        ("binding hook", hooked, kind),
        ("elsewhere", nameless(&in_namespace(&map(&[]), "victim"), "x-"), namespace),
        ("hook", nameless(&hook("PreSync"), "x-"), namespace),
        ("named hook", hook("PostSync"), namespace),
        ("SyncFail hook", nameless(&hook("SyncFail"), "x-"), namespace),
        ("by its name", nameless(&map(&[]), "admin-"), by_name),
        ("by its name", nameless(&map(&[]), "adm"), by_name),
    ];
    let revision = world.commit_file("app/fine.json", &config_map("fine", "1", &[]));
    world.create_app(&in_project(&world, "app", "narrow")).await;
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    world.server.forget_requests();
    for literal in [false, true] {
        for (name, manifest, want) in &cases {
            let revision = world.commit_file("app/case.json", manifest);
            let mut sync = json!({"revision": revision});
            if literal {
                world.remove("app/case.json");
                sync = json!({"manifests": [manifest]});
            }
            let before = world.app("app").await["status"]["operationState"]["startedAt"].clone();
            world.sync("app", sync).await;
            let app = world
                .until("app", "refused", |app| {
                    settled(app) && app["status"]["operationState"]["startedAt"] != before
                })
                .await;
            assert_eq!(phase(&app), "Failed", "{name}: {app}");
            assert!(message(&app).contains(want), "SE-206: {name}: {}", message(&app));
        }
    }
    assert_eq!(world.made(), [""; 0], "{:?}", world.writes());
}

/// SE-311: without a dry run, since its kind comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_is_checked_once_its_scope_is_known() {
    let world = World::start().await;
    narrow(&world).await;
    let late = [("argocd.argoproj.io/sync-options", "SkipDryRunOnMissingResource=true")];
    let gadget =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "one"}});
    world.write("app/gadget.json", &super::annotated(gadget, &late));
    let revision = world.commit_file("app/pre.json", &job("pre", &[(HOOK, "PreSync"), HANGS]));
    world.create_app(&in_project(&world, "app", "narrow")).await;
    world.sync("app", json!({"revision": revision})).await;
    world.until("app", "under way", |app| message(app).contains("waiting for completion")).await;
    let definition = json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object"},
            }}],
        },
    });
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    world.rest().await;
    world.complete_job("pre").await;
    let app = world.until("app", "refused", settled).await;
    assert_eq!(phase(&app), "Failed", "{app}");
    let want = "resource example.com:Gadget is not permitted in project narrow";
    assert!(message(&app).contains(want), "{app}");
    assert!(world.get("example.com/v1", "Gadget", "", "one").await.is_null());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sources_of_an_operation_are_checked() {
    let world = World::start().await;
    narrow(&world).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&in_project(&world, "app", "narrow")).await;
    let other = tempfile::tempdir().unwrap();
    super::git(other.path(), &["init", "--quiet", "--initial-branch=main"]);
    std::fs::create_dir(other.path().join("app")).unwrap();
    std::fs::write(other.path().join("app/two.json"), config_map("two", "1", &[])).unwrap();
    super::git(other.path(), &["add", "--all"]);
    super::git(other.path(), &["commit", "--quiet", "--message=change"]);
    let url = other.path().to_str().unwrap();
    let source = json!({"repoURL": url, "path": "app", "targetRevision": "main"});
    let app = world.sync_until_settled("app", json!({"revision": "main", "source": source})).await;
    // Argo CD's words, then the rule and what would permit it.
    let want = format!(
        "application repo {url} is not permitted in project 'narrow': no entry of spec.sourceRepos \
         permits it; add its URL"
    );
    assert_eq!((phase(&app), message(&app)), ("Error", want.as_str()), "SE-070");
    assert!(world.get("v1", "ConfigMap", "web", "two").await.is_null());
}

/// As in Argo CD, an entry with `!` permits what it does not hit (SE-070, SE-071); a denial
/// names the entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_negated_entry_permits_what_it_does_not_hit() {
    let world = World::start().await;
    let mut project = world.get(PROJECT.0, PROJECT.1, NAMESPACE, "default").await;
    project["metadata"] = json!({"name": "negated", "namespace": NAMESPACE});
    project["spec"] = json!({
        "sourceRepos": ["!https://example.com/secret"],
        "destinations": [{"server": "!https://prod.example.com", "namespace": "!kube-*"}],
        "namespaceResourceBlacklist": [{"group": "", "kind": "LimitRange"}],
    });
    world.create(PROJECT.0, PROJECT.1, &project).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&in_project(&world, "app", "negated")).await;
    let app = world.sync_until_settled("app", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");

    let mut denied = in_project(&world, "denied", "negated");
    denied["spec"]["destination"]["namespace"] = "kube-system".into();
    world.create_app(&denied).await;
    let is_reported =
        |app: &Value| app["status"]["conditions"].to_string().contains("allowed destinations");
    let app = world.until("denied", "refused", is_reported).await;
    let conditions = app["status"]["conditions"].to_string();
    let want = "do not match any of the allowed destinations in project 'negated': \
                spec.destinations[0] (server !https://prod.example.com, namespace !kube-*) denies \
                it; remove or narrow that entry";
    assert!(conditions.contains(want), "{conditions}");

    world.write("limits/one.json", &json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": []}}).to_string());
    let revision = world.commit();
    world.create_with("limited", "limits", json!({"spec": {"project": "negated"}})).await;
    let app = world.sync_until_settled("limited", json!({"revision": revision})).await;
    let said = app["status"]["operationState"].to_string();
    let want = "resource :LimitRange is not permitted in project negated: \
                spec.namespaceResourceBlacklist[0] (group '', kind LimitRange) denies it";
    assert!(said.contains(want), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_created_and_labelled_only_if_the_project_permits_it() {
    let world = World::start().await;
    narrow(&world).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let metadata = json!({"labels": {"pod-security.kubernetes.io/enforce": "privileged"}});
    let options = json!({"revision": revision, "syncOptions": ["CreateNamespace=true"]});
    let allow = json!({"spec": {"clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}]}});
    // One namespace that is created, and an existing one.
    for (permitted, ends) in [(false, "Failed"), (true, "Succeeded")] {
        if permitted {
            world.patch_object((PROJECT.0, PROJECT.1), NAMESPACE, "narrow", allow.clone()).await;
            world.rest().await;
        }
        for namespace in ["fresh", "web"] {
            let name = format!("{namespace}-{permitted}");
            let mut app = world.application(&name, "app");
            app["spec"]["project"] = "narrow".into();
            app["spec"]["destination"]["namespace"] = namespace.into();
            app["spec"]["syncPolicy"] = json!({"managedNamespaceMetadata": metadata});
            world.create_app(&app).await;
            world.sync(&name, options.clone()).await;
            let reached = |app: &Value| settled(app) && (!permitted || phase(app) == "Succeeded");
            let app = world.until(&name, "ended", reached).await;
            assert_eq!(phase(&app), ends, "{name}: {app}");
            let found = world.get("v1", "Namespace", "", namespace).await;
            let label = &found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
            assert_eq!(*label == "privileged", permitted, "{name}: {found}");
            assert_eq!(found.is_null(), !permitted && namespace == "fresh", "{name}");
            if !permitted {
                let said = message(&app);
                let want = "resource :Namespace is not permitted in project narrow";
                assert!(said.contains(want) && said.contains("clusterResourceWhitelist"), "{said}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_is_deleted_when_no_application_refers_to_it() {
    let world = World::start().await;
    let mut project = world.get(PROJECT.0, PROJECT.1, NAMESPACE, "default").await;
    let finalizers = json!([CASCADE]);
    for (name, users) in [("unused", 0), ("used", 2)] {
        project["metadata"] =
            json!({"name": name, "namespace": NAMESPACE, "finalizers": finalizers});
        world.create(PROJECT.0, PROJECT.1, &project).await;
        for user in 0..users {
            let name = format!("{name}-{user}");
            world.commit_file(&format!("{name}/one.json"), &config_map(&name, "1", &[]));
            let mut app = in_project(&world, &name, "used");
            app["metadata"]["finalizers"] = finalizers.clone();
            world.create_app(&app).await;
        }
    }
    let projects = world.api(PROJECT.0, PROJECT.1, NAMESPACE);
    let gone = async |name: &str| {
        let gone = async || projects.get_opt(name).await.unwrap().is_none();
        until(&format!("SE-083: project {name} is gone"), gone).await;
    };
    for name in ["unused", "used"] {
        projects.delete(name, &DeleteParams::default()).await.unwrap();
    }
    gone("unused").await;
    let reported =
        world.warnings("DeletionError", "refer to it: argocd/used-0, argocd/used-1").await;
    assert_eq!(reported.len(), 1, "{reported:?}");

    // One is deleted, the other moves to another project.
    world.delete_app("used-0").await;
    world.until("used-0", "gone", Value::is_null).await;
    assert!(projects.get_opt("used").await.unwrap().is_some());
    world.patch("used-1", json!({"spec": {"project": "default"}})).await;
    gone("used").await;
    let app = deployed_again(&world).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
}

/// An Application of another project is not affected.
async fn deployed_again(world: &World) -> Value {
    world.write("after/one.json", &config_map("after", "1", &[]));
    deployed(world, "after").await
}

/// The Secrets of a repository and of a cluster with `project` permit them in this project, as its
/// lists would; entries that deny stay in force, and no other project may use them (SE-070, SE-071).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_for_a_project_is_permitted_in_it_k_14() {
    let world = World::start().await;
    let far = Far::start(&["web", "other"]).await;
    let repository = world.repo.path().to_str().unwrap().to_owned();
    for project in ["own", "foreign", "denies"] {
        let mut spec = json!({"sourceRepos": ["https://git.invalid/*"], "destinations": []});
        if project == "denies" {
            spec["sourceRepos"] = json!([format!("!{repository}")]);
        }
        let project = json!({"metadata": {"name": project, "namespace": NAMESPACE}, "spec": spec});
        world.create(PROJECT.0, PROJECT.1, &project).await;
    }
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let at_far = |name: &str, project: &str, namespace: &str| {
        let mut app = in_project(&world, name, project);
        app["spec"]["source"]["path"] = "app".into();
        app["spec"]["destination"] = json!({"server": far.address, "namespace": namespace});
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        app
    };
    world.create_app(&at_far("app", "own", "web")).await;
    world.refused("app", "InvalidSpecError", "there are no clusters with this server").await;

    let cluster = json!({"server": far.address, "project": "own", "namespaces": "web"});
    world.cluster("far", cluster, json!({})).await;
    world.refused("app", "InvalidSpecError", "is not permitted in project").await;
    // In another spelling, with a slash at the end.
    let url = format!("{repository}/");
    chart_repositories::secret(&world, "repo", json!({"url": url, "project": "own"})).await;
    world.until_good("app").await;
    assert!(far.has("ConfigMap", "web", "one").await);

    // Only in the namespaces of the cluster, and in no other project.
    world.create_app(&at_far("outside", "own", "other")).await;
    world.refused("outside", "InvalidSpecError", "no entry of spec.destinations permits it").await;
    world.create_app(&at_far("foreign", "foreign", "web")).await;
    world.refused("foreign", "InvalidSpecError", "no entry of spec.sourceRepos permits it").await;
    let denied = json!({"url": repository, "project": "denies"});
    chart_repositories::secret(&world, "denied", denied).await;
    let mut denied = in_project(&world, "denied", "denies");
    denied["spec"]["source"]["path"] = "app".into();
    world.create_app(&denied).await;
    world.refused("denied", "InvalidSpecError", "denies it").await;

    // It ends with the Secret.
    world.api("v1", "Secret", NAMESPACE).delete("repo", &DeleteParams::default()).await.unwrap();
    let refused =
        |app: &Value| condition(app, "InvalidSpecError", "no entry of spec.sourceRepos permits it");
    world.until("app", "refused again", refused).await;
}

/// SE-079: `permitOnlyProjectScopedClusters` refuses a cluster of all projects and one of another
/// project, and permits the one of its own; what changes counts without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clusters_of_the_project_itself_are_permitted_se_079() {
    let world = World::start().await;
    let clusters = [("open", None), ("foreign", Some("other")), ("own", Some("default"))];
    let mut served = Vec::new();
    for (name, project) in clusters {
        let far = Far::start(&["web"]).await;
        let mut fields = json!({"server": far.address});
        if let Some(project) = project {
            fields["project"] = project.into();
        }
        world.cluster(name, fields, json!({})).await;
        served.push(far);
    }
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.patch_project(json!({"permitOnlyProjectScopedClusters": true})).await;
    // The project is known by then.
    world.rest().await;
    for (name, _) in clusters {
        world.deploy(name, "app", name).await;
    }
    world.until_good("own").await;
    for (name, far) in [("open", &served[0]), ("foreign", &served[1])] {
        let text = format!(
            "cluster '{name}' is not reserved for project 'default', which permits only such clusters"
        );
        let app = world.refused(name, "InvalidSpecError", &text).await;
        assert!(is(&app, "Unknown", "Unknown"), "{app}");
        assert!(!far.has("ConfigMap", "web", "one").await, "{name}");
    }
    // So is what a person asks for.
    world.sync_fails("open", "is not reserved for project 'default'").await;
    assert!(!served[0].has("ConfigMap", "web", "one").await);
    world.patch_project(json!({"permitOnlyProjectScopedClusters": false})).await;
    world.until("open", "permitted", |app| !condition(app, "InvalidSpecError", "")).await;
    world.sync_until_good("open", json!({})).await;
}
