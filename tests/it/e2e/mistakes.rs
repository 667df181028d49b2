//! Invalid input deletes nothing: while a generation has errors, all Applications and
//! their resources are kept, and the set reports the errors and the pending deletions
//! (AS-140, AS-144, AS-148, AS-180).

use serde_json::{Value, json};

use crate::support::manifests::{plain, rolling, set};
use crate::support::recorder::Change;
use crate::support::{Kind, Log, Setup, World};

use super::external::{condition, condition_of_the_set};

const RENDER: &str = "RenderTemplateParamsError";
const GENERATOR: &str = "ApplicationGenerationFromParamsError";
const VALIDATION: &str = "ApplicationValidationError";

pub async fn invalid_input_deletes_no_application(mut world: World) {
    world.repository.commit("first", &[plain("a", "v1"), plain("b", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null))]);
    let mut good = set(&world, "fleet", &[("a", "dev"), ("b", "dev")], &strategy);
    for (at, element) in elements(&mut good).iter_mut().enumerate() {
        element["id"] = at.to_string().into();
    }
    world.create(Kind::ApplicationSet, good.clone()).await;
    world.start(&Setup::default()).await;
    world.until_synced(&["a", "b"]).await;

    let name = |text: &str| json!({ "template": { "metadata": { "name": text } } });
    let patch = |text: &str| json!({ "templatePatch": text });
    let generators = |generators: Value| json!({ "generators": generators });
    let with_elements = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut good = good.clone();
        change(elements(&mut good));
        json!({ "generators": good["spec"]["generators"] })
    };
    let twice = |list: &mut Vec<Value>| list.push(list[1].clone());
    let renamed = |list: &mut Vec<Value>| list[1]["name"] = "B_bad".into();
    let lost = |list: &mut Vec<Value>| {
        list.pop();
        list[0]["name"] = "".into();
    };
    let of_list = good["spec"]["generators"][0]["list"].clone();
    let mistakes = [
        (
            patch("metadata: {name: {{.id}}}"),
            VALIDATION,
            "metadata.name: is the number 0, must be a string",
        ),
        (patch("kind: AppProject"), VALIDATION, "kind: is \"AppProject\""),
        (patch("metadata: {finalizers: [{}]}"), VALIDATION, "metadata.finalizers[1]"),
        (patch("spec: here"), RENDER, "spec of the rendered patch"),
        (
            patch("spec: {syncPolicy: {automated: {prune: yes please}}}"),
            VALIDATION,
            "spec.syncPolicy.automated.prune",
        ),
        (patch("spec: {source: {path: 5}}"), VALIDATION, "spec.source.path: is the integer 5"),
        (name(""), VALIDATION, "metadata.name: renders to an empty name"),
        (name("App_{{.dir}}"), VALIDATION, "\"App_a\" is not a valid object name"),
        (name("one"), VALIDATION, "list.elements[0] and spec.generators[0].list.elements[1]"),
        (
            with_elements(&twice),
            VALIDATION,
            "list.elements[1] and spec.generators[0].list.elements[2]",
        ),
        (with_elements(&renamed), VALIDATION, "\"B_bad\" is not a valid object name"),
        (with_elements(&lost), VALIDATION, "metadata.name: renders to an empty name"),
        (generators(json!([{}])), GENERATOR, "spec.generators[0]"),
        (generators(json!([{ "lists": of_list }])), GENERATOR, "spec.generators[0]"),
        (generators(json!([{ "list": {} }])), GENERATOR, "spec.generators[0].list: has neither"),
    ];
    for (mistake, reason, words) in mistakes {
        world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": mistake })).await;
        let reported = reports(&world, reason, &[words]).await;
        world.wait_for_reconcile("fleet").await;
        nothing_deleted(&world, &reported);
        let mut fixed = good["spec"].clone();
        fixed["templatePatch"] = Value::Null;
        world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": fixed })).await;
        reports_no_error(&world).await;
    }
    world.until_calm("after all mistakes").await;
    nothing_deleted(&world, "after all mistakes");
    world.recorder.read(|log| {
        assert_eq!(log.all(Kind::Application).count(), 2, "{}", log.state());
        for name in ["a-config", "b-config"] {
            assert!(log.get(Kind::ConfigMap, name).is_some(), "{name}: {}", log.state());
        }
    });
    // Without errors, surplus Applications are deleted.
    let fewer = with_elements(&|list| drop(list.pop()));
    world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": fewer })).await;
    world
        .until("Application b goes", |log| log.get(Kind::Application, "b").is_none().then_some(()))
        .await;
    world.finish().await;
}

