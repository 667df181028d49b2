//! `render` and `plan` of sets that use cluster Secrets and repositories: what each generator
//! gives, alone and combined.

use super::*;
use crate::support::repository::Repository;

/// An Application in a line: name, project, path, server and namespace.
type Line = (&'static str, &'static str, &'static str, &'static str);

/// A repository of add-ons and of settings by environment.
fn fleet(folder: &TempDir) -> Repository {
    let repository = Repository::new(folder.path().join("fleet"));
    let files = [
        ("addons/ingress/kustomization.yaml", "resources: []"),
        ("addons/Log_Agent/Chart.yaml", "name: log"),
        ("addons/legacy/Chart.yaml", "name: legacy"),
        ("addons/.hidden/Chart.yaml", "name: hidden"),
        ("envs/dev/app.yaml", "team: {name: blue, size: 3}\nregions: [eu, us]"),
        ("envs/dev/sub/app.yaml", "team: {name: green, size: 1000000}"),
        ("envs/prod/app.json", r#"[{"team": {"name": "red"}}, {"team": {"name": "teal"}}]"#),
        ("envs/prod/broken.txt", "no parameters"),
        (
            "parts.yaml",
            "key:\n  parts:\n  - {name: api, version: '1.2'}\n  - {name: web, version: '1.10'}",
        ),
    ];
    let files: Vec<(String, String)> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    repository.commit("first", &files);
    repository
}

pub(super) fn secret(name: &str, server: &str, labels: Value) -> Value {
    let mut all = json!({"argocd.argoproj.io/secret-type": "cluster"});
    all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name.replace(['_', '/'], "-"), "namespace": "argocd", "labels": all, "annotations": {"team": "platform"}},
        "stringData": {"name": name, "server": server, "config": "{}"},
    })
}

pub(super) fn clusters() -> Vec<Value> {
    vec![
        secret("west_1", "https://west.example.com", json!({"env": "prod", "kafka": "no"})),
        secret("east", "https://east.example.com", json!({"env": "dev"})),
    ]
}

/// A set in the mode of Go templates.
pub(super) fn with_template(generators: Value, template: Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": generators, "template": template,
        },
    })
}

/// A template with this name, path and server.
pub(super) fn template(name: &str, path: &str, server: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.com/fleet", "path": path, "targetRevision": "HEAD"},
            "destination": {"server": server, "namespace": "apps"},
        },
    })
}

pub(super) const LOCAL: &str = "https://kubernetes.default.svc";

pub(super) fn simple(mut set: Value) -> Value {
    set["spec"]["goTemplate"] = false.into();
    set["spec"].as_object_mut().unwrap().remove("goTemplateOptions");
    set
}

