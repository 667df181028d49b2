//! What a project permits and refuses, beside its lists of sources and kinds: reserved clusters and
//! repositories, dependencies of charts, generators, and its own deletion.

use super::*;
use crate::impersonation::without_project;
use crate::manual::{is_selected, manual_window};
use crate::project_deletion::{is_terminating, step_failure};
use crate::signatures::local_manifests;
use wavegate_api::cluster::ClusterScope;

/// SE-071: a cluster whose Secret names the project needs no entry, for what the Secret permits;
/// what an entry denies stays denied.
#[test]
fn a_reserved_cluster_is_permitted_for_what_its_secret_permits_se_071() {
    let scoped = ("https://c".to_owned(), ClusterScope::parse("web,shop", ""));
    let whole = ("https://w".to_owned(), ClusterScope::default());
    let mut spec = AppProjectSpec { destinations: vec![], ..project() };
    spec.reserved.clusters = vec![scoped, whole];
    let refused = |spec: &AppProjectSpec, server: &str, name: &str, namespace: &str| {
        project::destination_rule(spec, server, name, namespace)
    };
    for (server, name, namespace, want) in [
        ("https://c", "c", "web", true),
        ("https://c/", "c", "web", true),
        ("https://c", "c", "kube-system", false),
        ("https://w", "w", "kube-system", true),
        ("https://d", "d", "web", false),
        // Without a server it is not known whose cluster it is.
        ("", "c", "web", false),
    ] {
        let found = refused(&spec, server, name, namespace);
        assert_eq!(found.is_none(), want, "{server} {name} {namespace}: {found:?}");
    }
    let denied = ProjectDestination { name: "!c".to_owned(), ..destination("https://c", "*") };
    let denying = AppProjectSpec { destinations: vec![denied], ..spec };
    let why = refused(&denying, "https://c", "c", "web").unwrap();
    assert!(why.contains("server https://c, name !c, namespace *"), "its fields: {why}");
    let bare = AppProjectSpec { destinations: vec![destination("", "!web")], ..project() };
    let why = refused(&bare, "https://c", "c", "web").unwrap();
    assert!(why.contains("namespace !web") && !why.contains("name ,"), "{why}");
    let none = AppProjectSpec { destinations: vec![], ..project() };
    for (server, name, want) in [
        ("https://c", "c", "one with server https://c and namespace web"),
        ("", "c", "one with name c and namespace web"),
    ] {
        let why = refused(&none, server, name, "web").unwrap();
        assert!(why.contains(want), "{why}");
    }
}

/// SE-071: an entry matches by server or by name; what is empty matches nothing, but for the
/// namespace, and a negated namespace denies in any cluster when the entry names none.
#[test]
fn an_entry_matches_by_server_or_name_se_071() {
    let entry = |server: &str, name: &str, namespace: &str| ProjectDestination {
        name: name.to_owned(),
        ..destination(server, namespace)
    };
    let all = || entry("*", "", "*");
    for (list, server, name, namespace, want) in [
        (vec![entry("", "c", "*")], "https://c", "c", "web", true),
        (vec![entry("", "c", "*")], "https://c", "", "web", false),
        (vec![entry("*", "", "*")], "", "c", "web", false),
        (vec![entry("", "*", "*")], "", "c", "web", true),
        (vec![entry("", "*", "*")], "", "", "web", false),
        (vec![entry("https://c", "", "*")], "https://c", "c", "", true),
        (vec![entry("https://c", "", "")], "https://c", "c", "", true),
        (vec![all(), entry("", "", "!web")], "https://c", "c", "web", false),
        (vec![all(), entry("https://d", "", "!web")], "https://c", "c", "web", true),
        (vec![all(), entry("https://c", "", "!web")], "https://c", "c", "web", false),
        (vec![all(), entry("", "c", "!web")], "https://c", "c", "web", false),
        (vec![all(), entry("!https://c", "", "web")], "https://c", "c", "web", false),
        (vec![all(), entry("!https://c", "", "!web")], "https://c", "c", "web", false),
        (vec![all(), entry("!https://c", "", "!web")], "https://c", "c", "other", false),
        (vec![all(), entry("!https://c", "", "!web")], "https://d", "d", "other", true),
    ] {
        let spec = AppProjectSpec { destinations: list.clone(), ..project() };
        let got = project::destination_rule(&spec, server, name, namespace);
        assert_eq!(got.is_none(), want, "{list:?} for {server}, {name}, {namespace}: {got:?}");
    }
}

