//! Runs `helm` to read chart repositories and registries: indexes, charts, dependencies.
//!
//! Each call has its own home with the credentials of the repositories that it needs, in
//! files with mode 0600, and no plugins. It may use the network, and write only to its home
//! and to the directory of its result.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::cache::{private_directory, write_private};
use crate::error::SourceError;
use crate::helm::chart_address::ChartAddress;
use crate::helm::errors::{classified, reason};
use crate::http::credentials::RepoCredentials;
use crate::process::run::{Failure, Run, search_path};
use crate::process::tools::Programs;
use wavegate_api::read_leniently;

/// Limit on the output of one call.
const OUTPUT: usize = 32 << 20;

/// Longest part of the output of `helm` in an error, in characters.
const DETAIL: usize = 600;

/// Under which Helm looks up the login of Docker Hub, as `helm registry login` writes it.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// Hosts of Docker Hub.
const DOCKER_HUB_HOSTS: [&str; 3] = ["registry-1.docker.io", "docker.io", "index.docker.io"];

/// A repository with the credentials for it.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    /// The repository.
    pub address: ChartAddress,
    /// The name that it has in this call.
    pub name: String,
    /// Its credentials.
    pub credentials: RepoCredentials,
    /// Whether they are also sent to other hosts that its index names
    /// (`helm.passCredentials`).
    pub pass_credentials: bool,
}

/// The program with its environment.
#[derive(Debug)]
pub(crate) struct HelmClient<'a> {
    /// The program and its limits.
    pub programs: &'a Programs,
    /// Variables such as `HTTPS_PROXY`.
    pub environment: &'a BTreeMap<String, String>,
}

/// The home of some calls.
#[derive(Debug)]
pub(crate) struct Home {
    directory: tempfile::TempDir,
    logins: Vec<Login>,
}

impl Home {
    /// Creates a home below `parent`.
    pub(crate) fn new(parent: &Path, logins: Vec<Login>) -> Result<Self, SourceError> {
        let repo = logins.first().map(|login| login.address.shown.clone()).unwrap_or_default();
        let write = || -> std::io::Result<tempfile::TempDir> {
            let directory = private_directory("helm-", parent)?;
            let file = |name: &str, text: &str| -> std::io::Result<PathBuf> {
                let path = directory.path().join(name);
                write_private(&path, text, 0o600).map(|()| path)
            };
            let (mut repositories, mut auths) = (Vec::new(), Map::new());
            for (index, login) in logins.iter().enumerate() {
                let own = &login.credentials;
                let mut entry = json!({
                    "name": login.name,
                    "url": login.address.url,
                    "username": own.username,
                    "password": own.password,
                    "pass_credentials_all": login.pass_credentials,
                    "insecure_skip_tls_verify": own.insecure_skip_server_verification,
                });
                for (text, field, name) in [
                    (&own.ca_certificates, "caFile", "ca.pem"),
                    (&own.client_certificate, "certFile", "client.pem"),
                    (&own.client_key, "keyFile", "client.key"),
                ] {
                    if !text.is_empty() {
                        let path = file(&format!("{index}-{name}"), text)?;
                        entry[field] = path.display().to_string().into();
                    }
                }
                if !login.address.oci {
                    repositories.push(entry);
                } else if !own.username.is_empty() || !own.password.is_empty() {
                    let pair = format!("{}:{}", own.username, own.password);
                    let auth = base64::engine::general_purpose::STANDARD.encode(pair);
                    auths.insert(registry_key(&login.address.host).into(), json!({"auth": auth}));
                }
            }
            // JSON is YAML.
            let all = json!({"apiVersion": "", "repositories": repositories});
            file("repositories.yaml", &all.to_string())?;
            file("registry.json", &json!({"auths": auths}).to_string())?;
            for name in ["cache", "data", "plugins", "tmp"] {
                std::fs::create_dir(directory.path().join(name))?;
            }
            Ok(directory)
        };
        let made = write()
            .map_err(|error| SourceError::cache(repo, "write the files for helm", error.kind()));
        Ok(Self { directory: made?, logins })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Options for a registry, whose certificates are no part of a file.
    fn registry_options(&self) -> Vec<OsString> {
        let mut options = Vec::new();
        let Some((index, login)) = self.logins.iter().enumerate().find(|(_, l)| l.address.oci)
        else {
            return options;
        };
        let own = &login.credentials;
        for (text, option, name) in [
            (&own.ca_certificates, "--ca-file", "ca.pem"),
            (&own.client_certificate, "--cert-file", "client.pem"),
            (&own.client_key, "--key-file", "client.key"),
        ] {
            if !text.is_empty() {
                options.push(option.into());
                options.push(self.path(&format!("{index}-{name}")).into());
            }
        }
        if own.insecure_skip_server_verification {
            options.push("--insecure-skip-tls-verify".into());
        }
        if own.plain_http {
            options.push("--plain-http".into());
        }
        options
    }
}

/// A chart, as `helm search repo` and `Chart.yaml` have it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ChartEntry {
    name: String,
    version: String,
}

