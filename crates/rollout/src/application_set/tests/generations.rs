//! What a set generates: which Applications may be written, whether a rollout is evaluated, and what
//! an Application is written as.

use super::*;
use crate::application_set::generate::generated::{is_reverse, keeps_resources, spec_digest};
use crate::application_set::generate::preserve::{Preserve, merged_finalizers};
use crate::application_set::plan::write_plan::WriteGate;
use crate::desired::GenerateError;
use crate::rollout::steps::StepStrategy;
use wavegate_api::annotations::{RESOURCES_FINALIZER, ROLLOUT, RUN};

fn rolling(steps: Value) -> Value {
    let mut set = set();
    set["spec"]["strategy"] = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
    set
}

fn enabled() -> DecisionSettings {
    DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() }
}

fn well_formed(name: &str, spec: Value) -> Value {
    let mut application = generated(name, spec);
    application["apiVersion"] = API_VERSION.into();
    application["kind"] = "Application".into();
    application
}

fn known() -> KnownTargets {
    KnownTargets {
        projects: ["default".to_owned(), "shop".to_owned()].into(),
        namespace: String::new(),
        clusters: vec![cluster("in-cluster", "https://kubernetes.default.svc")],
    }
}

/// AS-144, AS-180: an Application is not written for its own error, for its target, or since its
/// ignored fields are not known; the first of these is the reason.
#[test]
fn what_is_not_written_has_a_reason_as_180() {
    let destination = json!({"server": "https://kubernetes.default.svc"});
    let of = |project: &str| json!({"project": project, "source": {"repoURL": "r", "path": "p"}, "destination": destination});
    let mut set = set();
    set["spec"]["ignoreApplicationDifferences"] = json!([
        {"name": "ruled", "jsonPointers": ["no-slash"]}, {"name": "both", "jsonPointers": ["x"]},
    ]);
    let all = [
        well_formed("fine", of("default")),
        well_formed("Wrong", of("nope")),
        well_formed("target", of("shopp")),
        well_formed("ruled", of("shop")),
        well_formed("both", of("nope")),
    ];
    let made = generated_by(&set, &enabled(), &all);
    let invalid = made.invalid(&known());
    let names: Vec<&str> = invalid.keys().map(String::as_str).collect();
    assert_eq!(names, ["Wrong", "both", "target"]);
    assert!(invalid["Wrong"].contains("is not a valid object name"), "{invalid:?}");
    assert!(invalid["Wrong"].contains("(generated from elements[1])"), "{invalid:?}");
    assert!(invalid["target"].contains("AppProject shopp does not exist; did you mean shop?"));
    let unwritable = made.unwritable(&invalid);
    assert_eq!(unwritable.len(), 4);
    assert!(unwritable["ruled"].contains("no-slash"), "{unwritable:?}");
    assert_eq!(unwritable["both"], invalid["both"], "the error comes first");
    assert!(!unwritable.contains_key("fine"));
    // With the rules of one Application only, others are deleted no more.
    assert!(matches!(made.gate(&enabled()), WriteGate::NoDeletes(_)));
}

/// AS-180: a target is a project and one cluster; a namespace without a name is not searched.
#[test]
fn a_target_is_a_project_and_one_cluster_as_180() {
    let known = known();
    let problem = |spec: Value| validate::problem_here(&json!({"spec": spec}), &known);
    assert_eq!(problem(json!({"destination": {"name": "in-cluster"}})), None, "default");
    let gone = problem(json!({"project": "gone", "destination": {"name": "in-cluster"}})).unwrap();
    assert_eq!(gone, "spec.project: AppProject gone does not exist");
    // An error of its own is the only one of an Application.
    let twins = ["a", "a", "b"].map(|name| well_formed(name, json!({"project": "gone"})));
    let problems = validate::validation_problems(&Generation::of(twins), &known);
    assert!(problems["a"].contains("2 elements result in this name"), "{problems:?}");
    assert!(problems["b"].contains("spec.source") || problems["b"].contains("AppProject gone"));
    let nameless = validate::problems_alone(&Generation::of([well_formed("", json!({}))]));
    let (name, problem) = nameless.into_iter().next().unwrap();
    assert_eq!(name, "elements[0]");
    assert!(!problem.contains("generated from"), "its name says it: {problem}");
    let target = |destination: Value| {
        let spec = json!({"spec": {"destination": destination}});
        validate::DeployTarget::of(&LiveSpec::of(&spec))
    };
    let found = |destination: Value| {
        let clusters = [cluster("one", "https://1"), cluster("two", "https://2")];
        target(destination).cluster_in(&clusters).map(|one| one.name.clone())
    };
    assert_eq!(found(json!({"server": "https://2/"})).as_deref(), Some("two"));
    assert_eq!(found(json!({"name": "two"})).as_deref(), Some("two"));
    assert_eq!(found(json!({"name": "https://2"})), None);
    assert_eq!(found(json!({"server": "two"})), None);
}

