//! The URLs of an object for people: links that users wrote on it, and where an Ingress or a
//! Gateway serves (CA-330, CA-332, CA-334).

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

use serde_json::Value;

use wavegate_api::annotations::{IGNORE_DEFAULT_LINKS, LINK};
use wavegate_api::resource_key::split_api_version;

/// The URLs of an object (CA-330, CA-332, CA-334).
pub fn of(object: &Value) -> Vec<String> {
    let mut urls: Vec<String> = links(object).collect();
    if object["metadata"]["annotations"][IGNORE_DEFAULT_LINKS] == "true" {
        return urls;
    }
    let (group, _) = split_api_version(text(&object["apiVersion"]));
    match (group, text(&object["kind"])) {
        ("networking.k8s.io" | "extensions", "Ingress") => urls.extend(of_ingress(object)),
        ("gateway.networking.k8s.io", "Gateway") => urls.extend(of_gateway(object)),
        _ => {}
    }
    urls
}

/// Links that a user wrote: to a web page, with a title or without.
pub fn links(object: &Value) -> impl Iterator<Item = String> + '_ {
    let annotations = object["metadata"]["annotations"].as_object().into_iter().flatten();
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
fn of_ingress(ingress: &Value) -> Vec<String> {
    let has_secret = |tls: &Value| !text(&tls["secretName"]).is_empty();
    let is_secure = list(&ingress["spec"]["tls"]).any(has_secret);
    let scheme = if is_secure { "https" } else { "http" };
    let first = list(&ingress["status"]["loadBalancer"]["ingress"]).find_map(|balancer| {
        [&balancer["hostname"], &balancer["ip"]].map(text).into_iter().find(|name| !name.is_empty())
    });
    let mut urls = Vec::new();
    for rule in list(&ingress["spec"]["rules"]) {
        let own = Some(text(&rule["host"])).filter(|host| !host.is_empty());
        let Some(host) = own.or(first) else { continue };
        for path in list(&rule["http"]["paths"]) {
            let path = text(&path["path"]);
            let path = path.strip_suffix('*').unwrap_or(path);
            urls.push(format!("{scheme}://{host}{path}"));
        }
    }
    urls
}

/// One URL for each listener: of its host name, else of each address.
fn of_gateway(gateway: &Value) -> Vec<String> {
    let addresses = || list(&gateway["status"]["addresses"]).map(|address| text(&address["value"]));
    let mut urls = Vec::new();
    for listener in list(&gateway["spec"]["listeners"]) {
        let is_secure = matches!(text(&listener["protocol"]), "HTTPS" | "TLS");
        let (scheme, usual) = if is_secure { ("https", 443) } else { ("http", 80) };
        let port = match listener["port"].as_u64() {
            Some(port) if port != usual => format!(":{port}"),
            _ => String::new(),
        };
        let hosts: Vec<&str> = match text(&listener["hostname"]) {
            "" | "*" => addresses().filter(|address| !address.is_empty()).collect(),
            own => vec![own],
        };
        urls.extend(hosts.into_iter().map(|host| format!("{scheme}://{host}{port}")));
    }
    urls
}

fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
