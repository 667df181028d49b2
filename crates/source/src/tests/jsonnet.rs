//! Jsonnet files of a directory (SE-091, SE-101), and what hostile ones must not do.

use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};

use super::write;
use crate::DirectoryOptions;
use crate::RenderError;
use crate::RenderFor;
use crate::directory::jsonnet::JsonnetOptions;
use crate::directory::manifests::{Content, Jsonnet, read};
use crate::render::build_environment::BuildEnvironment;

struct Tree {
    directory: tempfile::TempDir,
    options: DirectoryOptions,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree =
            Self { directory: tempfile::tempdir().unwrap(), options: DirectoryOptions::default() };
        for (file, content) in files {
            write(tree.directory.path(), file, content);
        }
        tree
    }

    fn read(&self, path: &str, block: Value) -> Result<Content, RenderError> {
        let subject = RenderFor {
            application: "shop".into(),
            namespace: "prod".into(),
            ..RenderFor::default()
        };
        let source = json!({"path": path, "directory": {"jsonnet": block}});
        let environment = BuildEnvironment::new(&subject, &source, "0123456789abcdef");
        let jsonnet = Jsonnet::On {
            options: JsonnetOptions::new(&source, &environment)?,
            output: 1 << 20,
            time: Duration::from_secs(60),
        };
        let submodules = ["sub".to_owned()];
        let read = read(self.directory.path(), path, &self.options, &submodules, &jsonnet)?;
        Ok(read.expect("it is read whole"))
    }

    /// The files and names of the objects.
    fn names(&self, path: &str, block: Value) -> Vec<String> {
        let objects = self.read(path, block).unwrap().manifests;
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        objects.iter().map(|found| format!("{} {}", found.file, name(&found.object))).collect()
    }

    fn fails(&self, path: &str, block: Value) -> String {
        let error = self.read(path, block).err().expect("it fails");
        assert!(!error.is_transient(), "{error}");
        let text = error.to_string();
        assert!(!text.contains(&self.directory.path().display().to_string()), "{text}");
        text
    }
}

const LIBRARY: &str = "{map(name):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}}}";

#[test]
fn se_101_an_object_a_list_or_nothing() {
    let tree = Tree::new(&[
        ("lib/k.libsonnet", LIBRARY),
        ("app/one.jsonnet", "(import '../lib/k.libsonnet').map('one')"),
        ("app/two.jsonnet", "local k = import 'k.libsonnet'; [k.map('two'), null, k.map('three')]"),
        (
            "app/list.jsonnet",
            "{kind: 'List', apiVersion: 'v1', items: [(import 'k.libsonnet').map('item')]}",
        ),
        ("app/nothing.jsonnet", "null"),
        ("app/skipped.jsonnet", "// +argocd:skip-file-rendering\nerror 'never'"),
        ("app/plain.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n"),
        ("app/below/deep.jsonnet", "(import 'k.libsonnet').map('deep')"),
    ]);
    let block = json!({"libs": ["lib"]});
    let want = [
        "app/list.jsonnet item",
        "app/one.jsonnet one",
        "app/plain.yaml plain",
        "app/two.jsonnet two",
        "app/two.jsonnet three",
    ];
    assert_eq!(tree.names("app", block.clone()), want);
    let recurse = DirectoryOptions { recurse: true, ..DirectoryOptions::default() };
    let deep = Tree { options: recurse.clone(), directory: tree.directory };
    assert_eq!(deep.names("app", block.clone())[0], "app/below/deep.jsonnet deep");
    let only = DirectoryOptions { include: "*/deep.jsonnet".into(), ..recurse.clone() };
    let only = Tree { options: only, directory: deep.directory };
    assert_eq!(only.names("app", block.clone()), ["app/below/deep.jsonnet deep"]);
    let without = DirectoryOptions { exclude: "{*.jsonnet,*.yaml}".into(), ..recurse };
    let without = Tree { options: without, directory: only.directory };
    assert_eq!(without.names("app", block), [""; 0]);
}

