//! Health scripts of the ConfigMap `argocd-cm`, as waves, hooks and Applications of
//! Applications wait for them (SE-441, SE-442, SE-468, SE-480 … SE-485).

#![cfg(feature = "lua")]

use super::custom_health::{after, define, health, next_wave, report, resource, until_health};
use super::limits::settings;
use super::refusals::conditions;
use super::*;

const GROUP: &str = "example.com";

/// A world with these keys of `argocd-cm`, whose scripts run in processes of the program.
async fn world(keys: &[(&str, &str)]) -> World {
    wavegate_sandbox::start_workers_by(env!("CARGO_BIN_EXE_wavegate").into());
    World::with(settings(keys)).await
}

fn named(kind: &str, name: &str, spec: Value, annotations: Value) -> String {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    })
    .to_string()
}

/// SE-480, SE-481, SE-485: a script decides when a resource is ready, also where the generic
/// assessment holds nothing; each version of an object is evaluated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wave_waits_for_what_a_script_says() {
    let script = "hs = {}\n\
        if obj.status ~= nil and obj.status.steps ~= nil then\n\
        \x20 for i, step in ipairs(obj.status.steps) do\n\
        \x20   if step.name == 'last' then\n\
        \x20     hs.status = 'Healthy'\n\
        \x20     hs.message = 'step ' .. i .. ' of generation ' .. obj.metadata.generation\n\
        \x20     return hs\n\
        \x20   end\n\
        \x20 end\n\
        end\n\
        hs.status = 'Progressing'\n\
        hs.message = 'waiting for the last step'\n\
        return hs\n";
    let world = world(&[("resource.customizations.health.example.com_Backup", script)]).await;
    define(&world, GROUP, "Backup", Value::Null).await;
    world.write("app/one.json", &resource(GROUP, "Backup"));
    let revision = world.commit_file("app/after.json", &after());
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    until_health(&world, "Progressing", "waiting for the last step").await;
    assert!(!next_wave(&world).await);
    report(&world, GROUP, "Backup", json!({"steps": [{"name": "first"}]})).await;
    let seen = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default();
        message.contains("waiting for the last step")
    };
    let app = world.until("app", "waiting for the script", seen).await;
    assert_eq!(phase(&app), "Running");
    assert!(!next_wave(&world).await, "the script sees no last step");
    report(&world, GROUP, "Backup", json!({"steps": [{"name": "first"}, {"name": "last"}]})).await;
    let app = world.until_good("app").await;
    assert_eq!(phase(&app), "Succeeded");
    assert!(next_wave(&world).await);
    let want = ("Healthy".to_owned(), "step 2 of generation 1".to_owned());
    assert_eq!(health(&app, "one"), want);
    assert_eq!(conditions(&app, "SyncWarning"), [""; 0], "nothing is without effect");
}

