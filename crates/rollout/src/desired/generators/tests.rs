//! Generators on their own: tables A.5 and A.16 of the ApplicationSet specification.

mod evaluations;
mod providers;
mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::path_pattern::Globbing;
use super::*;
use crate::desired::Limits;
use crate::desired::inputs::{GitAnswer, GitRead};
use wavegate_api::cluster::ClusterSecret;

/// What the generators of a test read.
#[derive(Default)]
struct World {
    clusters: Vec<ClusterSecret>,
    directories: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
    globbing: Globbing,
    /// The project of the template, and those that exist.
    project: &'static str,
    projects: Option<&'static [&'static str]>,
}

impl World {
    /// The parameter sets of an element and what it used; an error as text.
    fn evaluate(&self, go: bool, element: &Value) -> Result<(Vec<Value>, Reads), String> {
        let (sets, reads, _) = self.evaluate_in_rounds(go, element)?;
        Ok((sets.into_iter().map(|set| set.values.into()).collect(), reads))
    }

    /// The same with the origins of the sets, and how much was read in each round.
    fn evaluate_in_rounds(
        &self,
        go: bool,
        element: &Value,
    ) -> Result<(Vec<Parameters>, Reads, Vec<usize>), String> {
        let spec = json!({
            "goTemplate": go, "goTemplateOptions": self.options,
            "template": {"spec": {"project": self.project}},
        });
        let mut inputs = Inputs {
            clusters: self.clusters.clone().into(),
            globbing: self.globbing,
            projects: self
                .projects
                .map(|names| names.iter().map(|name| ((*name).to_owned(), Default::default())))
                .map(Iterator::collect),
            ..Inputs::default()
        };
        let mut rounds = Vec::new();
        loop {
            let mut env = wavegate_net::entropy::template_environment(
                "2026-01-02T12:00:00Z".parse().unwrap(),
            );
            let mut engine = Engine::of(&spec, Limits::default(), &env).unwrap();
            let mut reads = Reads::default();
            let mut evaluation =
                GeneratorEvaluation::new(&spec, &mut engine, &mut env, &inputs, &mut reads);
            let outputs = evaluation.parameter_sets(element, "g");
            let unread = evaluation.unread;
            if unread.is_empty() {
                let outputs = outputs.map_err(|error| error.to_string())?;
                let sets = outputs.into_iter().flat_map(|output| output.sets);
                return Ok((sets.collect(), reads, rounds));
            }
            rounds.push(unread.git.len());
            for request in unread.git {
                let answer = match &request.what {
                    GitRead::Directories { .. } => GitAnswer::Directories(
                        self.directories.iter().map(|d| d.to_string()).collect(),
                    ),
                    GitRead::Files { .. } => {
                        let wanted = request.files()?;
                        let files = self.files.iter().filter(|(path, _)| wanted(path).unwrap());
                        let files = files.map(|(path, text)| (path.to_string(), text.to_string()));
                        GitAnswer::Files(files.collect())
                    }
                };
                inputs.git.insert(request, Ok(Arc::new(answer)));
            }
        }
    }

    fn sets(&self, go: bool, element: &Value) -> Result<Vec<Value>, String> {
        self.evaluate(go, element).map(|(sets, _)| sets)
    }

    #[track_caller]
    fn fails(&self, go: bool, element: &Value, parts: &[&str], row: u32) {
        let error = self.sets(go, element).expect_err(&format!("row {row}: {element}"));
        for part in parts {
            assert!(error.contains(part), "row {row}: no {part:?} in: {error}");
        }
    }
}

fn list(elements: Value) -> Value {
    json!({"list": {"elements": elements}})
}

fn matrix(first: Value, second: Value) -> Value {
    json!({"matrix": {"generators": [first, second]}})
}

fn merge(keys: Value, generators: Value) -> Value {
    json!({"merge": {"mergeKeys": keys, "generators": generators}})
}

fn git(fields: Value) -> Value {
    let mut git = json!({"repoURL": "https://git.example.com/fleet", "revision": "HEAD"});
    git.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({ "git": git })
}

