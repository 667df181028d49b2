//! The clusters and git generators: table A.16.

use super::*;

fn labels(labels: Value) -> Value {
    json!({"matchLabels": labels})
}

#[test]
fn clusters_give_table_a_16_as_060() {
    let world = World { clusters: clusters(), ..World::default() };
    let of = |go: bool, fields: Value| world.sets(go, &json!({ "clusters": fields }));
    let all = of(false, json!({})).unwrap();
    assert_eq!(names(&all), ["in-cluster", "production_01/west", "staging-01"], "row 265, AS-063");
    let local = json!({"name": "in-cluster", "nameNormalized": "in-cluster", "server": "https://kubernetes.default.svc", "project": ""});
    assert_eq!(all[0], local, "row 265, AS-061");
    let second = json!({
        "name": "production_01/west",
        "nameNormalized": "production-01-west",
        "server": "https://production-01.example.com",
        "project": "prod-project",
        "metadata.labels.argocd.argoproj.io/secret-type": "cluster",
        "metadata.labels.environment": "production",
        "metadata.labels.org": "bar",
        "metadata.annotations.foo.argoproj.io": "production",
    });
    assert_eq!(all[1], second, "row 265, AS-062");
    let go = of(true, json!({})).unwrap();
    assert_eq!(go[0], local, "AS-062: no metadata");
    assert_eq!(go[1]["metadata"]["labels"]["environment"], "production");
    assert_eq!(go[1]["metadata"]["annotations"], json!({"foo.argoproj.io": "production"}));
    for go in [false, true] {
        let by = |selector: Value| of(go, json!({ "selector": selector })).unwrap();
        let clusters = by(labels(json!({"argocd.argoproj.io/secret-type": "cluster"})));
        assert_eq!(names(&clusters), ["production_01/west", "staging-01"], "row 266");
        let environments = json!({
            "matchLabels": {"org": "foo"},
            "matchExpressions": [{"key": "environment", "operator": "In", "values": ["production", "staging"]}],
        });
        assert_eq!(names(&by(environments)), ["staging-01"], "row 267");
        assert_eq!(names(&by(json!({"matchLabels": {}}))).len(), 3, "AS-061: an empty selector");
        let post = json!({"clusters": {}, "selector": labels(json!({"metadata.labels.environment": "production"}))});
        assert_eq!(
            names(&world.sets(go, &post).unwrap()),
            ["production_01/west"],
            "row 91, AS-045"
        );
        let flat = of(
            go,
            json!({"flatList": true, "values": {"v": if go { "{{.name}}" } else { "{{name}}" }}}),
        )
        .unwrap();
        assert_eq!(flat.len(), 1, "row 270");
        assert_eq!(flat[0]["clusters"].as_array().unwrap().len(), 3, "row 270");
        let value = if go {
            &flat[0]["clusters"][2]["values"]["v"]
        } else {
            &flat[0]["clusters"][2]["values.v"]
        };
        assert_eq!(value, "staging-01", "row 270");
        let none = of(go, json!({"flatList": true, "selector": labels(json!({"org": "nobody"}))}));
        assert_eq!(none, Ok(vec![json!({"clusters": []})]), "row 271");
    }
}

#[test]
fn values_of_clusters_do_not_see_each_other_as_112() {
    let world = World { clusters: clusters(), ..World::default() };
    let element = json!({"clusters": {"values": {
        "lol1": "lol", "lol2": "{{values.lol1}}{{values.lol1}}", "aaa": "{{ server }}",
        "bat": "{{ metadata.labels.environment }}", "no-op": "{{ this-does-not-exist }}",
    }}});
    let sets = world.sets(false, &element).unwrap();
    let value = |set: usize, key: &str| sets[set][format!("values.{key}")].clone();
    for (set, bat) in [(0, "{{ metadata.labels.environment }}"), (1, "production"), (2, "staging")]
    {
        assert_eq!(value(set, "lol2"), "{{values.lol1}}{{values.lol1}}", "row 268");
        assert_eq!(value(set, "aaa"), sets[set]["server"], "row 268");
        assert_eq!(value(set, "bat"), bat, "row 268");
        assert_eq!(value(set, "no-op"), "{{ this-does-not-exist }}", "row 268");
    }
    let strict = World { clusters: clusters(), options: &["missingkey=error"], ..World::default() };
    let environment = json!({"clusters": {"values": {"x": "{{ .metadata.labels.environment }}"}}});
    strict.fails(true, &environment, &["g.clusters.values.x: template: ", "metadata"], 269);
    let loose = world.sets(true, &environment).unwrap();
    assert_eq!(loose[0]["values"]["x"], "<no value>", "row 269 without the option");
    for values in [json!([]), json!({"x": 1})] {
        world.fails(true, &json!({"clusters": { "values": values }}), &["g.clusters.values"], 112);
    }
}

