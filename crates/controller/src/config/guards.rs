//! Settings of the ConfigMap `argocd-cm` that limit what is managed.
//!
//! One that is not understood is never replaced by its default: no Application is compared,
//! synced or deleted then, and a condition names the key.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::reader::{Reader, yes_or_no};
use super::{comparisons, customizations, health_scripts};
use crate::evaluator;
use crate::settings::ApplicationSettings;
use wavegate_api::resource_filter::{EXCLUSIONS, INCLUSIONS, ResourceFilter};
use wavegate_api::tracking::TrackingMethod;
use wavegate_api::yaml;
use wavegate_application::global_projects::{GLOBAL_PROJECTS, GlobalProjects};
use wavegate_engine::diff::SystemSettings;
use wavegate_rollout::application_set::generate::shape::problem_of_label_key;
use wavegate_source::{BuildOptions, Programs, VALUES_SCHEMES};

/// The key of the label by which objects are known.
pub(super) const INSTANCE_LABEL: &str = "application.instanceLabelKey";

/// Whether Applications may use the controller's own cluster; the default is true.
const IN_CLUSTER_ENABLED: &str = "cluster.inClusterEnabled";

/// Whether syncs act as the service accounts of projects (SE-079); the default is false.
const IMPERSONATION: &str = "application.sync.impersonation.enabled";

/// Whether a sync without a matching service account is refused; the default is true.
const IMPERSONATION_ENFORCED: &str = "application.sync.impersonation.enforced";

/// Reads them.
pub(super) fn read(read: &mut Reader<'_>, settings: &mut ApplicationSettings) {
    let text = |key: &str| read.config_map.get(key).map(String::as_str).unwrap_or_default();
    match ResourceFilter::parse(text(EXCLUSIONS), text(INCLUSIONS)) {
        Ok(filter) => settings.resource_filter = filter,
        Err(error) => settings.unreadable.push(error),
    }
    let mut switch = |key: &str, into: &mut bool| match text(key).trim() {
        "" => {}
        word => match yes_or_no(word) {
            Some(value) => *into = value,
            None => settings.unreadable.push(format!(
                "{key} of ConfigMap argocd-cm: {word:?} is not a switch; write true or false"
            )),
        },
    };
    switch(IN_CLUSTER_ENABLED, &mut settings.in_cluster_enabled);
    switch(IMPERSONATION, &mut settings.impersonation);
    switch(IMPERSONATION_ENFORCED, &mut settings.impersonation_enforced);
    switch("kustomize.enable", &mut settings.render.enabled.kustomize);
    switch("helm.enable", &mut settings.render.enabled.helm);
    switch("jsonnet.enable", &mut settings.render.enabled.jsonnet);
    // With it, each sync would fail, and where nothing has the label, each resource is foreign.
    let key = settings.instance_label.as_str();
    let problem = problem_of_label_key(key).filter(|_| {
        settings.tracking_method.is_by_label()
            || settings.tracking_method == TrackingMethod::AnnotationAndLabel
    });
    settings.unreadable.extend(
        problem.map(|why| format!("{INSTANCE_LABEL} of ConfigMap argocd-cm: {key:?} {why}")),
    );
    sources(read, &mut settings.render.programs);
    settings.global_projects = Arc::new(global_projects(read));
    settings.unreadable.extend(settings.global_projects.problem().map(str::to_owned));
    settings.customizations = customizations::read(read.config_map);
    let (scripts, problems) = health_scripts::read(read.config_map);
    settings.checks.scripts = Arc::new(scripts);
    read.warnings.extend(problems);
    let compared =
        comparisons::read_comparisons(read.config_map, &evaluator::limited_jq(evaluator::JQ_TIME));
    read.warnings.extend(compared.problems.iter().map(|problem| problem.message.clone()));
    settings.compared =
        Arc::new(SystemSettings { server_side: settings.compared.server_side, ..compared });
    for error in &settings.unreadable {
        read.warnings.push(format!("{error}; until then, no Application is reconciled"));
    }
}

/// The projects whose lists others inherit.
pub(super) fn global_projects(read: &Reader<'_>) -> GlobalProjects {
    let text = read.config_map.get(GLOBAL_PROJECTS).map_or("", |text| text.trim());
    if text.is_empty() {
        return GlobalProjects::default();
    }
    match yaml::parse_value(text) {
        Ok(list) => GlobalProjects::read(&list),
        Err(error) => GlobalProjects::unreadable(&error.to_string()),
    }
}

/// What administrators say about charts and kustomizations. An option that must not be passed
/// on is refused when a source is rendered.
fn sources(read: &mut Reader<'_>, programs: &mut Programs) {
    let text = |key: &str| read.config_map.get(key).map(String::as_str).unwrap_or_default().trim();
    let schemes = text("helm.valuesFileSchemes").split(',').map(|one| one.trim().to_lowercase());
    programs.values_file_schemes = schemes.filter(|scheme| !scheme.is_empty()).collect();
    // A source that uses such a URL is refused; the setting alone would seem to have an effect.
    let is_without_effect = |scheme: &&String| !VALUES_SCHEMES.contains(&scheme.as_str());
    let unsupported = programs.values_file_schemes.iter().filter(is_without_effect);
    read.warnings.extend(unsupported.map(|scheme| {
        let supported = VALUES_SCHEMES.join(" and ");
        format!(
            "helm.valuesFileSchemes of ConfigMap argocd-cm: {scheme:?} has no effect, since only \
             {supported} are supported"
        )
    }));
    let options = &mut programs.kustomize_options;
    *options = BuildOptions::default();
    options.default = text("kustomize.buildOptions").to_owned();
    for (key, text) in read.config_map {
        if let Some(version) = key.strip_prefix("kustomize.buildOptions.") {
            options.by_version.insert(version.to_owned(), text.trim().to_owned());
        }
    }
    options.paths = kustomize_versions(read.config_map);
    let unusable = options.paths.values().filter_map(|path| path.as_ref().err());
    read.warnings.extend(unusable.map(|why| format!("{why}; the version is not registered")));
}

/// Whether a text is the name of a program, which is looked for in `PATH` when it is run. Another
/// relative path would be one of the folder that is rendered.
fn is_name(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    let is_normal = matches!(parts.next(), Some(Component::Normal(_)));
    is_normal && parts.next().is_none() && !text.contains('/')
}

/// The programs of the versions of Kustomize, each under one of two names; why a version cannot
/// be used otherwise.
fn kustomize_versions(
    config_map: &BTreeMap<String, String>,
) -> BTreeMap<String, Result<PathBuf, String>> {
    let mut found = BTreeMap::<String, Result<PathBuf, String>>::new();
    for prefix in ["kustomize.path.", "kustomize.version."] {
        let keys = config_map
            .iter()
            .filter_map(|(key, text)| Some((key, key.strip_prefix(prefix)?, text.trim())));
        for (key, version, text) in keys {
            let place = format!("{key} of ConfigMap argocd-cm");
            let program = if version.is_empty() {
                Err(format!("{place} names no version"))
            } else if found.contains_key(version) {
                // Neither wins, as in Argo CD.
                Err(format!(
                    "{place}: the version is also set by kustomize.path.{version}; remove one of \
                     them"
                ))
            } else if Path::new(text).is_absolute() || is_name(text) {
                Ok(PathBuf::from(text))
            } else {
                let shown: String = text.chars().take(80).collect();
                Err(format!(
                    "{place}: {shown:?} is neither an absolute path nor the name of a program in \
                     PATH"
                ))
            };
            found.insert(version.to_owned(), program);
        }
    }
    found
}
