//! What moves between two Applications in one commit is handed over: it is neither deleted nor made
//! anew, whoever acts first (SE-115, SE-210, SE-360, SE-514).

use tokio_util::sync::DropGuard;
use wavegate_controller::application_set;
use wavegate_controller::settings::ApplicationSetSettings;

use super::*;

const PRUNES: [(&str, bool); 2] = [("with self-heal", true), ("without", false)];
const CLAIM: &str = "PersistentVolumeClaim";

fn pruning(mut app: Value, heals: bool) -> Value {
    app["spec"]["syncPolicy"] = json!({"automated": {"prune": true, "selfHeal": heals}});
    app
}

/// The health of a claim depends on the storage.
fn is_synced(app: &Value) -> bool {
    settled(app) && app["status"]["sync"]["status"] == "Synced"
}

fn is_synced_at(revision: &str) -> impl Fn(&Value) -> bool + '_ {
    move |app| app["status"]["sync"]["revision"] == *revision && is_synced(app)
}

fn claim(name: &str) -> String {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    });
    let metadata = json!({"name": name, "namespace": "web"});
    json!({"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec}).to_string()
}

fn owner_of(object: &Value) -> &str {
    let id = object["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"].as_str();
    id.and_then(|id| id.split(':').next()).unwrap_or_default()
}

/// UID and Application of an object, which must be there.
async fn uid_and_owner(world: &World) -> (String, String) {
    let object = world.get("v1", CLAIM, "web", "data").await;
    let metadata = &object["metadata"];
    assert!(metadata["deletionTimestamp"].is_null(), "it is being deleted: {object}");
    (metadata["uid"].as_str().unwrap_or_default().to_owned(), owner_of(&object).to_owned())
}

/// Two Applications by these folders, each with a ConfigMap of its own; `a` has the claim.
async fn a_with_claim(heals: bool) -> (World, String) {
    let world = World::start().await;
    for name in ["a", "b"] {
        world.write(&format!("{name}/own.json"), &config_map(name, "1", &[]));
    }
    world.commit_file("a/data.json", &claim("data"));
    world.create_app(&pruning(world.application("a", "a"), heals)).await;
    world.until("a", "synced", is_synced).await;
    let (uid, owner) = uid_and_owner(&world).await;
    assert_eq!(owner, "a");
    (world, uid)
}

async fn until_gone(world: &World, name: &str) {
    let objects = world.api("v1", CLAIM, "web");
    until("nobody's claim is pruned", async || objects.get_opt(name).await.unwrap().is_none())
        .await;
}

fn deletions(world: &World, resource: &'static str) -> usize {
    world.server.requests().into_iter().filter(requests("delete", resource)).count()
}

/// The commit moves it there and back, and each of both is compared first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_moves_to_another_application_stays_the_same_one() {
    for (case, heals) in PRUNES {
        let (world, uid) = a_with_claim(heals).await;
        world.create_app(&pruning(world.application("b", "b"), heals)).await;
        world.until("b", "synced", is_synced).await;
        for turn in 0..8 {
            let (from, to) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
            world.remove(&format!("{from}/data.json"));
            world.write(&format!("{to}/data.json"), &claim("data"));
            let revision = world.commit();
            let first = if turn / 2 % 2 == 0 { [from, to] } else { [to, from] };
            for name in first {
                world.ask_refresh(name).await;
            }
            for name in ["a", "b"] {
                world.until(name, "synced at the new commit", is_synced_at(&revision)).await;
            }
            let found = uid_and_owner(&world).await;
            assert_eq!(found, (uid.clone(), to.to_owned()), "{case}, turn {turn}");
        }
        assert_eq!(deletions(&world, "persistentvolumeclaims"), 0, "{case}");
    }
}

/// The other one is synced by hand: until then, the first one is in sync without it, and says to
/// whom it is left. When nobody wants it any more, it is pruned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_to_another_application_is_pruned_when_that_one_has_it_no_longer() {
    let (world, uid) = a_with_claim(true).await;
    world.create_app(&world.application("b", "b")).await;
    world.remove("a/data.json");
    let moved = world.commit_file("b/data.json", &claim("data"));
    world.ask_refresh("a").await;
    world.until("a", "synced without it", is_synced_at(&moved)).await;
    assert_eq!(uid_and_owner(&world).await, (uid.clone(), "a".to_owned()));
    let after = world.sync_to_end("a", json!({"prune": true})).await;
    let rows = after["status"]["operationState"]["syncResult"]["resources"].as_array();
    let is_it = |row: &&Value| row["kind"] == CLAIM;
    let left = rows.into_iter().flatten().find(is_it).expect("the result has it");
    assert_eq!(left["status"], "PruneSkipped");
    assert_eq!(left["message"], "ignored (left to argocd/b, which has it in its source)");
    assert!(row(&after, "data").is_null(), "it is none of its resources: {after}");
    world.remove("b/data.json");
    world.commit();
    world.ask_refresh("b").await;
    until_gone(&world, "data").await;
    world.until("a", "synced", is_synced).await;
}

