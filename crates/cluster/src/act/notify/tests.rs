//! Queues, marks and requests (ST-084), against receivers on this machine.

use std::net::SocketAddr;

use gotemplate::go::{GoTemplate, TemplateLimits, TemplateOptions};
use jiff::Timestamp;
use kube_sim::Server;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::queue::{MAX_WAITING, State};
use super::*;
use crate::act::control_plane::rollout_run::{self, Written};
use crate::act::events::Recorder;
use crate::watch::control_plane::{Kind, Origin};
use crate::watch::object::{StoredObject, kind_resource};
use wavegate_api::policy::{POLICY, Sink};
use wavegate_api::run::RolloutRunStatus;
use wavegate_net::clock::Clock;

const WAIT: Duration = Duration::from_secs(120);

/// A run after this many transitions, of which its timeline has the last 50.
fn status(transitions: i64, notified: Option<i64>) -> RolloutRunStatus {
    let timeline: Vec<_> = (1..=transitions)
        .rev()
        .take(50)
        .map(|number| json!({"what": "StepOpened", "subject": number.to_string()}))
        .collect();
    let timeline: Vec<_> = timeline.into_iter().rev().collect();
    let mut status = json!({"timeline": timeline, "transitions": transitions});
    status["notified"] = json!(notified);
    serde_json::from_value(status).unwrap()
}

fn sink(url: &str) -> Value {
    json!({ "url": url })
}

fn rules(sinks: &[Value]) -> Vec<SinkRule> {
    let rule = |(index, sink): (usize, &Value)| SinkRule {
        policy: "p".to_owned(),
        index,
        sink: serde_json::from_value(sink.clone()).unwrap(),
    };
    sinks.iter().enumerate().map(rule).collect()
}

fn offer(state: &mut State, sinks: &[SinkRule], status: &RolloutRunStatus, now: Instant) -> bool {
    let key = ObjectKey::new("default", "shop-1");
    state.offer(sinks, Run { key: &key, uid: "u1", set: "shop", status }, now)
}

/// How many of the first transitions all sinks of the run are done with.
fn notified(state: &State) -> Option<i64> {
    state.runs.marks("u1").map(|marks| marks.notified)
}

fn failed(counts: &NotificationCounts, why: DeliveryFailure) -> u64 {
    counts.failed.get(&why).copied().unwrap_or_default()
}

/// Two hosts with a sink each; both are worked on.
fn two_sinks(state: &mut State, status: &RolloutRunStatus, now: Instant) -> [SinkKey; 2] {
    assert!(offer(state, &rules(&[sink("https://one/"), sink("https://two/")]), status, now));
    let mut keys = state.take_idle();
    keys.sort_by_key(|key| key.index);
    keys.try_into().unwrap()
}

#[tokio::test]
async fn a_thousand_transitions_for_a_dead_sink_stay_bounded() {
    let (mut state, now) = (State::default(), Instant::now());
    let sinks = rules(&[sink("https://dead/")]);
    for transitions in (20..=1000).step_by(20) {
        assert!(offer(&mut state, &sinks, &status(transitions, Some(0)), now));
        // The same state again adds nothing.
        assert!(!offer(&mut state, &sinks, &status(transitions, Some(0)), now));
    }
    let counts = state.counts().remove(0).2;
    assert_eq!((counts.waiting, failed(&counts, DeliveryFailure::Dropped)), (MAX_WAITING, 900));
    let key = state.take_idle().remove(0);
    assert_eq!(state.next(&key, now).unwrap().number, 901, "the oldest ones are dropped");
    assert_eq!(notified(&state), Some(900));
}

#[tokio::test]
async fn a_message_is_given_up_after_an_hour() {
    let (mut state, now) = (State::default(), Instant::now());
    let sinks = rules(&[sink("https://dead/")]);
    offer(&mut state, &sinks, &status(1, Some(0)), now);
    let key = state.take_idle().remove(0);
    let later = now + Duration::from_secs(1800);
    offer(&mut state, &sinks, &status(2, Some(0)), later);
    assert_eq!(state.next(&key, now + Duration::from_secs(3599)).unwrap().number, 1);
    assert_eq!(state.next(&key, now + Duration::from_secs(3600)).unwrap().number, 2);
    assert!(state.next(&key, later + Duration::from_secs(3600)).is_none());
    assert_eq!(failed(&state.counts()[0].2, DeliveryFailure::Expired), 2);
    assert_eq!(notified(&state), Some(2), "what was given up is done with");
}

