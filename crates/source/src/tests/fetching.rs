//! What rendering keeps on disk and fetches: private copies, schemas in archives, and transient
//! failures.

use std::io::Write;

use serde_json::{Value, json};

use super::render::{ECHO, Source};
use crate::RenderError;

/// An object whose data has the answers of commands.
fn answers(commands: &str) -> String {
    format!(
        "echo 'apiVersion: v1'; echo 'kind: ConfigMap'; echo 'metadata: {{name: a}}'; {commands}"
    )
}

/// A private copy is next to the checkout: it shares its files, and the next process removes it
/// if this one is killed.
#[tokio::test]
async fn private_copies_are_in_the_cache_and_share_files() {
    let program = answers(
        "eval last=\\${$#}; echo \"place: $last\"; echo \"home: $HOME\"; \
         echo \"links: $(stat -c %h \"$last/a.yaml\")\"",
    );
    let tree = Source::new(&["a.yaml"])
        .file("kustomization.yaml", "resources: [a.yaml]\n")
        .program("kustomize", &program);
    let rendered = tree.render(json!({"kustomize": {"namePrefix": "x-"}})).await.unwrap();
    let object = &rendered.manifests[0].object;
    for field in ["place", "home"] {
        let path = object[field].as_str().unwrap();
        assert!(path.contains("/wavegate-source-"), "{field}: {path}");
    }
    assert_eq!(object["links"], 2);
}

/// Helm with the network reads the schemas of packed charts, too.
#[tokio::test]
async fn schemas_in_archives_are_checked_where_helm_has_the_network() {
    let packed = |files: &[(&str, &[u8])]| {
        let zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(zip);
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    };
    let schema = |reference: &str| json!({"\u{24}ref": reference}).to_string();
    let outside = schema("http://127.0.0.1:10250/pods");
    let direct = packed(&[("sub/values.schema.json", outside.as_bytes())]);
    let inner = packed(&[("in/values.schema.json", outside.as_bytes())]);
    let nested = packed(&[("sub/charts/in-1.0.0.tgz", &inner)]);
    let own = packed(&[("sub/values.schema.json", schema("#/a").as_bytes())]);
    let mut twice = packed(&[("sub/Chart.yaml", b"name: sub\n")]);
    twice.truncate(twice.len() / 2);
    for (case, archive, want) in [
        ("direct", direct, Some("charts/sub-1.0.0.tgz: sub/values.schema.json: $ref")),
        ("nested", nested, Some("sub/charts/in-1.0.0.tgz: in/values.schema.json: $ref")),
        ("truncated", twice, Some("cannot read the archive for its schemas")),
        ("own", own, None),
    ] {
        let mut tree = Source::new(&["Chart.yaml"]).program("helm", ECHO);
        tree.options.programs.values_file_schemes = vec!["https".into()];
        let path = tree.path().join("charts/sub-1.0.0.tgz");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::File::create(path).unwrap().write_all(&archive).unwrap();
        let fetched = json!({"helm": {"valueFiles": ["https://example.com/v.yaml"]}});
        match (tree.render(fetched).await, want) {
            (Ok(_), None) => {}
            (Err(error), Some(want)) => assert!(error.to_string().contains(want), "{error}"),
            (other, _) => panic!("{case}: {other:?}"),
        }
        let files_only = json!({"helm": {"releaseName": "x"}});
        assert!(tree.render(files_only).await.is_ok(), "{case}");
    }
}

/// A text that is no JSON here may be a schema for Helm.
#[tokio::test]
async fn a_schema_that_cannot_be_read_is_refused() {
    let helm = json!({"helm": {"releaseName": "x"}});
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in ["{\"$ref\": \"file:///etc/passwd\"} trailing", "{", "", &deep] {
        let tree = Source::new(&["Chart.yaml"]).file("values.schema.json", text);
        let tree = tree.program("helm", ECHO);
        let error = tree.fails(helm.clone()).await;
        assert!(error.contains("values.schema.json: cannot be read as JSON"), "{error}");
        assert!(tree.render(json!({"helm": {"skipSchemaValidation": true}})).await.is_ok());
    }
    let marked = Source::new(&["Chart.yaml"]).file("values.schema.json", "\u{feff}{}");
    assert!(marked.program("helm", ECHO).render(helm).await.is_ok());
}

/// A server that is away has the time that an unreachable repository has; a mistake of the source
/// does not.
#[tokio::test]
async fn failures_of_servers_are_transient_and_mistakes_are_not() {
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    let template = "Error: template: c/a.yaml:1: function \"x\" not defined";
    let fetched = json!({"helm": {"valueFiles": ["https://example.com/v.yaml"]}});
    let files_only = json!({"helm": {"releaseName": "x"}});
    let cases: [(&str, &Value, bool); 4] = [
        (refused, &fetched, true),
        (refused, &files_only, false),
        (template, &fetched, false),
        (template, &files_only, false),
    ];
    for (said, source, is_transient) in cases {
        let program = format!("echo '{said}' >&2; exit 1");
        let mut tree = Source::new(&["Chart.yaml"]).program("helm", &program);
        tree.options.programs.values_file_schemes = vec!["https".into()];
        let error = tree.render(source.clone()).await.unwrap_err();
        assert_eq!(error.is_transient(), is_transient, "{error}");
    }
    let tree = Source::new(&["a.yaml"]);
    let gone = tree.render(json!({"plugin": {"name": "own"}})).await.unwrap_err();
    assert!(gone.is_transient(), "{gone}");
    let missing = tree.render(json!({"helm": {"releaseName": "x"}})).await.unwrap_err();
    assert!(!missing.is_transient(), "{missing}");
    assert!(RenderError::Read { file: "a".into(), error: "b".into() }.is_transient());
}