/// SE-441, SE-480, SE-484: scripts go before rules, an exact name before a wildcard, and the
/// libraries are open only where they are opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_go_before_rules_and_names_before_wildcards() {
    let map = "apps/Deployment:\n  health.lua: return {status='Suspended', message='by script'}\n\
        '*.example.com/*':\n  health.lua: return {status='Healthy', message=('open ' .. obj.kind):upper()}\n\
        \x20 health.lua.useOpenLibs: true\n\
        b.example.com/Gadget:\n  health.lua: return {status='Healthy', message='exact'}\n";
    let world = world(&[
        ("resource.customizations", map),
        (
            "resource.customizations.health.c.example.com_Gadget",
            "return {status='Healthy', message=string.upper('x')}",
        ),
        (
            "resource.customizations.health.d.example.com_Gadget",
            "return {status='Healthy', message=string.upper('x')}",
        ),
        ("resource.customizations.useOpenLibs.d.example.com_Gadget", "true"),
    ])
    .await;
    for group in ["a", "b", "c", "d"] {
        let group = format!("{group}.example.com");
        define(&world, &group, "Gadget", Value::Null).await;
        let mut gadget: Value = serde_json::from_str(&resource(&group, "Gadget")).unwrap();
        gadget["metadata"]["name"] = group.clone().into();
        world.write(&format!("app/{group}.json"), &gadget.to_string());
    }
    let revision = world.commit_file("app/web.json", &deployment("web", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    let wanted = [
        ("web", "Suspended", "by script"),
        ("a.example.com", "Healthy", "OPEN GADGET"),
        ("b.example.com", "Healthy", "exact"),
        ("d.example.com", "Healthy", "X"),
    ];
    let is = |app: &Value, (name, status, message): &(&str, &str, &str)| {
        health(app, name) == ((*status).to_owned(), (*message).to_owned())
    };
    // On a slow machine a script may be stopped, and tried again later.
    let app = world
        .until("app", "assessed", |app| {
            settled(app)
                && health(app, "c.example.com").1.starts_with("<string>:1: attempt to index nil")
                && wanted.iter().all(|row| is(app, row))
        })
        .await;
    assert_eq!(health(&app, "c.example.com").0, "Unknown");
}

/// SE-442, SE-482, SE-483 (V-150, V-151): every result of a script, and what its errors hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_fails_makes_its_resource_unknown_and_holds_nothing_else() {
    let script = "local case = obj.spec.case\n\
        if case == 'empty' then return {} end\n\
        if case == 'great' then return {status='Great'} end\n\
        if case == 'five' then return 5 end\n\
        if case == 'error' then return obj.status.missing.field end\n\
        if case ~= 'nothing' then return {status=case, message='m'} end\n";
    let world = world(&[("resource.customizations.health.example.com_Case", script)]).await;
    define(&world, GROUP, "Case", Value::Null).await;
    let cases = ["empty", "nothing", "great", "five", "error", "Healthy", "Suspended", "Degraded"];
    for case in cases {
        let name = case.to_lowercase();
        world.write(
            &format!("app/{name}.json"),
            &named("Case", &name, json!({"case": case}), json!({})),
        );
    }
    world.write("other/one.json", &config_map("other", "1", &[]));
    let wave = json!({"argocd.argoproj.io/sync-wave": "-1"});
    world.write("held/one.json", &named("Case", "held", json!({"case": "error"}), wave));
    world.write("held/after.json", &after());
    let hook = json!({"argocd.argoproj.io/hook": "PreSync"});
    world.write("hooked/one.json", &named("Case", "hook", json!({"case": "error"}), hook));
    world.commit_file("hooked/two.json", &config_map("behind", "1", &[]));
    for name in ["app", "other", "held", "hooked"] {
        let more = json!({"spec": {"syncPolicy": {"automated": {}, "retry": {"limit": 0}}}});
        world.create_with(name, name, more).await;
    }
    world.until_good("other").await;
    let wanted = [
        ("great", "Unknown", "Lua returned an invalid health status"),
        ("five", "Unknown", "expect table output from Lua script, not number"),
        ("error", "Unknown", "<string>:5: attempt to index nil with 'missing'"),
        ("healthy", "Healthy", "m"),
        ("suspended", "Suspended", "m"),
        ("degraded", "Degraded", "m"),
    ];
    let is_assessed = |app: &Value, (name, status, message): &(&str, &str, &str)| {
        health(app, name) == ((*status).to_owned(), (*message).to_owned())
    };
    let app = world
        .until("app", "assessed", |app| {
            settled(app)
                && phase(app) == "Succeeded"
                && wanted.iter().all(|row| is_assessed(app, row))
                && row(app, "empty")["health"].is_null()
                && row(app, "nothing")["health"].is_null()
        })
        .await;
    assert!(is(&app, "Synced", "Unknown"), "{}", app["status"]["health"]);
    for name in ["empty", "nothing"] {
        assert!(row(&app, name)["health"].is_null(), "{}", row(&app, name));
    }
    let want = "error setting app health: failed to get resource health for \"Case\" with name \
                \"error\" in namespace \"web\": <string>:5: attempt to index nil with 'missing' \
                (and 1 more)";
    assert_eq!(conditions(&app, "ComparisonError"), [want]);

    // What waits for the health is held, and says why.
    let waits = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default();
        phase(app) == "Running" && message.contains("health cannot be determined: <string>:5:")
    };
    world.until("held", "waiting", waits).await;
    assert!(!next_wave(&world).await);
    let failed = |app: &Value| settled(app) && !matches!(phase(app), "" | "Running" | "Succeeded");
    let hooked = world.until("hooked", "failed", failed).await;
    let results = hooked["status"]["operationState"]["syncResult"]["resources"].to_string();
    assert!(results.contains("failed to get resource health: <string>:5:"), "{results}");
    assert!(world.get("v1", "ConfigMap", "web", "behind").await.is_null());
    // A status with the field repairs it.
    let patch = json!({"status": {"missing": {"field": {"status": "Healthy"}}}});
    world.patch_status_of(("example.com/v1", "Case"), "web", "held", patch).await;
    world.until_good("held").await;
    assert!(next_wave(&world).await);
}

