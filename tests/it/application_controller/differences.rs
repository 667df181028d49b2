//! Settings of `argocd-cm` about differences (SE-163 to SE-178): each with an Application that
//! would be compared otherwise without it.

use super::limits::settings;
use super::*;

const IGNORE: &str = "resource.customizations.ignoreDifferences";

impl World {
    /// A kind of `example.com` that keeps what is written.
    pub async fn define(&self, kind: &str) {
        self.define_kind("example.com", kind, &format!("{}s", kind.to_lowercase())).await;
    }

    /// An Application `app` of the folder `app`, synced once.
    async fn synced_app(&self, annotations: Value) {
        let revision = self.commit();
        self.create_with("app", "app", json!({"metadata": {"annotations": annotations}})).await;
        self.sync_until_good("app", json!({"revision": revision})).await;
    }

    /// Waits until a row has this status: a change may be seen later than the request for a
    /// comparison.
    async fn until_row(&self, name: &str, status: &str) -> Value {
        let what = format!("{status} in {name}");
        self.until("app", &what, |app| row(app, name)["status"] == status).await
    }

    /// Changes a live object as another manager.
    pub(super) async fn drift(
        &self,
        (version, kind): (&str, &str),
        name: &str,
        manager: &str,
        patch: Value,
    ) {
        let namespace = if kind == "ClusterRole" { "" } else { "web" };
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..Default::default() };
        let api = self.api(version, kind, namespace);
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }
}

fn custom(kind: &str, name: &str, rest: Value) -> String {
    let mut object =
        json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object.to_string()
}

/// SE-163: the status in a manifest is a difference only where the settings say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_compared_as_the_settings_say_se_163() {
    for (option, want) in [("all", "Synced"), ("crd", "OutOfSync"), ("none", "OutOfSync")] {
        let text = format!("ignoreResourceStatusField: {option}\n");
        let world = World::with(settings(&[("resource.compareoptions", &text)])).await;
        world.define("Widget").await;
        let widget = |size: u64| custom("Widget", "one", json!({"status": {"size": size}}));
        world.write("app/one.json", &widget(1));
        world.synced_app(json!({})).await;
        let other = json!({"status": {"size": 2}});
        world.drift(("example.com/v1", "Widget"), "one", "other", other).await;
        world.refresh("app").await;
        let app = world.until_row("one", want).await;
        assert_eq!(row(&app, "one")["status"], want, "{option}: {}", app["status"]);
        if want == "Synced" {
            continue;
        }
        // A sync sends it: the kind has no subresource for it.
        let revision = world.commit_file("app/one.json", &widget(3));
        world.sync("app", json!({"revision": revision})).await;
        world
            .until("app", "in sync", |app| {
                phase(app) == "Succeeded" && row(app, "one")["status"] == "Synced"
            })
            .await;
        let widget = world.get("example.com/v1", "Widget", "web", "one").await;
        assert_eq!(widget["status"], json!({"size": 3}), "{option}");
    }
}

/// SE-165: the rules of an aggregated role are those of other roles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_aggregated_roles_are_ignored_se_165() {
    for (option, want) in [("false", "OutOfSync"), ("true", "Synced")] {
        let text = format!("ignoreAggregatedRoles: {option}\n");
        let world = World::with(settings(&[("resource.compareoptions", &text)])).await;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "all"},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        });
        world.write("app/one.json", &role.to_string());
        world.synced_app(json!({})).await;
        let rules =
            json!({"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]});
        let kind = ("rbac.authorization.k8s.io/v1", "ClusterRole");
        world.drift(kind, "all", "clusterrole-aggregation-controller", rules).await;
        world.refresh("app").await;
        let app = world.until_row("all", want).await;
        assert_eq!(row(&app, "all")["status"], want, "{option}: {}", app["status"]);
    }
}