#[test]
fn two_clusters_of_one_name_are_both_generated_as_063() {
    let mut clusters = clusters();
    clusters[1].name = "staging-01".to_owned();
    clusters[1].server = "https://kubernetes.default.svc".to_owned();
    let world = World { clusters, ..World::default() };
    let sets = world.sets(true, &json!({"clusters": {}})).unwrap();
    assert_eq!(
        names(&sets),
        ["staging-01", "staging-01"],
        "AS-061: its Secret is the local cluster"
    );
}

#[test]
fn an_invalid_selector_fails_and_names_the_field_as_044() {
    let world = World { clusters: clusters(), ..World::default() };
    let expression = |expression: Value| json!({ "matchExpressions": [expression] });
    let both = [
        (json!("x"), "must be an object"),
        (json!([]), "must be an object"),
        (json!({"matchLabel": {"a": "b"}}), "matchLabel: is not a field"),
        (json!({"matchLabels": "a=b"}), "matchLabels: must be an object"),
        (json!({"matchLabels": {"a": 1}}), "matchLabels.a: must be a string"),
        (json!({"matchLabels": {"not a key": "b"}}), "not a key"),
        (json!({"matchExpressions": {}}), "matchExpressions: must be a list"),
        (expression(json!("a")), "matchExpressions[0]: must be an object"),
        (expression(json!({"operator": "Exists"})), "matchExpressions[0].key: must be a string"),
        (
            expression(json!({"key": "a", "operator": "In", "value": ["b"]})),
            "matchExpressions[0].value: is not a field",
        ),
        (
            expression(json!({"key": "a", "operator": "In", "values": "b"})),
            "matchExpressions[0].values: must be a list",
        ),
        (
            expression(json!({"key": "a", "operator": "In", "values": [1]})),
            "matchExpressions[0].values[0]: must be a string",
        ),
        (expression(json!({"key": "a", "operator": "In"})), "matchExpressions[0].values: is empty"),
        (
            expression(json!({"key": "a", "operator": "in", "values": ["b"]})),
            "matchExpressions[0].operator: \"in\" is invalid",
        ),
    ];
    for (selector, part) in both {
        let own = json!({"clusters": {}, "selector": selector});
        world.fails(true, &own, &["g.selector: ", part], 90);
        let inner = json!({"clusters": { "selector": selector }});
        world.fails(true, &inner, &["g.clusters.selector: ", part], 90);
    }
    for value in ["https://staging", &"a".repeat(64), "-a"] {
        let selector = labels(json!({ "org": value }));
        world.fails(true, &json!({"clusters": { "selector": selector }}), &["no label has it"], 60);
        assert_eq!(
            world.sets(true, &json!({"clusters": {}, "selector": selector})),
            Ok(vec![]),
            "row 87"
        );
    }
}

