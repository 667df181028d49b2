//! A server that is busy: it refuses all requests of the controller with code 429 for a
//! while, in the middle of a rollout.

use std::time::Duration;

use http::{Method, Request};
use kube_sim::{Effect, InjectedFault, RequestRecord};
use serde_json::{Value, json};

use crate::support::cluster::{JSON, send};
use crate::support::invariants::{self, Steps};
use crate::support::manifests::{members, rolling, set, with_waves};
use crate::support::{Kind, Setup, World};

/// Requests that are refused before the server has time again.
const REFUSALS: u64 = 4;
const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// Nothing is done twice, and no operation fails: a refused request was not executed, and is
/// repeated when the server says.
pub async fn a_busy_server_delays_a_rollout_and_breaks_nothing(mut world: World) {
    if !can_refuse_one_user(&world).await {
        return world.finish().await;
    }
    let (dev, prod) = (members("dev", 2), members("prod", 4));
    let apps: Vec<(String, String)> = dev.iter().chain(&prod).cloned().collect();
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let commit = |world: &World, version: &str| {
        let files = apps.iter().flat_map(|(name, _)| with_waves(name, version));
        // Long enough that the requests are refused in the middle.
        let slow = r#""simulate.wavegate.dev/delay": "2s", "simulate.wavegate.dev/outcome""#;
        let slowed = |text: String| text.replace(r#""simulate.wavegate.dev/outcome""#, slow);
        let files: Vec<_> = files.map(|(path, text)| (path, slowed(text))).collect();
        world.repository.commit(version, &files)
    };
    let first = commit(&world, "v1");
    let steps = Steps::default()
        .step(dev.iter().map(|(name, _)| name), None)
        .step(prod.iter().map(|(name, _)| name), Some(2));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(2))]);
    let mut set = set(&world, "fleet", &all, &strategy);
    set["spec"]["template"]["spec"]["syncPolicy"] = json!({ "retry": { "limit": 0 } });
    world.create(Kind::ApplicationSet, set).await;
    let user = format!("user-of-{}", world.namespace);
    permit(&world, &user).await;
    world.start_process_as(&Setup::default(), &user).await;

    // In the middle of the first step: what is under way goes on where it was.
    world
        .until("dev-00 is synced", |log| {
            let app = log.get(Kind::Application, "dev-00")?;
            invariants::is_in_flight(app).then_some(())
        })
        .await;
    be_busy(&world, &user).await;
    let is_everywhere = async |revision: &str| {
        world.until_rolled_out("fleet", &steps, revision).await;
    };
    is_everywhere(&first).await;
    // From the first request on.
    let second = commit(&world, "v2");
    let before = refused(&world, &user).await;
    refuse(&world, &user).await;
    world.refresh("dev-00").await;
    until_refused(&world, &user, before).await;
    admit(&world, &user).await;
    is_everywhere(&second).await;
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        let failed = log
            .of(Kind::Application)
            .map(|record| &record.object["status"]["operationState"])
            .find(|state| matches!(state["phase"].as_str(), Some("Failed" | "Error")));
        assert_eq!(failed, None);
    });
    remove(&world, &user).await;
    world.finish().await;
}

/// Refuses requests until the controller has noticed it, then no more.
async fn be_busy(world: &World, user: &str) {
    let before = refused(world, user).await;
    refuse(world, user).await;
    until_refused(world, user, before).await;
    admit(world, user).await;
}

/// Waits until so many more requests have been refused than `before`.
async fn until_refused(world: &World, user: &str, before: u64) {
    let asking = async {
        while refused(world, user).await < before + REFUSALS {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let asked = tokio::time::timeout(World::wait_limit(), asking).await;
    assert!(asked.is_ok(), "the controller asks no more\n{}", world.controller_log());
}

/// Whether the server can refuse the requests of one user.
async fn can_refuse_one_user(world: &World) -> bool {
    if world.is_embedded() {
        return true;
    }
    let levels = Request::get(format!("{FLOW_CONTROL}/prioritylevelconfigurations?limit=1"));
    let answer = world.client.request::<Value>(levels.body(Vec::new()).unwrap()).await;
    if answer.is_err() {
        eprintln!("skipped: this server has no {FLOW_CONTROL} (Kubernetes 1.29)");
    }
    answer.is_ok()
}

/// A real server: the user may do everything, and has a level of its own.
async fn permit(world: &World, user: &str) {
    if world.is_embedded() {
        return;
    }
    let rbac = "rbac.authorization.k8s.io";
    let subject = json!({ "kind": "User", "apiGroup": rbac, "name": user });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": user },
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [subject],
    });
    let path = format!("/apis/{rbac}/v1/clusterrolebindings");
    send(&world.client, Method::POST, &path, JSON, &binding).await.unwrap();
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": { "name": user },
        "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Reject" },
        }},
    });
    let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
    send(&world.client, Method::POST, &path, JSON, &level).await.unwrap();
}

/// All requests of the controller are refused from now on.
async fn refuse(world: &World, user: &str) {
    if let Some(server) = world.server() {
        let is_controller = |request: &RequestRecord| request.client == "wavegate";
        // Not more, however late the test notices it: no request may be given up.
        let fault = InjectedFault::new(Effect::Status(429), is_controller);
        return server.inject(fault.times(2 * REFUSALS as usize));
    }
    let everything = json!({
        "subjects": [{ "kind": "User", "user": { "name": user } }],
        "resourceRules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
            "clusterScope": true,
        }],
        "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": { "name": user },
        "spec": {
            "priorityLevelConfiguration": { "name": user }, "matchingPrecedence": 10,
            "rules": [everything],
        },
    });
    let path = format!("{FLOW_CONTROL}/flowschemas");
    send(&world.client, Method::POST, &path, JSON, &schema).await.unwrap();
}

async fn admit(world: &World, user: &str) {
    match world.server() {
        Some(server) => server.clear_faults(),
        None => delete(world, &format!("{FLOW_CONTROL}/flowschemas/{user}")).await,
    }
}

async fn remove(world: &World, user: &str) {
    if !world.is_embedded() {
        delete(world, &format!("{FLOW_CONTROL}/prioritylevelconfigurations/{user}")).await;
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        delete(world, &format!("{bindings}/{user}")).await;
    }
}

async fn delete(world: &World, path: &str) {
    send(&world.client, Method::DELETE, path, JSON, &json!({})).await.unwrap();
}

/// How many requests of the controller were refused as too many so far.
async fn refused(world: &World, user: &str) -> u64 {
    if let Some(server) = world.server() {
        return server.requests().iter().filter(|request| request.code == 429).count() as u64;
    }
    let metrics = Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = world.client.request_text(metrics).await.unwrap();
    let level = format!("priority_level=\"{user}\"");
    let of_level = metrics.lines().filter(|line| {
        line.starts_with("apiserver_flowcontrol_rejected_requests_total{") && line.contains(&level)
    });
    of_level.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}