/// A deletion of an Application that had it, before the other one has applied anything; also when
/// that one was just created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_application_leaves_what_another_one_has_in_its_source() {
    for is_new in [false, true] {
        let (world, uid) = a_with_claim(true).await;
        world.patch("a", json!({"metadata": {"finalizers": [CASCADE]}})).await;
        world.commit_file("b/data.json", &claim("data"));
        // By hand: it is only compared.
        world.create_app(&world.application("b", "b")).await;
        if !is_new {
            let is_compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
            world.until("b", "compared", is_compared).await;
        }
        world.delete_app("a").await;
        world.until("a", "gone", Value::is_null).await;
        let own = world.get("v1", "ConfigMap", "web", "a").await;
        assert!(own.is_null(), "its own object is deleted");
        assert_eq!(uid_and_owner(&world).await.0, uid);
        world.sync_to_end("b", json!({})).await;
        assert_eq!(uid_and_owner(&world).await, (uid, "b".to_owned()));
    }
}

/// One that may not have it in its project, that does not take over what others track, or that is
/// being deleted keeps nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_one_that_may_not_have_it_keeps_nothing() {
    for case in ["project", "shared", "deleting"] {
        let (world, _) = a_with_claim(true).await;
        world.project("other", json!({"destinations": [{"server": "*", "namespace": "x"}]})).await;
        world.commit_file("b/data.json", &claim("data"));
        let mut b = world.application("b", "b");
        match case {
            "project" => {
                b["spec"]["project"] = "other".into();
                b["spec"]["destination"]["namespace"] = "x".into();
            }
            "shared" => {
                let options = json!({"syncOptions": ["FailOnSharedResource=true"]});
                b["spec"]["syncPolicy"] = options;
            }
            _ => b["metadata"]["finalizers"] = json!(["example.com/held"]),
        }
        world.create_app(&b).await;
        world.until("b", "compared", |app| !app["status"]["sync"]["status"].is_null()).await;
        if case == "deleting" {
            world.delete_app("b").await;
        }
        world.remove("a/data.json");
        world.commit();
        world.ask_refresh("a").await;
        until_gone(&world, "data").await;
    }
}

/// A Namespace with what another Application wants is not pruned, and not deleted with the
/// Application that has made it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_stays_while_another_application_has_objects_in_it() {
    let (world, _) = a_with_claim(true).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "data"}});
    world.commit_file("a/namespace.json", &namespace.to_string());
    world.ask_refresh("a").await;
    until("the Namespace is made", async || {
        !world.get("v1", "Namespace", "", "data").await.is_null()
    })
    .await;
    let there = claim("data").replace("\"namespace\":\"web\"", "\"namespace\":\"data\"");
    world.commit_file("b/data.json", &there);
    world.create_app(&pruning(world.application("b", "b"), true)).await;
    world.until("b", "synced", is_synced).await;
    world.remove("a/namespace.json");
    let revision = world.commit();
    world.ask_refresh("a").await;
    world.until("a", "synced without the Namespace", is_synced_at(&revision)).await;
    world.patch("a", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    world.delete_app("a").await;
    world.until("a", "gone", Value::is_null).await;
    assert!(!world.get("v1", CLAIM, "data", "data").await.is_null());
    assert_eq!(deletions(&world, "namespaces"), 0);
}