/// SE-484 (V-152): what runs away is stopped after a second, and others go on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_runs_away_is_stopped() {
    let attacks = [
        ("Loop", "while true do pcall(function() while true do end end) end"),
        ("Hog", "local t = {} for i = 1, 1e9 do t[i] = {i} end"),
        ("Rep", "return {status='Healthy', message=string.rep('x', 2e9)}"),
        ("Talk", "return {status='Healthy', message=string.rep('x', 1e6)}"),
        ("Exit", "os.exit(0)"),
        ("File", "return {status='Healthy', message=io.open('/etc/passwd'):read('*a')}"),
        ("Env", "return {status='Healthy', message=os.getenv('PATH')}"),
        ("Load", "return loadstring('return {}')()"),
    ];
    let keys: Vec<(String, &str)> = attacks
        .iter()
        .flat_map(|(kind, script)| {
            let key = |type_: &str| format!("resource.customizations.{type_}.example.com_{kind}");
            [(key("health"), *script), (key("useOpenLibs"), "true")]
        })
        .collect();
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, text)| (key.as_str(), *text)).collect();
    let world = world(&keys).await;
    for (kind, _) in attacks {
        define(&world, GROUP, kind, Value::Null).await;
        let name = kind.to_lowercase();
        world.write(&format!("app/{name}.json"), &named(kind, &name, json!({}), json!({})));
    }
    let revision = world.commit_file("other/one.json", &config_map("other", "1", &[]));
    for name in ["app", "other"] {
        world.create_app(&world.application(name, name)).await;
        world.sync(name, json!({"revision": revision})).await;
    }
    world.until_good("other").await;
    // Which is said of the others only on a slow machine, until they are tried again.
    let is_stopped = |app: &Value, kind: &str| {
        let message = health(app, &kind.to_lowercase()).1;
        !matches!(kind, "Loop" | "Hog") && message.contains("was stopped after")
    };
    let all = |app: &Value| {
        settled(app)
            && attacks.iter().all(|(kind, _)| {
                !health(app, &kind.to_lowercase()).0.is_empty() && !is_stopped(app, kind)
            })
    };
    let app = world.until("app", "assessed", all).await;
    let of = |name: &str| health(&app, name);
    assert_eq!(
        of("loop"),
        ("Unknown".to_owned(), "the script was stopped after 1000 ms".to_owned())
    );
    for name in ["hog", "rep", "exit", "file", "env", "load"] {
        assert_eq!(of(name).0, "Unknown", "{name}: {}", of(name).1);
    }
    assert!(
        of("rep").1.contains("memory") || of("rep").1.contains("resulting string too large"),
        "{}",
        of("rep").1
    );
    for (name, word) in [
        ("exit", "attempt to call a nil"),
        ("file", "attempt to index nil"),
        ("env", "attempt to call a nil"),
        ("load", "attempt to call a nil"),
    ] {
        assert!(of(name).1.contains(word), "{name}: {}", of(name).1);
    }
    let (status, message) = of("talk");
    assert_eq!((status.as_str(), message.chars().count()), ("Healthy", 2049));
    assert!(is(&app, "Synced", "Unknown"), "{}", app["status"]["health"]);
}

