//! Sync windows as a project has them, at times of the test's choice (SE-402 to SE-411, SE-585).

use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};

use super::*;

/// A Monday.
const MONDAY: &str = "2027-01-18T11:00:00Z";

/// A window for all Applications.
fn window(kind: &str, schedule: &str, duration: &str, more: Value) -> Value {
    let mut window = json!({
        "kind": kind, "schedule": schedule, "duration": duration, "applications": ["*"],
    });
    json_patch::merge(&mut window, &more);
    window
}

fn deny(schedule: &str, duration: &str) -> Value {
    window("deny", schedule, duration, json!({}))
}

fn allow(schedule: &str, duration: &str) -> Value {
    window("allow", schedule, duration, json!({}))
}

fn zoned(schedule: &str, duration: &str, zone: &str) -> Value {
    window("deny", schedule, duration, json!({"timeZone": zone}))
}

/// A clock of this time that goes on.
fn clock_from(time: &str) -> Clock {
    let (time, began): (Timestamp, _) = (time.parse().unwrap(), std::time::Instant::now());
    Clock::of(move || time + SignedDuration::try_from(began.elapsed()).unwrap())
}

/// An operation of an Application in a project with windows, and whether it runs.
struct Case {
    name: String,
    why: String,
    windows: Value,
    automated: bool,
    runs: bool,
}

/// Runs the controller at this time, and asks for all these operations.
async fn check(world: &mut World, time: &str, cases: &[Case]) {
    if world.controller.is_some() {
        world.crash().await;
    }
    for case in cases {
        world.write(&format!("{}/one.json", case.name), &config_map(&case.name, "1", &[]));
    }
    world.commit();
    world.run_by(world.server.client_as(CONTROLLER), clock_from(time));
    for case in cases {
        world.project(&case.name, json!({"syncWindows": case.windows})).await;
        let mut app = world.application(&case.name, &case.name);
        app["spec"]["project"] = case.name.as_str().into();
        world.create_app(&app).await;
    }
    // Each has its project by then.
    let is_compared = |app: &Value| is(app, "OutOfSync", "Missing");
    for case in cases {
        world.until(&case.name, "compared", is_compared).await;
        let by = json!({"username": "ann", "automated": case.automated});
        let operation = json!({"sync": {}, "initiatedBy": by});
        world.patch(&case.name, json!({ "operation": operation })).await;
    }
    for case in cases {
        let is_blocked = |app: &Value| {
            phase(app) == "Running"
                && message(app).starts_with("Sync operation blocked by sync window")
        };
        let decided = |app: &Value| phase(app) == "Succeeded" || is_blocked(app);
        let app = world.until(&case.name, &case.why, decided).await;
        assert_eq!(phase(&app) == "Succeeded", case.runs, "{}: {}", case.why, case.windows);
    }
}

/// SE-402, SE-404, SE-405, SE-585: fields of a schedule, time zones with their changes, and when a
/// window begins and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_open_as_their_schedules_say_se_402_se_404_se_405_se_585() {
    let mut world = World::start().await;
    let groups = [
        (
            MONDAY,
            vec![
                ("SE-405 its starts overlap", allow("* 10 * * *", "2h"), true),
                ("SE-405 always", deny("* * * * *", "1h"), false),
                ("SE-405 it has ended", deny("0 10 * * *", "59m"), true),
                ("SE-405 not yet begun", deny("5 11 * * *", "1h"), true),
                ("SE-405 it never begins", allow("0 0 30 2 *", "9999h"), false),
                ("SE-585 it never begins", deny("0 0 30 2 *", "9999h"), true),
                ("SE-402 a range", deny("0 9 * * 1-5", "9h"), false),
                ("SE-402 names", deny("0 9 * jan MON-fri", "9h"), false),
                ("SE-402 another month", deny("0 9 * FEB *", "9h"), true),
                ("SE-402 question marks", deny("0 9 ? * ?", "9h"), false),
                ("SE-402 a list", deny("0 3,9 * * *", "3h"), false),
                ("SE-402 steps", deny("*/30 10 * * *", "45m"), false),
                ("SE-402 steps in a range", deny("10-30/20 10 * * *", "45m"), false),
                ("SE-402 steps to the end", deny("5/50 10 * * *", "30m"), false),
                ("SE-402 one of both days", deny("0 9 1 * 1", "9h"), false),
                ("SE-402 the other of both days", deny("0 9 18 * 2", "9h"), false),
                ("SE-402 none of both days", deny("0 9 1 * 2", "9h"), true),
                ("SE-402 a step restricts", deny("0 9 */2 * 1", "9h"), false),
                ("SE-402 only the day of the week", deny("0 9 * * 2", "9h"), true),
                ("SE-402 there is no day 7", allow("* 10 * * 7", "1h"), false),
                ("SE-402 no short form", allow("@daily", "24h"), false),
                ("SE-402 no seconds", allow("0 0 9 * * *", "9h"), false),
                ("SE-404 by its zone", zoned("0 16 * * *", "2h", "Asia/Kolkata"), false),
                ("SE-404 not by UTC", zoned("0 11 * * *", "2h", "Asia/Kolkata"), true),
                ("SE-404 an unknown zone is UTC", zoned("0 10 * * *", "2h", "Mars/Olympus"), false),
            ],
        ),
        (
            "2027-01-16T08:00:00Z",
            vec![
                ("SE-405 since yesterday", allow("0 18 * * 1-5", "15h"), true),
                ("SE-402 on a weekend", deny("0 0 * * 0,6", "24h"), false),
            ],
        ),
        (
            // In the night to this day, 02:30 is left out in Berlin.
            "2027-03-28T03:30:00Z",
            vec![
                ("SE-404 the hour is left out", zoned("30 2 * * *", "3h", "Europe/Berlin"), false),
                ("SE-404 its length is real", zoned("0 23 * * *", "6h", "Europe/Berlin"), false),
            ],
        ),
        (
            "2027-07-15T20:30:00Z",
            vec![
                ("SE-404 in summer", zoned("0 22 * * *", "1h", "Europe/Amsterdam"), false),
                ("SE-404 not as in winter", zoned("0 21 * * *", "1h", "Europe/Amsterdam"), true),
            ],
        ),
    ];
    for (group, (time, cases)) in groups.into_iter().enumerate() {
        let cases = cases.into_iter().enumerate().map(|(index, (why, window, runs))| Case {
            name: format!("case-{group}-{index}"),
            why: why.to_owned(),
            windows: json!([window]),
            automated: true,
            runs,
        });
        check(&mut world, time, &cases.collect::<Vec<_>>()).await;
    }
    // SE-404, SE-410: what is wrong is named.
    let app = world.app("case-0-19").await;
    assert!(message(&app).contains("cannot parse schedule '* 10 * * 7'"), "{}", message(&app));
}

