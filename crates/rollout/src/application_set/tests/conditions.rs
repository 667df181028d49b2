//! The conditions of a set: table A.14.

use super::*;
use crate::application_set::generate::preserve::Preserve;
use crate::application_set::status;
use crate::application_set::status::findings::{self, Failure};
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use wavegate_engine::wait::WaitFor;

/// The input of a status; each case changes one field.
struct Input {
    generated: Generated,
    existing: Vec<Existing>,
    failure: Option<Failure>,
    up_to_date: bool,
    settings: DecisionSettings,
    absent: Vec<&'static str>,
}

impl Input {
    fn of(set: &Value, settings: DecisionSettings) -> Self {
        let generated = generated_by(set, &settings, &[]);
        let existing = Vec::new();
        let absent = Vec::new();
        Self { generated, existing, failure: None, up_to_date: true, settings, absent }
    }
}

fn compute(set: &Value, findings: &Input, now: jiff::Timestamp) -> Value {
    let findings = findings::Findings {
        set: &StoredApplicationSet::read(set),
        generated: &findings.generated,
        settings: &findings.settings,
        existing: &findings.existing,
        failure: findings.failure.clone(),
        up_to_date: findings.up_to_date,
        is_written: findings.up_to_date,
        keeps_hold: false,
        rollout: None,
        held: None,
        emptied: None,
        absent_settings: &findings.absent,
        redact: str::to_owned,
    };
    let status: Status = status::compute(&findings, now);
    status.to_json()
}

fn of<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn rolling() -> DecisionSettings {
    DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() }
}

#[test]
fn conditions_are_those_of_table_a_14() {
    let mut set = super::set();
    let mut findings = Input::of(&set, rolling());
    findings.failure =
        Some(Failure { reason: "RenderTemplateParamsError", message: "line 3".into() });
    findings.generated.error = Some(crate::desired::GenerateError::Options("line 3".into()));
    let failed = compute(&set, &findings, at(0));
    let reported = |status: &Value, kind: &str| {
        (of(status, kind)["status"].clone(), of(status, kind)["reason"].clone())
    };
    assert_eq!(
        reported(&failed, "ErrorOccurred"),
        (json!("True"), json!("RenderTemplateParamsError")),
        "row 254"
    );
    assert_eq!(
        reported(&failed, "ResourcesUpToDate"),
        (json!("False"), json!("ErrorOccurred")),
        "row 254"
    );
    assert_eq!(reported(&failed, "ParametersGenerated"), (json!("False"), json!("ErrorOccurred")));
    assert_eq!(failed["health"]["status"], "Degraded", "row 259");

    set["status"] = failed;
    let findings = Input::of(&set, rolling());
    let good = compute(&set, &findings, at(5));
    assert_eq!(
        reported(&good, "ErrorOccurred"),
        (json!("False"), json!("ApplicationSetUpToDate")),
        "row 255"
    );
    assert_eq!(good["health"]["status"], "Healthy", "row 261");
    assert_eq!(of(&good, "ErrorOccurred")["lastTransitionTime"], "2023-11-14T22:13:25Z");

    set["status"] = good.clone();
    assert_eq!(compute(&set, &findings, at(9)), good, "row 256: no change");
    set["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "RolloutProgressing", "status": "True"}));
    let gone = compute(&set, &findings, at(9));
    assert_eq!(of(&gone, "RolloutProgressing"), &Value::Null, "row 257");
    let bare = super::set();
    let fresh = Input { up_to_date: false, ..Input::of(&bare, rolling()) };
    assert_eq!(compute(&bare, &fresh, at(0))["health"]["status"], "Unknown", "row 258");
}

/// Existing Applications of these names.
fn existing(set: &Value, names: impl IntoIterator<Item = String>) -> Vec<Existing> {
    let id = Identity::of(set);
    let (preserve, ignore) = (Preserve::default(), Ignore::default());
    let rules = Rules {
        set: &id,
        policy: Policy::Sync,
        preserve: &preserve,
        ignore: &ignore,
        keeps_resources: false,
    };
    let read = |name: String| {
        let mut live = live(&generated(&name, spec()));
        live["status"]["health"] = json!({"status": "Degraded", "message": "x".repeat(5000)});
        Existing::read(&live, None, &rules)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn resources_are_listed_counted_and_cut_as_191() {
    let set = super::set();
    let listed = |count: usize, max_resources| {
        let names = (0..count).map(|n| format!("{n:05}"));
        let mut findings = Input::of(&set, DecisionSettings { max_resources, ..rolling() });
        findings.existing = existing(&set, names);
        let status = compute(&set, &findings, at(0));
        let bytes = status["resources"].to_string().len();
        assert!(bytes <= findings.settings.size_limits.resources + 2, "{bytes} bytes");
        let message = of(&status, "ResourcesUpToDate")["message"].as_str().unwrap().to_owned();
        let good = "All applications have been generated successfully";
        let listed = status["resources"].as_array().unwrap().len();
        match listed == count {
            true => assert_eq!(message, good),
            false => assert_eq!(
                message,
                format!(
                    "{good}; status.resources is truncated: it does not list all {count} Applications"
                )
            ),
        }
        (listed, status["resourcesCount"].clone())
    };
    assert_eq!(listed(3, 3), (3, json!(3)));
    assert_eq!(listed(3, 2), (2, json!(3)));
    let (some, all) = listed(5000, 0);
    assert!((300..5000).contains(&some), "{some} of them fit, with the longest messages");
    assert_eq!(all, json!(5000));
}

#[test]
fn a_misspelt_strategy_is_reported_once_as_007() {
    let mut set = super::set();
    let good = Input::of(&set, rolling());
    let strategy = json!({"type": "AllAtOnce", "deletionOrder": "revers"});
    set["spec"]["strategy"] = strategy;
    let findings = Input::of(&set, rolling());
    let status = compute(&set, &findings, at(0));
    let condition = of(&status, "InvalidRolloutConfig");
    assert_eq!(condition["status"], "True");
    assert!(condition["message"].as_str().unwrap().contains("\"revers\""), "{condition}");
    set["status"] = status.clone();
    let again = compute(&set, &findings, at(9));
    assert_eq!(again, status, "no change");
    let fixed = compute(&set, &good, at(9));
    assert_eq!(of(&fixed, "InvalidRolloutConfig"), &Value::Null);
}

#[test]
fn a_disabled_feature_is_reported_as_301() {
    let mut set = super::set();
    set["spec"]["strategy"] = json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}});
    let status = compute(&set, &Input::of(&set, DecisionSettings::default()), at(0));
    let condition = of(&status, "InvalidRolloutConfig");
    assert_eq!(condition["status"], "True");
    assert!(condition["message"].as_str().unwrap().contains("--enable-progressive-syncs"));
}

