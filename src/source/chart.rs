//! Checks of a chart before Helm reads it: dependencies, links and schemas. Blocking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::manifests::RenderError;
use super::render_for::RenderFor;
use super::source_directory::SourceDirectory;

/// Files that declare dependencies; the second one in charts of API version v1.
const DECLARING: [&str; 2] = ["Chart.yaml", "requirements.yaml"];

/// Files that pin dependencies: Helm fetches what they name, not what is declared.
const PINNING: [&str; 2] = ["Chart.lock", "requirements.lock"];

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// Most files and directories of a chart.
const MAX_ENTRIES: usize = 100_000;

/// A dependency of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dependency {
    /// Its name.
    pub name: String,
    /// Where it comes from; may be empty.
    pub repository: String,
}

/// The dependencies that a chart declares and does not contain: Helm does not render it
/// without them.
pub(super) fn missing(source_dir: &SourceDirectory) -> Vec<Dependency> {
    let chart = &source_dir.directory;
    let declared = dependencies(chart);
    let missing = declared.iter().filter(|one| !is_vendored(chart, &one.name, &declared));
    missing.cloned().collect()
}

/// The missing dependencies from the output of Helm, which also reads archives.
pub(super) fn missing_by_helm(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
    output: &str,
) -> Option<RenderError> {
    let (_, names) = output.split_once("missing in charts/ directory:")?;
    let names = names.lines().next()?.split(',').map(|name| name.trim().to_owned());
    Some(missing_dependencies(source_dir, subject, &names.collect::<Vec<_>>()))
}

/// The error about missing dependencies.
pub(super) fn missing_dependencies(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
    missing: &[String],
) -> RenderError {
    let chart = &source_dir.directory;
    let declared = dependencies(chart);
    let named = missing.iter().map(|name| {
        let repository = declared.iter().find(|one| one.name == *name);
        match repository.map(|one| one.repository.as_str()).filter(|text| !text.is_empty()) {
            Some(repository) => format!("{name} (repository {})", super::redact(repository)),
            None => name.clone(),
        }
    });
    let name = document(&chart.join(DECLARING[0]));
    let name = name["name"].as_str().unwrap_or_default().to_owned();
    let directory = match source_dir.relative.as_str() {
        "" => ".".to_owned(),
        relative => relative.to_owned(),
    };
    RenderError::MissingDependencies {
        application: subject.application.clone(),
        chart: if name.is_empty() { directory.clone() } else { name },
        missing: named.collect::<Vec<_>>().join(", "),
        directory,
    }
}

/// The dependencies that a chart declares; none if its files cannot be read, which Helm
/// reports.
pub(super) fn dependencies(chart: &Path) -> Vec<Dependency> {
    named(chart, DECLARING)
}

/// The dependencies that its lock files pin, which may come from elsewhere.
pub(super) fn pinned(chart: &Path) -> Vec<Dependency> {
    named(chart, PINNING)
}

fn named(chart: &Path, files: [&str; 2]) -> Vec<Dependency> {
    let mut found = Vec::new();
    for file in files {
        let document = document(&chart.join(file));
        for entry in document["dependencies"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            let dependency = Dependency { name: text("name"), repository: text("repository") };
            if !dependency.name.is_empty() && !found.contains(&dependency) {
                found.push(dependency);
            }
        }
    }
    found
}

fn document(file: &Path) -> Value {
    let is_small = |path: &Path| path.metadata().is_ok_and(|meta| meta.len() <= MAX_FILE);
    let text = is_small(file).then(|| std::fs::read_to_string(file).ok()).flatten();
    let documents = text.and_then(|text| crate::yaml::documents(&text).ok()).unwrap_or_default();
    documents.into_iter().next().map(|document| document.value).unwrap_or_default()
}

/// Whether `charts/` may contain a dependency. An archive that has the name of no dependency
/// may be any: Helm decides.
fn is_vendored(chart: &Path, name: &str, declared: &[Dependency]) -> bool {
    let Ok(entries) = std::fs::read_dir(chart.join("charts")) else { return false };
    entries.flatten().any(|entry| {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        // As in Helm, these are no charts.
        if file.starts_with(['.', '_']) {
            return false;
        }
        let path = entry.path();
        match path.is_dir() {
            true => file == name || document(&path.join(DECLARING[0]))["name"] == name,
            false => {
                let is_archive = file.ends_with(".tgz") || file.ends_with(".tar.gz");
                let is_of = |name: &str| {
                    file.strip_prefix(name).is_some_and(|rest| rest.starts_with(['-', '.']))
                };
                is_archive && (is_of(name) || !declared.iter().any(|one| is_of(&one.name)))
            }
        }
    })
}

