//! `status.summary`: images, external URLs, and whether the Application manages others (SE-061).

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::compared::ComparedResource;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_api::{GROUP, read_leniently};
use wavegate_engine::external_urls;

/// That of all resources: of live objects, and images also of what is not in the cluster yet.
pub(crate) fn summary(resources: &[ComparedResource]) -> ApplicationSummary {
    let live = resources.iter().filter_map(|resource| resource.live.as_deref());
    let urls: BTreeSet<String> = live.flat_map(external_urls::external_urls_of).collect();
    ApplicationSummary {
        images: images(resources),
        external_urls: urls.into_iter().collect(),
        is_app_of_apps: resources
            .iter()
            .any(|resource| resource.key.group == GROUP && resource.key.kind == "Application"),
    }
}

/// A summary with that of what controllers have created from the resources, where it is known.
pub fn with_below(own: &ApplicationSummary, below: &ApplicationSummary) -> ApplicationSummary {
    let both = |own: &[String], below: &[String]| {
        let all: BTreeSet<&String> = own.iter().chain(below).collect();
        all.into_iter().cloned().collect()
    };
    ApplicationSummary {
        images: both(&own.images, &below.images),
        external_urls: both(&own.external_urls, &below.external_urls),
        is_app_of_apps: own.is_app_of_apps || below.is_app_of_apps,
    }
}

/// A summary with the links that a user wrote on the Application itself.
pub(crate) fn with_links_of(
    application: &Value,
    summary: &ApplicationSummary,
) -> ApplicationSummary {
    let urls: BTreeSet<String> = summary
        .external_urls
        .iter()
        .cloned()
        .chain(external_urls::link_urls(application))
        .collect();
    ApplicationSummary { external_urls: urls.into_iter().collect(), ..summary.clone() }
}

/// What a spec of Pods says about images.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodImages {
    /// `None` for a spec of something else.
    containers: Option<Vec<ContainerImage>>,
    init_containers: Vec<ContainerImage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerImage {
    image: Option<String>,
}

/// Images of pods and pod templates, of the live objects if they exist.
fn images(resources: &[ComparedResource]) -> Vec<String> {
    let paths = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let mut images = BTreeSet::new();
    for resource in resources.iter().filter(|resource| !resource.is_hook()) {
        let Some(object) = resource.live.as_ref().or(resource.target.as_ref()) else { continue };
        let of_pods = |path: &&str| {
            let spec = read_leniently::<PodImages>(object.pointer(path)?);
            Some((spec.containers?, spec.init_containers))
        };
        let Some((containers, init_containers)) = paths.iter().find_map(of_pods) else { continue };
        images.extend(containers.into_iter().chain(init_containers).filter_map(|c| c.image));
    }
    images.into_iter().collect()
}
