//! Sets and Applications outside the control plane's namespace.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use wavegate_cluster::watch::object::kind_resource;

use crate::support::manifests::{IN_CLUSTER, members, rolling, set, with_deployment};
use crate::support::{Kind, Setup, World};

pub async fn a_set_in_another_namespace_is_synced_there(mut world: World) {
    let apps = members("dev", 2);
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let files: Vec<_> =
        apps.iter().flat_map(|(name, _)| with_deployment(name, "v1", "succeed")).collect();
    world.repository.commit("first", &files);
    let everywhere = json!({ "spec": { "sourceNamespaces": ["*"] } });
    world.patch(Kind::AppProject, "my-project", &everywhere).await;
    let elsewhere = world.target.clone();
    let fleet = set(&world, "fleet", &all, &rolling(&[("dev", json!(1))]));
    world.create_in(&elsewhere, Kind::ApplicationSet, fleet).await;
    world.start(&Setup { namespaces: vec![elsewhere], ..Setup::default() }).await;
    // The second one starts only when the first is Healthy.
    world
        .until("both are deployed", |log| {
            apps.iter().all(|(name, _)| log.get(Kind::Deployment, name).is_some()).then_some(())
        })
        .await;
    world.finish().await;
}

/// Credentials of a project are not for sets in namespaces that it does not permit: their
/// generators read none of its repositories, and say which field would permit it (AS-091).
pub async fn a_set_reads_no_repository_of_a_project_that_is_closed_to_its_namespace_as_091(
    mut world: World,
) {
    world.repository.commit("first", &with_deployment("found", "v1", "succeed"));
    let elsewhere = world.target.clone();
    let tag = world.tagged("found");
    let mut fleet = set(&world, "fleet", &[], &Value::Null);
    fleet["spec"]["generators"] = json!([{"git": {
        "repoURL": world.repository.url(), "revision": "HEAD", "directories": [{"path": "apps/*"}],
    }}]);
    fleet["spec"]["template"]["metadata"] = json!({"name": tag});
    fleet["spec"]["template"]["spec"]["source"]["path"] = "{{.path.path}}".into();
    fleet["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_in(&elsewhere, Kind::ApplicationSet, fleet).await;
    let refusing = format!("!{elsewhere}");
    let list = |patterns: Value| json!({ "spec": { "sourceNamespaces": patterns } });
    let closed = list(json!(["*", refusing]));
    world.patch(Kind::AppProject, "my-project", &closed).await;
    world.start(&Setup { namespaces: vec![elsewhere.clone()], ..Setup::default() }).await;

    let sets: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &elsewhere, &kind_resource("ApplicationSet"));
    let refused = async {
        loop {
            let set = sets.get("fleet").await.unwrap();
            let conditions = set.data["status"]["conditions"].as_array().into_iter().flatten();
            let mut errors = conditions.filter(|one| one["type"] == "ErrorOccurred");
            let message = errors.next().and_then(|error| error["message"].as_str());
            if message.is_some_and(|text| text.contains("none of its repositories is read")) {
                return message.unwrap_or_default().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let message = tokio::time::timeout(World::wait_limit(), refused).await.unwrap();
    for text in [
        "spec.template.spec.project: AppProject my-project",
        &format!("namespace {elsewhere}"),
        "add the namespace to spec.sourceNamespaces of the project",
    ] {
        assert!(message.contains(text), "{text}: {message}");
    }
    let applications: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &elsewhere, &kind_resource("Application"));
    assert!(applications.get_opt(&tag).await.unwrap().is_none());

    world.patch(Kind::AppProject, "my-project", &list(json!([elsewhere]))).await;
    world.until("it is deployed", |log| log.get(Kind::Deployment, "found").map(|_| ())).await;
    world.finish().await;
}

/// The rollout waits for Applications that nobody reconciles, says which annotation excludes
/// them, and how to remove it: of the Application, then of the Secret of its cluster (SE-380).
pub async fn an_excluded_cluster_is_the_reason_of_a_wait_as_380(mut world: World) {
    const SKIP: &str = "argocd.argoproj.io/skip-reconcile";
    world.repository.commit("first", &with_deployment("one", "v1", "succeed"));
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let here = json!({
        "metadata": {
            "name": "here", "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            "annotations": {SKIP: "true"},
        },
        "stringData": {"name": "here", "server": IN_CLUSTER},
    });
    let here = serde_json::from_value(here).unwrap();
    secrets.create(&PostParams::default(), &here).await.unwrap();
    let mut fleet = set(&world, "fleet", &[("one", "dev")], &rolling(&[("dev", json!(null))]));
    let metadata = &mut fleet["spec"]["template"]["metadata"];
    metadata["annotations"] = json!({ SKIP: "true" });
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup::default()).await;

    let (name, namespace) = (world.tagged("one"), world.namespace.clone());
    let own = format!("its annotation {SKIP} excludes it from reconciling");
    let of_cluster =
        format!("the annotation {SKIP} of the cluster Secret {namespace}/here excludes it");
    let annotate = |object: &str| format!("kubectl -n {namespace} annotate {object} {SKIP}-");
    for (reason, command) in
        [(own, annotate(&format!("application {name}"))), (of_cluster, annotate("secret here"))]
    {
        world
            .until(&reason, |log| {
                let set = log.get(Kind::ApplicationSet, "fleet")?;
                let waits = set["status"]["rollout"]["waitingFor"].as_array()?;
                waits.first()?["reason"].as_str()?.contains(&reason).then_some(())
            })
            .await;
        for arguments in [&["status", "fleet", "-n"][..], &["explain", "fleet", "-n"]] {
            let (code, out, err) = world.wavegate(&[arguments, &[&namespace]].concat()).await;
            assert_eq!(code, 0, "{arguments:?}: {out}{err}");
            assert!(out.contains(&reason), "{arguments:?}: {reason}: {out}");
            assert!(arguments[0] != "explain" || out.contains(&command), "{command}: {out}");
        }
        let template = json!({"spec": {"template": {"metadata": {"annotations": {SKIP: null}}}}});
        world.patch(Kind::ApplicationSet, "fleet", &template).await;
    }
    let include = json!({"metadata": {"annotations": {SKIP: null}}});
    secrets.patch("here", &PatchParams::default(), &Patch::Merge(&include)).await.unwrap();
    world.until("it is deployed", |log| log.get(Kind::Deployment, "one").map(|_| ())).await;
    world.finish().await;
}
