//! Prepares `kustomize build`: edits of the kustomization in a private copy, and the options
//! of the installation. Blocking.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::directory::pattern::{Braces, expand};
use crate::directory::source_directory::SourceDirectory;
use crate::kustomize::kustomization::Block;
use crate::links::leaves;
use crate::process::tools::BuildOptions;
use crate::render::build_environment::BuildEnvironment;
use crate::render::files::{parse_yaml, read_file};
use crate::render::manifest::RenderError;
use crate::render::mirror::{self, Content, Mirror};
use crate::render::render_for::RenderFor;
use crate::version::kube_version;
use wavegate_api::yaml;

/// File names of a kustomization.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Largest kustomization that is edited, in bytes.
const MAX_FILE: u64 = 10 << 20;

/// Most components that a pattern adds.
const MAX_COMPONENTS: usize = 1_000;

/// Options that take no value.
const SWITCHES: [&str; 5] = [
    "--enable-helm",
    "--enable-managedby-label",
    "--enable_managedby_label",
    "--helm-debug",
    "--stack-trace",
];

/// Options with a value, and the values that are possible.
const VALUED: [(&str, &[&str]); 4] = [
    ("--load-restrictor", &["LoadRestrictionsNone", "LoadRestrictionsRootOnly"]),
    ("--load_restrictor", &["LoadRestrictionsNone", "LoadRestrictionsRootOnly", "none"]),
    ("--reorder", &["none", "legacy"]),
    ("--output-format", &["yaml"]),
];

/// What a build is called with.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The program, if it is not the usual one.
    pub program: Option<PathBuf>,
    /// The options.
    pub options: Vec<String>,
    /// Whether charts are inflated, by Helm.
    pub helm: bool,
    /// The edited copy.
    pub mirror: Option<Mirror>,
}

/// The options of `text` that may be passed on.
///
/// # Errors
///
/// An option that runs programs, reads elsewhere, or is not known.
fn permitted(text: &str) -> Result<Vec<String>, RenderError> {
    let refused = |option: &str, why: &str| {
        let reason = format!("kustomize.buildOptions of ConfigMap argocd-cm: {option}: {why}");
        Err(RenderError::source(reason))
    };
    let mut words = text.split_whitespace();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if SWITCHES.contains(&name) {
            match joined {
                None | Some("true") => options.push(name.to_owned()),
                Some("false") => {}
                Some(_) => return refused(word, "write true or false"),
            }
            continue;
        }
        let Some((_, values)) = VALUED.iter().find(|(known, _)| *known == name) else {
            return refused(
                name,
                "is not supported, since it runs programs, reads or writes elsewhere, or is not \
                 known; remove it",
            );
        };
        let value = joined.or_else(|| words.next()).unwrap_or_default();
        if !values.contains(&value) {
            return refused(name, &format!("{value:?} is none of {}", values.join(", ")));
        }
        options.push(format!("{name}={value}"));
    }
    Ok(options)
}

/// Checks the block of a source and edits a copy of its kustomization, if it must.
pub(crate) fn prepare(
    source_dir: &SourceDirectory,
    source: &Value,
    subject: &RenderFor,
    environment: &BuildEnvironment,
    configured: &BuildOptions,
    limit: u64,
) -> Result<Prepared, RenderError> {
    let block = Block::of(source).map_err(RenderError::source)?;
    let (program, options) = configured.of(&block.version)?;
    let mut options = permitted(options)?;
    let helm = options.iter().any(|option| option == "--enable-helm");
    if helm {
        let cluster = subject.cluster.as_ref();
        let known = cluster.map(|cluster| cluster.kube_version.as_str()).unwrap_or_default();
        let version = match block.kube_version.as_str() {
            "" => known.to_owned(),
            given => kube_version("kustomize.kubeVersion", given).map_err(RenderError::source)?,
        };
        if !version.is_empty() {
            options.push(format!("--helm-kube-version={version}"));
        }
        let known = cluster.map(|cluster| &cluster.api_versions[..]).unwrap_or_default();
        let given = if block.api_versions.is_empty() { known } else { &block.api_versions };
        options.extend(given.iter().map(|version| format!("--helm-api-versions={version}")));
    }
    let mirror =
        block.edits().then(|| edited(source_dir, &block, environment, limit)).transpose()?;
    Ok(Prepared { program, options, helm, mirror })
}

