//! The page of a large fleet, measured: what a first view costs, what changes cost a browser, what
//! open pages cost the program. The numbers are printed.

use std::time::Instant;

use futures::StreamExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;

use super::*;
use crate::browser::driver::Browser;

/// Requests to the embedded server at a time.
const PARALLEL: usize = 64;
/// The time that a first view may take on a machine that does nothing else. Others may use this one,
/// and the program is built for tests: the assertions allow several times as much.
const FIRST: f64 = 1000.0;
const SLACK: f64 = 8.0;

async fn create_all(world: &World, kind: &str, objects: Vec<Value>) -> Vec<DynamicObject> {
    let api = world.api(kind);
    let create = |object: Value| {
        let api = api.clone();
        async move {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap()
        }
    };
    futures::stream::iter(objects).map(create).buffered(PARALLEL).collect().await
}

fn set_object(name: &str) -> Value {
    let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}, {}]))).unwrap();
    object["metadata"] = json!({"name": name, "namespace": "argocd"});
    object["status"] = json!({"rollout": {"step": 1, "steps": 2, "progress": "0/1"}});
    object
}

fn application(name: &str, set: &DynamicObject) -> Value {
    let phase = ["Healthy", "Progressing", "Degraded"][name.len() % 3];
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": [{
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": set.metadata.name,
            "uid": set.metadata.uid, "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"project": "default", "destination": {"server": "https://1", "namespace": "shop"},
            "source": {"repoURL": "https://git.example/fleet", "targetRevision": "main", "path": format!("apps/{name}")}},
        "status": {"sync": {"status": "Synced", "revision": super::super::policies::COMMIT},
            "health": {"status": phase}, "reconciledAt": "2026-01-02T03:04:05Z"},
    })
}

/// A field of `/proc/PID/status` in KiB.
fn memory(server: &PageServer, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The time that the program has used, in hundredths of a second.
fn processor_time(server: &PageServer) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Milliseconds until a view is drawn, and its bytes on the wire.
async fn first_view(browser: &Browser, url: &str, shown: &str) -> (f64, i64) {
    browser.open(url).await;
    browser.until(shown).await;
    let drawn = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd";
    let bytes = "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter(e => !e.name.includes('/events')).reduce((sum, e) => sum + e.encodedBodySize, 0)";
    let drawn = browser.value(drawn).await.as_f64().unwrap();
    (drawn, browser.value(bytes).await.as_i64().unwrap())
}

/// PG-005, PG-031: with 1,000 sets, and with 10,000 Applications in one, a first view is small and
/// fast, changes of 200 Applications a second leave the browser able to answer, twenty open pages
/// leave the program below 300 MiB, and an idle page costs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn pg_005_pg_031_a_large_fleet_is_measured() {
    let Some(browser) = Browser::start().await else { return };
    let world = World::start().await;
    let begin = Instant::now();
    let sets = (0..1000).map(|number| set_object(&format!("set-{number:03}"))).collect();
    let sets = create_all(&world, "ApplicationSet", sets).await;
    let apps = sets.iter().map(|set| application(set.metadata.name.as_deref().unwrap(), set));
    create_all(&world, "Application", apps.collect()).await;
    let large = create_all(&world, "ApplicationSet", vec![set_object("fleet")]).await;
    let names: Vec<String> = (0..10_000).map(|number| format!("app-{number:05}")).collect();
    let apps = names.iter().map(|name| application(name, &large[0]));
    create_all(&world, "Application", apps.collect()).await;
    eprintln!("1,001 sets and 11,000 Applications are there after {:?}", begin.elapsed());

    let server = PageServer::start(&world, &[]).await;
    server.until("/", "/set/argocd/set-999").await;
    server.until("/set/argocd/fleet", "/app/argocd/app-09999").await;
    browser.resize(1280, 800).await;
    let url = |path: &str| format!("http://{}{path}", server.address);
    browser.open(&format!("http://{}/?start={}", server.address, server.token)).await;
    browser.until("location.search === ''").await;
    for (name, path, shown) in [
        ("1,000 sets", "/", "document.querySelectorAll('.row').length > 1000"),
        (
            "10,000 Applications",
            "/set/argocd/fleet",
            "document.querySelectorAll('.c').length === 10000",
        ),
    ] {
        let (milliseconds, bytes) = first_view(&browser, &url(path), shown).await;
        eprintln!("first view of {name}: {milliseconds:.0} ms, {} KB on the wire", bytes / 1000);
        assert!(bytes < 300_000, "{name}: {bytes} bytes");
        assert!(milliseconds < FIRST * SLACK, "{name}: {milliseconds} ms");
    }

    // Changes: the longest time in which the browser could not have answered.
    browser.value("(window.longest = 0, new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); }).observe({type: 'longtask'}), null)").await;
    let api = world.api("Application");
    let change = async |round: usize| {
        let health = ["Healthy", "Degraded"][round % 2];
        let patch = Patch::Merge(json!({"status": {"health": {"status": health}}}));
        let named = names.iter().skip(round * 37 % 9000).step_by(7).take(200);
        let params = PatchParams::default();
        let patched = named.map(async |name| drop(api.patch(name, &params, &patch).await.unwrap()));
        futures::stream::iter(patched).buffer_unordered(PARALLEL).for_each(async |()| {}).await;
    };
    for round in 0..10 {
        let begin = Instant::now();
        change(round).await;
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(begin.elapsed())).await;
    }
    let longest = browser.value("window.longest").await.as_f64().unwrap();
    eprintln!("longest task of the browser with 200 changes a second: {longest:.0} ms");
    assert!(longest < 50.0 * SLACK, "{longest} ms");

    // Twenty open pages, all of which read.
    let mut pages = Vec::new();
    for _ in 0..20 {
        let mut stream = server.follow("%2Fset%2Fargocd%2Ffleet").await;
        pages.push(tokio::spawn(async move { stream.until("\u{0}never").await }));
    }
    for round in 10..15 {
        change(round).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (now, most) = (memory(&server, "VmRSS:") / 1024, memory(&server, "VmHWM:") / 1024);
    eprintln!("memory with 20 open pages on 10,000 Applications: {now} MiB, at most {most} MiB");
    assert!(now < 300, "{now} MiB");
    pages.iter().for_each(tokio::task::JoinHandle::abort);

    // A page that nothing happens on.
    tokio::time::sleep(Duration::from_secs(15)).await;
    browser.protocol("Performance.enable", json!({})).await;
    let tasks = async || {
        let found = browser.protocol("Performance.getMetrics", json!({})).await;
        let all = found["metrics"].as_array().unwrap().clone();
        let one = all.iter().find(|one| one["name"] == "TaskDuration").unwrap();
        one["value"].as_f64().unwrap()
    };
    let (page, program) = (tasks().await, processor_time(&server));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (page, program) = (tasks().await - page, processor_time(&server) - program);
    eprintln!(
        "a minute of an idle page: {:.2} s of the browser, {:.2} s of the program",
        page,
        program as f64 / 100.0
    );
    assert!(page < 3.0 && program < 300, "{page} s, {program} hundredths");
}
