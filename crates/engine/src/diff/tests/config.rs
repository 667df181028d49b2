//! Settings of comparisons, and the limits of what they may have.

use std::sync::Arc;

use super::*;

#[test]
fn the_settings_of_an_application_are_read() {
    let rule = json!({"kind": "ConfigMap", "jsonPointers": ["/data/a"]});
    let annotated = |more: Value| json!({"metadata": {"name": "shop", "namespace": "argocd", "annotations": more}});
    let mut system = SystemSettings::default();
    system.add_ignored("s", ("", "ConfigMap"), &json!({"jsonPointers": ["/data/b"]}));
    let system = Arc::new(system);
    let of = |application: &Value| {
        let (config, problems) = DiffConfig::with_settings(application, &system, &Jq::default());
        assert_eq!(problems, []);
        config
    };
    let former = "argocd.argoproj.io/client-side-apply-migration-manager";
    let own = of(&annotated(json!({former: "tool"})));
    assert_eq!((own.scope.as_str(), own.former_manager.as_str()), ("argocd/shop", "tool"));
    for none in [json!({}), json!({former: ""})] {
        assert_eq!(of(&annotated(none)).former_manager, DEFAULT_FORMER_MANAGER, "SE-346");
    }

    // The rules of the Application, and those of all.
    let mut application = annotated(json!({}));
    application["spec"]["ignoreDifferences"] = json!([rule]);
    let config = of(&application);
    let map = |a: &str, b: &str, c: &str| {
        object("v1", "ConfigMap", json!({"data": {"a": a, "b": b, "c": c}}))
    };
    for (live, want) in [(map("9", "9", "1"), false), (map("1", "1", "9"), true)] {
        let found = compare(Some(&map("1", "1", "1")), Some(&live), &config);
        assert_eq!(found.modified, want, "SE-170: {:?}", found.changes);
    }
    let migrates =
        |options: Value| of(&json!({"spec": {"syncPolicy": {"syncOptions": options}}})).migrates;
    assert!(migrates(json!([])) && !migrates(json!(["ClientSideApplyMigration=false"])), "SE-322");
}

/// Answers that every text is an expression.
#[derive(Debug)]
struct Any;

impl jq::Evaluate for Any {
    fn check(&self, scope: &str, texts: &[&str]) -> Vec<Result<(), String>> {
        assert_eq!(scope, "argocd/shop", "whose they are");
        texts.iter().map(|_| Ok(())).collect()
    }

