//! The URLs of an object for people: links that users wrote on it, and where an Ingress or a
//! Gateway serves (CA-330, CA-332, CA-334).

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use serde_json::Value;

use wavegate_api::annotations::{IGNORE_DEFAULT_LINKS, LINK};
use wavegate_api::networking::{GatewayView, IngressPathView, IngressView};
use wavegate_api::{Raw, read_leniently};

/// The URLs of an object (CA-330, CA-332, CA-334).
pub fn external_urls_of(object: &Value) -> Vec<String> {
    let mut urls: Vec<String> = link_urls(object).collect();
    if object.annotation(IGNORE_DEFAULT_LINKS) == Some("true") {
        return urls;
    }
    match (object.group(), object.kind()) {
        ("networking.k8s.io" | "extensions", "Ingress") => {
            urls.extend(of_ingress(&read_leniently(object)));
        }
        ("gateway.networking.k8s.io", "Gateway") => {
            urls.extend(of_gateway(&read_leniently(object)));
        }
        _ => {}
    }
    urls
}

/// Links that a user wrote: to a web page, with a title or without.
pub fn link_urls(object: &Value) -> impl Iterator<Item = String> + '_ {
    let annotations = object.annotations().into_iter().flatten();
    let own = annotations.filter(|(key, _)| key.starts_with(LINK));
    let values = own.filter_map(|(_, value)| value.as_str());
    values
        .filter(|value| is_web(value.split_once('|').map_or(value, |(_, url)| url)))
        .map(str::to_owned)
}

fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

/// One URL for each path of each rule.
fn of_ingress(ingress: &IngressView) -> Vec<String> {
    let IngressView { spec, status } = ingress;
    let is_secure = spec.tls.iter().any(|tls| !tls.secret_name.is_empty());
    let scheme = if is_secure { "https" } else { "http" };
    let mut balancers =
        status.load_balancer.ingress.iter().flat_map(|one| [&one.hostname, &one.ip]);
    let first = balancers.find(|name| !name.is_empty());
    let mut urls = Vec::new();
    for rule in &spec.rules {
        let Some(host) = Some(&rule.host).filter(|host| !host.is_empty()).or(first) else {
            continue;
        };
        for IngressPathView { path, .. } in &rule.http.paths {
            let path = path.strip_suffix('*').unwrap_or(path);
            urls.push(format!("{scheme}://{host}{path}"));
        }
    }
    urls
}

/// One URL for each listener: of its host name, else of each address.
fn of_gateway(gateway: &GatewayView) -> Vec<String> {
    let addresses = gateway.status.addresses.iter().map(|address| address.value.as_str());
    let mut urls = Vec::new();
    for listener in &gateway.spec.listeners {
        let is_secure = matches!(listener.protocol.as_str(), "HTTPS" | "TLS");
        let (scheme, usual) = if is_secure { ("https", 443) } else { ("http", 80) };
        let port = match listener.port {
            Some(port) if port != usual => format!(":{port}"),
            _ => String::new(),
        };
        let hosts: Vec<&str> = match listener.hostname.as_str() {
            "" | "*" => addresses.clone().filter(|address| !address.is_empty()).collect(),
            own => vec![own],
        };
        urls.extend(hosts.into_iter().map(|host| format!("{scheme}://{host}{port}")));
    }
    urls
}