/// After a start, an Application that cannot be compared has what its status lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_remembers_what_an_application_had_that_cannot_be_compared() {
    let (mut world, uid) = a_with_claim(true).await;
    world.commit_file("b/data.json", &claim("data"));
    world.create_app(&world.application("b", "b")).await;
    world.until("b", "compared", |app| row(app, "data")["status"] == "OutOfSync").await;
    world.crash().await;
    world.remove("a/data.json");
    world.remove("b/data.json");
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n";
    let revision = world.commit_file("b/data.yaml", broken);
    for name in ["a", "b"] {
        world.ask_refresh(name).await;
    }
    world.run();
    world.until("a", "synced without it", is_synced_at(&revision)).await;
    assert_eq!(uid_and_owner(&world).await, (uid.clone(), "a".to_owned()));
    // It is mended, and takes it over.
    world.commit_file("b/data.yaml", &claim("data"));
    world.refresh("b").await;
    world.sync_to_end("b", json!({})).await;
    assert_eq!(uid_and_owner(&world).await, (uid, "b".to_owned()));
}

/// What was left to another Application before a start does not make the first one out of sync while
/// that one is not compared, since a rollout would sync it again; and it is pruned when no other one has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_start_nothing_is_out_of_sync_for_what_was_left_to_others() {
    let (mut world, uid) = a_with_claim(true).await;
    world.remove("a/data.json");
    world.commit_file("b/data.json", &claim("data"));
    world.create_app(&world.application("b", "b")).await;
    world.until("b", "compared", |app| row(app, "data")["status"] == "OutOfSync").await;
    let left = |app: &Value| is_synced(app) && row(app, "data").is_null();
    world.until("a", "without it", left).await;
    world.crash().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/silent.git", silent.local_addr().unwrap());
    let source = world.application("b", "b")["spec"]["source"].clone();
    let other = json!({"repoURL": url, "path": ".", "targetRevision": "main"});
    let sources = json!({"spec": {"source": null, "sources": [source, other]}});
    world.patch("b", sources).await;
    world.run();
    world.refresh("a").await;
    world.until("a", "still without it", left).await;
    assert_eq!(uid_and_owner(&world).await, (uid, "a".to_owned()));
    // The other one has it no longer.
    world.remove("b/data.json");
    world.commit_file("b/own.json", &config_map("own", "1", &[]));
    world.patch("b", json!({"spec": {"source": source, "sources": null}})).await;
    until_gone(&world, "data").await;
}

/// One whose other repository does not answer holds the prune of the others for a limited time, and
/// they say for whom they wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prune_waits_for_comparisons_for_a_limited_time() {
    let (mut world, uid) = a_with_claim(true).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/silent.git", silent.local_addr().unwrap());
    let mut b = world.application("b", "b");
    let other = json!({"repoURL": url, "path": ".", "targetRevision": "main"});
    b["spec"]["sources"] = json!([b["spec"]["source"], other]);
    b["spec"].as_object_mut().unwrap().remove("source");
    world.create_app(&b).await;
    world.crash().await;
    world.remove("a/data.json");
    world.commit();
    let clock = Clock::standing_at(jiff::Timestamp::now());
    world.run_by(world.server.client_as(CONTROLLER), clock.clone());
    let waits = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default();
        message.starts_with("waiting for comparisons before pruning of /PersistentVolumeClaim/data")
            && message.ends_with(": argocd/b")
    };
    world.until("a", "waiting for b", waits).await;
    assert_eq!(uid_and_owner(&world).await.0, uid);
    clock.advance(jiff::SignedDuration::from_mins(5));
    world.ask_refresh("a").await;
    until_gone(&world, "data").await;
}

