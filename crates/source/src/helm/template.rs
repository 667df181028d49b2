//! The arguments of `helm template` (the `helm` block of SE-037), and the checks of a chart
//! before it runs. Blocking.
//!
//! No name that a user or a repository chose becomes part of an argument that Helm splits
//! or resolves: values files are copied to a private directory under names of our own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::directory::pattern::{self, Braces};
use crate::directory::source_directory::SourceDirectory;
use crate::helm::chart;
use crate::helm::chart_schema;
use crate::links::leaves;
use crate::render::build_environment::BuildEnvironment;
use crate::render::manifest::{RenderError, lfs_pointer};
use crate::render::render_for::RenderFor;
use crate::version::kube_version;
use wavegate_api::source::{HelmFileParameter, HelmParameter};
use wavegate_api::{ApplicationSource, read_leniently};

/// Schemes of URLs of values files that Helm reads without a plugin.
pub const VALUES_SCHEMES: [&str; 2] = ["https", "http"];

/// Largest values file, in bytes.
const MAX_VALUES: u64 = 16 << 20;

/// What `helm` is called with.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The arguments.
    pub args: Vec<OsString>,
    /// Paths of copies, with the name that users know.
    pub shown: Vec<(PathBuf, String)>,
    /// Whether a values file is fetched.
    pub network: bool,
}