/// SE-070: a repository whose Secret names the project needs no entry, however its URL is written.
#[test]
fn a_reserved_repository_is_permitted_se_070() {
    let mut spec = AppProjectSpec { source_repos: vec![], ..project() };
    spec.reserved.repositories = vec!["https://h/a.git".to_owned(), "https://h/*".to_owned()];
    for (url, want) in [
        ("https://h/a", true),
        ("https://H/a.git/", true),
        ("https://h/b", false),
        ("https://other/a", false),
    ] {
        assert_eq!(project::source_rule(&spec, url).is_none(), want, "{url}");
    }
    spec.source_repos = vec!["!https://h/a".to_owned()];
    assert!(project::source_rule(&spec, "https://h/a").is_some(), "what is denied stays so");
}

/// A chart's registry is written with `oci://` or without; the project may permit either, and a
/// denial of one denies both.
#[test]
fn a_dependency_is_permitted_however_its_registry_is_written() {
    for (list, url, want) in [
        (vec!["oci://h/charts"], "oci://h/charts", true),
        (vec!["h/charts"], "oci://h/charts", true),
        (vec!["h/charts"], "https://h/charts", false),
        (vec!["https://h/charts"], "https://h/charts", true),
        (vec!["*", "!h/charts"], "oci://h/charts", false),
        (vec!["*", "!oci://h/charts"], "oci://h/charts", false),
        (vec![], "oci://h/charts", false),
    ] {
        let source_repos = list.iter().map(|&one| one.to_owned()).collect();
        let spec = AppProjectSpec { source_repos, ..project() };
        let denied = project::denied_dependency(url, "p", &spec);
        assert_eq!(denied.is_none(), want, "{list:?} {url}");
        let text = denied.map(|one| one.message).unwrap_or_default();
        let named = text.contains(&format!("application repo {url} is not permitted"));
        assert_eq!(named, !want, "{text}");
    }
}

/// SE-072: the kind of an object is of the cluster when its key has no namespace.
#[test]
fn the_kind_of_a_key_is_judged_by_its_scope_se_072() {
    let role = ResourceKey::new("rbac", "Role", "web", "r");
    let cluster_role = ResourceKey::new("rbac", "Role", "", "r");
    let permits = |spec: &AppProjectSpec| {
        [&role, &cluster_role].map(|key| project::permits_kind_of_key(spec, key))
    };
    assert_eq!(permits(&project()), [true, true]);
    let no_cluster = AppProjectSpec { cluster_resource_whitelist: vec![], ..project() };
    assert_eq!(permits(&no_cluster), [true, false]);
    let of = |kind: &str, name: &str| ResourcePattern {
        group: "rbac".into(),
        kind: kind.into(),
        name: name.into(),
        ..ResourcePattern::default()
    };
    for (pattern, want) in [
        (of("Role", ""), [false, true]),
        (of("Role", "r"), [false, true]),
        (of("Role", "s"), [true, true]),
        (of("Other", ""), [true, true]),
        (ResourcePattern { group: "apps".into(), ..of("Role", "") }, [true, true]),
    ] {
        let blacklist = vec![pattern.clone()];
        let spec = AppProjectSpec { namespace_resource_blacklist: blacklist, ..project() };
        assert_eq!(permits(&spec), want, "{pattern:?}");
        let white = AppProjectSpec {
            namespace_resource_whitelist: Some(vec![pattern.clone()]),
            ..project()
        };
        assert_eq!(permits(&white)[0], !want[0], "the same list permits: {pattern:?}");
    }
}

/// AS-091: the generators of a set use the credentials of a project only where its Applications may
/// be.
#[test]
fn a_project_is_closed_to_the_generators_of_other_namespaces_as_091() {
    let spec = AppProjectSpec { source_namespaces: vec!["team-*".into()], ..project() };
    for (namespace, want) in [("argocd", false), ("team-a", false), ("other", true)] {
        let closed = project::closed_to(&spec, "p", namespace, "argocd");
        assert_eq!(closed.is_some(), want, "{namespace}: {closed:?}");
        let text = closed.unwrap_or_default();
        assert!(
            !want || text.contains("AppProject p") && text.contains("namespace other"),
            "{text}"
        );
    }
}

