//! ST-005: a run of ten thousand Applications is stored in 64 KiB, with all that decides.

use super::super::admitted;
use super::super::quarantine::Quarantine;
use super::super::target_set::{TargetDigests, read_digests, spec_digest};
use super::*;
use wavegate_api::run::{Approval, RunGate};

const GATES: usize = 20;
const APPLICATIONS: usize = 10_000;

/// Steps with a gate each, before that step alone or before all later ones as well.
fn gated(is_nested: bool) -> Fleet {
    let gates: Vec<Value> = (1..=GATES)
        .map(|step| {
            let last = if is_nested { GATES } else { step };
            let steps: Vec<usize> = (step..=last).collect();
            json!({"name": format!("gate-of-environment-{step}"), "steps": steps, "approvals": 2})
        })
        .collect();
    Fleet::new(&[APPLICATIONS / GATES; GATES], json!(null)).policy(json!({"gates": gates}))
}

/// Two people approve all targets behind all gates.
fn approve_all(fleet: &mut Fleet) {
    let gates = fleet.status().gates.clone();
    for RunGate { name, covers, .. } in gates {
        for by in ["ann@example.com", "bob@example.com"] {
            let (gate, by, covers) = (name.clone(), by.to_owned(), covers.clone());
            fleet.said(|spec| spec.approvals.push(Approval { gate, by, at: None, covers }));
        }
    }
}

/// The targets that each gate has let through, as stored.
fn admitted_of(fleet: &Fleet) -> Vec<usize> {
    let mut status = fleet.status().clone();
    admitted::unpack(&mut status);
    let of = |gate: &RunGate| {
        let admits = read_digests(&gate.admits);
        let is_admitted = |(name, app): &(&String, &App)| {
            TargetDigests::of(name, &app.spec, &["r2".to_owned()]).is_in(&admits)
        };
        fleet.apps.iter().filter(is_admitted).count()
    };
    status.gates.iter().map(of).collect()
}

/// What was approved and is in quarantine took 53 KiB each, and a gate with more than 4,000
/// Applications remembered none of them.
#[test]
fn ten_thousand_applications_and_twenty_gates_fit_in_a_status_as_st_005() {
    for is_nested in [false, true] {
        let mut fleet = gated(is_nested);
        fleet.push("r2");
        fleet.run(2);
        approve_all(&mut fleet);
        fleet.run(1);
        let step = APPLICATIONS / GATES;
        let behind = |gate: usize| if is_nested { (GATES - gate) * step } else { step };
        let want: Vec<usize> = (0..GATES).map(behind).collect();
        assert_eq!(admitted_of(&fleet), want);
        fleet.abort(false);
        fleet.run(2);
        assert_eq!(fleet.status().phase, RunPhase::Aborted);
        // It is read back at each reconcile, and nothing of it is written again.
        let stored = serde_json::to_string(fleet.status()).unwrap();
        assert!(stored.len() < 64 << 10, "{}", stored.len());
        fleet.run(2);
        assert_eq!(serde_json::to_string(fleet.status()).unwrap(), stored);
        assert_eq!(admitted_of(&fleet), want, "what was approved is known");
        let quarantine = Quarantine::read(&fleet.status().quarantine);
        let is_held = |name: &str, at: &str| quarantine.has_target(name, "spec", &[at.to_owned()]);
        assert!(fleet.apps.keys().all(|name| is_held(name, "r2") && !is_held(name, "r1")));
        assert!(!stored.contains("QuarantineEnded"), "nothing is forgotten");
    }
}

/// What an earlier version has stored, with another digest of each target.
#[test]
fn targets_of_an_earlier_version_are_known_as_st_060() {
    let mut fleet = Fleet::new(&[2], json!(null));
    fleet.paused = Some("lunch".to_owned());
    fleet.push("r2");
    fleet.run(2);
    fleet.abort(false);
    fleet.run(2);
    assert_eq!((fleet.status().phase, fleet.deployed("r2")), (RunPhase::Aborted, 0));
    let revisions = ["r2".to_owned()];
    let earlier: Vec<u8> = ["s1-0", "s1-1"]
        .into_iter()
        .flat_map(|name| TargetDigests::of(name, "spec", &revisions).earlier)
        .collect();
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, earlier);
    let held = |text: &str, name: &str, revision: &str| {
        crate::rollout::run::holds_target(text, name, "spec", &[revision.to_owned()])
    };
    let text = format!("1:{text}");
    assert!(held(&text, "s1-0", "r2") && held(&text, "s1-1", "r2"));
    assert!(!held(&text, "s1-0", "r3") && !held(&text, "s1-2", "r2"));
    assert_ne!(spec_digest("s1-0", "spec"), spec_digest("s1-1", "spec"));
    // It holds them, and a retry lifts it.
    fleet.runs.last_mut().unwrap().2.quarantine.clone_from(&text);
    fleet.paused = None;
    fleet.run(3);
    assert_eq!((fleet.kinds(), fleet.deployed("r2")), (vec![WaitKind::Quarantined; 2], 0));
    fleet.retry();
    fleet.run(10);
    assert_eq!(fleet.deployed("r2"), 2, "{:?}", fleet.kinds());
}

/// Words go before what decides, and what only saves an approval goes before a quarantine.
#[test]
fn a_status_with_long_words_is_shortened_as_st_005() {
    let mut fleet = gated(false);
    fleet.push("r2");
    fleet.run(2);
    approve_all(&mut fleet);
    fleet.run(1);
    for entry in fleet.runs.last_mut().unwrap().2.timeline.iter_mut().take(40) {
        entry.message = "long words ".repeat(45);
    }
    fleet.abort(false);
    fleet.run(2);
    let status = fleet.status().clone();
    let stored = serde_json::to_string(&status).unwrap();
    assert!(stored.len() <= 64 << 10, "{}", stored.len());
    assert!(status.timeline.last().unwrap().message.contains("aborted"));
    assert!(status.timeline[0].message.len() <= 100, "{}", status.timeline[0].message);
    assert_eq!(admitted_of(&fleet), [APPLICATIONS / GATES; GATES]);
    fleet.run(1);
    assert_eq!(serde_json::to_string(fleet.status()).unwrap(), stored);
}
