//! The health of an Application, from that of its resources.

use super::*;

fn resource(kind: &'static str, name: &'static str, status: Option<Status>) -> Resource<'static> {
    static OBJECT: Value = Value::Null;
    Resource {
        group: "",
        kind,
        namespace: "default",
        name,
        live: Some(&OBJECT),
        health: status.map(|status| Health::new(status, "")),
        hook: false,
        skipped: false,
        self_referenced: true,
        is_the_application: false,
    }
}

fn missing(name: &'static str) -> Resource<'static> {
    Resource { live: None, ..resource("Pod", name, None) }
}

#[test]
fn an_application_has_the_health_of_its_worst_resource() {
    let of = |status| resource("Pod", "p", Some(status));
    let child =
        |status| Resource { group: "argoproj.io", ..resource("Application", "c", Some(status)) };
    let ignored =
        json!({"metadata": {"annotations": {"argocd.argoproj.io/ignore-healthcheck": "true"}}});
    let cases: Vec<(&str, Vec<Resource<'_>>, Status)> = vec![
        ("V-144 suspended", vec![of(Healthy), of(Suspended)], Suspended),
        ("V-144 progressing", vec![of(Healthy), of(Suspended), of(Progressing)], Progressing),
        ("V-144 degraded and missing", vec![of(Degraded), missing("m")], Degraded),
        ("V-145", vec![of(Healthy), missing("m")], Healthy),
        ("V-146", vec![missing("a"), missing("b")], Missing),
        ("V-147", vec![], Healthy),
        ("V-148", vec![Resource { live: Some(&ignored), ..of(Degraded) }], Healthy),
        ("V-153 degraded child", vec![child(Degraded)], Degraded),
        ("V-153 unknown child", vec![child(Unknown)], Healthy),
        ("SE-490 missing child", vec![child(Missing)], Healthy),
        (
            "SE-490 another kind of the group",
            vec![Resource { group: "argoproj.io", ..resource("Rollout", "r", Some(Unknown)) }],
            Unknown,
        ),
        (
            "SE-490 a kind of the name",
            vec![Resource { group: "app.k8s.io", ..resource("Application", "a", Some(Unknown)) }],
            Unknown,
        ),
        ("SE-490 hook", vec![Resource { hook: true, ..of(Degraded) }], Healthy),
        ("SE-492 only a missing hook", vec![Resource { hook: true, ..missing("h") }], Healthy),
        ("SE-490 skip-only", vec![Resource { skipped: true, ..of(Degraded) }], Healthy),
        ("SE-490 itself", vec![Resource { is_the_application: true, ..of(Degraded) }], Healthy),
        ("SE-494 a copy", vec![Resource { self_referenced: false, ..of(Degraded) }], Healthy),
        ("SE-490 no health", vec![resource("ConfigMap", "c", None)], Healthy),
    ];
    for (name, resources, want) in cases {
        assert_eq!(combine_health(&resources).health.status, want, "{name}");
    }
    assert_eq!(combine_health(&[missing("a")]).health.message, "", "V-146");
}

#[test]
fn the_message_names_three_resources_and_counts_the_others() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pods: Vec<_> = names.map(|name| resource("Pod", name, Some(Degraded))).into();
    let combined = combine_health(&pods);
    assert_eq!(
        combined.health.message, "Caused by Pod:default/a, Pod:default/b, Pod:default/c and 5 more",
        "V-149"
    );
    assert_eq!(combined.worst.len(), 8);

    let cluster_scoped = Resource {
        group: "apiextensions.k8s.io",
        namespace: "",
        ..resource("CustomResourceDefinition", "x", Some(Progressing))
    };
    let combined = combine_health(&[resource("Pod", "fine", Some(Healthy)), cluster_scoped]);
    let named = "apiextensions.k8s.io/CustomResourceDefinition:x";
    assert_eq!(combined.health.message, format!("Caused by {named}"), "SE-493");
    assert_eq!(combined.worst, [named]);
}
