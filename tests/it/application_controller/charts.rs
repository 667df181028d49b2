//! Charts in Git repositories, with Helm 3 and 4 (SE-034, SE-037, SE-104).

use super::programs::{confined, helms};
use super::*;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 0.1.0\n";

/// Renders what a chart can ask for.
const TEMPLATE: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Values.name | default "web" }}}
data:
  release: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
  version: {{ .Capabilities.KubeVersion.Version | quote }}
  deployments: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  own: {{ .Capabilities.APIVersions.Has "own.example.com/v1" | quote }}
  values: {{ .Values.list | default dict | toJson | quote }}
  text: {{ .Values.text | toString | quote }}
  file: {{ .Values.file | default "" | quote }}
  env: {{ env "PATH" | default "" | quote }}
"#;

fn chart(world: &World, template: &str) {
    world.write("chart/Chart.yaml", CHART);
    world.write("chart/values.yaml", "list: {chart: '1'}\n");
    world.write("chart/templates/web.yaml", template);
    world.write(
        "chart/crds/crd.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: crd}\ndata: {a: b}\n",
    );
    world.write(
        "chart/templates/tests/test.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, annotations: {helm.sh/hook: test}}\n",
    );
}

/// Values come from the chart, files, values, and parameters, in this order; charts know their
/// destination, or what the source says of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_a_chart_has_the_values_and_capabilities_of_its_source() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        // `env` is no function of charts.
        chart(&world, &TEMPLATE.replace("  env: {{ env \"PATH\" | default \"\" | quote }}\n", ""));
        world.write("chart/envs/a.yaml", "list: {a: '1', order: a}\n");
        world.write("chart/envs/b.yaml", "list: {b: '1', order: b}\n");
        world.write("chart/envs/deep/c.yaml", "list: {c: '1', order: c}\n");
        world.write("chart/last.yaml", "list: {order: last, last: '1'}\n");
        world.commit_file("notes/motd, one.txt", "hello, world");
        let source = json!({"path": "chart", "helm": {
            "version": "v3",
            "valueFiles": ["envs/**/*.yaml", "envs/b.yaml", "none.yaml", "la?t.yaml"],
            "ignoreMissingValueFiles": true,
            "values": "list: {values: lost}\n",
            "valuesObject": {"list": {"object": "$ARGOCD_APP_NAME"}, "name": "one"},
            "parameters": [
                {"name": "list.parameter", "value": "a,b"},
                {"name": "text", "value": "0123", "forceString": true},
            ],
            "fileParameters": [{"name": "file", "path": "../notes/motd one.txt"}],
        }});
        let mut missing = source.clone();
        missing["helm"]["valuesObject"]["name"] = "two".into();
        let message = world.refusal_of(&world.with_source("missing", missing)).await;
        assert!(
            message.contains("helm.fileParameters[0]: ./chart/../notes/motd one.txt: no such file"),
            "{message}"
        );
        world.commit_file("notes/motd one.txt", "hello, world");
        world.deploy_app(&world.with_source("one", source)).await;
        let data = world.data("one").await;
        let list: Value = serde_json::from_str(data["values"].as_str().unwrap()).unwrap();
        let want = json!({
            "chart": "1", "a": "1", "b": "1", "c": "1", "last": "1", "order": "last",
            "object": "one", "parameter": "a,b",
        });
        assert_eq!(list, want, "{}", helm.display());
        assert_eq!(data["text"], "0123");
        assert_eq!(data["file"], "hello, world");
        assert_eq!([&data["release"], &data["namespace"]], ["one", "web"]);
        assert_eq!(
            [&data["version"], &data["deployments"], &data["own"]],
            ["v1.33.0", "true", "false"]
        );
        assert_ne!(world.data("crd").await, Value::Null, "definitions are included");

        let source = json!({"path": "chart", "helm": {
            "releaseName": "mine", "namespace": "other", "kubeVersion": "1.29.1",
            "apiVersions": ["own.example.com/v1"], "skipCrds": true, "skipTests": true,
            "valuesObject": {"name": "two"},
            "parameters": [{"name": "text", "value": "$KUBE_VERSION"}],
        }});
        world.deploy_app(&world.with_source("two", source)).await;
        let data = world.data("two").await;
        assert_eq!([&data["release"], &data["namespace"]], ["mine", "other"]);
        assert_eq!([&data["version"], &data["own"]], ["v1.29.1", "true"]);
        assert_eq!(data["text"], "1.33.0");
        let app = world.app("two").await;
        assert_eq!(
            app["status"]["resources"].as_array().unwrap().len(),
            1,
            "no test, no definition"
        );
        assert_eq!(app["status"]["sourceType"], "Helm");
    }
}

