use std::path::Path;

use serde_json::{Value, json};

use super::super::{crds, policy, run};

/// Compares the committed definitions with the types. With the environment variable
/// `WAVEGATE_REGENERATE=1` it writes them instead.
#[test]
fn crds_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = [
        include_str!("../../../../crds/applicationset.yaml"),
        include_str!("../../../../crds/application.yaml"),
        include_str!("../../../../crds/appproject.yaml"),
        include_str!("../../../../crds/rolloutpolicy.yaml"),
        include_str!("../../../../crds/rolloutrun.yaml"),
    ];
    for (kind, committed) in crds::KINDS.into_iter().zip(committed) {
        let text = crds::definition_yaml(kind).unwrap();
        if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
            let file = root.join("crds").join(crds::file_name(kind));
            std::fs::write(&file, text).unwrap();
        } else {
            assert!(text == committed, "{kind} is stale: see its first lines");
        }
    }
    let kustomization = include_str!("../../../../crds/kustomization.yaml");
    let listed = crate::yaml::parse_value(kustomization).unwrap()["resources"].clone();
    assert_eq!(listed, json!(crds::KINDS.map(crds::file_name)));
}

/// etcd accepts 1.5 MiB. `kubectl apply` without `--server-side` keeps a copy in an
/// annotation of at most 262,144 bytes, which is too small, as with Argo CD.
#[test]
fn definitions_stay_small_enough_for_etcd() {
    for (kind, crd) in crds::KINDS.into_iter().zip(crds::all_definitions()) {
        let size = serde_json::to_vec(&crd).unwrap().len();
        println!("{kind}: {size}");
        assert!(size < 600_000, "{kind}: {size} bytes");
    }
}

