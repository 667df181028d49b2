//! Differences that the API server predicts by dry runs (SE-150, SE-158, SE-159, SE-327).

use std::collections::BTreeSet;

use kube::client::Body;

use super::limits::settings;
use super::*;

const OPTIONS: &str = "argocd.argoproj.io/compare-options";

impl World {
    /// The objects that the controller has asked the server about.
    fn asked(&self) -> Vec<String> {
        let runs = self.server.requests().into_iter().filter(|request| {
            request.client == CONTROLLER && request.dry_run && request.verb == "apply"
        });
        runs.map(|request| request.name).collect()
    }

    /// An Application `app` with these options of comparisons, synced once.
    async fn predicted_app(&self, options: &str) {
        let revision = self.commit();
        let more = json!({"metadata": {"annotations": {OPTIONS: options}}});
        self.create_with("app", "app", more).await;
        self.sync_until_good("app", json!({"revision": revision})).await;
    }
}

/// Whether the last comparison knows of a commit.
fn has(app: &Value, revision: &str) -> bool {
    app["status"]["sync"]["revision"] == revision && settled(app)
}

/// SE-158, SE-159: objects that exist are predicted, once for each version, target and request;
/// new ones are not asked about.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_predicts_existing_objects_once_per_version_se_158_se_159() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/two.json", &config_map("two", "1", &[]));
    world.predicted_app("ServerSideDiff=true").await;
    world.rest().await;
    let app = world.app("app").await;
    assert!(!condition(&app, "SyncWarning", "ServerSideDiff"), "{}", app["status"]);
    let before = world.asked();
    for name in ["one", "two"] {
        assert!(before.iter().any(|asked| asked == name), "{before:?}");
    }
    // A change of one asks about this one only.
    world.patch_map("one", json!({"data": {"value": "drift"}})).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(row(&app, "one")["status"], "OutOfSync");
    assert_eq!(row(&app, "two")["status"], "Synced");
    world.rest().await;
    let after = world.asked().split_off(before.len());
    assert_eq!(after, ["one"], "the other has not changed");
    // A request of a user asks about all: webhooks may have changed.
    world.refresh("app").await;
    let again = world.asked().split_off(before.len() + 1);
    assert_eq!(BTreeSet::from_iter(again), BTreeSet::from(["one".to_owned(), "two".to_owned()]));
    // A new object is missing, which needs no request.
    let revision = world.commit_file("app/three.json", &config_map("three", "1", &[]));
    world.refresh("app").await;
    let app = world.until("app", "compared", |app| has(app, &revision)).await;
    assert_eq!(row(&app, "three")["status"], "OutOfSync");
    assert!(!world.asked().contains(&"three".to_owned()));
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(map["data"]["value"], "drift", "a dry run changes nothing");
}

/// SE-150, SE-327: by the setting for all, with the annotation that turns it off for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_setting_and_the_annotation_choose_who_predicts_se_150_se_327() {
    for (key, options, is_asked) in [
        ("true", "", true),
        ("true", "ServerSideDiff=false", false),
        ("false", "ServerSideDiff=true", true),
        ("false", "", false),
    ] {
        let world = World::with(settings(&[("controller.diff.server.side", key)])).await;
        world.write("app/one.json", &config_map("one", "1", &[(OPTIONS, "ServerSideDiff=true")]));
        world.predicted_app(options).await;
        assert_eq!(!world.asked().is_empty(), is_asked, "{key} {options}");
        let app = world.app("app").await;
        assert!(condition(&app, "SyncWarning", "set it on the Application"), "{}", app["status"]);
    }
}

/// SE-158: a field that the source no longer has is removed, whether it was applied by the server
/// or by the client; ignored fields are ignored after the dry run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_fields_differ_and_ignored_ones_do_not_se_158() {
    for by_server in [true, false] {
        let world = World::start().await;
        let two = |with: bool| {
            let mut object: Value = serde_json::from_str(&config_map("one", "1", &[])).unwrap();
            if with {
                object["data"]["more"] = "2".into();
            }
            if by_server {
                object["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] =
                    "ServerSideApply=true".into();
            }
            object.to_string()
        };
        world.write("app/one.json", &two(true));
        world.predicted_app("ServerSideDiff=true").await;
        world.patch_map("one", json!({"data": {"foreign": "3"}})).await;
        let revision = world.commit_file("app/one.json", &two(false));
        world.refresh("app").await;
        let app = world.until("app", "compared", |app| has(app, &revision)).await;
        assert_eq!(row(&app, "one")["status"], "OutOfSync", "{by_server}: {}", app["status"]);
        let rule = json!([{"kind": "ConfigMap", "jsonPointers": ["/data/more"]}]);
        world.patch("app", json!({"spec": {"ignoreDifferences": rule}})).await;
        world.until("app", "ignored", |app| is(app, "Synced", "Healthy")).await;
        world.patch("app", json!({"spec": {"ignoreDifferences": null}})).await;
        world.sync_until_good("app", json!({"revision": revision})).await;
        let map = world.get("v1", "ConfigMap", "web", "one").await;
        assert_eq!(map["data"], json!({"value": "1", "foreign": "3"}), "{by_server}");
    }
}

