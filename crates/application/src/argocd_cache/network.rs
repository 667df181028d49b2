//! How an object is reached (CA-330 … CA-334).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::{Map, strings};
use wavegate_api::Raw;
use wavegate_api::kind::KindRef;
use wavegate_engine::external_urls;

const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// What an object points at, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) target_labels: Map,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) target_refs: Vec<TargetRef>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) labels: Map,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ingress: Vec<Address>,
    #[serde(rename = "externalURLs", skip_serializing_if = "Vec::is_empty")]
    pub(super) external_urls: Vec<String>,
}

/// An object that traffic goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

/// An address of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Address {
    #[serde(skip_serializing_if = "String::is_empty")]
    hostname: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    ip: String,
}

/// The networking information of an object; `None` when its kind has none and nobody wrote a
/// link on it.
pub(super) fn of(object: &Value) -> Option<Networking> {
    let KindRef { group, kind, .. } = KindRef::of(object);
    let mut found = match (group, kind) {
        ("", "Service") => Some(service(object)),
        ("", "Pod") => Some(Networking {
            labels: strings(&object["metadata"]["labels"]),
            ..Networking::default()
        }),
        ("networking.k8s.io" | "extensions", "Ingress") => Some(ingress(object)),
        ("networking.istio.io", "VirtualService") => Some(virtual_service(object)),
        ("networking.istio.io", "ServiceEntry") => service_entry(object),
        (GATEWAY_GROUP, "Gateway") => Some(gateway(object)),
        (GATEWAY_GROUP, kind) if kind.ends_with("Route") => Some(route(object)),
        _ => None,
    };
    let external_urls = external_urls::of(object);
    if !external_urls.is_empty() {
        found.get_or_insert_default().external_urls = external_urls;
    }
    if let Some(found) = &mut found {
        let mut seen = BTreeSet::new();
        found.external_urls.retain(|url| seen.insert(url.clone()));
    }
    found
}

fn balancers(object: &Value) -> Vec<Address> {
    let all = object.items("/status/loadBalancer/ingress").iter();
    all.map(|found| match (found.field("hostname"), found.field("ip")) {
        ("", ip) => Address { ip: ip.to_owned(), ..Address::default() },
        (hostname, _) => Address { hostname: hostname.to_owned(), ..Address::default() },
    })
    .collect()
}

fn service(object: &Value) -> Networking {
    let is_balanced = object.text("/spec/type") == "LoadBalancer";
    Networking {
        target_labels: strings(&object["spec"]["selector"]),
        ingress: if is_balanced { balancers(object) } else { Vec::new() },
        ..Networking::default()
    }
}

fn to_service(namespace: &str, name: &str) -> TargetRef {
    let [kind, namespace, name] = ["Service", namespace, name].map(str::to_owned);
    TargetRef { kind, namespace, name, ..TargetRef::default() }
}

/// The Services of the default backend and of all paths, and a URL for each path.
fn ingress(object: &Value) -> Networking {
    let namespace = object.namespace();
    let backend = |backend: &Value| {
        let name = match backend.field("serviceName") {
            "" => backend.text("/service/name"),
            name => name,
        };
        (!name.is_empty()).then(|| to_service(namespace, name))
    };
    let mut targets: BTreeSet<TargetRef> =
        backend(&object["spec"]["backend"]).into_iter().collect();
    for rule in object.items("/spec/rules") {
        for path in rule.items("/http/paths") {
            targets.extend(backend(&path["backend"]));
        }
    }
    Networking {
        target_refs: targets.into_iter().collect(),
        ingress: balancers(object),
        ..Networking::default()
    }
}

fn virtual_service(object: &Value) -> Networking {
    let destinations = object
        .items("/spec/http")
        .iter()
        .flat_map(|route| route.items("/route"))
        .map(|route| route.text("/destination/host"))
        .filter(|host| !host.is_empty());
    let targets: BTreeSet<TargetRef> = destinations
        .map(|host| {
            let mut labels = host.split('.');
            let name = labels.next().unwrap_or_default();
            to_service(labels.next().unwrap_or(object.namespace()), name)
        })
        .collect();
    Networking { target_refs: targets.into_iter().collect(), ..Networking::default() }
}

fn service_entry(object: &Value) -> Option<Networking> {
    let target_labels = strings(&object["spec"]["workloadSelector"]["labels"]);
    let target = TargetRef { kind: "Pod".to_owned(), ..TargetRef::default() };
    (!target_labels.is_empty()).then(|| Networking {
        target_labels,
        target_refs: vec![target],
        ..Networking::default()
    })
}

/// The Gateways and Services of a route.
fn route(object: &Value) -> Networking {
    let reference = |from: &Value, group: &str, kind: &str| {
        let or = |field: &str, default: &str| match from[field].as_str() {
            Some(text) => text.to_owned(),
            None => default.to_owned(),
        };
        TargetRef {
            group: or("group", group),
            kind: or("kind", kind),
            namespace: or("namespace", object.namespace()),
            name: or("name", ""),
        }
    };
    let parents = object.items("/spec/parentRefs").iter();
    let rules = object.items("/spec/rules").iter();
    let backends = rules.flat_map(|rule| rule.items("/backendRefs"));
    let targets: BTreeSet<TargetRef> = parents
        .map(|parent| reference(parent, GATEWAY_GROUP, "Gateway"))
        .chain(backends.map(|backend| reference(backend, "", "Service")))
        .collect();
    Networking { target_refs: targets.into_iter().collect(), ..Networking::default() }
}

fn gateway(object: &Value) -> Networking {
    let addresses: Vec<Address> = object
        .items("/status/addresses")
        .iter()
        .filter(|address| !address.field("value").is_empty())
        .map(|address| {
            let value = address.field("value").to_owned();
            match address.field("type") == "Hostname" {
                true => Address { hostname: value, ..Address::default() },
                false => Address { ip: value, ..Address::default() },
            }
        })
        .collect();
    Networking { ingress: addresses, ..Networking::default() }
}