/// SE-406, SE-409: which windows win, for who asks by hand and for an automated sync; SE-411: what
/// is wrong with the windows of a project is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_decide_together_se_406_se_409_se_411() {
    let mut world = World::start().await;
    let open =
        |kind: &str, by_hand: bool| window(kind, "* * * * *", "1h", json!({"manualSync": by_hand}));
    let shut =
        |kind: &str, by_hand: bool| window(kind, "0 0 1 6 *", "1h", json!({"manualSync": by_hand}));
    // Whether a manual one and whether an automated one runs.
    let rows = [
        ("no window", json!([]), true, true),
        ("a deny that is over", json!([shut("deny", false)]), true, true),
        ("a deny", json!([open("deny", false)]), false, false),
        ("a deny but by hand", json!([open("deny", true)]), true, false),
        ("one deny is for all", json!([open("deny", true), open("deny", false)]), false, false),
        (
            "a deny by hand and an allow",
            json!([open("deny", true), open("allow", false)]),
            true,
            false,
        ),
        ("a deny wins", json!([open("allow", false), open("deny", false)]), false, false),
        ("an allow that is over", json!([shut("allow", false)]), false, false),
        ("an allow but by hand", json!([shut("allow", true)]), true, false),
        ("two allows", json!([shut("allow", true), shut("allow", false)]), false, false),
        ("one allow is enough", json!([open("allow", false), shut("allow", false)]), true, true),
        ("an allow by hand that is open", json!([open("allow", true)]), true, true),
        ("nothing is open", json!([shut("allow", false), shut("deny", false)]), false, false),
    ];
    let mut cases = Vec::new();
    for (index, (why, windows, manual, automated)) in rows.into_iter().enumerate() {
        for (who, is_automated, runs) in [("man", false, manual), ("auto", true, automated)] {
            cases.push(Case {
                name: format!("{who}-{index}"),
                why: format!("SE-406, SE-409 {why}, {who}"),
                windows: windows.clone(),
                automated: is_automated,
                runs,
            });
        }
    }
    check(&mut world, MONDAY, &cases).await;

    let long = "x".repeat(256);
    let twin = deny("0 9 * * *", "1h");
    let wrong = json!([
        {"kind": "Deny", "schedule": "0 9 * *", "duration": "1d", "applications": ["none"]},
        {"kind": "deny", "schedule": "0 9 * * *", "duration": "2h", "applications": ["none"], "description": long},
        twin.clone(),
        twin,
        zoned("0 3 * * *", "1h", "Mars/Olympus"),
    ]);
    world.project("wrong", json!({"syncWindows": wrong})).await;
    world.create_with("wrong", "man-0", json!({"spec": {"project": "wrong"}})).await;
    for text in [
        "spec.syncWindows[0]: kind 'Deny' mismatch: can only be allow or deny",
        "spec.syncWindows[0]: cannot parse schedule '0 9 * *'",
        "spec.syncWindows[0]: cannot parse duration '1d'",
        "spec.syncWindows[1]: description is longer than 255 characters",
        "spec.syncWindows[3]: the same as spec.syncWindows[2]",
        "spec.syncWindows[4]: timeZone \"Mars/Olympus\" is unknown; UTC is used",
    ] {
        let told = |app: &Value| condition(app, "InvalidProjectWarning", text);
        world.until("wrong", text, told).await;
    }
}

