//! Configuration of comparisons, shared by many objects.

use std::sync::Arc;

use serde_json::Value;

use super::jq::{Expression, Jq};
use super::path::parse_pointer;
use super::schema::Schemas;
use super::system::SystemSettings;
use crate::api::annotations::{
    CLIENT_SIDE_APPLY_MIGRATION_MANAGER, COMPARE_OPTIONS, SYNC_OPTIONS, annotation, items,
};
use crate::api::kind::KindRef;
use crate::api::sync_options::CLIENT_SIDE_APPLY_MIGRATION_FALSE;
use crate::glob::{self, Glob};

/// The default field manager of server-side apply (SE-345).
pub const DEFAULT_MANAGER: &str = "argocd-controller";

/// The manager of kubectl's client-side apply (SE-346).
pub const DEFAULT_FORMER_MANAGER: &str = "kubectl-client-side-apply";

/// Options of the annotation `argocd.argoproj.io/compare-options` of an Application (SE-327).
const SERVER_SIDE_DIFF: &str = "ServerSideDiff=true";
const NO_SERVER_SIDE_DIFF: &str = "ServerSideDiff=false";
const WITH_WEBHOOKS: &str = "IncludeMutationWebhook=true";

/// Most rules of one source of rules.
const MAX_RULES: usize = 1000;

/// Most jq expressions of all rules: each may contain a compiled regular expression.
const MAX_EXPRESSIONS: usize = 500;

/// How to compare. Start with [`Config::default`] or [`Config::from_application`].
#[derive(Clone, Debug)]
pub struct Config {
    /// The field manager whose server-side apply entry defines which fields are owned by us.
    pub manager: String,
    /// Another manager whose fields are migrated to server-side apply (SE-346).
    pub former_manager: String,
    /// Whether a server-side apply migrates fields of earlier updates, by
    /// `former_manager` or by ourselves (SE-322).
    pub migrates: bool,
    /// The ignore rules; all matching rules are combined (SE-170).
    pub rules: Vec<Rule>,
    /// The Application syncs with `ServerSideApply=true`.
    pub server_side_apply: bool,
    /// Definitions of custom resources. For these kinds, defaults are set and lists merge
    /// as on the server (SE-605); others are compared more leniently.
    pub schemas: Arc<Schemas>,
    /// Evaluates the jq expressions of the rules.
    pub jq: Jq,
    /// Whose rules these are, for the limits of their expressions.
    pub scope: String,
    /// The settings of all Applications, with further rules.
    pub system: Arc<SystemSettings>,
    /// Whether the server predicts what an apply changes; `None` when it is computed here.
    pub server_side: Option<ServerSide>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            manager: DEFAULT_MANAGER.to_owned(),
            former_manager: DEFAULT_FORMER_MANAGER.to_owned(),
            migrates: true,
            rules: Vec::new(),
            server_side_apply: false,
            schemas: Arc::default(),
            jq: Jq::default(),
            scope: String::new(),
            system: Arc::default(),
            server_side: None,
        }
    }
}

/// How the prediction of the server is used (SE-158).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerSide {
    /// Changes by admission webhooks count, too.
    pub with_webhooks: bool,
}

/// A validated entry of `ignoreDifferences`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Glob of the API group; empty is the core group only.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
    /// Exact name; empty matches any name.
    pub name: String,
    /// Exact namespace; empty matches any namespace.
    pub namespace: String,
    /// Paths, as unescaped tokens of JSON pointers.
    pub pointers: Vec<Vec<String>>,
    /// Paths, as jq expressions.
    pub expressions: Vec<Expression>,
    /// Managers whose fields are ignored (SE-174).
    pub managers: Vec<String>,
}

/// An invalid part of the configuration. The rest is used, but a comparison may show
/// differences that should be ignored, so the caller reports a `ComparisonError`
/// (SE-173).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path in the configuration.
    pub at: String,
    /// The problem, with the expression or value.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