#[test]
fn se_101_variables_have_the_build_environment() {
    let code = "function(name, size) {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}, \
                data: {env: std.extVar('env'), size: std.toString(size), sum: std.extVar('sum')}}";
    let tree = Tree::new(&[("app/a.jsonnet", code)]);
    let block = json!({
        "extVars": [
            {"name": "env", "value": "${ARGOCD_APP_NAMESPACE}-$ARGOCD_APP_REVISION_SHORT-$OTHER-$$"},
            {"name": "sum", "value": "std.length('$ARGOCD_APP_NAME')", "code": true},
        ],
        "tlas": [{"name": "name", "value": "$ARGOCD_APP_NAME"}, {"name": "size", "value": "1 + 2", "code": true}],
    });
    let object = tree.read("app", block).unwrap().manifests.remove(0).object;
    assert_eq!(object["metadata"]["name"], "shop");
    assert_eq!(object["data"], json!({"env": "prod-0123456--$", "size": "3", "sum": 4}));
    // A name that is set twice has its last value, and is reported.
    let block = json!({
        "extVars": [
            {"name": "env", "value": "1 +", "code": true}, {"name": "sum", "value": "s"},
            {"name": "env", "value": "last"},
        ],
        "tlas": [{"name": "name", "value": "a"}, {"name": "size"}, {"name": "name", "value": "b"}],
    });
    let mut content = tree.read("app", block).unwrap();
    let object = content.manifests.remove(0).object;
    assert_eq!(
        (&object["metadata"]["name"], &object["data"]["env"]),
        (&json!("b"), &json!("last"))
    );
    let twice = |field: &str, name: &str| {
        format!(
            "directory.jsonnet.{field}[2]: {name} is set more than once; only the last one is used"
        )
    };
    assert_eq!(content.notes, [twice("extVars", "env"), twice("tlas", "name")]);
    let wrong = [
        (json!({"libs": "lib"}), "directory.jsonnet.libs: not a list"),
        (json!({"libs": [1]}), "directory.jsonnet.libs[0]: not a string"),
        (json!({"libs": ["../up"]}), "directory.jsonnet.libs[0]: ../up: outside of the repository"),
        (json!({"tlas": [{"value": "x"}]}), "directory.jsonnet.tlas[0]: name is missing"),
        (json!({"extVars": [{"name": "a", "code": "true"}]}), "extVars[0]: code is neither"),
        (json!({"tlas": [{"name": "other", "value": "x"}]}), "a.jsonnet\": app/a.jsonnet"),
    ];
    for (block, want) in wrong {
        let error = tree.fails("app", block);
        assert!(error.contains(want), "{want}: {error}");
    }
}

#[test]
fn imports_are_looked_for_in_the_order_of_argo_cd() {
    let value = |text: &str| {
        format!("{{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: '{text}'}}}}")
    };
    let tree = Tree::new(&[
        ("app/a.jsonnet", "import 'x.libsonnet'"),
        ("app/deep/b.jsonnet", "import 'y.libsonnet'"),
        ("app/y.libsonnet", &value("of the source")),
        ("one/x.libsonnet", &value("one")),
        ("two/x.libsonnet", &value("two")),
        ("two/nested/z.libsonnet", "import '../x.libsonnet'"),
    ]);
    assert_eq!(tree.names("app", json!({"libs": ["one", "/two"]})), ["app/a.jsonnet two"]);
    assert_eq!(tree.names("app", json!({"libs": ["two", "one", "none"]})), ["app/a.jsonnet one"]);
    let error = tree.fails("app", json!({"libs": ["none"]}));
    let want = "Failed to evaluate jsonnet \"app/a.jsonnet\": app/a.jsonnet:1: import \
                \"x.libsonnet\": no such file; looked for app/x.libsonnet, none/x.libsonnet";
    assert_eq!(error, want);
    let recurse = DirectoryOptions { recurse: true, ..DirectoryOptions::default() };
    let tree = Tree { options: recurse, directory: tree.directory };
    let found = tree.names("app", json!({"libs": ["one"]}));
    assert_eq!(found, ["app/a.jsonnet one", "app/deep/b.jsonnet of the source"]);
    write(tree.directory.path(), "app/a.jsonnet", "import 'nested/z.libsonnet'");
    assert_eq!(tree.names("app", json!({"libs": ["one", "two"]}))[0], "app/a.jsonnet two");
}