pub async fn a_renamed_application_is_kept_until_the_new_one_exists(mut world: World) {
    world
        .repository
        .commit("first", &[plain("a", "v1"), plain("b", "v1"), plain("c", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null))]);
    let mut good = set(&world, "fleet", &[("a", "dev"), ("b", "dev")], &strategy);
    world.create(Kind::ApplicationSet, good.clone()).await;
    world.start(&Setup::default()).await;
    world.until_synced(&["a", "b"]).await;

    // An Application that only the API server rejects.
    elements(&mut good)[1] = json!({ "name": world.tagged("c"), "dir": "c", "env": "dev" });
    let refused = "{{if eq .dir \"c\"}}spec: {source: {helm: {valuesObject: 5}}}{{end}}";
    good["spec"]["templatePatch"] = refused.into();
    world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": good["spec"] })).await;
    let (old, new) = (world.tagged("b"), world.tagged("c"));
    let waits =
        format!("application waits to be deleted until application {new} is written: {old}");
    let words = [new.as_str(), waits.as_str()];
    let reported = reports(&world, "UpdateApplicationError", &words).await;
    nothing_deleted(&world, &reported);

    // Once it is accepted, the new one is created, and then the old one deleted.
    world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": { "templatePatch": null } })).await;
    world.until_synced(&["a", "c"]).await;
    world
        .until("Application b goes", |log| log.get(Kind::Application, "b").is_none().then_some(()))
        .await;
    reports_no_error(&world).await;
    world.finish().await;
}

pub async fn a_running_rollout_deletes_nothing_because_of_invalid_input(mut world: World) {
    // The first step is blocked, so that the rollout does not end.
    let all = [plain("a", "v1"), plain("b", "v1"), plain("c", "v1")].concat();
    world.repository.commit("first", &all);
    let strategy = rolling(&[("dev", json!(0)), ("prod", json!(null))]);
    let members = [("a", "dev"), ("b", "prod"), ("c", "prod")];
    let mut fleet = set(&world, "fleet", &members, &strategy);
    fleet["spec"]["syncPolicy"] = json!({ "applicationsSync": "create-delete" });
    world.create(Kind::ApplicationSet, fleet.clone()).await;
    world.start(&Setup::default()).await;
    world
        .until("all three are there", |log| (log.all(Kind::Application).count() == 3).then_some(()))
        .await;
    // One element is missing, another one is misspelled.
    elements(&mut fleet).pop();
    elements(&mut fleet)[1]["name"] = "B_bad".into();
    let generators = json!({ "generators": fleet["spec"]["generators"] });
    world.patch(Kind::ApplicationSet, "fleet", &json!({ "spec": generators })).await;
    let waits = format!(
        "2 applications wait to be deleted until application B_bad is valid: {}, {}",
        world.tagged("b"),
        world.tagged("c")
    );
    let reported = reports(&world, VALIDATION, &[&waits]).await;
    world.wait_for_reconcile("fleet").await;
    nothing_deleted(&world, &reported);
    world.finish().await;
}

fn elements(set: &mut Value) -> &mut Vec<Value> {
    set["spec"]["generators"][0]["list"]["elements"].as_array_mut().unwrap()
}

/// Waits until the set reports the error; returns the message.
async fn reports(world: &World, reason: &str, words: &[&str]) -> String {
    condition_of_the_set(world, "ErrorOccurred", reason, words).await
}

/// Waits until the set reports no errors.
async fn reports_no_error(world: &World) {
    world
        .until("the set is well", |log| {
            let is = |kind, status| Some(condition(log, "fleet", kind)?["status"] == status);
            (is("ErrorOccurred", "False")? && is("ResourcesUpToDate", "True")?).then_some(())
        })
        .await;
}

/// Nothing was deleted or is being deleted.
pub fn nothing_deleted(world: &World, reported: &str) {
    world.recorder.read(|log: &Log| {
        let is_going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let deleted: Vec<String> = log
            .records
            .iter()
            .filter(|record| {
                record.kind != Kind::Event
                    && (record.change == Change::Deleted || is_going(&record.object))
            })
            .map(|record| format!("{:?} {}", record.kind, record.name()))
            .collect();
        assert!(deleted.is_empty(), "{deleted:?}: {reported}");
    });
}
