//! What a pass looks at: generated and existing Applications, read once each
//! as long as they do not change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::controller::context::{Generated, Memory};
use crate::decide::application_set::ignore::Ignore;
use crate::decide::application_set::policy::Policy;
use crate::decide::application_set::{autosync, is_owned, observe, validate};
use crate::desired;
use crate::entropy::environment;
use crate::watch::object::Parsed;

/// Generates the set's Applications, unless its spec is the one that was
/// generated last. `rolling` tells whether automated sync is switched off.
pub fn generate(
    set: &Parsed,
    rolling: bool,
    now: Timestamp,
    memory: &mut Memory,
) -> Arc<Generated> {
    let of = set.value()["metadata"]["generation"].as_i64().unwrap_or_default();
    if let Some(generated) = memory.generated.as_ref().filter(|generated| generated.of == of) {
        return Arc::clone(generated);
    }
    let mut env = environment(now);
    let result = desired::generate(set.value(), &mut env);
    let mut generated = Generated {
        of,
        applications: BTreeMap::new(),
        originals: BTreeMap::new(),
        names: BTreeSet::new(),
        problems: result.as_ref().map(validate::problems_alone).unwrap_or_default(),
        result,
    };
    if let Ok(generation) = &generated.result {
        for (name, application) in generation.called() {
            let name = name.to_owned();
            let original = Arc::new(application.clone());
            let mut written = application.clone();
            if rolling {
                autosync::disable(&mut written);
            }
            generated.originals.insert(name.clone(), original);
            generated.applications.insert(name.clone(), Arc::new(written));
            generated.names.insert(name);
        }
    }
    let generated = Arc::new(generated);
    memory.generated = Some(Arc::clone(&generated));
    generated
}

/// Reads the Applications that the set owns; those that did not change since
/// the last pass are not read again. Where the policy forbids updates no spec is
/// written, so none differs (invariant I13).
pub fn observe_all(
    set: &Value,
    existing: &BTreeMap<String, Arc<Value>>,
    generated: &Generated,
    ignore: &Ignore,
    policy: Policy,
    memory: &mut Memory,
) {
    let owned = || existing.iter().filter(|(_, live)| is_owned(live, set));
    memory.observed.retain(|name, _| existing.get(name).is_some_and(|live| is_owned(live, set)));
    let mut read_from = HashMap::with_capacity(memory.read_from.len());
    for (name, live) in owned() {
        let wanted = generated.applications.get(name).filter(|_| policy.updates());
        let same = memory.read_from.get(name).is_some_and(|(old_live, old_wanted)| {
            let same_wanted = match (old_wanted, wanted) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            *old_live == version(live) && same_wanted
        });
        if !same || !memory.observed.contains_key(name) {
            let observed = observe::observe(live, wanted.map(Arc::as_ref), ignore);
            memory.observed.insert(name.clone(), observed);
        }
        read_from.insert(name.clone(), (version(live), wanted.map(Arc::clone)));
    }
    memory.read_from = read_from;
}

fn version(live: &Value) -> Value {
    live["metadata"]["resourceVersion"].clone()
}
