//! What runs record of rollouts that policies steer (ST-004, ST-013, ST-041, ST-043, ST-062,
//! ST-083), in the log of a simulation: the controllers of `run`, on a clock that jumps.

use super::*;

/// Two Applications in dev, and three in prod, one at a time.
const SET: &str = "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop, namespace: argocd}
spec:
  goTemplate: true
  generators:
  - list: {elements: [{name: dev-1, env: dev}, {name: dev-2, env: dev}, {name: prod-1, env: prod}, {name: prod-2, env: prod}, {name: prod-3, env: prod}]}
  strategy:
    type: RollingSync
    rollingSync:
      steps:
      - matchExpressions: [{key: env, operator: In, values: [dev]}]
      - matchExpressions: [{key: env, operator: In, values: [prod]}]
        maxUpdate: 1
  template:
    metadata: {name: '{{.name}}', labels: {env: '{{.env}}'}}
    spec:
      project: default
      source: {repoURL: 'https://git.example.com/x', path: a, targetRevision: main}
      destination: {server: 'https://kubernetes.default.svc', namespace: a}
";

/// A simulated rollout: how the command ended, and what the API server stored.
struct Simulated {
    run: Run,
    log: String,
}

impl Simulated {
    /// With the spec of a policy, and events.
    fn of(policy: &str, events: &[&str]) -> Self {
        let policy = format!(
            "---\napiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
             metadata: {{name: p, namespace: argocd}}\nspec: {policy}\n"
        );
        let events: String = events.iter().map(|event| format!("- {{{event}}}\n")).collect();
        let files = folder(&[("set.yaml", &format!("{SET}{policy}")), ("events.yaml", &events)]);
        let [set, events, log] =
            ["set.yaml", "events.yaml", "log"].map(|name| in_folder(&files, name));
        let run =
            wavegate(&["simulate", "-f", &set, "--events", &events, "--log", &log, "--limit=3h"]);
        let log = std::fs::read_to_string(log).unwrap_or_else(|_| panic!("no log: {}", run.err));
        Self { run, log }
    }

    /// The versions of an object, in their order.
    fn versions(&self, resource: &str, name: &str) -> Vec<Value> {
        let object = format!(" {resource} argocd/{name} {{");
        let of = |line: &str| {
            let at = line.find(&object)? + object.len() - 1;
            Some(serde_json::from_str(&line[at..]).unwrap())
        };
        self.log.lines().filter_map(of).collect()
    }

    /// The status of a run, as often as it was written.
    fn statuses(&self, run: &str) -> Vec<Value> {
        let all = self.versions("wavegate.dev/rolloutruns", run).into_iter();
        all.map(|run| run["status"].clone()).filter(|status| !status.is_null()).collect()
    }

    fn last(&self, run: &str) -> Value {
        self.statuses(run).pop().unwrap_or_else(|| panic!("no {run}: {}", self.run.out))
    }

    /// Those with an estimate.
    fn estimated(&self, run: &str) -> Vec<Value> {
        let mut statuses = self.statuses(run);
        statuses.retain(|status| status["estimate"]["mostSeconds"].is_i64());
        statuses
    }

    /// The phases of a run, each once for as long as it stays.
    fn phases(&self, run: &str) -> Vec<String> {
        let phase = |status: &Value| status["phase"].as_str().unwrap_or_default().to_owned();
        let mut phases: Vec<String> = self.statuses(run).iter().map(phase).collect();
        phases.dedup();
        phases
    }
}

/// ST-004: one phase is true at each time, the first of several; and as the printer column.
#[test]
fn a_run_has_the_phase_of_what_holds_it_first_as_st_004() {
    let gate = "{gates: [{name: prod, steps: [2], approvals: 1, soak: 10m}]}";
    let people = [
        "at: 10s, pause: true",
        "at: 1m, resume: true",
        "at: 12m, pause: true",
        "at: 14m, resume: true",
        "at: 15m, approve: prod",
    ];
    let simulated = Simulated::of(gate, &people);
    assert_eq!(simulated.run.code, 0, "{}", simulated.run.err);
    let want = [
        "Progressing",
        "Paused",
        "AwaitingApproval",
        "Paused",
        "AwaitingApproval",
        "Progressing",
        "Complete",
    ];
    assert_eq!(simulated.phases("shop-2"), want);
    // Approved early, it soaks; and a failure holds before the gate of the next step does.
    let simulated = Simulated::of(gate, &["at: 1m, approve: prod"]);
    let want = ["Progressing", "AwaitingApproval", "Soaking", "Progressing", "Complete"];
    assert_eq!(simulated.phases("shop-2"), want);
    let held = "{gates: [{name: prod, steps: [2], approvals: 1}], failures: {max: 0}}";
    let simulated = Simulated::of(held, &["fail: dev-1"]);
    assert_eq!(simulated.run.code, 1, "{}", simulated.run.out);
    let phases = simulated.phases("shop-2");
    assert_eq!(phases[..2], ["Progressing", "Held"], "{phases:?}");
}

/// ST-013: a gate holds the union of what its labels and its steps select.
#[test]
fn a_gate_holds_the_union_of_labels_and_steps_as_st_013() {
    let policy = "{gates: [{name: g, steps: [1], approvals: 1, \
                  applications: {matchLabels: {env: prod}}}]}";
    let held = Simulated::of(policy, &["at: 1h, push: dev-1"]);
    assert_eq!((held.run.code, held.phases("shop-2")), (1, vec!["AwaitingApproval".to_owned()]));
    assert_eq!(held.last("shop-2")["done"], 0, "nothing is promoted");
    let approved = Simulated::of(policy, &["at: 10m, approve: g"]);
    assert_eq!(approved.last("shop-2")["phase"], "Complete", "{}", approved.run.out);
}

