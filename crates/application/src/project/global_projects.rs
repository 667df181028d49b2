//! Global projects: a project whose labels one of the selectors of `globalProjects` of the
//! ConfigMap `argocd-cm` matches inherits the lists of the project that the entry names.
//!
//! The entries of these lists are appended: `sourceRepos`, `destinations`, `syncWindows`, and the
//! lists of kinds. All other fields are those of the project itself, as in Argo CD. There, an entry
//! with a project that does not exist, or with an invalid selector, ends the list in silence, and the
//! restrictions of all further entries are not applied; here, nothing of the projects that it is
//! about is deployed.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::project;
use crate::pruned_fields::PrunedField;
use wavegate_api::app_project::Inherited;
use wavegate_api::raw::{object_at, texts_of};
use wavegate_api::selector::Selector;
use wavegate_api::{AppProjectSpec, Raw, read_leniently};
use wavegate_engine::windows::{self, Window};

/// The key of the ConfigMap.
pub const GLOBAL_PROJECTS: &str = "globalProjects";

/// Most entries.
const MOST: usize = 1000;

/// The entries of the setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalProjects {
    entries: Vec<Entry>,
    /// Why the setting cannot be understood.
    problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    selector: Selector,
    project: String,
}

/// An entry as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EntryView {
    label_selector: Value,
    project_name: String,
}

/// What a project has from global projects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inheritance {
    /// The spec with their lists.
    pub spec: AppProjectSpec,
    /// The sync windows of these projects.
    pub windows: Vec<Window>,
    /// Their invalid fields.
    pub problems: Vec<String>,
    /// A guard of them that the API server has dropped.
    pub lost: Option<String>,
}

impl GlobalProjects {
    /// Reads the parsed value of the setting.
    pub fn read(list: &Value) -> Self {
        match entries(list) {
            Ok(entries) => Self { entries, problem: None },
            Err(problem) => Self::unreadable(&problem),
        }
    }

    /// A setting that cannot be understood.
    pub fn unreadable(problem: &str) -> Self {
        let problem = Some(format!("{GLOBAL_PROJECTS} of ConfigMap argocd-cm: {problem}"));
        Self { entries: Vec::new(), problem }
    }