/// Checks the chart and prepares the call of `helm template`.
pub(crate) fn prepare(
    source_dir: &SourceDirectory,
    source: &Value,
    subject: &RenderFor,
    environment: &BuildEnvironment,
    schemes: &[String],
    scratch: &Path,
) -> Result<Prepared, RenderError> {
    let ApplicationSource { helm, .. } = read_leniently(source);
    let helm = helm.unwrap_or_default();
    if let Some(field) = helm.extra.keys().next() {
        return Err(source_error(format!(
            "helm.{field} is not supported by the embedded engine; move it into the repository"
        )));
    }
    check_version(&helm.version)?;
    chart::check_links(source_dir)?;
    if !helm.skip_schema_validation {
        chart_schema::check_schemas(source_dir)?;
    }
    // Each value is joined to its option, so that it cannot be read as an option.
    let release = given(&helm.release_name).unwrap_or(&subject.application);
    let mut args = vec!["template".to_owned(), ".".into(), format!("--name-template={release}")];
    let namespace = given(&helm.namespace).unwrap_or(&subject.namespace);
    if !namespace.is_empty() {
        args.push(format!("--namespace={namespace}"));
    }
    let cluster = subject.cluster.as_ref();
    let version = match given(&helm.kube_version) {
        Some(given) => Some(kube_version("helm.kubeVersion", given).map_err(source_error)?),
        None => cluster.map(|cluster| cluster.kube_version.clone()),
    };
    args.extend(version.map(|version| format!("--kube-version={version}")));
    let known = cluster.map(|cluster| &cluster.api_versions[..]).unwrap_or_default();
    let api_versions = if helm.api_versions.is_empty() { known } else { &helm.api_versions[..] };
    args.extend(api_versions.iter().map(|version| format!("--api-versions={version}")));
    let (mut shown, mut network) = (Vec::new(), false);
    let mut found = Vec::new();
    for (index, file) in helm.value_files.iter().enumerate() {
        let named = Named { source_dir, subject, environment, schemes, field: "valueFiles", index };
        let files = named.files(file, helm.ignore_missing_value_files)?;
        found.push((named, file, files));
    }
    // A file that is named is not taken by a pattern, too.
    let named_files = found.iter().filter_map(|(.., files)| match files {
        Files::One(path) => Some(path.clone()),
        _ => None,
    });
    let named_files: BTreeSet<PathBuf> = named_files.collect();
    // What comes again stays where it came first.
    let (mut taken, mut urls) = (BTreeSet::<PathBuf>::new(), BTreeSet::new());
    let mut copies = 0;
    for (named, file, files) in found {
        let files = match files {
            Files::None => Vec::new(),
            Files::One(path) if !taken.insert(path.clone()) => Vec::new(),
            Files::One(path) => vec![(path, named.shown(file))],
            Files::Several(root, paths) => {
                let other = paths.into_iter().filter(|path| !named_files.contains(path));
                let new = other.filter(|path| taken.insert(path.clone()));
                let inside = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_owned();
                new.map(|path| (path.clone(), format!("./{}", inside(&path).display()))).collect()
            }
            Files::Url(url) => {
                network = true;
                if urls.insert(url.clone()) {
                    args.push(format!("--values={url}"));
                }
                continue;
            }
        };
        for (path, name) in files {
            let copy = named.copy(&path, &scratch.join(format!("values-{copies}")))?;
            copies += 1;
            args.push(format!("--values={}", copy.display()));
            shown.push((copy, name));
        }
    }
    let inline = match &helm.values_object {
        None => given(&helm.values).map(|values| environment.expand_known(values)),
        // JSON is YAML.
        Some(values) => Some(environment.expand_in(values).to_string()),
    };
    if let Some(values) = inline {
        let path = scratch.join("values.yaml");
        std::fs::write(&path, values)
            .map_err(|error| RenderError::read("helm.values", error.kind()))?;
        args.push(format!("--values={}", path.display()));
        shown.push((path, "helm.values".to_owned()));
    }
    for HelmParameter { name, value, force_string } in &helm.parameters {
        let option = if *force_string { "--set-string" } else { "--set" };
        args.push(format!("{option}={name}={}", one_value(&environment.expand(value))));
    }
    for (index, HelmFileParameter { name, path: file }) in helm.file_parameters.iter().enumerate() {
        let field = "fileParameters";
        let named = Named { source_dir, subject, environment, schemes, field, index };
        if name.is_empty() || name.contains(['=', ',']) {
            return Err(named.refused(file, "its parameter has no name, or one with '=' or ','"));
        }
        let path = match named.files(file, false)? {
            Files::One(path) => path,
            Files::Url(url) if url.contains('\\') => {
                return Err(named.refused(file, "a URL must not contain '\\'"));
            }
            Files::Url(url) => {
                network = true;
                args.push(format!("--set-file={name}={url}"));
                continue;
            }
            Files::None | Files::Several(..) => {
                return Err(named.refused(file, "is a pattern; name one file"));
            }
        };
        let copy = named.copy(&path, &scratch.join(format!("file-{index}")))?;
        args.push(format!("--set-file={name}={}", copy.display()));
        shown.push((copy, named.shown(file)));
    }
    if network && !helm.skip_schema_validation {
        chart_schema::check_archives(source_dir)?;
    }
    if !helm.skip_crds {
        args.push("--include-crds".into());
    }
    if helm.skip_tests {
        args.push("--skip-tests".into());
    }
    if helm.skip_schema_validation {
        args.push("--skip-schema-validation".into());
    }
    if scratch.to_string_lossy().contains([',', '"', '\n']) {
        // Helm would split it.
        return Err(RenderError::read(
            "temporary directory",
            "its path must not contain commas, quotes or line breaks; choose another --cache-dir",
        ));
    }
    Ok(Prepared { args: args.into_iter().map(OsString::from).collect(), shown, network })
}

/// A value in which no comma separates parameters, as in Argo CD: escaped commas stay, and
/// so does a list in braces.
fn one_value(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    let mut last = ' ';
    for c in value.chars() {
        if c == ',' && last != '\\' {
            out.push('\\');
        }
        out.push(c);
        last = c;
    }
    out
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn source_error(reason: String) -> RenderError {
    RenderError::source(reason)
}

/// The versions that Argo CD knows: both are rendered by the one that is installed.
fn check_version(version: &str) -> Result<(), RenderError> {
    match version {
        "" | "v3" | "v4" => Ok(()),
        other => {
            let reason = format!(
                "helm.version: {other:?} is not supported; write v3 or v4, or remove it: the \
                 installed helm renders charts of API versions v1 and v2"
            );
            Err(RenderError::source(reason))
        }
    }
}

/// What an entry of `valueFiles` names.
enum Files {
    /// Nothing, and that is permitted.
    None,
    /// A file.
    One(PathBuf),
    /// What a pattern matches below a root.
    Several(PathBuf, Vec<PathBuf>),
    /// What Helm fetches.
    Url(String),
}

/// One entry of `valueFiles` or `fileParameters`.
struct Named<'a> {
    source_dir: &'a SourceDirectory,
    subject: &'a RenderFor,
    environment: &'a BuildEnvironment,
    /// Schemes of permitted URLs.
    schemes: &'a [String],
    /// The field.
    field: &'static str,
    /// Its position.
    index: usize,
}