#[test]
fn after_an_error_of_the_user_it_is_tried_again_in_three_minutes_as_505() {
    use crate::application_set::decision::{NextReconcile, Snapshot};
    use crate::application_set::plan::windows::Facts;
    use crate::application_set::reconcile;
    let set = super::set();
    let (settings, projects) = (rolling(), BTreeMap::new());
    let mut generated = generated_by(&set, &settings, &[]);
    let decide = |generated: &Generated| {
        let windows = Facts { projects: &projects, clusters: &[] };
        let set = StoredApplicationSet::read(&set);
        let snapshot = Snapshot::first(&set, generated, &settings, windows, at(0));
        reconcile::reconcile(&snapshot).next
    };
    assert_eq!(decide(&generated), NextReconcile::default());
    generated.error = Some(crate::desired::GenerateError::Options("line 3".into()));
    assert_eq!(
        decide(&generated),
        NextReconcile::After(WaitFor::ValidSet, std::time::Duration::from_secs(180))
    );
}

/// What guards has its last settings while their source is gone; the set says so, is as healthy as
/// before, and forgets it afterwards.
#[test]
fn settings_that_are_gone_are_named_until_they_are_back() {
    let bare = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"generators": []}});
    let at = at(0);
    let mut input = Input::of(&bare, DecisionSettings::default());
    let before = compute(&bare, &input, at);
    assert_eq!(of(&before, "SettingsAbsent"), &Value::Null);
    input.absent = vec!["ConfigMap argocd-cm", "Secret argocd-secret"];
    let stored = |status: &Value| {
        let mut set = bare.clone();
        set["status"] = status.clone();
        set
    };
    let gone = compute(&stored(&before), &input, at);
    let condition = of(&gone, "SettingsAbsent");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("True"), &json!("LastSettingsStay"))
    );
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("ConfigMap argocd-cm and Secret argocd-secret"), "{message}");
    assert_eq!(gone["health"], before["health"]);
    let report = status::report_input::read_set(&stored(&gone));
    assert!(report.status.problems.iter().any(|problem| problem.kind == "SettingsAbsent"));
    input.absent.clear();
    assert_eq!(compute(&stored(&gone), &input, at), before);
}