    fn paths(&self, _: &str, questions: &[jq::Question<'_>]) -> Vec<Vec<jq::Found>> {
        let one = |one: &jq::Question<'_>| one.expressions.iter().map(|_| Ok(vec![])).collect();
        questions.iter().map(one).collect()
    }
}

#[test]
fn expressions_of_an_application_are_checked_by_what_is_given() {
    let application = json!({
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {"ignoreDifferences": [{"kind": "A", "jqPathExpressions": ["first(.a)"]}]},
    });
    let jq = Jq::new(Arc::new(Any));
    let (config, problems) = DiffConfig::from_application(&application, &jq);
    assert_eq!(problems, []);
    let object = object("v1", "A", json!({"a": 1}));
    let found = compare(Some(&object), Some(&object), &config);
    assert_eq!(found.exhausted_rules, [""; 0], "they are evaluated by the same");
}

/// SE-150, SE-327: the annotation of an Application goes before the default.
#[test]
fn the_prediction_of_the_server_is_chosen_by_an_application_se_150() {
    let (on, off) = ("ServerSideDiff=true", "ServerSideDiff=false");
    let webhooks = "IncludeMutationWebhook=true";
    let plain = Some(ServerSide { with_webhooks: false });
    let all = Some(ServerSide { with_webhooks: true });
    for (options, by_default, otherwise) in [
        (String::new(), plain, None),
        (on.to_owned(), plain, plain),
        (off.to_owned(), None, None),
        (format!("{on},{off}"), None, None),
        (format!("{on}, {webhooks}"), all, all),
        (webhooks.to_owned(), all, None),
        ("ServerSideDiff".to_owned(), plain, None),
    ] {
        let application =
            json!({"metadata": {"annotations": {"argocd.argoproj.io/compare-options": options}}});
        let found = [true, false].map(|default| ServerSide::of(&application, default));
        assert_eq!(found, [by_default, otherwise], "{options}");
    }
}

/// Options are read from lists with spaces; an absent annotation has none.
#[test]
fn options_of_annotations_are_lists() {
    let object = |key: &str| json!({"metadata": {"annotations": {key: "a=1, b,,c"}}});
    let compared = object("argocd.argoproj.io/compare-options");
    let synced = object("argocd.argoproj.io/sync-options");
    let all = ["a=1", "b", "c"];
    let present = |found: Vec<&str>| -> Vec<String> {
        found.into_iter().filter(|one| !one.is_empty()).map(str::to_owned).collect()
    };
    assert_eq!(present(compare_options(&compared).collect()), all);
    assert_eq!(present(sync_options(&synced).collect()), all);
    assert_eq!(present(compare_options(&synced).collect()), [""; 0]);
    assert_eq!(present(sync_options(&compared).collect()), [""; 0]);
}

#[test]
fn rules_and_problems_are_limited() {
    let of = |entries: Value| {
        let application = json!({"spec": {"ignoreDifferences": entries}});
        DiffConfig::from_application(&application, &Jq::default())
    };
    let rule = json!({"kind": "A", "jsonPointers": ["/a"]});
    for (count, used, problems) in [(999, 999, 0), (1000, 1000, 0), (1001, 1000, 1)] {
        let (config, found) = of(Value::from(vec![rule.clone(); count]));
        assert_eq!((config.rules.len(), found.len()), (used, problems), "{count}");
    }
    // So many problems are named, and beyond these their number.
    for (wrong, lines) in [(49, 49), (50, 50), (51, 51), (60, 51)] {
        let (_, found) = of(json!([{"kind": "A", "jsonPointers": vec!["a"; wrong]}]));
        assert_eq!(found.len(), lines, "{wrong}");
    }
}

/// SE-171: an empty namespace of a rule is any.
#[test]
fn rules_are_of_objects_by_name_and_namespace_se_171() {
    let map = |a: &str| {
        let data = json!({"metadata": {"name": "x", "namespace": "n"}, "data": {"a": a}});
        object("v1", "ConfigMap", data)
    };
    for (more, applies) in [
        (json!({}), true),
        (json!({"name": "x"}), true),
        (json!({"name": "y"}), false),
        (json!({"namespace": "n"}), true),
        (json!({"namespace": "m"}), false),
        (json!({"name": "x", "namespace": "n"}), true),
        (json!({"name": "x", "namespace": "m"}), false),
    ] {
        let rule = with(&json!({"kind": "ConfigMap", "jsonPointers": ["/data/a"]}), more.clone());
        let config = ignoring(json!([rule]));
        let found = compare(Some(&map("1")), Some(&map("2")), &config);
        assert_eq!(!found.modified, applies, "{more}");
    }
}

/// RFC 6901, and what Argo CD reads (SE-172).
#[test]
fn pointers_are_read_as_argo_cd_reads_them_se_172() {
    for (text, tokens, is_valid) in [
        ("/a/b", vec!["a", "b"], true),
        ("/a~1b/~0c~01", vec!["a/b", "~c~1"], true),
        ("/", vec![""], true),
        ("/a~", vec!["a~"], false),
        ("/a~2b", vec!["a~2b"], false),
        ("a/b", vec!["b"], false),
    ] {
        let found = path::parse_pointer(text).unwrap();
        assert_eq!(
            (found.tokens, found.defect.is_none()),
            (tokens.iter().map(|one| (*one).to_owned()).collect(), is_valid),
            "{text}"
        );
    }
    assert!(path::parse_pointer("a").is_err());
}

/// What is not there is removed by no harm to the rest.
#[test]
fn paths_are_removed_from_the_last_to_the_first() {
    use path::PathStep::{Index, Key};
    let key = |name: &str| Key(name.to_owned());
    let list = || json!({"l": [1, 2, 3], "m": {"a": 1}});
    for (paths, want) in [
        (
            vec![vec![key("l"), Index(0)], vec![key("l"), Index(2)]],
            json!({"l": [2], "m": {"a": 1}}),
        ),
        (
            vec![vec![key("l"), Index(1)], vec![key("l"), Index(1)]],
            json!({"l": [1, 3], "m": {"a": 1}}),
        ),
        (vec![vec![key("l"), Index(3)], vec![key("l"), Index(9)]], list()),
        (vec![vec![key("l"), key("a")], vec![key("m"), Index(0)], vec![]], list()),
        (vec![vec![key("m")], vec![key("m"), key("a")]], json!({"l": [1, 2, 3]})),
    ] {
        let mut object = list();
        path::remove_all(&mut object, paths.clone());
        assert_eq!(object, want, "{paths:?}");
    }
}

/// SE-144: the metadata of a managed namespace that is not in the source.
#[test]
fn a_managed_namespace_is_synced_by_its_metadata_se_144() {
    let namespace = object("v1", "Namespace", json!({}));
    let of = |modified: bool, managed: bool| ResourceState {
        managed_namespace: managed,
        ..ResourceState::new(None, Some(&namespace), Some(modified))
    };
    let states = [(false, true), (true, true), (false, false)].map(|(a, b)| of(a, b));
    let found = states.map(|state| (state.status(), state.requires_pruning()));
    let (synced, out) = (Some(SyncStatus::Synced), Some(SyncStatus::OutOfSync));
    assert_eq!(found, [(synced, false), (out, false), (out, true)]);
    assert_eq!(of_application(&states[..1], SyncStatusInput::default()), SyncStatus::Synced);
    assert_eq!(of_application(&states[1..2], SyncStatusInput::default()), SyncStatus::OutOfSync);
}
