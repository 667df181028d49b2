//! What to change in one existing Application so that it is as generated.

use serde_json::{Value, json};

use super::ignore::Ignore;
use super::observe::Rules;
use super::owner::{Owner, owner_references};
use super::{normalize, preserve};
use crate::decide::merge_patch::merge_patch;

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

impl Update {
    pub(super) fn plan(live: &Value, wanted: &Value, owner: &Owner, rules: &Rules<'_>) -> Self {
        if !rules.policy.updates() {
            return match owner {
                Owner::None => Self::Refused(
                    "it already exists and is not owned by an ApplicationSet, and the policy forbids \
                     to update it"
                        .into(),
                ),
                Owner::Set | Owner::Other(_) => Self::None,
            };
        }
        match update(rules, wanted, live) {
            Ok(Some(body)) => Self::Patch(body.to_string().into()),
            Ok(None) => Self::None,
            Err(why) => Self::Refused(why.into()),
        }
    }
}

/// The merge patch that changes `live` to the generated Application; `None`
/// when they are equal. Fails if the ignored fields are unknown.
fn update(rules: &Rules<'_>, generated: &Value, live: &Value) -> Result<Option<Value>, String> {
    let target = target(rules, generated, live)?;
    let mut body = json!({});
    if !normalize::equal_specs(&live["spec"], &target["spec"])
        && let Some(change) = merge_patch(&live["spec"], &target["spec"])
    {
        body["spec"] = change;
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let (live, target) = (&live["metadata"][field], &target["metadata"][field]);
        if !normalize::equal(live, target)
            && let Some(change) = merge_patch(live, target)
        {
            body["metadata"][field] = change;
        }
    }
    Ok((body != json!({})).then_some(body))
}

fn target(rules: &Rules<'_>, generated: &Value, live: &Value) -> Result<Value, String> {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    target["metadata"]["labels"] = rules.preserve.labels(generated, live);
    target["metadata"]["annotations"] = rules.preserve.annotations(generated, live);
    target["metadata"]["finalizers"] = preserve::finalizers(generated, live);
    target["metadata"]["ownerReferences"] = owner_references(live, rules.set);
    rules.ignore.keep_live(crate::desired::name_of(generated), &mut target, live)?;
    Ok(target)
}

/// Whether the live spec differs from the generated one (AS-353): exactly when
/// [`plan`](super::plan) would change it (AS-165, invariant I13).
pub fn spec_differs(generated: &Value, live: &Value, ignore: &Ignore) -> bool {
    let mut target = json!({ "spec": generated["spec"], "metadata": {} });
    normalize::empty_objects(&mut target["spec"]);
    // An Application that cannot be compared is not written, so this is not a
    // change (AS-164).
    ignore.keep_live(crate::desired::name_of(generated), &mut target, live).is_ok()
        && !normalize::equal_specs(&live["spec"], &target["spec"])
}
