//! Whether the spec of an Application is complete and permitted (SE-012,
//! SE-030, SE-031).

use serde_json::{Map, Value};

use crate::condition::NewCondition;
use crate::normalize::is_left_out;
use wavegate_api::path_segment;
use wavegate_api::{ApplicationSource, ApplicationSpec};

/// The errors of the spec itself.
pub fn spec_problems(spec: &ApplicationSpec) -> Vec<NewCondition> {
    let mut problems = Vec::new();
    let mut say = |message: String| problems.push(NewCondition::invalid_spec(message));
    let destination = &spec.destination;
    match (destination.server.is_empty(), destination.name.is_empty()) {
        (false, false) => say(format!(
            "application destination can't have both name and server defined: {} {}",
            destination.name, destination.server
        )),
        (true, true) => say("Destination server missing from app spec".to_owned()),
        _ => {}
    }
    if let Some(problem) = path_segment::segment_problem(&destination.namespace) {
        say(format!("spec.destination.namespace: {problem}"));
    }
    if spec.source_hydrator.is_some() {
        say("spec.sourceHydrator is not supported by the embedded sync engine".to_owned());
    }
    let sources = spec.sources();
    if sources.is_empty() {
        say("spec.source is missing: set spec.source or spec.sources".to_owned());
    }
    let many = spec.source_hydrator.is_none() && !spec.sources.is_empty();
    for (index, source) in sources.iter().enumerate() {
        let at = if many { format!("spec.sources[{index}]") } else { "spec.source".to_owned() };
        check_source(&at, source, many, &mut say);
        let same = |other: &&ApplicationSource| other.reference == source.reference;
        if let Some(first) = sources[..index].iter().position(|other| same(&other))
            && !source.reference.is_empty()
        {
            let name = &source.reference;
            say(format!(
                "{at}.ref {name} is used by spec.sources[{first}], too; use a unique name"
            ));
        }
    }
    problems
}

fn check_source(at: &str, source: &ApplicationSource, many: bool, say: &mut impl FnMut(String)) {
    if source.repo_url.is_empty() {
        say(format!("{at}.repoURL is required"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !source.reference.chars().all(is_plain) {
        let name = &source.reference;
        say(format!("{at}.ref {name}: only letters, digits, '-' and '_' are allowed"));
    }
    let is_reference = many && !source.reference.is_empty();
    if source.path.is_empty() && source.chart.is_empty() && !is_reference {
        let or = if many { ", or ref" } else { "" };
        say(format!("{at}.path or {at}.chart is required{or}"));
    }
    if !source.chart.is_empty() && source.target_revision.is_empty() {
        say(format!("{at}.targetRevision is required if the manifest source is a helm chart"));
    }
}

/// A directory of which `include` and `exclude` are all that is set has no other field.
fn clean_directory(directory: &mut Map<String, Value>) {
    let others = ["recurse", "jsonnet"];
    let part = |field: &str| Some((field.to_owned(), directory.get(field)?.clone()));
    let said: Map<String, Value> = others.into_iter().filter_map(part).collect();
    if is_left_out(&said.into()) {
        directory.retain(|field, _| !others.contains(&field.as_str()));
    }
}

/// The normalised spec that the controller stores (SE-030); `None` when it is
/// unchanged.
pub fn normalized_spec(spec: &Value) -> Option<Value> {
    let mut normal = spec.clone();
    let fields = normal.as_object_mut()?;
    if fields.get("project").and_then(Value::as_str).unwrap_or_default().is_empty() {
        fields.insert("project".to_owned(), "default".into());
    }
    if fields.get("syncPolicy").is_some_and(is_left_out) {
        fields.remove("syncPolicy");
    }
    let clean = |source: &mut Value| {
        if let Some(source) = source.as_object_mut() {
            for block in ["kustomize", "helm", "directory"] {
                if source.get(block).is_some_and(is_left_out) {
                    source.remove(block);
                }
            }
            if let Some(directory) = source.get_mut("directory").and_then(Value::as_object_mut) {
                clean_directory(directory);
            }
        }
    };
    if let Some(source) = fields.get_mut("source") {
        clean(source);
    }
    if let Some(sources) = fields.get_mut("sources").and_then(Value::as_array_mut) {
        sources.iter_mut().for_each(clean);
    }
    (normal != *spec).then_some(normal)
}