impl Config {
    /// Reads the settings of an Application: `spec.ignoreDifferences`, the sync options
    /// `ServerSideApply=true` and `ClientSideApplyMigration=false`, and the annotations
    /// `argocd.argoproj.io/client-side-apply-migration-manager` and
    /// `argocd.argoproj.io/compare-options`.
    ///
    /// Invalid parts are skipped and returned as problems.
    pub fn from_application(application: &Value, jq: &Jq) -> (Self, Vec<Problem>) {
        Self::with_settings(application, &Arc::default(), jq)
    }

    /// The same with the settings of all Applications.
    pub fn with_settings(
        application: &Value,
        system: &Arc<SystemSettings>,
        jq: &Jq,
    ) -> (Self, Vec<Problem>) {
        let metadata = &application["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let scope = format!("{}/{}", text("namespace"), text("name"));
        let system = Arc::clone(system);
        let mut config = Self { jq: jq.clone(), scope, system, ..Self::default() };
        config.server_side = ServerSide::of(application, config.system.server_side);
        let mut problems = Vec::new();
        if let Some(entries) = application.pointer("/spec/ignoreDifferences") {
            config.add_rules("spec.ignoreDifferences", entries, &mut problems);
        }
        let options = application.pointer("/spec/syncPolicy/syncOptions").and_then(Value::as_array);
        let has = |word: &str| options.into_iter().flatten().any(|option| option == word);
        config.server_side_apply = has("ServerSideApply=true");
        config.migrates = !has(CLIENT_SIDE_APPLY_MIGRATION_FALSE);
        let former = annotation(application, CLIENT_SIDE_APPLY_MIGRATION_MANAGER);
        if let Some(former) = former.filter(|former| !former.is_empty()) {
            config.former_manager = former.to_owned();
        }
        (config, problems)
    }

    /// Adds a list of `ignoreDifferences` entries; `at` is the path of the list in
    /// problems. `null` is an empty list.
    pub fn add_rules(&mut self, at: &str, entries: &Value, problems: &mut Vec<Problem>) {
        let Some(list) = entries.as_array() else {
            if !entries.is_null() {
                problems.push(Problem { at: at.to_owned(), message: "not a list".to_owned() });
            }
            return;
        };
        if list.len() > MAX_RULES {
            let message = format!("{} rules; only the first {MAX_RULES} are used", list.len());
            problems.push(Problem { at: at.to_owned(), message });
        }
        for (index, entry) in list.iter().take(MAX_RULES).enumerate() {
            let at = format!("{at}[{index}]");
            let text = |field: &str| {
                entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let mut rule = Rule {
                group: text("group"),
                kind: text("kind"),
                name: text("name"),
                namespace: text("namespace"),
                ..Rule::default()
            };
            if rule.kind.is_empty() {
                problems.push(Problem { at, message: "kind is required".to_owned() });
                continue;
            }
            let patterns = [("group", &rule.group), ("kind", &rule.kind)];
            for (field, error) in
                patterns.iter().filter_map(|(field, text)| Some((field, Glob::new(text).err()?)))
            {
                let message = error.to_string();
                problems.push(Problem { at: format!("{at}.{field}"), message });
            }
            rule.add_places(&at, entry, problems);
            rule.add_expressions(&at, entry, (&self.jq, left(&self.rules)), problems);
            self.rules.push(rule);
        }
    }

    /// The rules for one object.
    pub(super) fn rules_for<'a>(&'a self, object: &'a Value) -> impl Iterator<Item = &'a Rule> {
        let kind = KindRef::of(object);
        let metadata =
            |field: &str| object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str);
        let name = metadata("name").unwrap_or_default();
        let namespace = metadata("namespace").unwrap_or_default();
        let all = self.rules.iter().chain(&self.system.rules);
        all.filter(move |rule| rule.matches(kind, name, namespace))
    }
}

impl ServerSide {
    /// The choice of an Application; by default the prediction of the server is used or not.
    pub fn of(application: &Value, default: bool) -> Option<Self> {
        let has = |word: &str| compare_options(application).any(|option| option == word);
        let is_on = match (has(SERVER_SIDE_DIFF), has(NO_SERVER_SIDE_DIFF)) {
            // Both: the one that turns it off, as in Argo CD.
            (_, true) => false,
            (true, false) => true,
            (false, false) => default,
        };
        is_on.then(|| Self { with_webhooks: has(WITH_WEBHOOKS) })
    }
}

/// How many more jq expressions a list of rules may have.
fn left(rules: &[Rule]) -> usize {
    let held: usize = rules.iter().map(|rule| rule.expressions.len()).sum();
    MAX_EXPRESSIONS.saturating_sub(held)
}

/// Adds a rule with the places of `entry` to a list, unless the list is full.
pub(super) fn add_rule(
    rules: &mut Vec<Rule>,
    at: &str,
    mut rule: Rule,
    entry: &Value,
    jq: &Jq,
    problems: &mut Vec<Problem>,
) {
    if rules.len() >= MAX_RULES {
        let message = format!("more than {MAX_RULES} rules; this one is not used");
        problems.push(Problem { at: at.to_owned(), message });
        return;
    }
    rule.add_places(at, entry, problems);
    rule.add_expressions(at, entry, (jq, left(rules)), problems);
    rules.push(rule);
}

impl Rule {
    /// Whether the rule applies to this object (SE-171).
    pub fn matches(&self, kind: KindRef<'_>, name: &str, namespace: &str) -> bool {
        glob::allows(&self.group, kind.group, None)
            && glob::allows(&self.kind, kind.kind, None)
            && (self.name.is_empty() || self.name == name)
            && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn add_places(&mut self, at: &str, entry: &Value, problems: &mut Vec<Problem>) {
        for (index, value) in listed(entry, "jsonPointers") {
            let parsed = match value.as_str() {
                Some(text) => parse_pointer(text).map_err(|why| format!("{text:?}: {why}")),
                None => Err(NOT_A_STRING.to_owned()),
            };
            match parsed {
                Ok(pointer) => self.pointers.push(pointer),
                Err(message) => {
                    problems.push(Problem { at: format!("{at}.jsonPointers[{index}]"), message });
                }
            }
        }
        for (index, value) in listed(entry, "managedFieldsManagers") {
            match value.as_str() {
                Some(manager) => self.managers.push(manager.to_owned()),
                None => problems.push(Problem {
                    at: format!("{at}.managedFieldsManagers[{index}]"),
                    message: NOT_A_STRING.to_owned(),
                }),
            }
        }
    }

    /// Adds at most so many expressions.
    fn add_expressions(
        &mut self,
        at: &str,
        entry: &Value,
        (jq, most): (&Jq, usize),
        problems: &mut Vec<Problem>,
    ) {
        let all: Vec<(usize, &Value)> = listed(entry, "jqPathExpressions").collect();
        let texts: Vec<&str> =
            all.iter().filter_map(|(_, value)| value.as_str()).take(most).collect();
        let mut parsed = jq.parse(&texts).into_iter();
        for (index, value) in all {
            let expression = match value.as_str() {
                Some(text) => parsed
                    .next()
                    .unwrap_or_else(|| Err(format!("more than {MAX_EXPRESSIONS} jq expressions")))
                    .map_err(|why| format!("{text:?}: {why}")),
                None => Err(NOT_A_STRING.to_owned()),
            };
            match expression {
                Ok(expression) => self.expressions.push(expression),
                Err(message) => {
                    let at = format!("{at}.jqPathExpressions[{index}]");
                    problems.push(Problem { at, message });
                }
            }
        }
    }
}

const NOT_A_STRING: &str = "not a string";

/// The elements of a list of a rule.
fn listed<'a>(entry: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    entry.get(field).and_then(Value::as_array).into_iter().flatten().enumerate()
}

/// The items of an object's annotation `argocd.argoproj.io/compare-options`.
pub fn compare_options(object: &Value) -> impl Iterator<Item = &str> {
    items(object, COMPARE_OPTIONS).into_iter()
}

/// The items of an object's annotation `argocd.argoproj.io/sync-options`.
pub fn sync_options(object: &Value) -> impl Iterator<Item = &str> {
    items(object, SYNC_OPTIONS).into_iter()
}