/// AS-301 … AS-304, AS-141: a rollout is evaluated with steps, where that is enabled, and while the
/// spec can be read; otherwise the set has none, and the reason is given where it is certain.
#[test]
fn a_rollout_is_evaluated_with_steps_as_301_as_304() {
    let failed = |made: &mut Generated| made.error = Some(GenerateError::Options("line 3".into()));
    let misspelt = |made: &mut Generated| {
        let mut wrong = rolling(json!([{}]));
        wrong["spec"]["strategy"]["maxUpdate"] = 1.into();
        made.misspelt = crate::rollout::steps::strategy_problems(&wrong);
        assert!(!made.misspelt.is_empty());
    };
    let as_it_is = |_: &mut Generated| {};
    type Change = fn(&mut Generated);
    let disabled = DecisionSettings::default();
    let (open, shut) = ("open", "shut");
    // (rolling, stuck, disabled, gate, why there is no rollout)
    for (name, set, settings, change, want) in [
        (
            "steps",
            rolling(json!([{}])),
            &enabled(),
            as_it_is as Change,
            (true, false, false, open, ""),
        ),
        (
            "steps, not enabled",
            rolling(json!([{}])),
            &disabled,
            as_it_is,
            (false, false, true, open, "are disabled"),
        ),
        ("no steps", rolling(json!([])), &enabled(), as_it_is, (false, true, false, shut, "")),
        (
            "no steps, not enabled",
            rolling(json!([])),
            &disabled,
            as_it_is,
            (false, false, true, open, "are disabled"),
        ),
        (
            "all at once",
            set(),
            &enabled(),
            as_it_is,
            (false, false, false, open, "no RollingSync any more"),
        ),
        ("an error", rolling(json!([{}])), &enabled(), failed, (false, false, false, open, "")),
        ("an error, all at once", set(), &enabled(), failed, (false, false, false, open, "")),
        ("misspelt", rolling(json!([{}])), &enabled(), misspelt, (false, false, false, shut, "")),
        ("misspelt, all at once", set(), &enabled(), misspelt, (false, false, false, shut, "")),
    ] {
        let mut made = generated_by(&set, settings, &[]);
        change(&mut made);
        let (rolls, is_stuck, is_disabled, gate, without) = want;
        assert_eq!(made.is_rolling(), rolls, "{name}");
        assert_eq!(made.is_stuck(settings), is_stuck, "{name}");
        assert_eq!(made.is_disabled(settings), is_disabled, "{name}");
        let found = match made.gate(settings) {
            WriteGate::Open => open,
            WriteGate::Shut(_) => shut,
            WriteGate::NoDeletes(_) => "no deletes",
        };
        assert_eq!(found, gate, "{name}");
        match made.without_rollout(settings) {
            None => assert_eq!(without, "", "{name}"),
            Some(why) => assert!(!without.is_empty() && why.contains(without), "{name}: {why}"),
        }
    }
}

/// AS-370: what a rollout starts must not start by itself.
#[test]
fn automated_syncs_are_switched_off_in_a_rollout_as_370() {
    let automated = json!({"project": "default", "syncPolicy": {"automated": {}}});
    let all = [generated("a", automated.clone()), generated("b", spec())];
    for (set, settings, want) in [
        (rolling(json!([{}])), enabled(), &["a"][..]),
        (rolling(json!([{}])), DecisionSettings::default(), &[]),
        (set(), enabled(), &[]),
    ] {
        let made = generated_by(&set, &settings, &all);
        assert_eq!(made.switched_off().collect::<Vec<_>>(), want);
        let written = made.get("a").unwrap().written(made.has_steps);
        let policy = &written["spec"]["syncPolicy"]["automated"];
        assert_eq!(policy.get("enabled").is_some(), !want.is_empty(), "{policy}");
        assert_eq!(
            made.get("a").unwrap().original()["spec"]["syncPolicy"],
            automated["syncPolicy"]
        );
        assert!(made.get("c").is_none());
    }
}

/// A template must not say that an Application was rolled out, or by which run.
#[test]
fn a_template_sets_no_record_of_a_rollout() {
    let mut forged = generated("a", spec());
    forged["metadata"]["annotations"] = json!({ROLLOUT: "x", RUN: "y", "own": "z"});
    forged["metadata"]["labels"] = json!({"env": "dev"});
    let step = json!({"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev"]}]});
    let made = generated_by(
        &rolling(json!([{"matchExpressions": [
        {"key": "env", "operator": "In", "values": ["prod"]},
    ]}, step])),
        &enabled(),
        &[forged, generated("b", spec())],
    );
    let written = made.get("a").unwrap().original();
    assert_eq!(written["metadata"]["annotations"], json!({"own": "z"}));
    let selectable = made.selectable();
    let found: Vec<(&str, Option<usize>, usize)> =
        selectable.iter().map(|one| (one.name.as_str(), one.step, one.labels.len())).collect();
    assert_eq!(found, [("a", Some(1), 1), ("b", None, 0)]);
    // ST-061: another revision is no other base, another path is.
    let of = |revision: &str, path: &str| {
        let source = json!({"repoURL": "r", "path": path, "targetRevision": revision});
        let made = generated_by(&set(), &enabled(), &[generated("a", json!({"source": source}))]);
        (made.applications[0].base.clone(), made.applications[0].digest.clone())
    };
    let (first, other, moved) = (of("1", "p"), of("2", "p"), of("1", "q"));
    assert!(first.0 == other.0 && first.1 != other.1);
    assert!(first.0 != moved.0 && first.1 != moved.1);
    assert_eq!(spec_digest(&json!({})).len(), 16);
}

