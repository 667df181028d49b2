//! Sources rendered by other programs: Helm charts and Kustomize.
//!
//! The programs run with the same restrictions as `git`: empty environment, limited time
//! and output, and no value can be read as an option. A field that cannot be passed on
//! safely or faithfully is an error, and never ignored.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::checkout::Checkout;
use super::directory::{Manifest, SourceDirectory};
use super::manifests::{RenderError, Sink};
use super::process::{Failure, Run};
use super::remote::stays_inside;

/// Most entries of a checkout whose links are checked.
const MAX_ENTRIES: usize = 400_000;

/// An unreachable proxy: the discard port of the local machine.
const UNREACHABLE_PROXY: &str = "http://127.0.0.1:9";

/// The programs, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Default `helm`.
    pub helm: PathBuf,
    /// Default `kustomize`.
    pub kustomize: PathBuf,
    /// Time limit of one program. Default 90 s.
    pub timeout: Duration,
    /// Limit on the bytes of rendered manifests. Default 64 MiB.
    pub output_bytes: usize,
    /// Limit on the disk space that one run writes. Default 500 MiB.
    pub disk_bytes: u64,
    /// Whether a kustomization may refer to resources outside its repository, fetched by
    /// https or ssh. Default no.
    pub kustomize_remote: bool,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            helm: "helm".into(),
            kustomize: "kustomize".into(),
            timeout: Duration::from_secs(90),
            output_bytes: 64 << 20,
            disk_bytes: 500 << 20,
            kustomize_remote: false,
        }
    }
}

/// The Application that a source is rendered for.
#[derive(Debug, Clone)]
pub struct RenderFor {
    /// Name of the Application; the release name of a chart unless `helm.releaseName` is set.
    pub application: String,
    /// `destination.namespace`; may be empty.
    pub namespace: String,
    /// The sources with a `ref`, by its value: they may contain values files (SE-034).
    pub references: BTreeMap<String, Arc<Checkout>>,
    /// Limit on the memory of the objects, in bytes.
    pub memory: u64,
}

impl Default for RenderFor {
    fn default() -> Self {
        let memory = super::directory::DEFAULT_MAX_MEMORY;
        let (application, namespace) = (String::new(), String::new());
        Self { application, namespace, references: BTreeMap::new(), memory }
    }
}

impl Programs {
    /// `helm template` of the chart at `source_dir` (the `helm` block of SE-037).
    pub(super) async fn helm(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
    ) -> Result<Vec<Manifest>, RenderError> {
        let scratch = scratch(subject)?;
        let args = helm_arguments(source_dir, source, subject, scratch.path())?;
        let call = Call { program: &self.helm, name: "helm", args, network: false };
        self.run(call, source_dir, subject, scratch.path()).await
    }

    /// `kustomize build` of the directory at `source_dir`.
    pub(super) async fn kustomize(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
    ) -> Result<Vec<Manifest>, RenderError> {
        only_known(source, "kustomize", &[])?;
        if !self.kustomize_remote {
            let source_dir = source_dir.clone();
            let checked = tokio::task::spawn_blocking(move || stays_inside(&source_dir)).await;
            checked.map_err(|error| RenderError::Read {
                file: "kustomization".to_owned(),
                error: error.to_string(),
            })??;
        }
        let scratch = scratch(subject)?;
        let args = vec!["build".into(), "--".into(), source_dir.directory.clone().into()];
        let (program, network) = (&self.kustomize, self.kustomize_remote);
        let call = Call { program, name: "kustomize", args, network };
        self.run(call, source_dir, subject, scratch.path()).await
    }

