//! Guards of a project that the API server has dropped (SE-072 … SE-074, SE-080).
//!
//! A definition of an older Argo CD lacks fields of newer ones, and Argo CD's own lack some of
//! ours. The API server drops them in silence, and what is left permits more than was written:
//! an entry without its `name` is about all names. The last-applied configuration of
//! `kubectl apply` still has them.

use serde_json::Value;

use wavegate_api::annotations::LAST_APPLIED;
use wavegate_api::app_project::ResourcePattern;
use wavegate_api::{Raw, read_leniently};

/// Lists of kinds; an entry may be limited to names.
const KINDS: [&str; 4] = [
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
];

/// Other guards. They are in all definitions of the last years, so what is missing was most
/// likely removed by a person; only while the object is as it was created, this is certain.
const OTHERS: [&str; 9] = [
    "clusterResourceWhitelist",
    "clusterResourceBlacklist",
    "namespaceResourceWhitelist",
    "namespaceResourceBlacklist",
    "destinations",
    "permitOnlyProjectScopedClusters",
    "signatureKeys",
    "sourceIntegrity",
    "syncWindows",
];

/// Fields that guard nothing: without the last two, a window of syncs denies more.
const NO_GUARDS: [&str; 3] = ["description", "manualSync", "syncOverrun"];

/// A guard that was written and is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedField {
    /// The namespace of the project; empty if unknown.
    namespace: String,
    /// Its field, such as `spec.namespaceResourceWhitelist[0].name`.
    pub field: String,
    /// What was written there.
    value: String,
}

impl PrunedField {
    /// The first lost guard of a raw project; `None` without any, or without a last-applied
    /// configuration, as after server-side apply.
    pub fn of(project: &Value) -> Option<Self> {
        let applied = serde_json::from_str::<Value>(project.annotation(LAST_APPLIED)?).ok()?;
        let (applied, stored) = (applied.spec(), project.spec());
        let name = KINDS.into_iter().find_map(|list| lost_name(list, applied, stored));
        let is_new = project.generation() == 1;
        let integrity = || lost_field("sourceIntegrity", applied, stored);
        let others = || OTHERS.into_iter().find_map(|field| lost_field(field, applied, stored));
        let found = name.or_else(integrity).or_else(|| others().filter(|_| is_new));
        let (field, value) = found?;
        Some(Self { namespace: project.namespace().to_owned(), field, value })
    }

    /// Whether it demands verified commits.
    pub fn is_about_commits(&self) -> bool {
        ["spec.signatureKeys", "spec.sourceIntegrity"]
            .iter()
            .any(|field| self.field.starts_with(field))
    }

    /// For the Applications of the project.
    ///
    /// The last-applied configuration is out of date when a person has removed the field in an
    /// editor, or has since applied the project in another way: the last command ends that.
    pub fn message(&self, project_name: &str) -> String {
        let Self { namespace, field, value } = self;
        let namespace = match namespace.as_str() {
            "" => String::new(),
            namespace => format!("-n {namespace} "),
        };
        format!(
            "{field} of AppProject {project_name}: the API server has dropped this field ({value}), \
             since the installed definition of AppProjects does not have it, and without it the \
             project permits more; nothing is deployed; install a definition that has the field, \
             or remove it from the manifest of the project, and apply that again; or, if it was \
             removed on purpose, run: kubectl {namespace}annotate appproject {project_name} \
             {LAST_APPLIED}-"
        )
    }
}

/// A field of the project, and what was written there.
type Field = (String, String);

/// The name of an entry whose remains are stored. An entry that is not there at all was
/// removed by a person.
fn lost_name(list: &str, applied: &Value, stored: &Value) -> Option<Field> {
    let entries = |spec: &Value| read_leniently::<Vec<ResourcePattern>>(&spec[list]);
    let (applied, stored) = (entries(applied), entries(stored));
    let has = |entries: &[ResourcePattern], like: &ResourcePattern, name: &str| {
        let kind = (&like.group, &like.kind);
        entries.iter().any(|entry| (&entry.group, &entry.kind) == kind && entry.name == name)
    };
    applied.iter().enumerate().find_map(|(index, entry)| {
        let value = entry.name.as_str();
        // These limit nothing.
        if ["", "*", "**"].contains(&value) {
            return None;
        }
        let is_lost =
            has(&stored, entry, "") && !has(&stored, entry, value) && !has(&applied, entry, "");
        is_lost.then(|| (format!("spec.{list}[{index}].name"), value.to_owned()))
    })
}

/// A field, or a field of an entry, that is not stored.
fn lost_field(field: &str, applied: &Value, stored: &Value) -> Option<Field> {
    missing(&applied[field], stored.get(field), &format!("spec.{field}"))
}

