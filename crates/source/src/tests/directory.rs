//! Reading a directory of manifests (SE-093 to SE-102, rows V-224 to V-232).

use std::os::unix::fs::symlink;

use super::{config_map, write};
use crate::DirectoryOptions;
use crate::RenderError;
use crate::directory::manifests::read_directory;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (file, content) in files {
            write(tree.0.path(), file, content);
        }
        tree
    }

    fn named(names: &[&str]) -> Self {
        let tree = Self::new(&[]);
        for name in names {
            write(tree.0.path(), name, &manifest(name));
        }
        tree
    }

    fn files(&self, options: &DirectoryOptions) -> Vec<String> {
        let manifests = read_directory(self.0.path(), ".", options).unwrap();
        manifests.into_iter().map(|manifest| manifest.file).collect()
    }

    fn names(&self) -> Result<Vec<String>, RenderError> {
        let manifests = read_directory(self.0.path(), "", &DirectoryOptions::default())?;
        let name = |object: &serde_json::Value| {
            object["metadata"]["name"].as_str().unwrap_or("nameless").to_owned()
        };
        Ok(manifests.iter().map(|manifest| name(&manifest.object)).collect())
    }
}

fn manifest(name: &str) -> String {
    if name.ends_with(".json") {
        return r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#.into();
    }
    config_map("x")
}

#[test]
fn files_are_chosen_by_extension_order_and_pattern() {
    let all = ["sub/e.yaml", "d.txt", "c.json", "b.yml", "a.yaml", "sub-a.yaml", "X.YAML"];
    let plain = DirectoryOptions::default();
    let recurse = DirectoryOptions { recurse: true, ..plain.clone() };
    let with = |include: &str, exclude: &str| DirectoryOptions {
        include: include.into(),
        exclude: exclude.into(),
        ..recurse.clone()
    };
    let unfiltered = DirectoryOptions { disable_extension_filter: true, ..plain.clone() };
    let cases: [(&str, &DirectoryOptions, &[&str]); 7] = [
        ("V-224 recurse off", &plain, &["a.yaml", "b.yml", "c.json", "sub-a.yaml"]),
        (
            // By name of each entry: "sub" is before "sub-a.yaml".
            "V-224 recurse on",
            &recurse,
            &["a.yaml", "b.yml", "c.json", "sub/e.yaml", "sub-a.yaml"],
        ),
        ("V-225", &with("*.yaml", ""), &["a.yaml", "sub/e.yaml", "sub-a.yaml"]),
        ("V-226", &with("{*.yml,*.yaml}", "{a.yaml,sub/*}"), &["b.yml", "sub-a.yaml"]),
        ("exclude takes precedence over include", &with("a.yaml", "a.*"), &[]),
        (
            "SE-094 without the filter",
            &unfiltered,
            &["X.YAML", "a.yaml", "b.yml", "c.json", "d.txt", "sub-a.yaml"],
        ),
        (
            "only text files",
            &DirectoryOptions { include: "d.*".into(), ..unfiltered.clone() },
            &["d.txt"],
        ),
    ];
    let tree = Tree::named(&all);
    for (name, options, want) in cases {
        assert_eq!(tree.files(options), want, "{name}");
    }
}

#[test]
fn documents_become_objects() {
    let [a, b] = ["a", "b"].map(config_map);
    let list = |kind: &str, items: &str| format!("apiVersion: v1\nkind: {kind}\nitems: {items}\n");
    let item = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"i"}}"#;
    let nested = list(
        "List",
        &format!(
            "[{item}, {{apiVersion: v1, kind: List, metadata: {{name: inner}}, items: [{item}]}}]"
        ),
    );
    let utf16: String = format!("\u{feff}{a}");
    let cases: [(&str, &str, String, &[&str]); 13] = [
        (
            "V-227 three documents, one empty",
            "x.yaml",
            format!("{a}---\n# only this\n---\n{b}"),
            &["a", "b"],
        ),
        ("SE-099 null", "x.yaml", format!("null\n---\n{a}"), &["a"]),
        ("SE-099 byte order mark", "x.yaml", utf16, &["a"]),
        ("V-228 list", "x.yaml", list("List", &format!("[{item}, {item}]")), &["i", "i"]),
        ("SE-102 typed list", "x.yaml", list("SecretList", &format!("[{item}]")), &["i"]),
        ("SE-102 a nested list stays", "x.yaml", nested, &["i", "inner"]),
        ("SE-102 empty list", "x.yaml", list("List", "[]"), &[]),
        ("V-229 null list", "x.yaml", list("ConfigMapList", "null"), &[]),
        ("V-231 other YAML", "x.yaml", "replicas: 3\nimage: {a: b}\n".into(), &[]),
        ("V-231 broken other YAML", "x.yaml", "{{ template }}\n".into(), &[]),
        ("SE-099 scalar", "x.yaml", "hello\n".into(), &[]),
        ("V-232 skip marker", "x.yaml", format!("# +argocd:skip-file-rendering\n{a}"), &[]),
        ("JSON", "x.json", item.into(), &["i"]),
    ];
    for (name, file, content, want) in cases {
        let tree = Tree::new(&[(file, &content)]);
        assert_eq!(tree.names().unwrap(), want, "{name}");
    }
    // UTF-16 with a byte order mark, little endian.
    let tree = Tree::new(&[]);
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(a.encode_utf16().flat_map(u16::to_le_bytes));
    std::fs::write(tree.0.path().join("x.yaml"), bytes).unwrap();
    assert_eq!(tree.names().unwrap(), ["a"]);
}

