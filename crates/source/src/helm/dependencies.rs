//! Dependencies of a chart that are not in its directory `charts`: `helm dependency build` in
//! a private copy, from repositories that the Application may use.

use std::path::Path;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::directory::source_directory::SourceDirectory;
use crate::error::SourceError;
use crate::git::address::{Address, Allow};
use crate::helm::chart::{self, Dependency, Naming};
use crate::helm::chart_address::ChartAddress;
use crate::helm::charts::login;
use crate::helm::client::{HelmClient, Home, Login};
use crate::links::leaves;
use crate::process::tools::Programs;
use crate::render::checked::{blocking, links_stay_inside};
use crate::render::manifest::RenderError;
use crate::render::mirror::{self, Content, Mirror};
use crate::render::render_for::RenderFor;
use wavegate_api::{ApplicationSource, read_leniently};

/// Most dependencies of a chart.
const MAX_DEPENDENCIES: usize = 200;

/// A copy of the checkout whose chart has its dependencies; `None` when nothing is missing.
/// With `anyway`, Helm has said that something is missing.
pub(crate) async fn built(
    programs: &Programs,
    source_dir: &SourceDirectory,
    source: &Value,
    subject: &RenderFor,
    anyway: bool,
) -> Result<Option<Mirror>, RenderError> {
    let missing = {
        let source_dir = source_dir.clone();
        blocking("chart", move || Ok(chart::missing(&source_dir))).await?
    };
    if missing.is_empty() && !anyway {
        return Ok(None);
    }
    let ApplicationSource { helm, .. } = read_leniently(source);
    let pass = helm.is_some_and(|helm| helm.pass_credentials);
    let checked = {
        let (source_dir, subject, allow_http) =
            (source_dir.clone(), subject.clone(), programs.allow_http);
        let missing = missing.clone();
        let check = move || {
            let naming = Naming::read(&source_dir)?;
            let all = naming.dependencies(&source_dir)?;
            let logins = logins(&source_dir, &subject, (&all, &missing), allow_http, pass)?;
            Ok(logins.map(|logins| (naming, logins)))
        };
        blocking("dependencies of the chart", check).await?
    };
    let Some((naming, logins)) = checked else {
        let names: Vec<String> = missing.into_iter().map(|one| one.name).collect();
        return Err(chart::missing_dependencies(source_dir, subject, &names));
    };
    let unwritten = |error: std::io::Error| RenderError::read("copy of the chart", error.kind());
    let (copy, naming) = {
        let (source_dir, limit) = (source_dir.clone(), programs.disk_bytes);
        let make = move || {
            links_stay_inside(&source_dir.root)?;
            let copy = mirror::mirror(&source_dir, Content::Own, limit)?;
            naming.write(&copy.source_dir.directory).map_err(unwritten)?;
            Ok((copy, naming))
        };
        blocking("copy of the chart", make).await?
    };
    let failed = |error: SourceError| {
        let application = subject.application.clone();
        let program = "helm dependency build".to_owned();
        match error {
            // Dependencies by their path have no repository that could be named.
            SourceError::Git { repo, detail, .. } if repo.is_empty() => {
                RenderError::Program { application, program, detail, transient: false }
            }
            error => RenderError::Fetch { application, program, error: Box::new(error) },
        }
    };
    let servers: Vec<Address> = logins.iter().map(|login| login.address.server.clone()).collect();
    let id = identity(&logins);
    let home = Home::new(&source_dir.temporary, logins).map_err(failed)?;
    let client = HelmClient { programs, environment: &programs.environment };
    let build = client.build(&home, &copy.source_dir.root, &copy.source_dir.directory);
    subject.network.fetch(&servers, &id, build).await.map_err(failed)?;
    let from = source_dir.directory.clone();
    let restore = move || {
        naming.restore(&from, &copy.source_dir.directory).map_err(unwritten)?;
        Ok(Some(copy))
    };
    blocking("copy of the chart", restore).await
}

