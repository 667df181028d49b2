//! Health checks in Lua, which administrators write (SE-480 … SE-485).
//!
//! A decision runs no script. The observation of an Application evaluates the scripts of the
//! kinds that it has (`crates/controller/src/health_scripts.rs`) and hands the results over with
//! the [`Checks`](super::Checks); here they are only looked up.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::status::{Health, Status};
use wavegate_api::Raw;
use wavegate_api::glob::Glob;
use wavegate_api::kind::KindRef;

/// One script, for one kind or a pattern of kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The setting that it is from, for messages.
    pub setting: String,
    /// The program.
    pub text: Arc<str>,
    /// Whether it may use `string`, `math` and the like.
    pub open_libs: bool,
}

impl Script {
    /// Identifies an evaluation: the same script and version of an object give the same
    /// result. An object that was not read from a server is its own version.
    pub fn key(&self, object: &Value) -> EvaluationKey {
        let (uid, version) = (object.uid(), object.text("/metadata/resourceVersion"));
        let object = match uid.is_empty() || version.is_empty() {
            true => object.to_string(),
            false => format!("{uid}/{version}"),
        };
        EvaluationKey { script: Arc::clone(&self.text), open_libs: self.open_libs, object }
    }
}

/// See [`Script::key`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluationKey {
    object: String,
    open_libs: bool,
    script: Arc<str>,
}

/// The scripts of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    /// By `GROUP/KIND`, or `KIND` of the core group.
    exact: BTreeMap<String, Arc<Script>>,
    /// By globs of such a name, the longest first.
    patterns: Vec<(Glob, Arc<Script>)>,
}

impl Scripts {
    /// The scripts by `GROUP/KIND`, or `KIND` of the core group; a name with wildcards is a
    /// glob.
    ///
    /// Of several globs that match a kind, the longest one counts, then the first in the
    /// order of texts: the result must not be by chance.
    ///
    /// # Errors
    ///
    /// With the scripts whose names are valid: why the other names are not.
    pub fn new(by_kind: BTreeMap<String, Script>) -> (Self, Vec<String>) {
        let (mut scripts, mut invalid) = (Self::default(), Vec::new());
        let mut patterns = Vec::new();
        for (name, script) in by_kind {
            let script = Arc::new(script);
            if !name.contains(['*', '?', '[', '{']) {
                scripts.exact.insert(name, script);
                continue;
            }
            match Glob::new(&name) {
                Ok(glob) => patterns.push((name, glob, script)),
                Err(error) => invalid.push(format!("{}: {error}", script.setting)),
            }
        }
        patterns.sort_by(|(a, ..), (b, ..)| (b.len(), a).cmp(&(a.len(), b)));
        scripts.patterns = patterns.into_iter().map(|(_, glob, script)| (glob, script)).collect();
        (scripts, invalid)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// The script of a kind: one of its name goes before one of a pattern (SE-480).
    pub fn of(&self, group: &str, kind: &str) -> Option<&Arc<Script>> {
        if self.is_empty() {
            return None;
        }
        let name = match group {
            "" => kind.to_owned(),
            group => format!("{group}/{kind}"),
        };
        let by_pattern = || self.patterns.iter().find(|(glob, _)| glob.matches(&name));
        self.exact.get(&name).or_else(|| by_pattern().map(|(_, script)| script))
    }

    /// The script of the kind of an object.
    pub fn of_object(&self, object: &Value) -> Option<&Arc<Script>> {
        let KindRef { group, kind, .. } = KindRef::of(object);
        self.of(group, kind)
    }
}

/// What a script said about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptResult {
    /// The health; `None` when the script returned none.
    pub health: Option<Health>,
    /// Why the script failed; the health is Unknown then (SE-442).
    pub error: Option<String>,
    /// Until when it counts; `None` as long as object and script stay the same.
    pub until: Option<Timestamp>,
}

/// How long the end of a script at a limit counts, since another attempt is expensive.
const AFTER_LIMIT: SignedDuration = SignedDuration::from_mins(1);

impl ScriptResult {
    /// The result of a script that failed.
    fn failed(error: &str) -> Self {
        Self { health: Some(Health::unknown(error)), error: Some(error.to_owned()), until: None }
    }

    /// The result of a script that was ended at a limit.
    pub fn ended(error: &str, now: Timestamp) -> Self {
        let until = now.checked_add(AFTER_LIMIT).unwrap_or(now);
        Self { until: Some(until), ..Self::failed(error) }
    }

    /// The result of a script that could not be run, for which the object is not to blame.
    pub fn not_run(why: &str, now: Timestamp) -> Self {
        let message = format!("the health script cannot be run: {why}");
        Self { health: Some(Health::progressing(message)), error: None, until: Some(now) }
    }

