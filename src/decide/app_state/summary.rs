//! `status.summary`: images, external URLs, and whether the Application manages others (SE-061).

use std::collections::BTreeSet;

use serde_json::Value;

use super::compared::ComparedResource;
use crate::api::GROUP;
use crate::api::annotations::{IGNORE_DEFAULT_LINKS, LINK};
use crate::api::app_status::ApplicationSummary;
use crate::api::resource_key::split_api_version;

/// That of all resources: of live objects, and images also of what is not in the cluster yet.
pub(super) fn summary(resources: &[ComparedResource]) -> ApplicationSummary {
    let live = resources.iter().filter_map(|resource| resource.live.as_deref());
    let urls: BTreeSet<String> = live.flat_map(external_urls).collect();
    ApplicationSummary {
        images: images(resources),
        external_urls: urls.into_iter().collect(),
        is_app_of_apps: resources
            .iter()
            .any(|resource| resource.key.group == GROUP && resource.key.kind == "Application"),
    }
}

/// A summary with the links that a user wrote on the Application itself.
pub(super) fn with_links_of(
    application: &Value,
    summary: &ApplicationSummary,
) -> ApplicationSummary {
    let urls: BTreeSet<String> =
        summary.external_urls.iter().cloned().chain(links(application)).collect();
    ApplicationSummary { external_urls: urls.into_iter().collect(), ..summary.clone() }
}

/// Images of pods and pod templates, of the live objects if they exist.
fn images(resources: &[ComparedResource]) -> Vec<String> {
    let paths = [
        "/spec/containers",
        "/spec/template/spec/containers",
        "/spec/jobTemplate/spec/template/spec/containers",
    ];
    let mut images = BTreeSet::new();
    for resource in resources.iter().filter(|resource| !resource.is_hook()) {
        let Some(object) = resource.live.as_ref().or(resource.target.as_ref()) else { continue };
        let containers = paths.iter().find_map(|path| object.pointer(path)?.as_array());
        let names = containers.into_iter().flatten().filter_map(|c| c["image"].as_str());
        images.extend(names.map(str::to_owned));
    }
    images.into_iter().collect()
}

/// The URLs of an object (CA-330, CA-332, CA-334).
fn external_urls(object: &Value) -> Vec<String> {
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
fn links(object: &Value) -> impl Iterator<Item = String> + '_ {
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