impl HelmClient<'_> {
    /// All versions of a chart, as the repository lists them.
    pub(crate) async fn versions(
        &self,
        home: &Home,
        chart: &str,
    ) -> Result<Vec<String>, SourceError> {
        let login = one(home)?;
        self.update(home).await?;
        let name = format!("{}/{chart}", login.name);
        let args = ["search", "repo", &name, "--versions", "--devel", "--output=json"];
        let out = self
            .run(home, Call { what: "helm search repo", args: &args, ..Call::default() })
            .await?;
        let found = serde_json::from_slice::<Vec<ChartEntry>>(&out).unwrap_or_default();
        let same = found.into_iter().filter(|entry| entry.name == name);
        let versions: Vec<String> = same.map(|entry| entry.version).collect();
        match versions.is_empty() {
            true => Err(SourceError::missing_repository(
                &login.address.shown,
                format!("the repository has no chart {chart:?}"),
            )),
            false => Ok(versions),
        }
    }

    /// The newest version of a chart of a registry that is in a range.
    pub(crate) async fn newest(
        &self,
        home: &Home,
        chart: &str,
        range: &str,
    ) -> Result<String, SourceError> {
        let login = one(home)?;
        let reference = format!("{}/{chart}", login.address.url);
        let version = format!("--version={range}");
        let args = ["show", "chart", &reference, &version];
        let options = home.registry_options();
        let call = Call { what: "helm show chart", args: &args, options, ..Call::default() };
        let out = self.run(home, call).await?;
        let text = String::from_utf8_lossy(&out);
        let documents = wavegate_api::yaml::parse_documents(&text).unwrap_or_default();
        let chart_yaml = documents.first().map(|document| read_leniently(&document.value));
        let ChartEntry { version, .. } = chart_yaml.unwrap_or_default();
        Some(version).filter(|version| !version.is_empty()).ok_or_else(|| {
            SourceError::missing_revision(
                &login.address.shown,
                range,
                format!("chart {chart} has no version"),
            )
        })
    }

    /// Downloads a version of a chart and unpacks it below `directory`, which exists.
    pub(crate) async fn pull(
        &self,
        home: &Home,
        (chart, version): (&str, &str),
        directory: &Path,
    ) -> Result<(), SourceError> {
        let login = one(home)?;
        let reference = match login.address.oci {
            true => format!("{}/{chart}", login.address.url),
            false => {
                self.update(home).await?;
                format!("{}/{chart}", login.name)
            }
        };
        let version = format!("--version={version}");
        let args = ["pull", &reference, &version, "--untar"];
        let mut options = home.registry_options();
        options.push("--untardir".into());
        options.push(directory.into());
        let writes = Some(directory);
        let call = Call { what: "helm pull", args: &args, options, writes, reads: None };
        self.run(home, call).await.map(drop)
    }

    /// Fetches the dependencies of the chart in `directory` into it; those by their path are
    /// below `root`.
    pub(crate) async fn build(
        &self,
        home: &Home,
        root: &Path,
        directory: &Path,
    ) -> Result<(), SourceError> {
        let args = ["dependency", "build", "."];
        let call = Call {
            what: "helm dependency build",
            args: &args,
            options: home.registry_options(),
            writes: Some(directory),
            reads: Some(root),
        };
        self.run(home, call).await.map(drop)
    }

    /// Fetches the index of the repository.
    async fn update(&self, home: &Home) -> Result<(), SourceError> {
        let what = "helm repo update";
        let call = Call { what, args: &["repo", "update"], ..Call::default() };
        let out = self.run(home, call).await?;
        // Helm 3 succeeds without it.
        let said = String::from_utf8_lossy(&out);
        match said.find("Unable to get an update") {
            None => Ok(()),
            Some(at) => Err(self.failure(home, what, &said[at..], None)),
        }
    }

    async fn run(&self, home: &Home, call: Call<'_>) -> Result<Vec<u8>, SourceError> {
        let Call { what, args, options, writes, reads } = call;
        let programs = self.programs;
        let repo = || home.logins.first().map(|l| l.address.shown.clone()).unwrap_or_default();
        let root = home.directory.path().canonicalize();
        let root = root.unwrap_or_else(|_| home.directory.path().to_owned());
        let mut all: Vec<OsString> = args.iter().map(Into::into).collect();
        all.extend(options);
        // A proxy of a repository takes the place of that of this process, and of its exceptions.
        let has_own = home.logins.iter().any(|login| !login.credentials.proxy.is_empty());
        let is_proxy = |name: &str| name.to_ascii_uppercase().ends_with("_PROXY");
        let given = self.environment.iter().filter(|(name, _)| !(has_own && is_proxy(name)));
        let mut env: Vec<(OsString, OsString)> =
            given.map(|(key, value)| (key.into(), value.into())).collect();
        for login in home.logins.iter().filter(|login| !login.credentials.proxy.is_empty()) {
            for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
                env.push((name.into(), login.credentials.proxy.clone().into()));
            }
            env.push(("NO_PROXY".into(), login.credentials.no_proxy.clone().into()));
        }
        env.extend([
            ("PATH".into(), search_path()),
            ("HOME".into(), root.clone().into()),
            ("TMPDIR".into(), root.join("tmp").into()),
            ("LC_ALL".into(), "C".into()),
        ]);
        for (name, file) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "data"),
            ("HELM_DATA_HOME", "data"),
            ("HELM_PLUGINS", "plugins"),
            ("HELM_REPOSITORY_CONFIG", "repositories.yaml"),
            ("HELM_REPOSITORY_CACHE", "cache"),
            ("HELM_REGISTRY_CONFIG", "registry.json"),
        ] {
            env.push((name.into(), root.join(file).into()));
        }
        let mut write = vec![root.clone()];
        write.extend(writes.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned())));
        let watched = writes.unwrap_or(&root).to_owned();
        let run = Run {
            program: &programs.helm,
            args: all,
            directory: writes.unwrap_or(&root),
            env,
            timeout: programs.timeout,
            stdout_limit: OUTPUT,
            disk: Some((watched, programs.disk_bytes)),
            policy: programs.policy(reads.map(Path::to_owned).into_iter().collect(), write, true),
            helper: programs.helper.clone(),
        };
        let failed = |detail: String| SourceError::git(repo(), what, detail);
        let output = run.wait().await.map_err(|failure| match failure {
            Failure::Start(error) => SourceError::MissingProgram {
                repo: repo(),
                program: programs.helm.display().to_string(),
                detail: error.to_string(),
            },
            Failure::TimedOut => SourceError::TimedOut {
                repo: repo(),
                what: what.to_owned(),
                limit: programs.timeout,
            },
            Failure::OutputLimit => SourceError::too_large(
                repo(),
                format!("the output of {what}"),
                format!("{OUTPUT} bytes"),
            ),
            Failure::DiskLimit => SourceError::too_large(
                repo(),
                format!("what {what} writes"),
                format!("{} MiB", programs.disk_bytes >> 20),
            ),
            Failure::CpuLimit => failed("stopped, since it used too much CPU time".to_owned()),
            Failure::Read(error) => failed(error.to_string()),
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = reason(&String::from_utf8_lossy(&output.stdout), &output.stderr);
        Err(self.failure(home, what, &said, writes))
    }

    /// The error from what `helm` says.
    fn failure(&self, home: &Home, what: &str, said: &str, writes: Option<&Path>) -> SourceError {
        // With several repositories, the one that the message names.
        let named = home.logins.iter().find(|login| said.contains(&login.address.url));
        let address = named.or(home.logins.first()).map(|login| &login.address);
        let root = home.directory.path();
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let mut said = said.replace(&root.display().to_string(), "(home)");
        if let Some(path) = writes {
            said = said.replace(&path.display().to_string(), "(chart)");
        }
        for login in &home.logins {
            if !login.credentials.password.is_empty() {
                said = said.replace(&login.credentials.password, "***");
            }
        }
        let said: String = crate::redact_urls(said.trim()).chars().take(DETAIL).collect();
        classified(address, what, said)
    }
}

