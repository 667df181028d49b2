//! ApplicationSets with random mistakes: each is generated, or refused with the field; the
//! controller never gets an empty set in place of a mistake.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::desired;
use crate::desired::inputs::{GitAnswer, GitRead, Inputs};
use wavegate_api::cluster::ClusterSecret;
use wavegate_api::yaml;
use wavegate_net::entropy::template_environment;

/// A raw set with these generators.
fn raw(go: bool, generators: Value) -> Value {
    let dot = if go { "." } else { "" };
    json!({
        "metadata": {"name": "set", "namespace": "argocd", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "goTemplate": go,
            "generators": generators,
            "template": {
                "metadata": {"name": format!("{{{{{dot}name}}}}"), "labels": {"env": format!("{{{{{dot}env}}}}")}},
                "spec": {"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": "https://r", "path": "p"}},
            },
        },
    })
}

/// One set of each kind; each generates Applications.
fn bases() -> Vec<Value> {
    let list = || json!({"list": {"elements": [{"name": "a", "env": "dev"}, {"name": "b", "env": "prod"}]}});
    let git = |what: Value| {
        let mut git = json!({"repoURL": "https://git.example.com/x", "revision": "HEAD", "values": {"env": "v"}, "requeueAfterSeconds": 60});
        git.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        json!({ "git": git })
    };
    let directories =
        || git(json!({"directories": [{"path": "*"}, {"path": "x", "exclude": true}]}));
    let files = || git(json!({"files": [{"path": "*.yaml"}], "pathParamPrefix": "file"}));
    let clusters = || json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}, "values": {"from": "{{.name}}"}}});
    let written = json!({"list": {"elementsYaml": "- {name: a, env: dev}"}});
    let inner = json!({"list": {"elements": [{"zone": "{{.env}}-1"}, {"zone": "two"}]}});
    let matrix = |first: Value, second: Value| json!({"matrix": {"generators": [first, second]}});
    let merge = json!({"merge": {"mergeKeys": ["name"], "generators": [list(), {"list": {"elements": [{"name": "b", "env": "qa"}]}}]}});
    let selected = json!({"list": list()["list"], "selector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev", "prod"]}]}});
    vec![
        raw(true, json!([list()])),
        raw(false, json!([list()])),
        raw(true, json!([written])),
        raw(true, json!([clusters()])),
        raw(true, json!([directories()])),
        raw(false, json!([files()])),
        raw(true, json!([matrix(list(), inner.clone())])),
        raw(true, json!([matrix(directories(), clusters())])),
        raw(true, json!([merge.clone(), selected])),
        raw(true, json!([matrix(merge, matrix(list(), inner))])),
    ]
}

/// Generates with every repository and cluster that a test knows, in the controller's way.
fn generate(set: &Value) -> Generated {
    let cluster = ClusterSecret {
        name: "one".to_owned(),
        server: "https://1".to_owned(),
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        ..ClusterSecret::default()
    };
    let mut inputs = Inputs { clusters: vec![cluster].into(), ..Inputs::default() };
    let settings = DecisionSettings::default();
    loop {
        let mut env = template_environment(Timestamp::UNIX_EPOCH);
        let (mut collector, mut reads) = (Collector::new(set, &settings), Reads::default());
        let take = &mut |application, origin: String| collector.add(application, &origin);
        let limits = desired::Limits::default();
        let result =
            desired::generate_each_within(set, &inputs, limits, &mut env, &mut reads, take);
        let Err(desired::GenerateError::Unread(requests)) = result else {
            return collector.finish(set, &settings, reads, result.err());
        };
        for query in requests.queries {
            inputs.answers.insert(query, Err("nobody answers".to_owned()));
        }
        for request in requests.git {
            let answer = match &request.what {
                GitRead::Directories { .. } => {
                    Ok(GitAnswer::Directories(vec!["a".into(), "b".into()]))
                }
                GitRead::Files { .. } => request.files().map(|wanted| {
                    let files = [("a/x.yaml", "name: a\nenv: dev"), ("y.yaml", "- {name: b}")];
                    let files = files.iter().filter(|(path, _)| wanted(path).unwrap());
                    GitAnswer::Files(
                        files.map(|(p, text)| (p.to_string(), text.to_string())).collect(),
                    )
                }),
            };
            inputs.git.insert(request, answer.map(Arc::new));
        }
    }
}

/// A mistake at one place.
#[derive(Clone, Debug)]
enum Mistake {
    Remove,
    Replace(Value),
    /// Another key for the value.
    Rename(String),
    /// The value in a list.
    Wrap,
    /// The element of a list twice.
    Repeat,
}

