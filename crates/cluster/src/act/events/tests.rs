use k8s_openapi::api::events::v1::Event;
use serde_json::json;

use super::pending::{BUSY, BUSY_WINDOW, CAPACITY, WINDOW};
use super::*;
use crate::watch::object::kind_resource;
use kube_sim::{Effect, InjectedFault, RequestRecord, Server};

fn record(warning: bool, reason: &'static str, text: &str) -> EventRecord {
    EventRecord::new(warning, reason, "Sync", text.to_owned())
}

fn updated(subject: Subject, text: &str) -> EventRecord {
    EventRecord { subject, ..record(false, "ResourceUpdated", text) }
}

fn about(name: &str) -> ObjectReference {
    ObjectReference {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        uid: Some(format!("uid of {name}")),
        ..ObjectReference::default()
    }
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

/// Texts with their counts, in the order in which they would be written.
fn rest(pending: &mut Pending) -> Vec<(String, i32)> {
    let next = || pending.take_any().map(|waiting| (waiting.record.text, waiting.count));
    std::iter::from_fn(next).collect()
}

#[test]
fn the_same_reason_of_one_object_within_the_window_is_one_event_with_the_last_text() {
    let mut pending = Pending::default();
    let clock = Clock::standing_at(at(0));
    let add = |pending: &mut Pending, name: &str, text: &str| {
        pending.add("c", about(name), record(false, "ResourceUpdated", text), clock.now());
        clock.advance(SignedDuration::from_millis(100));
    };
    add(&mut pending, "a", "one");
    add(&mut pending, "b", "other");
    add(&mut pending, "a", "two");
    assert_eq!(pending.due(), Some(at(0) + WINDOW));
    assert_eq!(pending.take(clock.now()), None);
    clock.advance(WINDOW);
    let first = pending.take(clock.now()).unwrap();
    assert_eq!((first.record.text.as_str(), first.count), ("two", 2));
    assert_eq!((first.first, first.last), (at(0), at(200)));
    add(&mut pending, "a", "three");
    assert_eq!(rest(&mut pending), [("other".to_owned(), 1), ("three".to_owned(), 1)]);
}

/// An Event about the sync status and one about the health are not one (SE-541).
#[test]
fn each_field_of_the_status_has_its_own_event() {
    let mut pending = Pending::default();
    let texts = [
        (Subject::SyncStatus, "Updated sync status:  -> OutOfSync"),
        (Subject::Health, "Updated health status:  -> Missing"),
        (Subject::SyncStatus, "Updated sync status: OutOfSync -> Synced"),
    ];
    for (subject, text) in texts {
        pending.add("c", about("a"), updated(subject, text), at(0));
    }
    let want = [(texts[2].1.to_owned(), 2), (texts[1].1.to_owned(), 1)];
    assert_eq!(rest(&mut pending), want);
}

/// A new revision made two Events: that it was Synced again, and that it was deployed.
#[test]
fn a_sync_that_restores_a_state_before_its_event_has_only_that_of_its_end() {
    let moved = |subject, from: &str, to: &str| EventRecord {
        states: Some([from, to].map(str::to_owned)),
        ..updated(subject, &format!("{from} -> {to}"))
    };
    let mut pending = Pending::default();
    let mut add = |name: &str, record| pending.add("c", about(name), record, at(0));
    let end = || record(false, "OperationCompleted", "succeeded");
    for name in ["synced", "drifted", "missing", "worse"] {
        add(name, moved(Subject::SyncStatus, "Synced", "OutOfSync"));
    }
    add("synced", moved(Subject::Health, "Healthy", "Progressing"));
    add("synced", moved(Subject::Health, "Progressing", "Degraded"));
    for name in ["synced", "missing", "worse"] {
        add(name, end());
    }
    add("synced", moved(Subject::SyncStatus, "OutOfSync", "Synced"));
    add("synced", moved(Subject::Health, "Degraded", "Healthy"));
    // Without an operation, and to another state.
    add("drifted", moved(Subject::SyncStatus, "OutOfSync", "Synced"));
    add("worse", moved(Subject::SyncStatus, "OutOfSync", "Unknown"));
    let want = [
        ("OutOfSync -> Synced", 2),
        ("Synced -> OutOfSync", 1),
        ("OutOfSync -> Unknown", 2),
        ("succeeded", 1),
        ("succeeded", 1),
        ("succeeded", 1),
    ];
    assert_eq!(rest(&mut pending), want.map(|(text, count)| (text.to_owned(), count)));
    assert_eq!(pending.take_about("uid of synced"), []);
}

#[test]
fn steps_and_warnings_keep_their_texts_and_wait_for_nothing() {
    let mut pending = Pending::default();
    for text in ["one", "two", "one"] {
        pending.add("c", about("a"), record(true, "ComparisonError", text), at(0));
        pending.add("c", about("a"), record(false, "StepOpened", text), at(0));
    }
    assert_eq!(pending.due(), Some(at(0)));
    let texts: Vec<(String, i32)> = rest(&mut pending);
    let want = [("one", 2), ("one", 2), ("two", 1), ("two", 1)];
    assert_eq!(texts, want.map(|(text, count)| (text.to_owned(), count)));
}

#[test]
fn a_short_operation_has_only_the_event_of_its_end() {
    let mut pending = Pending::default();
    for name in ["a", "b"] {
        pending.add("c", about(name), record(false, "OperationStarted", "begun"), at(0));
    }
    let automated = "Initiated automated sync to '1'";
    let start = record(false, "OperationStarted", automated);
    let start = EventRecord { subject: Subject::AutomatedSync, ..start };
    pending.add("c", about("b"), start, at(0));
    pending.add("c", about("a"), record(true, "OperationCompleted", "failed"), at(1));
    pending.add("c", about("b"), record(false, "OperationCompleted", "succeeded"), at(1));
    let want = ["failed", automated, "succeeded"].map(|text| (text.to_owned(), 1));
    assert_eq!(rest(&mut pending), want);
}

/// What a first comparison says is part of what the end of the sync says.
#[test]
fn while_many_are_synced_routine_events_wait_for_the_end_of_a_sync() {
    let mut pending = Pending::default();
    let add = |pending: &mut Pending, name: &str, text: &str, now| {
        pending.add("c", about(name), updated(Subject::SyncStatus, text), now);
    };
    for n in 0..=BUSY {
        add(&mut pending, &n.to_string(), "Updated sync status:  -> OutOfSync", at(0));
    }
    assert_eq!(pending.due(), Some(at(0) + BUSY_WINDOW));
    add(&mut pending, "0", "Updated sync status: OutOfSync -> Synced", at(1));
    let ended = pending.take_about("uid of 0");
    assert_eq!((ended.len(), ended[0].count), (1, 2));
    assert_eq!(pending.due(), Some(at(0) + WINDOW), "few are left");
    pending.add("c", about("x"), record(true, "ComparisonError", "no"), at(2));
    assert_eq!(pending.due(), Some(at(2)), "a warning does not wait");
}

#[test]
fn under_load_routine_events_are_dropped_first_and_the_oldest() {
    let mut pending = Pending::default();
    pending.add("c", about("a"), record(false, "StepOpened", "step"), at(0));
    for n in 0..CAPACITY {
        let text = n.to_string();
        pending.add("c", about(&text), record(false, "OperationStarted", &text), at(1));
    }
    pending.add("c", about("a"), record(true, "RolloutStalled", "stalled"), at(2));
    assert_eq!((pending.len(), pending.dropped()), (CAPACITY, 2));
    let left = rest(&mut pending);
    let texts: Vec<&str> = left.iter().take(3).map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, ["step", "stalled", "2"]);
    for n in 0..=CAPACITY {
        pending.add("c", about("a"), record(true, "ComparisonError", &n.to_string()), at(3));
    }
    assert_eq!((pending.len(), pending.dropped()), (CAPACITY, 3));
}

