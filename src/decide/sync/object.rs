//! Reading the few parts of a manifest that the wave engine looks at.
//!
//! Manifests are untrusted: whatever is absent or of the wrong type reads as
//! empty, never as an error.

use serde_json::Value;

/// A borrowed look at one Kubernetes object.
#[derive(Clone, Copy)]
pub(super) struct View<'a>(pub &'a Value);

impl<'a> View<'a> {
    fn text(self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// API group, empty for the core group.
    pub fn group(self) -> &'a str {
        self.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group)
    }

    pub fn version(self) -> &'a str {
        let api_version = self.text("/apiVersion");
        api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
    }

    pub fn kind(self) -> &'a str {
        self.text("/kind")
    }

    pub fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub fn generate_name(self) -> &'a str {
        self.text("/metadata/generateName")
    }

    pub fn namespace(self) -> &'a str {
        self.text("/metadata/namespace")
    }

    pub fn uid(self) -> &'a str {
        self.text("/metadata/uid")
    }

    pub fn resource_version(self) -> &'a str {
        self.text("/metadata/resourceVersion")
    }

    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.0.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// Whether a delete was accepted and finalizers still hold the object.
    pub fn is_deleting(self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    pub fn deletion_timestamp(self) -> Option<jiff::Timestamp> {
        self.text("/metadata/deletionTimestamp").parse().ok()
    }

    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        let list = self.0.pointer("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    pub fn is_namespace(self) -> bool {
        self.group().is_empty() && self.kind() == "Namespace"
    }

    /// Group, kind and scope that a CustomResourceDefinition defines.
    pub fn defines(self) -> Option<(&'a str, &'a str, &'a str)> {
        if self.group() != "apiextensions.k8s.io" || self.kind() != "CustomResourceDefinition" {
            return None;
        }
        Some((self.text("/spec/group"), self.text("/spec/names/kind"), self.text("/spec/scope")))
    }

    /// Images of the first container list found (SE-053): a Pod's own, a pod
    /// template's, or a CronJob's. Init containers do not count.
    pub fn images(self) -> Vec<String> {
        let paths = [
            "/spec/containers",
            "/spec/template/spec/containers",
            "/spec/jobTemplate/spec/template/spec/containers",
        ];
        let list = paths.iter().find_map(|path| self.0.pointer(path)?.as_array());
        let images = list.into_iter().flatten().filter_map(|c| c.get("image")?.as_str());
        images.map(str::to_owned).collect()
    }
}
