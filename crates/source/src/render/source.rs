//! Renders one checked-out source of any type.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::directory::jsonnet::JsonnetOptions;
use crate::directory::manifests::{self, DEFAULT_MAX_BYTES, DirectoryOptions, Jsonnet};
use crate::directory::source_directory::SourceDirectory;
use crate::git::checkout::Checkout;
use crate::in_memory::InMemory;
use crate::process::tools::Programs;
use crate::render::build_environment::BuildEnvironment;
use crate::render::checked::blocking;
use crate::render::kind::{
    EnabledTypes, Overridden, SourceType, detect, explicit_type, with_overrides,
};
use crate::render::manifest::{Manifest, RenderError};
use crate::render::render_for::RenderFor;
use wavegate_api::{ApplicationSource, read_leniently};

/// Options of rendering, the same for all sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderOptions {
    /// Limit on the bytes of the files of a plain directory (SE-098); 0 means no limit.
    pub max_bytes: u64,
    /// Enabled source types (SE-091).
    pub enabled: EnabledTypes,
    /// The programs for charts and Kustomize.
    pub programs: Programs,
}

impl Default for RenderOptions {
    fn default() -> Self {
        let (enabled, programs) = (EnabledTypes::default(), Programs::default());
        Self { max_bytes: DEFAULT_MAX_BYTES, enabled, programs }
    }
}

/// Result of rendering a source.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedSource {
    /// The objects in the order of reading.
    pub manifests: Vec<Manifest>,
    /// Value of `status.sourceType`; `None` for a source with only a `ref`.
    pub source_type: Option<SourceType>,
    /// Keys that are repeated, with file and line.
    pub warnings: Vec<String>,
    /// What was left out, with its file or plugin.
    pub notes: Vec<String>,
}

/// Renders a source: `source` is the raw block of the Application; the overrides of the
/// repository are merged here (SE-090).
///
/// Files are read on blocking threads. The same checkout and source give the same
/// manifests in the same order, as long as no other program is involved.
///
/// # Errors
///
/// [`RenderError::At`] with the repository and revision. Never a partial result.
pub async fn render_source(
    checkout: &Arc<Checkout>,
    source: &Value,
    subject: &RenderFor,
    options: &RenderOptions,
) -> Result<RenderedSource, RenderError> {
    if let Some(memory) = checkout.memory() {
        return Ok(in_memory(memory, &subject.application, source, checkout.revision()));
    }
    let rendered = render_checkout(checkout, source, subject, options).await;
    rendered.map_err(|error| error.at(checkout.repo(), checkout.revision()))
}

