//! What waits stops nobody else: workers are lent, limits are by cluster, and what many share is
//! taken in turns. Each case says what holds everything up without that.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::artifacts::{Registry, TAR, tar};
use super::limits::Far;
use super::programs::{confined, failed};
use super::*;

/// Settings of a controller with two workers, which sends four requests to a cluster at once.
fn few() -> ApplicationSettings {
    ApplicationSettings { parallel: 2, parallel_applies: 4, ..ApplicationSettings::default() }
}

/// Requests that match, and that never end or are refused; how many there were.
fn stopped(
    server: &Server,
    effect: Effect,
    matches: impl Fn(&RequestRecord) -> bool + Send + 'static,
) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let is_write = |request: &RequestRecord| {
        request.resource == "configmaps"
            && matches!(request.verb.as_str(), "create" | "update" | "patch")
    };
    let matcher = move |request: &RequestRecord| {
        let is_meant = is_write(request) && matches(request);
        counted.fetch_add(usize::from(is_meant), Ordering::SeqCst);
        is_meant
    };
    server.inject(InjectedFault::new(effect, matcher).times(usize::MAX));
    count
}

impl World {
    /// Writes the files of some Applications, and of `plain`.
    fn write_maps(&self, names: &[String], each: usize) {
        for name in names {
            for number in 0..each {
                let map = config_map(&format!("{name}-{number}"), "1", &[]);
                self.write(&format!("{name}/{number}.json"), &map);
            }
        }
        self.commit_file("plain/one.json", &config_map("plain", "1", &[]));
    }

    /// Deploys an Application of one ConfigMap.
    async fn deploy_plain(&self) {
        self.deploy_app(&self.application("plain", "plain")).await;
    }

    /// How many of these match.
    async fn count(&self, names: &[String], is: impl Fn(&Value) -> bool) -> usize {
        let mut count = 0;
        for name in names {
            count += usize::from(is(&self.app(name).await));
        }
        count
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

fn is_running(app: &Value) -> bool {
    phase(app) == "Running"
}

/// SE-355, SE-565: Applications that wait for the finalizers of others held all workers, each for
/// a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_an_object_to_go_hold_no_worker() {
    let world = World::with(few()).await;
    let held = |name: &str, value: &str| {
        let force = "Force=true,Replace=true";
        let annotations = json!({"argocd.argoproj.io/sync-options": force});
        let metadata = json!({
            "name": name, "finalizers": ["example.com/hold"], "annotations": annotations,
        });
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": value},
        });
        map.to_string()
    };
    let held_by_others = names("held", 5);
    for name in &held_by_others {
        world.write(&format!("{name}/one.json"), &held(name, "1"));
    }
    world.write_maps(&[], 0);
    for name in &held_by_others {
        world.deploy_app(&world.application(name, name)).await;
    }
    for name in &held_by_others {
        world.write(&format!("{name}/one.json"), &held(name, "2"));
    }
    world.commit();
    for name in &held_by_others {
        world.sync(name, json!({})).await;
    }
    until("all are being deleted", async || {
        let mut all = true;
        for name in &held_by_others {
            let map = world.get("v1", "ConfigMap", "web", name).await;
            all &= !map["metadata"]["deletionTimestamp"].is_null();
        }
        all
    })
    .await;
    world.deploy_plain().await;
    assert_eq!(world.count(&held_by_others, is_running).await, held_by_others.len());
    // They go on where they were.
    for name in &held_by_others {
        world.patch_map(name, json!({"metadata": {"finalizers": null}})).await;
    }
    for name in &held_by_others {
        let replaced = |app: &Value| settled(app) && phase(app) == "Succeeded";
        world.until(name, "replaced", replaced).await;
        assert_eq!(world.data(name).await["v"], "2");
    }
}

/// SE-566: a cluster that never answers held the writes to all clusters, and all workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_hangs_holds_up_no_other_one() {
    let world = World::with(few()).await;
    let far = Far::start(&["web"]).await;
    world.cluster("far", json!({"server": far.address}), json!({})).await;
    let there = names("there", 4);
    world.write_maps(&there, 3);
    let hanging = stopped(&far.server, Effect::Hang, |request| request.client == "wavegate");
    for name in &there {
        world.deploy(name, name, "far").await;
    }
    // All that one project may have at once.
    let all = async || hanging.load(Ordering::SeqCst) >= 3;
    until("writes to it hang", all).await;
    until("all operations run", async || world.count(&there, is_running).await == there.len())
        .await;
    world.deploy_plain().await;
    // None of them has ended, not even at the time limit of a request.
    assert_eq!(hanging.load(Ordering::SeqCst), 3);
}

/// SE-566: a cluster that asks to wait had the writes to all clusters wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_throttles_holds_up_no_other_one() {
    let world = World::with(few()).await;
    let far = Far::start(&["web"]).await;
    world.cluster("far", json!({"server": far.address}), json!({})).await;
    let there = names("there", 1);
    world.write_maps(&there, 1);
    let pause = Effect::StatusRetryAfter(429, 30);
    let refused = stopped(&far.server, pause, |request| request.client == "wavegate");
    world.deploy("there-0", "there-0", "far").await;
    until("a write to it is refused", async || refused.load(Ordering::SeqCst) > 0).await;
    world.deploy_plain().await;
    assert_eq!(refused.load(Ordering::SeqCst), 1, "it waits as it was asked to");
    assert!(is_running(&world.app("there-0").await));
}

