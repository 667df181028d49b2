//! Small parts: paths, selectors, JSONPath, durations, schemas, protobuf.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kinds::Registry;
use crate::place::Key;
use crate::request::{Query, ResourcePath, Route, View, route, view};
use crate::schema::Schema;
use crate::selectors::Selectors;
use crate::stored::{Object, Stored};
use crate::{builtin, discovery, jsonpath, protobuf, validate};

fn path(text: &str) -> ResourcePath {
    match route(text) {
        Route::Resource(path) => path,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn paths_are_read() {
    let cases = [
        ("/api/v1/pods", ("", "v1", "pods", "", None, None)),
        ("/api/v1/namespaces", ("", "v1", "namespaces", "", None, None)),
        ("/api/v1/namespaces/a", ("", "v1", "namespaces", "", None, Some("a"))),
        ("/api/v1/namespaces/a/finalize", ("", "v1", "namespaces", "finalize", None, Some("a"))),
        ("/api/v1/namespaces/a/pods/b/status", ("", "v1", "pods", "status", Some("a"), Some("b"))),
        ("/apis/g.io/v2/namespaces/a/things", ("g.io", "v2", "things", "", Some("a"), None)),
        ("/apis/g.io/v2/things/x%3Ay", ("g.io", "v2", "things", "", None, Some("x:y"))),
    ];
    for (text, (group, version, resource, subresource, namespace, name)) in cases {
        let found = path(text);
        assert_eq!(
            (
                found.group.as_str(),
                found.version.as_str(),
                found.resource.as_str(),
                found.subresource.as_str()
            ),
            (group, version, resource, subresource),
            "{text}"
        );
        assert_eq!(
            (found.namespace.as_deref(), found.name.as_deref()),
            (namespace, name),
            "{text}"
        );
    }
    assert_eq!(route("/apis/g.io/v1"), Route::Resources("g.io".into(), "v1".into()));
    assert_eq!(route("/readyz/ping"), Route::Health);
    assert_eq!(route("/api/v1/a/b/c/d"), Route::Unknown);
}

#[test]
fn queries_and_views_are_read() {
    let query = Query::parse(Some("a=1%202&b&c=false&d=&a=ignored"));
    assert_eq!((query.get("a"), query.get("d")), (Some("1 2"), None));
    assert!(query.flag("b") && !query.flag("c") && !query.flag("absent"));
    assert!(Query::parse(Some("limit=x")).number("limit").is_err());
    assert!(Query::parse(Some("dryRun=Some")).dry_run().is_err());
    let cases = [
        ("", View::Object),
        ("application/json", View::Object),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", View::Table),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", View::Object),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", View::Metadata),
    ];
    for (accept, want) in cases {
        assert_eq!(view(accept), want, "{accept}");
    }
}

#[test]
fn selectors_match_as_a_table() {
    let mut registry = Registry::default();
    builtin::register(&mut registry);
    let pods = registry.get("", "v1", "pods").unwrap();
    let pod = json!({
        "metadata": {"name": "p", "labels": {"app": "web", "tier": "1"}},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
    });
    let labels = [
        ("app=web", true),
        ("app==web,tier=1", true),
        ("app!=web", false),
        ("absent!=x", true),
        ("app in (web, api)", true),
        ("app notin (web)", false),
        ("absent notin (x)", true),
        ("app", true),
        ("!app", false),
        ("tier>0,tier<2", true),
        ("tier>1", false),
    ];
    let (key, pod) = (Key::new("default", "p"), Stored::new(&Object::new(pod)));
    let matches = |selectors: Selectors| selectors.matches(&key, &pod);
    for (text, want) in labels {
        assert_eq!(matches(Selectors::parse(pods, Some(text), None).unwrap()), want, "{text}");
    }
    let fields = [
        ("spec.nodeName=n", true),
        ("spec.nodeName!=n", false),
        ("status.phase==Running,metadata.name=p", true),
        ("metadata.namespace=x", false),
    ];
    for (text, want) in fields {
        assert_eq!(matches(Selectors::parse(pods, None, Some(text)).unwrap()), want, "{text}");
    }
    for bad in ["a b", "=x", "a in x", "a>b"] {
        assert!(Selectors::parse(pods, Some(bad), None).is_err(), "{bad}");
    }
    for bad in ["spec.containers=x", "nonsense"] {
        assert!(Selectors::parse(pods, None, Some(bad)).is_err(), "{bad}");
    }
}

#[test]
fn json_paths_as_a_table() {
    let object = json!({
        "spec": {"a.b": 1, "list": [{"type": "x", "v": 1}, {"type": "Ready", "v": 2}]},
        "status": {"n": null, "flag": true},
    });
    let cases: Vec<(&str, Vec<Value>)> = vec![
        (".spec.list[1].v", vec![json!(2)]),
        (".spec.list[-1].v", vec![json!(2)]),
        (".spec.list[*].v", vec![json!(1), json!(2)]),
        (".spec.list[?(@.type==\"Ready\")].v", vec![json!(2)]),
        (".spec.list[?(@.type=='x')].v", vec![json!(1)]),
        (".spec.list[?(@.v!=1)].type", vec![json!("Ready")]),
        (".spec.list[?(@.v==2)].type", vec![json!("Ready")]),
        (".spec['a.b']", vec![json!(1)]),
        (".spec.a\\.b", vec![json!(1)]),
        ("$.status.flag", vec![json!(true)]),
        (".status.n", vec![]),
        (".status.absent.more", vec![]),
        (".spec.list[", vec![]),
        (".spec..list", vec![object["spec"]["list"].clone()]),
    ];
    for (path, want) in cases {
        let found: Vec<Value> = jsonpath::find(path, &object).into_iter().cloned().collect();
        assert_eq!(found, want, "{path}");
    }
}

#[test]
fn durations_are_those_of_kubectl() {
    let cases = [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (7200, "120m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (90_000, "25h"),
        (180_000, "2d2h"),
        (864_000, "10d"),
        (100_000_000, "3y62d"),
    ];
    for (seconds, want) in cases {
        assert_eq!(gotime::age::human_duration(Duration::from_secs(seconds)), want);
    }
}

#[test]
fn versions_are_ordered_by_maturity() {
    let mut versions = ["v1alpha1", "foo", "v1", "v2beta1", "v1beta3", "v10", "v2"];
    versions.sort_by_key(|v| std::cmp::Reverse(discovery::priority(v)));
    assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta3", "v1alpha1", "foo"]);
}

#[test]
fn schemas_prune_default_and_validate() {
    let schema = Schema::read(&json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
            "free": {"x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {}}}},
            "any": {"type": "object", "additionalProperties": true},
            "one": {"oneOf": [{"required": ["x"]}, {"required": ["y"]}], "type": "object",
                "properties": {"x": {"type": "string"}, "y": {"type": "string"}}},
            "time": {"type": "string", "format": "date-time"},
        }}},
    }));
    let mut object = json!({
        "metadata": {"whatever": 1}, "top": 1,
        "spec": {"list": [{"b": 1}], "free": {"x": 1, "known": {"gone": 1}}, "any": {"k": [1]}, "bad": 1, "one": {"x": ""}},
    });
    let mut dropped = Vec::new();
    schema.prune(&mut object, &mut dropped);
    dropped.sort();
    assert_eq!(dropped, ["spec.bad", "spec.free.known.gone", "spec.list[0].b", "top"]);
    schema.fill_defaults(&mut object);
    assert_eq!(object["spec"]["list"], json!([{"a": 1}]));
    assert_eq!(object["spec"]["free"], json!({"x": 1, "known": {}}));
    assert!(validate::custom(&schema, &object, None).is_empty());
    object["spec"]["one"] = json!({"x": "", "y": ""});
    object["spec"]["time"] = json!("yesterday");
    let causes = validate::custom(&schema, &object, None);
    let fields: Vec<&str> = causes.iter().map(|c| c.field.as_str()).collect();
    assert_eq!(fields, ["spec.one", "spec.time"]);
}

