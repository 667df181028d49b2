use std::path::Path;

use serde_json::{Value, json};

use super::crds;

/// Compares the committed definitions with the types. With
/// `WAVEGATE_REGENERATE=1` in the environment it writes them instead.
#[test]
fn crds_are_current() {
    let root = Path::new(file!()).ancestors().nth(3).unwrap();
    let committed = [
        include_str!("../../crds/applicationset.yaml"),
        include_str!("../../crds/application.yaml"),
        include_str!("../../crds/appproject.yaml"),
    ];
    for (kind, committed) in crds::KINDS.into_iter().zip(committed) {
        let text = crds::yaml(kind).unwrap();
        if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
            let file = root.join("crds").join(crds::file_name(kind));
            std::fs::write(&file, text).unwrap();
        } else {
            assert!(text == committed, "{kind} is stale: see its first lines");
        }
    }
    let kustomization = include_str!("../../crds/kustomization.yaml");
    let listed = crate::yaml::value(kustomization).unwrap()["resources"].clone();
    assert_eq!(listed, json!(crds::KINDS.map(crds::file_name)));
}

/// `kubectl apply` keeps a copy in an annotation of at most 262,144 bytes.
#[test]
fn definitions_stay_small_enough_for_kubectl_apply() {
    for (kind, crd) in crds::KINDS.into_iter().zip(crds::all()) {
        let size = serde_json::to_vec(&crd).unwrap().len();
        println!("{kind}: {size}");
        assert!(size < 250_000, "{kind}: {size} bytes");
    }
}

fn schema_of(kind: &str) -> Value {
    let crd = crate::yaml::value(&crds::yaml(kind).unwrap()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}