/// SE-080: what a person sends from a machine is signed by no key of the project.
#[test]
fn local_manifests_are_refused_where_signatures_are_demanded_se_080() {
    let spec = |value: Value| wavegate_api::read_typed::<AppProjectSpec>(&value).unwrap();
    assert!(local_manifests("p", &spec(json!({}))).is_none());
    for (demanding, want) in [
        (json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]}), "signatureKeys demands signed"),
        (json!({"signatureKeys": [{"keyID": "x"}]}), "is no ID of a key"),
    ] {
        let found = local_manifests("p", &spec(demanding)).unwrap();
        assert!(found.message.starts_with("AppProject p: "), "{}", found.message);
        assert!(found.message.contains(want), "{}", found.message);
    }
}

/// SE-083: a project that is being deleted and has the finalizer waits for its Applications.
#[test]
fn a_project_waits_for_its_applications_while_it_has_the_finalizer_se_083() {
    const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
    let at = "2026-01-01T00:00:00Z";
    for (metadata, want) in [
        (json!({"deletionTimestamp": at, "finalizers": ["other", FINALIZER]}), true),
        (json!({"deletionTimestamp": at, "finalizers": ["other"]}), false),
        (json!({"deletionTimestamp": at}), false),
        (json!({"finalizers": [FINALIZER]}), false),
    ] {
        assert_eq!(is_terminating(&json!({"metadata": metadata})), want, "{metadata}");
    }
    assert_eq!(step_failure("no right"), "cannot be deleted yet: no right");
    let gone = without_project("p");
    assert!(gone.contains("project 'p' does not exist") && gone.contains("remove the finalizers"));
}

/// Each given resource selects all that it does not name more precisely.
#[test]
fn a_resource_is_selected_by_its_group_kind_namespace_and_name() {
    let web = ResourceKey::new("apps", "Deployment", "shop", "web");
    for (given, want) in [
        (vec!["apps:Deployment:web"], true),
        (vec!["apps:Deployment:shop/web"], true),
        (vec!["*:*:*"], true),
        (vec![":Service:web", "apps:*:web"], true),
        (vec!["apps:Deployment:other/web"], false),
        (vec!["apps:Deployment:db"], false),
        (vec![":Deployment:web"], false),
        (vec!["web"], false),
        (vec![], false),
    ] {
        let all: Vec<String> = given.iter().map(|&one| one.to_owned()).collect();
        assert_eq!(is_selected(&all, &web), want, "{given:?}");
    }
}

/// SE-406: a window may name the local cluster by its name or its address, whatever the Application
/// names it by.
#[test]
fn a_window_of_the_local_cluster_is_found_by_either_name_se_406() {
    const SERVER: &str = "https://kubernetes.default.svc";
    let now = at(0);
    let allowed = |destination: Value, cluster: &str| {
        let window = json!({"kind": "deny", "schedule": "* * * * *", "duration": "1h", "clusters": [cluster]});
        let project = json!({"spec": {"syncWindows": [window]}});
        let application = json!({"metadata": {"name": "a"}, "spec": {"destination": destination}});
        manual_window(&application, &project, now).allowed
    };
    for (destination, cluster, want) in [
        (json!({"server": SERVER}), "in-cluster", false),
        (json!({"server": SERVER}), SERVER, false),
        (json!({"name": "in-cluster"}), SERVER, false),
        (json!({"name": "in-cluster"}), "in-cluster", false),
        (json!({"name": "other"}), SERVER, true),
        (json!({"name": "other"}), "in-cluster", true),
        (json!({"server": "https://c"}), "in-cluster", true),
        (json!({"server": "https://c"}), SERVER, true),
    ] {
        assert_eq!(allowed(destination.clone(), cluster), want, "{destination} {cluster}");
    }
}

/// SE-031: a name of a source is one of one source, with plain characters.
#[test]
fn names_of_sources_are_unique_and_plain_se_031() {
    let problems = |references: &[&str]| {
        let source = |name: &&str| json!({"repoURL": "r", "path": "p", "ref": name});
        let sources: Vec<Value> = references.iter().map(source).collect();
        let spec = json!({"destination": {"name": "c", "namespace": "web"}, "sources": sources});
        let found = spec::spec_problems(&wavegate_api::read_typed(&spec).unwrap());
        found.into_iter().map(|one| one.message).collect::<Vec<_>>()
    };
    assert_eq!(problems(&["a", "b_1-"]), [""; 0]);
    assert_eq!(problems(&["", ""]), [""; 0], "without a name there is nothing to be unique");
    let twice = problems(&["a", "b", "a"]);
    assert_eq!(twice.len(), 1, "{twice:?}");
    assert!(twice[0].starts_with("spec.sources[2].ref a is used by spec.sources[0]"), "{twice:?}");
    let odd = problems(&["a.b"]);
    assert!(odd[0].contains("only letters"), "{odd:?}");
}
