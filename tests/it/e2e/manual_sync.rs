//! Syncs that a user requests with `wavegate sync`, and their ends.

use std::process::Stdio;

use serde_json::{Value, json};

use super::external::is_complete;
use crate::support::manifests::{plain, rolling, set, with_waves};
use crate::support::{Kind, Setup, World};

/// The kill program, for SIGINT.
fn interrupt(process: u32) {
    let killed = std::process::Command::new("kill").args(["-INT", &process.to_string()]).status();
    assert!(killed.unwrap().success());
}

/// AS-364: it completes without a promotion.
pub async fn a_held_step_is_synced_manually(mut world: World) {
    world.repository.commit("first", &with_waves("qa", "v1"));
    let strategy = rolling(&[("qa", json!(0))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &[("qa", "qa")], &strategy)).await;
    world.start(&Setup::default()).await;
    let waits = |log: &crate::support::Log| {
        let set = log.get(Kind::ApplicationSet, "fleet")?;
        (set["status"]["applicationStatus"][0]["status"] == "Waiting").then_some(())
    };
    world.until("the step is held", waits).await;

    let (name, namespace) = (world.tagged("qa"), world.namespace.clone());
    let args = ["sync", "-n", &namespace, &name, "--timeout", "4m"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.contains("is held (maxUpdate is 0): it waits for this sync"), "{err}");
    let order = [
        "Requested",
        // Its wave is known once a comparison has found the hook.
        "PreSync",
        "PreSync hook Job",
        "Sync, wave -1",
        "ConfigMap",
        "Sync, wave 0",
        "Deployment",
        "Sync, wave 1",
        "PostSync hook Job",
        "Succeeded    successfully synced",
    ];
    let mut rest = out.as_str();
    for part in order {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in its place: {out}"));
        rest = &rest[at + part.len()..];
    }
    world.until("the rollout completes", |log| is_complete(log, "fleet").then_some(())).await;

    let (code, out, err) = world.wavegate(&["refresh", "-n", &namespace, &name, "--hard"]).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("Synced") && out.contains("Healthy"), "{out}");
    let both = ["refresh", "-n", &namespace, "appset/fleet", &name];
    let (code, out, err) = world.wavegate(&both).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains(&name) && out.contains("fleet"), "{out}");
    let (code, out, err) = world.wavegate(&["refresh", "-n", &namespace, &name, "no-such"]).await;
    assert_eq!(code, 1, "{err}");
    assert!(out.contains(&name) && err.contains("no-such: it does not exist"), "{out}{err}");
    for command in ["sync", "refresh", "terminate"] {
        let (code, _, err) = world.wavegate(&[command, "-n", &namespace, "fleet"]).await;
        assert_eq!(code, 2, "{err}");
        let want = format!("error: cannot {command}: fleet: is an ApplicationSet; ");
        assert!(err.starts_with(&want), "{err}");
    }
    let (code, _, err) = world.wavegate(&["terminate", "-n", &namespace, &name]).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no operation is running; the last one ended: Succeeded"), "{err}");
    let typo = ["sync", "-n", &namespace, &name, "--resource", ":ConfigMap:qa-confg"];
    let (code, _, err) = world.wavegate(&typo).await;
    assert_eq!(code, 2);
    assert!(
        err.contains(&format!("such resource, but :ConfigMap:{}/qa-config", world.target)),
        "{err}"
    );
    let only =
        ["sync", "-n", &namespace, &name, "--resource", ":ConfigMap:qa-config", "-o", "json"];
    let (code, out, err) = world.wavegate(&only).await;
    assert_eq!(code, 0, "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["resources"].as_array().unwrap().len(), 1, "{out}");
    assert_eq!(result["phase"], "Succeeded");
    world.finish().await;
}

/// A Job that never completes, as a PreSync hook.
fn hanging() -> Vec<(String, String)> {
    let hang = json!({"simulate.wavegate.dev/outcome": "hang"});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "wait", "annotations": {
            "argocd.argoproj.io/hook": "PreSync", "simulate.wavegate.dev/outcome": "hang",
        }},
        "spec": {"template": {"metadata": {"annotations": hang}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/job:1"}],
        }}},
    });
    let mut files = plain("qa", "v2");
    files.push(("apps/qa/job.yaml".to_owned(), format!("{job:#}\n")));
    files
}

