//! Reads the parts of a manifest that are specific to the wave engine.

use serde_json::Value;

use wavegate_api::Raw;
use wavegate_api::kind::KindRef;

pub(super) fn is_namespace(object: &Value) -> bool {
    object.group().is_empty() && object.kind() == "Namespace"
}

/// Group, kind and scope that a CustomResourceDefinition defines.
pub(super) fn defines(object: &Value) -> Option<(&str, &str, &str)> {
    let text = |pointer| object.text(pointer);
    let is_crd = KindRef::of(object).is_crd();
    is_crd.then(|| (text("/spec/group"), text("/spec/names/kind"), text("/spec/scope")))
}

/// Images of the first container list found (SE-053): a Pod's own, a pod
/// template's, or a CronJob's. Init containers do not count.
pub(super) fn images(object: &Value) -> Vec<String> {
    let paths = [
        "/spec/containers",
        "/spec/template/spec/containers",
        "/spec/jobTemplate/spec/template/spec/containers",
    ];
    let list = paths.iter().find_map(|path| object.pointer(path)?.as_array());
    let images = list.into_iter().flatten().filter_map(|c| c.get("image")?.as_str());
    images.map(str::to_owned).collect()
}