/// The name of a registry in the file of logins.
fn registry_key(host: &str) -> &str {
    if DOCKER_HUB_HOSTS.contains(&host) { DOCKER_HUB } else { host }
}

/// One call.
#[derive(Debug, Default)]
struct Call<'a> {
    /// Name for messages.
    what: &'a str,
    /// Arguments without paths.
    args: &'a [&'a str],
    /// Arguments behind them.
    options: Vec<OsString>,
    /// The directory of the result, in which it runs.
    writes: Option<&'a Path>,
    /// A directory that it reads.
    reads: Option<&'a Path>,
}

fn one(home: &Home) -> Result<&Login, SourceError> {
    home.logins.first().ok_or_else(|| SourceError::InvalidUrl {
        repo: String::new(),
        reason: "no repository is given".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::address::Allow;

    /// The keys of `registry.json` are those that `helm registry login` writes: a login of
    /// Docker Hub is looked up at its index.
    #[test]
    fn logins_are_where_helm_looks_them_up() {
        let cases = [
            ("registry-1.docker.io/team", DOCKER_HUB),
            ("oci://Registry-1.Docker.io/team", DOCKER_HUB),
            ("docker.io/team", DOCKER_HUB),
            ("oci://index.docker.io/team", DOCKER_HUB),
            ("registry.example.com:5000/team", "registry.example.com:5000"),
            ("oci://docker.io.example.com/team", "docker.io.example.com"),
            ("oci://docker.io:5000/team", "docker.io:5000"),
        ];
        for (url, key) in cases {
            let credentials = RepoCredentials {
                username: "me".into(),
                password: "pass".into(),
                ..RepoCredentials::default()
            };
            let login = Login {
                address: ChartAddress::parse(url, Allow::default()).unwrap(),
                name: "source".into(),
                credentials,
                pass_credentials: false,
            };
            let home = Home::new(&std::env::temp_dir(), vec![login]).unwrap();
            let text = std::fs::read_to_string(home.path("registry.json")).unwrap();
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, json!({"auths": {key: {"auth": "bWU6cGFzcw=="}}}), "{url}");
        }
    }
}