/// A link of a chart that leads nowhere is an error: the chart would be rendered without it.
pub(super) fn check_links(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    walk(source_dir, &mut |path, shown| {
        let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        if is_link && path.canonicalize().is_err() {
            return Err(RenderError::DanglingLink { file: shown.to_owned() });
        }
        Ok(())
    })
}

/// Whether a path that does not resolve contains a link below `root`.
pub(super) fn leads_through_link(path: &Path, root: &Path) -> bool {
    let below = path.ancestors().take_while(|part| part.starts_with(root) && *part != root);
    let is_link = |part: &Path| part.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    below.into_iter().any(|part| is_link(part) && part.canonicalize().is_err())
}

/// Helm reads and fetches what the `$ref`s of `values.schema.json` name: files of the
/// machine, and any server. Only references inside of the schema are accepted.
pub(super) fn check_schemas(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    walk(source_dir, &mut |path, shown| {
        if path.file_name().is_none_or(|name| name != "values.schema.json") || !path.is_file() {
            return Ok(());
        }
        let failed = |error: std::io::Error| RenderError::Read {
            file: shown.to_owned(),
            error: error.kind().to_string(),
        };
        if path.metadata().map_err(failed)?.len() > MAX_FILE {
            let what = format!("{shown}: larger than {MAX_FILE} bytes");
            return Err(RenderError::TooLarge { what });
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        // Helm refuses what is no JSON.
        let Ok(schema) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
        let mut names = Vec::new();
        identifiers(&schema, &mut names);
        match outside_reference(&schema, &names) {
            None => Ok(()),
            Some(reference) => {
                let reference: String = super::redact(reference).chars().take(200).collect();
                let reason = format!(
                    "{shown}: $ref {reference:?} is not in the schema, and nothing is read from \
                     elsewhere; copy it into the schema, or set helm.skipSchemaValidation"
                );
                Err(RenderError::Source { reason })
            }
        }
    })
}

fn identifiers<'a>(schema: &'a Value, names: &mut Vec<&'a str>) {
    let below = schema.as_array().into_iter().flatten();
    let fields = schema.as_object().into_iter().flatten();
    for (key, value) in fields {
        if let ("$id" | "id", Some(name)) = (key.as_str(), value.as_str()) {
            names.push(name.trim_end_matches('#'));
        }
        identifiers(value, names);
    }
    below.for_each(|item| identifiers(item, names));
}

/// The first reference that leads out of the schema. The schemas of JSON Schema itself are
/// part of Helm.
fn outside_reference<'a>(schema: &'a Value, names: &[&str]) -> Option<&'a str> {
    let fields = schema.as_object().into_iter().flatten();
    for (key, value) in fields {
        if let ("$ref" | "$dynamicRef" | "$recursiveRef", Some(reference)) =
            (key.as_str(), value.as_str())
        {
            let target = reference.split('#').next().unwrap_or_default();
            let is_own = target.is_empty() || is_metaschema(target) || names.contains(&target);
            if !is_own {
                return Some(reference);
            }
        }
        if let Some(found) = outside_reference(value, names) {
            return Some(found);
        }
    }
    schema.as_array().into_iter().flatten().find_map(|item| outside_reference(item, names))
}

fn is_metaschema(target: &str) -> bool {
    let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://"));
    rest.and_then(|rest| rest.strip_prefix("json-schema.org/")).is_some_and(|path| {
        let versions = ["draft-04/", "draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/"];
        versions.iter().any(|version| path.starts_with(version)) && !path.contains("..")
    })
}

/// Visits the files and links of a chart with their path for messages. Like Helm, it enters
/// linked directories; each one once.
fn walk(
    source_dir: &SourceDirectory,
    visit: &mut dyn FnMut(&Path, &str) -> Result<(), RenderError>,
) -> Result<(), RenderError> {
    let mut open: Vec<PathBuf> = vec![source_dir.directory.clone()];
    let mut seen = 0;
    let mut entered = BTreeSet::new();
    while let Some(directory) = open.pop() {
        let resolved = directory.canonicalize();
        // Links out of the repository are refused elsewhere.
        if !resolved.is_ok_and(|at| at.starts_with(&source_dir.root) && entered.insert(at)) {
            continue;
        }
        let shown =
            |path: &Path| path.strip_prefix(&source_dir.root).unwrap_or(path).display().to_string();
        let failed = |error: std::io::Error| RenderError::Read {
            file: shown(&directory),
            error: error.kind().to_string(),
        };
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                let what = format!("the chart has more than {MAX_ENTRIES} files");
                return Err(RenderError::TooLarge { what });
            }
            let path = entry.path();
            entry.file_type().map_err(failed)?;
            match path.is_dir() {
                true => open.push(path),
                false => visit(&path, &shown(&path))?,
            }
        }
    }
    Ok(())
}
