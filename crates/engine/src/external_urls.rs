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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::external_urls_of;

    fn of(mut object: Value, annotations: Value) -> Vec<String> {
        object["metadata"]["annotations"] = annotations;
        external_urls_of(&object)
    }

    /// Links to web pages that a user wrote, with a title or without (CA-334).
    #[test]
    fn links_of_annotations_are_urls_ca_334() {
        let object = json!({"apiVersion": "v1", "kind": "Service"});
        for (value, is_link) in [
            ("https://a/b", true),
            ("HTTP://a", true),
            ("title|https://a", true),
            ("https://a|title", false),
            ("ftp://a", false),
            ("javascript:alert(1)", false),
            ("a", false),
        ] {
            let want = if is_link { vec![value.to_owned()] } else { Vec::new() };
            let links = json!({"link.argocd.argoproj.io/x": value});
            assert_eq!(of(object.clone(), links), want, "{value}");
            assert_eq!(of(object.clone(), json!({"link": value})), [] as [&str; 0], "{value}");
        }
    }

    /// One for each path of each rule, of its host or else of the first address (CA-330).
    #[test]
    fn an_ingress_has_a_url_for_each_path_ca_330() {
        let rule = |host: &str, paths: &[&str]| {
            let paths: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
            json!({"host": host, "http": {"paths": paths}})
        };
        let ingress = |api: &str, tls: Value, rules: Value, addresses: Value| {
            json!({"apiVersion": api, "kind": "Ingress", "spec": {"tls": tls, "rules": rules},
                   "status": {"loadBalancer": {"ingress": addresses}}})
        };
        let (v1, none) = ("networking.k8s.io/v1", json!([]));
        let two = json!([rule("a", &["/", "/x*"]), rule("b", &[""]), rule("c", &[])]);
        let tls = |name: &str| json!([{"secretName": name}]);
        let addresses = json!([{"hostname": "", "ip": "1.2.3.4"}, {"hostname": "lb"}]);
        let named = json!([{"hostname": "lb", "ip": "1.2.3.4"}]);
        let (hostless, without) = (json!([rule("", &["/"])]), json!({}));
        let cases = [
            (
                ingress(v1, none.clone(), two.clone(), none.clone()),
                vec!["http://a/", "http://a/x", "http://b"],
            ),
            (
                ingress("extensions/v1beta1", tls("s"), two.clone(), none.clone()),
                vec!["https://a/", "https://a/x", "https://b"],
            ),
            (ingress(v1, tls(""), json!([rule("a", &["/"])]), none.clone()), vec!["http://a/"]),
            (ingress(v1, none.clone(), hostless.clone(), addresses), vec!["http://1.2.3.4/"]),
            (ingress(v1, none.clone(), hostless.clone(), named), vec!["http://lb/"]),
            (ingress(v1, none.clone(), hostless, none.clone()), vec![]),
            (ingress("example.com/v1", none.clone(), two.clone(), none.clone()), vec![]),
        ];
        for (object, want) in cases {
            assert_eq!(of(object.clone(), without.clone()), want, "{object}");
        }
        let object = ingress(v1, none.clone(), two, none);
        let link = "link.argocd.argoproj.io/x";
        let only = json!({"argocd.argoproj.io/ignore-default-links": "true", link: "https://l"});
        assert_eq!(of(object.clone(), only), ["https://l"]);
        let all = json!({"argocd.argoproj.io/ignore-default-links": "false", link: "https://l"});
        assert_eq!(of(object, all), ["https://l", "http://a/", "http://a/x", "http://b"]);
    }

    /// One for each listener: with its host name, else with each address (CA-332).
    #[test]
    fn a_gateway_has_a_url_for_each_listener_ca_332() {
        let gateway = |listeners: Value| {
            let addresses = json!([{"value": "1.1.1.1"}, {"value": ""}, {"value": "lb"}]);
            let object = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "spec": {"listeners": listeners}, "status": {"addresses": addresses}});
            of(object, json!({}))
        };
        for (protocol, port, hostname, want) in [
            ("HTTP", Some(80), "a", vec!["http://a"]),
            ("HTTP", Some(443), "a", vec!["http://a:443"]),
            ("HTTP", None, "a", vec!["http://a"]),
            ("HTTPS", Some(443), "a", vec!["https://a"]),
            ("TLS", Some(80), "a", vec!["https://a:80"]),
            ("HTTPS", None, "", vec!["https://1.1.1.1", "https://lb"]),
            ("HTTP", Some(8080), "*", vec!["http://1.1.1.1:8080", "http://lb:8080"]),
        ] {
            let listener = json!({"protocol": protocol, "port": port, "hostname": hostname});
            assert_eq!(gateway(json!([listener])), want, "{listener}");
        }
        let two =
            json!([{"protocol": "HTTP", "hostname": "a"}, {"protocol": "TLS", "hostname": "b"}]);
        assert_eq!(gateway(two), ["http://a", "https://b"]);
        let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "spec": {"listeners": [{"hostname": "a"}]}});
        assert_eq!(of(route, json!({})), [] as [&str; 0]);
    }
}