#[tokio::test]
async fn the_mark_is_before_the_first_transition_that_a_sink_has_not_got() {
    let (mut state, now) = (State::default(), Instant::now());
    let [one, two] = two_sinks(&mut state, &status(3, Some(0)), now);
    let deliver = |state: &mut State, key: &SinkKey| {
        let message = state.next(key, now).unwrap();
        state.sent(key, key.index, &message, now);
    };
    assert_eq!((notified(&state), state.due()), (Some(0), None));
    (0..3).for_each(|_| deliver(&mut state, &one));
    assert_eq!(notified(&state), Some(0));
    deliver(&mut state, &two);
    let message = state.next(&two, now).unwrap();
    state.refused(&two, 1, &message, now);
    assert_eq!(notified(&state), Some(2));
    // It is written after a while without news, once, unless that fails.
    let (quiet, too_early) = (now + Duration::from_secs(10), now + Duration::from_secs(9));
    assert_eq!(state.due(), Some(quiet));
    assert!(state.runs.take_marks(Some(too_early)).is_empty());
    let key = ObjectKey::new("default", "shop-1");
    let marks = state.runs.marks("u1").unwrap();
    assert_eq!(marks.ahead.iter().map(|mark| mark.notified).collect::<Vec<_>>(), [3]);
    assert_eq!(state.runs.take_marks(Some(quiet)), [("u1".to_owned(), key, marks.clone())]);
    assert!(state.runs.take_marks(Some(quiet)).is_empty());
    state.runs.stored("u1", marks);
    assert_eq!(state.due(), None);
    // A sink that is removed needs nothing more.
    state.forget_sink(&two, quiet);
    assert_eq!(notified(&state), Some(3));
}

/// After each restart, a sink that works got all transitions again that a dead one had not got.
#[tokio::test]
async fn a_dead_sink_makes_no_other_one_receive_anything_twice() {
    let now = Instant::now();
    let urls = |urls: &[&str]| rules(&urls.iter().map(|url| sink(url)).collect::<Vec<_>>());
    let (alive, dead) = ("https://alive/", "https://dead/");
    // What each sink waits for in a new process, and what it stores once one of them has got all.
    let restarted = |sinks: &[SinkRule], status: &RolloutRunStatus| {
        let mut state = State::default();
        offer(&mut state, sinks, status, now);
        let mut waits: Vec<(usize, Vec<i64>)> = Vec::new();
        for key in state.take_idle() {
            let mut numbers = Vec::new();
            while let Some(message) = state.next(&key, now) {
                numbers.push(message.number);
                match sinks[key.index].sink.url == alive {
                    true => state.sent(&key, key.index, &message, now),
                    false => break,
                }
            }
            waits.push((key.index, numbers));
        }
        waits.sort();
        (waits, state.runs.marks("u1").unwrap())
    };
    let both = urls(&[alive, dead]);
    let (waits, marks) = restarted(&both, &status(3, Some(0)));
    assert_eq!(waits, [(0, vec![1, 2, 3]), (1, vec![1])]);
    let of = |transitions: i64, marks: &Marks| RolloutRunStatus {
        notified_sinks: marks.ahead.clone(),
        ..status(transitions, Some(marks.notified))
    };
    assert_eq!((marks.notified, marks.ahead.len()), (0, 1));
    for _ in 0..3 {
        let (waits, again) = restarted(&both, &of(3, &marks));
        assert_eq!((waits, &again), (vec![(1, vec![1])], &marks));
    }
    // What has happened since is new to both, and an edited list is the same.
    let (waits, _) = restarted(&urls(&[dead, alive]), &of(5, &marks));
    assert_eq!(waits, [(0, vec![1]), (1, vec![4, 5])]);
    // A sink that is not known gets what any other one has not got.
    let (waits, _) = restarted(&urls(&[alive, dead, "https://new/"]), &of(3, &marks));
    assert_eq!(waits, [(1, vec![1]), (2, vec![1])]);
    // A mark of an earlier version has none of single sinks.
    let (waits, _) = restarted(&both, &status(3, Some(2)));
    assert_eq!(waits, [(0, vec![3]), (1, vec![3])]);
}