/// SE-168: fields of a custom resource with a known type are compared as the server prints them;
/// a type that does not exist is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_with_a_known_type_are_compared_by_it_se_168() {
    let fields = "- {field: spec.template.spec, type: core/v1/PodSpec}\n\
                  - {field: spec.size, type: core/Quantity}\n\
                  - {field: spec.every, type: meta/v1/Duration}\n";
    let key = "resource.customizations.knownTypeFields.example.com_Game";
    let typo = "resource.customizations.knownTypeFields.example.com_Toy";
    let bad = "- {field: spec.size, type: core/Quantities}\n";
    let world = World::with(settings(&[(key, fields), (typo, bad)])).await;
    let of = |cpu: &str, size: &str, every: &str| {
        let container = json!({"name": "main", "resources": {"requests": {"cpu": cpu}}});
        let pod = json!({"spec": {"containers": [container]}});
        json!({"spec": {"template": pod, "size": size, "every": every}})
    };
    for kind in ["Game", "Toy"] {
        world.define(kind).await;
        let name = kind.to_lowercase();
        world.write(&format!("app/{name}.json"), &custom(kind, &name, of("0.1", "1024Mi", "1h")));
    }
    world.synced_app(json!({})).await;
    for kind in ["Game", "Toy"] {
        let same = of("100m", "1Gi", "1h0m0s");
        world.drift(("example.com/v1", kind), &kind.to_lowercase(), "defaulter", same).await;
    }
    world.refresh("app").await;
    let app = world.until_row("toy", "OutOfSync").await;
    assert_eq!(row(&app, "game")["status"], "Synced", "{}", app["status"]);
    assert_eq!(row(&app, "toy")["status"], "OutOfSync", "{}", app["status"]);
    assert!(condition(&app, "SyncWarning", "core/Quantities"), "{}", app["status"]);
}

/// SE-170, SE-175, SE-586: rules in the settings, for a kind of the core group, for all kinds, by
/// wildcards in the combined map, and by the managers of fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_the_settings_hold_for_all_applications_se_170_se_175_se_586() {
    let combined = "'*.com/*':\n  ignoreDifferences: |\n    managedFieldsManagers: [scaler]\n";
    let world = World::with(settings(&[
        (&*format!("{IGNORE}.ConfigMap"), "managedFieldsManagers: [scaler]\n"),
        (&*format!("{IGNORE}.apps_Deployment"), "jsonPointers: [/spec/replicas]\n"),
        (&*format!("{IGNORE}.all"), "jqPathExpressions: ['.metadata.labels.owner']\n"),
        ("resource.customizations", combined),
    ]))
    .await;
    world.define("Widget").await;
    world.write("app/map.json", &config_map("map", "1", &[]));
    world.write("app/web.json", &deployment("web", &[]));
    world.write("app/one.json", &custom("Widget", "one", json!({"spec": {"size": 1}})));
    let mut labelled: Value = serde_json::from_str(&config_map("labelled", "1", &[])).unwrap();
    labelled["metadata"]["labels"] = json!({"owner": "a"});
    world.write("app/labelled.json", &labelled.to_string());
    world.write("app/plain.json", &config_map("plain", "1", &[]));
    world.synced_app(json!({})).await;
    let value = || json!({"data": {"value": "2"}});
    world.drift(("v1", "ConfigMap"), "map", "scaler", value()).await;
    world.drift(("apps/v1", "Deployment"), "web", "x", json!({"spec": {"replicas": 2}})).await;
    world.drift(("example.com/v1", "Widget"), "one", "scaler", json!({"spec": {"size": 2}})).await;
    let label = json!({"metadata": {"labels": {"owner": "b"}}});
    world.drift(("v1", "ConfigMap"), "labelled", "x", label).await;
    world.drift(("v1", "ConfigMap"), "plain", "other", value()).await;
    world.refresh("app").await;
    let app = world.until_row("plain", "OutOfSync").await;
    for name in ["map", "web", "one", "labelled"] {
        assert_eq!(row(&app, name)["status"], "Synced", "{name}: {}", app["status"]);
    }
    assert_eq!(row(&app, "plain")["status"], "OutOfSync", "of another manager");
}

/// SE-177: a resource whose only difference the settings ignore is not applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_settings_ignore_is_in_sync_for_apply_out_of_sync_only_se_177() {
    let key = format!("{IGNORE}.ConfigMap");
    let world = World::with(settings(&[(&*key, "jsonPointers: [/data/value]\n")])).await;
    world.write("app/map.json", &config_map("map", "1", &[]));
    world.synced_app(json!({})).await;
    world.drift(("v1", "ConfigMap"), "map", "x", json!({"data": {"value": "2"}})).await;
    let revision = world.commit_file("app/new.json", &config_map("new", "1", &[]));
    let options = json!(["ApplyOutOfSyncOnly=true"]);
    world.sync("app", json!({"revision": revision, "syncOptions": options})).await;
    let is_new = |app: &Value| {
        settled(app)
            && app["status"]["sync"]["revision"] == *revision
            && is(app, "Synced", "Healthy")
    };
    world.until("app", "synced", is_new).await;
    let map = world.get("v1", "ConfigMap", "web", "map").await;
    assert_eq!(map["data"]["value"], "2", "it was not applied");
}