/// What would leave the chart is refused, or cannot reach anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_gets_no_way_out() {
    for helm in helms() {
        let world = World::with(confined(|programs| {
            programs.helm = helm.clone();
            programs.timeout = Duration::from_secs(120);
            programs.output_bytes = 1 << 20;
        }))
        .await;
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret.yaml"), "s3cr3t: 1\n").unwrap();
        let secret = outside.path().join("secret.yaml").display().to_string();
        let template = |text: &str| {
            chart(
                &world,
                &format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n  a: {text}\n"
                ),
            );
            world.commit();
        };
        let plain = json!({"path": "chart", "helm": {"skipCrds": true}});
        let cases = [
            ("env", "{{ env \"HOME\" }}", plain.clone(), "function \"env\" not defined"),
            (
                "output",
                "{{ range $i := until 30000 }}{{ repeat 100 \"x\" }}{{ end }}",
                plain.clone(),
                "rendered more than",
            ),
            (
                "endless",
                "{{ define \"f\" }}{{ include \"f\" . }}{{ end }}{{ include \"f\" . }}",
                plain.clone(),
                "helm failed",
            ),
            (
                "outside",
                "x",
                json!({"path": "chart", "helm": {"valueFiles": [format!("../../../../../../..{secret}")]}}),
                "outside of the repository",
            ),
            (
                "pattern",
                "x",
                json!({"path": "chart", "helm": {"valueFiles": ["../../*/*.yaml"]}}),
                "leads outside of the repository",
            ),
            (
                "file",
                "x",
                json!({"path": "chart", "helm": {"fileParameters": [{"name": "a", "path": format!("../../../../../../..{secret}")}]}}),
                "outside of the repository",
            ),
            (
                "url",
                "x",
                json!({"path": "chart", "helm": {"valueFiles": ["https://127.0.0.1:1/v.yaml"]}}),
                "URLs of the schemes in helm.valuesFileSchemes",
            ),
            (
                "version",
                "x",
                json!({"path": "chart", "helm": {"version": "v2"}}),
                "helm.version: \"v2\" is not supported",
            ),
            ("post-renderer", "x", plain.clone(), "helm.postRenderer is not supported"),
            (
                "option",
                "x",
                json!({"path": "chart", "helm": {"releaseName": "--post-renderer=/bin/sh"}}),
                "helm failed",
            ),
        ];
        for (name, text, source, want) in cases {
            // An own definition of the field does not exist, but a repository may name it.
            let own = "helm: {postRenderer: /bin/sh}\n";
            world.write("chart/.argocd-source-post-renderer.yaml", own);
            template(text);
            let message = world.refusal_of(&world.with_source(name, source)).await;
            assert!(message.contains(want), "{name}: {message}");
            assert!(!message.contains("s3cr3t"), "{name}: {message}");
        }
        // Names of hosts are not resolved, and plugins of the chart are files.
        template("{{ getHostByName \"localhost\" | quote }}");
        world.commit_file("chart/plugin.yaml", "name: p\nversion: 1\ncommand: touch /tmp/never\n");
        world.deploy_app(&world.with_source("names", plain.clone())).await;
        assert_eq!(world.data("x").await["a"], "");
        // A link out of the repository.
        std::os::unix::fs::symlink(&secret, world.repo.path().join("chart/link.yaml")).unwrap();
        world.commit();
        let message = world.refusal_of(&world.with_source("link", plain)).await;
        assert!(message.contains("symbolic link points outside"), "{message}");
    }
}

/// URLs of values files are fetched only where the schemes are permitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_files_of_permitted_schemes_are_fetched() {
    for helm in helms() {
        let files = BTreeMap::from([("/v.yaml".to_owned(), b"list: {url: '1'}\n".to_vec())]);
        let server = super::chart_repositories::serve(files, "").await;
        let world = World::with(confined(|programs| {
            programs.helm = helm.clone();
            programs.values_file_schemes = vec!["http".into(), "s3".into()];
        }))
        .await;
        chart(&world, &TEMPLATE.replace("  env: {{ env \"PATH\" | default \"\" | quote }}\n", ""));
        world.commit();
        let source = |url: String| json!({"path": "chart", "helm": {"valueFiles": [url]}});
        world
            .deploy_app(&world.with_source("one", source(format!("http://{server}/v.yaml"))))
            .await;
        let data = world.data("web").await;
        assert_eq!(data["values"], r#"{"chart":"1","url":"1"}"#);
        let message =
            world.refusal_of(&world.with_source("two", source("s3://b/v.yaml".into()))).await;
        assert!(message.contains("needs a plugin of Helm"), "{message}");
    }
}