fn in_memory(
    memory: &dyn InMemory,
    application: &str,
    source: &Value,
    commit: &str,
) -> RenderedSource {
    let manifest = |object| Manifest {
        object,
        file: "simulated.yaml".to_owned(),
        line: 1,
        repeated: Vec::new(),
    };
    RenderedSource {
        manifests: memory.objects(application, source, commit).into_iter().map(manifest).collect(),
        source_type: Some(SourceType::Directory),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

async fn render_checkout(
    checkout: &Arc<Checkout>,
    source: &Value,
    subject: &RenderFor,
    options: &RenderOptions,
) -> Result<RenderedSource, RenderError> {
    let text = |field: &str| source[field].as_str().filter(|text| !text.is_empty());
    let is_chart = text("chart").is_some();
    if text("ref").is_some() && text("path").is_none() && !is_chart {
        return Ok(RenderedSource {
            manifests: Vec::new(),
            source_type: None,
            warnings: Vec::new(),
            notes: Vec::new(),
        });
    }
    // A chart of a repository is unpacked as the root.
    let path = text("path").filter(|_| !is_chart).unwrap_or(".").to_owned();
    let prepare = {
        let (path, source) = (path.clone(), source.clone());
        let (instance, enabled) = (subject.instance_name().to_owned(), options.enabled);
        // CheckoutCache until the thread has finished, even when this call is dropped.
        let checkout = Arc::clone(checkout);
        move || {
            let inside = |submodule: &&String| Path::new(&path).starts_with(submodule);
            if let Some(submodule) = checkout.submodules().iter().find(inside) {
                return Err(RenderError::Submodule { path: submodule.clone() });
            }
            let source_dir = SourceDirectory::new(checkout.root(), &path)?;
            let source_dir = source_dir.with_temporary(&checkout.temporary());
            let Overridden { source, warnings, notes } =
                with_overrides(&source_dir, &source, &instance)?;
            let kind = detect(&source_dir, &source, enabled)?;
            let explicit = explicit_type(&source)?;
            let rendered_by_helm = matches!(kind, SourceType::Helm | SourceType::Plugin);
            let other = is_chart && enabled.helm && !rendered_by_helm;
            if other && explicit.is_some() {
                return Err(RenderError::source(format!(
                    "a chart is rendered by Helm: remove the settings for {} from the source",
                    kind.as_str()
                )));
            }
            let kind = if other { SourceType::Helm } else { kind };
            let programs = kind != SourceType::Directory;
            let below = |submodule: &&String| {
                let submodule = Path::new(submodule.as_str());
                programs && submodule.starts_with(&source_dir.relative)
            };
            if let Some(submodule) = checkout.submodules().iter().find(below) {
                return Err(RenderError::Submodule { path: submodule.clone() });
            }
            // A plugin takes what no block gives to another one, charts included (SE-090).
            let may_be_plugin = explicit.is_none_or(|explicit| explicit == SourceType::Plugin);
            Ok((source_dir, source, kind, may_be_plugin, (warnings, notes)))
        }
    };
    let (source_dir, source, kind, may_be_plugin, (mut warnings, mut notes)) =
        blocking("source", prepare).await?;
    let environment = BuildEnvironment::new(subject, &source, checkout.revision());
    let plugin = match may_be_plugin {
        true => {
            let found = options.programs.plugin(&source_dir, &source, subject, &environment);
            subject.network.other(found).await?
        }
        false => None,
    };
    let kind = if plugin.is_some() { SourceType::Plugin } else { kind };
    let manifests = match kind {
        SourceType::Helm => {
            let revision = checkout.revision();
            options.programs.helm(&source_dir, &source, subject, revision).await?
        }
        SourceType::Kustomize => {
            let revision = checkout.revision();
            options.programs.kustomize(&source_dir, &source, subject, revision).await?
        }
        SourceType::Plugin => {
            let missing = || RenderError::source("plugin: not a mapping");
            let mut plugin = plugin.ok_or_else(missing)?;
            notes.append(&mut plugin.notes);
            let generated = options.programs.generate(plugin, &source_dir, subject);
            subject.network.other(generated).await?
        }
        SourceType::Directory => {
            let mut directory_options = directory_options(&source, options.max_bytes);
            directory_options.max_memory = subject.memory;
            let read = |jsonnet: Jsonnet| {
                let (checkout, path) = (Arc::clone(checkout), path.clone());
                let options = directory_options.clone();
                let read = move || {
                    let (root, submodules) = (checkout.root(), checkout.submodules());
                    manifests::read(root, &path, &options, submodules, &jsonnet)
                };
                blocking("source", read)
            };
            let (first, then) = match jsonnet(&source, &environment, options)? {
                on @ Jsonnet::On { .. } => (Jsonnet::Later, Some(on)),
                off => (off, None),
            };
            let read = match (read(first).await?, then) {
                (None, Some(on)) => subject.network.evaluation(read(on)).await?,
                (read, _) => read,
            };
            let left = || RenderError::source("directory: its Jsonnet was not evaluated");
            let read = read.ok_or_else(left)?;
            notes.extend(read.notes);
            read.manifests
        }
    };
    for manifest in &manifests {
        let repeated = manifest.repeated.iter().map(|key| format!("{}: {key}", manifest.file));
        warnings.extend(repeated);
    }
    Ok(RenderedSource { manifests, source_type: Some(kind), warnings, notes })
}

/// How the Jsonnet files of a source are read.
fn jsonnet(
    source: &Value,
    environment: &BuildEnvironment,
    options: &RenderOptions,
) -> Result<Jsonnet, RenderError> {
    if !options.enabled.jsonnet {
        return Ok(Jsonnet::Off);
    }
    Ok(Jsonnet::On {
        options: JsonnetOptions::new(source, environment)?,
        output: options.programs.output_bytes,
        time: options.programs.timeout,
    })
}

/// Reads the `directory` block of a source; absent fields have their defaults.
pub fn directory_options(source: &Value, max_bytes: u64) -> DirectoryOptions {
    let ApplicationSource { directory, .. } = read_leniently(source);
    let block = directory.unwrap_or_default();
    DirectoryOptions {
        recurse: block.recurse,
        include: block.include,
        exclude: block.exclude,
        disable_extension_filter: block.disable_extension_filter,
        max_bytes,
        ..DirectoryOptions::default()
    }
}