    /// Why the setting cannot be understood, if it cannot.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The global projects of a raw project, in the order of the setting, each once. A project is
    /// not its own global project, and does not inherit what its global projects inherit.
    pub fn of(&self, project: &Value) -> Vec<&str> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let (name, labels) = (project.name(), texts_of(project.labels()));
        let mut found = Vec::new();
        for Entry { selector, project } in &self.entries {
            if project != name && !found.contains(&project.as_str()) && selector.selects(&labels) {
                found.push(project.as_str());
            }
        }
        found
    }

    /// The projects that entries name.
    pub fn names(&self) -> BTreeSet<&str> {
        self.entries.iter().map(|entry| entry.project.as_str()).collect()
    }

    /// Whether a project inherits from another one.
    pub fn inherits(&self, project: &Value, from: &str) -> bool {
        self.entries.iter().any(|entry| entry.project == from) && self.of(project).contains(&from)
    }

    /// What a raw project of this spec has with its global projects, which `find` returns.
    ///
    /// # Errors
    ///
    /// Why that is not known: nothing of the project may be deployed then.
    pub fn applied<'a>(
        &self,
        project: &Value,
        spec: AppProjectSpec,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Inheritance, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let mut all = Inheritance { spec, ..Inheritance::default() };
        for name in self.of(project) {
            let global = find(name).ok_or_else(|| missing(name))?;
            let spec =
                wavegate_api::read_typed::<AppProjectSpec>(global.spec()).map_err(|error| {
                    format!(
                        "{GLOBAL_PROJECTS} of ConfigMap argocd-cm: global project {name} cannot be \
                     read: spec.{error}"
                    )
                })?;
            let own = project::inheritable_problems(&spec).into_iter();
            let own =
                own.chain(windows::window_problems(global)).chain(windows::window_warnings(global));
            all.problems.extend(own.map(|problem| format!("global project {name}: {problem}")));
            let inherited = windows::project_windows(global).into_iter();
            all.windows.extend(inherited.map(|window| window.of_global(name, project)));
            all.lost = all.lost.or_else(|| PrunedField::of(global).map(|lost| lost.message(name)));
            append(&mut all.spec, spec, name);
        }
        Ok(all)
    }

    /// The sync windows of a raw project, with those of its global projects. While these are not
    /// known, a window that permits no sync.
    pub fn windows<'a>(
        &self,
        project: &Value,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Vec<Window> {
        let mut all = windows::project_windows(project);
        match self.applied(project, AppProjectSpec::default(), find) {
            Ok(inherited) => all.extend(inherited.windows),
            Err(problem) => all.push(Window::closed(problem)),
        }
        all
    }

    /// The raw project with the sync windows of its global projects in `spec.syncWindows`.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub fn with_windows<'a>(
        &self,
        project: &'a Value,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Value, String> {
        self.applied(project, AppProjectSpec::default(), &find)?;
        let mut all: Vec<Value> = Vec::new();
        let global = self.of(project).into_iter().filter_map(find);
        for one in [project].into_iter().chain(global) {
            all.extend_from_slice(one.items("/spec/syncWindows"));
        }
        let mut project = project.clone();
        let spec = project.as_object_mut().and_then(|fields| object_at(fields, "spec"));
        if let Some(spec) = spec.filter(|_| !all.is_empty()) {
            spec.insert("syncWindows".to_owned(), all.into());
        }
        Ok(project)
    }

    /// Why nothing of the Applications of a raw project is deployed, by its global projects;
    /// `None` for no reason.
    pub fn refusal<'a>(
        &self,
        project: &Value,
        find: impl Fn(&str) -> Option<&'a Value>,
    ) -> Option<String> {
        let name = project.name();
        match self.applied(project, AppProjectSpec::default(), find) {
            Ok(inherited) => inherited.lost,
            Err(problem) => Some(format!("AppProject {name} cannot be read: {problem}")),
        }
    }
}

fn missing(name: &str) -> String {
    format!(
        "{GLOBAL_PROJECTS} of ConfigMap argocd-cm: global project {name} does not exist, so its \
         restrictions cannot be applied; create it, or remove the entry"
    )
}

fn entries(list: &Value) -> Result<Vec<Entry>, String> {
    let list = match list {
        Value::Null => &Vec::new(),
        Value::Array(list) => list,
        _ => return Err("must be a list of labelSelector and projectName".to_owned()),
    };
    if list.len() > MOST {
        return Err(format!("has {} entries, and at most {MOST} are read", list.len()));
    }
    let entry = |(index, entry): (usize, &Value)| {
        let failed = |cause: String| format!("[{index}].{cause}");
        let fields = entry.as_object().ok_or_else(|| {
            format!("[{index}]: must be an object with labelSelector and projectName")
        })?;
        let is_known = |field: &&String| matches!(field.as_str(), "labelSelector" | "projectName");
        // A misspelt selector would select all projects.
        if let Some(unknown) = fields.keys().find(|field| !is_known(field)) {
            let known = "use labelSelector and projectName";
            return Err(failed(format!("{unknown}: is not a field; {known}")));
        }
        let EntryView { label_selector, project_name } = read_leniently(entry);
        if project_name.is_empty() {
            return Err(failed("projectName: write the name of an AppProject".to_owned()));
        }
        let selector = Selector::read_of_labels(&label_selector);
        let selector = selector.map_err(|cause| failed(format!("labelSelector.{cause}")))?;
        Ok(Entry { selector, project: project_name })
    };
    list.iter().enumerate().map(entry).collect()
}

