//! Sources rendered by other programs: Helm charts and Kustomize.
//!
//! The programs run with the same restrictions as `git`: empty environment, limited time
//! and output, and no value can be read as an option. A field that cannot be passed on
//! safely or faithfully is an error, and never ignored.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cache::private_directory;
use crate::directory::source_directory::SourceDirectory;
use crate::git::lfs;
use crate::helm::chart;
use crate::helm::dependencies;
use crate::helm::errors;
use crate::helm::template;
use crate::kustomize::build;
use crate::kustomize::remote::Referring;
use crate::process::run::{Failure, Run, search_path};
use crate::process::tools::Programs;
use crate::render::build_environment::BuildEnvironment;
use crate::render::checked::{blocking, links_stay_inside};
use crate::render::manifest::{Manifest, RenderError, Sink};
use crate::render::mirror::{self, Content};
use crate::render::render_for::RenderFor;

/// An unreachable proxy: the discard port of the local machine.
const UNREACHABLE_PROXY: &str = "http://127.0.0.1:9";

impl Programs {
    /// `helm template` of the chart at `source_dir` (the `helm` block of SE-037) at a
    /// revision, with its dependencies.
    pub(crate) async fn helm(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
        revision: &str,
    ) -> Result<Vec<Manifest>, RenderError> {
        let copy = dependencies::built(self, source_dir, source, subject, false).await?;
        let chart = copy.as_ref().map_or(source_dir, |copy| &copy.source_dir);
        let rendered = self.template(chart, source, subject, revision).await;
        let is_incomplete = matches!(rendered, Err(RenderError::MissingDependencies { .. }));
        if !is_incomplete || copy.is_some() || subject.charts.is_none() {
            return rendered;
        }
        // An archive is not what its name says.
        match dependencies::built(self, source_dir, source, subject, true).await? {
            Some(copy) => self.template(&copy.source_dir, source, subject, revision).await,
            None => rendered,
        }
    }

    async fn template(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
        revision: &str,
    ) -> Result<Vec<Manifest>, RenderError> {
        let scratch = scratch(source_dir, subject)?;
        let environment = BuildEnvironment::new(subject, source, revision);
        let prepare = {
            let (source_dir, source, subject) =
                (source_dir.clone(), source.clone(), subject.clone());
            let (path, schemes) = (scratch.path().to_owned(), self.values_file_schemes.clone());
            move || template::prepare(&source_dir, &source, &subject, &environment, &schemes, &path)
        };
        let template::Prepared { args, shown, network } = blocking("chart", prepare).await?;
        let call = Call { program: &self.helm, name: "helm", args, shown, network };
        self.run(call, source_dir, subject, scratch.path()).await
    }

    /// `kustomize build` of the directory at `source_dir` (the `kustomize` block of SE-037).
    pub(crate) async fn kustomize(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
        revision: &str,
    ) -> Result<Vec<Manifest>, RenderError> {
        let environment = BuildEnvironment::new(subject, source, revision);
        let prepare = {
            let (source_dir, source, subject) =
                (source_dir.clone(), source.clone(), subject.clone());
            let (options, limit) = (self.kustomize_options.clone(), self.disk_bytes);
            let remote = self.kustomize_remote;
            move || {
                let made =
                    build::prepare(&source_dir, &source, &subject, &environment, &options, limit)?;
                if remote {
                    return Ok(made);
                }
                let edited = made.mirror.as_ref().map(|copy| &copy.source_dir);
                let referring = Referring::read(edited.unwrap_or(&source_dir))?;
                let copy = match made.mirror {
                    Some(copy) => copy,
                    None => mirror::mirror(&source_dir, Content::Shared, limit)?,
                };
                referring.write(&copy.source_dir.root).map_err(|error| {
                    RenderError::read("copy of the kustomization", error.kind())
                })?;
                Ok(build::Prepared { mirror: Some(copy), ..made })
            }
        };
        let made = blocking("kustomization", prepare).await?;
        let source_dir = made.mirror.as_ref().map_or(source_dir, |copy| &copy.source_dir);
        let scratch = scratch(source_dir, subject)?;
        let mut options: Vec<OsString> = made.options.iter().map(Into::into).collect();
        if made.helm {
            let mut helm = OsString::from("--helm-command=");
            helm.push(&self.helm);
            options.push(helm);
        }
        let directory = OsString::from(&source_dir.directory);
        let network = self.kustomize_remote;
        let call = |program, mut args: Vec<OsString>| {
            args.push(directory.clone());
            args.extend(options.clone());
            Call { program, name: "kustomize", args, shown: Vec::new(), network }
        };
        let own = made.program.as_deref().unwrap_or(&self.kustomize);
        let built = self.run(call(own, vec!["build".into()]), source_dir, subject, scratch.path());
        match built.await {
            Err(RenderError::MissingProgram { .. })
                if made.program.is_none() && self.kustomize == Path::new("kustomize") =>
            {
                let call = call(&self.kubectl, vec!["kustomize".into()]);
                let built = self.run(call, source_dir, subject, scratch.path()).await;
                built.map_err(|error| match error {
                    RenderError::MissingProgram { application, detail, .. } => {
                        let program = "kustomize (or kubectl)".to_owned();
                        RenderError::MissingProgram { application, program, detail }
                    }
                    other => other,
                })
            }
            built => built,
        }
    }

