//! The CustomResourceDefinitions, generated from the types of this crate.
//!
//! Manifests that were written for Argo CD must apply unchanged, so the schema contains
//! all fields of Argo CD, requires only what Argo CD requires, and has no formats. There
//! are no defaults, since they would change users' manifests. The kinds of [`policy`] and
//! [`run`] are our own: there, `spec` has limits, defaults and rules.
//!
//! Objects are closed, except where Argo CD's are open (listed in [`OPEN`]): `kubectl
//! apply` rejects unknown fields as misspelled. `kubectl` before 1.25 validates by itself
//! and does not check below a field that is nullable or open, so only strings are
//! nullable.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::app_project::{AppProject, AppProjectSpec, AppProjectStatus};
use super::app_spec::ApplicationSpec;
use super::app_status::ApplicationStatus;
use super::application::Application;
use super::application_set::{ApplicationSet, ApplicationSetSpec, ApplicationSetStatus};
use super::operation::Operation;
use super::policy::{PolicyStatus, RolloutPolicySpec};
use super::run::{RolloutRunSpec, RolloutRunStatus};
use super::{GROUP, VERSION};
use super::{policy, run};
use crate::yaml;

/// A CustomResourceDefinition.
pub use apiextensions::CustomResourceDefinition;

/// First lines of the generated files.
const HEADER: &str = "# Generated from the types in crates/api; change those, then run\n\
                      # WAVEGATE_REGENERATE=1 cargo test -p wavegate-api crds_are_current\n";
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Objects that accept any field: the ends of their paths, `[]` for the items of a list
/// and `{}` for the values of a map (AS-005).
pub const OPEN: [&str; 6] = [
    ".list.elements[]",
    ".generators[].matrix",
    ".generators[].merge",
    ".plugin.input.parameters{}",
    ".helm.valuesObject",
    ".status.operationState.progress",
];

/// All definitions, ApplicationSet first.
pub fn all_definitions() -> Vec<CustomResourceDefinition> {
    raw_definitions().iter().map(typed).collect()
}

/// The generated text of one definition; `None` for an unknown kind.
pub fn definition_yaml(kind: &str) -> Option<String> {
    let definition = raw_definitions().iter().find(|crd| crd["spec"]["names"]["kind"] == kind)?;
    let text = yaml::to_string(definition).expect("a definition holds nothing but JSON");
    Some(format!("{HEADER}{text}"))
}

/// File name of a definition under `crds/`.
pub fn file_name(kind: &str) -> String {
    format!("{}.yaml", kind.to_lowercase())
}

/// Kinds that are defined here, in the order of [`all_definitions`]: those of Argo CD, and those of
/// [`policy`] and [`run`].
pub const KINDS: [&str; 5] =
    [ApplicationSet::KIND, Application::KIND, AppProject::KIND, policy::POLICY, run::RUN];

fn typed(definition: &Value) -> CustomResourceDefinition {
    Deserialize::deserialize(definition).expect("the tests read every definition as this type")
}

/// The definitions as plain JSON, without the empty fields that types add. Generated once
/// on first use, since they have thousands of fields and a controller does not need them.
pub fn raw_definitions() -> &'static [Value; 5] {
    static RAW: OnceLock<[Value; 5]> = OnceLock::new();
    RAW.get_or_init(|| {
        [application_set(), application(), app_project(), rollout_policy(), rollout_run()]
    })
}

fn application_set() -> Value {
    let mut spec = schema::<ApplicationSetSpec>();
    nest_templates(&mut spec);
    nest_generators(&mut spec);
    let status = schema::<ApplicationSetStatus>();
    with_status(definition(
        &ARGO_CD,
        [ApplicationSet::KIND, ApplicationSet::PLURAL, "applicationset"],
        &["appset", "appsets"],
        "Generates Applications from a template and rolls out changes in steps.",
        [("spec", spec), ("status", status)],
        json!([
            column("Step", "integer", ".status.rollout.step", "Current step, counted from 1"),
            column("Steps", "integer", ".status.rollout.steps", "Number of steps"),
            column(
                "Progress",
                "string",
                ".status.rollout.progress",
                "Healthy Applications and their total"
            ),
            column("Health", "string", ".status.health.status", "Health status"),
            column("Apps", "integer", ".status.resourcesCount", "Number of Applications"),
            wide("Waiting", "string", ".status.rollout.message", "What the rollout is waiting for"),
            wide("Strategy", "string", ".spec.strategy.type", "Strategy type"),
            column("Age", "date", ".metadata.creationTimestamp", "Time of creation"),
        ]),
    ))
}