/// SE-407: an annotation of the project makes the more specific window take priority, and an active
/// allow window with `manualSync` permit manual syncs only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_semantics_of_windows_are_those_of_their_project_se_407() {
    let world = World::start().await;
    let always = |kind: &str, more: Value| window(kind, "* * * * *", "1h", more);
    let never = window("deny", "0 0 30 2 *", "1h", json!({"applications": ["exact"]}));
    let manual = json!({"manualSync": true});
    for (name, windows) in [
        ("exact", json!([always("deny", json!({})), never])),
        ("manual", json!([always("allow", manual)])),
    ] {
        world.write(&format!("{name}/one.json"), &config_map(name, "1", &[]));
        world.project(name, json!({"syncWindows": windows})).await;
    }
    world.commit();
    let semantics = async |project: &str, value: &str| {
        let projects = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
        let annotations = json!({"wavegate.dev/window-semantics": value});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        projects.patch(project, &PatchParams::default(), &patch).await.unwrap();
    };
    let begin = async |name: &str, automated: bool| {
        world.create_with(name, name, json!({"spec": {"project": name}})).await;
        world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        let operation = json!({"sync": {}, "initiatedBy": {"automated": automated}});
        world.patch(name, json!({ "operation": operation })).await;
    };
    let blocked = |app: &Value| message(app).starts_with("Sync operation blocked by sync window");
    begin("exact", false).await;
    world.until("exact", "each deny window counts", blocked).await;
    semantics("exact", "sed").await;
    let text = "wavegate.dev/window-semantics is \"sed\"; it has to be argocd or seed";
    let is_named = |app: &Value| condition(app, "InvalidProjectWarning", text) && blocked(app);
    world.until("exact", "a misspelt value", is_named).await;
    semantics("exact", "seed").await;
    let done = |app: &Value| phase(app) == "Succeeded";
    world.until("exact", "the window of its name is not active", done).await;
    semantics("manual", "seed").await;
    begin("manual", true).await;
    world.until("manual", "it permits manual syncs only", blocked).await;
    semantics("manual", "argocd").await;
    world.until("manual", "it permits all", done).await;
}

/// SE-408: an operation that was permitted when it began goes on where the windows say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_overruns_its_window_only_where_it_may_se_408() {
    let mut world = World::start().await;
    world.crash().await;
    let at = |time: &str| -> Timestamp { format!("2027-01-18T{time}:00Z").parse().unwrap() };
    let now = Arc::new(Mutex::new(at("11:30")));
    let shown = now.clone();
    let clock = Clock::of(move || *shown.lock().unwrap());
    world.run_by(world.server.client_as(CONTROLLER), clock);
    let noon = |kind: &str, overrun: bool| {
        window(kind, "0 12 * * *", "1h", json!({"syncOverrun": overrun}))
    };
    let every = |kind: &str| window(kind, "0 0 1 6 *", "1h", json!({}));
    let names = ["deny-over", "deny-plain", "allow-over", "allow-plain", "allow-both"];
    for name in names {
        world.write(&format!("{name}/job.json"), &job(name, &[(HOOK, "PreSync"), HANGS]));
        world.write(&format!("{name}/map.json"), &config_map(name, "1", &[]));
    }
    world.commit();
    for (name, windows) in [
        ("deny-over", json!([noon("deny", true)])),
        ("deny-plain", json!([noon("deny", false)])),
        ("allow-over", json!([noon("allow", true)])),
        ("allow-plain", json!([noon("allow", false)])),
        ("allow-both", json!([noon("allow", true), every("allow")])),
    ] {
        world.project(name, json!({"syncWindows": windows})).await;
        world.create_with(name, name, json!({"spec": {"project": name}})).await;
    }
    let runs = |app: &Value| message(app).starts_with("waiting for completion of hook");
    let blocked = |app: &Value| message(app).starts_with("Sync operation blocked by sync window");
    let begin = async |name: &str| {
        world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
        world.sync(name, json!({})).await;
        world.until(name, "under way", runs).await;
    };
    begin("deny-over").await;
    begin("deny-plain").await;
    *now.lock().unwrap() = at("12:20");
    for name in ["allow-over", "allow-plain", "allow-both"] {
        begin(name).await;
    }
    // What a hook did is only looked at where the operation goes on.
    let finish = async |name: &str| {
        world.complete_job(name).await;
    };
    finish("deny-over").await;
    finish("deny-plain").await;
    world.until("deny-over", "SE-408: it goes on", |app| phase(app) == "Succeeded").await;
    world.until("deny-plain", "SE-408: it is held", blocked).await;
    *now.lock().unwrap() = at("13:30");
    for name in ["allow-over", "allow-plain", "allow-both"] {
        finish(name).await;
    }
    world.until("allow-over", "SE-408: it goes on", |app| phase(app) == "Succeeded").await;
    world.until("allow-plain", "SE-408: it is held", blocked).await;
    world.until("allow-both", "SE-408: all of them must permit it", blocked).await;
}
