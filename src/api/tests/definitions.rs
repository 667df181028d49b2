use std::path::Path;

use serde_json::{Value, json};

use super::super::crds;

/// Compares the committed definitions with the types. With
/// `WAVEGATE_REGENERATE=1` in the environment it writes them instead.
#[test]
fn crds_are_current() {
    let root = Path::new(file!()).ancestors().nth(4).unwrap();
    let committed = [
        include_str!("../../../crds/applicationset.yaml"),
        include_str!("../../../crds/application.yaml"),
        include_str!("../../../crds/appproject.yaml"),
    ];
    for (kind, committed) in crds::KINDS.into_iter().zip(committed) {
        let text = crds::yaml(kind).unwrap();
        if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
            let file = root.join("crds").join(crds::file_name(kind));
            std::fs::write(&file, text).unwrap();
        } else {
            assert!(text == committed, "{kind} is stale: see its first lines");
        }
    }
    let kustomization = include_str!("../../../crds/kustomization.yaml");
    let listed = crate::yaml::value(kustomization).unwrap()["resources"].clone();
    assert_eq!(listed, json!(crds::KINDS.map(crds::file_name)));
}

/// `kubectl apply` keeps a copy in an annotation of at most 262,144 bytes.
#[test]
fn definitions_stay_small_enough_for_kubectl_apply() {
    for (kind, crd) in crds::KINDS.into_iter().zip(crds::all()) {
        let size = serde_json::to_vec(&crd).unwrap().len();
        println!("{kind}: {size}");
        assert!(size < 250_000, "{kind}: {size} bytes");
    }
}

fn definition(kind: &str) -> Value {
    crate::yaml::value(&crds::yaml(kind).unwrap()).unwrap()
}

fn schema_of(kind: &str) -> Value {
    definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `visit` with every schema below `schema` and its path.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for (keyword, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(child) = schema.get(keyword) {
            walk(child, &format!("{path}{mark}"), visit);
        }
    }
}

/// What a cluster demands of a structural schema, and what we promise on top:
/// nothing is pruned, nothing is defaulted, no format rejects.
#[test]
fn schemas_are_structural_and_lose_nothing() {
    const ALLOWED: [&str; 10] = [
        "additionalProperties",
        "description",
        "enum",
        "items",
        "maxItems",
        "nullable",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
    ];
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    for kind in crds::KINDS {
        let mut objects = 0;
        walk(&schema_of(kind), "", &mut |path, node| {
            if path == ".metadata" {
                // A cluster knows this one itself and accepts nothing else here.
                assert_eq!(*node, json!({"type": "object"}));
                return;
            }
            for keyword in node.as_object().unwrap().keys() {
                let known = ALLOWED.contains(&keyword.as_str()) || keyword == PRESERVE;
                assert!(known, "{kind}{path}: {keyword}");
            }
            let preserves = node[PRESERVE] == json!(true);
            match node["type"].as_str() {
                None => {
                    let mixed = node["x-kubernetes-int-or-string"] == json!(true);
                    assert!(preserves || mixed, "{kind}{path}: no type");
                    assert!(node.get("properties").is_none(), "{kind}{path}");
                }
                Some("object") => {
                    objects += 1;
                    let is_map = node.get("additionalProperties").is_some();
                    assert!(preserves != is_map, "{kind}{path}: loses fields");
                    assert!(!is_map || node.get("properties").is_none(), "{kind}{path}");
                }
                Some("array") => assert!(node["items"].is_object(), "{kind}{path}: no items"),
                Some(other) => {
                    assert!(["string", "integer", "boolean"].contains(&other), "{kind}{path}");
                    assert!(!preserves, "{kind}{path}: preserves fields of a {other}");
                }
            }
            let required = node["required"].as_array().cloned().unwrap_or_default();
            for name in &required {
                let property = &node["properties"][name.as_str().unwrap()];
                assert!(property.is_object(), "{kind}{path}: requires unknown {name}");
            }
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                let is_required = required.iter().any(|required| required == name);
                let implicit = path.is_empty();
                let nullable = property["nullable"] == json!(true);
                // "" must not be taken for a forbidden null.
                let is_required = is_required && property["type"] != json!("string");
                assert!(implicit || is_required != nullable, "{kind}{path}.{name}: null");
                let described =
                    property["description"].is_string() || path.contains("generators[].m");
                assert!(implicit || described, "{kind}{path}.{name}: no description");
            }
        });
        assert!(objects > 10, "{kind}: only {objects} objects were seen");
    }
}

