//! Annotations and statuses; what is simulated is tested together with what reads it, in the
//! tests of the workspace.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::WorkloadOptions;
use super::outcome::{self, Outcome};
use super::view::View;

/// A Deployment as an API server holds it after its creation.
fn deployment(spec: Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop", "uid": "6e0f", "generation": 1 },
        "spec": spec,
    }))
    .unwrap()
}

#[test]
fn outcome_and_delay_come_from_the_object_then_its_template_then_the_options() {
    let options = WorkloadOptions {
        fail: ["broken".to_owned()].into(),
        delay: std::time::Duration::from_secs(9),
        ..WorkloadOptions::default()
    };
    let outcome_of = |value: &str| json!({ "simulate.wavegate.dev/outcome": value });
    let tracking = json!({ "argocd.argoproj.io/tracking-id": "broken:apps/Deployment:shop/web" });
    let elsewhere =
        json!({ "argocd.argoproj.io/tracking-id": "team_broken:apps/Deployment:shop/web" });
    let (fail, succeed) = (outcome_of("fail"), outcome_of("succeed"));
    let none = json!({});
    let label = |name: &str| json!({ "app.kubernetes.io/instance": name });
    // (what, annotations, annotations of the template, labels, want)
    let cases = [
        ("nothing", &none, &none, none.clone(), Outcome::Succeed),
        ("its own", &fail, &none, none.clone(), Outcome::Fail),
        ("hang", &outcome_of("hang"), &none, none.clone(), Outcome::Hang),
        ("its template's", &none, &fail, none.clone(), Outcome::Fail),
        ("its own before its template's", &succeed, &fail, none.clone(), Outcome::Succeed),
        ("a word that is none", &outcome_of("explode"), &none, none.clone(), Outcome::Succeed),
        ("the Application by annotation", &tracking, &none, none.clone(), Outcome::Fail),
        ("the Application in another namespace", &elsewhere, &none, none.clone(), Outcome::Fail),
        ("the Application by label", &none, &none, label("broken"), Outcome::Fail),
        ("another Application", &none, &none, label("fine"), Outcome::Succeed),
        (
            "an annotation before the Application",
            &succeed,
            &none,
            label("broken"),
            Outcome::Succeed,
        ),
        ("tracking before the label", &tracking, &none, label("fine"), Outcome::Fail),
    ];
    for (what, own, template, labels, want) in cases {
        let mut web =
            deployment(json!({ "template": { "metadata": { "annotations": template } } }));
        web.metadata.annotations = serde_json::from_value(own.clone()).unwrap();
        web.metadata.labels = serde_json::from_value(labels).unwrap();
        assert_eq!(outcome::outcome(&View::new(&web), &options), want, "{what}");
    }
    for (text, want) in
        [("2s", 2000), ("300ms", 300), ("1m30s", 90_000), ("0s", 0), ("-1s", 9000), ("soon", 9000)]
    {
        let mut web = deployment(json!({}));
        web.metadata.annotations =
            Some([("simulate.wavegate.dev/delay".to_owned(), text.to_owned())].into());
        assert_eq!(outcome::delay(&View::new(&web), &options).as_millis(), want, "{text}");
    }
}

#[test]
fn a_status_says_a_patch_when_it_holds_all_of_it() {
    let cases = [
        (json!({ "a": 1, "b": 2 }), json!({ "a": 1 }), true),
        (json!({ "a": 1 }), json!({ "a": 2 }), false),
        (json!({}), json!({ "a": null }), true),
        (json!({ "a": 1 }), json!({ "a": null }), false),
        (json!({}), json!({ "a": 0 }), true),
        (json!({}), json!({ "a": 1 }), false),
        (json!({ "a": [{ "x": 1, "y": 2 }] }), json!({ "a": [{ "x": 1 }] }), true),
        (json!({ "a": [1, 2] }), json!({ "a": [1] }), false),
        (json!({ "a": { "b": { "c": 1 } } }), json!({ "a": { "b": { "c": 2 } } }), false),
        (Value::Null, json!({}), false),
    ];
    for (status, patch, want) in cases {
        assert_eq!(outcome::says(&status, &patch), want, "{status} says {patch}");
    }
}
