//! Sets and Applications outside the control plane's namespace.

use serde_json::json;

use crate::support::manifests::{members, rolling, set, with_deployment};
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
