//! The limits of a generation, and which of several errors is shown.

use super::*;
use crate::desired::queries::{Plugin, Query};

/// What is passed on, and how it ended.
fn each(set: &Value, limits: Limits) -> (Vec<String>, Result<Vec<String>, GenerateError>) {
    let (mut taken, mut reads) = (Vec::new(), Reads::default());
    let take = &mut |application: Value, _| taken.push(name_of(&application).to_owned());
    let ended = generate_each_within(set, &Inputs::default(), limits, &mut env(), &mut reads, take);
    (taken, ended.map(|()| reads.warnings.into_iter().collect()))
}

/// A set of these generators with one name for its Applications.
fn of_generators(generators: Value) -> Value {
    json!({
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": generators,
            "template": {"metadata": {"name": "a"}, "spec": {}},
        },
    })
}

/// The least value of a limit with which a set is generated.
fn least(set: &Value, limited: impl Fn(usize) -> Limits) -> usize {
    let (mut low, mut high) = (0, 1 << 20);
    while high - low > 1 {
        let middle = (low + high) / 2;
        match each(set, limited(middle)).1 {
            Ok(_) => high = middle,
            Err(error) => {
                assert!(error.is_limit(), "{error}");
                low = middle;
            }
        }
    }
    high
}

/// AS-135: an Application takes 512 bytes, 32 for each value, and its text; those of a set take
/// together what each takes, and so do the parameter sets, those inside of others included.
#[test]
fn what_is_within_a_limit_is_generated_as_135() {
    let some =
        |count: usize| of_generators(json!([{"list": {"elements": vec![json!({"k": 1}); count]}}]));
    // Two objects and the name, which is one byte, as the key is four.
    let one = 512 + 3 * 32 + "name".len() + "a".len();
    let application = |application_bytes| Limits { application_bytes, ..Limits::default() };
    assert_eq!(least(&some(1), application), one);
    assert_eq!(least(&some(3), application), one, "of each for itself");
    let all = |bytes| Limits { bytes, ..Limits::default() };
    assert_eq!(least(&some(1), all), one);
    assert_eq!(least(&some(3), all), 3 * one);
    let trees = |bytes: usize| Limits { tree_bytes: bytes as u64, ..Limits::default() };
    let tree = least(&some(1), trees);
    assert!(tree > 100, "{tree}");
    assert_eq!(least(&some(3), trees), 3 * tree);
    let parameters = |bytes: usize| Limits { parameter_bytes: bytes as u64, ..Limits::default() };
    let sets = least(&some(1), parameters);
    assert!(sets > 10, "{sets}");
    assert_eq!(least(&some(3), parameters), 3 * sets);
    let list = json!({"list": {"elements": [{"k": 1}]}});
    let merged = json!([{"merge": {"mergeKeys": ["k"], "generators": [list, list]}}]);
    assert_eq!(least(&of_generators(merged), parameters), 3 * sets, "two inside, and the result");
}

/// AS-135: reading too many parts of repositories and answers of services is an error of the set.
#[test]
fn reads_of_all_kinds_count_together_as_135() {
    let set = of_generators(json!([
        {"git": {"repoURL": "https://git/a", "revision": "main", "directories": [{"path": "*"}]}},
        {"plugin": {"configMapRef": {"name": "p"}}},
    ]));
    let within = |repository_reads| {
        each(&set, Limits { repository_reads, ..Limits::default() }).1.unwrap_err()
    };
    let error = within(1);
    assert!(error.to_string().contains("limit exceeded"), "{error}");
    let GenerateError::Unread(unread) = within(2) else { panic!("two are permitted") };
    assert_eq!((unread.git.len(), unread.queries.len()), (1, 1));
}