/// With an error nothing of the generation is used, whatever was generated before it.
#[test]
fn with_an_error_nothing_is_generated() {
    let (set, settings) = (set(), enabled());
    for (error, want) in [(None, 1), (Some(GenerateError::Options("line 3".into())), 0)] {
        let mut collector = Collector::new(&set, &settings);
        collector.add(generated("a", spec()), "spec.generators[0].list.elements[0]");
        let made = collector.finish(&set, &settings, Reads::default(), error);
        assert_eq!((made.applications.len(), made.per_generator.len()), (want, want));
    }
}

/// AS-380, AS-160: what is deleted, and in which order, is as the set says it.
#[test]
fn a_set_says_how_it_is_deleted_as_160_as_380() {
    for (order, steps, want) in [
        ("Reverse", json!([{}]), true),
        ("reverse", json!([{}]), true),
        ("Reverse", json!([]), false),
        ("AllAtOnce", json!([{}]), false),
    ] {
        let mut set = rolling(steps);
        set["spec"]["strategy"]["deletionOrder"] = order.into();
        assert_eq!(is_reverse(&set), want, "{order}");
    }
    let foreground = format!("{RESOURCES_FINALIZER}/foreground");
    for (preserves, finalizers, want) in [
        (true, json!(null), true),
        (true, json!(["other"]), true),
        (true, json!(["other", RESOURCES_FINALIZER]), false),
        (true, json!([foreground]), false),
        (false, json!(null), false),
    ] {
        let mut set = set();
        set["spec"]["syncPolicy"] = json!({"preserveResourcesOnDeletion": preserves});
        set["spec"]["template"]["metadata"]["finalizers"] = finalizers.clone();
        assert_eq!(keeps_resources(&set), want, "{preserves} {finalizers}");
    }
    assert!(matches!(StepStrategy::of(&set()).0, StepStrategy::AllAtOnce));
}

/// AS-150: an unknown policy allows the least, and is reported; one that the controller does not let a
/// set choose is not looked at.
#[test]
fn an_unknown_policy_allows_the_least_as_150() {
    for (own, may_override, want, is_problem) in [
        (None, true, Policy::Sync, false),
        (Some(""), true, Policy::Sync, false),
        (Some("create-update"), true, Policy::CreateUpdate, false),
        (Some("create-update"), false, Policy::Sync, false),
        (Some("nope"), true, Policy::CreateOnly, true),
        (Some("nope"), false, Policy::Sync, false),
    ] {
        assert_eq!(Policy::Sync.effective(own, may_override), want, "{own:?}");
        let problem = Policy::problem(own, may_override);
        assert_eq!(problem.is_some(), is_problem, "{own:?}: {problem:?}");
    }
    for (policy, updates, deletes) in [
        (Policy::Sync, true, true),
        (Policy::CreateUpdate, true, false),
        (Policy::CreateDelete, false, true),
        (Policy::CreateOnly, false, false),
    ] {
        assert_eq!(
            (policy.creates(), policy.updates(), policy.deletes()),
            (true, updates, deletes)
        );
    }
}

/// AS-155, AS-156: live labels and finalizers of others stay, each once.
#[test]
fn labels_and_finalizers_of_others_stay_as_155() {
    let fields = wavegate_api::read_leniently(&json!({"labels": ["kept"], "annotations": []}));
    let preserve = Preserve::new(&fields, &[], &["of-all".to_owned()]);
    let generated = json!({"metadata": {"labels": {"kept": "new", "own": "1"}}});
    let live = json!({"metadata": {"labels": {"kept": "old", "of-all": "2", "gone": "3"}}});
    assert_eq!(
        preserve.labels(&generated, &live),
        json!({"kept": "old", "own": "1", "of-all": "2"})
    );
    let hook = "pre-delete-finalizer.argocd.argoproj.io";
    let cleanup = "post-delete-finalizer.argocd.argoproj.io/cleanup";
    let of = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    for (generated, live, want) in [
        (&[][..], &[hook, cleanup, "other"][..], &[hook, cleanup][..]),
        (&[hook, "f"], &[hook], &[hook, "f"]),
        (&["f"], &[cleanup], &["f", cleanup]),
        (&["f"], &[], &["f"]),
    ] {
        assert_eq!(merged_finalizers(&of(generated), &of(live)), json!(want));
    }
    // AS-154: a refresh that a template requests is requested until it is obeyed.
    let asks = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
    for (live, want) in [
        (json!({}), json!({})),
        (json!({"metadata": {"annotations": {REFRESH: null}}}), json!({})),
        (json!({"metadata": {"annotations": {REFRESH: "normal"}}}), json!({REFRESH: "normal"})),
    ] {
        assert_eq!(preserve.annotations(&asks, &live), want, "{live}");
    }
}