/// A rule that is not understood might protect something: the Applications with such kinds say
/// so, and sync nothing by themselves; others go on (SE-170, SE-173).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_of_the_settings_that_is_not_understood_is_told_se_170() {
    let key = format!("{IGNORE}.ConfigMap");
    let world = World::with(settings(&[(&*key, "jqPathExpressions: ['.data |']\n")])).await;
    world.write("app/map.json", &config_map("map", "1", &[]));
    world.commit_file("other/web.json", &deployment("web", &[]));
    for name in ["app", "other"] {
        world.create_app(&automated(world.application(name, name))).await;
    }
    world.until_good("other").await;
    let is_told = |app: &Value| condition(app, "ComparisonError", &key);
    let app = world.until("app", "told", is_told).await;
    assert!(app["status"]["operationState"].is_null(), "{app}");
}

/// SE-178: a change of an ignored field causes no comparison, whatever it is worth; one of another
/// field does, and the health always counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_changes_cause_no_comparison_and_health_does_se_178() {
    let updates = "resource.customizations.ignoreResourceUpdates";
    let keys = [
        (
            format!("{updates}.ConfigMap"),
            "jqPathExpressions: ['.data | select(.value == \"1\") | .beat']\n",
        ),
        (format!("{updates}.all"), "jsonPointers: [/status]\n"),
    ];
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, text)| (&**key, *text)).collect();
    let beating = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"},
        "data": {"beat": "1", "value": "1"},
    });
    let world = World::with(settings(&keys)).await;
    world.write("app/map.json", &beating.to_string());
    world.write("app/web.json", &deployment("web", &[]));
    // It becomes healthy by its status only.
    world.synced_app(json!({})).await;
    world.rest().await;
    let beat = |value: &str| json!({"data": {"beat": value}});
    world.drift(("v1", "ConfigMap"), "map", "x", beat("2")).await;
    world.rest().await;
    assert!(is(&world.app("app").await, "Synced", "Healthy"), "it was not compared");
    let revision = world.commit_file("bad/web.json", &deployment("bad", &[FAILS]));
    world.create_app(&world.application("bad", "bad")).await;
    world.sync("bad", json!({"revision": revision})).await;
    world.until("bad", "degraded by a status", |app| is(app, "Synced", "Degraded")).await;
    world.refresh("app").await;
    // It was known, and not compared.
    world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;

    // The master switch.
    let mut off = keys.clone();
    off.push(("resource.ignoreResourceUpdatesEnabled", "false"));
    let world = World::with(settings(&off)).await;
    world.write("app/map.json", &beating.to_string());
    world.synced_app(json!({})).await;
    world.drift(("v1", "ConfigMap"), "map", "x", beat("2")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
}

/// SE-178: an object that belongs to no Application, and that a manifest names: its ignored changes
/// cause a comparison, unless it has the annotation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_nobody_ignores_updates_by_annotation_se_178() {
    const LINK: &str = "link.argocd.argoproj.io/a";
    let key = "resource.customizations.ignoreResourceUpdates.ConfigMap";
    let rule = "jsonPointers: [/metadata/annotations/link.argocd.argoproj.io~1a]\n";
    let world = World::with(settings(&[(key, rule)])).await;
    let maps = [("quiet", "true"), ("loud", "false")];
    for (name, ignores) in maps {
        let annotations = json!({"argocd.argoproj.io/ignore-resource-updates": ignores});
        let metadata = json!({"name": name, "namespace": "web", "annotations": annotations});
        world.create("v1", "ConfigMap", &json!({"metadata": metadata})).await;
        world.write(&format!("app/{name}.json"), &config_map(name, "1", &[]));
    }
    world.commit();
    world.create_app(&world.application("app", "app")).await;
    let is_compared = |app: &Value| row(app, "quiet")["status"] == "OutOfSync";
    world.until("app", "compared", is_compared).await;
    world.rest().await;
    let urls = |app: &Value| app["status"]["summary"]["externalURLs"].clone();
    let link = |name: &str| {
        let url = format!("https://{name}.example.com");
        json!({"metadata": {"annotations": {LINK: url}}})
    };
    world.drift(("v1", "ConfigMap"), "quiet", "x", link("quiet")).await;
    world.rest().await;
    assert_eq!(urls(&world.app("app").await), Value::Null, "it was not compared");
    world.drift(("v1", "ConfigMap"), "loud", "x", link("loud")).await;
    let both = json!(["https://loud.example.com", "https://quiet.example.com"]);
    world.until("app", "compared with all fields", |app| urls(app) == both).await;
}