#[tokio::test]
async fn only_what_happens_while_there_is_a_sink_is_owed() {
    let (mut state, now) = (State::default(), Instant::now());
    let sinks = rules(&[sink("https://one/")]);
    let numbers = |state: &mut State| -> Vec<i64> {
        let mut numbers = Vec::new();
        for key in state.take_idle() {
            while let Some(message) = state.next(&key, now) {
                numbers.push(message.number);
                state.sent(&key, 0, &message, now);
            }
        }
        numbers
    };
    assert!(!offer(&mut state, &[], &status(3, None), now));
    assert!(!offer(&mut state, &sinks, &status(3, None), now), "no mark: no sink until now");
    assert!(state.runs.is_empty());
    assert!(offer(&mut state, &sinks, &status(5, Some(3)), now));
    assert_eq!(numbers(&mut state), [4, 5]);
    // The sink is removed, and comes back.
    assert!(!offer(&mut state, &[], &status(7, Some(5)), now));
    assert!(!offer(&mut state, &sinks, &status(7, None), now));
    assert!(offer(&mut state, &sinks, &status(8, Some(7)), now));
    assert_eq!(numbers(&mut state), [8]);
}

#[test]
fn a_sink_is_found_again_in_an_edited_list() {
    let list = |urls: &[&str]| -> Vec<Sink> {
        let sinks: Vec<Value> = urls.iter().map(|url| sink(url)).collect();
        rules(&sinks).into_iter().map(|rule| rule.sink).collect()
    };
    let (mut state, now) = (State::default(), Instant::now());
    let [one, two] = two_sinks(&mut state, &status(1, Some(0)), now);
    let cases = [
        (&["https://one/", "https://two/"][..], Some(0), Some(1)),
        (&["https://new/", "https://one/", "https://two/"], Some(1), Some(2)),
        (&["https://two/", "https://one/"], Some(1), Some(0)),
        (&["https://mended/", "https://two/"], Some(0), Some(1)),
        (&["https://one/"], Some(0), None),
        (&[], None, None),
    ];
    for (urls, of_one, of_two) in cases {
        let sinks = list(urls);
        assert_eq!((one.place(&sinks), two.place(&sinks)), (of_one, of_two), "{urls:?}");
    }
}

/// A notifier with one policy.
struct World {
    server: Server,
    notifier: Notifier,
    policies: Arc<Cache>,
    runs: Arc<Cache>,
    stop: CancellationToken,
}

impl World {
    fn new(allow_private: bool) -> Self {
        let server = Server::new();
        let client = server.client_as("notifier");
        let (policies, runs) =
            (Arc::new(Cache::new(Kind::Policy)), Arc::new(Cache::new(Kind::Run)));
        let events = Recorder::new(client.clone(), Clock::system());
        let events = events.events("test", kind_resource(POLICY), true);
        let notifier = Notifier::new(client, events, policies.clone(), runs.clone(), allow_private);
        let stop = CancellationToken::new();
        let (running, until) = (notifier.clone(), stop.clone());
        tokio::spawn(async move { running.run(&until).await });
        Self { server, notifier, policies, runs, stop }
    }