/// Runs a command on a set and some Secrets in one input.
pub(super) fn run(args: &[&str], set: &Value, secrets: &[Value]) -> Run {
    let items: Vec<&Value> = std::iter::once(set).chain(secrets).collect();
    with_input(args, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

pub(super) fn render(set: &Value, secrets: &[Value]) -> Vec<Value> {
    let run = run(&["render", "-f", "-", "-o", "json"], set, secrets);
    assert_eq!(run.code, 0, "{}", run.err);
    run.json()["items"].as_array().unwrap().clone()
}

#[track_caller]
fn gives(set: &Value, secrets: &[Value], want: &[Line]) {
    let got = render(set, secrets);
    let lines: Vec<[&str; 4]> = got
        .iter()
        .map(|app| {
            let text = |pointer: &str| app.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            [
                text("/metadata/name"),
                text("/spec/project"),
                text("/spec/source/path"),
                text("/spec/destination/server"),
            ]
        })
        .collect();
    let want: Vec<[&str; 4]> = want.iter().map(|line| [line.0, line.1, line.2, line.3]).collect();
    assert_eq!(lines, want);
    for app in &got {
        assert_eq!(app["metadata"]["namespace"], "argocd", "AS-006");
    }
}

#[test]
fn clusters_of_the_files_become_applications_as_060() {
    let set = with_template(json!([{"clusters": {"values": {"tier": "{{.name}}-tier"}}}]), {
        let mut template = template("app-{{.nameNormalized}}", "{{.values.tier}}", "{{.server}}");
        template["metadata"]["labels"] = json!({"team": "{{if hasKey . \"metadata\"}}{{.metadata.annotations.team}}{{else}}none{{end}}"});
        template
    });
    gives(
        &set,
        &clusters(),
        &[
            ("app-east", "default", "east-tier", "https://east.example.com"),
            ("app-in-cluster", "default", "in-cluster-tier", LOCAL),
            ("app-west-1", "default", "west_1-tier", "https://west.example.com"),
        ],
    );
    let teams: Vec<Value> = render(&set, &clusters())
        .iter()
        .map(|app| app["metadata"]["labels"]["team"].clone())
        .collect();
    assert_eq!(
        teams,
        ["platform", "none", "platform"],
        "AS-062: the local cluster has no metadata"
    );
    let selected = json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}}}}]);
    let mut one = simple(with_template(
        selected,
        template("{{nameNormalized}}", "{{metadata.labels.env}}", "{{server}}"),
    ));
    gives(&one, &clusters(), &[("west-1", "default", "prod", "https://west.example.com")]);
    one["spec"]["generators"] = json!([{"clusters": {}, "selector": {"matchLabels": {"server": "https://east.example.com"}}}]);
    gives(&one, &clusters(), &[("east", "default", "dev", "https://east.example.com")]);
}

#[test]
fn a_cluster_has_its_server_without_trailing_slashes_as_062() {
    let secrets = [
        secret("east", "https://east.example.com/", json!({})),
        secret("local", &format!("{LOCAL}//"), json!({})),
        secret("path", "https://proxy.example.com/k8s/", json!({})),
    ];
    let want = [
        ("east", "default", "p", "https://east.example.com"),
        // No implicit local cluster besides it.
        ("local", "default", "p", LOCAL),
        ("path", "default", "p", "https://proxy.example.com/k8s"),
    ];
    let generators = json!([{"clusters": {}}]);
    let go = with_template(generators.clone(), template("{{.nameNormalized}}", "p", "{{.server}}"));
    gives(&go, &secrets, &want);
    let set = with_template(generators, template("{{nameNormalized}}", "p", "{{server}}"));
    gives(&simple(set), &secrets, &want);
}