/// Appends the lists of a global project.
fn append(spec: &mut AppProjectSpec, global: AppProjectSpec, name: &str) {
    let Inherited(inherited) = &mut spec.inherited;
    let mut from = |list: &'static str, index: usize, more: usize| {
        if more > 0 {
            inherited.push((list, index, name.to_owned()));
        }
    };
    macro_rules! extend {
        ($($list:ident as $field:literal),*) => {$(
            from($field, spec.$list.len(), global.$list.len());
            spec.$list.extend(global.$list);
        )*};
    }
    extend!(
        source_repos as "sourceRepos",
        destinations as "destinations",
        sync_windows as "syncWindows",
        cluster_resource_whitelist as "clusterResourceWhitelist",
        cluster_resource_blacklist as "clusterResourceBlacklist",
        namespace_resource_blacklist as "namespaceResourceBlacklist"
    );
    // Without a list, all namespaced kinds are permitted: then that of the global project counts
    // alone, also an empty one.
    if let Some(list) = global.namespace_resource_whitelist {
        let own = spec.namespace_resource_whitelist.get_or_insert_default();
        from("namespaceResourceWhitelist", own.len(), list.len());
        own.extend(list);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(name: &str, labels: &Value, spec: &Value) -> Value {
        json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
    }

    fn merged(globals: &Value, own: &Value, others: &[Value]) -> Result<Inheritance, String> {
        let spec = wavegate_api::read_typed::<AppProjectSpec>(&own["spec"]).unwrap();
        let find = |name: &str| others.iter().find(|other| other["metadata"]["name"] == name);
        GlobalProjects::read(globals).applied(own, spec, find)
    }

    #[test]
    fn the_lists_of_matching_projects_are_appended_in_order() {
        let globals = json!([
            {"labelSelector": {"matchLabels": {"team": "web"}}, "projectName": "first"},
            {"labelSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
             "projectName": "second"},
            {"labelSelector": {"matchLabels": {"team": "other"}}, "projectName": "third"},
            {"projectName": "first"},
            {"projectName": "own"},
        ]);
        let kind = |kind: &str| json!([{"group": "", "kind": kind}]);
        let window = json!([{"kind": "deny", "schedule": "* * * * *", "duration": "1h",
            "applications": ["*"]}]);
        let own = project(
            "own",
            &json!({"team": "web"}),
            &json!({"sourceRepos": ["https://h/a"], "syncWindows": window,
                "sourceNamespaces": ["x"]}),
        );
        let first = json!({
            "sourceRepos": ["https://h/b"], "destinations": [{"server": "*", "namespace": "b"}],
            "clusterResourceWhitelist": kind("A"), "clusterResourceBlacklist": kind("B"),
            "namespaceResourceWhitelist": kind("C"), "namespaceResourceBlacklist": kind("D"),
            "syncWindows": window, "sourceNamespaces": ["y"], "orphanedResources": {"warn": true},
            "signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}], "roles": [{"name": "r"}],
            "destinationServiceAccounts": [{"server": "*", "namespace": "*",
                "defaultServiceAccount": "x"}],
            "permitOnlyProjectScopedClusters": true, "description": "x",
        });
        let others = [
            project("first", &json!({"team": "web"}), &first),
            project("second", &json!({}), &json!({"sourceRepos": ["!https://h/c", "{"]})),
        ];
        let found = merged(&globals, &own, &others).unwrap();
        let spec = &found.spec;
        assert_eq!(spec.source_repos, ["https://h/a", "https://h/b", "!https://h/c", "{"]);
        assert_eq!((spec.destinations.len(), spec.sync_windows.len()), (1, 2));
        assert_eq!(spec.cluster_resource_whitelist[0].kind, "A");
        assert_eq!(spec.cluster_resource_blacklist[0].kind, "B");
        assert_eq!(spec.namespace_resource_whitelist.as_ref().unwrap()[0].kind, "C");
        assert_eq!(spec.namespace_resource_blacklist[0].kind, "D");
        // Everything else is its own.
        assert_eq!(spec.source_namespaces, ["x"]);
        assert!(spec.orphaned_resources.is_none() && spec.signature_keys.is_empty());
        assert!(spec.destination_service_accounts.is_empty() && spec.roles.is_empty());
        assert!(!spec.permit_only_project_scoped_clusters && spec.description.is_empty());
        assert_eq!(found.windows.len(), 1);
        assert!(found.problems[0].starts_with("global project second: spec.sourceRepos[1]"));
        // A rule names the project that has it.
        let rule = project::source_rule(spec, "https://h/c").unwrap();
        assert!(rule.contains("spec.sourceRepos[0] of global project second"), "{rule}");
        let rule = project::kind_rule(spec, "", "D", project::Name::Known("x"), true).unwrap();
        assert!(rule.contains("spec.namespaceResourceBlacklist[0] of global project first"));
        assert_eq!(found.lost, None);
    }

    /// Without a list all namespaced kinds are permitted: that of a global project limits, even
    /// an empty one.
    #[test]
    fn a_list_of_a_global_project_limits_a_project_without_one() {
        let globals = json!([{"projectName": "g"}]);
        let of = |own: Value, global: Value| {
            let others =
                [project("g", &json!({}), &json!({ "namespaceResourceWhitelist": global }))];
            let own = project("own", &Value::Null, &json!({ "namespaceResourceWhitelist": own }));
            let spec = merged(&globals, &own, &others).unwrap().spec;
            spec.namespace_resource_whitelist.map(|list| list.len())
        };
        let kinds = json!([{"group": "", "kind": "A"}]);
        assert_eq!(of(Value::Null, Value::Null), None);
        assert_eq!(of(Value::Null, json!([])), Some(0));
        assert_eq!(of(Value::Null, kinds.clone()), Some(1));
        assert_eq!(of(json!([]), kinds.clone()), Some(1));
        assert_eq!(of(kinds.clone(), Value::Null), Some(1));
        assert_eq!(of(kinds.clone(), kinds), Some(2));
    }

    /// A guard that is not understood refuses.
    #[test]
    fn what_is_not_understood_is_an_error() {
        for (globals, text) in [
            (json!({}), "must be a list"),
            (json!("x"), "must be a list"),
            (json!([1]), "[0]: must be an object"),
            (json!([{"labelSelector": {}}]), "[0].projectName"),
            (json!([{"projectName": ""}]), "[0].projectName"),
            (json!([{"projectName": 7}]), "[0].projectName"),
            (json!([{"projectName": "g", "labelSelectors": {}}]), "[0].labelSelectors"),
            (json!([{"projectName": "g", "labelSelector": []}]), "[0].labelSelector"),
            (
                json!([{"projectName": "g", "labelSelector": {"matchExpressions":
                    [{"key": "a", "operator": "Like"}]}}]),
                "matchExpressions[0]",
            ),
            (json!([{"projectName": "g", "labelSelector": {"matchlabels": {}}}]), "matchlabels"),
            (json!(vec![json!({"projectName": "g"}); MOST + 1]), "at most"),
        ] {
            let read = GlobalProjects::read(&globals);
            let problem = read.problem().unwrap_or_default();
            assert!(problem.contains(text) && problem.contains(GLOBAL_PROJECTS), "{problem}");
            let own = project("own", &json!({}), &json!({}));
            assert!(merged(&globals, &own, &[]).is_err(), "{globals}");
            assert!(read.windows(&own, |_| None)[0].rule.is_err());
        }
        assert_eq!(GlobalProjects::read(&Value::Null), GlobalProjects::default());
        let globals = json!([{"projectName": "g"}]);
        let own = project("own", &json!({}), &json!({}));
        let error = merged(&globals, &own, &[]).unwrap_err();
        assert!(error.contains("global project g does not exist"), "{error}");
        let broken = project("g", &json!({}), &json!({"destinations": 7}));
        let error = merged(&globals, &own, &[broken]).unwrap_err();
        assert!(error.contains("global project g cannot be read"), "{error}");
        let read = GlobalProjects::read(&globals);
        assert!(read.refusal(&own, |_| None).unwrap().contains("does not exist"));
        assert!(read.inherits(&own, "g") && !read.inherits(&own, "own"));
        assert_eq!(read.names(), ["g"].into());
    }
}