/// How to log in to the repositories of the dependencies; `None` when nothing may be fetched.
fn logins(
    source_dir: &SourceDirectory,
    subject: &RenderFor,
    (all, missing): (&[Dependency], &[Dependency]),
    allow_http: bool,
    pass_credentials: bool,
) -> Result<Option<Vec<Login>>, RenderError> {
    let Some(access) = &subject.charts else { return Ok(None) };
    let refused = |name: &str, why: &str| {
        let reason = format!(
            "application {}: dependency {name} of the chart: {}",
            subject.application,
            crate::redact_urls(why)
        );
        RenderError::source(reason)
    };
    // All of them: Helm builds all of the dependencies, or none.
    if all.len() > MAX_DEPENDENCIES {
        return Err(RenderError::too_large(format!(
            "the chart has more than {MAX_DEPENDENCIES} dependencies"
        )));
    }
    let mut logins: Vec<Login> = Vec::new();
    for Dependency { name, repository } in all {
        if repository.is_empty() {
            if missing.iter().any(|one| one.name == *name) {
                let why = "it has no repository, and is not in the directory charts; add it";
                return Err(refused(name, why));
            }
            continue;
        }
        if !repository.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            // Helm leaves some characters out, and would use another repository.
            let why = format!(
                "{:?}: the repository has other characters than ASCII; rename it, or add the \
                 dependency to the directory charts",
                repository.chars().take(200).collect::<String>()
            );
            return Err(refused(name, &why));
        }
        if let Some(path) = repository.strip_prefix("file://") {
            local(source_dir, path).map_err(|why| refused(name, &why))?;
            continue;
        }
        if repository.starts_with(['@']) || repository.starts_with("alias:") {
            let why = format!(
                "{repository}: names of repositories are not supported; write the URL of the \
                 repository"
            );
            return Err(refused(name, &why));
        }
        let allow = Allow { local: false, http: allow_http };
        let address = ChartAddress::parse(repository, allow);
        let address = address.map_err(|error| refused(name, &error.to_string()))?;
        if logins.iter().any(|known| known.address.url == address.url) {
            continue;
        }
        // In the spelling that projects and Secrets are compared with.
        let asked = if address.oci { &address.url } else { repository };
        let credentials = access.credentials(asked).map_err(|why| refused(name, &why))?;
        let own = format!("repository-{}", logins.len());
        let login = login(&address, &own, credentials.as_ref(), pass_credentials);
        logins.push(login.map_err(|error| refused(name, &error.to_string()))?);
    }
    if let Some(why) = contradiction(&logins) {
        return Err(RenderError::source(format!(
            "application {}: dependencies of the chart: {why}",
            subject.application
        )));
    }
    Ok(Some(logins))
}

/// What identifies some repositories with the credentials for them.
fn identity(logins: &[Login]) -> String {
    let mut hash = Sha256::new();
    for login in logins {
        hash.update((login.address.url.len() as u64).to_le_bytes());
        hash.update(&login.address.url);
        hash.update(login.credentials.fingerprint());
    }
    HEXLOWER.encode(&hash.finalize())
}

/// Why one call of Helm cannot fetch from all repositories: it has one set of options for all
/// registries, and one proxy for all servers. With those of another one, a password could go out
/// without encryption.
fn contradiction(logins: &[Login]) -> Option<String> {
    let differ = |one: &Login, other: &Login| {
        let (a, b) = (&one.credentials, &other.credentials);
        // Without one of its own, a repository is reached through that of the other.
        let have_own = !(a.proxy.is_empty() || b.proxy.is_empty());
        if have_own && (&a.proxy, &a.no_proxy) != (&b.proxy, &b.no_proxy) {
            return Some("proxies");
        }
        if !(one.address.oci && other.address.oci) {
            return None;
        }
        if a.plain_http != b.plain_http {
            return Some("values of insecureOCIForceHttp");
        }
        if a.insecure_skip_server_verification != b.insecure_skip_server_verification {
            return Some("values of insecure");
        }
        if (&a.client_certificate, &a.client_key) != (&b.client_certificate, &b.client_key) {
            return Some("client certificates");
        }
        (a.ca_certificates != b.ca_certificates).then_some("certificates of their CA")
    };
    logins.iter().enumerate().find_map(|(index, one)| {
        logins[index + 1..].iter().find_map(|other| {
            let what = differ(one, other)?;
            Some(format!(
                "{} and {} have different {what}, and Helm uses one setting for all; add the \
                 dependency from one of them to the directory charts, or give both the same \
                 setting (without a Secret, a repository has none)",
                one.address.shown, other.address.shown
            ))
        })
    })
}

/// Whether a dependency by its path is in the repository.
fn local(source_dir: &SourceDirectory, path: &str) -> Result<(), String> {
    if Path::new(path).is_absolute() {
        return Err(format!("file://{path}: is an absolute path; write one relative to the chart"));
    }
    if leaves(&source_dir.directory, path, &source_dir.root) {
        return Err(format!("file://{path}: is outside of the repository"));
    }
    match source_dir.directory.join(path).canonicalize() {
        Ok(found) if found.starts_with(&source_dir.root) => Ok(()),
        _ => Err(format!("file://{path}: is not in the repository")),
    }
}
