//! Config management plugins: sidecars that render a source (SE-037, SE-090).
//!
//! A plugin serves a socket in a folder that it shares with this program. It gets the files
//! of the repository as an archive, and answers with manifests. What it may do is up to its
//! container; here, the time, the archive and the answer are limited.

mod archive;
mod environment;
mod protocol;
pub(super) mod settings;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde_json::Value;

use archive::Archive;
use protocol::{Connection, EnvEntry, Failed, Metadata};
pub use settings::{DEFAULT_FOLDER, PluginSettings};

use crate::directory::source_directory::SourceDirectory;
use crate::process::tools::Programs;
use crate::render::build_environment::BuildEnvironment;
use crate::render::checked::blocking;
use crate::render::manifest::{Manifest, RenderError, Sink};
use crate::render::render_for::RenderFor;
use wavegate_api::source::PluginSource;
use wavegate_api::{ApplicationSource, read_leniently};

/// Most sockets that an error names.
const SHOWN_SOCKETS: usize = 10;

/// A plugin that renders a source.
pub(super) struct Plugin {
    name: String,
    connection: Connection,
    variables: Vec<EnvEntry>,
    /// What was sent for its discovery.
    archive: Option<Archive>,
    /// What users should know.
    pub notes: Vec<String>,
}

/// The answer of a socket.
enum Found {
    Supports(Plugin),
    Other,
}

impl Programs {
    /// The plugin of a source: the one that `plugin.name` names, or the first one in the order
    /// of names whose discovery matches the source. `None` if the source names none, and none
    /// matches.
    ///
    /// # Errors
    ///
    /// When the named one does not support the source, or when one cannot be asked: it could
    /// be the one that is meant.
    pub(super) async fn plugin(
        &self,
        source_dir: &SourceDirectory,
        source: &Value,
        subject: &RenderFor,
        environment: &BuildEnvironment,
    ) -> Result<Option<Plugin>, RenderError> {
        let failed = |transient: bool, detail: String| RenderError::Plugin {
            application: subject.application.clone(),
            detail,
            transient,
        };
        let ApplicationSource { plugin, .. } = read_leniently(source);
        let is_explicit = plugin.is_some();
        let PluginSource { name, .. } = plugin.unwrap_or_default();
        let name = name.as_str();
        let folder = self.plugins.folder.clone();
        let sockets = {
            let folder = folder.clone();
            blocking("plugins", move || sockets(&folder)).await?
        };
        if sockets.is_empty() && !is_explicit {
            return Ok(None);
        }
        let call = Search { programs: self, source_dir, subject };
        let variables = environment::variables(source, environment)?;
        if !name.is_empty() {
            let not_found = |transient: bool, why: String| {
                let detail = format!(
                    "could not find cmp-server plugin with name {name:?} supporting the given \
                     repository: {why}"
                );
                failed(transient, detail)
            };
            if name.contains(|c: char| c == '/' || c.is_control()) {
                let why = "a name has no slash and no control character; correct plugin.name";
                return Err(not_found(false, why.to_owned()));
            }
            let file = format!("{name}.sock");
            let socket = folder.join(&file);
            if !sockets.contains(&file) {
                let others = listed(&sockets);
                // Its sidecar may be starting.
                let why = format!(
                    "there is no socket {}; the folder has {others}; correct plugin.name (with a \
                     version, it is NAME-VERSION), or run the sidecar of the plugin",
                    socket.display()
                );
                return Err(not_found(true, why));
            }
            let asked = call.ask(name, &socket, variables, true).await;
            return match asked.map_err(|why| why.into_error(&not_found))? {
                Found::Supports(plugin) => Ok(Some(plugin)),
                Found::Other => {
                    let why = format!("the discovery of {} does not match it", socket.display());
                    Err(not_found(false, why))
                }
            };
        }
        for file in &sockets {
            let socket = folder.join(file);
            let name = file.trim_end_matches(".sock");
            let unanswered = |transient: bool, why: String| {
                let detail = format!(
                    "cannot ask plugin {name} ({}) whether it supports the repository: {why}; \
                     restart its sidecar, or remove the socket",
                    socket.display()
                );
                failed(transient, detail)
            };
            let asked = call.ask(name, &socket, variables.clone(), false).await;
            if let Found::Supports(plugin) = asked.map_err(|why| why.into_error(&unanswered))? {
                return Ok(Some(plugin));
            }
        }
        if is_explicit {
            let detail = format!(
                "could not find plugin supporting the given repository: {} has {}, and none of \
                 their discoveries matches; set plugin.name",
                folder.display(),
                listed(&sockets)
            );
            return Err(failed(sockets.is_empty(), detail));
        }
        Ok(None)
    }

    /// The manifests of a source by its plugin.
    pub(super) async fn generate(
        &self,
        plugin: Plugin,
        source_dir: &SourceDirectory,
        subject: &RenderFor,
    ) -> Result<Vec<Manifest>, RenderError> {
        let Plugin { name, connection, variables, archive, .. } = plugin;
        let folder = match self.plugins.use_generate_paths {
            true => common_folder(&source_dir.relative, &subject.generate_paths),
            false => String::new(),
        };
        let archive = match archive.filter(|_| folder.is_empty()) {
            Some(archive) => archive,
            None => self.archive(source_dir, folder).await?,
        };
        let metadata = metadata(&archive, subject, variables);
        let answer = connection.generate(metadata, &archive.file).await;
        let answer = answer.map_err(|why| RenderError::Plugin {
            application: subject.application.clone(),
            transient: matches!(why, Failed::Lost(_)),
            detail: format!("plugin {name}: {}", crate::redact_urls(&why.to_string())),
        })?;
        let mut sink = Sink::new(subject.memory);
        for text in &answer.manifests {
            sink.output(text, &format!("plugin {name}"))?;
        }
        Ok(sink.manifests)
    }