    async fn run(
        &self,
        call: Call<'_>,
        source_dir: &SourceDirectory,
        subject: &RenderFor,
        scratch: &Path,
    ) -> Result<Vec<Manifest>, RenderError> {
        let Call { program, name, args, network } = call;
        let root = source_dir.root.clone();
        let links = tokio::task::spawn_blocking(move || links_stay_inside(&root)).await;
        let failed = |detail: String| RenderError::Program {
            application: subject.application.clone(),
            program: name.to_owned(),
            // The path of the checkout is internal; the path inside it is the user's.
            detail: subject.references.iter().fold(
                detail.replace(&source_dir.root.display().to_string(), "."),
                |detail, (name, checkout)| {
                    let root = checkout.root().canonicalize();
                    let root = root.unwrap_or_else(|_| checkout.root().to_owned());
                    detail.replace(&root.display().to_string(), &format!("${name}"))
                },
            ),
        };
        links.map_err(|error| failed(error.to_string()))??;
        let path =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut env: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("HOME".into(), scratch.into()),
            ("TMPDIR".into(), scratch.into()),
            ("LC_ALL".into(), "C".into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_ALLOW_PROTOCOL".into(), if network { "https:ssh" } else { "none" }.into()),
        ];
        if !network {
            // No server listens there: programs written in Go use these variables.
            let nowhere = |name: &str| (name.into(), UNREACHABLE_PROXY.into());
            env.extend(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(nowhere));
        }
        let run = Run {
            program,
            args,
            directory: &source_dir.directory,
            env,
            timeout: self.timeout,
            stdout_limit: self.output_bytes,
            disk: Some((scratch.to_owned(), self.disk_bytes)),
            file_limit: Some(self.disk_bytes),
        };
        let output = run.wait().await.map_err(|failure| match failure {
            Failure::Start(error) => RenderError::MissingProgram {
                application: subject.application.clone(),
                program: program.display().to_string(),
                detail: error.to_string(),
            },
            Failure::TimedOut => failed(format!("stopped after {} s", self.timeout.as_secs_f64())),
            Failure::OutputLimit => {
                failed(format!("rendered more than {} bytes", self.output_bytes))
            }
            Failure::DiskLimit => {
                failed(format!("wrote more than {} MiB to disk", self.disk_bytes >> 20))
            }
            Failure::Read(error) => failed(error.to_string()),
        })?;
        if !output.status.success() {
            let said = super::redact(output.stderr.trim());
            return Err(failed(said.chars().take(1000).collect()));
        }
        let text =
            crate::yaml::decode(&output.stdout).map_err(|error| failed(error.to_string()))?;
        let mut sink = Sink::new(subject.memory);
        sink.output(&text, name)?;
        Ok(sink.manifests)
    }
}

/// Program and arguments of a run.
struct Call<'a> {
    program: &'a Path,
    /// Name of the program in messages.
    name: &'static str,
    args: Vec<OsString>,
    /// Whether the program may use the network.
    network: bool,
}

/// A private temporary directory that is removed after the run.
fn scratch(subject: &RenderFor) -> Result<tempfile::TempDir, RenderError> {
    tempfile::tempdir().map_err(|error| RenderError::Read {
        file: format!("temporary directory for application {}", subject.application),
        error: error.kind().to_string(),
    })
}