    /// What a program renders. Where it does not understand its files, pointers of Git LFS are
    /// named, since it does not know them.
    async fn run(
        &self,
        call: Call<'_>,
        source_dir: &SourceDirectory,
        subject: &RenderFor,
        scratch: &Path,
    ) -> Result<Vec<Manifest>, RenderError> {
        let name = call.name;
        let ended = self.rendered(call, source_dir, subject, scratch).await;
        let Err(error @ (RenderError::Program { .. } | RenderError::Unreadable { .. })) = ended
        else {
            return ended;
        };
        let place = source_dir.clone();
        let hint = blocking(name, move || Ok(lfs::hint(&place))).await?;
        Err(match (error, hint) {
            (RenderError::Program { application, program, detail, transient }, Some(hint)) => {
                let detail = format!("{}; {hint}", detail.trim_end());
                RenderError::Program { application, program, detail, transient }
            }
            (RenderError::Unreadable { file, reason }, Some(hint)) => {
                RenderError::unreadable(file, format!("{reason}; {hint}"))
            }
            (error, _) => error,
        })
    }

    async fn rendered(
        &self,
        call: Call<'_>,
        source_dir: &SourceDirectory,
        subject: &RenderFor,
        scratch: &Path,
    ) -> Result<Vec<Manifest>, RenderError> {
        let Call { program, name, args, shown, network } = call;
        let root = source_dir.root.clone();
        blocking(name, move || links_stay_inside(&root)).await?;
        // The path of a checkout is internal; the path inside it is the user's.
        let public = |detail: String| {
            let detail = shown.iter().fold(detail, |detail, (path, name)| {
                detail.replace(&path.display().to_string(), name)
            });
            let detail = detail.replace(&source_dir.root.display().to_string(), ".");
            let detail = subject.references.iter().fold(detail, |detail, (name, checkout)| {
                let root = checkout.root().canonicalize();
                let root = root.unwrap_or_else(|_| checkout.root().to_owned());
                detail.replace(&root.display().to_string(), &format!("${name}"))
            });
            detail.replace(&scratch.display().to_string(), "(temporary directory)")
        };
        let failed_for = |transient: bool, detail: String| RenderError::Program {
            application: subject.application.clone(),
            program: name.to_owned(),
            detail: public(detail),
            transient,
        };
        let failed = |detail: String| failed_for(false, detail);
        let given = self.environment.iter().filter(|_| network);
        let mut env: Vec<(OsString, OsString)> =
            given.map(|(key, value)| (key.into(), value.into())).collect();
        let own: [(OsString, OsString); 8] = [
            ("PATH".into(), search_path()),
            ("HOME".into(), scratch.into()),
            ("TMPDIR".into(), scratch.into()),
            ("LC_ALL".into(), "C".into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_ALLOW_PROTOCOL".into(), if network { "https:ssh" } else { "none" }.into()),
        ];
        env.extend(own);
        if !network {
            // No server listens there: programs written in Go use these variables.
            let nowhere = |name: &str| (name.into(), UNREACHABLE_PROXY.into());
            env.extend(["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(nowhere));
        }
        let mut read = vec![source_dir.root.clone()];
        if name == "kustomize" && self.helm.is_absolute() {
            // It inflates charts.
            read.push(self.helm.clone());
        }
        for checkout in subject.references.values() {
            // A link of the cache directory is resolved.
            read.extend(checkout.root().canonicalize());
        }
        let write = vec![scratch.canonicalize().unwrap_or_else(|_| scratch.to_owned())];
        let policy = self.policy(read, write, network);
        let run = Run {
            program,
            args,
            directory: &source_dir.directory,
            env,
            timeout: self.timeout,
            stdout_limit: self.output_bytes,
            disk: Some((scratch.to_owned(), self.disk_bytes)),
            policy,
            helper: self.helper.clone(),
        };
        let ended = match network {
            true => subject.network.other(run.wait()).await,
            false => subject.network.program(run).await,
        };
        let output = ended.map_err(|failure| match failure {
            Failure::Start(error) => RenderError::MissingProgram {
                application: subject.application.clone(),
                program: program.display().to_string(),
                detail: error.to_string(),
            },
            // A server that does not answer is the usual reason.
            Failure::TimedOut => {
                failed_for(network, format!("stopped after {} s", self.timeout.as_secs_f64()))
            }
            Failure::OutputLimit => {
                failed(format!("rendered more than {} bytes", self.output_bytes))
            }
            Failure::DiskLimit => {
                failed(format!("wrote more than {} MiB to disk", self.disk_bytes >> 20))
            }
            Failure::CpuLimit => failed("stopped, since it used too much CPU time".to_owned()),
            Failure::Read(error) => failed_for(true, error.to_string()),
        })?;
        if !output.status.success() {
            if let Some(error) = chart::missing_by_helm(source_dir, subject, &output.stderr) {
                return Err(error);
            }
            let mut said = crate::redact_urls(errors::cause(&output.stderr));
            if let Some(signal) = output.status.signal() {
                said = format!("ended by signal {signal} {said}");
            }
            if said.contains("out of memory") || said.contains("cannot allocate memory") {
                said = format!("needs more than {} MiB of memory: {said}", self.memory_bytes >> 20);
            }
            let is_away = network && errors::is_away(errors::cause(&output.stderr));
            return Err(failed_for(is_away, said.chars().take(1000).collect()));
        }
        let text = wavegate_api::yaml::decode_text(&output.stdout)
            .map_err(|error| failed(error.to_string()))?;
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
    /// Paths of files, with the name that users know.
    shown: Vec<(PathBuf, String)>,
    /// Whether the program may use the network.
    network: bool,
}

/// A private temporary directory that is removed after the run.
fn scratch(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
) -> Result<tempfile::TempDir, RenderError> {
    private_directory("render-", &source_dir.temporary).map_err(|error| {
        let file = format!("temporary directory for application {}", subject.application);
        RenderError::read(file, error.kind())
    })
}
