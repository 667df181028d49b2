//! Messages contain no credentials, whatever the credentials look like.

use tokio::net::TcpListener;

use super::*;

impl World {
    /// All messages of the controller about an Application: conditions, operation, Events.
    async fn said(&self, name: &str) -> String {
        let app = self.app(name).await;
        let status = &app["status"];
        let mut said = vec![
            status["conditions"].to_string(),
            status["operationState"]["message"].to_string(),
            status["operationState"]["syncResult"]["resources"].to_string(),
            status["resources"].to_string(),
        ];
        let events = self.api("events.k8s.io/v1", "Event", NAMESPACE);
        let events = events.list(&Default::default()).await.unwrap();
        said.extend(events.items.iter().map(|event| event.data["note"].to_string()));
        said.join("\n")
    }
}

fn condition(app: &Value) -> &str {
    app["status"]["conditions"][0]["message"].as_str().unwrap_or_default()
}

/// A token with the trailing newline of `echo` caused a panic in each reconcile.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_with_a_trailing_newline_is_used_and_an_invalid_one_is_reported() {
    let world = World::start().await;
    let far = Server::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = far.clone();
    tokio::spawn(async move { serving.serve(listener, CancellationToken::new()).await });
    let namespaces = Api::all(far.client_as("test"));
    let namespace: k8s_openapi::api::core::v1::Namespace =
        serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();

    world.add_cluster("far", &address, &json!({"bearerToken": "far-away-token\n"})).await;
    let broken = json!({"bearerToken": "broken\ntoken"});
    world.add_cluster("broken", "https://127.0.0.1:1", &broken).await;
    world.add_cluster("nowhere", "no-url", &json!({"bearerToken": "t"})).await;
    world.commit_file("far/a.yaml", &config_map("a", "1", &[]));
    for (name, server) in
        [("far", address.as_str()), ("broken", "https://127.0.0.1:1"), ("nowhere", "no-url")]
    {
        let mut app = world.application(name, "far");
        app["spec"]["destination"]["server"] = server.into();
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        world.create_app(&app).await;
    }
    world.until("far", "synced", |app| app["status"]["sync"]["status"] == "Synced").await;
    let agents: Vec<String> = far.requests().into_iter().map(|request| request.client).collect();
    assert!(agents.iter().any(|agent| agent == "wavegate"), "requests say who asks: {agents:?}");

    // At first, its Secret may not be known yet.
    let broken = |app: &Value| condition(app).contains("secret argocd/broken");
    let broken = world.until("broken", "reported why not", broken).await;
    let text = condition(&broken);
    assert!(text.contains("secret argocd/broken") && text.contains("config.bearerToken"), "{text}");
    assert!(!text.contains("broken\ntoken") && !text.contains("token\""), "{text}");
    let nowhere = |app: &Value| condition(app).contains("server is not an address");
    let nowhere = world.until("nowhere", "reported why not", nowhere).await;
    assert!(condition(&nowhere).contains("server is not an address"), "{}", condition(&nowhere));
}

/// Servers quote rejected values, which would be visible to anyone who may read the
/// Application.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_rejected_secret_are_not_reported() {
    let world = World::start().await;
    let secret = |name: &str, fields: &str| {
        let head = "apiVersion: v1\nkind: Secret\n";
        world.write(
            &format!("{name}/secret.yaml"),
            &format!("{head}metadata: {{name: {name}}}\n{fields}\n"),
        );
    };
    secret("number", "stringData: {pin: 7734512}");
    secret("encoding", "data: {password: \"hunter2 is no base64!\"}");
    secret("nested", "data: {password: {inner: hunter2-nested}}");
    world.commit();
    for (name, value, field) in [
        ("number", "7734512", "stringData.pin"),
        ("encoding", "hunter2", "data.password"),
        ("nested", "hunter2-nested", "data.password"),
    ] {
        world.create_app(&world.application(name, name)).await;
        world.until(name, "compared", |app| app["status"]["sync"]["status"].is_string()).await;
        world.sync(name, json!({})).await;
        let ended = |app: &Value| {
            matches!(app["status"]["operationState"]["phase"].as_str(), Some("Failed" | "Error"))
        };
        world.until(name, "refused", ended).await;
        let said = world.said(name).await;
        assert!(!said.contains(value), "{name}: {said}");
        assert!(said.contains(field), "{name} names the field: {said}");
    }
}

/// A password with a quote, a slash or a space was not redacted completely.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_urls_are_not_reported() {
    let world = World::start().await;
    let urls = [
        "https://user:s3cr3t@127.0.0.1:1/r",
        "https://user:it's-s3cr3t@127.0.0.1:1/r",
        "https://user:a\"s3cr3t@127.0.0.1:1/r",
        "https://user:a<s3cr3t@127.0.0.1:1/r",
        "https://user:1 s3cr3t@127.0.0.1:1/r",
        "https://user:123/s3cr3t@127.0.0.1/r",
        "https://s3cr3t@127.0.0.1:1/r",
        "https://127.0.0.1:1/r?access_token=s3cr3t",
        "ssh://user:s3cr3t@127.0.0.1:1/r",
        "user:s3cr3t@127.0.0.1:r",
        "ftp://user:s3cr3t@127.0.0.1/r",
    ];
    for (number, url) in urls.iter().enumerate() {
        let name = format!("url-{number}");
        let mut app = world.application(&name, ".");
        app["spec"]["source"]["repoURL"] = (*url).into();
        world.create_app(&app).await;
    }
    let mut app = world.application("server", ".");
    app["spec"]["destination"]["server"] = "https://user:s3cr3t's@127.0.0.1:1".into();
    world.create_app(&app).await;
    let names = (0..urls.len()).map(|number| format!("url-{number}"));
    for name in names.chain(["server".to_owned()]) {
        world.until(&name, "reported what is wrong", |app| !condition(app).is_empty()).await;
        let said = world.said(&name).await;
        assert!(!said.contains("s3cr3t"), "{name}: {said}");
    }
    // Redacting must not cause repeated writes.
    world.rest().await;
    world.server.forget_requests();
    for number in 0..urls.len() {
        world.refresh(&format!("url-{number}")).await;
    }
    world.rest().await;
    let events = world.writes().iter().filter(|write| write.starts_with("create events")).count();
    assert_eq!(events, 0, "{:?}", world.writes());
}