#[test]
fn labels_annotations_and_values_are_maps_of_strings_in_go_templates_as_132() {
    let folder = tempfile::tempdir().unwrap();
    let repository = fleet(&folder);
    let of_clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "dev"}}, "values": {"tier": "gold"}}});
    let of_git = json!({"git": {"repoURL": repository.url(), "revision": "HEAD", "directories": [{"path": "addons/ingress"}], "values": {"tier": "gold"}}});
    let list = |elements: Value| json!({"list": {"elements": elements}});
    let any = list(json!([{"values": {"tier": "gold"}, "metadata": {"labels": {"env": "dev"}}}]));
    let matrix = |a: &Value, b: &Value| json!({"matrix": {"generators": [a, b]}});
    let merged = json!({"merge": {"mergeKeys": ["name"], "generators": [of_clusters, list(json!([{"name": "east", "values": {"size": "xl"}}]))]}});
    let flat = json!({"clusters": {"selector": {"matchLabels": {"env": "dev"}}, "flatList": true, "values": {"tier": "gold"}}});
    let one = list(json!([{"k": "v"}]));
    let lookup = |map: &str| {
        format!(
            r#"{{{{eq (index {map} "absent") ""}}}}|{{{{printf "%s" (index {map} "absent")}}}}|{{{{trim (index {map} "absent")}}}}|{{{{typeOf {map}}}}}"#
        )
    };
    let texts = "true|||map[string]string";
    let cases = [
        ("values of clusters", of_clusters.clone(), lookup(".values"), texts),
        ("labels", of_clusters.clone(), lookup(".metadata.labels"), texts),
        ("annotations", of_clusters.clone(), lookup(".metadata.annotations"), texts),
        (
            "metadata",
            of_clusters.clone(),
            "{{typeOf .metadata}}".to_owned(),
            "map[string]interface {}",
        ),
        ("values of git", of_git.clone(), lookup(".values"), texts),
        ("in a list of clusters", flat.clone(), lookup("(index .clusters 0).values"), texts),
        ("their labels", flat, lookup("(index .clusters 0).metadata.labels"), texts),
        ("first of a matrix", matrix(&of_clusters, &one), lookup(".metadata.labels"), texts),
        ("second of a matrix", matrix(&one, &of_clusters), lookup(".values"), texts),
        ("base of a merge", merged.clone(), lookup(".values"), texts),
        ("what a merge adds", merged, "{{.values.size}}-{{.values.tier}}".to_owned(), "xl-gold"),
        (
            "the first generator is rendered into the second",
            matrix(&of_clusters, &list(json!([{"path": lookup(".metadata.labels")}]))),
            "{{.path}}".to_owned(),
            texts,
        ),
        // JSON that the user wrote stays what it is.
        (
            "a list",
            any,
            "{{typeOf .values}} {{typeOf .metadata.labels}}".to_owned(),
            "map[string]interface {} map[string]interface {}",
        ),
        (
            "present keys",
            of_clusters.clone(),
            "{{.metadata.labels.env}}-{{.values.tier}}".to_owned(),
            "dev-gold",
        ),
    ];
    for (what, generator, path, want) in cases {
        let set = with_template(json!([generator]), template("x", &path, LOCAL));
        let got = render(&set, &clusters());
        assert_eq!(got[0]["spec"]["source"]["path"], want, "{what}");
    }
    for (option, want) in [("missingkey=zero", ""), ("missingkey=default", "<no value>")] {
        let mut set = with_template(
            json!([of_clusters]),
            template("x", "{{.metadata.labels.absent}}{{.values.absent}}", LOCAL),
        );
        set["spec"]["goTemplateOptions"] = json!([option]);
        let got = render(&set, &clusters());
        assert_eq!(got[0]["spec"]["source"]["path"], want.repeat(2), "{option}");
    }
    for (function, words) in [
        ("{{hasKey .metadata.labels \"env\"}}", "map[string]string"),
        ("{{get .values \"tier\"}}", "map[string]string"),
        ("{{dig \"metadata\" \"labels\" \"env\" \"none\" .}}", "map[string]string"),
        ("{{merge .values (dict)}}", "map[string]string"),
        ("{{keys .metadata.annotations}}", "map[string]string"),
    ] {
        let set = with_template(json!([of_clusters]), template("x", function, LOCAL));
        run(&["render", "-f", "-"], &set, &clusters())
            .fails(1, &["spec.template.spec.source.path", words]);
    }
}

#[test]
fn without_cluster_secrets_a_note_says_so() {
    let set = with_template(
        json!([{"clusters": {}}]),
        template("{{.nameNormalized}}", "p", "{{.server}}"),
    );
    let alone = run(&["render", "-f", "-", "-o", "json"], &set, &[]);
    assert_eq!(alone.code, 0, "{}", alone.err);
    assert!(
        alone.err.contains("note: ") && alone.err.contains("only the local cluster"),
        "{}",
        alone.err
    );
    let known = run(&["render", "-f", "-", "-o", "json"], &set, &clusters());
    assert_eq!(known.err, "");
    let list = with_template(json!([{"list": {"elements": []}}]), template("a", "p", LOCAL));
    assert_eq!(run(&["render", "-f", "-"], &list, &[]).err, "");
}