/// ST-041: what was unhealthy before neither holds its step nor counts, if that is wanted.
#[test]
fn what_was_unhealthy_before_counts_only_if_it_is_wanted_as_st_041() {
    let events = ["at: 10m, degrade: dev-1", "at: 12m, fail: dev-1", "at: 20m, push: true"];
    let ignored = Simulated::of("{failures: {max: 0, baseline: Ignore}}", &events);
    let status = ignored.last("shop-3");
    assert_eq!((&status["phase"], &status["failed"]), (&json!("Complete"), &json!(0)));
    assert_eq!(status["unhealthyBefore"], json!(["dev-1"]));
    let counted = Simulated::of("{failures: {max: 0, baseline: Count}}", &events);
    let status = counted.last("shop-3");
    assert_eq!((&status["phase"], &status["failed"]), (&json!("Held"), &json!(1)));
    assert_eq!(status["unhealthyBefore"], Value::Null);
    // Its sync must succeed all the same, and one that was Healthy counts.
    let other = ["at: 10m, degrade: dev-1", "at: 12m, fail: dev-2", "at: 20m, push: true"];
    let status = Simulated::of("{failures: {max: 0, baseline: Ignore}}", &other).last("shop-3");
    assert_eq!((&status["phase"], &status["failed"]), (&json!("Held"), &json!(1)));
}

/// ST-043: the same failure twice holds, although many may fail; the names do not distinguish it.
#[test]
fn the_same_failure_acts_before_the_budget_as_st_043() {
    let fail = ["fail: prod-*"];
    let same = Simulated::of("{failures: {max: 5, same: 2}}", &fail);
    let status = same.last("shop-2");
    assert_eq!((&status["phase"], &status["failed"]), (&json!("Held"), &json!(2)));
    let failure = &status["failures"][0];
    assert_eq!((&failure["count"], status["failures"].as_array().unwrap().len()), (&json!(2), 1));
    assert_eq!(failure["applications"], json!(["prod-1", "prod-2"]));
    let signature = failure["signature"].as_str().unwrap();
    assert!(signature.starts_with("Deployment") && !signature.contains("prod-1"), "{signature}");
    let budget = Simulated::of("{failures: {max: 5}}", &fail).last("shop-2");
    let want = (&json!("CompleteWithFailures"), &json!(3));
    assert_eq!((&budget["phase"], &budget["failed"]), want);
}

/// ST-062: a rollback that fails holds, says where, and is not taken back itself.
#[test]
fn a_rollback_that_fails_holds_as_st_062() {
    let events = [
        "at: 12m, fail: prod-1",
        "at: 20m, push: true",
        // On its way back.
        "at: 21m40s, degrade: dev-2",
    ];
    let simulated = Simulated::of("{failures: {max: 0, onFailure: Rollback}}", &events);
    assert_eq!(simulated.run.code, 1, "{}", simulated.run.out);
    assert!(simulated.run.out.contains("the rollback holds here: wavegate retry"));
    let status = simulated.last("shop-3");
    let message = "2 of 3 are back; 1 failed: dev-2";
    assert_eq!((&status["phase"], &status["message"]), (&json!("RollingBack"), &json!(message)));
    assert_eq!(simulated.phases("shop-3"), ["Progressing", "RollingBack"]);
    assert_eq!(simulated.statuses("shop-4"), [Value::Null; 0], "no other run");
}

/// ST-083: an estimate from the runs before, as a range; none without a history; a soak counts, and
/// an approval is named instead.
#[test]
fn the_time_left_is_a_range_of_the_runs_before_as_st_083() {
    let simulated = Simulated::of("{}", &["at: 20m, push: true", "at: 40m, push: true"]);
    assert_eq!(simulated.estimated("shop-1"), [Value::Null; 0], "no history");
    let statuses = simulated.estimated("shop-4");
    // Step 1 takes half a minute, and each Application of step 2 as well.
    let most = |status: &Value| status["estimate"]["mostSeconds"].as_i64().unwrap();
    let least = |status: &Value| status["estimate"]["leastSeconds"].as_i64().unwrap_or_default();
    assert!((115..=130).contains(&most(&statuses[0])), "{}", statuses[0]["estimate"]);
    assert!(statuses.iter().all(|status| least(status) <= most(status)));
    let falls = statuses.windows(2).all(|pair| most(&pair[1]) <= most(&pair[0]));
    assert!(falls, "it falls as the rollout goes on");
    let gated = "{gates: [{name: g, steps: [2], soak: 10m}, {name: h, steps: [2], approvals: 1}]}";
    // What the first one waited for the approval and the pause is not expected again.
    let events = [
        "at: 15m, approve: h",
        "at: 15m40s, pause: true",
        "at: 25m, resume: true",
        "at: 40m, push: true",
        "at: 41m, approve: h",
    ];
    let status = &Simulated::of(gated, &events).estimated("shop-3")[0];
    // The soak of 600 s counts, besides the two minutes of the steps.
    assert!((680..=740).contains(&most(status)), "{}", status["estimate"]);
    assert_eq!(status["estimate"]["without"], json!(["gate h"]), "an approval is named");
}