/// SE-037: the order of values files is that of Argo CD. A directory comes before those in it,
/// whatever their names, and a file that is named again stays where it was first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_values_files_have_the_order_of_argo_cd() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        chart(&world, &TEMPLATE.replace("  env: {{ env \"PATH\" | default \"\" | quote }}\n", ""));
        for (file, text) in [
            ("z.yaml", "list: {order: z, z: '1'}\n"),
            ("nested/c.yaml", "list: {order: c, c: '1'}\n"),
            ("nested/deep/a.yaml", "list: {order: a, a: '1'}\n"),
        ] {
            world.write(&format!("chart/envs/{file}"), text);
        }
        let link = world.repo.path().join("chart/linked");
        std::os::unix::fs::symlink("envs/nested", link).unwrap();
        world.commit();
        for (name, files, order) in [
            ("below", json!(["envs/**/*.yaml"]), "a"),
            ("last", json!(["envs/*.yaml", "envs/nested/*.yaml"]), "c"),
            ("all", json!(["envs/**"]), "z"),
            ("twice", json!(["envs/z.yaml", "envs/nested/c.yaml", "envs/z.yaml"]), "c"),
            ("again", json!(["envs/z.yaml", "envs/nested/c.yaml", "./nested/../envs/z.yaml"]), "c"),
            ("named", json!(["envs/**/*.yaml", "envs/z.yaml"]), "z"),
            ("braces", json!(["envs/{z,nested/{c,none}}.yam?"]), "z"),
            ("link", json!(["envs/z.yaml", "**/deep/a.yaml", "linked/**/c.yaml"]), "c"),
        ] {
            let source = json!({"path": "chart", "helm": {
                "skipCrds": true, "valueFiles": files, "valuesObject": {"name": name},
            }});
            if name == "again" {
                world.commit_file("chart/nested/.keep", "");
            }
            world.deploy_app(&world.with_source(name, source)).await;
            let data = world.data(name).await;
            let list: Value = serde_json::from_str(data["values"].as_str().unwrap()).unwrap();
            assert_eq!(list["order"], order, "{name}: {list}");
        }
    }
}

/// SE-037: a version of Kubernetes may have what a distribution adds to it, `helm.version` is
/// each of Argo CD's, and a parameter may be a file of a permitted scheme.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_fields_have_the_values_that_argo_cd_permits() {
    for helm in helms() {
        let files = BTreeMap::from([("/motd".to_owned(), b"hello, world".to_vec())]);
        let server = super::chart_repositories::serve(files, "").await;
        let world = World::with(confined(|programs| {
            programs.helm = helm.clone();
            programs.values_file_schemes = vec!["http".into()];
        }))
        .await;
        chart(&world, &TEMPLATE.replace("  env: {{ env \"PATH\" | default \"\" | quote }}\n", ""));
        world.commit();
        let file = |path: String| json!([{"name": "file", "path": path}]);
        let source = json!({"path": "chart", "helm": {
            "version": "v4", "kubeVersion": "v1.30.2-eks-abc",
            "fileParameters": file(format!("http://{server}/motd")),
        }});
        world.deploy_app(&world.with_source("one", source)).await;
        let data = world.data("web").await;
        assert_eq!([&data["version"], &data["file"]], ["v1.30.2", "hello, world"]);
        for (name, helm, want) in [
            (
                "scheme",
                json!({"fileParameters": file("https://127.0.0.1:1/motd".to_owned())}),
                "helm.fileParameters[0]: https://127.0.0.1:1/motd: only files",
            ),
            (
                "pattern",
                json!({"fileParameters": file("templates/*.yaml".to_owned())}),
                "is a pattern; name one file",
            ),
            (
                "kube",
                json!({"kubeVersion": "newest"}),
                "helm.kubeVersion: \"newest\" is not a version",
            ),
        ] {
            let source = json!({"path": "chart", "helm": helm});
            let message = world.refusal_of(&world.with_source(name, source)).await;
            assert!(message.contains(want), "{name}: {message}");
        }
    }
}