pub async fn an_operation_is_followed_interrupted_and_terminated(mut world: World) {
    world.repository.commit("first", &hanging());
    world.create(Kind::ApplicationSet, set(&world, "fleet", &[("qa", "qa")], &Value::Null)).await;
    let (name, namespace) = (world.tagged("qa"), world.namespace.clone());
    let app = ["-n", namespace.as_str(), name.as_str()];
    let run = |args: &[&'static str]| {
        let args: Vec<&str> = [&args[..1], &app[..], &args[1..]].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let world = &world;
        async move { world.wavegate(&args.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };
    // Without a controller there is no Application, and later no start.
    let (code, _, err) = run(&["sync"]).await;
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("it does not exist"), "{err}");
    world.start(&Setup::default()).await;
    let exists = |log: &crate::support::Log| {
        let found = log.get(Kind::Application, "qa")?;
        found["status"]["reconciledAt"].is_string().then_some(())
    };
    world.until("it is compared", exists).await;
    let run = |args: &[&'static str]| {
        let args: Vec<&str> = [&args[..1], &app[..], &args[1..]].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let world = &world;
        async move { world.wavegate(&args.iter().map(String::as_str).collect::<Vec<_>>()).await }
    };

    let mut command = world.command(&["sync", "-n", &namespace, &name]).await;
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = |log: &crate::support::Log| {
        let state = &log.get(Kind::Application, "qa")?["status"]["operationState"];
        let waits = state["message"].as_str()?.contains("waiting for completion of hook");
        (state["phase"] == "Running" && waits).then_some(())
    };
    world.until("its hook runs", running).await;
    let (code, _, err) = run(&["sync"]).await;
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("an operation is running already (Running since"), "{err}");
    let terminate = format!("wavegate terminate -n {namespace} {name}");
    assert!(err.contains(&terminate), "{err}");

    interrupt(child.id());
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await.unwrap();
    let ended = ended.unwrap();
    let err = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{err}");
    assert!(err.contains("its operation goes on") && err.contains(&terminate), "{err}");

    let (code, out, err) = run(&["terminate", "--timeout", "4m"]).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("Terminating") && out.contains("Operation terminated"), "{out}");

    let (code, out, err) = run(&["sync", "--timeout", "2s"]).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("the operation has not ended in time"), "{err}");
    let (code, _, _) = run(&["terminate", "--no-wait"]).await;
    assert_eq!(code, 0);
    let over = |log: &crate::support::Log| {
        let app = log.get(Kind::Application, "qa")?;
        (app["status"]["operationState"]["phase"] == "Failed" && app["operation"].is_null())
            .then_some(())
    };
    world.until("it is terminated", over).await;
    let (code, out, err) = run(&["sync", "--no-wait", "-o", "json"]).await;
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["phase"], "Requested");
    let (code, out, err) = run(&["terminate"]).await;
    assert_eq!(code, 0, "{out}{err}");
    world.finish().await;
}

/// A request that no controller starts is not silent, and can be withdrawn.
pub async fn a_request_without_a_controller_is_withdrawn(world: World) {
    let name = world.tagged("alone");
    let application = json!({
        "metadata": {"name": name},
        "spec": {
            "project": "my-project",
            "source": {"repoURL": world.repository.url(), "path": "."},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": world.target},
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"], "retry": {"limit": 2}},
        },
    });
    world.create(Kind::Application, application).await;
    let namespace = world.namespace.clone();
    let args =
        ["sync", "-n", &namespace, &name, "--timeout", "11s", "--prune", "--info", "ticket=1"];
    let (code, out, err) = world.wavegate(&args).await;
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("no application controller has started the operation"), "{err}");
    let operation = |log: &crate::support::Log| {
        let operation = &log.get(Kind::Application, "alone")?["operation"];
        operation.is_object().then(|| operation.clone())
    };
    let operation = world.until("it is requested", operation).await;
    assert_eq!(operation["sync"], json!({"prune": true, "syncOptions": ["CreateNamespace=true"]}));
    assert_eq!(operation["retry"], json!({"limit": 2}));
    assert_eq!(operation["info"][1], json!({"name": "ticket", "value": "1"}));
    let (code, out, err) = world.wavegate(&["terminate", "-n", &namespace, &name]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("Withdrawn"), "{out}");
    world.finish().await;
}
