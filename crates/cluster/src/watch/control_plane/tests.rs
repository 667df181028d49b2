use std::collections::BTreeSet;

use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::*;
use crate::act::commands::manifests;
use crate::watch::object::kind_resource;
use kube_sim::{Effect, InjectedFault, RequestRecord, Server};
use wavegate_api::{ObjectKey, crds, policy, run};

fn object(name: &str, uid: &str, version: &str, owner: &str) -> StoredObject {
    let owners = json!([
        {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x", "controller": true},
        {"apiVersion": "v1", "kind": "ApplicationSet", "name": "set", "uid": owner, "controller": true},
    ]);
    json!({"metadata": {
        "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version,
        "ownerReferences": owners,
    }})
    .into()
}

fn version(cache: &Cache, name: &str) -> Option<String> {
    let object = cache.get(&ObjectKey::new("ns", name))?;
    Some(object.resource_version().to_owned())
}

fn owned(cache: &Cache, uid: &str) -> Vec<String> {
    cache.owned_by(uid).iter().map(|object| object.name().to_owned()).collect()
}

#[test]
fn an_own_write_is_used_until_the_watch_has_a_newer_version() {
    let cache = Cache::new(Kind::Application);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    let mut changes = cache.subscribe();
    assert_eq!(changes.try_recv().unwrap().new.unwrap().resource_version(), "9");
    cache.wrote(object("a", "u", "10", "s"), Origin::ApplicationSets);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    cache.put(object("a", "u", "10", "s"), Origin::Watch);
    assert_eq!(version(&cache, "a").as_deref(), Some("10"));
    cache.put(object("a", "u", "11", "t"), Origin::Watch);
    cache.wrote(object("a", "u", "10", "s"), Origin::ApplicationSets);
    assert_eq!(version(&cache, "a").as_deref(), Some("11"));
    let changes_seen: Vec<_> = std::iter::from_fn(|| changes.try_recv().ok())
        .map(|change| (change.origin, change.new.unwrap().resource_version().to_owned()))
        .collect();
    let want = [(Origin::ApplicationSets, "10".to_owned()), (Origin::Watch, "11".to_owned())];
    assert_eq!(changes_seen, want, "each version once, in order");
    assert_eq!((owned(&cache, "s"), owned(&cache, "t")), (vec![], vec!["a".to_owned()]));
}

/// The watch may bring an own write before its answer: that is no change of another client, which
/// would be decided about once more.
#[test]
fn what_the_watch_brings_of_an_own_write_before_its_answer_is_no_change_of_another() {
    use Origin::{ApplicationSets, Watch};
    /// What arrives while a write is on its way.
    enum Arrives {
        Watched(&'static str),
        Answered(&'static str),
        /// The write has ended.
        Ended,
        Deleted,
    }
    use Arrives::{Answered, Deleted, Ended, Watched};
    let is = |origin: Origin, old: &str, new: &str| format!("{origin:?} {old} {new}");
    let cases = [
        (
            "the answer first",
            vec![Answered("10"), Watched("10"), Ended],
            vec![is(ApplicationSets, "9", "10")],
        ),
        (
            "the watch first",
            vec![Watched("10"), Answered("10"), Ended],
            vec![is(ApplicationSets, "9", "10")],
        ),
        ("no answer", vec![Watched("10"), Ended], vec![is(Watch, "9", "10")]),
        (
            "another client before it",
            vec![Watched("10"), Answered("11"), Watched("11"), Ended],
            vec![is(Watch, "9", "11")],
        ),
        (
            "another client before it, and the watch first",
            vec![Watched("10"), Watched("11"), Answered("11"), Ended],
            vec![is(Watch, "9", "11")],
        ),
        (
            "another client after it",
            vec![Watched("10"), Watched("11"), Answered("10"), Ended],
            vec![is(Watch, "9", "11")],
        ),
        (
            "another client after the answer",
            vec![Answered("10"), Watched("11"), Ended],
            vec![is(ApplicationSets, "9", "10"), is(Watch, "10", "11")],
        ),
        ("refused, and nothing came", vec![Ended], vec![]),
        (
            "deleted meanwhile",
            vec![Watched("10"), Deleted, Answered("10"), Ended],
            vec![is(Watch, "10", "")],
        ),
        (
            "after its end",
            vec![Answered("10"), Ended, Watched("11")],
            vec![is(ApplicationSets, "9", "10"), is(Watch, "10", "11")],
        ),
    ];
    for (case, arrives, want) in cases {
        let cache = Cache::new(Kind::Application);
        cache.put(object("a", "u", "9", "s"), Watch);
        let mut changes = cache.subscribe();
        changes.try_recv().unwrap();
        let mut write = Some(cache.begin_write(ObjectKey::new("ns", "a")));
        for one in arrives {
            match one {
                Watched(version) => cache.put(object("a", "u", version, "s"), Watch),
                Answered(version) => cache.wrote(object("a", "u", version, "s"), ApplicationSets),
                Ended => drop(write.take()),
                Deleted => cache.deleted(&object("a", "u", "12", "s")),
            }
        }
        let of = |object: Option<StoredObject>| {
            object.map_or_else(String::new, |object| object.resource_version().to_owned())
        };
        let seen: Vec<String> = std::iter::from_fn(|| changes.try_recv().ok())
            .map(|change| is(change.origin, &of(change.old), &of(change.new)))
            .collect();
        assert_eq!(seen, want, "{case}");
    }
}

#[test]
fn two_own_writes_of_an_object_hold_its_changes_until_both_have_ended() {
    let cache = Cache::new(Kind::Application);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    let mut changes = cache.subscribe();
    changes.try_recv().unwrap();
    let key = ObjectKey::new("ns", "a");
    let (one, other) = (cache.begin_write(key.clone()), cache.begin_write(key));
    cache.put(object("a", "u", "10", "s"), Origin::Watch);
    drop(one);
    assert!(changes.try_recv().is_err());
    cache.wrote(object("a", "u", "10", "s"), Origin::Applications);
    assert_eq!(changes.try_recv().unwrap().origin, Origin::Applications);
    drop(other);
    assert!(changes.try_recv().is_err());
}

/// A change of another client does not wait for a write that hangs.
#[tokio::test(start_paused = true)]
async fn a_change_waits_for_the_answer_to_an_own_write_for_a_second() {
    let cache = Cache::new(Kind::Application);
    let mut changes = cache.subscribe();
    let write = cache.begin_write(ObjectKey::new("ns", "a"));
    let began = tokio::time::Instant::now();
    let answer = write.answer(tokio::time::sleep(std::time::Duration::from_secs(60)));
    let other = async {
        cache.put(object("a", "u", "10", "s"), Origin::Watch);
        let change = changes.recv().await.unwrap();
        (change.origin, began.elapsed().as_secs())
    };
    let ((), seen) = tokio::join!(answer, other);
    assert_eq!(seen, (Origin::Watch, 1));
    cache.put(object("a", "u", "11", "s"), Origin::Watch);
    assert!(changes.try_recv().is_ok(), "the write has no answer still");
}

#[test]
fn a_late_response_does_not_restore_a_deleted_object() {
    let cache = Cache::new(Kind::Application);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    cache.deleted(&object("a", "other", "8", "s"));
    assert_eq!(version(&cache, "a").as_deref(), Some("9"), "the deletion of a previous object");
    cache.deleted(&object("a", "u", "12", "s"));
    cache.wrote(object("a", "u", "11", "s"), Origin::Applications);
    assert_eq!((version(&cache, "a"), owned(&cache, "s")), (None, vec![]));
    cache.wrote(object("a", "new", "13", "s"), Origin::ApplicationSets);
    assert_eq!(version(&cache, "a").as_deref(), Some("13"));
    cache.gone(&ObjectKey::new("ns", "a"), "new", Origin::ApplicationSets);
    cache.put(object("a", "new", "13", "s"), Origin::Watch);
    assert_eq!(version(&cache, "a"), None);
}

#[test]
fn objects_missing_in_a_listing_are_deleted_unless_written_since() {
    let cache = Cache::new(Kind::Application);
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        cache.put(object(name, uid, "5", "s"), Origin::Watch);
    }
    cache.begin();
    cache.wrote(object("c", "3", "7", "s"), Origin::Applications);
    cache.wrote(object("d", "4", "8", "s"), Origin::ApplicationSets);
    cache.put(object("a", "1", "5", "s"), Origin::Watch);
    let unsure = cache.end(&BTreeSet::from([ObjectKey::new("ns", "a")]));
    let unsure: Vec<&str> = unsure.iter().map(StoredObject::name).collect();
    assert_eq!(unsure, ["c", "d"]);
    assert_eq!(owned(&cache, "s"), ["a", "c", "d"]);
    let names: Vec<String> = cache.in_namespace("ns").into_keys().collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(cache.in_namespace("n").is_empty() && cache.in_namespace("nsx").is_empty());
}

/// A control plane that watches a server, in paused time.
struct Watched {
    server: Server,
    plane: Arc<ControlPlane>,
    running: tokio::task::JoinHandle<Result<(), Forbidden>>,
}

impl Watched {
    fn start(server: Server) -> Self {
        let scope = WatchedScope {
            namespace: "default".into(),
            sets_everywhere: true,
            applications_everywhere: true,
            syncs: true,
        };
        let plane = Arc::new(ControlPlane::new(scope));
        let (watched, client) = (Arc::clone(&plane), server.client_as("controller"));
        let running =
            tokio::spawn(async move { watched.run(&client, &CancellationToken::new()).await });
        Self { server, plane, running }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&ControlPlane) -> bool) {
        let waiting = async {
            while !is_so(&self.plane) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let limit = ABSENT_PAUSE * 2;
        assert!(tokio::time::timeout(limit, waiting).await.is_ok(), "{what}: not within {limit:?}");
    }

    async fn create_policy(&self, name: &str) {
        let policy = json!({
            "apiVersion": wavegate_api::WAVEGATE_API_VERSION, "kind": policy::POLICY,
            "metadata": {"name": name}, "spec": {"paused": true},
        });
        let client = self.server.client();
        let api: Api<StoredObject> =
            kind_api(&client, Some("default"), &kind_resource(policy::POLICY));
        api.create(&PostParams::default(), &policy.into()).await.unwrap();
    }

    fn requests_of(&self, plural: &str) -> usize {
        let all = self.server.requests().into_iter();
        all.filter(|request| request.client == "controller" && request.resource == plural).count()
    }
}

/// A server with the definitions of Argo CD's kinds alone, or with all.
async fn server_with(kinds: usize) -> Server {
    let server = Server::new();
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    for definition in crds::all_definitions().iter().take(kinds) {
        definitions.create(&PostParams::default(), definition).await.unwrap();
    }
    server
}

fn lists(code: u16, plural: &'static str) -> InjectedFault {
    asked("list", code, plural)
}

fn asked(verb: &'static str, code: u16, plural: &'static str) -> InjectedFault {
    let is_meant = move |request: &RequestRecord| {
        request.client == "controller" && request.verb == verb && request.resource == plural
    };
    InjectedFault::new(Effect::Status(code), is_meant).times(usize::MAX)
}

/// ST-006.
#[tokio::test(start_paused = true)]
async fn kinds_that_are_not_installed_are_waited_for_without_holding_anything() {
    let watched = Watched::start(server_with(3).await);
    let mut changes = watched.plane.policies.subscribe();
    watched.until("listed", |plane| plane.runs.is_listed()).await;
    watched.plane.listed().await;
    assert!(!watched.plane.has_runs() && !watched.plane.has_policies());
    assert!(watched.plane.unread().borrow().is_empty());
    watched.server.forget_requests();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let asked = watched.requests_of(run::RUNS);
    assert!((10..=30).contains(&asked), "{asked} requests in ten minutes");

    manifests::define_all(&watched.server.client(), "test").await.unwrap();
    watched.create_policy("a").await;
    watched.until("read", |plane| plane.has_runs() && plane.policies.keys().len() == 1).await;
    assert!(changes.try_recv().unwrap().new.is_some());

    // With their definition, the objects are gone.
    let definitions: Api<CustomResourceDefinition> = Api::all(watched.server.client());
    let name = "rolloutpolicies.wavegate.dev";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    watched.until("empty", |plane| plane.policies.keys().is_empty()).await;
    // As the real server, which ends them.
    watched.server.drop_watches();
    watched.until("gone", |plane| !plane.has_policies()).await;
    assert!(watched.plane.policies.all().is_empty() && watched.plane.has_runs());
    assert!(changes.try_recv().unwrap().new.is_none());
    manifests::define_all(&watched.server.client(), "test").await.unwrap();
    watched.create_policy("b").await;
    watched.until("back", |plane| plane.has_policies()).await;
    assert!(!watched.running.is_finished());
}

/// The role of an older installation.
#[tokio::test(start_paused = true)]
async fn kinds_that_must_not_be_read_are_as_if_absent() {
    let server = server_with(5).await;
    server.inject(lists(403, policy::POLICIES));
    server.inject(lists(403, run::RUNS));
    let watched = Watched::start(server);
    watched.until("listed", |plane| plane.runs.is_listed() && plane.policies.is_listed()).await;
    watched.plane.listed().await;
    assert!(!watched.plane.has_runs() && !watched.plane.has_policies());
    watched.server.clear_faults();
    watched.until("read", |plane| plane.has_runs() && plane.has_policies()).await;
    assert!(!watched.running.is_finished());
}

/// What is known of policies holds rollouts: an answer that may be a mistake does not lift it.
#[tokio::test(start_paused = true)]
async fn known_policies_do_not_disappear_by_mistake() {
    let server = server_with(5).await;
    // As a server that has just started: the definition exists, and is not served yet.
    server.inject(lists(404, policy::POLICIES));
    let watched = Watched::start(server);
    watched.create_policy("a").await;
    watched.until("runs", |plane| plane.has_runs()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!watched.plane.policies.is_listed(), "whether there are policies is not known");
    watched.server.clear_faults();
    watched.until("read", |plane| plane.policies.keys().len() == 1).await;
    for code in [403, 404, 500] {
        watched.server.inject(lists(code, policy::POLICIES));
        watched.server.drop_watches();
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(watched.plane.policies.keys().len(), 1, "after {code}");
        assert!(watched.plane.has_policies() && !watched.running.is_finished());
        watched.server.clear_faults();
    }
}

/// A role that loses a permission: what is known must not go stale. The watch was asked for again
/// and again, and nothing was listed.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_followed_by_a_listing() {
    let watched = Watched::start(server_with(5).await);
    watched.until("listed", |plane| plane.runs.is_listed()).await;
    watched.plane.listed().await;
    // Only the verb is missing.
    watched.server.inject(asked("watch", 403, "appprojects"));
    watched.server.drop_watches();
    tokio::time::sleep(REFUSED_PAUSE).await;
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "late"}, "spec": {},
    });
    let client = watched.server.client();
    let projects: Api<StoredObject> =
        kind_api(&client, Some("default"), &kind_resource("AppProject"));
    projects.create(&PostParams::default(), &project.into()).await.unwrap();
    let late = ObjectKey::new("default", "late");
    watched.until("listed anew", |plane| plane.projects.get(&late).is_some()).await;
    watched.server.forget_requests();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let requests = watched.requests_of("appprojects");
    assert!((60..=240).contains(&requests), "{requests} requests in ten minutes");
    assert!(!watched.running.is_finished());
    // It must not be read at all any more.
    watched.server.inject(lists(403, "appprojects"));
    watched.until("the end", |_| watched.running.is_finished()).await;
    let ended = watched.running.await.unwrap();
    assert_eq!(ended.unwrap_err().what, "AppProjects");
}