/// In a random order, of random kinds, with kills: 200 moves among four Applications, two of which
/// are synced by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_moves_lose_nothing_and_make_nothing_anew() {
    const OBJECTS: usize = 16;
    const COMMITS: usize = 25;
    const MOVED: usize = 8;
    let mut world = World::start().await;
    let mut state = 43_u64;
    let mut random = |below: usize| {
        // Of Knuth's MMIX; the lower bits are hardly random.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let names = ["a", "b", "c", "d"];
    let kinds = ["ConfigMap", "Secret", CLAIM, "Service", "Application", "Namespace"];
    let kind = |object: usize| kinds[object % kinds.len()];
    let manifest = |object: usize| {
        let name = format!("o{object}");
        let mut manifest = json!({
            "apiVersion": "v1", "kind": kind(object),
            "metadata": {"name": name, "namespace": "web"},
        });
        match kind(object) {
            CLAIM => return claim(&name),
            "Service" => manifest["spec"] = json!({"ports": [{"port": 80}]}),
            "Application" => {
                manifest = world.application(&name, "child");
                manifest["apiVersion"] = "argoproj.io/v1alpha1".into();
                manifest["kind"] = "Application".into();
                manifest["metadata"]["finalizers"] = json!([CASCADE]);
            }
            "Namespace" => manifest["metadata"] = json!({"name": name}),
            _ => {}
        }
        manifest.to_string()
    };
    let manifests: Vec<String> = (0..OBJECTS).map(manifest).collect();
    let mut places: Vec<usize> = (0..OBJECTS).map(|object| object % names.len()).collect();
    let file = |place: usize, object: usize| format!("{}/o{object}.json", names[place]);
    world.write("child/own.json", &config_map("child", "1", &[]));
    for (place, name) in names.iter().enumerate() {
        world.write(&format!("{name}/own.json"), &config_map(name, "1", &[]));
        for object in (0..OBJECTS).filter(|object| places[*object] == place) {
            world.write(&file(place, object), &manifests[object]);
        }
    }
    let revision = world.commit();
    for (place, name) in names.iter().enumerate() {
        let app = world.application(name, name);
        world.create_app(&pruning(app, place % 2 == 0)).await;
    }
    for name in names {
        world.until(name, "synced", is_synced_at(&revision)).await;
    }
    let found = async |world: &World, object: usize| {
        let (version, namespace) = match kind(object) {
            "Application" => ("argoproj.io/v1alpha1", NAMESPACE),
            "Namespace" => ("v1", ""),
            _ => ("v1", "web"),
        };
        let found = world.get(version, kind(object), namespace, &format!("o{object}")).await;
        assert!(found["metadata"]["deletionTimestamp"].is_null(), "{found} is being deleted");
        (found["metadata"]["uid"].clone(), owner_of(&found).to_owned())
    };
    let mut uids = Vec::new();
    for object in 0..OBJECTS {
        uids.push(found(&world, object).await.0);
    }
    for commit in 0..COMMITS {
        for _ in 0..MOVED {
            let object = random(OBJECTS);
            let place = random(names.len());
            world.remove(&file(places[object], object));
            places[object] = place;
            world.write(&file(place, object), &manifests[object]);
        }
        world.write("a/own.json", &config_map("a", &commit.to_string(), &[]));
        let revision = world.commit();
        let sent = |world: &World| {
            let all = world.server.requests();
            all.iter().filter(|request| request.client == CONTROLLER).count()
        };
        let before = sent(&world);
        let first = random(names.len());
        for at in 0..names.len() {
            world.ask_refresh(names[(first + at) % names.len()]).await;
        }
        if commit % 5 == 4 {
            let moment = before + 1 + random(24);
            until("the controller is at work", async || sent(&world) >= moment).await;
            world.crash().await;
            world.run();
        }
        for name in names {
            world.until(name, "synced at the commit", is_synced_at(&revision)).await;
        }
        for (object, uid) in uids.iter().enumerate() {
            let (now, owner) = found(&world, object).await;
            assert_eq!(now, *uid, "commit {commit}: {} o{object}", kind(object));
            assert_eq!(owner, names[places[object]], "commit {commit}: {} o{object}", kind(object));
        }
    }
}

/// Runs the ApplicationSet controller, too, with progressive syncs.
pub(super) fn run_sets(world: &World) -> DropGuard {
    let stop = CancellationToken::new();
    let scope = WatchedScope {
        namespace: NAMESPACE.to_owned(),
        sets_everywhere: false,
        applications_everywhere: false,
        syncs: true,
    };
    let core = Core::new(world.server.client_as("sets"), scope, Clock::system());
    let (mut settings, sources) = (ApplicationSetSettings::default(), world.sources.clone());
    settings.decisions.progressive_syncs = true;
    let token = stop.clone();
    tokio::spawn(async move {
        let work = application_set::run(core.clone(), settings, sources, token.clone());
        let watches = async { core.control_plane.run(&core.client, &token).await.unwrap() };
        tokio::join!(work, watches, core.recorder.run(&token));
    });
    stop.drop_guard()
}