#[test]
fn no_import_leaves_the_repository() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.txt", "secret");
    let tree = Tree::new(&[("app/x.txt", "x")]);
    let root = tree.directory.path();
    symlink(outside.path().join("secret.txt"), root.join("app/link.txt")).unwrap();
    symlink(outside.path(), root.join("app/folder")).unwrap();
    symlink("/nowhere/at/all", root.join("app/nowhere.txt")).unwrap();
    let up = format!("../../{}/secret.txt", outside.path().file_name().unwrap().display());
    let cases = [
        ("/etc/passwd", "absolute paths are not imported"),
        ("../../../../../../etc/passwd", "outside of the repository"),
        (up.as_str(), "outside of the repository"),
        ("link.txt", "app/link.txt: symbolic link points outside the repository"),
        ("folder/secret.txt", "symbolic link points outside the repository"),
        ("nowhere.txt", "symbolic link points outside the repository"),
        ("../sub/x.txt", "sub: is a git submodule"),
        (".", "no such file"),
        ("", "no such file"),
        ("x\\u0000y", "no such file"),
        ("absent.txt", "no such file; looked for app/absent.txt"),
    ];
    for (path, want) in cases {
        for import in ["import", "importstr", "importbin"] {
            write(root, "app/a.jsonnet", &format!("\n{{a: {import} '{path}'}}"));
            let error = tree.fails("app", Value::Null);
            assert!(
                error.contains(want) && error.contains("app/a.jsonnet:2: import"),
                "{path}: {error}"
            );
            assert!(!error.contains("secret\""), "{error}");
            let code = format!("{import} '{path}'");
            let block = json!({"extVars": [{"name": "a", "value": code, "code": true}]});
            write(root, "app/a.jsonnet", "null");
            let error = tree.fails("app", block);
            assert!(error.contains("code in directory.jsonnet: import"), "{path}: {error}");
        }
    }
}

#[test]
fn hostile_files_end_with_an_error_that_names_them() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let cases = [
        ("[x for x in std.range(1, 2000000000)]", ""),
        ("std.range(1, 1e12)", ""),
        ("local f(x) = f(x + 1) + f(x + 2); f(0)", "stack overflow"),
        ("local f(x) = if x == 0 then 0 else f(x - 1) tailstrict; f(1e9)", ""),
        ("local f(x) = if x > 30 then [x] else [f(x + 1), f(x + 1)]; f(0)", ""),
        ("std.repeat('x', 4000000000)", ""),
        ("std.foldl(function(a, x) a + a, std.range(1, 60), 'xxxxxxxx')", ""),
        ("local a = import 'a.jsonnet'; a", "infinite recursion"),
        ("{a: std.native('exec')('id')}", ""),
        ("std.parseJson('[' + std.repeat('[', 1000000))", ""),
        (deep.as_str(), ""),
        ("std.makeArray(1e5, function(i) std.trace(std.repeat('x', 1000), i))", "not an object"),
        ("{a: function() 1}", ""),
        ("{apiVersion: 'v1'}", "object 'kind' is missing"),
        ("'text'", "not an object"),
        ("[[1]]", "not an object"),
    ];
    for (code, want) in cases {
        let tree = Tree::new(&[("a.jsonnet", code)]);
        let started = std::time::Instant::now();
        let error = tree.fails("", Value::Null);
        let shown = code.chars().take(60).collect::<String>();
        eprintln!("{shown}: {:?}: {error}", started.elapsed());
        assert!(error.contains("a.jsonnet") && error.contains(want), "{shown}: {error}");
        assert!(error.len() < 4096, "{shown}: {}", error.len());
    }
    // Workers are as good as new.
    let good = Tree::new(&[
        ("lib/k.libsonnet", LIBRARY),
        ("a.jsonnet", "(import 'lib/k.libsonnet').map('a')"),
    ]);
    assert_eq!(good.names("", Value::Null), ["a.jsonnet a"]);
}

#[test]
fn se_091_disabled_jsonnet_is_left_out_and_told() {
    let tree = Tree::new(&[
        ("a.jsonnet", "error 'never'"),
        ("b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"),
    ]);
    let read = read(tree.directory.path(), "", &tree.options, &[], &Jsonnet::Off).unwrap();
    let content = read.expect("it is read whole");
    assert_eq!(content.manifests.len(), 1);
    let warning = &content.notes[0];
    assert!(warning.starts_with("a.jsonnet: ") && warning.contains("jsonnet.enable"), "{warning}");
}

#[test]
fn many_and_large_imports_are_refused() {
    let tree = Tree::new(&[("a.jsonnet", "local x = importstr 'big.txt'; null")]);
    let big = std::fs::File::create(tree.directory.path().join("big.txt")).unwrap();
    big.set_len(33 << 20).unwrap();
    let error = tree.fails("", Value::Null);
    assert!(
        error.contains("a.jsonnet:1: import \"big.txt\": the imported files have more than 32 MiB"),
        "{error}"
    );
    for index in 0..120 {
        let next = format!("import '{}.libsonnet'", index + 1);
        write(tree.directory.path(), &format!("{index}.libsonnet"), &next);
    }
    write(tree.directory.path(), "a.jsonnet", "import '0.libsonnet'");
    let error = tree.fails("", Value::Null);
    assert!(error.contains("nested more than 100 deep"), "{error}");
}
