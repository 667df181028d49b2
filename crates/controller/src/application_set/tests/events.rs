//! Kubernetes Events of an ApplicationSet (AS-610 to AS-612).

use jiff::SignedDuration;
use k8s_openapi::api::events::v1::Event;

use super::*;

impl ClusterState {
    /// Waits until there is an Event with this reason and text, and returns all.
    async fn events_with(&self, reason: &str, text: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.server.client_as("test"), NAMESPACE);
        let look = async {
            loop {
                let events = api.list(&ListParams::default()).await.unwrap().items;
                if events.iter().any(|event| is(event, reason, text)) {
                    return events;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(LIMIT, look).await;
        found.unwrap_or_else(|_| panic!("no Event {reason}: {text}"))
    }
}

fn is(event: &Event, reason: &str, text: &str) -> bool {
    event.reason.as_deref() == Some(reason) && note(event).contains(text)
}

fn note(event: &Event) -> &str {
    event.note.as_deref().unwrap_or_default()
}

fn of_reason<'a>(events: &'a [Event], reason: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.reason.as_deref() == Some(reason)).collect()
}

fn elements(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({"n": name})).collect();
    json!([{"list": {"elements": elements}}])
}

#[tokio::test]
async fn writes_are_reported_with_the_reasons_of_as_610_and_unchanged_applications_are_not() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", set(json!(null))).await;
    let created = world.events_with("created", "app").await;
    let event = of_reason(&created, "created")[0];
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reporting_controller.as_deref(), Some("applicationset-controller"));
    let about = event.regarding.as_ref().unwrap();
    let about = [about.kind.as_deref(), about.name.as_deref(), about.namespace.as_deref()];
    assert_eq!(about, ["ApplicationSet", "set", NAMESPACE].map(Some));

    let more = json!({"spec": {"generators": elements(&["app", "other"])}});
    world.patch("ApplicationSet", "set", more).await;
    let events = world.events_with("created", "other").await;
    assert!(of_reason(&events, "updated").is_empty(), "AS-611: app has not changed: {events:#?}");

    let path = json!({"spec": {"template": {"spec": {"source": {"path": "q"}}}}});
    world.patch("ApplicationSet", "set", path).await;
    world.events_with("updated", "Application").await;
    let fewer = json!({"spec": {"generators": elements(&["app"])}});
    world.patch("ApplicationSet", "set", fewer).await;
    let events = world.events_with("Deleted", "Application other").await;
    assert!(events.iter().all(|event| event.type_.as_deref() == Some("Normal")), "{events:#?}");
}

#[tokio::test]
async fn an_application_that_cannot_be_written_is_reported_once_as_611() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "foreign", set(json!(null))).await;
    world.until("Application", "app", |_| true).await;
    world.create("ApplicationSet", "set", set(json!(null))).await;
    let events = world.events_with("ApplicationError", "app").await;
    let first = of_reason(&events, "ApplicationError")[0];
    assert_eq!(first.type_.as_deref(), Some("Warning"));
    assert!(note(first).contains("foreign"), "{first:#?}");
    // Further reconciles with the same failure report nothing.
    for name in ["b", "c"] {
        let more = json!({"spec": {"generators": elements(&["app", name])}});
        world.patch("ApplicationSet", "set", more).await;
        world.events_with("created", &format!("Application {name}")).await;
    }
    let events = world.events_with("created", "Application c").await;
    let errors = of_reason(&events, "ApplicationError");
    assert_eq!(errors.len(), 1, "{errors:#?}");
}

fn with_timeout(seconds: i64) -> ApplicationSetSettings {
    let mut settings = ApplicationSetSettings::default();
    settings.decisions.rollout.rules.progressing_timeout = Some(SignedDuration::from_secs(seconds));
    settings
}

#[tokio::test]
async fn a_timeout_names_application_step_and_seconds_as_612() {
    let world = ClusterState::start(with_timeout(1)).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let events = world.events_with("ProgressingTimeout", "application app of step 1").await;
    let timeouts = of_reason(&events, "ProgressingTimeout");
    assert_eq!(timeouts.len(), 1, "{timeouts:#?}");
    assert_eq!(timeouts[0].type_.as_deref(), Some("Warning"));
    assert!(note(timeouts[0]).contains("did not start within 1 s"), "{timeouts:#?}");
}

#[tokio::test]
async fn a_wait_beyond_the_timeout_is_reported_once_as_611() {
    let world = ClusterState::start(with_timeout(1)).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "Synced", "Degraded", "r1").await;
    // Without an event of the Application it would be noticed half a minute later.
    let moves = async {
        loop {
            world.compare("app", "Synced", "Degraded", "r1").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let text = "step 1 waits for application app";
    let events = tokio::select! {
        events = world.events_with("RolloutStalled", text) => events,
        () = moves => unreachable!("it does not end"),
    };
    assert_eq!(of_reason(&events, "RolloutStalled")[0].type_.as_deref(), Some("Warning"));
    // It is recorded, so that it is not repeated.
    world
        .until("ApplicationSet", "set", |set| {
            set["status"]["rollout"]["stalled"][0]["application"] == "app"
        })
        .await;
    world.compare("app", "Synced", "Progressing", "r1").await;
    let set = world
        .until("ApplicationSet", "set", |set| {
            set["status"]["resources"][0]["health"]["status"] == "Progressing"
        })
        .await;
    assert_eq!(entry(&set)["status"], "Progressing");
    let events = world.events_with("RolloutStalled", "step 1").await;
    assert_eq!(of_reason(&events, "RolloutStalled").len(), 1, "{events:#?}");
}
