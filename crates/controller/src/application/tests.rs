use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::*;
use crate::settings::ApplicationSettings;
use kube_sim::Server;
use wavegate_cluster::watch::control_plane::WatchedScope;
use wavegate_net::clock::Clock;
use wavegate_source::SourceSettings;

/// A panic in a reconcile left the Application without any message (SE-375).
#[tokio::test]
async fn a_reconcile_that_panics_is_reported_on_its_application() {
    let server = Server::new();
    let client = server.client_as("controller");
    let definitions = kube::Api::all(client.clone());
    for definition in wavegate_api::crds::all_definitions() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://h/r", "path": "."},
            "destination": {"server": "https://kubernetes.default.svc"},
        },
    });
    let api = application_status::applications_of(&client, "default");
    let object = serde_json::from_value(application).unwrap();
    let created = api.create(&PostParams::default(), &object).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let sources = Repositories::open(folder.path(), SourceSettings::default()).unwrap();
    let scope = WatchedScope {
        namespace: "argocd".to_owned(),
        sets_everywhere: false,
        applications_everywhere: true,
        syncs: true,
    };
    let queue = Arc::new(Queue::new(BACKOFF));
    let mark = TrackingMark {
        method: ApplicationSettings::default().tracking_method,
        ..TrackingMark::default()
    };
    let (trigger, _triggered) = mpsc::unbounded_channel();
    let clusters = Clusters::new(client.clone(), mark, trigger, CancellationToken::new());
    let core = Core::new(client, scope, Clock::system());
    let settings = ApplicationSettings::default();
    let ctx = Context::new(core, settings, Arc::new(sources), clusters, queue);
    let key = ObjectKey { namespace: "default".to_owned(), name: "a".to_owned() };
    ctx.wrote(&serde_json::to_value(created).unwrap());

    let ctx = Arc::new(ctx);
    let controller = Controller(ctx.clone());
    let stop = CancellationToken::new();
    stop.cancel();
    for count in 1..=2 {
        let reconcile = async { panic!("out of {}", "cheese") };
        let ended = runtime::contained(&controller, &key, reconcile).await;
        assert_eq!(ended, ReconcileResult::Failed);
        let stored = api.get("a").await.unwrap();
        let condition = &stored.data["status"]["conditions"][0];
        assert_eq!(condition["type"], "UnknownError");
        let message = condition["message"].as_str().unwrap();
        assert!(message.contains("out of cheese") && message.contains("bug"), "{message}");

        // The second one had no Event: a comparison in between does not move `reconciledAt`.
        ctx.core.recorder.run(&stop).await;
        let events: kube::Api<Event> = kube::Api::namespaced(ctx.core.client.clone(), "default");
        let events = events.list(&Default::default()).await.unwrap().items;
        let notes: Vec<&str> = events.iter().filter_map(|event| event.note.as_deref()).collect();
        assert_eq!(notes, vec![message; count]);
        let compared = Patch::Merge(json!({"status": {"conditions": null}}));
        let compared = api.patch("a", &PatchParams::default(), &compared).await.unwrap();
        ctx.wrote(&serde_json::to_value(compared).unwrap());
    }
}