#[test]
fn names_versions_and_subresources() {
    let cases = [
        // AS-001, SE-001
        ("ApplicationSet", "applicationsets", json!(["appset", "appsets"]), json!({"status": {}})),
        ("Application", "applications", json!(["app", "apps"]), Value::Null),
        ("AppProject", "appprojects", json!(["appproj", "appprojs"]), Value::Null),
    ];
    for (kind, plural, short, subresources) in cases {
        let crd = definition(kind);
        assert_eq!(crd["metadata"]["name"], format!("{plural}.argoproj.io"));
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
            "singular": kind.to_lowercase(), "shortNames": short,
        });
        assert_eq!(crd["spec"]["names"], names);
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(version["subresources"], subresources, "{kind}");
    }
}

#[test]
fn what_is_required_is_what_the_peer_requires() {
    let cases = [
        ("ApplicationSet", "", json!(["metadata", "spec"])),
        ("ApplicationSet", ".spec", json!(["generators", "template"])),
        ("ApplicationSet", ".spec.template", json!(["metadata", "spec"])),
        ("ApplicationSet", ".spec.template.spec", json!(["destination", "project"])),
        ("ApplicationSet", ".spec.template.metadata", Value::Null),
        ("ApplicationSet", ".spec.generators[]", Value::Null),
        ("ApplicationSet", ".spec.generators[].list", Value::Null),
        ("ApplicationSet", ".spec.generators[].list.template", json!(["metadata", "spec"])),
        ("ApplicationSet", ".spec.generators[].git", json!(["repoURL", "revision"])),
        ("ApplicationSet", ".spec.generators[].matrix", json!(["generators"])),
        ("ApplicationSet", ".spec.generators[].merge", json!(["generators", "mergeKeys"])),
        (
            "ApplicationSet",
            ".spec.generators[].merge.generators[].git",
            json!(["repoURL", "revision"]),
        ),
        ("ApplicationSet", ".spec.strategy", Value::Null),
        ("ApplicationSet", ".status.conditions[]", json!(["message", "reason", "status", "type"])),
        (
            "ApplicationSet",
            ".status.applicationStatus[]",
            json!(["application", "message", "status", "step", "targetRevisions"]),
        ),
        ("ApplicationSet", ".status.resources[]", Value::Null),
        ("Application", "", json!(["metadata", "spec"])),
        ("Application", ".spec", json!(["destination", "project"])),
        ("Application", ".spec.ignoreDifferences[]", json!(["kind"])),
        ("Application", ".operation", Value::Null),
        ("AppProject", ".spec", Value::Null),
    ];
    for (kind, wanted, expected) in cases {
        let mut seen = None;
        walk(&schema_of(kind), "", &mut |path, node| {
            if path == wanted {
                seen = Some(node["required"].clone());
            }
        });
        assert_eq!(seen, Some(expected), "{kind}{wanted}");
    }
}

/// AS-004: children of matrix and merge are generators, whose own matrix and
/// merge are open; AS-005: elements are open.
#[test]
fn nested_generators_end_in_open_schemas() {
    let open = json!({"nullable": true, "x-kubernetes-preserve-unknown-fields": true});
    let schema = schema_of("ApplicationSet");
    let top = &schema["properties"]["spec"]["properties"]["generators"]["items"]["properties"];
    for outer in ["matrix", "merge"] {
        let nested = &top[outer]["properties"]["generators"]["items"]["properties"];
        for inner in ["matrix", "merge"] {
            assert_eq!(nested[inner], open);
        }
        assert_eq!(
            nested["git"]["properties"]["revision"],
            json!({"nullable": true, "type": "string"})
        );
    }
    let elements = &top["list"]["properties"]["elements"]["items"];
    assert_eq!(*elements, json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
}

#[test]
fn every_column_reads_a_field_that_exists() {
    for kind in crds::KINDS {
        let mut paths = vec![".metadata.creationTimestamp".to_owned()];
        walk(&schema_of(kind), "", &mut |path, _| paths.push(path.replace("[]", "[*]")));
        for column in
            definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap()
        {
            let path = column["jsonPath"].as_str().unwrap();
            assert!(paths.iter().any(|known| known == path), "{kind}: {path}");
        }
    }
}
