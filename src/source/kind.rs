//! Which kind of source a directory is (SE-090 to SE-092), and the overrides
//! that a repository may hold for it.
//!
//! Works on the raw `source` block, so that fields nobody models survive.
//! Blocking: reads the directory.

use std::io::Read;

use serde_json::Value;

use super::directory::Place;
use super::manifests::RenderError;
use crate::yaml::Document;

/// Fields that an override file in the repository cannot change: they say
/// where the file itself was read.
const FIXED_FIELDS: [&str; 4] = ["repoURL", "path", "chart", "targetRevision"];

/// Largest override file, in bytes.
const MAX_OVERRIDE: u64 = 1 << 20;

/// How a source is rendered; the value of `status.sourceType` (SE-092).
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
    /// The name as it stands in `status.sourceType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "Helm",
            Self::Kustomize => "Kustomize",
            Self::Directory => "Directory",
            Self::Plugin => "Plugin",
        }
    }
}

/// Which kinds are switched on (SE-091); a kind that is off is read as plain
/// manifests instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledTypes {
    /// `helm.enable`, default true.
    pub helm: bool,
    /// `kustomize.enable`, default true.
    pub kustomize: bool,
}

impl Default for EnabledTypes {
    fn default() -> Self {
        Self { helm: true, kustomize: true }
    }
}

/// The kind that the source block itself names; `None` when it names none.
///
/// # Errors
///
/// [`RenderError::Source`] when it names more than one (SE-037).
pub fn explicit_type(source: &Value) -> Result<Option<SourceType>, RenderError> {
    let named = |field: &str| match source.get(field) {
        None | Some(Value::Null) => false,
        // A block with nothing in it is removed by normalisation (SE-030).
        Some(Value::Object(block)) => !block.is_empty(),
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
            Err(RenderError::Source { reason })
        }
    }
}

/// The kind of a source whose overrides were merged already.
pub(super) fn detect(
    place: &Place,
    source: &Value,
    enabled: EnabledTypes,
) -> Result<SourceType, RenderError> {
    let kind = match explicit_type(source)? {
        Some(kind) => kind,
        None => discover(place)?,
    };
    Ok(match kind {
        SourceType::Helm if !enabled.helm => SourceType::Directory,
        SourceType::Kustomize if !enabled.kustomize => SourceType::Directory,
        kind => kind,
    })
}

fn discover(place: &Place) -> Result<SourceType, RenderError> {
    let failed = |error: std::io::Error| RenderError::Read {
        file: place.relative.clone(),
        error: error.to_string(),
    };
    let mut found = SourceType::Directory;
    for entry in std::fs::read_dir(&place.directory).map_err(failed)? {
        match entry.map_err(failed)?.file_name().to_str() {
            // Goes before a chart in the same directory.
            Some("kustomization.yaml" | "kustomization.yml" | "Kustomization") => {
                return Ok(SourceType::Kustomize);
            }
            Some(name) if name.ends_with("Chart.yaml") => found = SourceType::Helm,
            _ => {}
        }
    }
    Ok(found)
}

/// The source block with the override files of the repository merged in.
pub(super) fn with_overrides(
    place: &Place,
    source: &Value,
    application: &str,
    warnings: &mut Vec<String>,
) -> Result<Value, RenderError> {
    let mut merged = source.clone();
    let own = format!(".argocd-source-{application}.yaml");
    for name in [".argocd-source.yaml", &own] {
        // An application name cannot hold a slash; a made-up one may.
        if name.contains('/') {
            continue;
        }
        if let Some(patch) = override_file(place, name)? {
            warnings.extend(patch.repeated.iter().map(|key| format!("{name}: {key}")));
            json_patch::merge(&mut merged, &patch.value);
        }
    }
    if let (Some(merged), Some(source)) = (merged.as_object_mut(), source.as_object()) {
        for field in FIXED_FIELDS {
            match source.get(field) {
                Some(value) => merged.insert(field.to_owned(), value.clone()),
                None => merged.remove(field),
            };
        }
    }
    Ok(merged)
}

fn override_file(place: &Place, name: &str) -> Result<Option<Document>, RenderError> {
    let Ok(resolved) = place.directory.join(name).canonicalize() else { return Ok(None) };
    let file = || name.to_owned();
    if !resolved.starts_with(&place.root) {
        return Err(RenderError::LinkOutside { file: file() });
    }
    let failed =
        |error: std::io::Error| RenderError::Read { file: file(), error: error.to_string() };
    if !resolved.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let content = std::fs::File::open(&resolved).map_err(failed)?;
    content.take(MAX_OVERRIDE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_OVERRIDE {
        return Err(RenderError::TooLarge {
            what: format!("{name}: larger than {MAX_OVERRIDE} bytes"),
        });
    }
    let unreadable = |error: crate::yaml::Error| RenderError::Unreadable {
        file: file(),
        reason: error.to_string(),
    };
    let text = crate::yaml::decode(&bytes).map_err(unreadable)?;
    let mut documents = crate::yaml::documents(&text).map_err(unreadable)?;
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(None),
        (Some(document), true) if document.value.is_object() => Ok(Some(document)),
        _ => {
            let reason = "expected one mapping with fields of a source".into();
            Err(RenderError::Unreadable { file: file(), reason })
        }
    }
}
