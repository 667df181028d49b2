//! Which kinds are assessed: what an administrator may choose.

use std::sync::Arc;

use serde_json::Value;

use super::rules::rule;
use super::scripts::{Script, ScriptResult, ScriptResults, Scripts};
use super::status::{Health, Status};
use super::{generic, table};
use wavegate_api::Raw;
use wavegate_api::annotations::is_held_as_hook;
use wavegate_api::kind::KindRef;

/// The choices about health checks. `Default` is the default of an installation: the rules
/// of all kinds, the generic assessment of the others, and no health of Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Whether kinds without a rule are assessed by what they report.
    pub generic: bool,
    /// The kinds that are not, although it is on.
    pub not_generic: Vec<KindPattern>,
    /// Whether an Application has the health in its status, for Applications that deploy
    /// Applications (SE-468).
    pub applications: bool,
    /// Scripts of administrators, which go before all rules (SE-441).
    pub scripts: Arc<Scripts>,
    /// What these said about the objects that are assessed.
    pub results: Arc<ScriptResults>,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            generic: true,
            not_generic: Vec::new(),
            applications: false,
            scripts: Arc::default(),
            results: Arc::default(),
        }
    }
}

/// A group and a kind, in which `*` is any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindPattern {
    group: String,
    kind: String,
}

impl KindPattern {
    /// Reads `GROUP/KIND`.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim().split_once('/') {
            Some((group, kind)) if !group.is_empty() && !kind.is_empty() && !kind.contains('/') => {
                Ok(Self { group: group.to_owned(), kind: kind.to_owned() })
            }
            _ => Err(format!("{text:?} is not GROUP/KIND, such as example.com/* or *.io/Backup")),
        }
    }

    fn matches(&self, group: &str, kind: &str) -> bool {
        table::glob_matches(&self.group, group) && table::glob_matches(&self.kind, kind)
    }
}

impl Checks {
    /// Health of a live object: its deletion first, then its script, then the rule of its kind.
    ///
    /// `None` when the kind has no health check (SE-467, SE-468); such an object does not
    /// affect the Application.
    pub fn of(&self, object: &Value) -> Option<Health> {
        pending_deletion(object).or_else(|| self.by_kind(object))
    }

    /// The same, for those who look at objects without evaluating scripts: `None` for one with
    /// a script whose result is not known.
    pub fn known(&self, object: &Value) -> Option<Health> {
        let unknown = |script: &Arc<_>| self.result(script, object).is_none();
        match self.scripts.of_object(object) {
            Some(script) if unknown(script) => pending_deletion(object),
            _ => self.of(object),
        }
    }

    /// Why the script of an object failed (SE-442). Not of one that is being deleted, whose
    /// script does not count.
    pub fn script_error(&self, object: &Value) -> Option<&str> {
        let script = self.scripts.of_object(object)?;
        let error = self.result(script, object)?.error.as_deref()?;
        pending_deletion(object).is_none().then_some(error)
    }

    fn result(&self, script: &Script, object: &Value) -> Option<&ScriptResult> {
        self.results.get(&script.key(object))
    }

    /// The script or the rule of the object's group and kind, without its deletion.
    ///
    /// Group and kind match exactly; an unsupported version of a built-in kind gives
    /// `Unknown`, since its fields may differ (SE-441).
    pub fn by_kind(&self, object: &Value) -> Option<Health> {
        let KindRef { group, version, kind } = KindRef::of(object);
        if let Some(script) = self.scripts.of(group, kind) {
            return self.results.health(script, object);
        }
        if let Some(rule) = rule(group, kind) {
            if !rule.versions.is_empty() && !rule.versions.contains(&version) {
                let message = format!("unsupported {kind} GVK: {group}/{version}, Kind={kind}");
                return Some(Health::unknown(message));
            }
            return Some((rule.judge)(object));
        }
        if let Some(health) = table::assess(group, kind, object) {
            return Some(health);
        }
        if self.applications && is_application(group, kind) {
            return Some(application(object));
        }
        if self.is_generic(group, kind) { generic::assess(object) } else { None }
    }

    /// Whether there is a health check for a kind. Without one, the metadata of an object is
    /// all that [`Self::of`] uses.
    pub fn has_check(&self, group: &str, kind: &str) -> bool {
        self.scripts.of(group, kind).is_some()
            || rule(group, kind).is_some()
            || table::contains(group, kind)
            || (self.applications && is_application(group, kind))
            || self.is_generic(group, kind)
    }

    fn is_generic(&self, group: &str, kind: &str) -> bool {
        self.generic
            && generic::is_for(group, kind)
            && !self.not_generic.iter().any(|pattern| pattern.matches(group, kind))
    }
}

fn is_application(group: &str, kind: &str) -> bool {
    group == "argoproj.io" && kind == "Application"
}

/// The health of an Application as its controller reports it.
///
/// A running or requested operation is Progressing: the health is of before it, and a parent
/// must not go on by it.
fn application(object: &Value) -> Health {
    let phase = object.text("/status/operationState/phase");
    if object.get("operation").is_some_and(|operation| !operation.is_null()) {
        return Health::progressing("Waiting for the requested operation to start");
    }
    if matches!(phase, "Running" | "Terminating") {
        let message = object.text("/status/operationState/message");
        let message = if message.is_empty() { "The operation is running" } else { message };
        return Health::progressing(message);
    }
    match Status::parse(object.text("/status/health/status")) {
        Some(status) => Health::new(status, object.text("/status/health/message")),
        None => Health::progressing("Waiting for the health of the Application to be reported"),
    }
}

/// `Progressing` for an object that is being deleted, unless it is a hook that is kept
/// for its result (SE-441.1). Evaluated before scripts.
pub fn pending_deletion(object: &Value) -> Option<Health> {
    // An empty string is a zero timestamp and not a deletion.
    (object.is_deleting() && !is_held_as_hook(object))
        .then(|| Health::progressing("Pending deletion"))
}