/// AS-140: all generators and parameter sets are tried before their first error is shown, since what
/// they read is known by then; but a limit ends generating at once.
#[test]
fn only_a_limit_ends_generating_at_once_as_140() {
    let git = |patterns: usize| {
        json!({"git": {
            "repoURL": "https://git/a", "revision": "main",
            "directories": vec![json!({"path": "*"}); patterns],
        }})
    };
    let wrong = of_generators(json!([{"list": {"elements": "x"}}, git(1)]));
    let error = each(&wrong, Limits::default()).1.unwrap_err();
    assert!(matches!(error, GenerateError::Unread(_)), "{error}");
    assert!(error.to_string().starts_with("spec.generators: https://git/a is not read"), "{error}");
    let huge = of_generators(json!([git(1_001), git(1)]));
    let error = each(&huge, Limits::default()).1.unwrap_err();
    assert!(error.is_limit(), "{error}");
    assert!(
        matches!(
            each(&of_generators(json!([git(1_000)])), Limits::default()).1,
            Err(GenerateError::Unread(_))
        ),
        "so many patterns are permitted"
    );

    let mut named =
        of_generators(json!([{"list": {"elements": [{"n": "x"}, {"m": "b"}, {"n": "c"}]}}]));
    named["spec"]["template"]["metadata"]["name"] = json!("{{.n}}");
    named["spec"]["goTemplateOptions"] = json!(["missingkey=error"]);
    let (taken, ended) = each(&named, Limits::default());
    assert_eq!(taken, ["x", "c"], "the others are rendered all the same");
    assert!(ended.unwrap_err().to_string().contains("elements[1]"));
    let large = "x".repeat(5_000);
    named["spec"]["generators"][0]["list"]["elements"] = json!([{"n": large}, {"n": "c"}]);
    let limits = Limits { application_bytes: 4_000, ..Limits::default() };
    let (taken, ended) = each(&named, limits);
    assert!(taken.is_empty(), "{taken:?}");
    assert!(ended.unwrap_err().is_limit());
}

/// AS-120: without `goTemplate`, an action of Go templates stays as it is, which is hardly what was
/// meant: a warning names its place, and the error of a patch says what to set.
#[test]
fn an_action_of_go_is_shown_where_it_is_not_one() {
    let text = "{{ .cluster }}";
    let simple = set(false, json!([{"a": "1"}]), text);
    let warnings = generate(&simple).unwrap().warnings;
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    let place = "spec.template.metadata.annotations.text: ";
    assert!(warning.starts_with(place), "{warning}");
    assert!(warning.contains(".cluster") && warning.contains("spec.goTemplate: true"), "{warning}");
    let go = set(true, json!([{"cluster": "1"}]), text);
    assert_eq!(generate(&go).unwrap().warnings, Vec::<String>::new());
    let in_list = |item: &str| {
        let mut set = set(false, json!([{"a": "1"}]), "");
        set["spec"]["template"]["spec"]["sources"] = json!([{"path": "a"}, {"path": item}]);
        generate(&set).unwrap().warnings
    };
    assert!(in_list("{{.b}}")[0].starts_with("spec.template.spec.sources[1].path: "));
    assert!(in_list("b").is_empty());

    let patched = |go: bool, patch: &str| {
        let mut set = set(go, json!([{"a": "1"}]), "");
        set["spec"]["templatePatch"] = json!(patch);
        generate(&set).map(|_| ()).map_err(|error| error.to_string())
    };
    let error = patched(false, "['{{ .x }}']").unwrap_err();
    assert!(error.contains("not an object; {{ .x }} is an action"), "{error}");
    let error = patched(true, "['{{ `{{ .x }}` }}']").unwrap_err();
    assert!(error.contains("not an object") && !error.contains("is an action"), "{error}");
    // The API server would drop a field that it does not know, and the Application would always differ.
    for (patch, named) in [
        ("spec: {sorce: {}}", Some("spec.sorce")),
        ("metadata: {labls: {}}", Some("metadata.labls")),
        ("spec: {source: {path: p}}", None),
        ("metadata: {labels: {a: b}}", None),
        ("null", None),
    ] {
        let got = patched(true, patch);
        match named {
            Some(named) => {
                assert!(got.as_ref().is_err_and(|error| error.contains(named)), "{got:?}")
            }
            None => assert_eq!(got, Ok(()), "{patch}"),
        }
    }
}

