//! Pointers of Git LFS in the place of files.

use serde_json::json;

use super::render::{ECHO, Source};

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

/// SE-099: what is read here is refused by name; a text that is imported, or the value of a
/// parameter, would be deployed.
#[tokio::test]
async fn a_pointer_in_place_of_a_file_is_named_se_099() {
    let import = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'a'}, a: importstr 'x'}";
    let values = json!({"helm": {"valueFiles": ["x"]}});
    let parameter = json!({"helm": {"fileParameters": [{"name": "a", "path": "x"}]}});
    let cases = [
        ("a.jsonnet", ("b.yaml", ""), json!({}), "a.jsonnet: a Git LFS pointer (sha256:4d7a"),
        (".argocd-source.yaml", ("b.yaml", ""), json!({}), ".argocd-source.yaml: a Git LFS"),
        ("x", ("a.jsonnet", import), json!({}), "import \"x\": x: a Git LFS pointer"),
        ("x", ("Chart.yaml", ""), values, "helm.valueFiles[0]: x: a Git LFS pointer"),
        ("x", ("Chart.yaml", ""), parameter, "helm.fileParameters[0]: x: a Git LFS pointer"),
    ];
    for (pointer, (file, content), source, want) in cases {
        let tree = Source::new(&[]).file(pointer, POINTER).file(file, content);
        let error = tree.program("helm", ECHO).fails(source).await;
        assert!(error.contains(want) && error.contains("set enableLfs"), "{want}: {error}");
    }
}

/// Helm and Kustomize do not know pointers, and say other things about them.
#[tokio::test]
async fn pointers_are_named_where_a_program_fails() {
    let fails = "echo 'Error: YAML parse error on c/templates/a.yaml' >&2; exit 1";
    let prints = "echo 'version https://git-lfs.github.com/spec/v1'";
    let hint = "; Git LFS pointers are in the place of files: app/templates/a.yaml; set enableLfs";
    let base = "; Git LFS pointers are in the place of files: base/b.yaml; set enableLfs";
    let cases = [
        ("app/Chart.yaml", "app/templates/a.yaml", fails, Some(hint)),
        ("app/Chart.yaml", "app/templates/a.yaml", prints, Some(hint)),
        ("app/kustomization.yaml", "base/b.yaml", fails, Some(base)),
        // No program parses it.
        ("app/Chart.yaml", "app/icon.png", fails, None),
        ("app/Chart.yaml", "app/templates/a.yaml", ECHO, None),
    ];
    for (file, pointer, program, want) in cases {
        let tree = Source::new(&[]).file(file, "").file(pointer, POINTER);
        let tree = tree.program("helm", program).program("kustomize", program);
        match tree.render(json!({"path": "app"})).await {
            Ok(_) => assert!(want.is_none() && program == ECHO, "{pointer}"),
            Err(error) => match (error.to_string(), want) {
                (error, Some(want)) => assert!(error.contains(want), "{error}"),
                (error, None) => assert!(!error.contains("LFS"), "{error}"),
            },
        }
    }
}