#[tokio::test(start_paused = true)]
async fn what_waits_at_a_shutdown_is_written_with_its_count() {
    let server = Server::new();
    let client = server.client_as("recorder");
    let clock = Clock::standing_at(at(5000));
    let recorder = Recorder::new(client.clone(), clock.clone());
    let events = recorder.events("component", kind_resource("Application"), true);
    let off = recorder.events("component", kind_resource("Application"), false);
    let object: StoredObject = json!({"metadata": {
        "name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1",
    }})
    .into();
    events.publish(&object, record(false, "ResourceUpdated", "first"));
    clock.advance(SignedDuration::from_millis(500));
    events.publish(&object, record(false, "ResourceUpdated", &"ä".repeat(600)));
    off.publish(&object, record(true, "SyncError", "disabled"));
    let stop = CancellationToken::new();
    stop.cancel();
    recorder.run(&stop).await;
    let api: Api<Event> = Api::namespaced(client, "default");
    let written = api.list(&Default::default()).await.unwrap().items;
    let [event] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!(event.event_time, Some(MicroTime(at(5000))));
    let series = event.series.as_ref().unwrap();
    assert_eq!((series.count, &series.last_observed_time), (2, &MicroTime(at(5500))));
    assert_eq!(event.note.as_ref().map(String::len), Some(1024));
    assert_eq!(event.regarding.as_ref().unwrap().kind.as_deref(), Some("Application"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_ends_no_shutdown_late() {
    let server = Server::new();
    let recorder = Recorder::new(server.client_as("recorder"), Clock::system());
    let events = recorder.events("component", kind_resource("Application"), true);
    let object: StoredObject = json!({"metadata": {"name": "a", "namespace": "default"}}).into();
    events.publish(&object, record(true, "SyncError", "refused"));
    let all = |_: &RequestRecord| true;
    server.inject(
        InjectedFault::new(Effect::Latency(Duration::from_secs(60)), all).times(usize::MAX),
    );
    let stop = CancellationToken::new();
    stop.cancel();
    let began = tokio::time::Instant::now();
    recorder.run(&stop).await;
    assert_eq!(began.elapsed(), GRACE);
}

/// The version that a change follows may be the same hours later: that change had no Event.
#[tokio::test(start_paused = true)]
async fn an_old_event_is_not_that_of_a_new_change() {
    let server = Server::new();
    let client = server.client_as("recorder");
    let object: StoredObject =
        json!({"metadata": {"name": "a", "namespace": "default", "uid": "u"}}).into();
    let (change, ever) = (Once::change("same"), Once::ever("same at all times"));
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let cases = [(0, 2), (60, 2), (61, 3), (62, 4)];
    for (seconds, want) in cases {
        // The process after a start.
        let clock = Clock::standing_at(at(5000 + seconds * 1000));
        let recorder = Recorder::new(client.clone(), clock);
        let events = recorder.events("component", kind_resource("Application"), true);
        let records = [change, ever].map(|once| EventRecord {
            once: Some(once),
            ..record(true, "ComparisonError", &format!("{once:?}"))
        });
        events.publish_now(&object, records.to_vec()).await;
        let written = api.list(&Default::default()).await.unwrap().items;
        assert_eq!(written.len(), want, "after {seconds} s: {written:#?}");
    }
}

#[test]
fn notes_are_cut_between_characters() {
    let text = "ä".repeat(600);
    assert_eq!(cut(&text).len(), 1024);
    assert_eq!(cut("short"), "short");
    assert_eq!(cut(&format!("x{text}")).len(), 1023);
}