fn directories(paths: &[&str]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
    git(json!({ "directories": paths }))
}

/// The clusters of table A.16.
fn clusters() -> Vec<ClusterSecret> {
    let cluster = |name: &str, server: &str, project: &str, env: &str, org: &str| ClusterSecret {
        secret: String::new(),
        name: name.to_owned(),
        server: server.to_owned(),
        project: project.to_owned(),
        labels: BTreeMap::from([
            ("argocd.argoproj.io/secret-type".to_owned(), "cluster".to_owned()),
            ("environment".to_owned(), env.to_owned()),
            ("org".to_owned(), org.to_owned()),
        ]),
        annotations: BTreeMap::from([("foo.argoproj.io".to_owned(), env.to_owned())]),
    };
    vec![
        cluster("staging-01", "https://staging-01.example.com", "", "staging", "foo"),
        cluster(
            "production_01/west",
            "https://production-01.example.com",
            "prod-project",
            "production",
            "bar",
        ),
    ]
}

fn names(sets: &[Value]) -> Vec<&str> {
    sets.iter().map(|set| set["name"].as_str().unwrap()).collect()
}

#[test]
fn matrix_gives_table_a_5_as_070() {
    let world = World::default();
    for go in [false, true] {
        let numbers =
            matrix(list(json!([{"a": "1"}, {"a": "2"}])), list(json!([{"b": "1"}, {"b": "2"}])));
        let want = [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2")];
        let want: Vec<Value> = want.iter().map(|(a, b)| json!({"a": a, "b": b})).collect();
        assert_eq!(world.sets(go, &numbers), Ok(want), "row 92");
        for children in
            [json!([list(json!([]))]), json!([list(json!([])), list(json!([])), list(json!([]))])]
        {
            let element = json!({"matrix": {"generators": children}});
            world.fails(go, &element, &["g.matrix.generators: has ", "a matrix combines two"], 97);
        }
        let mut both = git(json!({"directories": [{"path": "*"}]}));
        both["list"] = json!({"elements": []});
        for element in
            [matrix(list(json!([{"a": "1"}])), both.clone()), matrix(both, list(json!([])))]
        {
            world.fails(
                go,
                &element,
                &["matrix.generators[", "has 2 generators, list and git"],
                97,
            );
        }
        let empty = matrix(list(json!([])), list(json!([{"b": "1"}])));
        assert_eq!(world.sets(go, &empty), Ok(vec![]), "AS-070: an empty product");
        world.fails(
            go,
            &matrix(list(json!([])), json!({})),
            &["g.matrix.generators[1]: has no generator"],
            70,
        );
        world.fails(
            go,
            &matrix(list(json!([])), json!({"scmProvider": {}})),
            &["g.matrix.generators[1].scmProvider: names no provider; write one of github"],
            70,
        );
    }
    let clash = matrix(list(json!([{"foo": "bar", "a": "fail"}])), list(json!([{"a": "b"}])));
    world.fails(false, &clash, &["parameter a is \"fail\"", "\"b\""], 94);
    let equal =
        matrix(list(json!([{"foo": "bar", "a": "b"}])), list(json!([{"a": "b", "c": "d"}])));
    assert_eq!(
        world.sets(false, &equal),
        Ok(vec![json!({"foo": "bar", "a": "b", "c": "d"})]),
        "row 95"
    );
    let first_wins = matrix(
        list(json!([{"f": false, "s": "x", "l": [], "z": 0, "e": "", "m": {"a": 1}}])),
        list(json!([{"f": true, "s": "y", "l": [1], "z": 2, "e": "e", "m": {"a": 2, "b": 3}}])),
    );
    let want = json!({"f": false, "s": "x", "l": [], "z": 0, "e": "", "m": {"a": 1, "b": 3}});
    assert_eq!(world.sets(true, &first_wins), Ok(vec![want]), "row 96, AS-072");
}

#[test]
fn the_second_generator_of_a_matrix_takes_the_parameters_of_the_first_as_071() {
    let world = World {
        clusters: clusters(),
        directories: &["app1", "app2"],
        files: &[("app1/config.yaml", "word: one"), ("app2/config.yaml", "word: two")],
        ..World::default()
    };
    let templated = |text: &str| matrix(directories(&["*"]), list(json!([{ "templated": text }])));
    let values = |sets: Vec<Value>, key: &str| -> Vec<Value> {
        sets.iter().map(|set| set.pointer(key).cloned().unwrap_or_default()).collect()
    };
    let got = world.sets(false, &templated("test-{{path.basenameNormalized}}")).unwrap();
    assert_eq!(values(got, "/templated"), ["test-app1", "test-app2"], "row 93");
    let got = world.sets(true, &templated("test-{{.path.basename}}")).unwrap();
    assert_eq!(values(got, "/templated"), ["test-app1", "test-app2"], "row 93");

    let first = list(
        json!([{"env": "staging", "dir": "app2", "key": "environment", "items": [{"n": 1}, {"n": 2}]}]),
    );
    let with = |second: Value| world.sets(true, &matrix(first.clone(), second));
    let got =
        with(json!({"clusters": {"selector": {"matchLabels": {"{{.key}}": "{{.env}}"}}}})).unwrap();
    assert_eq!(names(&got), ["staging-01"], "fields of the generator, and keys of objects");
    let got = with(git(json!({"files": [{"path": "{{.dir}}/config.yaml"}]}))).unwrap();
    assert_eq!(values(got, "/word"), ["two"], "the path of files");
    let got = with(json!({"list": {"elementsYaml": "{{.items | toJson}}"}})).unwrap();
    assert_eq!(values(got, "/n"), [json!(1), json!(2)], "AS-052: elementsYaml");
    let got = with(json!({"list": {"elementsYaml": "{{if .none}}[]{{end}}"}}));
    assert_eq!(got, Ok(vec![]), "AS-054: a text that becomes empty");
    let got = with(list(json!([{"{{.key}}": "{{.env}}", "n": 3, "z": null}]))).unwrap();
    assert_eq!((&got[0]["environment"], &got[0]["n"]), (&json!("staging"), &json!(3)), "raw JSON");
    let got = with(json!({"clusters": {}, "selector": {"matchLabels": {"name": "{{.env}}-01"}}}));
    assert_eq!(got, Ok(vec![]), "AS-046: the selector of the element is not interpolated");
    let ignored = json!({"list": {"elements": [{"x": "{{.env}}"}], "template": {"metadata": {"name": "{{.oops"}}}});
    assert_eq!(with(ignored).unwrap().len(), 1, "AS-074: neither is its template");

    let kept = matrix(list(json!([{}])), list(json!([{"x": "{{.env}}"}])));
    assert_eq!(
        world.sets(true, &kept),
        Ok(vec![json!({"x": "{{.env}}"})]),
        "AS-071: an empty set interpolates nothing"
    );
    let strict = World { options: &["missingkey=error"], ..World::default() };
    let element = matrix(list(json!([{"a": "1"}])), list(json!([{"x": "{{.env}}"}])));
    strict.fails(
        true,
        &element,
        &[
            "g.matrix.generators[1].list.elements[0].x: template: ",
            "key \"env\"",
            "(parameters of generators[0].list.elements[0])",
        ],
        71,
    );
    assert_eq!(world.sets(true, &element).unwrap()[0]["x"], "<no value>");
}

#[test]
fn values_of_the_second_generator_keep_what_its_own_parameters_have_as_073() {
    let world = World { clusters: clusters(), directories: &["guestbook"], ..World::default() };
    let strict = World {
        clusters: clusters(),
        directories: &["guestbook"],
        options: &["missingkey=error"],
        ..World::default()
    };
    let with = |value: &str| {
        matrix(
            directories(&["*"]),
            json!({"clusters": {
                "selector": {"matchLabels": {"org": "foo"}},
                "values": {"env": "{{.path.basename}}", "x": value},
            }}),
        )
    };
    for world in [&world, &strict] {
        let sets = world.sets(true, &with("{{.name}}")).unwrap();
        assert_eq!(sets[0]["values"], json!({"env": "guestbook", "x": "staging-01"}), "row 98");
        let label = world.sets(true, &with("{{.metadata.labels.environment}}")).unwrap();
        assert_eq!(label[0]["values"]["x"], "staging", "row 98");
        let place = "g.matrix.generators[1].clusters.values.x: template: ";
        world.fails(true, &with("{{.path.basename"), &[place], 99);
        world.fails(true, &with(r#"{{mustFromJson "not-valid-json"}}"#), &[place], 100);
    }
    strict.fails(true, &with("{{.nowhere}}"), &["clusters.values.x", "nowhere"], 98);
    let simple = matrix(
        directories(&["*"]),
        json!({"clusters": {
            "selector": {"matchLabels": {"org": "foo"}},
            "values": {"env": "{{path.basename}}", "x": "{{name}}", "no": "{{nowhere}}"},
        }}),
    );
    let sets = world.sets(false, &simple).unwrap();
    let value = |key: &str| sets[0][format!("values.{key}")].clone();
    assert_eq!([value("env"), value("x"), value("no")], ["guestbook", "staging-01", "{{nowhere}}"]);
    // The same for a generator inside of the second one.
    let nested = matrix(
        directories(&["*"]),
        matrix(
            list(json!([{"tier": "{{.path.path}}"}])),
            json!({"clusters": {
                "selector": {"matchLabels": {"org": "foo"}},
                "values": {"env": "{{.path.basename}}", "x": "{{.name}}"},
            }}),
        ),
    );
    let sets = world.sets(true, &nested).unwrap();
    assert_eq!(sets[0]["values"], json!({"env": "guestbook", "x": "staging-01"}));
    assert_eq!(sets[0]["tier"], "guestbook");
}

#[test]
fn merge_gives_table_a_5_as_080() {
    let world = World::default();
    let lists =
        |lists: Value| -> Value { lists.as_array().unwrap().iter().cloned().map(list).collect() };
    let merged = |go, keys: Value, sets: Value| world.sets(go, &merge(keys, lists(sets)));
    for go in [false, true] {
        for few in [json!([]), json!([[]])] {
            let element = merge(json!(["a"]), lists(few));
            world.fails(
                go,
                &element,
                &["g.merge.generators: has ", "merge at least two generators"],
                101,
            );
        }
        world.fails(
            go,
            &merge(json!([]), lists(json!([[], []]))),
            &["g.merge.mergeKeys: is empty"],
            101,
        );
        let same = json!([[{"a": "1_1", "b": "same", "c": "1_3"}], [{"a": "2_1", "b": "same"}], [{"a": "3_1", "b": "different", "c": "3_3"}]]);
        assert_eq!(
            merged(go, json!(["b"]), same),
            Ok(vec![json!({"a": "2_1", "b": "same", "c": "1_3"})]),
            "row 102"
        );
        assert_eq!(
            merged(go, json!(["b"]), json!([[{"a": "a"}], [{"a": "a"}]])),
            Ok(vec![json!({"a": "a"})]),
            "row 103"
        );
        assert_eq!(
            merged(go, json!(["b"]), json!([[{"a": "a"}], [{"b": "b"}]])),
            Ok(vec![json!({"a": "a"})]),
            "row 104"
        );
        for twice in [
            json!([[{"key": "b", "n": "1"}, {"key": "b", "n": "2"}], []]),
            json!([[], [{"key": "b"}, {"key": "b"}]]),
        ] {
            world.fails(
                go,
                &merge(json!(["key"]), lists(twice)),
                &["g.merge: ", r#"{"key":"b"}"#],
                105,
            );
        }
        let product = merge(
            json!(["a", "b"]),
            json!([
                matrix(
                    list(json!([{"a": "1"}, {"a": "2"}])),
                    list(json!([{"b": "1"}, {"b": "2"}]))
                ),
                list(json!([{"a": "1", "b": "1", "c": "added"}])),
            ]),
        );
        let sets = world.sets(go, &product).unwrap();
        let added: Vec<bool> = sets.iter().map(|set| set.get("c").is_some()).collect();
        assert_eq!(
            added,
            [true, false, false, false],
            "row 106, in the order of the base (AS-083)"
        );
        let keys = json!(["key", "key"]);
        let once = merged(go, json!(["key"]), json!([[{"key": "k"}], [{"key": "k", "v": "1"}]]));
        assert_eq!(
            merged(go, keys, json!([[{"key": "k"}], [{"key": "k", "v": "1"}]])),
            once,
            "row 107"
        );
        let with_selector = merge(
            json!(["k"]),
            json!([
                {"list": {"elements": [{"k": "1"}, {"k": "2"}]}, "selector": {"matchLabels": {"k": "2"}}},
                list(json!([{"k": "1", "v": "a"}, {"k": "2", "v": "b"}])),
            ]),
        );
        assert_eq!(world.sets(go, &with_selector), Ok(vec![json!({"k": "2", "v": "b"})]), "AS-083");
    }
    let deep = json!([[{"k": 1, "m": {"a": 1, "b": 2}, "l": [1]}], [{"k": 1.0, "m": {"a": false}, "l": []}]]);
    let want = json!({"k": 1.0, "m": {"a": false, "b": 2}, "l": []});
    assert_eq!(
        merged(true, json!(["k"]), deep),
        Ok(vec![want]),
        "AS-081: a number has one identity"
    );
    let dotted = json!([[{"values": {"id": "x"}}], [{"values": {"id": "x", "v": 1}}, {"values": {"id": "y"}}]]);
    assert_eq!(
        merged(true, json!(["values.id"]), dotted),
        Ok(vec![json!({"values": {"id": "x", "v": 1}})]),
        "AS-082"
    );
    let numbers = merge(
        json!(["k"]),
        json!([
            {"list": {"elementsYaml": "- {k: a, count: 1000000}\n- {k: b, count: 3}"}},
            list(json!([{"k": "a"}])),
        ]),
    );
    let want = vec![json!({"k": "a", "count": 1_000_000}), json!({"k": "b", "count": 3})];
    assert_eq!(world.sets(false, &numbers), Ok(want), "AS-081: nothing becomes text");
}

#[test]
fn combinations_can_be_nested_once_as_004() {
    let world = World::default();
    let one = || list(json!([{"a": "1"}]));
    let two = matrix(one(), one());
    for outer in [
        matrix(two.clone(), one()),
        matrix(one(), two.clone()),
        merge(json!(["a"]), json!([two.clone(), one()])),
    ] {
        assert_eq!(world.sets(true, &outer), Ok(vec![json!({"a": "1"})]), "{outer}");
    }
    let three = matrix(matrix(two, one()), one());
    let place = "g.matrix.generators[0].matrix.generators[0].matrix: a matrix or merge generator can be nested once only";
    world.fails(true, &three, &[place], 4);
}

#[test]
fn intervals_are_the_shortest_of_all_generators_as_047() {
    let world = World { clusters: clusters(), ..World::default() };
    let after = |seconds: Option<u64>| {
        let mut element = directories(&["*"]);
        if let Some(seconds) = seconds {
            element["git"]["requeueAfterSeconds"] = seconds.into();
        }
        element
    };
    let interval = |element: &Value| world.evaluate(true, element).unwrap().1.requeue_after;
    let seconds = |count| Some(Duration::from_secs(count));
    assert_eq!(interval(&after(None)), seconds(180));
    assert_eq!(interval(&after(Some(0))), None);
    assert_eq!(interval(&matrix(after(Some(90)), after(Some(60)))), seconds(60), "AS-074");
    assert_eq!(interval(&matrix(list(json!([])), after(Some(60)))), seconds(60), "never evaluated");
    assert_eq!(interval(&matrix(list(json!([])), matrix(list(json!([])), after(Some(0))))), None);
    assert_eq!(interval(&json!({"clusters": {}})), None);
    let mut wrong = after(None);
    for value in [json!(-1), json!("60"), json!(1.5)] {
        wrong["git"]["requeueAfterSeconds"] = value;
        let place = "g.matrix.generators[1].git.requeueAfterSeconds: must be a number";
        world.fails(true, &matrix(list(json!([])), wrong.clone()), &[place], 47);
    }
}
