//! Source types and other programs (SE-034, SE-037, SE-090 to SE-092, SE-103;
//! rows V-233 and V-234).

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{config_map, repositories, script, settings, write};
use crate::ChartCapabilities;
use crate::Checkout;
use crate::EnabledTypes;
use crate::Programs;
use crate::RenderError;
use crate::RenderFor;
use crate::RenderOptions;
use crate::RenderedSource;
use crate::SourceType;
use crate::render::source::render_source;

/// A directory that is checked out and rendered.
pub(super) struct Source {
    directory: tempfile::TempDir,
    programs: tempfile::TempDir,
    pub(super) options: RenderOptions,
}

impl Source {
    pub(super) fn new(files: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let programs = tempfile::tempdir().unwrap();
        for file in files {
            write(directory.path(), file, &config_map("plain"));
        }
        let own = Programs {
            helm: programs.path().join("helm"),
            kustomize: programs.path().join("kustomize"),
            ..Programs::default()
        };
        let options = RenderOptions { programs: own, ..RenderOptions::default() };
        Self { directory, programs, options }
    }

    pub(super) fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    pub(super) fn file(self, name: &str, content: &str) -> Self {
        write(self.directory.path(), name, content);
        self
    }

    pub(super) fn program(self, name: &str, content: &str) -> Self {
        script(self.programs.path(), name, content);
        self
    }

    pub(super) async fn render(&self, source: Value) -> Result<RenderedSource, RenderError> {
        let subject = RenderFor {
            application: "shop".into(),
            namespace: "prod".into(),
            ..RenderFor::default()
        };
        self.render_for(source, &subject).await
    }

    pub(super) async fn render_for(
        &self,
        source: Value,
        subject: &RenderFor,
    ) -> Result<RenderedSource, RenderError> {
        let (_cache, repositories) = repositories(settings());
        let path = self.directory.path().display().to_string();
        let revision = repositories.resolve(&path, "", None).await.unwrap();
        let checkout: Arc<Checkout> = repositories.checkout(&path, &revision, None).await.unwrap();
        let rendered = render_source(&checkout, &source, subject, &self.options).await;
        if let Err(error) = &rendered {
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("repository {path}, revision {}", revision.sha)),
                "{text}"
            );
            assert!(!text.contains("wavegate-source-"), "no path of the cache: {text}");
        }
        rendered
    }

    async fn kind(&self, source: Value) -> Option<SourceType> {
        self.render(source).await.unwrap().source_type
    }

    pub(super) async fn fails(&self, source: Value) -> String {
        self.render(source).await.unwrap_err().to_string()
    }
}

/// A program that renders an object with its arguments and environment.
pub(super) const ECHO: &str = r#"{ echo "apiVersion: v1"; echo "kind: ConfigMap"; echo "metadata: {name: rendered}"; echo "args:"
for a in "$@"; do echo "- '$a'"; done; echo "env:"; env | cut -d= -f1 | sed "s/.*/- '&'/"; echo "---"; echo '# nothing'; }"#;

#[tokio::test]
async fn the_type_of_a_source_is_detected() {
    use SourceType::{Directory, Helm, Kustomize};
    let cases: [(&str, &[&str], Value, SourceType); 9] = [
        ("plain", &["a.yaml"], json!({"path": "."}), Directory),
        ("chart", &["Chart.yaml"], json!({"path": "."}), Helm),
        ("chart by its suffix", &["my-Chart.yaml"], json!({}), Helm),
        ("chart in a subdirectory", &["sub/Chart.yaml"], json!({}), Directory),
        ("kustomization", &["kustomization.yml"], json!({}), Kustomize),
        ("Kustomization", &["Kustomization"], json!({}), Kustomize),
        ("V-233", &["Chart.yaml", "kustomization.yaml"], json!({}), Kustomize),
        (
            "a block takes precedence",
            &["Chart.yaml"],
            json!({"directory": {"recurse": true}}),
            Directory,
        ),
        ("an empty block is ignored", &["Chart.yaml"], json!({"directory": {}}), Helm),
    ];
    for (name, files, source, want) in cases {
        let tree = Source::new(files).program("helm", ECHO).program("kustomize", ECHO);
        assert_eq!(tree.kind(source).await, Some(want), "{name}");
    }
}