fn helm_arguments(
    source_dir: &SourceDirectory,
    source: &Value,
    subject: &RenderFor,
    scratch: &Path,
) -> Result<Vec<OsString>, RenderError> {
    let known = [
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
    only_known(source, "helm", &known)?;
    let helm = &source["helm"];
    let text = |field: &str| helm[field].as_str().filter(|text| !text.is_empty());
    let switch = |field: &str| helm[field].as_bool().unwrap_or(false);
    // Each value is joined to its option, so that it cannot be read as an option.
    let release = text("releaseName").unwrap_or(&subject.application);
    let mut args = vec!["template".to_owned(), ".".into(), format!("--name-template={release}")];
    let namespace = text("namespace").unwrap_or(&subject.namespace);
    if !namespace.is_empty() {
        args.push(format!("--namespace={namespace}"));
    }
    args.extend(text("kubeVersion").map(|version| format!("--kube-version={version}")));
    for version in helm["apiVersions"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        args.push(format!("--api-versions={version}"));
    }
    for file in helm["valueFiles"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let ignore_missing = switch("ignoreMissingValueFiles");
        if let Some(path) = value_file(source_dir, file, &subject.references, ignore_missing)? {
            args.push(format!("--values={}", path.display()));
        }
    }
    let inline = match &helm["valuesObject"] {
        Value::Null => text("values").map(str::to_owned),
        // JSON is YAML.
        values => Some(values.to_string()),
    };
    if let Some(values) = inline {
        let path = scratch.join("values.yaml");
        std::fs::write(&path, values).map_err(|error| RenderError::Read {
            file: "helm.values".into(),
            error: error.kind().to_string(),
        })?;
        args.push(format!("--values={}", path.display()));
    }
    for parameter in helm["parameters"].as_array().into_iter().flatten() {
        let part = |field: &str| parameter[field].as_str().unwrap_or_default();
        let option = match parameter["forceString"].as_bool() {
            Some(true) => "--set-string",
            _ => "--set",
        };
        // A comma would separate parameters.
        args.push(format!("{option}={}={}", part("name"), part("value").replace(',', "\\,")));
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
    Ok(args.into_iter().map(OsString::from).collect())
}

/// A values file: relative to the chart, with a leading slash relative to the repository
/// root, or as `$ref/…` relative to the root of another source (SE-034).
fn value_file(
    source_dir: &SourceDirectory,
    file: &str,
    references: &BTreeMap<String, Arc<Checkout>>,
    ignore_missing: bool,
) -> Result<Option<PathBuf>, RenderError> {
    let refused = |why: &str| {
        let reason = format!("helm.valueFiles: {file}: {why}");
        Err(RenderError::Source { reason: super::redact(&reason) })
    };
    if file.contains("://") {
        return refused("only files of the Application's sources are supported");
    }
    // Helm splits lists of files at these characters.
    if file.contains([',', '"']) {
        return refused("the name must not contain ',' or '\"'");
    }
    let (root, path) = match file.strip_prefix('$') {
        Some(reference) => {
            let (name, path) = reference.split_once('/').unwrap_or((reference, ""));
            let Some(checkout) = references.get(name) else {
                return refused(&format!("no source has the ref {name}"));
            };
            let root = checkout.root().canonicalize().map_err(|error| RenderError::Read {
                file: format!("${name}"),
                error: error.kind().to_string(),
            })?;
            let path = root.join(path.trim_start_matches('/'));
            (root, path)
        }
        None => {
            let root = source_dir.root.clone();
            let path = match file.strip_prefix('/') {
                Some(from_root) => root.join(from_root.trim_start_matches('/')),
                None => source_dir.directory.join(file),
            };
            (root, path)
        }
    };
    match path.canonicalize() {
        Ok(path) if path.starts_with(&root) => Ok(Some(path)),
        Ok(_) => Err(RenderError::OutsidePath { path: file.to_owned() }),
        Err(_) if ignore_missing => Ok(None),
        Err(_) => Err(RenderError::MissingPath { path: file.to_owned() }),
    }
}

/// Rejects fields of a block that would be ignored.
fn only_known(source: &Value, block: &str, known: &[&str]) -> Result<(), RenderError> {
    let fields = source[block].as_object().into_iter().flatten();
    match fields.map(|(field, _)| field).find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            let reason = format!(
                "{block}.{field} is not supported by the embedded engine; move it into the repository"
            );
            Err(RenderError::Source { reason })
        }
    }
}

/// Checks all links of a checkout, since other programs follow them.
fn links_stay_inside(root: &Path) -> Result<(), RenderError> {
    let mut open = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        let shown = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let failed = |error: std::io::Error| RenderError::Read {
            file: shown(&directory),
            error: error.to_string(),
        };
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            seen += 1;
            if seen > MAX_ENTRIES {
                let what = format!("the repository has more than {MAX_ENTRIES} files");
                return Err(RenderError::TooLarge { what });
            }
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_symlink() {
                // A dangling link could leave the checkout once its target exists.
                let inside = match entry.path().canonicalize() {
                    Ok(target) => target.starts_with(root),
                    Err(_) => !super::directory::points_outside(&entry.path(), root),
                };
                if !inside {
                    return Err(RenderError::LinkOutside { file: shown(&entry.path()) });
                }
            }
        }
    }
    Ok(())
}
