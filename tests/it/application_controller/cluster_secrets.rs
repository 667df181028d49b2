//! What Secrets of clusters say together and one by one: names and servers that occur twice,
//! changes while others wait, and mistakes.

use super::limits::{Far, condition};
use super::*;

/// A finalizer with which a deletion takes the resources along.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";

impl World {
    /// Changes the Secret of a cluster.
    async fn patch_cluster(&self, name: &str, patch: Value) {
        let secrets = self.api("v1", "Secret", NAMESPACE);
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

/// A name that two Secrets have means neither of them: nothing is deployed, nothing is deleted
/// and no deletion is given up, until it is unique.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_two_clusters_means_neither() {
    let world = World::start().await;
    let (first, second) = (Far::start(&["web"]).await, Far::start(&["web"]).await);
    world.cluster("a", json!({"name": "far", "server": first.address}), json!({})).await;
    world.cluster("b", json!({"name": "other", "server": second.address}), json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("new/two.json", &config_map("two", "1", &[]));
    world.commit();
    world.deploy("app", "app", "far").await;
    world.patch("app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    world.until_good("app").await;

    world.patch_cluster("b", json!({"stringData": {"name": "far"}})).await;
    let text = format!(
        "spec.destination.name: there are 2 clusters with the same name: [{} {}], of the Secrets \
         argocd/a, argocd/b; give each of them its own name",
        first.address, second.address
    );
    world.deploy("new", "new", "far").await;
    world.refused("new", "InvalidSpecError", &text).await;
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", &text)).await;
    world
        .api("argoproj.io/v1alpha1", "Application", NAMESPACE)
        .delete("app", &DeleteParams::default())
        .await
        .unwrap();
    let held = |app: &Value| condition(app, "DeletionError", "with the same name");
    world.until("app", "held", held).await;
    assert!(first.has("ConfigMap", "web", "one").await);
    assert!(!first.has("ConfigMap", "web", "two").await);
    // By its URL, a cluster is unique.
    let mut by_url = world.application("by-url", "new");
    by_url["spec"]["destination"]["server"] = second.address.clone().into();
    by_url["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&by_url).await;
    world.until_good("by-url").await;
    assert!(second.has("ConfigMap", "web", "two").await);

    world.patch_cluster("b", json!({"stringData": {"name": "other"}})).await;
    world.until("app", "gone", Value::is_null).await;
    assert!(!first.has("ConfigMap", "web", "one").await);
    world.until_good("new").await;
    assert!(first.has("ConfigMap", "web", "two").await);
}
