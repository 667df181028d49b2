//! Ignored or unsupported settings of a sync, reported as conditions (SE-183,
//! SE-185, SE-186, SE-296, SE-302).

use std::collections::BTreeMap;

use crate::compared::{ComparedResource, ComparisonFacts};
use crate::condition::NewCondition;
use crate::unsupported;
use wavegate_api::annotations::{HOOK, annotation_of};
use wavegate_api::app_spec::IgnoreDifference;
use wavegate_api::conditions::application as types;
use wavegate_api::hooks::{WithoutEffect, without_effect};
use wavegate_api::kind::KindRef;
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff::{Rule, sync_options};
use wavegate_engine::sync::{ObjectClass, is_unknown_option, problem_of_application};

/// Most warnings that are listed.
const MAX_LISTED: usize = 10;

/// Warnings about the targets, the remaining hooks, and the options.
pub(crate) fn warnings(
    facts: &ComparisonFacts<'_>,
    resources: &[ComparedResource],
) -> Vec<NewCondition> {
    let mut messages = Vec::new();
    let policy = facts.spec.sync_policy.as_ref();
    let options = policy.map(|policy| policy.sync_options.as_slice()).unwrap_or_default();
    let problems = options.iter().filter_map(|option| problem_of_application(option));
    messages.extend(problems.map(|problem| format!("spec.syncPolicy.syncOptions: {problem}")));
    for target in facts.targets {
        let object = target.object.as_ref();
        for option in sync_options(object).filter(|option| is_unknown_option(option)) {
            messages.push(format!("{}: unknown sync option {option}", shown(&target.key)));
        }
        if let Some(hook) =
            annotation_of(object, HOOK).filter(|_| target.class == ObjectClass::Ignored)
        {
            let types = "PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete or Skip";
            messages.push(format!(
                "{} is ignored: annotation {HOOK} is {hook:?}; use {types}",
                shown(&target.key)
            ));
            continue;
        }
        messages.extend(without_effect(object).into_iter().map(|found| {
            let WithoutEffect { annotation, part, instead } = found;
            let name = shown(&target.key);
            format!("{name}: annotation {annotation}: {part:?} has no effect; use {instead}")
        }));
    }
    messages.extend(unmatched_rules(facts, resources));
    let objects = facts.targets.iter().map(|target| (shown(&target.key), target.object.as_ref()));
    messages.extend(unsupported::unused(facts.application, facts.spec, objects));
    let orphans = resources.iter().filter(|resource| {
        resource.target.is_none() && matches!(resource.class, ObjectClass::Hook(_))
    });
    for orphan in orphans.filter(|orphan| !is_generated(facts, &orphan.key)) {
        messages.push(format!(
            "hook {} is no longer in the source, and is not deleted by a sync",
            shown(&orphan.key)
        ));
    }
    messages.sort();
    messages.dedup();
    let more = messages.len().saturating_sub(MAX_LISTED);
    messages.truncate(MAX_LISTED);
    if more > 0 {
        messages.push(format!("{more} more such warnings are not listed"));
    }
    messages.into_iter().map(|message| NewCondition::new(types::SYNC_WARNING, message)).collect()
}

/// The rules of `spec.ignoreDifferences` that are about no object of the Application, such as one
/// with a misspelt kind: they ignore nothing.
fn unmatched_rules(facts: &ComparisonFacts<'_>, resources: &[ComparedResource]) -> Vec<String> {
    if resources.is_empty() {
        return Vec::new();
    }
    let rules = facts.spec.ignore_differences.iter().enumerate();
    let unmatched = rules.filter(|(_, rule)| {
        let IgnoreDifference { group, kind, name, namespace, .. } = rule;
        let rule = Rule {
            group: group.clone(),
            kind: kind.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
            ..Rule::default()
        };
        // One without a kind has a warning of its own.
        !kind.is_empty()
            && !resources.iter().any(|resource| {
                let ResourceKey { group, kind, namespace, name } = &resource.key;
                let of = KindRef { group, version: "", kind };
                rule.matches(of, name, namespace)
            })
    });
    let message = |(index, rule): (usize, &IgnoreDifference)| {
        let IgnoreDifference { group, kind, name, namespace, .. } = rule;
        let kind = if group.is_empty() { kind.clone() } else { format!("{kind} of group {group}") };
        let parts = [("named", name), ("in namespace", namespace)];
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        let parts: String = parts.map(|(word, text)| format!(" {word} {text}")).collect();
        format!(
            "spec.ignoreDifferences[{index}]: the Application has no {kind}{parts}, so that the \
             rule ignores nothing; correct or remove it"
        )
    };
    unmatched.map(message).collect()
}

/// Whether a hook was created from a target without a name.
fn is_generated(facts: &ComparisonFacts<'_>, key: &ResourceKey) -> bool {
    facts.targets.iter().any(|target| {
        let prefix = target.object.generate_name();
        let ResourceKey { group, kind, namespace, name } = &target.key;
        name.is_empty()
            && (group, kind, namespace) == (&key.group, &key.kind, &key.namespace)
            && !prefix.is_empty()
            && key.name.starts_with(prefix)
    })
}

fn shown(key: &ResourceKey) -> String {
    let ResourceKey { namespace, name, .. } = key;
    let name = if name.is_empty() { "without a name" } else { name };
    let kind = key.group_kind();
    match namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The condition for kinds that cannot be listed (SE-432).
pub fn unlisted_condition(kinds: &BTreeMap<String, String>) -> Option<NewCondition> {
    let (_, reason) = kinds.first_key_value()?;
    let mut names: Vec<&str> = kinds.keys().map(String::as_str).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(NewCondition::new(
        types::UNLISTED_RESOURCE_WARNING,
        format!(
            "cannot list {}{more}: objects of these kinds that are no longer in the source are not \
             pruned; grant the permission to list them, or delete such objects manually: {reason}",
            names.join(", ")
        ),
    ))
}
