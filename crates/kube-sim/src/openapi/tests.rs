use super::*;
use crate::builtin;

fn kinds() -> Registry {
    let mut registry = Registry::default();
    builtin::register(&mut registry);
    registry
}

#[test]
fn every_built_in_kind_has_a_schema_without_loose_ends() {
    let registry = kinds();
    let all: Vec<Arc<Kind>> = registry.iter().cloned().collect();
    for (version, prefix) in
        [(Version::V2, "#/definitions/"), (Version::V3, "#/components/schemas/")]
    {
        let schemas = definitions(&all, version);
        for kind in &all {
            let wanted = json!([gvk(kind)]);
            let found =
                schemas.values().filter(|s| s["x-kubernetes-group-version-kind"] == wanted).count();
            assert_eq!(found, 1, "{} {}", kind.api_version(), kind.kind);
        }
        let mut references = Vec::new();
        schemas.values().for_each(|schema| find_references(schema, &mut references));
        assert!(references.len() > 500);
        for reference in references {
            let name = reference.strip_prefix(prefix).unwrap_or_else(|| panic!("{reference}"));
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}

fn find_references<'a>(schema: &'a Value, out: &mut Vec<&'a str>) {
    match schema {
        Value::Object(map) => {
            out.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|child| find_references(child, out));
        }
        Value::Array(list) => list.iter().for_each(|child| find_references(child, out)),
        _ => {}
    }
}

#[test]
fn nothing_stands_beside_a_reference_in_version_3() {
    let all: Vec<Arc<Kind>> = kinds().iter().filter(|k| k.group == "apps").cloned().collect();
    let schemas = definitions(&all, Version::V3);
    let spec = &schemas["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"];
    assert_eq!(
        spec["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}])
    );
    assert!(spec["description"].is_string(), "{spec}");
}