/// SE-605: defaults of a definition are no difference, also where the manifest has an explicit
/// null, and lists merge by the keys that it names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_definitions_are_no_difference_se_605() {
    let world = World::start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 3},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                }},
            },
        },
    }}}});
    let definition = json!({
        "metadata": {"name": "toys.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Toy", "plural": "toys", "singular": "toy"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    let spec = json!({"spec": {"size": null, "ports": [{"port": 1}, {"port": 2}]}});
    world.write("app/one.json", &custom("Toy", "one", spec));
    world.synced_app(json!({})).await;
    let toy = world.get("example.com/v1", "Toy", "web", "one").await;
    assert_eq!(toy["spec"]["size"], 3, "the server sets it");
    let ports = json!({"spec": {"ports": [{"port": 2}, {"port": 1}]}});
    world.drift(("example.com/v1", "Toy"), "one", "sorter", ports).await;
    world.refresh("app").await;
    let app = world.app("app").await;
    assert_eq!(row(&app, "one")["status"], "Synced", "another order: {}", app["status"]);
    // A null leaves the field to others (SE-162).
    world.drift(("example.com/v1", "Toy"), "one", "x", json!({"spec": {"size": 4}})).await;
    world.refresh("app").await;
    let app = world.app("app").await;
    assert_eq!(row(&app, "one")["status"], "Synced", "another value: {}", app["status"]);
    let ports = json!({"spec": {"ports": [{"port": 2, "protocol": "UDP"}, {"port": 1}]}});
    world.drift(("example.com/v1", "Toy"), "one", "x", ports).await;
    world.refresh("app").await;
    let app = world.until_row("one", "OutOfSync").await;
    assert_eq!(row(&app, "one")["status"], "OutOfSync", "another protocol: {}", app["status"]);
}

/// SE-172: what pointers name at the edges, each with a change of a live object. A malformed one
/// is named in a warning, has the effect that it has in Argo CD, and stops no sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pointers_name_what_they_name_in_argo_cd_as_se_172() {
    let world = World::start().await;
    world.define("Widget").await;
    let (list, other) = (json!({"list": [1, 2]}), "OutOfSync");
    let (first, last) = (json!({"list": [9, 2]}), json!({"list": [1, 9]}));
    let inner = |value: u64| json!({"list": [{"b": 1}, {"b": value, "c": 3}]});
    let one = |field: &str, value: u64| json!({ field: value });
    let begins = "starts with '/', such as /spec/replicas";
    let escapes = "any other '~' is read as itself";
    // Pointer, applied spec, changed spec, status, and what a warning says.
    let rows: [(&str, Value, Value, &str, Option<&str>); 20] = [
        ("/spec/a", one("a", 1), one("a", 2), "Synced", None),
        ("/spec/no/such/0/place", one("a", 1), one("a", 2), other, None),
        ("/spec/a~1b", one("a/b", 1), one("a/b", 2), "Synced", None),
        ("/spec/a~01b", one("a~1b", 1), one("a~1b", 2), "Synced", None),
        ("/spec/", one("", 1), one("", 2), "Synced", None),
        ("/spec/list/0", list.clone(), first.clone(), "Synced", None),
        ("/spec/list/0", list.clone(), last.clone(), other, None),
        ("/spec/list/2", list.clone(), last.clone(), other, None),
        ("/spec/list/-1", list.clone(), last.clone(), "Synced", None),
        ("/spec/list/-2", list.clone(), first.clone(), "Synced", None),
        ("/spec/list/-1", list.clone(), first, other, None),
        ("/spec/list/-1/b", inner(1), inner(2), "Synced", None),
        ("/spec/list/-3", list.clone(), last.clone(), other, None),
        ("/spec/list/-", list.clone(), last, other, None),
        ("", one("a", 1), one("a", 2), other, Some(begins)),
        ("spec", one("a", 1), one("a", 2), other, Some(begins)),
        ("spec/a", one("a", 1), one("a", 2), other, Some(begins)),
        ("#/spec/a", one("a", 1), one("a", 2), "Synced", Some(begins)),
        ("/spec/a~b", one("a~b", 1), one("a~b", 2), "Synced", Some(escapes)),
        ("/spec/a~", one("a~", 1), one("a~", 2), "Synced", Some(escapes)),
    ];
    let name = |index: usize| format!("row-{index}");
    let mut rules = Vec::new();
    for (index, (pointer, applied, ..)) in rows.iter().enumerate() {
        let widget = custom("Widget", &name(index), json!({ "spec": applied }));
        world.write(&format!("app/{index}.json"), &widget);
        rules.push(json!({
            "group": "example.com", "kind": "Widget", "name": name(index),
            "jsonPointers": [pointer],
        }));
    }
    world.commit();
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] = json!(rules);
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_until_good(&app).await;
    for (index, (_, _, changed, ..)) in rows.iter().enumerate() {
        let changed = json!({ "spec": changed });
        world.drift(("example.com/v1", "Widget"), &name(index), "other", changed).await;
    }
    world.refresh("app").await;
    let is_seen = |app: &Value| {
        let mut all = rows.iter().enumerate();
        all.all(|(index, (.., status, _))| row(app, &name(index))["status"] == *status)
    };
    let app = world.until("app", "compared with all changes", is_seen).await;
    for (index, (pointer, _, changed, status, warning)) in rows.iter().enumerate() {
        let row = row(&app, &name(index));
        assert_eq!(row["status"], *status, "{pointer:?}: {changed}");
        let place = format!("spec.ignoreDifferences[{index}].jsonPointers[0]: {pointer:?}: ");
        match warning {
            Some(text) => assert!(
                condition(&app, "SyncWarning", &place) && condition(&app, "SyncWarning", text),
                "{pointer:?}: {}",
                app["status"]["conditions"]
            ),
            None => assert!(!condition(&app, "SyncWarning", &place), "{pointer:?}"),
        }
    }
    assert!(!condition(&app, "ComparisonError", ""), "{}", app["status"]["conditions"]);
}