fn missing(applied: &Value, stored: Option<&Value>, path: &str) -> Option<Field> {
    let demands = !matches!(applied, Value::Null | Value::Bool(false));
    let lost = || {
        let value = match applied {
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some((path.to_owned(), value))
    };
    match (applied, stored) {
        (_, None) if demands => lost(),
        (Value::Object(applied), Some(Value::Object(stored))) => {
            let mut guards = applied.iter().filter(|(name, _)| !NO_GUARDS.contains(&name.as_str()));
            guards.find_map(|(name, value)| {
                missing(value, stored.get(name), &format!("{path}.{name}"))
            })
        }
        (Value::Array(applied), Some(Value::Array(stored))) if applied.len() == stored.len() => {
            let pairs = applied.iter().zip(stored).enumerate();
            pairs.into_iter().find_map(|(index, (applied, stored))| {
                missing(applied, Some(stored), &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lost(generation: u64, applied: &Value, stored: &Value) -> Option<String> {
        let text = json!({ "spec": applied }).to_string();
        let project = json!({
            "metadata": {"generation": generation, "annotations": {LAST_APPLIED: text}},
            "spec": stored,
        });
        PrunedField::of(&project).map(|lost| lost.field)
    }

    /// SE-072 … SE-074: an entry without its name is about all names.
    #[test]
    fn a_name_that_was_dropped_is_found_whatever_was_changed_since() {
        let named = json!({"group": "apps", "kind": "Deployment", "name": "web-*"});
        let plain = json!({"group": "apps", "kind": "Deployment"});
        let other = json!({"group": "", "kind": "Secret"});
        for list in KINDS {
            let of = |entries: &[&Value]| json!({ list: entries });
            let field = Some(format!("spec.{list}[1].name"));
            let cases = [
                (of(&[&other, &named]), of(&[&other, &plain]), field.clone()),
                (of(&[&other, &named]), of(&[&plain]), field),
                (of(&[&other, &named]), of(&[&other, &named]), None),
                // Removed by a person, or permitted anyway.
                (of(&[&other, &named]), of(&[&other]), None),
                (of(&[&plain, &named]), of(&[&plain, &plain]), None),
                (of(&[&plain]), of(&[&plain]), None),
            ];
            for (applied, stored, want) in cases {
                assert_eq!(lost(7, &applied, &stored), want, "{applied} {stored}");
            }
        }
        assert_eq!(PrunedField::of(&json!({"spec": {"destinations": []}})), None);
        let broken = json!({"metadata": {"annotations": {LAST_APPLIED: "{"}}});
        assert_eq!(PrunedField::of(&broken), None);
    }

    #[test]
    fn other_guards_are_found_while_the_object_is_as_it_was_created() {
        let cases = [
            (
                json!({"permitOnlyProjectScopedClusters": true}),
                json!({}),
                "permitOnlyProjectScopedClusters",
            ),
            (json!({"permitOnlyProjectScopedClusters": false}), json!({}), ""),
            (json!({"namespaceResourceWhitelist": []}), json!({}), "namespaceResourceWhitelist"),
            (
                json!({"syncWindows": [{"kind": "deny", "andOperator": true, "description": "x"}]}),
                json!({"syncWindows": [{"kind": "deny"}]}),
                "syncWindows[0].andOperator",
            ),
            (
                json!({"destinations": [{"name": "prod", "namespace": "*"}]}),
                json!({"destinations": [{"namespace": "*"}]}),
                "destinations[0].name",
            ),
            (json!({"description": "x", "roles": [{}]}), json!({}), ""),
            // These permit something.
            (
                json!({"syncWindows": [{"kind": "deny", "syncOverrun": true, "manualSync": true}]}),
                json!({"syncWindows": [{"kind": "deny"}]}),
                "",
            ),
        ];
        for (applied, stored, want) in cases {
            let want = Some(format!("spec.{want}")).filter(|_| !want.is_empty());
            assert_eq!(lost(1, &applied, &stored), want, "{applied}");
            assert_eq!(lost(2, &applied, &stored), None, "{applied}");
        }
        let integrity = json!({"sourceIntegrity": {"git": {"policies": [{}]}}});
        assert_eq!(lost(2, &integrity, &json!({})).as_deref(), Some("spec.sourceIntegrity"));
    }

    /// The configuration is out of date after `kubectl edit`: applying again needs the field.
    #[test]
    fn the_message_has_a_command_for_a_field_that_was_removed_on_purpose() {
        let applied = json!({"spec": {"permitOnlyProjectScopedClusters": true}}).to_string();
        let mut project = json!({
            "metadata": {
                "namespace": "argocd", "generation": 1, "annotations": {LAST_APPLIED: applied},
            },
            "spec": {},
        });
        let message = PrunedField::of(&project).unwrap().message("narrow");
        let (_, command) = message.split_once("on purpose, run: ").unwrap();
        let want = "kubectl -n argocd annotate appproject narrow \
                    kubectl.kubernetes.io/last-applied-configuration-";
        assert_eq!(command, want);
        // What the command does.
        project["metadata"]["annotations"] = json!({});
        assert_eq!(PrunedField::of(&project), None);
    }
}