    /// Reads what the confined process returned: `status` and `message`, or `error`;
    /// `timedOut`, and `clock` when the script asked for the time.
    pub fn read(result: &Value, now: Timestamp) -> Self {
        let until = (result["clock"] == true).then_some(now);
        match result["error"].as_str() {
            Some(error) if result["timedOut"] == true => Self::ended(error, now),
            Some(error) => Self { until, ..Self::failed(error) },
            None => {
                let status = Status::parse(result.field("status"));
                let health = status.map(|status| Health::new(status, result.field("message")));
                Self { health, error: None, until }
            }
        }
    }

    /// Whether it still counts.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// Results of scripts: facts that a decision is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptResults(BTreeMap<EvaluationKey, ScriptResult>);

impl ScriptResults {
    /// Adds a result.
    pub fn insert(&mut self, key: EvaluationKey, result: ScriptResult) {
        self.0.insert(key, result);
    }

    /// A result that was added.
    pub fn get(&self, key: &EvaluationKey) -> Option<&ScriptResult> {
        self.0.get(key)
    }

    /// The health of an object by its script. One that was not evaluated is Progressing,
    /// which holds what waits for it.
    pub(super) fn health(&self, script: &Script, object: &Value) -> Option<Health> {
        match self.get(&script.key(object)) {
            Some(result) => result.health.clone(),
            None => {
                Some(Health::progressing(format!("waiting for the result of {}", script.setting)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::health::Checks;

    fn script(text: &str) -> Script {
        Script { setting: "s".to_owned(), text: text.into(), open_libs: false }
    }

    fn scripts(names: &[&str]) -> Scripts {
        let each = names.iter().map(|name| ((*name).to_owned(), script(name)));
        let (scripts, invalid) = Scripts::new(each.collect());
        assert_eq!(invalid, [""; 0]);
        scripts
    }

    #[test]
    fn a_name_goes_before_patterns_and_a_longer_pattern_before_a_shorter_one() {
        let scripts = scripts(&[
            "apps/Deployment",
            "Pod",
            "*/*",
            "*.crossplane.io/*",
            "*.aws.crossplane.io/*",
            "{a,b}.example.com/Thing",
        ]);
        let rows = [
            ("apps", "Deployment", "apps/Deployment"),
            ("apps", "StatefulSet", "*/*"),
            ("", "Pod", "Pod"),
            ("x.crossplane.io", "Bucket", "*.crossplane.io/*"),
            ("s3.aws.crossplane.io", "Bucket", "*.aws.crossplane.io/*"),
            ("b.example.com", "Thing", "{a,b}.example.com/Thing"),
        ];
        for (group, kind, want) in rows {
            let found = scripts.of(group, kind).map(|script| script.text.to_string());
            assert_eq!(found.as_deref(), Some(want), "{group}/{kind}");
        }
        // A kind of the core group has no group to match.
        assert_eq!(scripts.of("", "Service"), None);
        assert_eq!(Scripts::default().of("apps", "Deployment"), None);
        let (valid, invalid) = Scripts::new([("[a/*".to_owned(), script("x"))].into());
        assert!(valid.is_empty());
        assert_eq!(invalid.len(), 1);
    }

    #[test]
    fn a_result_counts_for_one_version_of_the_object_and_one_script() {
        let object = |version: &str| {
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"uid": "u", "resourceVersion": version},
            })
        };
        let deployments = scripts(&["apps/Deployment"]);
        let own = deployments.of("apps", "Deployment").expect("the script").clone();
        let mut results = ScriptResults::default();
        let said = ScriptResult::read(
            &json!({"status": "Degraded", "message": "no"}),
            Timestamp::UNIX_EPOCH,
        );
        results.insert(own.key(&object("1")), said);
        let checks = Checks {
            scripts: Arc::new(deployments),
            results: Arc::new(results),
            ..Checks::default()
        };
        assert_eq!(checks.of(&object("1")), Some(Health::degraded("no")));
        let waits = checks.of(&object("2")).expect("a health");
        assert_eq!(waits.status, Status::Progressing);
        // A deletion goes before the script, and other kinds have their rules.
        let mut deleting = object("1");
        deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(checks.of(&deleting), Some(Health::progressing("Pending deletion")));
        assert!(checks.has_check("apps", "Deployment"));
        assert_eq!(checks.known(&object("2")), None);
    }

    #[test]
    fn what_a_script_returned_is_read() {
        let now = Timestamp::UNIX_EPOCH;
        let read = |value: Value| ScriptResult::read(&value, now);
        assert_eq!(read(json!({})).health, None);
        let failed = read(json!({"error": "no", "clock": true}));
        assert_eq!(failed.health, Some(Health::unknown("no")));
        assert_eq!((failed.error.as_deref(), failed.is_current(now)), (Some("no"), false));
        let healthy = read(json!({"status": "Healthy", "message": ""}));
        assert!(healthy.is_current(Timestamp::MAX));
        assert_eq!(healthy.health, Some(Health::healthy("")));
        let slow = read(json!({"error": "slow", "timedOut": true}));
        let later = now.checked_add(AFTER_LIMIT).expect("a time");
        assert!(slow.is_current(now) && !slow.is_current(later));
    }
}
