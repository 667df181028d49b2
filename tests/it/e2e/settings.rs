//! Keys of `argocd-cmd-params-cm` and `argocd-cm`: each has an effect, or is reported.

use serde_json::{Value, json};

use crate::support::cluster::patch_object;
use crate::support::manifests::{plain, set};
use crate::support::recorder::Log;
use crate::support::{Kind, Setup, World};

/// The notes of the Events about a ConfigMap with this reason.
fn notes(log: &Log, map: &str, reason: &str) -> Vec<String> {
    let events = log.all(Kind::Event).map(|(_, event)| event);
    let about = events.filter(|event| {
        let regarding = &event["regarding"];
        regarding["kind"] == "ConfigMap" && regarding["name"] == map && event["reason"] == reason
    });
    about.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

/// AS-092, AS-501: hidden directories count when the setting of the repo server says so; what
/// has no effect and what does not exist are a line in the log and an Event of the ConfigMap,
/// once for each change; keys of other programs are neither.
pub async fn settings_of_argo_cd_act_or_are_reported_as_501(mut world: World) {
    const PARAMS: &str = "argocd-cmd-params-cm";
    let mut files = plain("seen", "v1");
    let hidden = plain("hidden", "v1").into_iter();
    files.extend(hidden.map(|(_, text)| (".platform/hidden/config.yaml".to_owned(), text)));
    world.repository.commit("first", &files);
    let namespace = world.namespace.clone();
    let params = json!({
        "metadata": {"name": PARAMS},
        "data": {
            "reposerver.include.hidden.directories": "true",
            "reposerver.git.request.timeout": "3s",
            "controler.sync.timeout.seconds": "60",
            "server.insecure": "true",
            "otlp.address": "",
        },
    });
    world.create_in(&namespace, Kind::ConfigMap, params).await;
    let map = json!({
        "metadata": {"name": "argocd-cm"},
        "data": {"kustomize.version.v3.5.1": "bin/kustomize-3", "ui.cssurl": "./custom.css"},
    });
    world.create_in(&namespace, Kind::ConfigMap, map).await;
    let mut fleet = set(&world, "fleet", &[], &Value::Null);
    fleet["spec"]["generators"] = json!([{"git": {
        "repoURL": world.repository.url(), "revision": "HEAD", "directories": [{"path": "*/*"}],
    }}]);
    let template = &mut fleet["spec"]["template"];
    template["metadata"] = json!({"name": world.tagged("{{.path.basename}}")});
    template["spec"]["source"]["path"] = "{{.path.path}}".into();
    world.create(Kind::ApplicationSet, fleet).await;
    world.start_process(&Setup::default()).await;
    for name in ["seen", "hidden"] {
        let reached = |log: &Log| log.get(Kind::Application, name).map(|_| ());
        world.until(&format!("{name} is generated"), reached).await;
    }

    let (unknown, unused) = ("SettingNotUnderstood", "SettingWithoutEffect");
    world
        .until("an Event for each kind of problem", |log| {
            let all = [(PARAMS, unknown), (PARAMS, unused), ("argocd-cm", unknown)];
            all.iter().all(|(map, reason)| notes(log, map, reason).len() == 1).then_some(())
        })
        .await;
    world.recorder.read(|log| {
        let note = &notes(log, PARAMS, unknown)[0];
        assert_eq!(
            note,
            "controler.sync.timeout.seconds is no setting of Argo CD 3.5 or Wavegate, and has no \
             effect; did you mean controller.sync.timeout.seconds?"
        );
        let note = &notes(log, PARAMS, unused)[0];
        assert_eq!(
            note,
            "reposerver.git.request.timeout is accepted without effect: requests to Git servers \
             have fixed limits (docs/reference/limits.md)"
        );
        let note = &notes(log, "argocd-cm", unknown)[0];
        assert!(note.contains("kustomize.version.v3.5.1 of ConfigMap argocd-cm"), "{note}");
    });
    let text = world.controller_log();
    for line in
        ["reposerver.git.request.timeout is", "controler.sync.timeout.seconds is no setting"]
    {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
    for silent in ["server.insecure", "ui.cssurl", "otlp.address"] {
        assert!(!text.contains(silent), "{silent}: {text}");
    }

    // A change is reported; what stays is not reported again.
    let patch =
        json!({"data": {"reposerver.git.request.timeout": null, "otlp.address": "otel:4317"}});
    patch_object(&world.client, Kind::ConfigMap, &namespace, PARAMS, &patch).await.unwrap();
    world
        .until("an Event of the change", |log| {
            notes(log, PARAMS, unused)
                .iter()
                .any(|note| note.starts_with("otlp.address"))
                .then_some(())
        })
        .await;
    world.recorder.read(|log| {
        assert_eq!(notes(log, PARAMS, unused).len(), 2);
        assert_eq!(notes(log, PARAMS, unknown).len(), 1);
    });
    world.finish().await;
}
