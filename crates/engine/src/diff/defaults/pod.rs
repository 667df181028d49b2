//! Defaults of a Pod's spec.

use serde_json::{Value, json};

use super::fields::{Object, each, is, object, set, set_count};

/// Sets the defaults of a Pod's spec. `is_pod` distinguishes a Pod object from a
/// template, which has fewer defaults.
pub fn default_pod_spec(spec: &mut Object, is_pod: bool) {
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "securityContext", json!({}));
    if is_pod {
        set(spec, "enableServiceLinks", true);
    }
    // The deprecated name mirrors the new one.
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        set(spec, "serviceAccount", account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        set(spec, "serviceAccountName", account);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for one in each(spec, list) {
            container(one, is_pod);
        }
    }
    for one in each(spec, "volumes") {
        volume(one);
    }
}

fn container(container: &mut Object, is_pod: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    for port in each(container, "ports") {
        set(port, "protocol", "TCP");
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(one) = object(container, name) {
            probe(one);
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object(lifecycle, name) {
                http_get(handler);
            }
        }
    }
    for variable in each(container, "env") {
        if let Some(from) = object(variable, "valueFrom") {
            references(from);
        }
    }
    if is_pod
        && let Some(resources) = object(container, "resources")
        && let Some(Value::Object(limits)) = resources.get("limits").cloned()
        && let Some(requests) = super::object_or_new(resources, "requests")
    {
        for (name, limit) in limits {
            set(requests, &name, limit);
        }
    }
}

/// Whether an image has the tag `latest`, or neither tag nor digest.
fn is_latest(image: &str) -> bool {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    name.split_once(':').map_or(!digest, |(_, tag)| tag == "latest")
}

fn probe(probe: &mut Object) {
    set_count(probe, "timeoutSeconds", 1);
    set_count(probe, "periodSeconds", 10);
    set_count(probe, "successThreshold", 1);
    set_count(probe, "failureThreshold", 3);
    http_get(probe);
}

fn http_get(handler: &mut Object) {
    if let Some(get) = object(handler, "httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
}

/// `fieldRef` and `resourceFieldRef`, of environment variables and of files.
fn references(from: &mut Object) {
    if let Some(field) = object(from, "fieldRef") {
        set(field, "apiVersion", "v1");
    }
    if let Some(resource) = object(from, "resourceFieldRef") {
        set(resource, "divisor", "0");
    }
}

fn volume(volume: &mut Object) {
    if volume.keys().all(|key| key == "name") {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, source) {
            set(source, "defaultMode", 420);
        }
    }
    if let Some(files) = object(volume, "downwardAPI") {
        each(files, "items").for_each(references);
    }
    if let Some(projected) = object(volume, "projected") {
        for source in each(projected, "sources") {
            if let Some(token) = object(source, "serviceAccountToken") {
                set(token, "expirationSeconds", 3600);
            }
            if let Some(files) = object(source, "downwardAPI") {
                each(files, "items").for_each(references);
            }
        }
    }
    if let Some(iscsi) = object(volume, "iscsi") {
        set(iscsi, "iscsiInterface", "default");
    }
    if let Some(disk) = object(volume, "azureDisk") {
        set(disk, "cachingMode", "ReadWrite");
        set(disk, "fsType", "ext4");
        set(disk, "kind", "Shared");
        set(disk, "readOnly", false);
    }
    if let Some(disk) = object(volume, "rbd") {
        set(disk, "pool", "rbd");
        set(disk, "user", "admin");
        set(disk, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = object(volume, "scaleIO") {
        set(disk, "fsType", "xfs");
        set(disk, "storageMode", "ThinProvisioned");
    }
    if let Some(ephemeral) = object(volume, "ephemeral")
        && let Some(template) = object(ephemeral, "volumeClaimTemplate")
        && let Some(claim) = object(template, "spec")
    {
        set(claim, "volumeMode", "Filesystem");
    }
    // An empty type equals an absent one; normalization removes it.
    if let Some(path) = object(volume, "hostPath")
        && is(path, "type", "")
    {
        path.remove("type");
    }
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    #[test]
    fn which_images_are_always_pulled() {
        let rows = [
            ("x", true),
            ("x:latest", true),
            ("x:1", false),
            ("registry:5000/x", true),
            ("registry:5000/x:1", false),
            ("x@sha256:abc", false),
            ("x:latest@sha256:abc", true),
        ];
        for (image, want) in rows {
            assert_eq!(is_latest(image), want, "{image}");
        }
    }
}
