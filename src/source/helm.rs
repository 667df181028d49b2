//! The arguments of `helm template` (the `helm` block of SE-037), and the checks of a chart
//! before it runs. Blocking.
//!
//! No name that a user or a repository chose becomes part of an argument that Helm splits
//! or resolves: values files are copied to a private directory under names of our own.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::build_environment::BuildEnvironment;
use super::chart;
use super::directory::SourceDirectory;
use super::kind::only_known;
use super::manifests::RenderError;
use super::render_for::RenderFor;

/// Fields of the `helm` block that are passed on.
const KNOWN: [&str; 13] = [
    "releaseName",
    "namespace",
    "kubeVersion",
    "apiVersions",
    "valueFiles",
    "ignoreMissingValueFiles",
    "values",
    "valuesObject",
    "parameters",
    "skipCrds",
    "skipTests",
    "skipSchemaValidation",
    "version",
];

/// Largest values file, in bytes.
const MAX_VALUES: u64 = 16 << 20;

/// What `helm` is called with.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The arguments.
    pub args: Vec<OsString>,
    /// Paths of copies, with the name that users know.
    pub shown: Vec<(PathBuf, String)>,
}

/// Checks the chart and prepares the call of `helm template`.
pub(super) fn prepare(
    source_dir: &SourceDirectory,
    source: &Value,
    subject: &RenderFor,
    environment: &BuildEnvironment,
    scratch: &Path,
) -> Result<Prepared, RenderError> {
    only_known(source, "helm", &KNOWN)?;
    let helm = &source["helm"];
    let text = |field: &str| helm[field].as_str().filter(|text| !text.is_empty());
    let list = |field: &str| helm[field].as_array().into_iter().flatten().filter_map(Value::as_str);
    let switch = |field: &str| helm[field].as_bool().unwrap_or(false);
    chart::check_dependencies(source_dir, subject)?;
    chart::check_links(source_dir)?;
    if !switch("skipSchemaValidation") {
        chart::check_schemas(source_dir)?;
    }
    // Each value is joined to its option, so that it cannot be read as an option.
    let release = text("releaseName").unwrap_or(&subject.application);
    let mut args = vec!["template".to_owned(), ".".into(), format!("--name-template={release}")];
    let namespace = text("namespace").unwrap_or(&subject.namespace);
    if !namespace.is_empty() {
        args.push(format!("--namespace={namespace}"));
    }
    let cluster = subject.cluster.as_ref();
    let version = text("kubeVersion").or(cluster.map(|cluster| cluster.kube_version.as_str()));
    args.extend(version.map(|version| format!("--kube-version={version}")));
    let mut api_versions: Vec<&str> = list("apiVersions").collect();
    if api_versions.is_empty() {
        let known = cluster.map(|cluster| &cluster.api_versions[..]).unwrap_or_default();
        api_versions = known.iter().map(String::as_str).collect();
    }
    args.extend(api_versions.iter().map(|version| format!("--api-versions={version}")));
    let mut shown = Vec::new();
    for (index, file) in list("valueFiles").enumerate() {
        let named = Named { source_dir, subject, environment, index };
        let Some(found) = named.value_file(file, switch("ignoreMissingValueFiles"))? else {
            continue;
        };
        let copy = named.copy(&found, scratch)?;
        args.push(format!("--values={}", copy.display()));
        shown.push((copy, named.shown(file)));
    }
    let inline = match &helm["valuesObject"] {
        Value::Null => text("values").map(|values| environment.expand_known(values)),
        // JSON is YAML.
        values => Some(environment.expand_in(values).to_string()),
    };
    if let Some(values) = inline {
        let path = scratch.join("values.yaml");
        std::fs::write(&path, values).map_err(|error| RenderError::Read {
            file: "helm.values".into(),
            error: error.kind().to_string(),
        })?;
        args.push(format!("--values={}", path.display()));
        shown.push((path, "helm.values".to_owned()));
    }
    for parameter in helm["parameters"].as_array().into_iter().flatten() {
        let part = |field: &str| parameter[field].as_str().unwrap_or_default();
        let option = match parameter["forceString"].as_bool() {
            Some(true) => "--set-string",
            _ => "--set",
        };
        let value = environment.expand(part("value"));
        args.push(format!("{option}={}={}", part("name"), one_value(&value)));
    }
    if !switch("skipCrds") {
        args.push("--include-crds".into());
    }
    for (field, option) in
        [("skipTests", "--skip-tests"), ("skipSchemaValidation", "--skip-schema-validation")]
    {
        if switch(field) {
            args.push(option.into());
        }
    }
    if scratch.to_string_lossy().contains([',', '"', '\n']) {
        // Helm would split it.
        return Err(RenderError::Read {
            file: "temporary directory".into(),
            error: "its path must not contain commas, quotes or line breaks; set TMPDIR".into(),
        });
    }
    Ok(Prepared { args: args.into_iter().map(OsString::from).collect(), shown })
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

/// One entry of `valueFiles`.
struct Named<'a> {
    source_dir: &'a SourceDirectory,
    subject: &'a RenderFor,
    environment: &'a BuildEnvironment,
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
        super::redact(&whole)
    }

    fn refused(&self, file: &str, why: &str) -> RenderError {
        let reason = format!("helm.valueFiles[{}]: {file}: {why}", self.index);
        RenderError::Source { reason: super::redact(&reason) }
    }

    /// A values file: relative to the chart, with a leading slash relative to the repository
    /// root, or as `$ref/…` relative to the root of another source (SE-034).
    fn value_file(&self, file: &str, ignore_missing: bool) -> Result<Option<PathBuf>, RenderError> {
        let after = file.strip_prefix('$').unwrap_or_default();
        let (name, path) = after.split_once('/').unwrap_or((after, ""));
        // The name of a source comes before the one of a variable.
        let is_reference = file.starts_with('$')
            && (self.subject.references.contains_key(name) || !self.environment.begins(after));
        let reference = is_reference.then_some((name, path));
        let (root, path, written) = match reference {
            Some((name, path)) => {
                let Some(checkout) = self.subject.references.get(name) else {
                    return Err(self.refused(file, &format!("no source has the ref {name}")));
                };
                let root = checkout.root().canonicalize().map_err(|error| RenderError::Read {
                    file: format!("${name}"),
                    error: error.kind().to_string(),
                })?;
                let path = self.environment.expand(path);
                (root.clone(), root.join(path.trim_start_matches('/')), format!("${name}/{path}"))
            }
            None => {
                let written = self.environment.expand(file);
                let root = self.source_dir.root.clone();
                let path = match written.strip_prefix('/') {
                    Some(from_root) => root.join(from_root.trim_start_matches('/')),
                    None => self.source_dir.directory.join(&written),
                };
                (root, path, written)
            }
        };
        if written.contains("://") {
            return Err(
                self.refused(&written, "only files of the Application's sources are supported")
            );
        }
        // Helm splits lists of files at commas, and reads quotes and lines as CSV.
        if written.contains([',', '"']) || written.contains(char::is_control) {
            let why = "the name must not contain ',', '\"' or control characters";
            return Err(self.refused(&written.escape_debug().to_string(), why));
        }
        match path.canonicalize() {
            Ok(path) if !path.starts_with(&root) => Err(RenderError::OutsidePath { path: written }),
            Ok(path) if !path.is_file() => Err(self.refused(&written, "is not a file")),
            Ok(path) => Ok(Some(path)),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.refused(&written, &error.kind().to_string()))
            }
            // A dangling link is a mistake, not a file that may be absent.
            Err(_) if chart::leads_through_link(&path, &root) => {
                Err(RenderError::DanglingLink { file: self.shown(&written) })
            }
            Err(_) if ignore_missing => Ok(None),
            Err(_) => Err(RenderError::MissingValues {
                application: self.subject.application.clone(),
                index: self.index,
                file: self.shown(&written),
            }),
        }
    }

    /// Copies a file under a name of our own: the path of a file is split by Helm, and the
    /// target of a link may have any name.
    fn copy(&self, found: &Path, scratch: &Path) -> Result<PathBuf, RenderError> {
        let failed = |error: std::io::Error| RenderError::Read {
            file: format!("helm.valueFiles[{}]", self.index),
            error: error.kind().to_string(),
        };
        if found.metadata().map_err(failed)?.len() > MAX_VALUES {
            let what = format!("helm.valueFiles[{}]: larger than {MAX_VALUES} bytes", self.index);
            return Err(RenderError::TooLarge { what });
        }
        let plain =
            |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        let name = found.file_name().and_then(|name| name.to_str()).filter(plain);
        let directory = scratch.join(format!("values-{}", self.index));
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let copy = directory.join(name.unwrap_or("values.yaml"));
        let content = std::fs::read(found).map_err(failed)?;
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
