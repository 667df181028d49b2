//! Definitions that a server has from the beginning.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{get, post};
use crate::{Definitions, Server, ServerClock, ServerSettings};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn widgets() -> Value {
    let field = json!({"type": "string", "default": "red"});
    let spec = json!({"type": "object", "properties": {"color": field}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "labels": {"a": "b"}},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

fn settings() -> ServerSettings {
    let time: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
    ServerSettings { clock: ServerClock::starting_at(time), ..ServerSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn a_server_has_them_as_if_they_had_just_been_created() {
    let definitions = Definitions::read([&widgets()]).unwrap();
    let with = Server::with(ServerSettings { definitions, ..settings() });
    let created = Server::with(settings());
    let (code, _) = post(&created.client(), CRDS, &widgets()).await;
    assert_eq!(code, 201);
    let mut servers = Vec::new();
    for server in [with, created] {
        let client = server.client();
        let (_, mut definition) = get(&client, &format!("{CRDS}/widgets.example.com")).await;
        definition["metadata"].as_object_mut().unwrap().remove("managedFields");
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {},
        });
        let path = "/apis/example.com/v1/namespaces/default/widgets";
        let made = post(&client, path, &widget).await;
        let (_, resources) = get(&client, "/apis/example.com/v1").await;
        let (_, document) = get(&client, "/openapi/v3/apis/example.com/v1").await;
        servers.push([definition, json!(made), resources, document]);
    }
    assert_eq!(servers[0][1][1]["spec"], json!({"color": "red"}));
    assert_eq!(servers[0], servers[1]);
}

#[test]
fn one_that_a_server_refuses_is_refused() {
    let mut wrong = widgets();
    wrong["spec"]["scope"] = "Everywhere".into();
    let refused = Definitions::read([&wrong]).unwrap_err().to_string();
    assert!(refused.starts_with("cannot define widgets.example.com: "), "{refused}");
}
