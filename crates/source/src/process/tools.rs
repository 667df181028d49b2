//! The programs that render sources, their options and their limits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::plugin::settings::PluginSettings;
use crate::render::manifest::RenderError;
use wavegate_sandbox::{Confinement, SandboxPolicy};

/// The programs, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// Default `helm`.
    pub helm: PathBuf,
    /// Default `kustomize`.
    pub kustomize: PathBuf,
    /// Runs `kubectl kustomize` where `kustomize` is not installed. Default `kubectl`.
    pub kubectl: PathBuf,
    /// Options and versions of Kustomize. Default none.
    pub kustomize_options: BuildOptions,
    /// Time limit of one program. Default 90 s.
    pub timeout: Duration,
    /// Limit on the bytes of rendered manifests. Default 64 MiB.
    pub output_bytes: usize,
    /// Limit on the disk space that one run writes. Default 500 MiB.
    pub disk_bytes: u64,
    /// Limit on the memory of each process, in bytes. Default 2 GiB.
    pub memory_bytes: u64,
    /// Runs of `helm` and `kustomize` at once; 0 is no limit. Default 8.
    pub parallel: usize,
    /// The memory of all of them, in bytes: while those that run have more, no other one is
    /// started. Default 2 GiB.
    pub memory_together: u64,
    /// Whether the programs are confined to the files of their source.
    pub confinement: Confinement,
    /// The program that confines them: this one, with [`wavegate_sandbox::enable_worker`].
    pub helper: Option<PathBuf>,
    /// Whether a kustomization may refer to resources outside its repository, fetched by
    /// https or ssh. Default no.
    pub kustomize_remote: bool,
    /// Schemes of URLs in `helm.valueFiles` (`helm.valuesFileSchemes`), in lower case: these
    /// files are fetched by Helm. Default none.
    pub values_file_schemes: Vec<String>,
    /// Variables for programs that use the network, such as `HTTPS_PROXY`. They do not override
    /// ours. Default none: the environment of this process is not passed on.
    pub environment: BTreeMap<String, String>,
    /// Whether dependencies of charts may come from `http://` URLs. Default no.
    pub allow_http: bool,
    /// Config management plugins.
    pub plugins: PluginSettings,
}

impl Programs {
    /// What a program may do that writes these folders only.
    pub(crate) fn policy(
        &self,
        read: Vec<PathBuf>,
        write: Vec<PathBuf>,
        network: bool,
    ) -> SandboxPolicy {
        SandboxPolicy {
            read,
            write,
            network,
            confinement: self.confinement,
            memory: self.memory_bytes,
            cpu_seconds: self.timeout.as_secs().saturating_mul(2).max(1),
            file_bytes: self.disk_bytes,
        }
    }
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            helm: "helm".into(),
            kustomize: "kustomize".into(),
            kubectl: "kubectl".into(),
            kustomize_options: BuildOptions::default(),
            timeout: Duration::from_secs(90),
            output_bytes: 64 << 20,
            disk_bytes: 500 << 20,
            memory_bytes: 2 << 30,
            parallel: 8,
            memory_together: 2 << 30,
            confinement: Confinement::default(),
            helper: wavegate_sandbox::helper_path(),
            kustomize_remote: false,
            values_file_schemes: Vec::new(),
            environment: BTreeMap::new(),
            allow_http: false,
            plugins: PluginSettings::default(),
        }
    }
}

/// Options of a build that administrators set, as in `kustomize.buildOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// Options for all versions (`kustomize.buildOptions`).
    pub default: String,
    /// Options by version (`kustomize.buildOptions.VERSION`).
    pub by_version: BTreeMap<String, String>,
    /// Programs by version (`kustomize.path.VERSION` or `kustomize.version.VERSION`), or why
    /// there is none.
    pub paths: BTreeMap<String, Result<PathBuf, String>>,
}

impl BuildOptions {
    /// Whether a build may inflate charts, which ask for the version and kinds of the
    /// destination.
    pub fn inflates_charts(&self) -> bool {
        let all = self.by_version.values().chain([&self.default]);
        all.into_iter().any(|options| options.contains("--enable-helm"))
    }

    /// Options and program of a version; an empty one is the default.
    pub(crate) fn of(&self, version: &str) -> Result<(Option<PathBuf>, &str), RenderError> {
        if version.is_empty() {
            return Ok((None, &self.default));
        }
        let Some(path) = self.paths.get(version) else {
            let reason = format!(
                "kustomize.version: kustomize version {version} is not registered; set \
                 kustomize.path.{version} in ConfigMap argocd-cm to the path of the program, or \
                 remove the version"
            );
            return Err(RenderError::source(reason));
        };
        let path = path
            .as_ref()
            .map_err(|why| RenderError::source(format!("kustomize.version: {why}")))?;
        let options = self.by_version.get(version).unwrap_or(&self.default);
        Ok((Some(path.clone()), options))
    }
}
