//! A duplicate key in a file: the last value is used, with a note on standard error.

use super::{folder, in_folder, wavegate};

#[test]
fn a_duplicate_key_of_a_set_is_reported_with_file_line_and_key() {
    let set = "\
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  generators:
  - list: {elements: [{name: one}]}
  template:
    metadata:
      name: 'first-{{name}}'
      name: 'second-{{name}}'
    spec:
      project: default
      source: {repoURL: 'https://example.com/r', path: p}
      destination: {server: 'https://1', namespace: web}
";
    let folder = folder(&[("set.yaml", set)]);
    let run = wavegate(&["render", "-f", &in_folder(&folder, "set.yaml")]);
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("second-one") && !run.out.contains("first-one"), "{}", run.out);
    for part in ["set.yaml", "line 10", "spec.template.metadata.name", "duplicated"] {
        assert!(run.err.contains(part), "no {part:?} in: {}", run.err);
    }
}
