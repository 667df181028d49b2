//! What a sync waited for that only the first one waits for: an Ingress gets its address and a
//! claim its volume once, and they keep it while their workloads change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use wavegate_api::Raw;
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};

/// Objects of one answer.
const PAGE: u32 = 500;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object: group, kind, namespace and name.
type Key = (String, String, String, String);

/// When objects were created, and when their statuses were written last.
#[derive(Debug, Default)]
pub(super) struct Created(BTreeMap<Key, (Timestamp, Timestamp)>);

/// The kinds that are waited for once.
fn once() -> [ApiResource; 3] {
    [
        ApiResource::erase::<Ingress>(&()),
        ApiResource::erase::<PersistentVolumeClaim>(&()),
        ApiResource::erase::<Service>(&()),
    ]
}

/// Those that are waited for with each change.
fn each_time() -> [ApiResource; 3] {
    [
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<DaemonSet>(&()),
    ]
}

impl Created {
    /// Reads what decides about the last syncs of Applications; what cannot be read is not known.
    pub async fn read<'a>(
        client: &Client,
        applications: impl Iterator<Item = &'a Value> + Clone,
    ) -> Self {
        let mut all = BTreeMap::new();
        if !applications.clone().any(|one| resources(one).any(is_once)) {
            return Self(all);
        }
        let namespaces: BTreeSet<&str> = applications
            .flat_map(|one| one.items("/status/resources"))
            .map(|resource| resource.field("namespace"))
            .collect();
        for kind in once().into_iter().chain(each_time()) {
            let listed = tokio::time::timeout(TIMEOUT, list(client, &kind)).await;
            for metadata in listed.ok().and_then(Result::ok).unwrap_or_default() {
                let namespace = metadata.namespace.clone().unwrap_or_default();
                let times = namespaces.contains(namespace.as_str()).then(|| times(&metadata));
                if let Some(times) = times.flatten() {
                    let name = metadata.name.unwrap_or_default();
                    all.insert((kind.group.clone(), kind.kind.clone(), namespace, name), times);
                }
            }
        }
        Self(all)
    }

    /// For how long a sync of an Application, which began at this time and took so long, waited
    /// only for what it created, and will not create again; `None` when it created nothing of
    /// that kind, or nothing is known of it.
    pub fn waited(
        &self,
        application: &Value,
        began: Timestamp,
        took: Duration,
    ) -> Option<Duration> {
        let healthy = began.checked_add(took).ok()?;
        let known = |key: &Key| self.0.get(key).copied();
        let mut waves: BTreeMap<i64, (Vec<Key>, Vec<Key>)> = BTreeMap::new();
        for resource in resources(application) {
            let key = key(resource);
            let is_new = known(&key).is_some_and(|(created, _)| created >= began);
            let (once, others) =
                waves.entry(resource["syncWave"].as_i64().unwrap_or(0)).or_default();
            match is_once(resource) {
                true if is_new => once.push(key),
                // Those without a status are ready as they are, and what was there stays so.
                true => {}
                false => others.push(key),
            }
        }
        let in_wave = |(once, others): (Vec<Key>, Vec<Key>)| {
            let once: Vec<_> = once.iter().filter_map(known).collect();
            let ready = once.iter().map(|(_, ready)| *ready).max()?;
            let created = once.iter().map(|(created, _)| *created).min()?;
            // Of all that is waited for as well, the time must be known.
            let others: Option<Vec<_>> = others.iter().map(known).collect();
            let other = others?.into_iter().map(|(_, ready)| ready).max();
            let is_of_sync = ready <= healthy && other.is_none_or(|other| other <= healthy);
            let from = other.map_or(created, |other| other.max(created));
            let waited = Duration::try_from(ready.duration_since(from)).unwrap_or_default();
            is_of_sync.then_some(waited)
        };
        let waits: Vec<Duration> = waves.into_values().filter_map(in_wave).collect();
        (!waits.is_empty()).then(|| waits.into_iter().sum())
    }
}

/// The resources of an Application of this cluster whose health counts, without hooks.
fn resources(application: &Value) -> impl Iterator<Item = &Value> {
    let is_here = match application.text("/spec/destination/server") {
        "" => application.text("/spec/destination/name") == IN_CLUSTER_NAME,
        server => server == IN_CLUSTER_SERVER,
    };
    let counts = |resource: &&Value| resource["hook"] != true && resource["health"].is_object();
    let resources = application.items("/status/resources").iter();
    resources.filter(move |_| is_here).filter(counts)
}

fn is_once(resource: &Value) -> bool {
    let is_kind = |kind: ApiResource| {
        kind.group == resource.field("group") && kind.kind == resource.field("kind")
    };
    once().into_iter().any(is_kind)
}

fn key(resource: &Value) -> Key {
    let [group, kind, namespace, name] =
        ["group", "kind", "namespace", "name"].map(|field| resource.field(field).to_owned());
    (group, kind, namespace, name)
}

/// When an object was created, and when its status was written last.
fn times(metadata: &ObjectMeta) -> Option<(Timestamp, Timestamp)> {
    let managers = metadata.managed_fields.iter().flatten();
    let of_status = managers.filter(|one| one.subresource.as_deref() == Some("status"));
    let written = of_status.filter_map(|one| Some(one.time.as_ref()?.0)).max()?;
    Some((metadata.creation_timestamp.as_ref()?.0, written))
}

async fn list(client: &Client, kind: &ApiResource) -> Result<Vec<ObjectMeta>, kube::Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let (mut all, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = api.list_metadata(&params).await?;
        all.extend(page.items.into_iter().map(|object| object.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_607_200 + second).unwrap()
    }

    /// With the Ingress in this wave; the Deployment is in wave 0.
    fn application(wave: i64) -> Value {
        let resource = |group: &str, kind: &str, wave: i64| {
            json!({"group": group, "kind": kind, "namespace": "shop", "name": "web",
                "syncWave": wave, "health": {"status": "Healthy"}})
        };
        let ingress = resource("networking.k8s.io", "Ingress", wave);
        json!({
            "spec": {"destination": {"server": IN_CLUSTER_SERVER}},
            "status": {"resources": [resource("apps", "Deployment", 0), ingress]},
        })
    }

    #[test]
    fn what_was_waited_for_alone_and_is_not_created_again_counts() {
        let key = |group: &str, kind: &str| {
            (group.to_owned(), kind.to_owned(), "shop".to_owned(), "web".to_owned())
        };
        let known = |deployment: (i64, i64), ingress: (i64, i64)| {
            let of = |(created, ready)| (at(created), at(ready));
            Created(BTreeMap::from([
                (key("apps", "Deployment"), of(deployment)),
                (key("networking.k8s.io", "Ingress"), of(ingress)),
            ]))
        };
        let took = Duration::from_secs(100);
        let cases = [
            ("a wave of its own", 1, (0, 10), (10, 40), Some(30)),
            ("beside a workload that was faster", 0, (0, 10), (0, 40), Some(30)),
            ("beside a workload that was slower", 0, (0, 90), (0, 40), Some(0)),
            ("its status changed later", 1, (0, 10), (10, 4000), None),
            ("it was there before", 1, (0, 10), (-900, 40), None),
        ];
        for (name, wave, deployment, ingress, want) in cases {
            let waited = known(deployment, ingress).waited(&application(wave), at(0), took);
            assert_eq!(waited, want.map(Duration::from_secs), "{name}");
        }
        let mut elsewhere = application(1);
        elsewhere["spec"]["destination"]["server"] = "https://other".into();
        assert_eq!(known((0, 10), (10, 40)).waited(&elsewhere, at(0), took), None);
    }
}
