//! Fields of objects that commands read from files.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use wavegate_api::{Raw, read_leniently};

/// Group and version of an object, as written.
pub(in crate::cli) fn api_version(value: &Value) -> &str {
    value.field("apiVersion")
}

/// The generators of a set, as written; null without any.
pub(in crate::cli) fn generators_of(set: &Value) -> &Value {
    set.spec().get("generators").unwrap_or(&Value::Null)
}

/// The keys of a ConfigMap; what is no text is left out.
pub(in crate::cli) fn data_of(map: &Value) -> BTreeMap<String, String> {
    let fields = read_leniently::<ConfigMapView>(map).data.unwrap_or_default().into_iter();
    fields.filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
}

/// What is read of a ConfigMap.
#[derive(Debug, Default, Deserialize)]
struct ConfigMapView {
    data: Option<BTreeMap<String, Value>>,
}