/// SE-170: names of fields are found in any case, and unknown ones stop nothing, as in Argo CD.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_rules_in_the_settings_are_found_in_any_case_as_se_170() {
    let key = format!("{IGNORE}.ConfigMap");
    let text = "JSONPointers: [/data/value]\njsonPaths: [/data]\n";
    let world = World::with(settings(&[(&*key, text)])).await;
    world.commit_file("app/map.json", &config_map("map", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    world.drift(("v1", "ConfigMap"), "map", "x", json!({"data": {"value": "2"}})).await;
    world.refresh("app").await;
    let app = world.app("app").await;
    assert_eq!(row(&app, "map")["status"], "Synced", "{}", app["status"]);
    let warning = format!("{key}: unknown field jsonPaths");
    assert!(condition(&app, "SyncWarning", &warning), "{}", app["status"]["conditions"]);
}

/// A null in the manifest of a custom resource leaves the field to its controller: no difference,
/// and a sync takes nothing away. A field that had a value before is taken away once (SE-162).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_null_in_a_custom_resource_takes_nothing_away_se_162() {
    let world = World::start().await;
    world.define("Widget").await;
    let widget = |spec: Value| custom("Widget", "one", json!({ "spec": spec }));
    let nulls = json!({"size": 1, "host": null, "tls": {"secret": null, "mode": "x"}});
    world.write("app/one.json", &widget(nulls));
    world.synced_app(json!({})).await;
    world.patch("app", json!({"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}})).await;
    let kind = ("example.com/v1", "Widget");
    for host in ["first", "second"] {
        let set = json!({"spec": {"host": host, "tls": {"secret": "made"}}});
        world.drift(kind, "one", "controller", set.clone()).await;
        world.refresh("app").await;
        let app = world.until_row("one", "Synced").await;
        assert_eq!(app["status"]["sync"]["status"], "Synced", "{}", app["status"]);
        let live = world.get(kind.0, kind.1, "web", "one").await;
        assert_eq!(live["spec"]["host"], host, "{live}");
        assert_eq!(live["spec"]["tls"], json!({"secret": "made", "mode": "x"}), "{live}");
    }
    // A sync of another change leaves it, too.
    let nulls = json!({"size": 2, "host": null, "tls": {"secret": null, "mode": "y"}});
    world.commit_file("app/one.json", &widget(nulls));
    world.refresh("app").await;
    until("it is applied", async || {
        world.get(kind.0, kind.1, "web", "one").await["spec"]["size"] == 2
    })
    .await;
    let live = world.get(kind.0, kind.1, "web", "one").await;
    let want = json!({"size": 2, "host": "second", "tls": {"secret": "made", "mode": "y"}});
    assert_eq!(live["spec"], want);

    world.commit_file("app/one.json", &widget(json!({"size": null, "host": null})));
    world.refresh("app").await;
    until("what was applied is taken away", async || {
        let live = world.get(kind.0, kind.1, "web", "one").await;
        live["spec"]["size"].is_null() && live["spec"]["tls"]["mode"].is_null()
    })
    .await;
    let live = world.get(kind.0, kind.1, "web", "one").await;
    assert_eq!(live["spec"]["host"], "second", "{live}");
    world.until_row("one", "Synced").await;
}

/// `RespectIgnoreDifferences` takes nothing from a container that the cluster does not have yet
/// (SE-331).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_container_keeps_what_is_ignored_in_others_se_331() {
    let world = World::start().await;
    let container = |name: &str, cpu: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}});
    let web = |containers: Value| {
        let mut web: Value = serde_json::from_str(&deployment("web", &[])).unwrap();
        web["spec"]["template"]["spec"]["containers"] = containers;
        web.to_string()
    };
    let revision = world.commit_file("app/web.json", &web(json!([container("a", "1")])));
    let rule = ".spec.template.spec.containers[].resources";
    let spec = json!({"ignoreDifferences": [
        {"group": "apps", "kind": "Deployment", "jqPathExpressions": [rule]}]});
    world.create_with("app", "app", json!({ "spec": spec })).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    let set = json!({"spec": {"template": {"spec": {"containers": [container("a", "3")]}}}});
    world.drift(("apps/v1", "Deployment"), "web", "scaler", set).await;

    let both = json!([container("new", "2"), container("a", "1")]);
    let revision = world.commit_file("app/web.json", &web(both));
    let options = json!(["RespectIgnoreDifferences=true"]);
    let app = world.sync_to_end("app", json!({"revision": revision, "syncOptions": options})).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let live = world.get("apps/v1", "Deployment", "web", "web").await;
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let cpu = |name: &str| {
        let found = containers.iter().find(|container| container["name"] == name).unwrap();
        found["resources"]["requests"]["cpu"].clone()
    };
    assert_eq!((cpu("a"), cpu("new")), ("3".into(), "2".into()), "{containers:?}");
}

