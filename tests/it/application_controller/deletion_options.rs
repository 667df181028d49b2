//! What of an Application is deleted with it (SE-314, SE-326, SE-510).

use super::*;

const OPTIONS: &str = "argocd.argoproj.io/sync-options";

/// SE-314, SE-326: what is to be kept stays. SE-510: nothing is deleted without a finalizer, and
/// all three of them delete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_leaves_what_is_to_be_kept_se_314_se_326_se_510() {
    let world = World::start().await;
    let kept = [("kept", (OPTIONS, "Delete=false")), ("helm", ("helm.sh/resource-policy", "keep"))];
    let finalizers = [
        ("none", None),
        ("other", Some("example.com/other")),
        ("plain", Some(CASCADE)),
        ("foreground", Some("resources-finalizer.argocd.argoproj.io/foreground")),
        ("background", Some("resources-finalizer.argocd.argoproj.io/background")),
        ("by-spec", Some(CASCADE)),
    ];
    for (name, finalizer) in finalizers {
        for (object, annotation) in &kept {
            let object = format!("{name}-{object}");
            world
                .write(&format!("{name}/{object}.json"), &config_map(&object, "1", &[*annotation]));
        }
        world.write(&format!("{name}/one.json"), &config_map(&format!("{name}-one"), "1", &[]));
        let own = config_map(&format!("{name}-own"), "1", &[(OPTIONS, "Delete=true")]);
        world.commit_file(&format!("{name}/own.json"), &own);
        let mut app = world.application(name, name);
        app["metadata"]["finalizers"] = finalizer.into_iter().collect();
        if name == "by-spec" {
            app["spec"]["syncPolicy"] = json!({"syncOptions": ["Delete=false"]});
        }
        world.create_app(&app).await;
        world.sync_until_good(name, json!({})).await;
        world.delete_app(name).await;
        if name == "other" {
            let going = |app: &Value| !app["metadata"]["deletionTimestamp"].is_null();
            world.until(name, "held by somebody else", going).await;
            world.rest().await;
            world.patch(name, json!({"metadata": {"finalizers": null}})).await;
        }
        world.until(name, "gone", Value::is_null).await;
        let cascades = finalizer.is_some_and(|finalizer| finalizer.starts_with(CASCADE));
        for (object, is_left) in [
            ("one", !cascades || name == "by-spec"),
            ("own", !cascades),
            ("kept", true),
            ("helm", true),
        ] {
            let live = world.get("v1", "ConfigMap", "web", &format!("{name}-{object}")).await;
            let is_going = !live["metadata"]["deletionTimestamp"].is_null();
            assert_eq!(
                live.is_object() && !is_going,
                is_left,
                "SE-314, SE-326, SE-510 {name} {object}"
            );
        }
    }
}
