//! Checks of a chart before Helm reads it: dependencies and links. Blocking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::kustomize::remote::folded;
use crate::links::points_outside;
use crate::render::checked::in_time;
use crate::render::files::{parse_yaml, read_file};
use crate::render::manifest::RenderError;
use crate::render::mirror::replace;
use crate::render::render_for::RenderFor;
use wavegate_api::yaml;

/// Files that declare dependencies; the second one in charts of API version v1.
const DECLARING: [&str; 2] = ["Chart.yaml", "requirements.yaml"];

/// Files that pin dependencies: Helm fetches what they name, not what is declared.
const PINNING: [&str; 2] = ["Chart.lock", "requirements.lock"];

/// Largest file that is read, in bytes.
pub(crate) const MAX_FILE: u64 = 4 << 20;

/// Most files and directories of a chart.
const MAX_ENTRIES: usize = 100_000;

/// A dependency of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Its name.
    pub name: String,
    /// Where it comes from; may be empty.
    pub repository: String,
}

/// The files of a chart that name dependencies, as they are read here.
#[derive(Debug)]
pub(crate) struct Naming(Vec<(&'static str, Value)>);

impl Naming {
    /// Reads the files that are there. What cannot be read may name anything, so that it is an
    /// error.
    pub(crate) fn read(source_dir: &SourceDirectory) -> Result<Self, RenderError> {
        Self::of(source_dir, DECLARING.into_iter().chain(PINNING))
    }

    fn of(
        source_dir: &SourceDirectory,
        names: impl IntoIterator<Item = &'static str>,
    ) -> Result<Self, RenderError> {
        let mut files = Vec::new();
        for name in names {
            let path = source_dir.directory.join(name);
            if let Some(document) = document(&path, &source_dir.shown(name))? {
                files.push((name, document));
            }
        }
        Ok(Self(files))
    }

    /// What they name: all that Helm may fetch.
    pub(crate) fn dependencies(
        &self,
        source_dir: &SourceDirectory,
    ) -> Result<Vec<Dependency>, RenderError> {
        let mut found = Vec::new();
        for (name, document) in &self.0 {
            let unreadable = |reason: String| {
                RenderError::unreadable(source_dir.shown(name), crate::redact_urls(&reason))
            };
            for one in entries(document).map_err(unreadable)? {
                if !found.contains(&one) {
                    found.push(one);
                }
            }
        }
        Ok(found)
    }

    /// Writes them to a copy of the chart, so that Helm fetches what was checked, even where its
    /// parser reads a text differently.
    pub(crate) fn write(&self, directory: &Path) -> std::io::Result<()> {
        let mut all = self.0.iter();
        all.try_for_each(|(name, document)| {
            replace(&directory.join(name), &yaml::to_json(document))
        })
    }

    /// Undoes [`Self::write`] for what Helm renders with.
    pub(crate) fn restore(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        for (name, _) in self.0.iter().filter(|(name, _)| DECLARING.contains(name)) {
            std::fs::remove_file(to.join(name))?;
            std::fs::copy(from.join(name), to.join(name))?;
        }
        Ok(())
    }
}

/// The dependencies that a chart declares and does not contain: Helm does not render it
/// without them. None if they cannot be read, which Helm reports.
pub(crate) fn missing(source_dir: &SourceDirectory) -> Vec<Dependency> {
    let declared = declared(source_dir).unwrap_or_default();
    let chart = &source_dir.directory;
    let missing = declared.iter().filter(|one| !is_vendored(chart, &one.name, &declared));
    missing.cloned().collect()
}

fn declared(source_dir: &SourceDirectory) -> Result<Vec<Dependency>, RenderError> {
    Naming::of(source_dir, DECLARING)?.dependencies(source_dir)
}

/// The missing dependencies from the output of Helm, which also reads archives.
pub(crate) fn missing_by_helm(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
    output: &str,
) -> Option<RenderError> {
    let (_, names) = output.split_once("missing in charts/ directory:")?;
    let names = names.lines().next()?.split(',').map(|name| name.trim().to_owned());
    let names: Vec<String> = names.collect();
    let declared = match declared(source_dir) {
        Ok(declared) => declared,
        Err(error) => return Some(error),
    };
    // Its repository was not compared with the project.
    let unknown = names.iter().find(|name| !declared.iter().any(|one| one.name == **name));
    Some(match unknown {
        Some(name) => RenderError::source(format!(
            "application {}: helm misses the dependency {name:?} of the chart, which {} does \
                 not declare in a form that is understood here; write it as `dependencies` with \
                 `name` and `repository`",
            subject.application,
            source_dir.shown(DECLARING[0])
        )),
        None => missing_dependencies(source_dir, subject, &names),
    })
}

/// The error about missing dependencies.
pub(crate) fn missing_dependencies(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
    missing: &[String],
) -> RenderError {
    let declared = declared(source_dir).unwrap_or_default();
    let named = missing.iter().map(|name| {
        let repository = declared.iter().find(|one| one.name == *name);
        match repository.map(|one| one.repository.as_str()).filter(|text| !text.is_empty()) {
            Some(repository) => format!("{name} (repository {})", crate::redact_urls(repository)),
            None => name.clone(),
        }
    });
    let name = name_of(&source_dir.directory);
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

/// The name that a chart gives itself; empty if it has none.
fn name_of(chart: &Path) -> String {
    let read = document(&chart.join(DECLARING[0]), DECLARING[0]).ok().flatten();
    let name = read.as_ref().and_then(|chart| field(chart, "name").ok()?.as_str());
    name.unwrap_or_default().to_owned()
}

/// The dependencies that one file names.
fn entries(document: &Value) -> Result<Vec<Dependency>, String> {
    let list = match field(document, "dependencies")? {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err("dependencies: not a list".to_owned()),
    };
    let mut found = Vec::new();
    for (index, entry) in list.iter().enumerate().filter(|(_, entry)| !entry.is_null()) {
        let at = |why: &str| format!("dependencies[{index}]: {why}");
        if !entry.is_object() {
            return Err(at("not a mapping"));
        }
        let text = |name: &str| match field(entry, name).map_err(|why| at(&why))? {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            // Helm makes a text of these.
            value @ (Value::Number(_) | Value::Bool(_)) => Ok(value.to_string()),
            _ => Err(at(&format!("{name}: not a text"))),
        };
        let dependency = Dependency { name: text("name")?, repository: text("repository")? };
        if dependency.name.is_empty() {
            return Err(at("it has no name"));
        }
        found.push(dependency);
    }
    Ok(found)
}

/// A field as Helm finds it, whatever the case of its letters.
fn field<'a>(object: &'a Value, name: &str) -> Result<&'a Value, String> {
    let fields = object.as_object().into_iter().flatten();
    let mut found = fields.filter(|(key, _)| folded(key) == name);
    match (found.next(), found.next()) {
        (None, _) => Ok(&Value::Null),
        (Some((_, value)), None) => Ok(value),
        (Some((one, _)), Some((other, _))) => {
            Err(format!("{one:?} and {other:?} are the same key for Helm; remove one of them"))
        }
    }
}

/// The first document of a file, which is the one that Helm reads; `None` without the file.
fn document(file: &Path, shown: &str) -> Result<Option<Value>, RenderError> {
    let failed = |error: std::io::Error| RenderError::read(shown, error.kind());
    let meta = match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        meta => meta.map_err(failed)?,
    };
    if meta.is_dir() {
        return Ok(None);
    }
    if !meta.is_file() {
        return Err(RenderError::read(shown, "not a regular file"));
    }
    let documents = parse_yaml(&read_file(file, shown, MAX_FILE, failed)?, shown)?;
    let first = documents.into_iter().next().map(|document| document.value);
    Ok(Some(first.unwrap_or_else(|| Value::Object(serde_json::Map::new()))))
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
            true => file == name || name_of(&path) == name,
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

/// A link of a chart that leads nowhere is an error: the chart would be rendered without it. One
/// that leads out of the repository is refused before anything is read through it.
pub(crate) fn check_links(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    walk(source_dir, &mut |path, shown| {
        let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        // Whether the file exists or not: the answer must not reveal which do.
        if is_link && points_outside(path, &source_dir.root) {
            return Err(RenderError::LinkOutside { file: shown.to_owned() });
        }
        if is_link && path.canonicalize().is_err() {
            return Err(RenderError::DanglingLink { file: shown.to_owned() });
        }
        Ok(())
    })
}

/// Whether a path that does not resolve contains a link below `root`.
pub(crate) fn leads_through_link(path: &Path, root: &Path) -> bool {
    let below = path.ancestors().take_while(|part| part.starts_with(root) && *part != root);
    let is_link = |part: &Path| part.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    below.into_iter().any(|part| is_link(part) && part.canonicalize().is_err())
}

/// Visits the files and links of a chart with their path for messages. Like Helm, it enters
/// linked directories; each one once.
pub(crate) fn walk(
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
        let failed = |error: std::io::Error| RenderError::read(shown(&directory), error.kind());
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            in_time("the chart")?;
            seen += 1;
            if seen > MAX_ENTRIES {
                return Err(RenderError::too_large(format!(
                    "the chart has more than {MAX_ENTRIES} files"
                )));
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