fn definition(kind: &str) -> Value {
    let mut all = crds::raw_definitions().iter();
    all.find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap().clone()
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

/// Requirements of a structural schema, and additional ones: unknown fields are rejected,
/// no defaults, no formats. Only what is open in Argo CD is open (AS-004, AS-005).
#[test]
fn schemas_are_structural_and_closed() {
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
    /// In the specs of our own kinds.
    const STRICT: [&str; 12] = [
        "default",
        "format",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    for (kind, opened) in crds::KINDS.into_iter().zip([82, 16, 0, 0, 0]) {
        let ours = [policy::POLICY, run::RUN].contains(&kind);
        let (mut objects, mut open) = (0, 0);
        walk(&schema_of(kind), "", &mut |path, node| {
            if path == ".metadata" {
                // The API server knows this schema and accepts nothing else here.
                assert_eq!(*node, json!({"type": "object"}));
                return;
            }
            let is_strict = ours && path.starts_with(".spec");
            for keyword in node.as_object().unwrap().keys() {
                let keyword = keyword.as_str();
                let known = ALLOWED.contains(&keyword) || keyword == PRESERVE;
                let known = known || (is_strict && STRICT.contains(&keyword));
                assert!(known, "{kind}{path}: {keyword}");
            }
            let preserves = node[PRESERVE] == json!(true);
            if preserves {
                open += 1;
                assert!(crds::OPEN.iter().any(|end| path.ends_with(end)), "{kind}{path}: open");
                assert!(node.get("properties").is_none(), "{kind}{path}");
            }
            match node["type"].as_str() {
                None => {
                    let mixed = node["x-kubernetes-int-or-string"] == json!(true);
                    assert!(preserves || mixed, "{kind}{path}: no type");
                    assert!(node.get("properties").is_none(), "{kind}{path}");
                }
                Some("object") => {
                    objects += 1;
                    let forms = ["additionalProperties", "properties", PRESERVE];
                    let forms = forms.into_iter().filter(|form| node.get(*form).is_some());
                    assert_eq!(forms.count(), 1, "{kind}{path}: fields, a map, or open");
                }
                Some("array") => assert!(node["items"].is_object(), "{kind}{path}: no items"),
                Some(other) => {
                    assert!(["string", "integer", "boolean"].contains(&other), "{kind}{path}");
                    assert!(!preserves, "{kind}{path}: preserves fields of a {other}");
                }
            }
            // kubectl before 1.25 checks no deeper than a nullable field, and "" must not
            // be treated as a forbidden null.
            let nullable = node["nullable"] == json!(true);
            let text = node["type"] == json!("string")
                && ![".apiVersion", ".kind"].contains(&path)
                && !is_strict;
            assert_eq!(nullable, text, "{kind}{path}: null");
            let required = node["required"].as_array().cloned().unwrap_or_default();
            for name in &required {
                let property = &node["properties"][name.as_str().unwrap()];
                assert!(property.is_object(), "{kind}{path}: requires unknown {name}");
            }
            for (name, property) in node["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                let implicit = !path[1..].contains('.');
                let copied = path.contains("generators[].m") || path.contains(".template.spec");
                let described = property["description"].is_string() || copied;
                assert!(implicit || described, "{kind}{path}: no description");
            }
        });
        assert!(objects > 10, "{kind}: only {objects} objects were seen");
        assert_eq!(open, opened, "{kind}: places that are open");
    }
}

/// All 9,535 fields of Argo CD's definitions, `status.rollout` with its seventeen fields,
/// the names that a project may give for namespaced kinds, and what the sync engine keeps
/// of a running operation: `progress`, `uid`, `resourceVersion` and `since`.
#[test]
fn every_field_of_argo_cd_is_known() {
    let mut fields = 0;
    for kind in &crds::KINDS[..3] {
        walk(&schema_of(kind), "", &mut |_, node| {
            fields += node["properties"].as_object().map_or(0, serde_json::Map::len);
        });
    }
    assert_eq!(fields, 9_535 + 18 + 2 + 4);
    let known = [
        ("Application", ".status.sourceHydrator.currentOperation.sourceHydrator.drySource.helm"),
        ("Application", ".operation.sync.source.kustomize.patches[].target.annotationSelector"),
        ("Application", ".spec.sources[].plugin.parameters[].array"),
        ("Application", ".spec.sourceHydrator.hydrateTo.targetBranch"),
        ("ApplicationSet", ".spec.generators[].scmProvider.awsCodeCommit.tagFilters[].key"),
        ("ApplicationSet", ".spec.generators[].pullRequest.azuredevops.tokenRef.secretName"),
        (
            "ApplicationSet",
            ".spec.generators[].merge.generators[].git.template.spec.source.helm.valuesObject",
        ),
        ("ApplicationSet", ".spec.generators[].matrix.template.spec.syncPolicy.retry.backoff"),
        ("AppProject", ".spec.sourceIntegrity.git.policies[].gpg.keys"),
        ("AppProject", ".spec.roles[].jwtTokens[].exp"),
        ("AppProject", ".status.jwtTokensByRole{}.items[].id"),
    ];
    for (kind, wanted) in known {
        let mut seen = false;
        walk(&schema_of(kind), "", &mut |path, _| seen |= path == wanted);
        assert!(seen, "{kind}{wanted}");
    }
}

#[test]
fn names_versions_and_subresources() {
    let cases = [
        // AS-001, SE-001
        ("ApplicationSet", "applicationsets", json!(["appset", "appsets"]), json!({"status": {}})),
        ("Application", "applications", json!(["app", "apps"]), Value::Null),
        ("AppProject", "appprojects", json!(["appproj", "appprojs"]), Value::Null),
        // ST-001, ST-002
        ("RolloutPolicy", "rolloutpolicies", json!(["rpol"]), json!({"status": {}})),
        ("RolloutRun", "rolloutruns", json!(["rrun"]), json!({"status": {}})),
    ];
    for (kind, plural, short, subresources) in cases {
        let crd = definition(kind);
        let group = if kind.starts_with("Rollout") { "wavegate.dev" } else { "argoproj.io" };
        assert_eq!(crd["metadata"]["name"], format!("{plural}.{group}"));
        assert_eq!(crd["spec"]["group"], group);
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
fn required_fields_are_those_of_argo_cd_and_of_policies_and_runs() {
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
        ("RolloutPolicy", "", json!(["metadata", "spec"])),
        ("RolloutPolicy", ".spec", Value::Null),
        ("RolloutPolicy", ".spec.gates[]", json!(["name"])),
        ("RolloutPolicy", ".spec.deletions", json!(["max"])),
        ("RolloutPolicy", ".spec.notify[]", Value::Null),
        ("RolloutRun", ".spec", json!(["applicationSet"])),
        ("RolloutRun", ".spec.approvals[]", json!(["by", "covers", "gate"])),
        ("RolloutRun", ".spec.retries[]", json!(["at", "by"])),
        ("RolloutRun", ".status", Value::Null),
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
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
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
            let path = path.replace("[?(@.type==\"Valid\")]", "[*]");
            assert!(paths.contains(&path), "{kind}: {path}");
        }
    }
}

/// What people write in our own kinds is bounded at every depth, since the API server estimates
/// the cost of rules from it; and a word of a closed list is one of the type's.
#[test]
fn specs_of_policies_and_runs_are_bounded() {
    let words = [
        ("RolloutPolicy", ".spec.failures.onFailure", json!(policy::OnFailure::WORDS)),
        ("RolloutPolicy", ".spec.failures.baseline", json!(policy::Baseline::WORDS)),
        ("RolloutPolicy", ".spec.notify[].format", json!(policy::Format::WORDS)),
    ];
    let defaults = [
        (".spec.paused", json!(false)),
        (".spec.failures.onFailure", json!("Hold")),
        (".spec.failures.baseline", json!("Count")),
        (".spec.notify[].format", json!("cloudevents")),
        (".spec.pace.ramp.start", json!(1)),
        (".spec.pace.ramp.factor", json!(2)),
    ];
    let (mut enums, mut filled) = (0, Vec::new());
    for kind in [policy::POLICY, run::RUN] {
        walk(&schema_of(kind), "", &mut |path, node| {
            if !path.starts_with(".spec.") {
                return;
            }
            let bounds: &[&str] = match node["type"].as_str() {
                Some("array") => &["maxItems"],
                Some("string") => &["maxLength", "enum", "format"],
                Some("object") if node.get("additionalProperties").is_some() => &["maxProperties"],
                _ => &[],
            };
            let is_bounded = bounds.is_empty() || bounds.iter().any(|one| node.get(*one).is_some());
            assert!(is_bounded, "{kind}{path}: has no bound");
            if let Some((_, _, words)) = words.iter().find(|(of, at, _)| (*of, *at) == (kind, path))
            {
                assert_eq!(node["enum"], *words, "{kind}{path}");
                enums += 1;
            }
            if let Some(default) = node.get("default") {
                filled.push((path.to_owned(), default.clone()));
            }
        });
    }
    assert_eq!(enums, words.len());
    let mut defaults = defaults.map(|(path, value)| (path.to_owned(), value)).to_vec();
    defaults.sort_by(|one, other| one.0.cmp(&other.0));
    filled.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(filled, defaults, "the defaults of the specification, and no other");
}

/// A policy as in the specification, and a run: what the types write, the schema knows.
#[test]
fn policies_and_runs_survive_their_types() {
    let text = "
applicationSets: {matchLabels: {tier: prod}, names: [a]}
paused: true
gates:
- {name: production, applications: {matchLabels: {env: prod}}, steps: [3], approvals: 1, soak: 30m}
failures: {max: 2, onFailure: Rollback, same: 3, deadline: 20m, baseline: Ignore}
pace: {ramp: {start: 2, factor: 3}, spread: {label: region, max: 2}, maxInFlight: 50}
deletions: {max: 10%}
notify: [{url: 'https://hooks.example.com/x', secretRef: {name: hook}, format: slack}]
";
    let spec = crate::yaml::parse_value(text).unwrap();
    let read: policy::RolloutPolicySpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), spec);
    let text = "
applicationSet: shop
approvals: [{gate: production, by: alice, at: '2026-01-01T00:00:00Z', covers: h}]
skip: [a]
abort: {by: bob, at: '2026-01-01T00:00:00Z', terminate: true}
rollback: {by: bob, at: '2026-01-01T00:00:00Z'}
retries: [{by: bob, at: '2026-01-01T00:00:00Z', applications: [a]}]
";
    let spec = crate::yaml::parse_value(text).unwrap();
    let read: run::RolloutRunSpec = serde_json::from_value(spec.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), spec);
}