fn edited(
    source_dir: &SourceDirectory,
    block: &Block,
    environment: &BuildEnvironment,
    limit: u64,
) -> Result<Mirror, RenderError> {
    // What leads elsewhere is there, whether its target exists or not.
    let is_there = |name: &&str| {
        source_dir.directory.join(name).is_file()
            || leaves(&source_dir.directory, name, &source_dir.root)
    };
    let found: Vec<&str> = NAMES.into_iter().filter(is_there).collect();
    let shown = |name: &str| match source_dir.relative.as_str() {
        "" => name.to_owned(),
        relative => format!("{relative}/{name}"),
    };
    let name = match found[..] {
        [name] => name,
        [] => {
            return Err(RenderError::source(format!(
                "kustomize: Missing kustomization file '{}'; add it, or remove the kustomize block",
                shown(NAMES[0])
            )));
        }
        _ => {
            return Err(RenderError::source(format!(
                "kustomize: Found multiple kustomization files: {}; keep one of them",
                found.join(", ")
            )));
        }
    };
    let mut kustomization = read(source_dir, name, &shown(name))?;
    let components = components(source_dir, block)?;
    block.edit(&mut kustomization, environment, &components).map_err(|reason| {
        let reason = format!("{}: {reason}", shown(name));
        RenderError::source(reason)
    })?;
    let mirror = mirror::mirror(source_dir, Content::Shared, limit)?;
    let text = yaml::to_json(&kustomization);
    mirror::replace(&mirror.source_dir.directory.join(name), &text)
        .map_err(|error| RenderError::read(shown(name), error.kind()))?;
    Ok(mirror)
}

fn read(source_dir: &SourceDirectory, name: &str, shown: &str) -> Result<Value, RenderError> {
    let failed = |error: std::io::Error| RenderError::read(shown, error.kind());
    // Before it is resolved: the answer must not reveal which files of the machine exist.
    if leaves(&source_dir.directory, name, &source_dir.root) {
        return Err(RenderError::LinkOutside { file: shown.to_owned() });
    }
    let path = source_dir.directory.join(name).canonicalize().map_err(failed)?;
    match &parse_yaml(&read_file(&path, shown, MAX_FILE, failed)?, shown)?[..] {
        [] => Ok(json!({})),
        [one] => Ok(one.value.clone()),
        _ => {
            let reason = "a kustomization is one document; remove the others";
            Err(RenderError::unreadable(shown, reason))
        }
    }
}

/// The components of a block: patterns are replaced by the directories that they match, and
/// missing ones are left out where the block says so.
fn components(source_dir: &SourceDirectory, block: &Block) -> Result<Vec<String>, RenderError> {
    let mut found = Vec::new();
    for (index, component) in block.components.iter().enumerate() {
        let refused = |why: &str| {
            let reason = format!("kustomize.components[{index}]: {component}: {why}");
            RenderError::source(crate::redact_urls(&reason))
        };
        let is_remote = component.contains("://") || component.starts_with('/');
        if component.contains(['*', '?', '[']) && !is_remote {
            let matched =
                expand(&source_dir.root, &source_dir.directory, component, Braces::Literal)
                    .map_err(|why| refused(&why))?;
            let below = |path: &PathBuf| relative_to(path, &source_dir.directory);
            // A component is a directory, and `**` at the end matches files, too.
            let all = !component.ends_with("**");
            let matched = matched.iter().filter(|path| all || path.is_dir());
            let matched: Vec<String> = matched.filter_map(below).collect();
            if matched.len() > MAX_COMPONENTS {
                return Err(refused("matches too many directories"));
            }
            if matched.is_empty() && !block.ignore_missing_components {
                return Err(refused("has no match"));
            }
            found.extend(matched);
            continue;
        }
        let path = source_dir.directory.join(component);
        let missing = match path.canonicalize() {
            Ok(path) => !path.starts_with(&source_dir.root),
            Err(_) => true,
        };
        if missing && !is_remote && block.ignore_missing_components {
            continue;
        }
        found.push(component.clone());
    }
    Ok(found)
}

/// A path as seen from a directory, both inside of one checkout.
fn relative_to(path: &Path, directory: &Path) -> Option<String> {
    let common = directory.ancestors().find(|parent| path.starts_with(parent))?;
    let up = directory.strip_prefix(common).ok()?.components().count();
    let down = path.strip_prefix(common).ok()?.to_str()?;
    Some(format!("{}{down}", "../".repeat(up)))
}
