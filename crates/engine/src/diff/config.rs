//! Configuration of comparisons, shared by many objects.

use std::sync::Arc;

use serde_json::Value;

use super::jq::Jq;
use super::rule::{MAX_RULES, Rule, RuleProblem, add_rule};
use super::schema::Schemas;
use super::system::SystemSettings;
use wavegate_api::Raw;
use wavegate_api::annotations::{
    CLIENT_SIDE_APPLY_MIGRATION_MANAGER, COMPARE_OPTIONS, SYNC_OPTIONS, annotation_items,
    annotation_of,
};
use wavegate_api::kind::KindRef;
use wavegate_api::sync_options::CLIENT_SIDE_APPLY_MIGRATION_FALSE;

/// The default field manager of server-side apply (SE-345).
pub const DEFAULT_MANAGER: &str = "argocd-controller";

/// The manager of kubectl's client-side apply (SE-346).
pub const DEFAULT_FORMER_MANAGER: &str = "kubectl-client-side-apply";

/// Where the rules of an Application are.
const RULES: &str = "spec.ignoreDifferences";

/// Options of the annotation `argocd.argoproj.io/compare-options` of an Application (SE-327).
const SERVER_SIDE_DIFF: &str = "ServerSideDiff=true";
const NO_SERVER_SIDE_DIFF: &str = "ServerSideDiff=false";
const WITH_WEBHOOKS: &str = "IncludeMutationWebhook=true";

/// How to compare. Start with [`DiffConfig::default`] or [`DiffConfig::from_application`].
#[derive(Clone, Debug)]
pub struct DiffConfig {
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

impl Default for DiffConfig {
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

impl DiffConfig {
    /// Reads the settings of an Application: `spec.ignoreDifferences`, the sync options
    /// `ServerSideApply=true` and `ClientSideApplyMigration=false`, and the annotations
    /// `argocd.argoproj.io/client-side-apply-migration-manager` and
    /// `argocd.argoproj.io/compare-options`.
    ///
    /// Invalid parts are skipped and returned as problems.
    pub fn from_application(application: &Value, jq: &Jq) -> (Self, Vec<RuleProblem>) {
        Self::with_settings(application, &Arc::default(), jq)
    }

    /// The same with the settings of all Applications.
    pub fn with_settings(
        application: &Value,
        system: &Arc<SystemSettings>,
        jq: &Jq,
    ) -> (Self, Vec<RuleProblem>) {
        let scope = format!("{}/{}", application.namespace(), application.name());
        let system = Arc::clone(system);
        let mut config = Self { jq: jq.clone(), scope, system, ..Self::default() };
        config.server_side = ServerSide::of(application, config.system.server_side);
        let mut problems = Vec::new();
        if let Some(entries) = application.pointer("/spec/ignoreDifferences") {
            config.add_rules(RULES, entries, &mut problems);
        }
        let options = application.pointer("/spec/syncPolicy/syncOptions").and_then(Value::as_array);
        let has = |word: &str| options.into_iter().flatten().any(|option| option == word);
        config.server_side_apply = has("ServerSideApply=true");
        config.migrates = !has(CLIENT_SIDE_APPLY_MIGRATION_FALSE);
        let former = annotation_of(application, CLIENT_SIDE_APPLY_MIGRATION_MANAGER);
        if let Some(former) = former.filter(|former| !former.is_empty()) {
            config.former_manager = former.to_owned();
        }
        (config, RuleProblem::bounded(RULES, problems))
    }

    /// Adds a list of `ignoreDifferences` entries; `at` is the path of the list in
    /// problems. `null` is an empty list.
    pub fn add_rules(&mut self, at: &str, entries: &Value, problems: &mut Vec<RuleProblem>) {
        let Some(list) = entries.as_array() else {
            if !entries.is_null() {
                problems.push(RuleProblem::error(at, "not a list"));
            }
            return;
        };
        if list.len() > MAX_RULES {
            let message = format!("{} rules; only the first {MAX_RULES} are used", list.len());
            problems.push(RuleProblem::error(at, message));
        }
        for (index, entry) in list.iter().take(MAX_RULES).enumerate() {
            let at = format!("{at}[{index}]");
            let text = |field: &str| {
                entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let rule = Rule {
                group: text("group"),
                kind: text("kind"),
                name: text("name"),
                namespace: text("namespace"),
                ..Rule::default()
            };
            if rule.kind.is_empty() {
                let message = "kind is required, such as Deployment, or '*' for all; the rule \
                               has no effect";
                problems.push(RuleProblem::warning(at, message));
                continue;
            }
            add_rule(&mut self.rules, &at, rule, entry, (&self.jq, &self.scope), problems);
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

/// The items of an object's annotation `argocd.argoproj.io/compare-options`.
pub fn compare_options(object: &Value) -> impl Iterator<Item = &str> {
    annotation_items(object, COMPARE_OPTIONS).into_iter()
}

/// The items of an object's annotation `argocd.argoproj.io/sync-options`.
pub fn sync_options(object: &Value) -> impl Iterator<Item = &str> {
    annotation_items(object, SYNC_OPTIONS).into_iter()
}