fn application() -> Value {
    let status = schema::<ApplicationStatus>();
    let operation = schema::<Operation>();
    definition(
        &ARGO_CD,
        [Application::KIND, Application::PLURAL, "application"],
        &["app", "apps"],
        "Manifests from a source, kept in sync with a destination.",
        [("spec", schema::<ApplicationSpec>()), ("operation", operation), ("status", status)],
        json!([
            column("Sync Status", "string", ".status.sync.status", "Sync status"),
            column("Health Status", "string", ".status.health.status", "Health status"),
            column(
                "Phase",
                "string",
                ".status.operationState.phase",
                "Phase of the last operation"
            ),
            wide("Revision", "string", ".status.sync.revision", "Compared revision"),
            wide("Project", "string", ".spec.project", "Project"),
            wide(
                "Message",
                "string",
                ".status.operationState.message",
                "Message of the last operation"
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time of creation"),
        ]),
    )
}

fn app_project() -> Value {
    definition(
        &ARGO_CD,
        [AppProject::KIND, AppProject::PLURAL, "appproject"],
        &["appproj", "appprojs"],
        "Restricts the sources, destinations, resources and sync times of Applications.",
        [("spec", schema::<AppProjectSpec>()), ("status", schema::<AppProjectStatus>())],
        json!([
            column("Description", "string", ".spec.description", "Description"),
            wide("Repositories", "string", ".spec.sourceRepos", "Allowed repositories"),
            column("Age", "date", ".metadata.creationTimestamp", "Time of creation"),
        ]),
    )
}

fn rollout_policy() -> Value {
    with_status(definition(
        &WAVEGATE,
        [policy::POLICY, policy::POLICIES, "rolloutpolicy"],
        &["rpol"],
        "Holds and limits the rollouts of ApplicationSets.",
        [("spec", strict_schema::<RolloutPolicySpec>()), ("status", schema::<PolicyStatus>())],
        json!([
            column("Selected", "integer", ".status.selected", "Number of ApplicationSets"),
            column("Paused", "boolean", ".spec.paused", "Whether nothing is promoted"),
            column(
                "Valid",
                "string",
                ".status.conditions[?(@.type==\"Valid\")].status",
                "Whether the policy can be applied as a whole"
            ),
            column("Age", "date", ".metadata.creationTimestamp", "Time of creation"),
        ]),
    ))
}

fn rollout_run() -> Value {
    with_status(definition(
        &WAVEGATE,
        [run::RUN, run::RUNS, "rolloutrun"],
        &["rrun"],
        "The rollout of one change of an ApplicationSet, and what people say about it.",
        [("spec", strict_schema::<RolloutRunSpec>()), ("status", schema::<RolloutRunStatus>())],
        json!([
            column("Set", "string", ".spec.applicationSet", "Name of the ApplicationSet"),
            column("Phase", "string", ".status.phase", "Phase of the run"),
            column("Step", "integer", ".status.step", "Open step, counted from 1"),
            column("Done", "string", ".status.progress", "Complete Applications and their total"),
            column("Failed", "integer", ".status.failed", "Number of failed Applications"),
            wide("Message", "string", ".status.message", "What it waits for, or how it ended"),
            column("Age", "date", ".metadata.creationTimestamp", "Time of creation"),
        ]),
    ))
}

/// The status is written apart from the rest.
fn with_status(mut crd: Value) -> Value {
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd
}

fn column(name: &str, type_: &str, path: &str, description: &str) -> Value {
    json!({"name": name, "type": type_, "jsonPath": path, "description": description})
}

/// A column of the wide output.
fn wide(name: &str, type_: &str, path: &str, description: &str) -> Value {
    let mut column = column(name, type_, path, description);
    column["priority"] = json!(1);
    column
}

/// What all kinds of a group have in common.
struct Group {
    name: &'static str,
    version: &'static str,
    part_of: &'static str,
}

const ARGO_CD: Group = Group { name: GROUP, version: VERSION, part_of: "argocd" };
const WAVEGATE: Group =
    Group { name: crate::WAVEGATE_GROUP, version: crate::WAVEGATE_VERSION, part_of: "wavegate" };

fn definition<const N: usize>(
    group: &Group,
    [kind, plural, singular]: [&str; 3],
    short_names: &[&str],
    description: &str,
    fields: [(&str, Value); N],
    columns: Value,
) -> Value {
    let mut root = json!({
        "type": "object",
        "description": description,
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "API group and version of the object."},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
        },
    });
    for (name, schema) in fields {
        root["properties"][name] = schema;
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{}", group.name),
            "labels": {
                "app.kubernetes.io/name": format!("{plural}.{}", group.name),
                "app.kubernetes.io/part-of": group.part_of,
            },
        },
        "spec": {
            "group": group.name,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": singular,
                "shortNames": short_names,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": group.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": root},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// The schema of a type, as the API server accepts it: nothing in it rejects or changes a