/// SE-566: one Application whose writes hang, such as in an admission webhook of its namespace,
/// held those of all others to the cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_applications_of_a_cluster_take_turns_in_its_writes() {
    let world = World::with(few()).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "slow"}})).await;
    let many = names("many", 1);
    world.write_maps(&many, 6);
    let hanging = stopped(&world.server, Effect::Hang, |request| {
        request.client == CONTROLLER && request.namespace == "slow"
    });
    let more = json!({"spec": {
        "destination": {"namespace": "slow"}, "syncPolicy": {"automated": {}},
    }});
    world.create_with("many-0", "many-0", more).await;
    until("its writes hang", async || hanging.load(Ordering::SeqCst) >= 2).await;
    world.deploy_plain().await;
    assert_eq!(hanging.load(Ordering::SeqCst), 2, "one Application has two of four");
    assert!(is_running(&world.app("many-0").await));
}

/// SE-565: Jsonnet that runs for ten seconds, for as many Applications as there are workers, held
/// all others: those that have none, and those whose Jsonnet is short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jsonnet_that_takes_long_holds_up_neither_yaml_nor_jsonnet() {
    let world = World::with(few()).await;
    let endless = names("endless", 8);
    for (number, name) in endless.iter().enumerate() {
        let code = "local f(n) = if n < 2 then n else f(n - 1) + f(n - 2); f(60)";
        world.write(&format!("{name}/a.jsonnet"), &format!("{code} + {number}"));
    }
    let short = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'short'}}";
    world.write("short/a.jsonnet", short);
    world.write_maps(&[], 0);
    for name in &endless {
        world.create_app(&world.application(name, name)).await;
    }
    world.deploy_plain().await;
    assert_eq!(world.count(&endless, failed).await, 0, "yaml waits for none of them");
    world.deploy_app(&world.application("short", "short")).await;
    let ended = world.count(&endless, failed).await;
    assert!(ended <= endless.len() / 2, "{ended} have ended before");
}

/// SE-565: as many programs as there are workers ran at once, however much memory they took, and
/// held these workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_take_turns_and_hold_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let script = "#!/bin/sh\ntouch FOLDER/run.$$\nwhile ! [ -e FOLDER/go ]; do sleep 0.05; done\n\
                  printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: chart}\\n'\n";
    std::fs::write(at("helm"), script.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
    std::fs::set_permissions(at("helm"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = few();
    let programs = &mut settings.render.programs;
    (programs.helm, programs.helper, programs.parallel) = (at("helm"), None, 4);
    let world = World::with(settings).await;
    let charts = names("chart", 8);
    for name in &charts {
        let chart = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        world.write(&format!("{name}/Chart.yaml"), &chart);
    }
    world.write_maps(&[], 0);
    let running = || {
        let entries = std::fs::read_dir(folder.path()).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("run.")).count()
    };
    for name in &charts[1..] {
        world.create_app(&world.application(name, name)).await;
    }
    until("its project has all that it may", async || running() >= 3).await;
    world.deploy_plain().await;
    assert_eq!(running(), 3);
    // The last one is left to other projects.
    world.project("other", json!({})).await;
    world.create_with(&charts[0], &charts[0], json!({"spec": {"project": "other"}})).await;
    until("another project has its turn", async || running() == 4).await;
    assert_eq!(world.count(&charts, |app| !app["status"]["sync"].is_null()).await, 0);
    std::fs::write(at("go"), "").unwrap();
    for name in &charts {
        world.until(name, "rendered", |app| is(app, "OutOfSync", "Missing")).await;
    }
}

/// SE-565: programs that compute for long had as much of the processor as the controller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_leave_the_processor_to_the_controller() {
    let folder = tempfile::tempdir().unwrap();
    let text = "printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: chart}\\n'\n\
                printf 'data: {nice: \"%s\"}\\n' \"$(nice)\"";
    let helm = script(folder.path(), "helm", text);
    let world = World::with(confined(|programs| programs.helm = helm)).await;
    world.write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 0.1.0\n");
    world.write_maps(&[], 0);
    world.deploy_app(&world.application("chart", "chart")).await;
    let own = rustix::process::nice(0).unwrap();
    assert_eq!(world.data("chart").await["nice"], (own + 5).min(19).to_string());
}

/// SE-565: servers that send a byte now and then held the slots of all that answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_drip_hold_up_no_other_one() {
    let world = World::with(ApplicationSettings::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let drips = listener.local_addr().unwrap();
    let dripping = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dripping);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            });
        }
    });
    world.write_maps(&[], 0);
    let slow = names("slow", 9);
    for name in &slow {
        let registry = Registry::start("").await;
        registry.push("1.0.0", TAR, tar(&[("one.json", &config_map(name, "1", &[]))]));
        registry.with(|state| state.blobs_at = Some(drips));
        registry.permit(&world, name, json!({})).await;
        world.create_app(&world.with_source(name, registry.source("1.0.0", "."))).await;
    }
    until("all slots would be held", async || dripping.load(Ordering::SeqCst) >= 8).await;
    world.deploy_plain().await;
    assert_eq!(world.count(&slow, failed).await, 0, "it waits for none of them");
}