#[test]
fn directories_of_a_repository_become_applications_as_092() {
    let folder = tempfile::tempdir().unwrap();
    let repository = fleet(&folder);
    let git = json!({"git": {
        "repoURL": repository.url(), "revision": "main",
        "directories": [{"path": "addons/legacy", "exclude": true}, {"path": "addons/*"}],
        "values": {"chart": "{{.path.basenameNormalized}}"},
    }});
    let set = with_template(json!([git]), template("{{.values.chart}}", "{{.path.path}}", LOCAL));
    let want: &[Line] = &[
        ("ingress", "default", "addons/ingress", LOCAL),
        ("log-agent", "default", "addons/Log_Agent", LOCAL),
    ];
    gives(&set, &[], want);
    let mut simple_set =
        simple(with_template(json!([git]), template("{{values.chart}}", "{{path}}", LOCAL)));
    simple_set["spec"]["generators"][0]["git"]["values"]["chart"] =
        "{{path.basenameNormalized}}".into();
    gives(&simple_set, &[], want);
    // Row 16: segments of the path.
    let row = simple(with_template(
        json!([{"git": {"repoURL": repository.url(), "revision": "HEAD", "directories": [{"path": "addons/ingress"}]}}]),
        template("x", "{{path[0]}}/{{path.basename}}", LOCAL),
    ));
    gives(&row, &[], &[("x", "default", "addons/ingress", LOCAL)]);
    let plan = run(&["plan", "-f", "-", "-o", "json"], &set, &[]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    // An invalid pattern matches nothing, and is reported.
    let mut invalid = set.clone();
    invalid["spec"]["generators"][0]["git"]["directories"][0]["path"] = "addons/[".into();
    let rendered = run(&["render", "-f", "-", "-o", "json"], &invalid, &[]);
    assert_eq!((rendered.code, rendered.json()["items"].as_array().unwrap().len()), (0, 3));
    says(&rendered.err, "spec.generators[0]: git.directories[0].path: pattern");
    let plan = run(&["plan", "-f", "-", "-o", "json"], &invalid, &[]);
    assert_eq!((plan.code, &plan.json()["problems"][0]["code"]), (1, &json!("GeneratorWarning")));
    // So is a path that matches nothing.
    let mut misspelt = set.clone();
    misspelt["spec"]["generators"][0]["git"]["directories"] = json!([{"path": "addon/*"}]);
    let rendered = run(&["render", "-f", "-", "-o", "json"], &misspelt, &[]);
    assert_eq!((rendered.code, rendered.json()["items"].as_array().unwrap().len()), (0, 0));
    says(&rendered.err, "spec.generators[0].git: finds nothing");
    let plan = run(&["plan", "-f", "-", "-o", "json"], &misspelt, &[]);
    let problem = &plan.json()["problems"][0];
    assert_eq!((plan.code, &problem["code"]), (1, &json!("GeneratorFoundNothing")));
    says(&problem["message"].to_string(), "spec.generators[0].git: finds nothing");
}

#[test]
fn files_of_a_repository_become_applications_as_094() {
    let folder = tempfile::tempdir().unwrap();
    let repository = fleet(&folder);
    let git = |files: Value| json!([{"git": {"repoURL": repository.url(), "revision": "HEAD", "files": files}}]);
    let all = json!([{"path": "envs/*.yaml"}, {"path": "envs/prod/app.json"}]);
    let set = with_template(
        git(all.clone()),
        template("{{.team.name}}", "{{.path.basename}}/{{.path.filenameNormalized}}", LOCAL),
    );
    gives(
        &set,
        &[],
        &[
            ("blue", "default", "dev/app.yaml", LOCAL),
            ("green", "default", "sub/app.yaml", LOCAL),
            ("red", "default", "prod/app.json", LOCAL),
            ("teal", "default", "prod/app.json", LOCAL),
        ],
    );
    let numbers = simple(with_template(
        git(json!([{"path": "envs/dev"}])),
        template("{{team.name}}", "{{team.size}} {{regions.1}}", LOCAL),
    ));
    gives(
        &numbers,
        &[],
        &[("blue", "default", "3 us", LOCAL), ("green", "default", "1e+06 {{regions.1}}", LOCAL)],
    );
    let excluded = json!([{"path": "envs"}, {"path": "envs/prod/*", "exclude": true}, {"path": "**/sub/*", "exclude": true}]);
    let mut set = with_template(git(excluded), template("{{.team.name}}", "p", LOCAL));
    gives(&set, &[], &[("blue", "default", "p", LOCAL)]);
    set["spec"]["generators"] = git(json!([{"path": "none/*"}]));
    gives(&set, &[], &[]);
    let text = set.to_string().replace("none/*", "envs/*.yaml");
    let by_segment = |flag: &str| {
        with_input(&["render", "-f", "-", "-o", "json", flag], &text).json()["items"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(by_segment("--enable-new-git-file-globbing=false"), 2, "AS-096");
    assert_eq!(by_segment("--enable-new-git-file-globbing"), 0, "AS-096");
    set["spec"]["generators"] = git(json!([{"path": "envs/prod/broken.txt"}]));
    run(&["render", "-f", "-"], &set, &[]).fails(
        1,
        &["spec.generators[0].git[envs/prod/broken.txt]: ", &repository.url(), "must be an object"],
    );
    set["spec"]["generators"] = json!([{"git": {"repoURL": repository.url(), "revision": "nowhere", "directories": [{"path": "*"}]}}]);
    let failed = run(&["render", "-f", "-"], &set, &[]);
    failed.fails(1, &["cannot generate: ", "spec.generators[0].git: ", "nowhere"]);
    assert_eq!(failed.out, "", "AS-140");
}

#[test]
fn a_matrix_combines_generators_as_071() {
    let folder = tempfile::tempdir().unwrap();
    let repository = fleet(&folder);
    let matrix = |first: Value, second: Value| json!([{"matrix": {"generators": [first, second]}}]);
    let addons = json!({"git": {"repoURL": repository.url(), "revision": "HEAD", "directories": [{"path": "addons/[iL]*"}]}});
    let registered = json!({"clusters": {"selector": {"matchLabels": {"argocd.argoproj.io/secret-type": "cluster"}}, "values": {"of": "{{.path.basenameNormalized}}", "self": "{{.name}}"}}});
    let mut product = with_template(
        matrix(addons.clone(), registered),
        template(
            "{{.values.of}}-{{.nameNormalized}}",
            "{{.path.path}}/{{.values.self}}",
            "{{.server}}",
        ),
    );
    product["spec"]["template"]["spec"]["project"] = "{{.metadata.labels.env}}".into();
    gives(
        &product,
        &clusters(),
        &[
            ("ingress-east", "dev", "addons/ingress/east", "https://east.example.com"),
            ("ingress-west-1", "prod", "addons/ingress/west_1", "https://west.example.com"),
            ("log-agent-east", "dev", "addons/Log_Agent/east", "https://east.example.com"),
            ("log-agent-west-1", "prod", "addons/Log_Agent/west_1", "https://west.example.com"),
        ],
    );
    // AS-052: a list in a file.
    let parts = json!({"git": {"repoURL": repository.url(), "revision": "HEAD", "files": [{"path": "parts.yaml"}]}});
    let listed = json!({"list": {"elementsYaml": "{{.key.parts | toJson}}"}});
    let set = with_template(matrix(parts, listed), template("{{.name}}", "v{{.version}}", LOCAL));
    gives(&set, &[], &[("api", "default", "v1.2", LOCAL), ("web", "default", "v1.10", LOCAL)]);
    // The repository and its files by cluster, in two reads.
    let by_cluster = json!({"git": {"repoURL": repository.url(), "revision": "HEAD", "pathParamPrefix": "config", "files": [{"path": "envs/{{.metadata.labels.env}}/app.*"}]}});
    let selected = json!({"clusters": {"selector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}}});
    let set = with_template(
        matrix(selected, by_cluster),
        template("{{.nameNormalized}}-{{.team.name}}", "{{.config.path.path}}", "{{.server}}"),
    );
    gives(
        &set,
        &clusters(),
        &[
            ("east-blue", "default", "envs/dev", "https://east.example.com"),
            ("west-1-red", "default", "envs/prod", "https://west.example.com"),
            ("west-1-teal", "default", "envs/prod", "https://west.example.com"),
        ],
    );
    // Simple mode (row 93); keys with different values (row 94) are in `generator_rules`.
    let second = json!({"list": {"elements": [{"suffix": "for-{{path.basenameNormalized}}"}]}});
    let set = simple(with_template(matrix(addons, second), template("{{suffix}}", "p", LOCAL)));
    gives(
        &set,
        &[],
        &[("for-ingress", "default", "p", LOCAL), ("for-log-agent", "default", "p", LOCAL)],
    );
}

#[test]
fn merge_overrides_the_base_by_keys_and_combinations_nest_once_as_081() {
    let folder = tempfile::tempdir().unwrap();
    fleet(&folder);
    let base = json!({"clusters": {"values": {"kafka": "yes", "redis": "no"}}});
    let without = json!({"clusters": {"selector": {"matchLabels": {"kafka": "no"}}, "values": {"kafka": "no"}}});
    let one = json!({"list": {"elements": [{"server": "https://east.example.com", "values.redis": "yes"}, {"server": "https://unknown", "values.redis": "yes"}]}});
    let merged = |go: bool| {
        let dot = if go { "." } else { "" };
        let name = format!("{{{{{dot}nameNormalized}}}}");
        let path = format!("kafka-{{{{{dot}values.kafka}}}}-redis-{{{{{dot}values.redis}}}}");
        let mut one = one.clone();
        if go {
            one["list"]["elements"][0] =
                json!({"server": "https://east.example.com", "values": {"redis": "yes"}});
        }
        let generators =
            json!([{"merge": {"mergeKeys": ["server"], "generators": [base, without, one]}}]);
        let set = with_template(generators, template(&name, &path, LOCAL));
        if go { set } else { simple(set) }
    };
    for go in [false, true] {
        gives(
            &merged(go),
            &clusters(),
            &[
                ("east", "default", "kafka-yes-redis-yes", LOCAL),
                ("in-cluster", "default", "kafka-yes-redis-no", LOCAL),
                ("west-1", "default", "kafka-no-redis-no", LOCAL),
            ],
        );
    }
    // A matrix in a merge, as in row 106, with its own template (row 287).
    let tiers = json!({"list": {"elements": [{"tier": "small"}, {"tier": "large"}], "template": {"metadata": {}, "spec": {"project": "", "destination": {}, "source": {"repoURL": "", "path": "X"}}}}});
    let product = json!({"matrix": {"generators": [{"clusters": {"selector": {"matchLabels": {"argocd.argoproj.io/secret-type": "cluster"}}}}, tiers]}});
    let replicas =
        json!({"list": {"elements": [{"name": "east", "tier": "large", "replicas": 5}]}});
    let own = json!({"metadata": {}, "spec": {"project": "", "destination": {}, "source": {"repoURL": "", "path": "{{.tier}}-{{dig \"replicas\" 1.0 .}}"}}});
    let set = with_template(
        json!([{"merge": {"mergeKeys": ["name", "tier"], "generators": [product, replicas], "template": own}}]),
        template("{{.nameNormalized}}-{{.tier}}", "Z", "{{.server}}"),
    );
    gives(
        &set,
        &clusters(),
        &[
            ("east-large", "default", "large-5", "https://east.example.com"),
            ("east-small", "default", "small-1", "https://east.example.com"),
            ("west-1-large", "default", "large-1", "https://west.example.com"),
            ("west-1-small", "default", "small-1", "https://west.example.com"),
        ],
    );
    // A merge and a matrix in a matrix.
    let list = |elements: Value| json!({"list": {"elements": elements}});
    let merge = json!({"merge": {"mergeKeys": ["app"], "generators": [list(json!([{"app": "a"}, {"app": "b"}])), list(json!([{"app": "a", "port": "80"}]))]}});
    let inner = json!({"matrix": {"generators": [list(json!([{"zone": "{{.app}}-1"}, {"zone": "{{.app}}-2"}])), list(json!([{"color": "red"}]))]}, "selector": {"matchLabels": {"color": "red"}}});
    let set = with_template(
        json!([{"matrix": {"generators": [merge, inner]}}]),
        template("{{.zone}}-{{.color}}", "{{dig \"port\" \"none\" .}}", LOCAL),
    );
    gives(
        &set,
        &[],
        &[
            ("a-1-red", "default", "80", LOCAL),
            ("a-2-red", "default", "80", LOCAL),
            ("b-1-red", "default", "none", LOCAL),
            ("b-2-red", "default", "none", LOCAL),
        ],
    );
    // Nothing becomes text: the placeholder of a value that is none stays as written.
    let base = list(json!([{"name": "a", "num": "0"}, {"name": "b", "num": "0", "path": "own"}]));
    let over = json!({"list": {"elementsYaml": "[{name: a, num: 3, path: p, values: {z: q}}]"}});
    let generators = json!([{"merge": {"mergeKeys": ["name"], "generators": [base, over]}}]);
    let set =
        with_template(generators, template("{{name}}", "{{path}}-{{num}}-{{values.z}}", LOCAL));
    gives(
        &simple(set),
        &[],
        &[
            ("a", "default", "p-{{num}}-{{values.z}}", LOCAL),
            ("b", "default", "own-0-{{values.z}}", LOCAL),
        ],
    );
    let mut twice = merged(true);
    twice["spec"]["generators"][0]["merge"]["generators"][2] =
        list(json!([{"server": "x"}, {"server": "x"}]));
    run(&["plan", "-f", "-"], &twice, &clusters())
        .fails(1, &["spec.generators[0].merge: ", r#"{"server":"x"}"#]);
}

#[test]
fn errors_name_the_field_and_nothing_is_rendered_as_140() {
    const CASES: &str = r#"
        [{"scmProvider": {"github": {"organization": ""}}}] => [0].scmProvider.github.organization: is missing
        [LIST, {"pullRequest": {"gitea": {"owner": "o", "repo": "r"}}}] => [1].pullRequest.gitea.api: is missing
        [{"plugin": {"configMapRef": {"name": "p"}}}] => [0].plugin: ConfigMap argocd/p: is not in the files; add it with -f
        [{"clusterDecisionResource": {"configMapRef": "c"}}] => [0].clusterDecisionResource: write either name or labelSelector
        [{"matrix": {"generators": [{"list": {"elements": []}}, {"scmProvider": {"github": {}, "gitlab": {}}}]}}] => [0].matrix.generators[1].scmProvider: names several providers, github and gitlab; write one
        [{"git": {"repoURL": "", "revision": "HEAD", "directories": [{"path": "*"}]}}] => [0].git.repoURL: is missing
        [{"git": {"repoURL": "https://git.invalid/x", "revision": "HEAD", "files": [{"path": "/etc/passwd"}]}}] => [0].git.files: pattern "/etc/passwd": it is absolute
        [{"clusters": {"selector": {"matchLabels": {"a": "no label value!"}}}}] => [0].clusters.selector: matchLabels.a: 
        [{"list": {"elements": [{"a": "1"}]}, "selector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["1"]}]}}] => [0].selector: matchExpressions[0].operator: "Is" is invalid
        [{"matrix": {"generators": [LIST]}}] => [0].matrix.generators: has 1 elements
        [{"matrix": {"generators": [LIST, {"list": {"elements": []}, "clusters": {}}]}}] => [0].matrix.generators[1]: has 2 generators, list and clusters
        [{"matrix": {"generators": [LIST, {"list": {"elements": [{"b": "{{.missing}}"}]}}]}}] => [0].matrix.generators[1].list.elements[0].b: template: 
    "#;
    for (generators, part) in rows(CASES) {
        let generators = generators.replace("LIST", r#"{"list": {"elements": [{"a": "1"}]}}"#);
        let generators = serde_json::from_str(&generators).unwrap();
        let part = format!("spec.generators{part}");
        let set = with_template(generators, template("x", "p", LOCAL));
        for command in ["render", "plan"] {
            let run = run(&[command, "-f", "-"], &set, &[]);
            run.fails(1, &["error: cannot generate: ", &part]);
            assert_eq!(run.out, "", "{command}: {part}");
        }
    }
}
