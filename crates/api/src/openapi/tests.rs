//! Objects and their schemas.

use serde_json::{Value, json};

use super::{Document, in_words};

fn v2() -> Document {
    let document = json!({
        "swagger": "2.0",
        "paths": {"/api": {"get": {"responses": {}}}},
        "definitions": {
            "io.k8s.api.core.v1.Service": {
                "description": "prose",
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                    "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
                    "spec": {"$ref": "#/definitions/io.k8s.api.core.v1.ServiceSpec"},
                    "status": {"$ref": "#/definitions/io.k8s.api.core.v1.ServiceSpec"},
                },
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Service"}],
            },
            "io.k8s.api.core.v1.ServiceSpec": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"type": "string"},
                    "selector": {"type": "object", "additionalProperties": {"type": "string"}},
                    "publish": {"type": "boolean"},
                    "ports": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.ServicePort"}},
                    "limits": {"type": "object", "additionalProperties": {
                        "$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"}},
                },
            },
            "io.k8s.api.core.v1.ServicePort": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer", "format": "int32"},
                    "targetPort": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
                },
            },
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
            "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
            },
        },
    });
    Document::read(document.to_string().as_bytes()).unwrap()
}

fn service(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn errors_have_the_messages_of_kubectl() {
    let spec = "io.k8s.api.core.v1.ServiceSpec";
    let cases = [
        ("well", json!({"type": "a", "ports": [{"port": 80, "targetPort": "x"}]}), vec![]),
        ("loose", json!({"type": "a", "limits": {"cpu": 1, "memory": "1Gi"}}), vec![]),
        ("null is absent", json!({"type": "a", "ports": null, "other": null}), vec![]),
        (
            "a typo",
            json!({"type": "a", "prots": []}),
            vec![format!("ValidationError(Service.spec): unknown field \"prots\" in {spec}")],
        ),
        (
            "missing",
            json!({}),
            vec![format!(
                "ValidationError(Service.spec): missing required field \"type\" in {spec}"
            )],
        ),
        (
            "wrong types",
            json!({"type": 5, "ports": [{"port": "80"}], "selector": {"a": true}, "publish": "no"}),
            vec![
                format!(
                    "ValidationError(Service.spec.ports[0].port): invalid type for io.k8s.api.core.v1.ServicePort.port: got \"string\", expected \"integer\""
                ),
                format!(
                    "ValidationError(Service.spec.publish): invalid type for {spec}.publish: got \"string\", expected \"boolean\""
                ),
                format!(
                    "ValidationError(Service.spec.selector.a): invalid type for {spec}.selector: got \"boolean\", expected \"string\""
                ),
                format!(
                    "ValidationError(Service.spec.type): invalid type for {spec}.type: got \"integer\", expected \"string\""
                ),
            ],
        ),
        (
            "a list for a map",
            json!({"type": "a", "selector": []}),
            vec![format!(
                "ValidationError(Service.spec.selector): invalid type for {spec}.selector: got \"array\", expected \"map\""
            )],
        ),
    ];
    for (name, spec, want) in cases {
        let mut got = v2().check(&service(spec));
        got.sort();
        assert_eq!(got, want, "{name}");
    }
    let mut with_status = service(json!({"type": "a"}));
    with_status["status"] = json!({"nobody": "looks"});
    assert_eq!(v2().check(&with_status), Vec::<String>::new());
    let other = json!({"apiVersion": "v1", "kind": "Other", "x": 1});
    assert_eq!(v2().check(&other), Vec::<String>::new(), "kinds without a schema are allowed");
    let refusal = in_words(&["a".into(), "b".into()]);
    assert!(refusal.starts_with("error validating data: [a, b]; if you choose"), "{refusal}");
}

#[test]
fn a_document_of_version_3_wraps_its_references() {
    let document = json!({"components": {"schemas": {
        "T": {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "spec": {"default": {}, "allOf": [{"$ref": "#/components/schemas/S"}]},
            },
            "x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "T"}],
        },
        "S": {"type": "object", "properties": {
            "a": {"type": "string"},
            "b": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        }},
    }}});
    let document = Document::read(document.to_string().as_bytes()).unwrap();
    assert!(document.is_any());
    let check = |spec: Value| {
        let object = json!({"apiVersion": "g/v1", "kind": "T", "spec": spec});
        document.check(&object).len()
    };
    assert_eq!(check(json!({"a": "x", "b": 5})), 0);
    assert_eq!(check(json!({"c": "x"})), 1);
}

#[test]
fn a_custom_resource_definition_is_a_schema() {
    let definition = json!({"spec": {
        "group": "example.com", "names": {"kind": "Widget"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "required": ["spec"],
            "properties": {"spec": {
                "type": "object", "required": ["size", "color"],
                "properties": {
                    "size": {"x-kubernetes-int-or-string": true},
                    "color": {"type": "string", "default": "red"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"known": {"type": "boolean"}}},
                },
            }},
        }}}],
    }});
    let document = Document::of_definition(&definition);
    let check = |spec: Value| {
        let metadata = json!({"name": "a", "labels": {"x": "y"}});
        document.check(&json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec,
        }))
    };
    assert_eq!(check(json!({"size": "5"})), Vec::<String>::new(), "defaults are filled in");
    assert_eq!(check(json!({"size": 1, "free": {"known": true, "x": [1]}})), Vec::<String>::new());
    assert_eq!(
        check(json!({"size": 1, "shape": 5, "free": {"known": 5}})),
        [
            "ValidationError(Widget.spec.free.known): invalid type for com.example.v1.Widget.spec.free.known: got \"integer\", expected \"boolean\"",
            "ValidationError(Widget.spec): unknown field \"shape\" in com.example.v1.Widget.spec",
        ]
    );
}