impl Named<'_> {
    /// The file for messages: relative to the root of its repository.
    fn shown(&self, file: &str) -> String {
        let relative = self.source_dir.relative.as_str();
        let whole = match file.strip_prefix('/') {
            _ if file.starts_with('$') => file.to_owned(),
            Some(from_root) => format!("./{from_root}"),
            None if relative.is_empty() => format!("./{file}"),
            None => format!("./{relative}/{file}"),
        };
        crate::redact_urls(&whole)
    }

    fn refused(&self, file: &str, why: &str) -> RenderError {
        let reason = format!("helm.{}[{}]: {file}: {why}", self.field, self.index);
        RenderError::source(crate::redact_urls(&reason))
    }

    fn outside(&self, file: &str) -> RenderError {
        let why = "is outside of the repository; copy it into the repository, or name it by the \
                   ref of another source";
        self.refused(file, why)
    }

    /// A values file: relative to the chart, with a leading slash relative to the repository
    /// root, or as `$ref/…` relative to the root of another source (SE-034).
    fn files(&self, file: &str, ignore_missing: bool) -> Result<Files, RenderError> {
        let after = file.strip_prefix('$').unwrap_or_default();
        let (name, path) = after.split_once('/').unwrap_or((after, ""));
        // The name of a source comes before the one of a variable.
        let is_reference = file.starts_with('$')
            && (self.subject.references.contains_key(name) || !self.environment.begins(after));
        let reference = is_reference.then_some((name, path));
        let (root, directory, relative, written) = match reference {
            Some((name, path)) => {
                let Some(checkout) = self.subject.references.get(name) else {
                    return Err(self.refused(file, &format!("no source has the ref {name}")));
                };
                let root = checkout
                    .root()
                    .canonicalize()
                    .map_err(|error| RenderError::read(format!("${name}"), error.kind()))?;
                let path = self.environment.expand(path);
                (root.clone(), root, path.clone(), format!("${name}/{path}"))
            }
            None => {
                let written = self.environment.expand(file);
                let root = self.source_dir.root.clone();
                match written.starts_with('/') {
                    true => (root.clone(), root, written.clone(), written),
                    false => (root, self.source_dir.directory.clone(), written.clone(), written),
                }
            }
        };
        // Helm splits lists of files at commas, and reads quotes and lines as CSV. What a pattern
        // matches is copied.
        let is_pattern = pattern::is_pattern(&relative) && !written.contains("://");
        let has_comma = written.contains(',') && !is_pattern;
        if has_comma || written.contains('"') || written.contains(char::is_control) {
            let why = "the name must not contain ',', '\"' or control characters";
            return Err(self.refused(&written.escape_debug().to_string(), why));
        }
        if let Some((scheme, _)) = written.split_once("://") {
            return self.url(&written, scheme);
        }
        let relative = relative.trim_start_matches('/');
        let path = directory.join(relative);
        if pattern::is_pattern(relative) && path.symlink_metadata().is_err() {
            return self.matching(&root, &directory, relative, ignore_missing);
        }
        // Whatever is there: the answer must not reveal which files of the machine exist.
        if leaves(&directory, relative, &root) {
            return Err(self.outside(&written));
        }
        match path.canonicalize() {
            Ok(path) if !path.starts_with(&root) => Err(self.outside(&written)),
            Ok(path) if !path.is_file() => Err(self.refused(&written, "is not a file")),
            Ok(path) => Ok(Files::One(path)),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.refused(&written, &error.kind().to_string()))
            }
            // A dangling link is a mistake, not a file that may be absent.
            Err(_) if chart::leads_through_link(&path, &root) => {
                Err(RenderError::DanglingLink { file: self.shown(&written) })
            }
            Err(_) if ignore_missing => Ok(Files::None),
            Err(_) if self.field != "valueFiles" => {
                Err(self.refused(&self.shown(&written), "no such file or directory"))
            }
            Err(_) => Err(RenderError::MissingValues {
                application: self.subject.application.clone(),
                index: self.index,
                file: self.shown(&written),
            }),
        }
    }

    /// A URL of a permitted scheme.
    fn url(&self, url: &str, scheme: &str) -> Result<Files, RenderError> {
        let scheme = scheme.to_ascii_lowercase();
        if !self.schemes.contains(&scheme) {
            let why = "only files of the Application's sources are supported, and URLs of the \
                       schemes in helm.valuesFileSchemes of ConfigMap argocd-cm";
            return Err(self.refused(url, why));
        }
        if !VALUES_SCHEMES.contains(&scheme.as_str()) {
            let why = "its scheme needs a plugin of Helm, and plugins are not run; use https";
            return Err(self.refused(url, why));
        }
        if url.contains(char::is_whitespace) {
            return Err(self.refused(url, "a URL must not contain spaces"));
        }
        wavegate_net::redact::know_url(url);
        Ok(Files::Url(url.to_owned()))
    }

    /// The files that a pattern matches, without directories.
    fn matching(
        &self,
        root: &Path,
        directory: &Path,
        pattern: &str,
        ignore_missing: bool,
    ) -> Result<Files, RenderError> {
        let matched = pattern::expand(root, directory, pattern, Braces::Alternatives);
        let matched = matched.map_err(|why| self.refused(pattern, &why))?;
        let mut files = Vec::new();
        for path in matched {
            match path.canonicalize() {
                Ok(path) if !path.starts_with(root) => {
                    return Err(self.outside(pattern));
                }
                // A link is another file than the one that it leads to.
                Ok(target) if target.is_file() => files.push(path),
                _ => {}
            }
        }
        match files.is_empty() {
            true if ignore_missing => Ok(Files::None),
            true => Err(self.refused(
                pattern,
                "no file matches; correct the pattern, or set helm.ignoreMissingValueFiles",
            )),
            false => Ok(Files::Several(root.to_owned(), files)),
        }
    }

    /// Copies a file under a name of our own to a new directory: the path of a file is split
    /// by Helm, and the target of a link may have any name.
    fn copy(&self, found: &Path, directory: &Path) -> Result<PathBuf, RenderError> {
        let what = format!("helm.{}[{}]", self.field, self.index);
        let failed = |error: std::io::Error| RenderError::read(what.clone(), error.kind());
        if found.metadata().map_err(failed)?.len() > MAX_VALUES {
            return Err(RenderError::too_large(format!("{what}: larger than {MAX_VALUES} bytes")));
        }
        let plain =
            |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let name = found.file_name().and_then(|name| name.to_str()).filter(plain);
        std::fs::DirBuilder::new().mode(0o700).create(directory).map_err(failed)?;
        let copy = directory.join(name.unwrap_or("values.yaml"));
        let content = std::fs::read(found).map_err(failed)?;
        let pointer = std::str::from_utf8(&content).ok().and_then(lfs_pointer);
        if let Some(pointer) = pointer {
            return Err(self.refused(name.unwrap_or("the file"), &pointer));
        }
        std::fs::write(&copy, content).map_err(failed)?;
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    /// As in Argo CD, a comma is escaped unless it is already, or in a list.
    #[test]
    fn a_parameter_stays_one_value() {
        for (value, want) in
            [("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), (",,", "\\,\\,"), ("", "")]
        {
            assert_eq!(super::one_value(value), want, "{value}");
        }
    }
}
