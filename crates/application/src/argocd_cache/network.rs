//! How an object is reached (CA-330 … CA-334).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parts::Map;
use wavegate_api::kind::KindRef;
use wavegate_api::networking::{
    BalancedStatusView, BalancerAddressView, GatewayAddressView, GatewayView, IngressView,
    RouteReference, RouteSpecView, RouteView, ServiceEntryView, ServiceView,
    VirtualServiceSpecView, VirtualServiceView,
};
use wavegate_api::raw::texts_of;
use wavegate_api::{Raw, read_leniently};
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
        ("", "Pod") => {
            Some(Networking { labels: texts_of(object.labels()), ..Networking::default() })
        }
        ("networking.k8s.io" | "extensions", "Ingress") => Some(ingress(object)),
        ("networking.istio.io", "VirtualService") => Some(virtual_service(object)),
        ("networking.istio.io", "ServiceEntry") => service_entry(object),
        (GATEWAY_GROUP, "Gateway") => Some(gateway(object)),
        (GATEWAY_GROUP, kind) if kind.ends_with("Route") => Some(route(object)),
        _ => None,
    };
    let external_urls = external_urls::external_urls_of(object);
    if !external_urls.is_empty() {
        found.get_or_insert_default().external_urls = external_urls;
    }
    if let Some(found) = &mut found {
        let mut seen = BTreeSet::new();
        found.external_urls.retain(|url| seen.insert(url.clone()));
    }
    found
}

fn balancers(status: BalancedStatusView) -> Vec<Address> {
    let all = status.load_balancer.ingress.into_iter();
    all.map(|BalancerAddressView { hostname, ip }| match hostname.is_empty() {
        true => Address { ip, ..Address::default() },
        false => Address { hostname, ..Address::default() },
    })
    .collect()
}

fn service(object: &Value) -> Networking {
    let ServiceView { spec, status } = read_leniently(object);
    let is_balanced = spec.type_ == "LoadBalancer";
    Networking {
        target_labels: spec.selector,
        ingress: if is_balanced { balancers(status) } else { Vec::new() },
        ..Networking::default()
    }
}

fn to_service(namespace: &str, name: &str) -> TargetRef {
    let [kind, namespace, name] = ["Service", namespace, name].map(str::to_owned);
    TargetRef { kind, namespace, name, ..TargetRef::default() }
}

/// The targets in order, each once.
fn to_targets(targets: impl Iterator<Item = TargetRef>) -> Networking {
    let targets: BTreeSet<TargetRef> = targets.collect();
    Networking { target_refs: targets.into_iter().collect(), ..Networking::default() }
}

/// The Services of the default backend and of all paths.
fn ingress(object: &Value) -> Networking {
    let IngressView { spec, status } = read_leniently(object);
    let paths = spec.rules.iter().flat_map(|rule| &rule.http.paths).map(|path| &path.backend);
    let targets = std::iter::once(&spec.backend).chain(paths).filter_map(|backend| {
        let names = [&backend.service_name, &backend.service.name];
        let name = names.into_iter().find(|name| !name.is_empty())?;
        Some(to_service(object.namespace(), name))
    });
    Networking { ingress: balancers(status), ..to_targets(targets) }
}

fn virtual_service(object: &Value) -> Networking {
    let VirtualServiceSpecView { http } = read_leniently::<VirtualServiceView>(object).spec;
    let hosts = http.iter().flat_map(|http| &http.route).map(|route| &route.destination.host);
    to_targets(hosts.filter(|host| !host.is_empty()).map(|host| {
        let mut labels = host.split('.');
        let name = labels.next().unwrap_or_default();
        to_service(labels.next().unwrap_or(object.namespace()), name)
    }))
}

fn service_entry(object: &Value) -> Option<Networking> {
    let spec = read_leniently::<ServiceEntryView>(object).spec;
    let target_labels = spec.workload_selector.labels;
    let target = TargetRef { kind: "Pod".to_owned(), ..TargetRef::default() };
    (!target_labels.is_empty()).then(|| Networking {
        target_labels,
        target_refs: vec![target],
        ..Networking::default()
    })
}

/// The Gateways and Services of a route.
fn route(object: &Value) -> Networking {
    let reference = |from: RouteReference, group: &str, kind: &str| TargetRef {
        group: from.group.unwrap_or_else(|| group.to_owned()),
        kind: from.kind.unwrap_or_else(|| kind.to_owned()),
        namespace: from.namespace.unwrap_or_else(|| object.namespace().to_owned()),
        name: from.name,
    };
    let RouteSpecView { parent_refs, rules } = read_leniently::<RouteView>(object).spec;
    let parents = parent_refs.into_iter().map(|from| reference(from, GATEWAY_GROUP, "Gateway"));
    let backends = rules.into_iter().flat_map(|rule| rule.backend_refs);
    to_targets(parents.chain(backends.map(|from| reference(from, "", "Service"))))
}

fn gateway(object: &Value) -> Networking {
    let addresses = read_leniently::<GatewayView>(object).status.addresses.into_iter();
    let addresses = addresses.filter(|address| !address.value.is_empty());
    let address = |GatewayAddressView { type_, value }| match type_ == "Hostname" {
        true => Address { hostname: value, ..Address::default() },
        false => Address { ip: value, ..Address::default() },
    };
    Networking { ingress: addresses.map(address).collect(), ..Networking::default() }
}
