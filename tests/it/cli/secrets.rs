//! Output contains no secrets.

use super::*;

#[test]
fn no_value_of_a_secret_is_printed_whatever_its_key() {
    let secret = |value: &str, version: &str| {
        json!({
            "apiVersion": version, "kind": "Secret",
            "metadata": {
                "name": "s", "namespace": "web", "annotation": {"x": value},
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration":
                        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": value}}).to_string(),
                },
            },
            "data": {"k": value}, "dta": {"k": [value]}, "stringdata": {"k": value}, "value": value,
        })
    };
    let list = |object: Value| json!({"apiVersion": "v1", "kind": "List", "items": [object]});
    for version in ["v1", "v2", "example.com/v1"] {
        let (one, two) = (secret("czNjcjN0LW9uZQ==", version), secret("czNjcjN0LXR3bw==", version));
        let config = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"ignoreDifferences": [{
                "group": "*", "kind": "Secret", "jqPathExpressions": [".data.k[0].x"],
            }]},
        });
        let files = folder(&[
            ("one.json", &one.to_string()),
            ("two.json", &list(two).to_string()),
            ("none.json", ""),
            ("config.json", &config.to_string()),
        ]);
        let at = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        for format in ["table", "json", "yaml"] {
            for (desired, live) in
                [("one.json", "two.json"), ("one.json", "none.json"), ("none.json", "two.json")]
            {
                let run = wavegate(&[
                    "diff",
                    "--desired",
                    &at(desired),
                    "--live",
                    &at(live),
                    "--config",
                    &at("config.json"),
                    "-o",
                    format,
                ]);
                assert_eq!(run.code, 1, "{}{}", run.out, run.err);
                let said = format!("{}{}", run.out, run.err);
                for value in ["czNjcjN0", "s3cr3t"] {
                    assert!(!said.contains(value), "{version} {format}: {said}");
                }
            }
        }
    }
}

#[test]
fn no_credential_of_a_url_is_printed() {
    let set = r#"
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: own}
spec:
  generators:
  - list: {elements: [{name: first}]}
  template:
    metadata: {name: first}
    spec:
      project: team
      source: {repoURL: "https://user:1 s3cr3t's@example.com/fleet.git", path: a}
      destination: {server: "https://kubernetes.default.svc", namespace: apps}
"#;
    let files = folder(&[("set.yaml", set)]);
    let file = files.path().join("set.yaml");
    let run = wavegate(&["demo", "--plain", "-f", file.to_str().unwrap()]);
    run.fails(2, &["Application first: repoURL https://***@example.com/fleet.git"]);
    assert!(!run.err.contains("s3cr3t"), "{}", run.err);
    let run = wavegate(&["render", "-f", file.to_str().unwrap(), "-o", "table"]);
    assert!(run.code == 0 && !run.out.contains("s3cr3t"), "{}{}", run.out, run.err);
}

/// An invalid kubeconfig was quoted around the error, and a token with a line break
/// caused a panic.
#[test]
fn no_token_of_a_kubeconfig_is_printed() {
    let config = |token: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:1\"}}}}]\n\
             users: [{{name: c, user: {{token: {token}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n"
        )
    };
    for (token, want) in [
        ("\"s3cr3t\\nb\"", "the token of its user contains a line break"),
        ("{s3cr3t: [}", "the kubeconfig is invalid"),
        ("\"s3cr3t\\n\"", "cannot read from the cluster"),
    ] {
        let files = folder(&[("config", &config(token))]);
        let mut command = program(&["status"]);
        command.env("KUBECONFIG", files.path().join("config"));
        let run = finish(command, b"");
        run.fails(2, &[want]);
        assert!(!run.err.contains("s3cr3t"), "{}", run.err);
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}
