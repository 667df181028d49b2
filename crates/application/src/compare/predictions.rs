//! What the API server predicts of objects, by dry runs of a server-side apply (SE-150, SE-158,
//! SE-159): which dry runs a comparison needs, and which answers are still valid.
//!
//! An answer holds for one target, one version of the live object and one choice about webhooks.
//! It is asked for again when a user asks for a comparison, since webhooks change without either.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::memory::digest_of;
use crate::observation::Observation;
use crate::predicted::{Predicted, Prediction};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff::{self, ServerSide};
use wavegate_engine::sync::ObjectClass;

/// A dry run to be made.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The object.
    pub key: ResourceKey,
    /// What is applied. It may have values of a Secret.
    pub target: Arc<Value>,
    uid: String,
    version: String,
    digest: u64,
    how: ServerSide,
}

impl DryRun {
    /// What an answer for a version of the live object holds for.
    fn of(&self, version: &str) -> u64 {
        digest_of(&(&self.uid, version, self.digest, self.how))
    }
}

/// The answers that are kept of an Application.
#[derive(Clone, Debug, Default)]
pub struct Predictions(BTreeMap<ResourceKey, Kept>);

#[derive(Clone, Debug)]
struct Kept {
    of: u64,
    /// As JSON, since a tree of values takes several times as much memory.
    answer: Arc<[u8]>,
}

impl Predictions {
    /// The dry runs that a comparison needs, besides the answers that are kept. With `afresh`,
    /// no kept answer counts. Without server-side diff, nothing is kept and nothing is needed.
    ///
    /// Only objects that exist are asked about, of kinds and in namespaces that the project
    /// permits: others are refused anyway, and nothing is sent for them.
    pub fn missing(
        &mut self,
        observation: &Observation<'_>,
        application: &Value,
        afresh: bool,
    ) -> Vec<DryRun> {
        let Some(how) = ServerSide::of(application, observation.compared.server_side) else {
            self.0.clear();
            return Vec::new();
        };
        if afresh {
            self.0.clear();
        }
        let permits = observation.access.permits();
        let mut current = BTreeMap::new();
        let mut missing = Vec::new();
        for target in &observation.placed.targets {
            let (key, object) = (&target.key, &target.object);
            let live = observation.live.get(key).filter(|_| !key.name.is_empty());
            let Some(live) = live.filter(|_| target.class == ObjectClass::Resource) else {
                continue;
            };
            if permits.denial(key, object).is_some() {
                continue;
            }
            let [uid, version] = [live.uid(), live.resource_version()].map(str::to_owned);
            let (key, digest) = (key.clone(), target.digest);
            let target = match diff::as_stored(object) {
                Cow::Borrowed(_) => Arc::clone(object),
                Cow::Owned(stored) => Arc::new(stored),
            };
            let run = DryRun { key, target, uid, version, digest, how };
            match self.0.remove(&run.key).filter(|kept| kept.of == run.of(&run.version)) {
                Some(kept) => drop(current.insert(run.key, kept)),
                None => missing.push(run),
            }
        }
        self.0 = current;
        missing
    }

    /// Keeps the answer to a dry run. The live object may have changed since it was observed: the
    /// answer holds for the version that it has.
    pub fn keep(&mut self, run: DryRun, answer: &Value) {
        let found = answer.resource_version();
        let of = run.of(if found.is_empty() { &run.version } else { found });
        let answer = answer.to_string().into_bytes().into();
        self.0.insert(run.key, Kept { of, answer });
    }

    /// The predictions, with the dry runs that failed.
    pub fn with_failures(&self, failed: Vec<(ResourceKey, String)>) -> Predicted {
        let kept = self.0.iter().filter_map(|(key, kept)| {
            // Serialized by this process.
            let answer = serde_json::from_slice(&kept.answer).ok()?;
            Some((key.clone(), Prediction::Answer(Arc::new(answer), digest_of(&kept.answer))))
        });
        let failed = failed.into_iter().map(|(key, why)| (key, Prediction::Failed(why)));
        kept.chain(failed).collect()
    }
}
