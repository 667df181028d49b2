//! The health of kinds with a rule of their own, as `health` prints it.

use serde_json::{Value, json};

use super::with_input;

fn object(api_version: &str, kind: &str, body: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "web"},
    });
    json_patch::merge(&mut object, &body);
    object
}

/// Conditions as `(type, status, reason, message)`.
fn conditions(all: &[(&str, &str, &str, &str)]) -> Value {
    let one = |(type_, status, reason, message): &(&str, &str, &str, &str)| json!({"type": type_, "status": status, "reason": reason, "message": message});
    json!({"status": {"conditions": all.iter().map(one).collect::<Vec<_>>()}})
}

/// Prints all objects at once, and compares each with what is wanted.
fn check(cases: &[(&str, Value, &str, &str)]) {
    let documents: Vec<String> = cases.iter().map(|case| case.1.to_string()).collect();
    let run = with_input(&["health", "-f", "-", "-o", "json"], documents.join("\n---\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    let rows = run.json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), cases.len());
    for ((case, _, status, message), row) in cases.iter().zip(rows) {
        assert_eq!(row["status"].as_str().unwrap_or_default(), *status, "{case}: {row}");
        assert_eq!(row["message"].as_str().unwrap_or_default(), *message, "{case}: {row}");
    }
}

/// SE-459, SE-461, SE-472, SE-582, and all six statuses of SE-440 but Missing, which is none of an
/// object that exists.
#[test]
fn kinds_of_kubernetes_and_workflows_se_440_se_459_se_461_se_472_se_582() {
    let service = |body| object("apiregistration.k8s.io/v1", "APIService", body);
    let workflow = |phase: &str| {
        object(
            "argoproj.io/v1alpha1",
            "Workflow",
            json!({"status": {"phase": phase, "message": "m"}}),
        )
    };
    let definition = |all: &[(&str, &str, &str, &str)]| {
        object("apiextensions.k8s.io/v1", "CustomResourceDefinition", conditions(all))
    };
    let job = |all: &[(&str, &str, &str, &str)]| object("batch/v1", "Job", conditions(all));
    let ok = ("NamesAccepted", "True", "", "");
    check(&[
        (
            "SE-459 available",
            service(conditions(&[("Available", "True", "Passed", "fine")])),
            "Healthy",
            "Passed: fine",
        ),
        (
            "SE-459 not available",
            service(conditions(&[("Available", "False", "Gone", "no service")])),
            "Progressing",
            "Gone: no service",
        ),
        (
            "SE-459 beta",
            object("apiregistration.k8s.io/v1beta1", "APIService", json!({})),
            "Progressing",
            "Waiting to be processed",
        ),
        ("SE-461 none", workflow(""), "Progressing", "m"),
        ("SE-461 pending", workflow("Pending"), "Progressing", "m"),
        ("SE-461 running", workflow("Running"), "Progressing", "m"),
        ("SE-461 succeeded", workflow("Succeeded"), "Healthy", "m"),
        ("SE-461 failed", workflow("Failed"), "Degraded", "m"),
        ("SE-461 error", workflow("Error"), "Degraded", "m"),
        ("SE-440 unknown", workflow("Odd"), "Unknown", "m"),
        ("SE-472 none", definition(&[]), "Progressing", "Status conditions not found"),
        (
            "SE-472 terminating",
            definition(&[("Terminating", "True", "", "m")]),
            "Progressing",
            "CRD is terminating: m",
        ),
        (
            "SE-472 names",
            definition(&[("NamesAccepted", "False", "", "taken")]),
            "Degraded",
            "CRD names have not been accepted: taken",
        ),
        (
            "SE-472 schema",
            definition(&[
                ok,
                ("Established", "True", "", ""),
                ("NonStructuralSchema", "True", "", "bad"),
            ]),
            "Degraded",
            "Schema violations found: bad",
        ),
        (
            "SE-472 established",
            definition(&[ok, ("Established", "True", "InitialNamesAccepted", "")]),
            "Healthy",
            "CRD is healthy",
        ),
        (
            "SE-472 installing",
            definition(&[ok, ("Established", "False", "Installing", "")]),
            "Progressing",
            "CRD is being installed",
        ),
        (
            "SE-472 not established",
            definition(&[ok, ("Established", "False", "", "")]),
            "Degraded",
            "CRD is not established",
        ),
        (
            "SE-440, SE-455 suspended",
            job(&[("Suspended", "True", "", "held")]),
            "Suspended",
            "held",
        ),
        (
            "SE-582 resumed",
            job(&[("Suspended", "False", "JobResumed", "goes on")]),
            "Progressing",
            "",
        ),
        (
            "SE-582 resumed and complete",
            job(&[("Suspended", "False", "", ""), ("Complete", "True", "", "done")]),
            "Healthy",
            "done",
        ),
        ("SE-582 not failed", job(&[("Failed", "False", "", "no")]), "Progressing", ""),
        ("SE-582 not complete", job(&[("Complete", "False", "", "no")]), "Progressing", ""),
    ]);
}

/// SE-475, SE-476, SE-477.
#[test]
fn custom_resources_se_475_se_476_se_477() {
    let secret = |all: &[(&str, &str, &str, &str)]| {
        object("external-secrets.io/v1", "ExternalSecret", conditions(all))
    };
    let sealed = |all: &[(&str, &str, &str, &str)]| {
        object("bitnami.com/v1alpha1", "SealedSecret", conditions(all))
    };
    let rollout = |phase: &str| {
        let body = json!({
            "metadata": {"generation": 2},
            "status": {"observedGeneration": "2", "phase": phase, "message": "m"},
        });
        object("argoproj.io/v1alpha1", "Rollout", body)
    };
    let unseen = json!({"metadata": {"generation": 3}, "status": {"observedGeneration": "2", "phase": "Healthy"}});
    let set = |all: &[(&str, &str, &str, &str)]| {
        object("argoproj.io/v1alpha1", "ApplicationSet", conditions(all))
    };
    let gateway = |body: Value| object("gateway.networking.k8s.io/v1", "Gateway", body);
    let programmed = ("Programmed", "True", "", "");
    check(&[
        ("SE-475 ready", secret(&[("Ready", "True", "", "synced")]), "Healthy", "synced"),
        ("SE-475 not ready", secret(&[("Ready", "False", "", "denied")]), "Degraded", "denied"),
        ("SE-475 none", secret(&[]), "Progressing", "Waiting for ExternalSecret"),
        ("SE-475 unsealed", sealed(&[("Synced", "True", "", "")]), "Healthy", ""),
        ("SE-475 not unsealed", sealed(&[("Synced", "False", "", "no key")]), "Degraded", "no key"),
        ("SE-475 sealed", sealed(&[]), "Progressing", "Waiting for Sealed Secret to be decrypted"),
        ("SE-476 paused", rollout("Paused"), "Suspended", "m"),
        ("SE-476 progressing", rollout("Progressing"), "Progressing", "m"),
        ("SE-476 healthy", rollout("Healthy"), "Healthy", "m"),
        ("SE-476 degraded", rollout("Degraded"), "Degraded", "m"),
        (
            "SE-476 unobserved",
            object("argoproj.io/v1alpha1", "Rollout", unseen),
            "Progressing",
            "Waiting for rollout spec update to be observed",
        ),
        (
            "SE-476 error",
            set(&[("ErrorOccurred", "True", "", "bad"), ("ResourcesUpToDate", "True", "", "")]),
            "Degraded",
            "bad",
        ),
        (
            "SE-476 rolls out",
            set(&[
                ("RolloutProgressing", "True", "", "moves"),
                ("ResourcesUpToDate", "True", "", ""),
            ]),
            "Progressing",
            "moves",
        ),
        ("SE-476 up to date", set(&[("ResourcesUpToDate", "True", "", "fine")]), "Healthy", "fine"),
        ("SE-476 outdated", set(&[("ResourcesUpToDate", "False", "", "old")]), "Degraded", "old"),
        ("SE-477 programmed", gateway(conditions(&[programmed])), "Healthy", "Gateway is healthy"),
        (
            "SE-477 refused",
            gateway(conditions(&[programmed, ("Accepted", "False", "", "no class")])),
            "Degraded",
            "no class",
        ),
        (
            "SE-477 listener",
            gateway(
                json!({"status": {"conditions": [{"type": "Programmed", "status": "True"}], "listeners": [
                {"conditions": [{"type": "ResolvedRefs", "status": "False", "message": "no cert"}]}]}}),
            ),
            "Degraded",
            "Listener: no cert",
        ),
    ]);
    // Not programmed: it is on its way, whatever the text says.
    let run = with_input(
        &["health", "-f", "-", "-o", "json"],
        gateway(conditions(&[("Programmed", "False", "", "soon")])).to_string(),
    );
    assert_eq!(run.json()[0]["status"], "Progressing", "SE-477");
}

/// SE-450, SE-451, SE-452, SE-453, SE-454, SE-455, SE-456, SE-457, SE-458, SE-459, SE-460, SE-461,
/// SE-465, SE-466, SE-467, SE-468, SE-471, SE-472, SE-473, SE-474, SE-475, SE-476, SE-477: each
/// branch of each rule, for objects as a cluster holds them.
#[test]
fn every_branch_of_every_rule_is_printed_se_450_to_se_477() {
    let table = wavegate_api::yaml::value(include_str!("../../data/health.yaml")).unwrap();
    let table = table.as_array().unwrap();
    let documents: Vec<String> = table.iter().map(|row| row["object"].to_string()).collect();
    let run = with_input(&["health", "-f", "-", "-o", "json"], documents.join("\n---\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    let printed = run.json();
    let printed = printed.as_array().unwrap();
    assert_eq!(printed.len(), table.len());
    for (row, printed) in table.iter().zip(printed) {
        let of = format!("{}: {}", row["object"]["kind"], row["of"]);
        let status = printed["status"].as_str().unwrap_or("none");
        assert_eq!(row["health"], status, "{of}: {printed}");
        let message = row["message"].as_str().unwrap_or_default();
        assert_eq!(printed["message"].as_str().unwrap_or_default(), message, "{of}: {printed}");
    }
}