    /// Stores the policy with these sinks.
    fn policy(&self, version: &str, sinks: &[Value]) {
        let object = json!({
            "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {
                "namespace": "default", "name": "p", "uid": "p1", "resourceVersion": version,
            },
            "spec": {"notify": sinks},
        });
        self.policies.wrote(StoredObject::from(object), Origin::ApplicationSets);
        self.notifier.know("default", &["p".to_owned()], &rules(sinks));
    }

    fn offer(&self, sinks: &[Value], status: &RolloutRunStatus) {
        let key = ObjectKey::new("default", "shop-1");
        let run = Run { key: &key, uid: "u1", set: "shop", status };
        self.notifier.offer(&rules(sinks), run);
    }

    fn counts(&self) -> NotificationCounts {
        self.notifier.counts().remove(0).2
    }

    async fn until(
        &self,
        what: &str,
        is: impl Fn(&NotificationCounts) -> bool,
    ) -> NotificationCounts {
        let until = Instant::now() + WAIT;
        loop {
            let counts = self.notifier.counts().first().map(|one| one.2.clone());
            if let Some(counts) = counts.as_ref().filter(|counts| is(counts)) {
                return counts.clone();
            }
            assert!(Instant::now() < until, "{what}: {counts:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Reads requests up to the end of their head, which contains all that these tests look at, and
/// writes an answer and then, for ever, the rest.
async fn answer<S: tokio::io::AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    head: &str,
    rest: Option<&str>,
) -> String {
    let mut read = vec![0; 1 << 16];
    let count = stream.read(&mut read).await.unwrap_or_default();
    let _ = stream.write_all(head.as_bytes()).await;
    while let Some(rest) = rest {
        if stream.write_all(rest.as_bytes()).await.is_err() {
            break;
        }
    }
    String::from_utf8_lossy(&read[..count]).into_owned()
}

/// Listens, and answers all requests so.
async fn receiver(head: &str, rest: Option<&'static str>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, head) = (Arc::clone(&received), head.to_owned());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (kept, head) = (Arc::clone(&kept), head.clone());
            tokio::spawn(async move {
                let request = answer(stream, &head, rest).await;
                kept.lock().push(request);
            });
        }
    });
    (address, received)
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (other, elsewhere) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None).await;
    let head = format!("HTTP/1.1 307 x\r\nLocation: http://{other}/\r\nContent-Length: 0\r\n\r\n");
    let (address, received) = receiver(&head, None).await;
    let (world, sinks) = (World::new(true), [sink(&format!("http://{address}/"))]);
    world.policy("1", &sinks);
    world.offer(&sinks, &status(1, Some(0)));
    let counts = world.until("it is refused", |counts| !counts.failed.is_empty()).await;
    assert_eq!((failed(&counts, DeliveryFailure::Refused), counts.attempts.len()), (1, 0));
    assert_eq!((received.lock().len(), elsewhere.lock().len()), (1, 0));
    world.stop.cancel();
}

#[tokio::test]
async fn answers_without_an_end_hold_nothing_up() {
    let body = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (address, _) = receiver(body, Some("8\r\nendless \r\n")).await;
    let (world, sinks) = (World::new(true), [sink(&format!("http://{address}/"))]);
    world.policy("1", &sinks);
    let began = Instant::now();
    world.offer(&sinks, &status(2, Some(0)));
    world.until("both are delivered", |counts| counts.sent == 2).await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    world.stop.cancel();

    let (address, _) = receiver("HTTP/1.1 200 OK\r\n", Some("X-More: endless\r\n")).await;
    let (world, sinks) = (World::new(true), [sink(&format!("http://{address}/"))]);
    world.policy("1", &sinks);
    world.offer(&sinks, &status(1, Some(0)));
    let counts = world.until("it fails", |counts| !counts.attempts.is_empty()).await;
    assert!(counts.attempts.contains_key(&DeliveryFailure::Connection), "{counts:?}");
    world.stop.cancel();
}