#[test]
fn manifests_have_a_file_and_line() {
    let content = format!("# first\n{}---\n{}", config_map("a"), config_map("b"));
    let tree = Tree::new(&[("apps/one/x.yaml", &content)]);
    let manifests =
        read_directory(tree.0.path(), "./apps//one/", &DirectoryOptions::default()).unwrap();
    let places: Vec<_> = manifests.iter().map(|m| (m.file.as_str(), m.line)).collect();
    assert_eq!(places, [("apps/one/x.yaml", 2), ("apps/one/x.yaml", 7)]);
}

#[test]
fn errors_name_file_and_line() {
    let a = config_map("a");
    let item = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"i"}}"#;
    let cases = [
        (
            "V-230",
            "x.json",
            format!("{item}{item}"),
            "Found multiple objects in \"x.json\". Only single objects are allowed in JSON files.",
        ),
        (
            "V-230 trailing text",
            "x.json",
            format!("{item} more"),
            "Found multiple objects in \"x.json\"",
        ),
        (
            "SE-100 no object",
            "x.json",
            "[1]".into(),
            "Failed to unmarshal \"x.json\": line 1: not an object",
        ),
        ("SE-100 empty", "x.json", " ".into(), "Failed to unmarshal \"x.json\": the file is empty"),
        (
            "SE-099 after an object",
            "x.yaml",
            format!("{a}---\nreplicas: 3\n"),
            "Failed to unmarshal \"x.yaml\": line 6: object 'kind' is missing",
        ),
        (
            "SE-099 broken after an object",
            "x.yaml",
            format!("{a}---\nb: [\n"),
            "Failed to unmarshal \"x.yaml\": line ",
        ),
        (
            "SE-099 looks like a manifest",
            "x.yaml",
            a.replace("name: a", "name: [a"),
            "Failed to unmarshal \"x.yaml\": line ",
        ),
        (
            "SE-099 a broken manifest of JSON",
            "x.yaml",
            item.replace("}}", "}, "),
            "Failed to unmarshal \"x.yaml\": line ",
        ),
        (
            "SE-099 one that is cut off",
            "x.yaml",
            item[..35].to_owned(),
            "Failed to unmarshal \"x.yaml\": line ",
        ),
        (
            "no apiVersion",
            "x.yaml",
            "kind: ConfigMap\n".into(),
            "line 1: ConfigMap has no apiVersion",
        ),
        (
            "a number as apiVersion",
            "x.yaml",
            "apiVersion: 1\nkind: ConfigMap\n".into(),
            "line 1: ConfigMap: apiVersion is not a string, write it in quotes",
        ),
        (
            "item without kind",
            "x.yaml",
            "apiVersion: v1\nkind: List\nitems: [{a: 1}]\n".into(),
            "line 1: items[0]: object 'kind' is missing",
        ),
    ];
    for (name, file, content, want) in cases {
        let tree = Tree::new(&[(file, &content)]);
        let error = tree.names().unwrap_err();
        assert!(error.to_string().contains(want), "{name}: {error}");
        assert!(!error.is_transient(), "{name}");
    }
}

#[test]
fn an_alias_bomb_is_rejected() {
    let mut bomb =
        String::from("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\na0: &a0 [x, x]\n");
    for level in 1..40 {
        let below = level - 1;
        bomb.push_str(&format!("a{level}: &a{level} [*a{below}, *a{below}, *a{below}]\n"));
    }
    let error = Tree::new(&[("x.yaml", &bomb)]).names().unwrap_err();
    assert!(matches!(error, RenderError::Unreadable { .. }), "{error}");
}