    async fn archive(
        &self,
        source_dir: &SourceDirectory,
        folder: String,
    ) -> Result<Archive, RenderError> {
        let (source_dir, exclusions) = (source_dir.clone(), self.plugins.exclusions.clone());
        let limit = self.disk_bytes;
        blocking("plugin", move || archive::pack(&source_dir, &folder, &exclusions, limit)).await
    }
}

/// Why a plugin gave no answer.
enum Unanswered {
    Call(Failed),
    Files(RenderError),
}

impl Unanswered {
    fn into_error(self, worded: &impl Fn(bool, String) -> RenderError) -> RenderError {
        match self {
            Self::Call(why) => {
                let is_lost = matches!(why, Failed::Lost(_));
                worded(is_lost, crate::redact_urls(&why.to_string()))
            }
            Self::Files(error) => error,
        }
    }
}

/// A source for which a plugin is looked for.
struct Search<'a> {
    programs: &'a Programs,
    source_dir: &'a SourceDirectory,
    subject: &'a RenderFor,
}

impl Search<'_> {
    /// Whether a plugin renders the source. One without discovery renders what names it.
    async fn ask(
        &self,
        name: &str,
        socket: &Path,
        variables: Vec<EnvEntry>,
        is_named: bool,
    ) -> Result<Found, Unanswered> {
        let programs = self.programs;
        let connection = Connection::open(socket, programs.timeout, programs.output_bytes);
        let connection = connection.await.map_err(|why| Unanswered::Call(Failed::Lost(why)))?;
        let configuration = connection.configuration().await;
        let configuration = configuration.map_err(Unanswered::Call)?;
        let mut notes = Vec::new();
        if configuration.provide_git_creds {
            notes.push(format!(
                "plugin {name} asks for the credentials of the repository (provideGitCreds), \
                 which it does not get here"
            ));
        }
        let mut archive = None;
        if configuration.is_discovery_configured {
            let sent = programs.archive(self.source_dir, String::new()).await;
            let sent = sent.map_err(Unanswered::Files)?;
            let metadata = metadata(&sent, self.subject, variables.clone());
            let answer = match connection.matches(metadata, &sent.file).await {
                // The command of a discovery may end with an error where it finds nothing.
                Err(Failed::Refused(why)) if !is_named => {
                    let why = crate::redact_urls(&why);
                    tracing::warn!(plugin = name, %why, "the discovery of a plugin failed");
                    return Ok(Found::Other);
                }
                answer => answer.map_err(Unanswered::Call)?,
            };
            if !answer.is_supported && (answer.is_discovery_enabled || !is_named) {
                return Ok(Found::Other);
            }
            archive = Some(sent);
        } else if !is_named {
            return Ok(Found::Other);
        }
        let name = name.to_owned();
        Ok(Found::Supports(Plugin { name, connection, variables, archive, notes }))
    }
}

fn metadata(archive: &Archive, subject: &RenderFor, env: Vec<EnvEntry>) -> Metadata {
    Metadata {
        app_name: subject.application.clone(),
        app_rel_path: archive.app_path.clone(),
        checksum: archive.checksum.clone(),
        size: i64::try_from(archive.size).unwrap_or(i64::MAX),
        env,
    }
}

/// The names of the sockets in a folder, in order; none when there is no folder.
fn sockets(folder: &Path) -> Result<Vec<String>, RenderError> {
    let failed = |error: std::io::Error| {
        RenderError::read(format!("the sockets of plugins in {}", folder.display()), error)
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_socket())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn listed(sockets: &[String]) -> String {
    match sockets {
        [] => "no socket".to_owned(),
        sockets => {
            let shown = sockets.iter().take(SHOWN_SOCKETS).map(String::as_str);
            shown.collect::<Vec<_>>().join(", ")
        }
    }
}

/// The folder that contains a source and the paths of the annotation, relative to the
/// repository root; the root if there are no paths, or one is outside of the repository.
fn common_folder(source: &str, paths: &str) -> String {
    let mut parts: Vec<&str> = source.split('/').filter(|part| !part.is_empty()).collect();
    let mut any = false;
    for path in paths.split(';').map(str::trim).filter(|path| !path.is_empty()) {
        any = true;
        let base = if path.starts_with('/') { "" } else { source };
        let Some(whole) = crate::directory::jsonnet::joined(base, path.trim_start_matches('/'))
        else {
            return String::new();
        };
        let whole: Vec<&str> = whole.split('/').filter(|part| !part.is_empty()).collect();
        let same = parts.iter().zip(&whole).take_while(|(a, b)| a == b).count();
        parts.truncate(same);
    }
    if any { parts.join("/") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_folder_of_paths() {
        let cases = [
            ("apps/shop", "", ""),
            ("apps/shop", ".", "apps/shop"),
            ("apps/shop", "..", "apps"),
            ("apps/shop", ".; /apps/lib", "apps"),
            ("apps/shop", "/lib", ""),
            ("apps/shop", "./base;overlays/x", "apps/shop"),
            ("apps/shop", "../../../outside", ""),
            ("", ".", ""),
        ];
        for (source, paths, want) in cases {
            assert_eq!(common_folder(source, paths), want, "{source} {paths}");
        }
    }
}
