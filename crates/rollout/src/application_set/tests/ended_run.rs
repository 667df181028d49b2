//! The run of a set that has no rollout any more (ST-003).

use super::*;
use crate::application_set::decision::{Decision, Snapshot};
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::status::stored::StoredApplicationSet;
use crate::rollout::policy::Rules;
use crate::rollout::run_input::{CurrentRun, RunInput, Unreadable};
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunPhase};

const REMOVED: &str = "spec.strategy of the ApplicationSet is no RollingSync any more";
const DISABLED: &str =
    "progressive syncs are disabled, so the ApplicationSet is not rolled out in steps";

fn now() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000).unwrap()
}

/// A set with this strategy and this run.
struct Case {
    strategy: Value,
    is_enabled: bool,
    fails: bool,
    is_deleting: bool,
    status: Value,
    is_unreadable: bool,
    records_runs: bool,
    history: Vec<RolloutRunStatus>,
}

fn case() -> Case {
    Case {
        strategy: Value::Null,
        is_enabled: true,
        fails: false,
        is_deleting: false,
        status: json!({"phase": "Soaking", "startedAt": "2023-11-14T20:00:00Z", "quarantine": "AAAAAA==",
            "waitingFor": [{"application": "a"}], "done": 1, "total": 2,
            "to": [{"revision": "r2", "applications": 2}]}),
        is_unreadable: false,
        records_runs: true,
        history: Vec::new(),
    }
}

impl Case {
    fn decide(&self) -> Decision {
        let mut set = super::set();
        set["spec"]["strategy"] = self.strategy.clone();
        if self.is_deleting {
            set["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z".into();
            set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
        }
        let settings =
            DecisionSettings { progressive_syncs: self.is_enabled, ..DecisionSettings::default() };
        let mut generated = generated_by(&set, &settings, &[]);
        if self.fails {
            generated.error = Some(crate::desired::GenerateError::Options("line 3".into()));
        }
        let (rules, projects) = (Rules::default(), BTreeMap::new());
        let spec = RolloutRunSpec { application_set: "set".into(), ..RolloutRunSpec::default() };
        let status: RolloutRunStatus = serde_json::from_value(self.status.clone()).unwrap();
        let unreadable = Unreadable {
            run: "set-4".into(),
            is_in_status: false,
            field: "abort".into(),
            reason: "unknown".into(),
        };
        let run = CurrentRun {
            name: "set-4",
            spec: &spec,
            skip_manager: None,
            status: &status,
            unreadable: self.is_unreadable.then_some(&unreadable),
        };
        let input = RunInput {
            run: Some(run),
            records_runs: self.records_runs,
            history: &self.history,
            ..RunInput::of_policies("argocd", "set", &rules)
        };
        let windows = Facts { projects: &projects, clusters: &[] };
        let set = StoredApplicationSet::read(&set);
        let first = Snapshot::first(&set, &generated, &settings, windows, now());
        reconcile::reconcile(&Snapshot { run_input: Some(input), ..first })
    }

    /// How the run ends, if it does.
    fn ends(&self) -> Option<String> {
        let decision = self.decide();
        let run = decision.run()?;
        assert!(run.new.is_none() && run.superseded.is_none(), "{run:?}");
        Some(format!("{} {}: {}", run.name, run.status.phase, run.status.message))
    }
}

#[test]
fn a_run_ends_when_its_set_has_no_rollout_any_more_as_st_003() {
    let ended = |why: &str| Some(format!("set-4 Superseded: {why}"));
    let steps = json!({"steps": [{}]});
    let rolling = |kind: &str| json!({"type": kind, "rollingSync": steps});
    let without_steps = json!({"type": "RollingSync", "rollingSync": {"steps": []}});
    let in_phase = |phase: &str| {
        let mut status = case().status;
        status["phase"] = phase.into();
        Case { status, ..case() }
    };
    let cases = [
        ("removed", case(), ended(REMOVED)),
        ("AllAtOnce", Case { strategy: rolling("AllAtOnce"), ..case() }, ended(REMOVED)),
        ("no type", Case { strategy: rolling(""), ..case() }, ended(REMOVED)),
        ("goes back", in_phase("RollingBack"), ended(REMOVED)),
        ("held", in_phase("Held"), ended(REMOVED)),
        (
            "disabled",
            Case { is_enabled: false, strategy: rolling("RollingSync"), ..case() },
            ended(DISABLED),
        ),
        ("without a status", Case { status: json!({}), ..case() }, ended(REMOVED)),
        // It may go on.
        ("misspelt", Case { strategy: rolling("Rolling"), ..case() }, None),
        ("without steps", Case { strategy: without_steps, ..case() }, None),
        ("not generated", Case { fails: true, ..case() }, None),
        // It says something that is not known.
        ("unreadable", Case { is_unreadable: true, ..case() }, None),
        ("not recorded", Case { records_runs: false, ..case() }, None),
        ("deleted", Case { is_deleting: true, ..case() }, None),
        ("complete", in_phase("Complete"), None),
        ("aborted", in_phase("Aborted"), None),
        ("superseded", in_phase("Superseded"), None),
    ];
    for (name, case, want) in cases {
        assert_eq!(case.ends(), want, "{name}");
    }
}

#[test]
fn a_run_that_ends_so_keeps_what_it_has_done_and_its_quarantine_as_st_060() {
    let decision = case().decide();
    let run = decision.run().unwrap();
    let status = &run.status;
    assert_eq!(status.ended_at.as_ref().map(|at| at.0), Some(now()));
    assert_eq!((status.done, status.total, status.to.len()), (1, 2, 1));
    assert_eq!(status.quarantine, "AAAAAA==");
    assert!(status.waiting_for.is_empty() && run.is_urgent, "{run:?}");
    assert_eq!(run.news, status.timeline);
    assert_eq!(run.news[0].what, RunPhase::Superseded.as_str());
    // One whose status was never written takes over that of the one before it.
    let before =
        RolloutRunStatus { quarantine: "AQEBAQ==".to_owned(), ..RolloutRunStatus::default() };
    let fresh = Case { status: json!({}), history: vec![before], ..case() };
    let decision = fresh.decide();
    let status = &decision.run().unwrap().status;
    assert_eq!(status.quarantine, "AQEBAQ==");
    assert!(status.started_at.is_some());
}
