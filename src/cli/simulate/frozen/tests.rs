use gotemplate::go::{Env, Random};

use super::*;
use wavegate_rollout::desired::generate;
use wavegate_rollout::desired::inputs::Inputs;

/// Returns the same bytes forever.
struct Same;

impl Random for Same {
    fn fill(&mut self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

fn generated(set: &Value) -> Vec<Value> {
    let now = "2026-01-02T12:00:00Z".parse().unwrap();
    let mut env = Env::new(now, Box::new(Same), wavegate_net::clock::thread_time);
    generate(set, &Inputs::default(), &mut env).unwrap().applications
}

/// A set in the language of Go, with these fields in the spec of its template.
fn set(elements: Value, spec: Value, patch: Option<&str>) -> Value {
    let mut set = json!({
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {
                    "name": "shop-{{ .id }}",
                    "labels": {"env": "{{ .env }}", "team": "web"},
                },
                "spec": spec,
            },
        },
    });
    set["spec"]["template"]["spec"]["project"] = "default".into();
    set["spec"]["template"]["spec"]["destination"] =
        json!({"server": IN_CLUSTER_SERVER, "namespace": "shop-{{ .id }}"});
    if let Some(patch) = patch {
        set["spec"]["templatePatch"] = patch.into();
    }
    set
}

#[test]
fn a_frozen_set_generates_the_same() {
    let two = || json!([{"id": "a", "env": "dev"}, {"id": "b", "env": "prod"}]);
    let path = json!({"repoURL": "https://example.com/a", "path": "{{ .env }}/{{ .id }}"});
    let values = "{{ `{{ .Values.image }} \"quoted\" }}` }}";
    let helm =
        json!({"repoURL": "https://example.com/a", "chart": "web", "helm": {"values": values}});
    let sources = json!([path, {"repoURL": "https://example.com/b", "ref": "values"}]);
    let lists = "spec:\n  syncPolicy:\n    syncOptions:\n{{ if eq .env \"dev\" }}    - A=true\n{{ end }}    - B=true\n";
    let shapes = "{{ if eq .env \"dev\" }}spec: {revisionHistoryLimit: 3}{{ end }}";
    let keys = "metadata: {annotations: {'{{ \"{{\" }}': '{{ .env }}'}}";
    let one = json!([{"id": "a", "env": "dev"}]);
    // The set, how many parameters it has beside the name, and whether it needs a patch.
    for (name, set, parameters, is_patched) in [
        ("a path", set(two(), json!({"source": path}), None), 2, false),
        ("a text that is a template itself", set(two(), json!({"source": helm}), None), 1, false),
        ("several sources", set(two(), json!({"sources": sources}), None), 2, false),
        ("lists of another length", set(two(), json!({"source": path}), Some(lists)), 2, true),
        ("a field of one of them", set(two(), json!({"source": path}), Some(shapes)), 2, true),
        ("a key that is a template", set(two(), json!({"source": path}), Some(keys)), 2, true),
        ("one alone", set(one, json!({"source": path}), None), 0, false),
    ] {
        let applications = generated(&set);
        let frozen = frozen(set, &applications);
        assert_eq!(generated(&frozen), applications, "{name}: {frozen:#}");
        let first = frozen["spec"]["generators"][0]["list"]["elements"][0].as_object().unwrap();
        let found = first.keys().filter(|key| *key != "name" && *key != "patch").count();
        assert_eq!(
            (found, first.get("patch").is_some()),
            (parameters, is_patched),
            "{name}: {frozen:#}"
        );
        assert_eq!(frozen["spec"].get("templatePatch").is_some(), is_patched, "{name}");
    }
}

#[test]
fn a_set_that_generates_nothing_has_what_is_required() {
    let set = set(json!([]), json!({}), Some("{{ .patch }}"));
    let frozen = frozen(set, &[]);
    assert!(generated(&frozen).is_empty());
    let spec = &frozen["spec"]["template"]["spec"];
    assert_eq!(
        (&spec["project"], &spec["destination"]["server"]),
        (&json!("default"), &json!(IN_CLUSTER_SERVER))
    );
}

/// Each of 20,000 was a patch of 560 bytes: 11 MB, which no API server stores.
#[test]
fn a_large_set_stays_small() {
    let elements =
        (0..2000).map(|number| json!({"id": format!("{number:05}"), "env": "production"}));
    let source =
        json!({"repoURL": "https://example.com/a", "path": "guestbook", "targetRevision": "HEAD"});
    let policy = json!({"syncOptions": ["CreateNamespace=true"], "retry": {"limit": 3}});
    let spec = json!({"source": source, "syncPolicy": policy});
    let set = set(elements.collect(), spec, None);
    let applications = generated(&set);
    let text = frozen(set, &applications).to_string();
    assert!(text.len() < 2000 * 30, "{}", text.len());
}