#[test]
fn directories_give_table_a_16_as_092() {
    let world =
        World { directories: &["app1", "app2", "app_3", "p1", "p1/app4"], ..World::default() };
    let sets = world.sets(true, &directories(&["*"])).unwrap();
    let paths = |sets: &[Value]| -> Vec<String> {
        sets.iter().map(|set| set["path"]["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(&sets), ["app1", "app2", "app_3", "p1"], "row 272");
    assert_eq!(sets[2]["path"]["basenameNormalized"], "app-3", "row 272");

    let world = World {
        directories: &["app1", "p1", "p1/app2", "p1/app3", "p1/p2", "p1/p2/app3"],
        ..World::default()
    };
    let items = [
        json!({"path": "p1/app*"}),
        json!({"path": "p1/p2/*"}),
        json!({"path": "p1/app3", "exclude": true}),
    ];
    let mut reversed = items.to_vec();
    reversed.reverse();
    for items in [items.to_vec(), reversed] {
        let element = git(json!({ "directories": items, "values": {"v": "{{.path.basename}}"} }));
        let sets = world.sets(true, &element).unwrap();
        assert_eq!(paths(&sets), ["p1/app2", "p1/p2/app3"], "row 273");
        let path = json!({"path": "p1/app2", "basename": "app2", "basenameNormalized": "app2", "segments": ["p1", "app2"]});
        assert_eq!(sets[0], json!({"path": path, "values": {"v": "app2"}}), "row 275, AS-095");
        let element = git(json!({ "directories": items, "values": {"v": "{{path[0]}}"} }));
        let simple = json!({"path": "p1/app2", "path.basename": "app2", "path.basenameNormalized": "app2", "path[0]": "p1", "path[1]": "app2", "values.v": "p1"});
        assert_eq!(world.sets(false, &element).unwrap()[0], simple, "row 274, AS-093");
    }
    let prefixed = git(json!({"directories": [{"path": "p1/app2"}], "pathParamPrefix": "myRepo"}));
    let go = world.sets(true, &prefixed).unwrap();
    assert_eq!(go[0]["myRepo"]["path"]["path"], "p1/app2", "row 276");
    let simple = json!({"myRepo.path": "p1/app2", "myRepo.path.basename": "app2", "myRepo.path.basenameNormalized": "app2", "myRepo.path[0]": "p1", "myRepo.path[1]": "app2"});
    assert_eq!(world.sets(false, &prefixed), Ok(vec![simple]), "row 276");
    let both = git(json!({"directories": [{"path": "app1"}], "files": [{"path": "**"}]}));
    assert_eq!(paths(&world.sets(true, &both).unwrap()), ["app1"], "AS-090: files are ignored");
    world.fails(true, &git(json!({})), &["g.git: has neither directories nor files"], 90);
    world.fails(true, &git(json!({"directories": [], "files": []})), &["neither"], 90);
}

#[test]
fn an_invalid_pattern_of_directories_matches_nothing_and_is_reported_as_092() {
    let world = World { directories: &["a", "b"], ..World::default() };
    let element = git(json!({"directories": [
        {"path": "a["}, {"path": "*"}, {"path": "b[", "exclude": true}, {"path": "a", "exclude": true},
    ]}));
    let (sets, reads) = world.evaluate(true, &element).unwrap();
    assert_eq!(sets.len(), 1, "{sets:?}");
    let warnings = Vec::from_iter(reads.warnings).join("\n");
    for index in [0, 2] {
        let place = format!("g: git.directories[{index}].path: pattern ");
        assert!(warnings.contains(&place), "{warnings}");
    }
}

/// AS-092: no directory has such a path, so that one is missing, or one too many is generated.
#[test]
fn a_pattern_in_a_spelling_that_no_directory_has_is_reported_as_092() {
    let world = World { directories: &["a", "b", "c/d"], ..World::default() };
    for path in ["./a", "/a", "a/", "c//d", "c/../a", "."] {
        for (directories, index, count) in [
            (json!([{"path": path}, {"path": "b"}]), 0, 1),
            (json!([{"path": "*"}, {"path": path, "exclude": true}]), 1, 2),
        ] {
            let element = git(json!({ "directories": directories }));
            let (sets, reads) = world.evaluate(true, &element).unwrap();
            assert_eq!(sets.len(), count, "{path}");
            let warnings = Vec::from_iter(reads.warnings).join("\n");
            let want = format!("git.directories[{index}].path: {path:?} matches nothing; write");
            assert!(warnings.contains(&want), "{warnings}");
        }
    }
    let (_, reads) = world.evaluate(true, &git(json!({"directories": [{"path": "*"}]}))).unwrap();
    assert!(reads.warnings.is_empty());
}

#[test]
fn files_give_table_a_16_as_094() {
    let world = World {
        files: &[
            ("empty/dir/file_name.yaml", ""),
            ("text/a.yaml", "this is not json or yaml"),
            ("broken/a.yaml", "a: [1"),
            ("list/a.yaml", "- {name: a}\n- {name: b}\n- null"),
            ("none/a.json", "[]"),
            (
                "values/a.yaml",
                "cluster: {name: prod, nodes: 3, ready: true, big: 1000000, none: null, zones: [x, w]}\npath: mine",
            ),
            ("two/a.yaml", "a: 1\na: 2\n---\nb: 2"),
            ("root.json", "{\"name\": \"r\"}"),
            ("mixed/a.yaml", "- 1"),
        ],
        ..World::default()
    };
    let of = |path: &str| git(json!({"files": [{ "path": path }]}));
    let file = json!({
        "path": "empty/dir", "path.basename": "dir", "path.basenameNormalized": "dir",
        "path.filename": "file_name.yaml", "path.filenameNormalized": "file-name.yaml",
        "path[0]": "empty", "path[1]": "dir",
    });
    assert_eq!(world.sets(false, &of("empty/dir/file_name.yaml")), Ok(vec![file]), "row 277");
    for go in [false, true] {
        for path in ["text/a.yaml", "broken/a.yaml", "mixed/a.yaml"] {
            let place = format!("g.git[{path}]: ");
            world.fails(go, &of(path), &[&place, "https://git.example.com/fleet"], 278);
        }
        let sets = world.sets(go, &of("list")).unwrap();
        assert_eq!(sets.len(), 3, "row 279");
        assert_eq!((&sets[0]["name"], &sets[1]["name"]), (&json!("a"), &json!("b")), "row 279");
        assert!(sets.iter().all(|set| !set["path"].is_null()), "row 279");
        assert_eq!(world.sets(go, &of("none/*")), Ok(vec![]), "row 280");
        assert_eq!(world.sets(go, &of("nothing/*")), Ok(vec![]), "a pattern that matches nothing");
    }
    let sets = world.sets(false, &of("values/*")).unwrap();
    let value = |key: &str| sets[0][key].clone();
    let got = ["name", "nodes", "ready", "big", "none", "zones.0", "zones.1"]
        .map(|key| value(&format!("cluster.{key}")));
    assert_eq!(got, ["prod", "3", "true", "1e+06", "<nil>", "x", "w"], "row 281, AS-111");
    assert_eq!(value("path"), "values", "AS-094: the content's path is overwritten");
    let sets = world.sets(true, &of("values/*")).unwrap();
    assert_eq!(sets[0]["cluster"]["nodes"], 3, "verbatim");
    let root = world.sets(true, &of("root.json")).unwrap();
    let path = json!({"path": ".", "basename": ".", "basenameNormalized": "", "segments": ["."], "filename": "root.json", "filenameNormalized": "root.json"});
    assert_eq!(root[0]["path"], path);
    let (sets, reads) = world.evaluate(true, &of("two/*")).unwrap();
    assert_eq!(sets[0]["a"], 2, "the first document, the last of equal keys");
    let warnings = Vec::from_iter(reads.warnings).join("\n");
    assert!(warnings.contains("only the first of its 2 documents"), "{warnings}");
    let excluded = git(json!({"files": [{"path": "*"}, {"path": "*.yaml", "exclude": true}]}));
    assert_eq!(world.sets(true, &excluded).unwrap().len(), 1, "root.json; none/a.json has no sets");
    for path in ["/values/a.yaml", "../a", "a["] {
        world.fails(true, &of(path), &["g.git.files", "pattern"], 94);
    }
}

#[test]
fn a_star_of_files_crosses_directories_unless_set_otherwise_as_096() {
    let files: &[(&str, &str)] = &[
        ("cluster-charts/c1/mychart/charts/sub/values.yaml", ""),
        ("cluster-charts/c1/mychart/values.yaml", ""),
    ];
    for (globbing, count) in [(Globbing::Greedy, 2), (Globbing::BySegment, 1)] {
        let world = World { files, globbing, ..World::default() };
        let element = git(json!({"files": [{"path": "cluster-charts/*/*/values.yaml"}]}));
        assert_eq!(world.sets(true, &element).unwrap().len(), count, "row 282");
    }
}

#[test]
fn a_list_that_is_too_long_names_the_limit_as_135() {
    let world = World { directories: &["a"], ..World::default() };
    let paths: Vec<Value> = (0..1001).map(|index| json!({"path": format!("p{index}")})).collect();
    for field in ["directories", "files"] {
        world.fails(
            true,
            &git(json!({ field: paths })),
            &[&format!("g.git.{field}: limit exceeded: more than 1000 patterns")],
            0,
        );
    }
    let many: Vec<Value> =
        (0..1001).map(|index| json!({"url": format!("https://git.example.com/{index}")})).collect();
    let mut second = git(json!({"directories": [{"path": "*"}]}));
    second["git"]["repoURL"] = "{{.url}}".into();
    world.fails(
        true,
        &matrix(list(many.into()), second),
        &["g.matrix.generators[1].git: limit exceeded: the generators read more than 1000"],
        0,
    );
    let numbers: Vec<Value> = (0..700).map(|n| json!({ "a": n })).collect();
    world.fails(
        true,
        &matrix(list(numbers.clone().into()), list(numbers.into())),
        &["g.matrix: limit exceeded: the parameter sets take more than 134217728 bytes of memory"],
        0,
    );
}

#[test]
fn credentials_are_those_of_an_existing_project_as_091() {
    let world =
        |project, projects| World { directories: &["a"], project, projects, ..World::default() };
    let projects_of = |world: World| -> Result<Vec<String>, String> {
        let (_, reads) = world.evaluate(true, &directories(&["*"]))?;
        Ok(reads.git.into_iter().map(|request| request.project).collect())
    };
    let known: Option<&'static [&'static str]> = Some(&["team"]);
    assert_eq!(projects_of(world("team", known)), Ok(vec!["team".to_owned()]));
    assert_eq!(projects_of(world("{{.path.basename}}", known)), Ok(vec![String::new()]));
    assert_eq!(projects_of(world("other", None)), Ok(vec!["other".to_owned()]), "a file");
    let error = projects_of(world("other", known)).unwrap_err();
    assert!(
        error.starts_with("g.git: spec.template.spec.project: AppProject other does not exist"),
        "{error}"
    );
}
