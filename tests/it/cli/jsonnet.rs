//! Jsonnet files on the command line (SE-101).

use super::{folder, in_folder, wavegate};

const MAP: &str = "{map(name, wave):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name, annotations: \
     {'argocd.argoproj.io/sync-wave': std.toString(wave)}}}}";

/// SE-101: a file, and the files of a folder, are evaluated; imports are beside them.
#[test]
fn se_101_jsonnet_files_are_read_like_others() {
    let files = folder(&[
        ("lib/k.libsonnet", MAP),
        (
            "app/a.jsonnet",
            "local k = import '../lib/k.libsonnet'; [k.map('late', 2), null, k.map('early', 1)]",
        ),
        ("app/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n"),
    ]);
    std::fs::create_dir(in_folder(&files, ".git")).unwrap();
    let rows = "PHASE   WAVE   KIND        NAMESPACE   NAME\nSync    0      ConfigMap   -           plain\nSync    1      ConfigMap   -           early\nSync    2      ConfigMap   -           late\n";
    let run = wavegate(&["order", "-f", &in_folder(&files, "app")]);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, rows, ""));
    let run = wavegate(&["health", "-f", &in_folder(&files, "app/a.jsonnet"), "-o", "json"]);
    assert!(run.out.contains("\"early\"") && !run.out.contains("plain"), "{} {}", run.out, run.err);
}

/// SE-101: mistakes name file and line, and no import leaves the work tree.
#[test]
fn se_101_hostile_jsonnet_is_refused() {
    let secret = folder(&[("secret.txt", "the-secret")]);
    let up = format!("../{}/secret.txt", secret.path().file_name().unwrap().display());
    let cases = [
        ("{\n\n a: error 'on purpose'}".to_owned(), "a.jsonnet:3: runtime error: on purpose"),
        ("{a: importstr '/etc/passwd'}".to_owned(), "absolute paths are not imported"),
        (format!("{{a: importstr '{up}'}}"), "outside of the repository"),
        ("{a: std.extVar('x')}".to_owned(), "a.jsonnet:1: external variable is not defined: x"),
        ("local f(x) = f(x + 1) + 1; f(0)".to_owned(), "stack overflow"),
        (
            "{apiVersion: 'v1', kind: 'X', metadata: {name: 'x'}, a: std.repeat('x', 1e9)}"
                .to_owned(),
            "a.jsonnet",
        ),
        ("{a: 1}".to_owned(), "object 'kind' is missing"),
    ];
    for (code, want) in cases {
        let files = folder(&[("a.jsonnet", code.as_str())]);
        let run = wavegate(&["order", "-f", &in_folder(&files, "a.jsonnet")]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{code}");
        assert!(
            run.err.starts_with("error: cannot read") && run.err.contains(want),
            "{code}: {}",
            run.err
        );
        assert!(!run.err.contains("the-secret") && !run.err.contains("root:"), "{}", run.err);
    }
}
