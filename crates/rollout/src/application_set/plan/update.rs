//! What to change in one existing Application so that it is as generated.

use serde_json::{Map, Value, json};

use crate::application_set::generate::generated::Generated;
use crate::application_set::generate::ignore::Ignore;
use crate::application_set::generate::policy::Policy;
use crate::application_set::generate::preserve::{self, Preserve};
use crate::application_set::plan::owner::{ApplicationOwner, Identity, guard, owner_references};
use wavegate_api::API_VERSION;
use wavegate_api::Raw;
use wavegate_api::live::LiveMetadata;
use wavegate_application::normalize;
use wavegate_engine::merge_patch::merge_patch;

/// What to write of an existing Application, apart from operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Nothing: it is as generated.
    None,
    /// This JSON merge patch.
    Patch(Box<str>),
    /// It must not be written, for this reason.
    Refused(Box<str>),
}

/// How existing Applications of a set are compared.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The set.
    pub set: &'a Identity,
    /// The effective policy.
    pub policy: Policy,
    /// The live metadata to preserve.
    pub preserve: &'a Preserve,
    /// Fields that are neither compared nor written.
    pub ignore: &'a Ignore,
    /// Whether the resources of an Application stay when it is deleted.
    pub keeps_resources: bool,
}

impl<'a> Rules<'a> {
    /// Those of a set with this identity.
    pub fn of(set: &'a Identity, generated: &'a Generated) -> Self {
        let Generated { policy, preserve, ignore, keeps_resources, .. } = generated;
        Self { set, policy: *policy, preserve, ignore, keeps_resources: *keeps_resources }
    }
}

/// The difference between an existing Application and the generated one.
///
/// The rollout and the write use this one comparison: if they disagreed, an
/// Application would be rolled out again and again, or never (AS-165, invariant
/// I13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateComparison {
    /// What to write.
    pub update: Update,
    /// Whether that changes the spec (AS-353).
    pub spec_differs: bool,
}

impl UpdateComparison {
    const NONE: Self = Self { update: Update::None, spec_differs: false };

    /// What to write of an owned Application whose spec is not written: only what protects
    /// it from garbage collection, by the policy.
    pub fn guarding(live: &LiveMetadata, rules: &Rules<'_>) -> Update {
        let patch = guard(live, rules.set, rules.policy);
        patch.map_or(Update::None, |patch| Update::Patch(patch.to_string().into()))
    }

    /// Compares an Application that the set may write.
    pub fn of(
        live: &Value,
        metadata: &LiveMetadata,
        wanted: &Value,
        owner: &ApplicationOwner,
        rules: &Rules<'_>,
    ) -> Self {
        let update = |update| Self { update, spec_differs: false };
        match owner {
            ApplicationOwner::Other(_) => Self::NONE,
            // If the policy forbids updates, no spec is written, so none differs.
            ApplicationOwner::Set if !rules.policy.updates() => {
                update(Self::guarding(metadata, rules))
            }
            ApplicationOwner::None if !rules.policy.updates() => update(Update::Refused(
                "it already exists and is not owned by an ApplicationSet, and the policy forbids \
                 to update it"
                    .into(),
            )),
            ApplicationOwner::Set | ApplicationOwner::None => {
                match patch(rules, wanted, live, metadata) {
                    Ok(Some(body)) => Self {
                        spec_differs: body.get("spec").is_some(),
                        update: Update::Patch(body.to_string().into()),
                    },
                    Ok(None) => Self::NONE,
                    // An Application that cannot be compared is not written, so this is
                    // not a change (AS-164).
                    Err(why) => update(Update::Refused(why.into())),
                }
            }
        }
    }
}

/// The merge patch that changes `live` to the generated Application; `None`
/// when they are equal. Fails if the ignored fields are unknown.
///
/// A merge patch replaces a list as a whole. If elements of other clients are in it, as they
/// were observed, the patch contains the observed version: otherwise it would undo a change
/// that was made since.
fn patch(
    rules: &Rules<'_>,
    generated: &Value,
    live: &Value,
    metadata: &LiveMetadata,
) -> Result<Option<Value>, String> {
    let target = target(rules, generated, live, metadata)?;
    let (old, new) = (live.spec(), target.spec());
    let spec = if normalize::equal_specs(old, new) { None } else { merge_patch(old, new) };
    let mut changed = Map::new();
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let part = |object: &Value| {
            object.get("metadata").and_then(|metadata| metadata.get(field)).cloned()
        };
        let (live, target) = (part(live).unwrap_or_default(), part(&target).unwrap_or_default());
        if !normalize::equal_when_empty(&live, &target)
            && let Some(change) = merge_patch(&live, &target)
        {
            changed.insert(field.to_owned(), change);
        }
    }
    let keeps_spec = rules.ignore.concerns(crate::desired::name_of(generated));
    if changed.values().any(has_list) || keeps_spec && spec.as_ref().is_some_and(has_list) {
        changed.insert("resourceVersion".to_owned(), metadata.resource_version.clone().into());
    }
    let changed = Some(changed).filter(|changed| !changed.is_empty()).map(Value::Object);
    let parts = [("spec", spec), ("metadata", changed)];
    let body = parts.into_iter().filter_map(|(field, part)| Some((field.to_owned(), part?)));
    let body: Map<String, Value> = body.collect();
    Ok((!body.is_empty()).then_some(Value::Object(body)))
}

fn has_list(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

/// The Application as it is to be. Rules of ignored fields see it whole, as they
/// see the live one.
fn target(
    rules: &Rules<'_>,
    generated: &Value,
    live: &Value,
    metadata: &LiveMetadata,
) -> Result<Value, String> {
    let mut spec = generated.spec().clone();
    normalize::empty_objects(&mut spec);
    let mut target = json!({
        "apiVersion": API_VERSION,
        "kind": "Application",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": rules.preserve.labels(generated, live),
            "annotations": rules.preserve.annotations(generated, live),
            "finalizers": preserve::merged_finalizers(generated, live),
            "ownerReferences": owner_references(metadata, rules.set, rules.policy),
        },
        "spec": spec,
    });
    rules.ignore.keep_live(crate::desired::name_of(generated), &mut target, live)?;
    Ok(target)
}