#[tokio::test]
async fn a_disabled_type_is_read_as_a_directory() {
    // SE-091
    let mut tree = Source::new(&["Chart.yaml"]);
    tree.options.enabled = EnabledTypes { helm: false, ..EnabledTypes::default() };
    assert_eq!(tree.kind(json!({})).await, Some(SourceType::Directory));
}

#[tokio::test]
async fn errors_of_rendering_name_the_reason() {
    let tree = Source::new(&["a.yaml"]);
    let cases = [
        (
            "V-234",
            json!({"helm": {"releaseName": "x"}, "directory": {"recurse": true}}),
            "multiple application sources defined: Helm,Directory",
        ),
        (
            "three",
            json!({"kustomize": {"a": 1}, "helm": {"a": 1}, "plugin": {"name": "p"}}),
            "multiple application sources defined: Kustomize,Helm,Plugin",
        ),
        ("plugin", json!({"plugin": {"name": "p"}}), "there is no socket "),
        ("path", json!({"path": "none"}), "none: app path does not exist"),
        ("out", json!({"path": "../x"}), "app path is outside of the repository"),
        (
            "pattern",
            json!({"directory": {"include": "{a"}}),
            "directory.include: pattern \"{a\": a '{' is not closed",
        ),
        ("field", json!({"kustomize": {"openapi": "x-"}}), "kustomize.openapi is not supported"),
        (
            "values",
            json!({"helm": {"valueFiles": ["https://u:secret@h/v.yaml"]}}),
            "only files of the Application's sources",
        ),
        (
            "values outside",
            json!({"helm": {"valueFiles": ["../../../../../../etc/passwd"]}}),
            "outside of the repository",
        ),
        (
            "no values",
            json!({"helm": {"valueFiles": ["v.yaml"]}}),
            "helm.valueFiles[0]: Error: open ./v.yaml: no such file or directory; ",
        ),
        ("program", json!({"helm": {"releaseName": "x"}}), "application shop: cannot start "),
    ];
    for (name, source, want) in cases {
        let error = tree.fails(source).await;
        assert!(error.contains(want), "{name}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_ref_alone_renders_nothing() {
    // SE-034
    let rendered = Source::new(&["a.yaml"]).render(json!({"ref": "values"})).await.unwrap();
    assert_eq!(
        rendered,
        RenderedSource {
            manifests: Vec::new(),
            source_type: None,
            warnings: Vec::new(),
            notes: Vec::new()
        }
    );
    let with_path = Source::new(&["a.yaml"]).render(json!({"ref": "values", "path": "."})).await;
    assert_eq!(with_path.unwrap().manifests.len(), 1);
}

fn list(object: &Value, field: &str) -> Vec<String> {
    let items = object[field].as_array().unwrap().iter();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn helm_gets_the_settings_of_the_source() {
    let tree = Source::new(&["chart/Chart.yaml"])
        .file("chart/dev.yaml", "a: 1\n")
        .file("shared.yaml", "b: 2\n")
        .program("helm", ECHO);
    let source = json!({"path": "chart", "helm": {
        "valueFiles": ["dev.yaml", "/shared.yaml", "absent.yaml"],
        "ignoreMissingValueFiles": true,
        "valuesObject": {"c": 3},
        "parameters": [
            {"name": "image", "value": "a,b"},
            {"name": "tag", "value": "--post-renderer=sh", "forceString": true},
        ],
        "kubeVersion": "1.30",
        "apiVersions": ["x/v1"],
        "skipTests": true,
    }});
    let rendered = tree.render(source).await.unwrap();
    assert_eq!(rendered.manifests.len(), 1, "the empty document is skipped (SE-103)");
    let args = list(&rendered.manifests[0].object, "args");
    let (values, others): (Vec<_>, Vec<_>) =
        args.iter().map(String::as_str).partition(|arg| arg.starts_with("--values="));
    let want = [
        "template",
        ".",
        "--name-template=shop",
        "--namespace=prod",
        "--kube-version=1.30",
        "--api-versions=x/v1",
        "--set=image=a\\,b",
        "--set-string=tag=--post-renderer=sh",
        "--include-crds",
        "--skip-tests",
    ];
    assert_eq!(others, want);
    let names: Vec<_> = values.iter().map(|value| value.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["dev.yaml", "shared.yaml", "values.yaml"]);
    let env = list(&rendered.manifests[0].object, "env");
    assert!(
        !env.iter().any(|name| name.starts_with("CARGO") || name.starts_with("KUBE")),
        "{env:?}"
    );
}

#[tokio::test]
async fn the_destination_is_what_a_chart_asks_for() {
    // B9: the version and kinds of the cluster, unless the source names its own.
    let tree = Source::new(&["Chart.yaml"]).program("helm", ECHO);
    let cluster = ChartCapabilities {
        kube_version: "1.33.0".into(),
        api_versions: ["apps/v1", "apps/v1/Deployment", "v1", "v1/Pod"].map(str::to_owned).into(),
    };
    let subject =
        RenderFor { application: "shop".into(), cluster: Some(cluster), ..RenderFor::default() };
    let args = async |helm: Value| {
        let rendered = tree.render_for(json!({"helm": helm}), &subject).await.unwrap();
        let args = list(&rendered.manifests[0].object, "args").into_iter();
        args.filter(|arg| arg.contains("-version")).collect::<Vec<_>>()
    };
    let own = [
        "--kube-version=1.33.0",
        "--api-versions=apps/v1",
        "--api-versions=apps/v1/Deployment",
        "--api-versions=v1",
        "--api-versions=v1/Pod",
    ];
    assert_eq!(args(json!({"releaseName": "x"})).await, own);
    let given = json!({"kubeVersion": "1.20", "apiVersions": ["x/v1", "x/v1/Y"]});
    let want = ["--kube-version=1.20", "--api-versions=x/v1", "--api-versions=x/v1/Y"];
    assert_eq!(args(given).await, want);
}

#[tokio::test]
async fn se_104_the_build_environment_is_replaced() {
    // K-10: string and plain; also values and the names of values files.
    let helm = format!(
        "{ECHO}; for a in \"$@\"; do case $a in --values=*) echo '---'; cat \"${{a#--values=}}\";; esac; done"
    );
    let tree = Source::new(&["chart/Chart.yaml"])
        .file("chart/shop.yaml", "{apiVersion: v1, kind: A, metadata: {name: a}}\n")
        .program("helm", &helm);
    let subject = RenderFor {
        application: "shop".into(),
        instance: "team_shop".into(),
        project: "default".into(),
        namespace: "prod".into(),
        ..RenderFor::default()
    };
    let source = json!({"path": "chart", "targetRevision": "main", "helm": {
        "valueFiles": ["${ARGOCD_APP_NAMESPACE}x.yaml", "$ARGOCD_APP_SOURCE_TARGET_REVISION/y.yaml", "/$ARGOCD_APP_SOURCE_PATH/shop.yaml"],
        "ignoreMissingValueFiles": true,
        "values": "{apiVersion: v1, kind: B, metadata: {name: b}, data: '$ARGOCD_APP_PROJECT_NAME $HOME $$'}",
        "parameters": [
            {"name": "plain", "value": "$ARGOCD_APP_NAME"},
            {"name": "text", "value": "a,${ARGOCD_APP_NAMESPACE}-$NONE", "forceString": true},
            {"name": "list", "value": "{a,b}"},
        ],
    }});
    let rendered = tree.render_for(source, &subject).await.unwrap();
    let args = list(&rendered.manifests[0].object, "args");
    for want in ["--set=plain=team_shop", "--set-string=text=a\\,prod-", "--set=list={a,b}"] {
        assert!(args.iter().any(|arg| arg == want), "{want}: {args:?}");
    }
    let kinds = rendered.manifests.iter().map(|manifest| manifest.object["kind"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["ConfigMap", "A", "B"]);
    assert_eq!(rendered.manifests[2].object["data"], "default $HOME $$");
}

#[tokio::test]
async fn a_chart_without_its_dependencies_is_refused() {
    let chart = "name: web\nversion: 1.0.0\ndependencies:\n- name: redis\n  repository: https://me:secret@charts.example.com\n- {name: db, repository: 'file://../db'}\n- name: lib\n";
    let tree = || Source::new(&[]).file("apps/web/Chart.yaml", chart).program("helm", ECHO);
    let source = json!({"path": "apps/web"});
    let error = tree().fails(source.clone()).await;
    let want = "application shop: chart web: missing in apps/web/charts: redis (repository \
                https://***@charts.example.com), db (repository file://../db), lib; dependencies \
                are not fetched: run `helm dependency build apps/web`";
    assert!(error.contains(want), "{error}");
    let vendored = tree()
        .file("apps/web/charts/redis-1.2.3.tgz", "")
        .file("apps/web/charts/db/Chart.yaml", "name: db\n")
        .file("apps/web/charts/library/Chart.yaml", "name: lib\n");
    assert!(vendored.render(source.clone()).await.is_ok());
    let ignored = tree().file("apps/web/charts/_redis/Chart.yaml", "name: redis\n");
    assert!(ignored.fails(source.clone()).await.contains(": redis ("));
    // Charts of API version v1; and what Helm finds in archives.
    let old = Source::new(&[])
        .file("Chart.yaml", "name: old\n")
        .file("requirements.yaml", "dependencies: [{name: redis}]\n")
        .program("helm", ECHO);
    assert!(old.fails(json!({})).await.contains("chart old: missing in ./charts: redis;"));
    let archived = old.file("charts/other.tgz", "").program(
        "helm",
        "echo 'Error: An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: redis' >&2; exit 1",
    );
    assert!(archived.fails(json!({})).await.contains("chart old: missing in ./charts: redis;"));
}

#[tokio::test]
async fn values_files_are_files_of_the_repository() {
    // C14: no name that Helm splits or resolves, also behind a link or a variable.
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "o.yaml", "secret: 1\n");
    let tree = Source::new(&["Chart.yaml"])
        .file("a,b.yaml", "a: 1\n")
        .file("ok.yaml", "a: 1\n")
        .program("helm", ECHO);
    let root = tree.directory.path();
    symlink("a,b.yaml", root.join("link.yaml")).unwrap();
    symlink("nothing.yaml", root.join("dangling.yaml")).unwrap();
    symlink("self.yaml", root.join("self.yaml")).unwrap();
    symlink(outside.path().join("o.yaml"), root.join("away.yaml")).unwrap();
    let error = tree.fails(json!({})).await;
    assert!(error.contains("symbolic link"), "{error}");
    std::fs::remove_file(root.join("away.yaml")).unwrap();
    let error = tree.fails(json!({})).await;
    assert!(error.contains("symbolic link to a file that does not exist"), "{error}");
    for name in ["dangling.yaml", "self.yaml"] {
        std::fs::remove_file(root.join(name)).unwrap();
    }
    let refused = [
        ("ok.yaml,/etc/passwd", "must not contain ','"),
        ("\"ok.yaml\",x", "must not contain ','"),
        ("ok.yaml\n/etc/passwd", "control characters"),
        ("$ARGOCD_APP_SOURCE_PATH", "must not contain ','"),
        ("file:///etc/passwd", "only files of the Application's sources"),
        ("/../../../../etc/passwd", "outside of the repository"),
        ("../../no/such-file", "outside of the repository"),
        ("../*.yaml", "outside of the repository"),
        ("~/.ssh/id_rsa", "no such file or directory"),
        (".", "is not a file"),
    ];
    for (file, want) in refused {
        let source = json!({"path": "a,/..", "helm": {"valueFiles": [file]}});
        let mut source = source;
        if !file.starts_with("$ARGOCD") {
            source["path"] = ".".into();
        } else {
            std::fs::create_dir(root.join("a,")).unwrap();
        }
        let error = tree.fails(source).await;
        assert!(error.contains(want), "{file}: {error}");
    }
    let rendered = tree.render(json!({"helm": {"valueFiles": ["link.yaml"]}})).await.unwrap();
    let args = list(&rendered.manifests[0].object, "args");
    let value = args.iter().find(|arg| arg.starts_with("--values=")).unwrap();
    assert!(!value.contains(','), "a copy with a name of ours: {value}");
    // Absent files may be missing, dangling links may not.
    symlink("nothing.yaml", root.join("ok-link")).unwrap();
    let source = |file: &str| json!({"path": ".", "helm": {"valueFiles": [file], "ignoreMissingValueFiles": true}});
    assert!(tree.fails(source("ok-link")).await.contains("does not exist; correct or remove it"));
    std::fs::remove_file(root.join("ok-link")).unwrap();
    assert!(tree.render(source("none.yaml")).await.is_ok());
    // Nor one that is not of the repository, whether it exists or not.
    std::fs::create_dir_all(root.join("deep/er")).unwrap();
    symlink(outside.path(), root.join("deep/er/out")).unwrap();
    for name in ["../none.yaml", "deep/er/out/o.yaml", "deep/er/out/none.yaml"] {
        let error = tree.fails(source(name)).await;
        assert!(
            error.contains(&format!("helm.valueFiles[0]: {name}: is outside of the repository")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_schema_reads_nothing_else() {
    let helm = json!({"helm": {"skipSchemaValidation": false, "releaseName": "x"}});
    for (reference, fails) in [
        ("file:///etc/passwd", true),
        ("http://127.0.0.1:10250/pods", true),
        ("../../other.json#/a", true),
        ("//host/x", true),
        ("#/$defs/a", false),
        ("https://json-schema.org/draft-07/schema#", false),
        ("https://example.com/own.json#/a", false),
    ] {
        let schema = json!({
            "$defs": {"a": {"$id": "https://example.com/own.json"}},
            "properties": {"p": {"items": [{"\u{24}ref": reference}]}},
        });
        let tree = Source::new(&["Chart.yaml"])
            .file("charts/sub/values.schema.json", &schema.to_string())
            .program("helm", ECHO);
        let rendered = tree.render(helm.clone()).await;
        assert_eq!(rendered.is_err(), fails, "{reference}: {rendered:?}");
        if let Err(error) = rendered {
            assert!(error.to_string().contains("charts/sub/values.schema.json: $ref"), "{error}");
        }
        let skipped = json!({"helm": {"skipSchemaValidation": true}});
        assert!(tree.render(skipped).await.is_ok());
    }
}

#[tokio::test]
async fn programs_are_stopped_at_their_limits() {
    let failing = Source::new(&["kustomization.yaml"])
        .program("kustomize", "echo \"Error: no such file in $PWD/base\" >&2; exit 1");
    let error = failing.fails(json!({})).await;
    assert!(
        error.contains("application shop: kustomize failed: Error: no such file in ./base"),
        "{error}"
    );

    let mut slow = Source::new(&["kustomization.yaml"]).program("kustomize", "sleep 1000");
    slow.options.programs.timeout = Duration::from_millis(300);
    assert!(slow.fails(json!({})).await.contains("kustomize failed: stopped after 0.3 s"));

    let mut chatty = Source::new(&["kustomization.yaml"]).program("kustomize", "yes");
    chatty.options.programs.output_bytes = 1000;
    assert!(chatty.fails(json!({})).await.contains("rendered more than 1000 bytes"));

    let garbage = Source::new(&["kustomization.yaml"])
        .program("kustomize", "printf 'apiVersion: v1\\nkind: X\\nmetadata: [\\n'");
    assert!(garbage.fails(json!({})).await.contains("Failed to unmarshal \"kustomize\""));

    // What users can find: the template, as Helm names it.
    let template = Source::new(&["Chart.yaml"]).program(
        "helm",
        "printf -- '---\\n# Source: c/templates/a.yaml\\napiVersion: v1\\nkind: X\\nmetadata: {name: x}\\n---\\n# Source: c/templates/b.yaml\\na: 1\\n'",
    );
    let error = template.fails(json!({})).await;
    assert!(
        error.contains("\"helm\": c/templates/b.yaml: object 'kind' is missing (line "),
        "{error}"
    );

    // The cause comes after any number of warnings.
    let warning = Source::new(&["kustomization.yaml"]).program(
        "kustomize",
        "for i in $(seq 300); do echo \"# Warning: 'bases' is deprecated. Please use 'resources' instead. $i\" >&2; done; echo 'Error: the cause' >&2; exit 1",
    );
    let error = warning.fails(json!({})).await;
    assert!(error.contains("application shop: kustomize failed: Error: the cause"), "{error}");

    // Kustomize would follow the link.
    let linked = Source::new(&["kustomization.yaml", "x/y.yaml"]).program("kustomize", ECHO);
    symlink("/etc/passwd", linked.directory.path().join("x/link")).unwrap();
    assert!(linked.fails(json!({})).await.contains("x/link: symbolic link points outside"));
}

#[tokio::test]
async fn deeply_nested_kustomizations_are_rejected() {
    let mut tree = Source::new(&["a.yaml"]).program("kustomize", ECHO);
    tree = tree.file("kustomization.yaml", "resources: [d0]");
    for level in 0..2_000 {
        let next = format!("resources: [../d{}]", level + 1);
        tree = tree.file(&format!("d{level}/kustomization.yaml"), &next);
    }
    tree = tree.file("d2000/kustomization.yaml", "resources: []");
    let error = tree.fails(json!({"path": "."})).await;
    assert!(error.contains("more than 32 deep"), "{error}");
}

/// What Kustomize reads is what was read here, written anew: no parser finds more in it.
#[tokio::test]
async fn kustomize_reads_what_was_checked() {
    let print =
        "for f in kustomization.yaml sub/Kustomization gen.yaml; do cat $f >&2; done; exit 1";
    let tree = Source::new(&["a.yaml"])
        .file(
            "kustomization.yaml",
            "# a comment\nresources: &r\n- a.yaml\n- sub\ngenerators:\n- gen.yaml\n- |\n  kind: \
             \"a\\Lb\"\n  count: 1.0\n---\nresources: [a.yaml]\n",
        )
        .file("sub/Kustomization", "%YAML 1.1\n---\nresources: [../a.yaml]\n")
        .file("gen.yaml", "kind: A # text\n---\nkind: B\n")
        .program("kustomize", print);
    let error = tree.fails(json!({"path": "."})).await;
    let want = [
        r#"{"generators":["gen.yaml","{\"count\":1,\"kind\":\"a\\u2028b\"}\n"],"resources":["a.yaml","sub"]}"#,
        r#"{"resources":["../a.yaml"]}"#,
        "{\"kind\":\"A\"}\n---\n{\"kind\":\"B\"}",
    ];
    for text in want {
        assert!(error.contains(text), "{text}\n{error}");
    }
    let written = std::fs::read_to_string(tree.path().join("gen.yaml")).unwrap();
    assert!(written.contains("# text"), "the checkout is shared, and stays as it is");
}

#[tokio::test]
async fn a_kustomization_reads_only_its_repository() {
    let cases = [
        ("resources: [https://example.com/base?ref=v1]", "resources[0]"),
        ("resources: [a.yaml, github.com/team/base]", "resources[1]"),
        ("Resources: ['git@example.com:team/base']", "Resources[0]"),
        // Go reads these characters as `s` and `k`.
        ("re\u{17f}ource\u{17f}: ['https://example.com/base']", "ource"),
        ("ba\u{17f}es: ['../../..']", "ba"),
        ("patche\u{17f}: [{path: a.yaml}, {PATH: 'https://example.com/p.yaml'}]", "PATH"),
        ("configMapGenerator: [{file\u{17f}: ['k=http://169.254.169.254/x']}]", "file"),
        ("bases: [../../../..]", "bases[0]"),
        ("components: [https://127.0.0.1:10250/pods]", "components[0]"),
        ("patches: [{path: 'https://example.com/p.yaml'}]", "patches[0].path"),
        ("patchesStrategicMerge: ['http://localhost/p.yaml']", "patchesStrategicMerge"),
        ("configMapGenerator: [{name: a, files: ['k=http://169.254.169.254/x']}]", "files"),
        ("openapi: {path: 'https://example.com/schema'}", "openapi.path"),
        ("transformers: [own.yaml]", "path"),
        ("resources: [sub]", "resources[0]"),
        ("a: [", ""),
    ];
    for (kustomization, at) in cases {
        let tree = Source::new(&["a.yaml"])
            .file("kustomization.yaml", kustomization)
            .file("sub/kustomization.yaml", "resources: ['https://example.com/deep']")
            .file("own.yaml", "kind: PatchTransformer\npath: https://example.com/p.yaml\n")
            .program("kustomize", ECHO);
        let error = tree.fails(json!({"path": "."})).await;
        assert!(error.contains(at), "{kustomization}: {error}");
        let mut tree = tree;
        tree.options.programs.kustomize_remote = true;
        assert!(
            tree.render(json!({"path": "."})).await.is_ok(),
            "{kustomization}: remote resources enabled"
        );
    }
    // What Go reads otherwise: three characters end lines there, and comments; an entry that can be
    // read as objects is no path.
    for end in ["\u{85}", "\u{2028}", "\u{2029}"] {
        let hidden = format!("resources: [a.yaml]\n# {end}bases: ['../../../x']\n");
        let tree = Source::new(&["a.yaml"]).file("kustomization.yaml", &hidden);
        let error = tree.program("kustomize", ECHO).fails(json!({"path": "."})).await;
        assert!(error.contains("bases[0]: \"../../../x\" is not in the repository"), "{error}");
    }
    for field in ["generators", "transformers", "validators"] {
        let inline = format!("{field}:\n- |-\n  kind: X\n  files: ['a=http://127.0.0.1/x']\n");
        let tree = Source::new(&["a.yaml"]).file("kustomization.yaml", &inline);
        let error = tree.program("kustomize", ECHO).fails(json!({"path": "."})).await;
        assert!(error.contains(&format!("{field}[0].files")), "{error}");
    }
    let tree = Source::new(&["a.yaml"])
        .file(
            "kustomization.yaml",
            "resources: [a.yaml, sub]\ncommonAnnotations: {url: 'https://example.com'}\n\
             patches:\n- patch: |\n    path: https://example.com\n\
             configMapGenerator: [{name: a, literals: ['u=https://example.com']}]\n\
             helmCharts:\n- name: c\n  valuesInline:\n    paths: [/]\n    file: /etc/app.conf\n\
             \u{20}   env: ['https://example.com']\n",
        )
        .file("sub/kustomization.yaml", "resources: [../b.yaml]\n")
        .file("b.yaml", &config_map("b"))
        .program("kustomize", ECHO);
    assert!(tree.render(json!({"path": "."})).await.is_ok());
}

#[tokio::test]
async fn what_a_program_leaves_running_is_killed() {
    // C15: also when the program itself succeeds.
    let script = "sleep 1000 > /dev/null 2>&1 &\necho \"{apiVersion: v1, kind: A, metadata: {name: a}, pid: $!}\"";
    let tree = Source::new(&["kustomization.yaml"])
        .file("kustomization.yaml", "resources: []")
        .program("kustomize", script);
    let rendered = tree.render(json!({})).await.unwrap();
    let pid = rendered.manifests[0].object["pid"].as_u64().unwrap();
    let running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A killed process stays until its new parent asks for it.
        stat.rsplit(") ")
            .next()
            .is_some_and(|state| !state.is_empty() && !state.starts_with(['Z', 'X']))
    };
    let start = std::time::Instant::now();
    while running() && start.elapsed() < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!running(), "process {pid} still runs");
}

#[tokio::test]
async fn a_program_that_fills_the_disk_is_stopped() {
    for script in [
        "head -c 3000000 /dev/zero > \"$TMPDIR/one\" || exit 1",
        "i=0; while :; do i=$((i+1)); head -c 200000 /dev/zero > \"$TMPDIR/$i\"; sleep 0.01; done",
    ] {
        let mut tree = Source::new(&[])
            .file("kustomization.yaml", "resources: []")
            .program("kustomize", &format!("exec 2>/dev/null; {script}"));
        tree.options.programs.disk_bytes = 2 << 20;
        let error = tree.fails(json!({"path": "."})).await;
        assert!(error.contains("kustomize failed"), "{error}");
    }
}