/// As the real one: some texts that are no time of RFC 3339 are stored.
#[test]
fn times_are_checked_as_a_table() {
    let schema = Schema::read(&json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {
            "time": {"type": "string", "format": "date-time"},
        }}},
    }));
    let cases = [
        ("2026-01-02T10:00:00Z", true),
        ("2026-01-02t10:00:00.123456z", true),
        ("2026-01-02T10:00:00+01:00", true),
        ("2026-01-02T10:00:00+99:00", true),
        ("2026-01-02T10:00:00Zt", true),
        ("2026-01-02T24:00:00Z", false),
        ("2026-01-02T10:00:00", false),
        ("2026-01-02 10:00:00Z", false),
        ("2026-02-30T10:00:00Z", false),
        ("2026-01-02", false),
        ("", false),
    ];
    for (time, is_time) in cases {
        let object = json!({"spec": { "time": time }});
        assert_eq!(validate::custom(&schema, &object, None).is_empty(), is_time, "{time}");
    }
}

#[test]
fn names_as_a_table() {
    let cases = [
        ("a", true, true),
        ("a-b.c", false, true),
        ("a.", false, false),
        ("A", false, false),
        ("", false, false),
        ("-a", false, false),
    ];
    for (name, label, subdomain) in cases {
        assert_eq!(
            (validate::is_dns_label(name), validate::is_dns_subdomain(name)),
            (label, subdomain),
            "{name}"
        );
    }
    assert!(
        !validate::is_dns_label(&"a".repeat(64)) && validate::is_dns_subdomain(&"a".repeat(64))
    );
}

#[test]
fn protobuf_of_a_namespace_is_read() {
    let field = |number: u8, content: &[u8]| {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    };
    let type_meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    let labels = [field(1, b"k"), field(2, b"v")].concat();
    let meta = [field(1, b"name"), field(11, &labels)].concat();
    let data = [field(1, b"key"), field(2, b"value")].concat();
    let object = [field(1, &meta), field(2, &data)].concat();
    let body = [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &object)].concat();
    let want = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "name", "labels": {"k": "v"}}, "data": {"key": "value"},
    });
    assert_eq!(protobuf::decode(&body), Some(want));
    for cut in 0..body.len() {
        // No input makes it panic.
        let _ = protobuf::decode(&body[..cut]);
    }
    assert_eq!(protobuf::decode(b"{}"), None);
}