#[tokio::test]
async fn a_corrected_url_gets_what_waits() {
    let (address, received) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None).await;
    // Bound, so that nothing else uses the port, and not listening.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let wrong = [sink(&format!("http://{}/", bound.local_addr().unwrap()))];
    let world = World::new(true);
    world.policy("1", &wrong);
    world.offer(&wrong, &status(1, Some(0)));
    world
        .until("it fails", |counts| counts.attempts.contains_key(&DeliveryFailure::Connection))
        .await;
    world.policy("2", &[sink(&format!("http://{address}/"))]);
    world.until("it is delivered", |counts| counts.sent == 1).await;
    assert!(received.lock()[0].contains(r#""id":"u1.1""#), "{:?}", received.lock());
    world.stop.cancel();
}

#[tokio::test]
async fn without_sinks_nothing_is_kept_and_nothing_requested() {
    let world = World::new(false);
    world.policy("1", &[]);
    world.offer(&[], &status(50, None));
    tokio::task::yield_now().await;
    assert!(world.notifier.counts().is_empty() && world.server.requests().is_empty());
    let state = world.notifier.shared.state.lock();
    assert!(state.runs.is_empty() && state.due().is_none());
    world.stop.cancel();
}

#[tokio::test]
async fn the_mark_is_one_write_and_what_is_shown_has_no_credential() {
    let (address, _) = receiver("HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n", None).await;
    let (world, sinks) = (World::new(true), [sink(&format!("http://{address}/s3cr3t"))]);
    let stored = status(2, Some(0));
    let run = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
        "metadata": {"namespace": "default", "name": "shop-1"},
        "spec": {"applicationSet": "shop"}, "status": stored,
    });
    crate::act::commands::manifests::define_all(&world.server.client(), "test").await.unwrap();
    let api: kube::Api<StoredObject> = crate::watch::object::kind_api(
        &world.server.client(),
        Some("default"),
        &kind_resource(wavegate_api::run::RUN),
    );
    let run = api.create(&kube::api::PostParams::default(), &run.into()).await.unwrap();
    world.runs.wrote(run.clone(), Origin::ApplicationSets);
    let run = match rollout_run::write_status(&world.server.client(), &world.runs, &run, &stored)
        .await
        .unwrap()
    {
        Written::Done(run) => run,
        other => panic!("{other:?}"),
    };
    world.policy("1", &sinks);
    let key = run.key();
    world
        .notifier
        .offer(&rules(&sinks), Run { key: &key, uid: run.uid(), set: "shop", status: &stored });
    world.until("both are refused", |counts| failed(counts, DeliveryFailure::Refused) == 2).await;
    world.server.forget_requests();
    world.notifier.shared.write_marks(None).await;
    world.notifier.shared.write_marks(None).await;
    let written = world.runs.get(&key).unwrap().parse_status()["status"]["notified"].clone();
    assert_eq!(written, 2);
    assert_eq!(world.server.writes("notifier"), 1);
    let shown = format!("{:?} {:?}", world.counts(), world.notifier.problems().borrow());
    assert!(!shown.contains("s3cr3t"), "{shown}");
    world.stop.cancel();
}

fn secret(token: &str) -> k8s_openapi::api::core::v1::Secret {
    let header = format!("token: {token}");
    let secret = json!({"metadata": {"name": "hook"}, "stringData": {"header": header}});
    serde_json::from_value(secret).unwrap()
}

fn secrets(world: &World) -> kube::Api<k8s_openapi::api::core::v1::Secret> {
    kube::Api::namespaced(world.server.client(), "default")
}

#[tokio::test]
async fn what_is_wrong_with_a_sink_is_known_without_a_request_until_it_is_mended() {
    let (address, received) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None).await;
    let world = World::new(true);
    let url = format!("http://{address}/");
    world.policy("1", &[json!({"url": url, "secretRef": {"name": "hook"}}), sink(&url)]);
    let policy = ObjectKey::new("default", "p");
    let problems = || world.notifier.problems().borrow().found.get(&policy).cloned();
    let mut changes = world.notifier.problems();
    while problems().is_none() {
        tokio::time::timeout(WAIT, changes.changed()).await.unwrap().unwrap();
    }
    let want = [(0, "Secret hook: does not exist".to_owned())];
    assert_eq!(problems(), Some(want.into()));
    assert!(world.notifier.shared.state.lock().due().is_some(), "it is checked again");
    secrets(&world).create(&kube::api::PostParams::default(), &secret("a")).await.unwrap();
    world.notifier.shared.check(policy.clone()).await;
    assert_eq!(problems(), None);
    assert!(received.lock().is_empty());
    world.stop.cancel();
}