/// A set by the folders below `apps`, each with an Application of its name.
fn folders(world: &World, strategy: Value) -> Value {
    let url = world.repo.path().to_str().unwrap();
    let policy = json!({"automated": {"prune": true, "selfHeal": true}});
    json!({
        "metadata": {"name": "set", "namespace": NAMESPACE},
        "spec": {
            "goTemplate": true,
            "strategy": strategy,
            "generators": [{"git": {
                "repoURL": url, "revision": "main", "directories": [{"path": "apps/*"}],
                "requeueAfterSeconds": 1,
            }}],
            "template": {
                "metadata": {
                    "name": "{{.path.basename}}", "finalizers": [CASCADE],
                    "labels": {"step": "{{.path.basename}}"},
                },
                "spec": {
                    "project": "default", "syncPolicy": policy,
                    "source": {
                        "repoURL": url, "path": "{{.path.path}}", "targetRevision": "main",
                    },
                    "destination": {
                        "server": "https://kubernetes.default.svc", "namespace": "web",
                    },
                },
            },
        },
    })
}

/// A folder is renamed: its Application is deleted, and another one is created with the same
/// objects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_renamed_keeps_its_objects() {
    let world = World::start().await;
    let _sets = run_sets(&world);
    world.write("apps/other/own.json", &config_map("other", "1", &[]));
    world.write("apps/a/own.json", &config_map("own", "1", &[]));
    world.commit_file("apps/a/data.json", &claim("data"));
    let set = folders(&world, Value::Null);
    world.create("argoproj.io/v1alpha1", "ApplicationSet", &set).await;
    world.until("a", "synced", is_synced).await;
    let (uid, _) = uid_and_owner(&world).await;
    for (from, to) in [("a", "b"), ("b", "a"), ("a", "c")] {
        let apps = world.repo.path().join("apps");
        std::fs::rename(apps.join(from), apps.join(to)).unwrap();
        world.commit();
        world.until(from, "gone", Value::is_null).await;
        world.until(to, "synced", is_synced).await;
        assert_eq!(uid_and_owner(&world).await, (uid.clone(), to.to_owned()));
    }
    assert_eq!(deletions(&world, "persistentvolumeclaims") + deletions(&world, "configmaps"), 0);
}

/// The first step gives it to the second one, and the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_moves_objects_from_step_to_step() {
    let world = World::start().await;
    let _sets = run_sets(&world);
    for name in ["a", "b"] {
        world.write(&format!("apps/{name}/own.json"), &config_map(name, "1", &[]));
    }
    world.commit_file("apps/a/data.json", &claim("data"));
    let step = |name: &str| json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [name]}]});
    let rolling = json!({"type": "RollingSync", "rollingSync": {"steps": [step("a"), step("b")]}});
    let set = folders(&world, rolling);
    world.create("argoproj.io/v1alpha1", "ApplicationSet", &set).await;
    world.until("b", "synced", is_synced).await;
    let (uid, _) = uid_and_owner(&world).await;
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
        world.remove(&format!("apps/{from}/data.json"));
        // Both have something to sync.
        for name in ["a", "b"] {
            let map = config_map(name, &turn.to_string(), &[]);
            world.write(&format!("apps/{name}/own.json"), &map);
        }
        let revision = world.commit_file(&format!("apps/{to}/data.json"), &claim("data"));
        for name in ["a", "b"] {
            world.ask_refresh(name).await;
        }
        for name in ["a", "b"] {
            world.until(name, "synced at the commit", is_synced_at(&revision)).await;
        }
        assert_eq!(uid_and_owner(&world).await, (uid.clone(), to.to_owned()), "turn {turn}");
    }
    assert_eq!(deletions(&world, "persistentvolumeclaims"), 0);
}

/// Of two that go back to the commit before the move, the one that has it now goes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_goes_back_leaves_what_another_application_had_then() {
    let (world, uid) = a_with_claim(true).await;
    world.create_app(&pruning(world.application("b", "b"), false)).await;
    let b = world.until("b", "synced", is_synced).await;
    let before = b["status"]["sync"]["revision"].clone();
    world.remove("a/data.json");
    let revision = world.commit_file("b/data.json", &claim("data"));
    for name in ["a", "b"] {
        world.ask_refresh(name).await;
    }
    for name in ["a", "b"] {
        world.until(name, "synced at the commit", is_synced_at(&revision)).await;
    }
    assert_eq!(uid_and_owner(&world).await, (uid.clone(), "b".to_owned()));
    for (name, owner) in [("b", "b"), ("a", "a")] {
        world.patch(name, json!({"spec": {"syncPolicy": null}})).await;
        let back = world.sync_to_end(name, json!({"revision": before, "prune": true})).await;
        assert_eq!(phase(&back), "Succeeded");
        assert_eq!(uid_and_owner(&world).await, (uid.clone(), owner.to_owned()));
    }
}