/// SE-158, SE-146: a dry run that is refused makes the object Unknown, with the reason; others are
/// compared, nothing is synced by itself, and it ends with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_dry_run_is_a_comparison_error_of_its_object_se_158() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/two.json", &config_map("two", "1", &[]));
    world.predicted_app("ServerSideDiff=true").await;
    let is_refused = |request: &RequestRecord| request.dry_run && request.name == "one";
    world.server.inject(InjectedFault::new(Effect::Status(403), is_refused).times(usize::MAX));
    world.refresh("app").await;
    let text = "error calculating server side diff: ConfigMap/one: ";
    let app = world.until("app", "told", |app| condition(app, "ComparisonError", text)).await;
    assert_eq!(row(&app, "one")["status"], "Unknown", "{}", app["status"]);
    assert_eq!(row(&app, "two")["status"], "Synced", "{}", app["status"]);
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    world.server.clear_faults();
    world.refresh("app").await;
    let app = world.until("app", "compared", |app| is(app, "Synced", "Healthy")).await;
    assert!(!condition(&app, "ComparisonError", ""), "{}", app["status"]);
}

/// SE-158: what an admission webhook changes is no difference, unless it is to be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutations_of_webhooks_are_seen_only_when_asked_for_se_158_se_327() {
    let mut world = World::start().await;
    world.crash().await;
    // As a webhook for updates does: it adds a field that nobody applied.
    let inner = world.server.client_as(CONTROLLER);
    let client = kube::Client::new(
        tower::service_fn(move |request: http::Request<Body>| {
            let inner = inner.clone();
            async move {
                let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun"));
                let answer = inner.send(request).await?;
                if !is_dry || !answer.status().is_success() {
                    return Ok::<_, kube::Error>(answer);
                }
                let (mut parts, body) = answer.into_parts();
                let bytes = body.collect_bytes().await.unwrap();
                let mut object: Value = serde_json::from_slice(&bytes).unwrap();
                object["data"]["injected"] = "by a webhook".into();
                parts.headers.remove(http::header::CONTENT_LENGTH);
                let body = Body::from(object.to_string().into_bytes());
                Ok(http::Response::from_parts(parts, body))
            }
        }),
        "default",
    );
    world.run_as(client);
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.predicted_app("ServerSideDiff=true").await;
    let options = "ServerSideDiff=true,IncludeMutationWebhook=true";
    world.patch("app", json!({"metadata": {"annotations": {OPTIONS: options}}})).await;
    world.refresh("app").await;
    world.until("app", "mutated", |app| is(app, "OutOfSync", "Healthy")).await;
    let options = "ServerSideDiff=true";
    world.patch("app", json!({"metadata": {"annotations": {OPTIONS: options}}})).await;
    world.refresh("app").await;
    world.until("app", "as it was", |app| is(app, "Synced", "Healthy")).await;
}

/// SE-318, SE-158: a sync that skips what does not differ skips what the server says does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_out_of_sync_only_goes_by_the_prediction_se_158_se_177() {
    let world = World::start().await;
    for name in ["one", "two"] {
        world.write(&format!("app/{name}.json"), &config_map(name, "1", &[]));
    }
    world.predicted_app("ServerSideDiff=true").await;
    let version = || async {
        world.get("v1", "ConfigMap", "web", "two").await["metadata"]["resourceVersion"].clone()
    };
    let before = version().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "2", &[]));
    let options = json!(["ApplyOutOfSyncOnly=true", "ServerSideApply=true"]);
    world.sync("app", json!({"revision": revision, "syncOptions": options})).await;
    world.until("app", "synced", |app| has(app, &revision) && is(app, "Synced", "Healthy")).await;
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(map["data"]["value"], "2");
    assert_eq!(version().await, before, "it did not differ");
}

/// SE-158, SE-164: the values of a Secret are in no condition and no log, also when the dry run
/// is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_predicted_without_their_values_se_158() {
    let world = World::start().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"},
        "stringData": {"token": "from-the-source"},
    });
    world.write("app/one.json", &secret.to_string());
    world.predicted_app("ServerSideDiff=true").await;
    let other = json!({"stringData": {"token": "by-hand"}});
    world.patch_object(("v1", "Secret"), "web", "token", other).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert!(!app["status"].to_string().contains("by-hand"));
    world.sync_until_good("app", json!({})).await;
}