/// A refusal counts only with the newest credentials.
#[tokio::test]
async fn a_refusal_with_an_old_secret_is_tried_with_the_new_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sinks = [json!({
        "url": format!("http://{}/", listener.local_addr().unwrap()),
        "secretRef": {"name": "hook"},
    })];
    let world = World::new(true);
    let api = secrets(&world);
    api.create(&kube::api::PostParams::default(), &secret("old")).await.unwrap();
    tokio::spawn(async move {
        let mut valid = "token: old";
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = vec![0; 1 << 16];
            let count = stream.read(&mut read).await.unwrap();
            let code = match String::from_utf8_lossy(&read[..count]).contains(valid) {
                true => "200 OK",
                false => "401 Unauthorized",
            };
            // The credentials are replaced after the first message.
            if std::mem::replace(&mut valid, "token: new") == "token: old" {
                let patch = kube::api::Patch::Merge(json!({"stringData": {"header": valid}}));
                let params = kube::api::PatchParams::default();
                api.patch("hook", &params, &patch).await.unwrap();
            }
            let head = format!("HTTP/1.1 {code}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    });
    world.policy("1", &sinks);
    world.offer(&sinks, &status(2, Some(0)));
    let ended = |counts: &NotificationCounts| counts.sent == 2 || !counts.failed.is_empty();
    let counts = world.until("both are delivered", ended).await;
    assert!(counts.failed.is_empty(), "{counts:?}");
    world.stop.cancel();
}

#[tokio::test]
async fn a_shutdown_sends_what_can_be_sent_at_once_and_does_not_wait_for_more() {
    let (address, received) = receiver("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None).await;
    let (failing, _) = receiver("HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", None).await;
    let world = World::new(true);
    let sinks = [sink(&format!("http://{failing}/")), sink(&format!("http://{address}/"))];
    world.policy("1", &sinks);
    let (notifier, stop) = (world.notifier.clone(), CancellationToken::new());
    world.stop.cancel();
    world.offer(&sinks, &status(3, Some(0)));
    stop.cancel();
    let began = Instant::now();
    notifier.run(&stop).await;
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    assert_eq!(received.lock().len(), 3);
    assert_eq!(notifier.counts()[0].2.waiting, 3, "the others are sent after the next start");
}

/// A panic must neither stop the other messages nor be repeated for ever.
#[tokio::test]
async fn a_message_that_a_bug_is_about_is_given_up() {
    let (mut state, now) = (State::default(), Instant::now());
    let [one, _] = two_sinks(&mut state, &status(2, Some(0)), now);
    assert!(state.take_idle().is_empty(), "both are worked on");
    state.drop_first(&one, now);
    assert_eq!(state.take_idle(), std::slice::from_ref(&one));
    assert_eq!(state.next(&one, now).unwrap().number, 2);
    assert_eq!(failed(&state.counts()[0].2, DeliveryFailure::Refused), 1);
}

/// A certificate for this machine, and its key.
fn certificate() -> (String, String) {
    let text = r#"{{ $c := genSelfSignedCertWithKey "test" .addresses .names 2 (genPrivateKey "ecdsa") }}{{ $c.Cert }}{{ $c.Key }}"#;
    let data: Map<String, Value> =
        serde_json::from_value(json!({"addresses": ["127.0.0.1"], "names": ["localhost"]}))
            .unwrap();
    let mut env = wavegate_net::entropy::template_environment(Timestamp::now());
    let template = GoTemplate::parse(text, &TemplateOptions::default()).unwrap();
    let made = template.execute_in(&data, &TemplateLimits::default(), &mut env).unwrap();
    let (certificate, key) = made.split_at(made.find("-----BEGIN EC").unwrap());
    (certificate.to_owned(), key.to_owned())
}

#[tokio::test]
async fn a_server_is_trusted_by_the_certificates_of_the_secret_only() {
    let (certificate, key) = certificate();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/in", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", None).await;
                }
            });
        }
    });
    let world = World::new(true);
    let secret = json!({
        "metadata": {"name": "hook"}, "stringData": {"url": url, "ca.crt": certificate},
    });
    let secret = serde_json::from_value(secret).unwrap();
    secrets(&world).create(&kube::api::PostParams::default(), &secret).await.unwrap();
    let untrusted = [sink(&url)];
    world.policy("1", &untrusted);
    world.offer(&untrusted, &status(1, Some(0)));
    world
        .until("it is not trusted", |counts| {
            counts.attempts.contains_key(&DeliveryFailure::Connection)
        })
        .await;
    world.policy("2", &[json!({"secretRef": {"name": "hook"}})]);
    world.until("it is delivered", |counts| counts.sent == 1).await;
    world.stop.cancel();
}