/// SE-178: what comparisons ignore is ignored in changes, too, unless the settings say otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comparisons_ignore_causes_none_unless_it_is_switched_off_se_178() {
    const LINK: &str = "link.argocd.argoproj.io/a";
    let key = format!("{IGNORE}.ConfigMap");
    let rule = "jsonPointers: [/metadata/annotations/link.argocd.argoproj.io~1a]\n";
    for (option, is_compared) in [(None, false), (Some("true"), false), (Some("false"), true)] {
        let text = option.map(|on| format!("ignoreDifferencesOnResourceUpdates: {on}\n"));
        let mut keys = vec![(&*key, rule)];
        keys.extend(text.as_deref().map(|text| ("resource.compareoptions", text)));
        let world = World::with(settings(&keys)).await;
        world.write("app/map.json", &config_map("map", "1", &[]));
        world.synced_app(json!({})).await;
        world.rest().await;
        let link = json!({"metadata": {"annotations": {LINK: "https://a.example.com"}}});
        world.drift(("v1", "ConfigMap"), "map", "x", link).await;
        let urls = |app: &Value| app["status"]["summary"]["externalURLs"].clone();
        let is_shown = |app: &Value| urls(app) == json!(["https://a.example.com"]);
        if !is_compared {
            world.rest().await;
            assert_eq!(urls(&world.app("app").await), Value::Null, "{option:?}");
            // It is known, and was not compared.
            world.refresh("app").await;
        }
        world.until("app", &format!("compared: {option:?}"), is_shown).await;
    }
}
