//! Source types (SE-090 to SE-092), and the override files of a repository.
//!
//! Works on the raw `source` block, so that unknown fields are kept. Blocking: reads the
//! directory.

use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::render::files::read_file;
use crate::render::manifest::{RenderError, lfs_pointer};
use wavegate_api::yaml::Document;
use wavegate_api::{self as api, ApplicationSource};

/// Fields that an override file cannot change, since they determine where the file is
/// read from.
const FIXED_FIELDS: [&str; 4] = ["repoURL", "path", "chart", "targetRevision"];

/// Largest override file, in bytes.
const MAX_OVERRIDE: u64 = 1 << 20;

/// Type of a source; the value of `status.sourceType` (SE-092).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceType {
    /// A Helm chart.
    Helm,
    /// A Kustomize directory.
    Kustomize,
    /// Plain manifests.
    Directory,
    /// A config management plugin.
    Plugin,
}

impl SourceType {
    /// The name in `status.sourceType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "Helm",
            Self::Kustomize => "Kustomize",
            Self::Directory => "Directory",
            Self::Plugin => "Plugin",
        }
    }
}

/// Enabled source types (SE-091); a disabled type is read as plain manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledTypes {
    /// `helm.enable`, default true.
    pub helm: bool,
    /// `kustomize.enable`, default true.
    pub kustomize: bool,
    /// `jsonnet.enable`, default true: otherwise the Jsonnet files of a directory are left out.
    pub jsonnet: bool,
}

impl Default for EnabledTypes {
    fn default() -> Self {
        Self { helm: true, kustomize: true, jsonnet: true }
    }
}

/// The type that the source block sets explicitly, if any.
///
/// # Errors
///
/// [`RenderError::Source`] when more than one is set (SE-037).
pub fn explicit_type(source: &Value) -> Result<Option<SourceType>, RenderError> {
    let named = |field: &str| match source.get(field) {
        None | Some(Value::Null) => false,
        // It lets the plugins say which of them it is.
        Some(Value::Object(_)) if field == "plugin" => true,
        // Normalization removes a block that sets nothing (SE-030).
        Some(block @ Value::Object(_)) => !is_zero(block),
        Some(_) => true,
    };
    let blocks = [
        ("kustomize", SourceType::Kustomize),
        ("helm", SourceType::Helm),
        ("directory", SourceType::Directory),
        ("plugin", SourceType::Plugin),
    ];
    let types: Vec<SourceType> =
        blocks.into_iter().filter(|(field, _)| named(field)).map(|(_, kind)| kind).collect();
    match types[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => {
            let names: Vec<&str> = types.into_iter().map(SourceType::as_str).collect();
            let reason = format!("multiple application sources defined: {}", names.join(","));
            Err(RenderError::source(reason))
        }
    }
}

/// Whether a value is the zero value of its type, or consists of such values: clients that use
/// Go types write and omit them alike.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

/// The type of a source with merged overrides.
pub(crate) fn detect(
    source_dir: &SourceDirectory,
    source: &Value,
    enabled: EnabledTypes,
) -> Result<SourceType, RenderError> {
    let kind = match explicit_type(source)? {
        Some(kind) => kind,
        None => discover(source_dir)?,
    };
    Ok(match kind {
        SourceType::Helm if !enabled.helm => SourceType::Directory,
        SourceType::Kustomize if !enabled.kustomize => SourceType::Directory,
        kind => kind,
    })
}

fn discover(source_dir: &SourceDirectory) -> Result<SourceType, RenderError> {
    let failed = |error: std::io::Error| RenderError::read(source_dir.relative.clone(), error);
    let mut found = SourceType::Directory;
    for entry in std::fs::read_dir(&source_dir.directory).map_err(failed)? {
        match entry.map_err(failed)?.file_name().to_str() {
            // Takes precedence over a chart in the same directory.
            Some("kustomization.yaml" | "kustomization.yml" | "Kustomization") => {
                return Ok(SourceType::Kustomize);
            }
            Some(name) if name.ends_with("Chart.yaml") => found = SourceType::Helm,
            _ => {}
        }
    }
    Ok(found)
}