#[test]
fn the_total_size_is_limited() {
    // SE-098
    let a = config_map("a");
    let tree = Tree::new(&[("a.yaml", &a), ("b.yaml", &a), ("big.txt", &"x".repeat(1000))]);
    let limit = |max_bytes| DirectoryOptions { max_bytes, ..DirectoryOptions::default() };
    let both = 2 * a.len() as u64;
    assert_eq!(tree.files(&limit(both)).len(), 2);
    assert_eq!(tree.files(&limit(0)).len(), 2);
    let error = read_directory(tree.0.path(), ".", &limit(both - 1)).unwrap_err();
    assert!(error.to_string().contains("b.yaml: the manifests of this source exceed"), "{error}");
}

#[test]
fn no_path_leaves_the_checkout() {
    let outside = Tree::named(&["secret.yaml"]);
    let tree = Tree::named(&["apps/a.yaml", "file.yaml"]);
    let root = tree.0.path();
    symlink(outside.0.path(), root.join("away")).unwrap();
    symlink("apps", root.join("within")).unwrap();
    let cases = [
        ("..", "app path is outside"),
        ("apps/../..", "app path is outside"),
        ("apps/../../x", "app path is outside"),
        ("/etc", "app path is absolute"),
        ("away", "app path is outside"),
        ("none", "none: app path does not exist"),
        ("file.yaml", "app path is not a directory"),
        ("a\0b", "app path does not exist"),
    ];
    for (path, want) in cases {
        let error = read_directory(root, path, &DirectoryOptions::default()).unwrap_err();
        assert!(error.to_string().contains(want), "{path}: {error}");
        assert!(!error.to_string().contains(root.to_str().unwrap()), "{error}");
    }
    for path in ["within", "apps/../within", "apps"] {
        let found = read_directory(root, path, &DirectoryOptions::default()).unwrap();
        assert_eq!(found.len(), 1, "{path}");
    }
    // A linked directory is not entered, so a link out of the checkout is harmless.
    let recurse = DirectoryOptions { recurse: true, ..DirectoryOptions::default() };
    assert_eq!(tree.files(&recurse), ["apps/a.yaml", "file.yaml"]);
}

#[test]
fn a_link_must_resolve_inside() {
    // SE-097: link, its target, whether it is an error, objects read.
    let outside = Tree::named(&["secret.yaml"]);
    let secret = outside.0.path().join("secret.yaml");
    let cases: [(&str, &str, bool, usize); 9] = [
        ("inside", "../other/o.yaml", false, 1),
        ("outside", secret.to_str().unwrap(), true, 0),
        ("outside and missing", "/nonexistent/x", true, 0),
        ("relative path outside, missing", "../../nonexistent/x", true, 0),
        ("outside by another link", "to-secret", true, 0),
        ("outside by another link, missing", "to-nothing", true, 0),
        ("dangling", "nothing.yaml", true, 0),
        ("itself", "link.yaml", true, 0),
        ("a directory", "../other", false, 0),
    ];
    for (name, target, fails, objects) in cases {
        let tree = Tree::named(&["other/o.yaml"]);
        std::fs::create_dir(tree.0.path().join("apps")).unwrap();
        symlink(&secret, tree.0.path().join("apps/to-secret")).unwrap();
        symlink("/nonexistent/x", tree.0.path().join("apps/to-nothing")).unwrap();
        symlink(target, tree.0.path().join("apps/link.yaml")).unwrap();
        let read = read_directory(tree.0.path(), "apps", &DirectoryOptions::default());
        match read {
            Ok(manifests) => assert!(!fails && manifests.len() == objects, "{name}"),
            Err(error) => {
                assert!(fails, "{name}: {error}");
                let file = "apps/link.yaml".to_owned();
                let link = match name.contains("outside") {
                    true => RenderError::LinkOutside { file },
                    // C14: skipped in Argo CD, which would prune what it contained.
                    false => RenderError::DanglingLink { file },
                };
                assert_eq!(error, link, "{name}");
            }
        }
    }
    // What is excluded, or has another extension, may lead anywhere in the repository.
    let tree = Tree::named(&["a.yaml"]);
    symlink("nothing.yaml", tree.0.path().join("link.yaml")).unwrap();
    symlink("nothing.txt", tree.0.path().join("link.txt")).unwrap();
    let options = DirectoryOptions { exclude: "link*".into(), ..DirectoryOptions::default() };
    assert_eq!(tree.files(&options), ["a.yaml"]);
    let options = DirectoryOptions { include: "a*".into(), ..DirectoryOptions::default() };
    assert_eq!(tree.files(&options), ["a.yaml"], "nor is one that is not included");
    // The extension is checked first: a link with another extension is not resolved.
    let tree = Tree::named(&["a.yaml"]);
    symlink(&secret, tree.0.path().join("link.txt")).unwrap();
    assert_eq!(tree.files(&DirectoryOptions::default()), ["a.yaml"]);
}