/// value but its type.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>();
    soften(&mut schema);
    schema
}

/// The schema of what people write in a kind of our own: with limits, defaults and rules.
fn strict_schema<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>();
    bound(&mut schema);
    schema
}

fn generate<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator: SchemaGenerator = settings
        .with_transform(AddNullable::default())
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString)
        .into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Bounds all that has no bound, at every depth: the API server estimates the cost of a rule
/// from the most that a value may contain.
fn bound(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else { return };
    for keyword in ["title", "nullable"] {
        node.remove(keyword);
    }
    // Formats of numbers say nothing about JSON.
    if node.get("format").is_some_and(|format| format != "date-time") {
        node.remove("format");
    }
    summarize(node);
    let free =
        |node: &Map<String, Value>| !["enum", "format"].iter().any(|one| node.contains_key(*one));
    let limit = match node.get("type").and_then(Value::as_str) {
        Some("string") if free(node) => Some(("maxLength", 1024)),
        Some("array") => Some(("maxItems", 100)),
        Some("object") if node.contains_key("additionalProperties") => Some(("maxProperties", 100)),
        _ => None,
    };
    if let Some((keyword, most)) = limit {
        node.entry(keyword).or_insert_with(|| json!(most));
    }
    // Of a condition on a label, whose type has any word.
    if let Some(operator) = node.get_mut("properties").and_then(|all| all.get_mut("operator")) {
        operator["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    }
    each_below(node, bound);
}

/// Removes keywords that reject or change input, at every depth.
fn soften(schema: &mut Value) {
    if !schema.is_object() {
        *schema = json!({});
    }
    let Some(node) = schema.as_object_mut() else { return };
    for keyword in ["default", "format", "minimum", "maximum", "title", "nullable"] {
        node.remove(keyword);
    }
    summarize(node);
    each_below(node, soften);
    if node.get("type").is_some_and(|type_| type_ == "string") {
        // Some API servers treat the empty string as null (Kubernetes 1.20 when built
        // with a newer Go).
        node.insert("nullable".to_owned(), json!(true));
    }
}

/// Shortens the description.
fn summarize(node: &mut Map<String, Value>) {
    if let Some(text) = node.get_mut("description").and_then(|text| text.as_str()).map(summary) {
        node.insert("description".to_owned(), Value::String(text));
    }
}

/// The first paragraph of a doc comment, without code marks and numbers of rules.
fn summary(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = match first.find(" (ST-") {
        Some(at) => {
            let end = first[at..].find(')').map_or(first.len(), |end| at + end + 1);
            format!("{}{}", &first[..at], &first[end..])
        }
        None => first.to_owned(),
    };
    first.replace('\n', " ").replace(['`', '[', ']'], "")
}

/// Gives the template of each generator the schema of the set's template, without
/// descriptions. The types would generate it again for each of them.
fn nest_templates(spec: &mut Value) {
    let mut template = spec["properties"]["template"]["properties"]["spec"].clone();
    remove_descriptions(&mut template);
    let generators = spec["properties"]["generators"]["items"]["properties"].as_object_mut();
    for generator in generators.into_iter().flat_map(Map::values_mut) {
        if generator["properties"]["template"].is_object() {
            generator["properties"]["template"]["properties"]["spec"] = template.clone();
        }
    }
}

/// Gives the children of matrix and merge the schema of a generator, without
/// descriptions, and leaves their own matrix and merge open (AS-004): the types recurse,
/// which a schema cannot.
fn nest_generators(spec: &mut Value) {
    let generators = &mut spec["properties"]["generators"]["items"];
    let mut nested = generators.clone();
    remove_descriptions(&mut nested);
    for name in ["matrix", "merge"] {
        nested["properties"][name] = json!({PRESERVE: true});
    }
    for name in ["matrix", "merge"] {
        generators["properties"][name]["properties"]["generators"]["items"] = nested.clone();
    }
}

/// Removes the keyword `description`, but not properties of that name.
fn remove_descriptions(schema: &mut Value) {
    let Some(node) = schema.as_object_mut() else { return };
    node.remove("description");
    each_below(node, remove_descriptions);
}

/// Changes the schemas directly below one.
fn each_below(node: &mut Map<String, Value>, change: fn(&mut Value)) {
    let properties = node.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(change);
    for child in ["items", "additionalProperties"] {
        node.get_mut(child).into_iter().for_each(change);
    }
}
