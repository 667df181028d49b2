//! The override files of a repository (SE-090).

use std::os::unix::fs::symlink;

use serde_json::json;

use super::render::Source;
use super::write;
use crate::RenderFor;

#[tokio::test]
async fn a_repository_may_override_its_source() {
    // SE-090: the general file first, then the one of the Application; the location of
    // the source cannot be overridden.
    let tree = Source::new(&["apps/a.yaml", "apps/sub/b.yaml", "apps/sub/c.yaml", "other/d.yaml"])
        .file(
            "apps/.argocd-source.yaml",
            "path: other\ndirectory: {recurse: true, exclude: '*b.yaml'}\n",
        )
        .file("apps/.argocd-source-shop.yaml", "directory: {exclude: '{*c.yaml,.argocd*}'}\n")
        .file("apps/.argocd-source-else.yaml", "directory: {recurse: false}\n");
    let rendered = tree.render(json!({"path": "apps"})).await.unwrap();
    let files: Vec<&str> = rendered.manifests.iter().map(|m| m.file.as_str()).collect();
    assert_eq!(files, ["apps/a.yaml", "apps/sub/b.yaml"]);
    // Outside of the namespace of the control plane the file is named after both.
    let tree = Source::new(&["a.yaml", "b.yaml"])
        .file(".argocd-source-team_shop.yaml", "directory: {include: 'b.yaml'}\n");
    let subject = RenderFor {
        application: "shop".into(),
        instance: "team_shop".into(),
        ..RenderFor::default()
    };
    let rendered = tree.render_for(json!({"path": "."}), &subject).await.unwrap();
    let files: Vec<&str> = rendered.manifests.iter().map(|m| m.file.as_str()).collect();
    assert_eq!(files, ["b.yaml"]);
    let tree = Source::new(&["a.yaml"]).file(".argocd-source.yaml", "- a\n");
    assert!(tree.fails(json!({})).await.contains("expected one mapping"));
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "o.yaml", "directory: {recurse: true}\n");
    let tree = Source::new(&["a.yaml"]);
    symlink("nothing.yaml", tree.path().join(".argocd-source.yaml")).unwrap();
    let error = tree.fails(json!({})).await;
    assert!(error.contains(".argocd-source.yaml: symbolic link to a file that does not exist"));
    let tree = Source::new(&["a.yaml"]);
    symlink(outside.path().join("o.yaml"), tree.path().join(".argocd-source.yaml")).unwrap();
    assert!(
        tree.fails(json!({})).await.contains(".argocd-source.yaml: symbolic link points outside")
    );
}

/// SE-090: nothing else checks the types of an override file, and a value of another type must
/// not count as absent. What has no effect is reported.
#[tokio::test]
async fn a_mistake_in_an_override_file_is_no_silence_se_090() {
    let wrong = [
        ("helm: {valueFiles: dev.yaml}", "helm.valueFiles: invalid type: string"),
        (
            "helm: {parameters: [{name: a, value: 3}]}",
            "helm.parameters[0].value: invalid type: integer",
        ),
        ("helm: {values: {a: b}}", "helm.values: invalid type: map, expected a string"),
        ("helm: {skipCrds: 'true'}", "helm.skipCrds: invalid type: string"),
        ("kustomize: {images: 'a:1'}", "kustomize.images: invalid type: string"),
        ("directory: x", "directory: invalid type: string"),
        ("directory: {recurse: 1}", "directory.recurse: invalid type: integer"),
    ];
    for (text, want) in wrong {
        let tree = Source::new(&["a.yaml"]).file(".argocd-source-shop.yaml", text);
        let error = tree.fails(json!({"path": "."})).await;
        let want = format!("Failed to unmarshal \".argocd-source-shop.yaml\": {want}");
        assert!(error.contains(&want), "{text}: {error}");
        assert!(error.contains("write it as in the source of an Application"), "{error}");
    }
    let tree = Source::new(&["a.yaml", "b.yaml"]).file(
        ".argocd-source.yaml",
        "path: other\nrepoURL: null\ndirectory: {includ: 'a*', include: 'b*', exclude: null}\nfoo: 1\n",
    );
    let rendered = tree.render(json!({"path": ".", "repoURL": "u"})).await.unwrap();
    assert_eq!(rendered.manifests.len(), 1);
    let want = [
        ".argocd-source.yaml: directory.includ: unknown field; did you mean include?",
        ".argocd-source.yaml: foo: unknown field",
        ".argocd-source.yaml: repoURL: an override file cannot change it; remove it",
        ".argocd-source.yaml: path: an override file cannot change it; remove it",
    ];
    assert_eq!(rendered.notes, want);
    // Argo CD reads one spelling of their names, too.
    let tree = Source::new(&["a.yaml", "b.yaml"])
        .file(".argocd-source.yml", "directory: {include: 'b*'}\n")
        .file(".argocd-source-shop.yml", "directory: {include: 'b*'}\n")
        .file(".argocd-source-other.yml", "directory: {include: 'b*'}\n");
    let rendered = tree.render(json!({"path": "."})).await.unwrap();
    assert_eq!(rendered.manifests.len(), 2);
    let note = |name: &str| format!("{name}.yml: not read; rename it to {name}.yaml, or remove it");
    assert_eq!(rendered.notes, [".argocd-source", ".argocd-source-shop"].map(note));
}