/// Tools compare the words of Argo CD before the error of a git generator, wherever it is nested.
#[test]
fn the_error_of_a_git_generator_has_the_words_of_argo_cd() {
    for (place, want) in [
        ("spec.generators[0].git", true),
        ("spec.generators[0].git.files[1].path", true),
        ("spec.generators[0].matrix.generators[1].git", true),
        ("git[0]", true),
        ("spec.generators[0].list", false),
        ("spec.generators[0].digit", false),
        ("spec.generators[0].github", false),
    ] {
        let error = GenerateError::Generator {
            place: place.to_owned(),
            cause: String::new(),
            limit: false,
        };
        assert_eq!(
            error.git_words().starts_with("error generating params from git"),
            want,
            "{place}"
        );
    }
    assert_eq!(GenerateError::Options("git".to_owned()).git_words(), "");
}

/// The values of each source may be the text of an object, and are read one by one.
#[test]
fn values_of_each_source_are_read_by_their_place() {
    let with = |second: &str| {
        let mut set = set(true, json!([{}]), "");
        let source = |text: &str| json!({"helm": {"valuesObject": text}});
        set["spec"]["template"]["spec"]["sources"] = json!([source("a: 1"), source(second)]);
        generate(&set).map(|got| got.applications[0]["spec"]["sources"].clone())
    };
    let sources = with("{b: {c: 2}}").unwrap();
    assert_eq!(sources[0]["helm"]["valuesObject"], json!({"a": 1}));
    assert_eq!(sources[1]["helm"]["valuesObject"], json!({"b": {"c": 2}}));
    let error = with("text").unwrap_err().to_string();
    assert!(
        error.starts_with("spec.template.spec.sources[1].helm.valuesObject: must be"),
        "{error}"
    );
}

/// A plugin is asked with its parameters, which may be absent.
#[test]
fn a_plugin_is_asked_with_its_parameters() {
    for (input, want) in [
        (json!(null), Some("{}")),
        (json!({}), Some("{}")),
        (json!({"parameters": null}), Some("{}")),
        (json!({"parameters": {"a": 1}}), Some("{\"a\":1}")),
        (json!({"parameters": []}), None),
    ] {
        let mut plugin = json!({"configMapRef": {"name": "p"}});
        if !input.is_null() {
            plugin["input"] = input.clone();
        }
        let error =
            each(&of_generators(json!([{ "plugin": plugin }])), Limits::default()).1.unwrap_err();
        match (error, want) {
            (GenerateError::Unread(unread), Some(want)) => {
                let query = Query::Plugin(Plugin {
                    config_map: "p".to_owned(),
                    parameters: want.to_owned(),
                });
                assert!(unread.queries.contains(&query), "{input}: {unread:?}");
            }
            (error, None) => {
                assert!(
                    error.to_string().contains("input.parameters: must be an object"),
                    "{error}"
                );
            }
            (error, Some(_)) => panic!("{input}: {error}"),
        }
    }
}

/// AS-113: numbers are equal keys when they are the same number, however they are written.
#[test]
fn keys_of_a_merge_are_equal_as_numbers() {
    for (one, other, merges) in [
        (json!(2), json!(2.0), true),
        (json!(2.5), json!(2.5), true),
        (json!(2.5), json!(2), false),
        (json!(1e300), json!(1e301), false),
        (json!([1.0]), json!([1]), true),
        (json!("2"), json!(2), false),
    ] {
        let merge = json!({"merge": {"mergeKeys": ["id"], "generators": [
            {"list": {"elements": [{"id": one}]}},
            {"list": {"elements": [{"id": other, "found": true}]}},
        ]}});
        let got = outputs(&merge, true).unwrap();
        let found = got[0].sets[0].values.contains_key("found");
        assert_eq!(found, merges, "{one} {other}");
    }
}

/// AS-098: a key that the API server has dropped is named, but none that it has kept.
#[test]
fn the_key_that_was_dropped_is_named_as_098() {
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    for (written, want) in [
        (json!({"selector": {}, "unknown": {}}), "spec.generators[0].unknown: is not a generator"),
        (json!({"matrix": null, "selector": {}}), "spec.generators[0]: has no generator"),
    ] {
        let mut set = of_generators(json!([{"selector": {}}]));
        let text = json!({"spec": {"generators": [written]}}).to_string();
        set["metadata"]["annotations"] = json!({ key: text });
        let error = generate(&set).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}
