//! The time of each reader grows with what it reads, and not with its square.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::write;
use crate::directory::manifests::{DirectoryOptions, read_directory};
use crate::kustomize::kustomization::Block;
use crate::render::build_environment::BuildEnvironment;
use crate::render::checked::links_stay_inside;
use crate::render::manifest::Sink;
use crate::render::render_for::RenderFor;

#[path = "../../../../tests/it/support/growth.rs"]
pub(crate) mod measured;

use measured::assert_linear;

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;

/// A directory that something is written into.
fn directory(fill: impl FnOnce(&Path)) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    directory
}

#[test]
fn files_and_links() {
    let read = |directory: &tempfile::TempDir| {
        drop(read_directory(directory.path(), ".", &DirectoryOptions::default()));
    };
    let files = |count: usize| {
        directory(|root| (0..count).for_each(|n| write(root, &format!("f{n}.yaml"), OBJECT)))
    };
    assert_linear("files", 500, files, read);
    let listed = |count: usize| {
        let items = vec![OBJECT; count].join(",");
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#);
        directory(|root| write(root, "list.json", &list))
    };
    assert_linear("a list in JSON", 3_000, listed, read);
    // Each leads through all before it, within their limit.
    let links = |count: usize| {
        directory(|root| {
            write(root, "d/end.yaml", OBJECT);
            for n in 0..count {
                symlink("./d/../d/end.yaml", root.join(format!("l{n}.yaml"))).unwrap();
            }
        })
    };
    let follow = |directory: &tempfile::TempDir| {
        let root = directory.path().canonicalize().unwrap();
        crate::links::can_be_followed(&root).unwrap();
        links_stay_inside(&root).unwrap();
    };
    assert_linear("links", 1_000, links, follow);
}

#[test]
fn output_of_programs_and_of_jsonnet() {
    let text = |part: &str, count: usize| part.repeat(count);
    let read = |text: &String| {
        let mut sink = Sink::new(u64::MAX);
        drop(sink.output(text, "helm"));
    };
    for (what, part) in [
        ("documents", format!("---\n# Source: a/templates/b.yaml\n{OBJECT}\n")),
        ("documents that are no manifests", "---\n# Source: a/templates/b.yaml\na\n".to_owned()),
        ("lines that begin manifests", "apiVersion: v1\nkind:\n".to_owned()),
    ] {
        assert_linear(what, 3_000, |count| text(&part, count), read);
    }
    let values = |count: usize| -> Vec<Value> {
        (0..count).map(|_| serde_json::from_str(OBJECT).unwrap()).collect()
    };
    let jsonnet = |values: &Vec<Value>| {
        let mut sink = Sink::new(u64::MAX);
        sink.value(values.clone().into(), "a.jsonnet").unwrap();
    };
    assert_linear("values of Jsonnet", 3_000, values, jsonnet);
}

#[test]
fn kustomizations() {
    let environment = BuildEnvironment::new(&RenderFor::default(), &json!({}), "");
    let names = |count: usize, prefix: &str| -> Vec<String> {
        (0..count).map(|n| format!("{prefix}{n}")).collect()
    };
    for field in ["images", "components", "replicas"] {
        let make = |count: usize| {
            let (block, known) = match field {
                "images" => {
                    let known = names(count, "i").into_iter().map(|name| json!({"name": name}));
                    let block: Vec<String> =
                        names(count, "i").iter().map(|name| format!("{name}=a:b")).collect();
                    (json!(block), known.collect())
                }
                "replicas" => {
                    let entry = |name: String| json!({"name": name, "count": 1});
                    (names(count, "r").into_iter().map(entry).collect(), json!([]))
                }
                _ => (json!([]), json!(names(count, "known"))),
            };
            let block = Block::of(&json!({"kustomize": {field: block}})).unwrap();
            let mut kustomization = json!({});
            kustomization[field] = known;
            (block, kustomization, names(count, "c"))
        };
        let edit = |(block, kustomization, components): &(Block, Value, Vec<String>)| {
            let components = if field == "components" { components.as_slice() } else { &[] };
            block.edit(&mut kustomization.clone(), &environment, components).unwrap();
        };
        assert_linear(field, 2_500, make, edit);
    }
}