/// SE-468 (V-153): the snippet that people use for Applications of Applications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_waits_for_its_child_by_the_script_of_applications() {
    let script = "hs = {}\nhs.status = \"Progressing\"\nhs.message = \"\"\n\
        if obj.status ~= nil then\n  if obj.status.health ~= nil then\n\
        \x20   hs.status = obj.status.health.status\n\
        \x20   if obj.status.health.message ~= nil then\n\
        \x20     hs.message = obj.status.health.message\n    end\n  end\nend\nreturn hs\n";
    let world = world(&[("resource.customizations.health.argoproj.io_Application", script)]).await;
    let mut child = world.application("one", "child");
    child["apiVersion"] = "argoproj.io/v1alpha1".into();
    child["kind"] = "Application".into();
    child["spec"]["syncPolicy"] = json!({"automated": {}});
    world.write("app/one.json", &child.to_string());
    world.write("app/after.json", &after());
    define(&world, GROUP, "Backup", json!({"observedGeneration": -1})).await;
    world.write("child/backup.json", &named("Backup", "backup", json!({}), json!({})));
    let revision = world.commit();
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({"revision": revision})).await;
    let running = |app: &Value| phase(app) == "Running" && health(app, "one").0 == "Progressing";
    world.until("app", "waiting for the child", running).await;
    let progressing = |app: &Value| app["status"]["health"]["status"] == "Progressing";
    world.until("one", "progressing", progressing).await;
    assert!(!next_wave(&world).await);
    let api = world.api("example.com/v1", "Backup", "web");
    let status = |word: &str| {
        Patch::Merge(json!({"status": {"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": word, "reason": "Failed", "message": "it failed"}]}}))
    };
    let params = PatchParams::default();
    api.patch_status("backup", &params, &status("True")).await.unwrap();
    world.until("app", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
    assert!(next_wave(&world).await, "the child is Healthy");
    api.patch_status("backup", &params, &status("False")).await.unwrap();
    let degraded =
        |app: &Value| is(app, "Synced", "Degraded") && health(app, "one").0 == "Degraded";
    world.until("app", "as its child", degraded).await;
}

/// SE-480: actions are run by Argo CD's API server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_of_actions_are_reported() {
    let key = "resource.customizations.actions.ConfigMap";
    let world = world(&[(key, "definitions: []")]).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    let app = world.sync_until_good("app", json!({"revision": revision})).await;
    assert!(condition(&app, "SyncWarning", key), "{}", app["status"]["conditions"]);
}

/// SE-517: a hook of a deletion whose health is unknown has failed: what it had to do may not be
/// done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_of_a_deletion_that_is_unknown_has_failed_se_517() {
    let script = "if obj.status ~= nil then return {status = 'Healthy'} end\n\
                  return {status = 'Unknown', message = 'nobody can say'}\n";
    let world = world(&[("resource.customizations.health.example.com_Backup", script)]).await;
    define(&world, GROUP, "Backup", Value::Null).await;
    let hook = json!({HOOK: "PreDelete"});
    world.write("app/hook.json", &named("Backup", "last", json!({}), hook));
    world.write("app/one.json", &config_map("one", "1", &[]));
    super::hooks::deployed(&world, "app").await;
    world.delete_app("app").await;
    let failed = "PreDelete hook(s) failed: web/last (nobody can say)";
    world.until("app", "held", |app| condition(app, "DeletionError", failed)).await;
    assert!(!world.get("v1", "ConfigMap", "web", "one").await.is_null(), "SE-518");
    let done = json!({"status": {"phase": "Done"}});
    until("the deletion goes on", async || {
        // It is made anew after a failure, so that there may be none at this moment.
        let api = world.api("example.com/v1", "Backup", "web");
        let _ = api.patch_status("last", &PatchParams::default(), &Patch::Merge(&done)).await;
        world.app("app").await.is_null()
    })
    .await;
}