/// A source block with the overrides of its repository.
#[derive(Debug)]
pub(crate) struct Overridden {
    /// The merged block.
    pub source: Value,
    /// Keys that an override file repeats.
    pub warnings: Vec<String>,
    /// Fields of an override file that have no effect.
    pub notes: Vec<String>,
}

/// The source block merged with the override files of the repository: the one for all, then that
/// of the Application, which is named as in the tracking (`NAMESPACE_NAME` outside of the
/// namespace of the control plane).
///
/// No API server has checked these files. A value of another type is an error, since it would
/// count as absent: the source would be rendered without it.
pub(crate) fn with_overrides(
    source_dir: &SourceDirectory,
    source: &Value,
    instance: &str,
) -> Result<Overridden, RenderError> {
    let mut merged = source.clone();
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    let own = format!(".argocd-source-{instance}.yaml");
    for name in [".argocd-source.yaml", &own] {
        // The name of an Application has no slash, but the given name may.
        if name.contains('/') {
            continue;
        }
        let other = name.replace(".yaml", ".yml");
        if source_dir.directory.join(&other).symlink_metadata().is_ok() {
            notes.push(format!("{other}: not read; rename it to {name}, or remove it"));
        }
        let Some(patch) = override_file(source_dir, name)? else { continue };
        api::read_typed::<ApplicationSource>(&patch.value).map_err(|error| {
            let reason = format!("{error}; write it as in the source of an Application");
            RenderError::unreadable(name, crate::redact_urls(&reason))
        })?;
        warnings.extend(patch.repeated.iter().map(|key| format!("{name}: {key}")));
        let unknown = api::unknown::in_source(&patch.value);
        notes.extend(unknown.into_iter().map(|field| format!("{name}: {field}")));
        let fixed = FIXED_FIELDS.into_iter().filter(|field| {
            let own = patch.value.get(field);
            own.is_some_and(|own| *own != source[field])
        });
        notes.extend(
            fixed.map(|field| {
                format!("{name}: {field}: an override file cannot change it; remove it")
            }),
        );
        json_patch::merge(&mut merged, &patch.value);
    }
    if let (Some(merged), Some(source)) = (merged.as_object_mut(), source.as_object()) {
        for field in FIXED_FIELDS {
            match source.get(field) {
                Some(value) => merged.insert(field.to_owned(), value.clone()),
                None => merged.remove(field),
            };
        }
    }
    Ok(Overridden { source: merged, warnings, notes })
}

fn override_file(
    source_dir: &SourceDirectory,
    name: &str,
) -> Result<Option<Document>, RenderError> {
    let file = || name.to_owned();
    let path = source_dir.directory.join(name);
    let resolved = match path.canonicalize() {
        Ok(resolved) => resolved,
        // A link that leads nowhere is a mistake; and the answer must not reveal which files of
        // the machine exist.
        Err(_) if crate::links::points_outside(&path, &source_dir.root) => {
            return Err(RenderError::LinkOutside { file: file() });
        }
        Err(_) if path.is_symlink() => return Err(RenderError::DanglingLink { file: file() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RenderError::read(file(), error)),
    };
    if !resolved.starts_with(&source_dir.root) {
        return Err(RenderError::LinkOutside { file: file() });
    }
    let failed = |error: std::io::Error| RenderError::read(file(), error);
    if !resolved.is_file() {
        return Ok(None);
    }
    let bytes = read_file(&resolved, name, MAX_OVERRIDE, failed)?;
    let unreadable = |error: wavegate_api::yaml::YamlError| RenderError::unreadable(file(), error);
    let text = wavegate_api::yaml::decode_text(&bytes).map_err(unreadable)?;
    if let Some(what) = lfs_pointer(&text) {
        return Err(RenderError::NotAManifest { file: file(), what });
    }
    let mut documents = wavegate_api::yaml::parse_documents(&text).map_err(unreadable)?;
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(None),
        (Some(document), true) if document.value.is_object() => Ok(Some(document)),
        _ => {
            let reason = "expected one mapping with the fields of a source";
            Err(RenderError::unreadable(file(), reason))
        }
    }
}