fn mistake() -> impl Strategy<Value = Mistake> {
    let texts = [
        "",
        " ",
        "{{",
        "{{.name}}",
        "{{.missing}}",
        "{{name}}",
        "{{ fail \"x\" }}",
        "{{index .name 9}}",
        "{{range until 9}}{{.}}{{end}}",
        "null",
        "[]",
        "[1]",
        "{a: b}",
        "- {name: c}",
        "*",
        "a[",
        "[z-a]",
        "../x",
        "/x",
        "\u{0}",
        "ü/ö",
        "{{/*",
        "- &a [*a]",
        "values",
        "list",
    ];
    let text = prop::sample::select(texts.to_vec()).prop_map(str::to_owned);
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just(0.5), Just(-1.0), Just(1e300)].prop_map(Value::from),
        text.clone().prop_map(Value::from),
        prop::collection::vec(text.clone(), 0..3).prop_map(Value::from),
        text.clone().prop_map(|text| json!({ text: "x" })),
        Just(json!({})),
        Just(json!([{}])),
    ];
    prop_oneof![
        Just(Mistake::Remove),
        value.prop_map(Mistake::Replace),
        text.prop_map(Mistake::Rename),
        Just(Mistake::Wrap),
        Just(Mistake::Repeat),
    ]
}

/// The JSON pointers of a value and all inside of it.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                pointers(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Makes a mistake at a place, and returns the place.
fn apply(set: &mut Value, place: usize, mistake: &Mistake) -> String {
    let mut found = Vec::new();
    pointers(&set["spec"]["generators"], "/spec/generators", &mut found);
    let pointer = found[place % found.len()].clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    // An earlier one may have removed all generators.
    let Some(value) = set.pointer(&pointer).cloned() else { return pointer };
    let wrapped = Value::from(vec![value.clone()]);
    match (set.pointer_mut(parent).unwrap(), mistake) {
        (Value::Object(object), Mistake::Remove) => drop(object.remove(&key)),
        (Value::Object(object), Mistake::Rename(name)) => {
            object.remove(&key);
            object.insert(name.clone(), value);
        }
        (Value::Array(list), Mistake::Remove) => drop(list.remove(key.parse().unwrap())),
        (Value::Array(list), Mistake::Repeat) => list.push(value),
        (_, Mistake::Replace(other)) => *set.pointer_mut(&pointer).unwrap() = other.clone(),
        _ => *set.pointer_mut(&pointer).unwrap() = wrapped,
    }
    pointer
}

/// Whether a list was emptied, in the set or in the text of `elementsYaml`.
fn is_emptied(value: &Value) -> bool {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let object = value.as_object().into_iter().flatten().any(|(key, value)| match key.as_str() {
        "elements" | "generators" => is_empty(value) || is_emptied(value),
        "elementsYaml" => value
            .as_str()
            .and_then(|text| yaml::parse_value(text).ok())
            .is_some_and(|v| is_empty(&v)),
        _ => is_emptied(value),
    });
    object || value.as_array().into_iter().flatten().any(is_emptied)
}

#[test]
fn the_sets_without_a_mistake_generate_applications() {
    for base in bases() {
        let generated = generate(&base);
        assert_eq!(generated.error, None, "{base}");
        assert!(!generated.applications.is_empty(), "{base}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mistake_is_an_error_with_its_field_and_never_an_empty_set_as_098_as_140(
        base in 0..10_usize,
        mistakes in prop::collection::vec((any::<usize>(), mistake()), 1..4),
    ) {
        let mut set = bases().swap_remove(base);
        let places: Vec<String> =
            mistakes.iter().map(|(place, mistake)| apply(&mut set, *place, mistake)).collect();
        let generated = generate(&set);
        if let Some(error) = &generated.error {
            let text = error.to_string();
            prop_assert!(text.starts_with("spec.generators") || text.starts_with("spec.template"), "{}", text);
            prop_assert!(text.contains(": "), "{}", text);
            return Ok(());
        }
        // What is selected may be nothing.
        let selects = ["/selector", "/directories", "/files", "/path", "/env"];
        let is_selection = |place: &String| selects.iter().any(|part| place.contains(part));
        if !is_emptied(&set["spec"]) && !places.iter().any(is_selection) {
            prop_assert!(!generated.applications.is_empty(), "{}", set["spec"]["generators"]);
        }
        generated.invalid(&KnownTargets::default());
    }
}
