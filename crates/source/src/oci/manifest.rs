//! The manifest of an artifact, and its layer. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::digest::ContentDigest;
use wavegate_api::read_leniently;

/// Media type of the layer of a Helm chart.
pub(super) const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Most layers of a manifest.
const MAX_LAYERS: usize = 10;

/// What a registry is asked for. Indexes are named, so that they can be told from manifests.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// How a layer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Tar,
    TarGzip,
}

/// The layer with the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    pub digest: ContentDigest,
    pub size: u64,
    pub format: Format,
    /// Whether it is a Helm chart, whose files are in one directory.
    pub is_chart: bool,
}

/// A manifest, or an index of several.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manifest {
    manifests: Option<Vec<Value>>,
    layers: Vec<Descriptor>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: Option<u64>,
}

/// The only layer of a manifest.
///
/// # Errors
///
/// Why the manifest cannot be used, and what to do.
pub(super) fn layer(manifest: &[u8], media_types: &[String]) -> Result<Layer, String> {
    let manifest: Value = serde_json::from_slice(manifest)
        .map_err(|error| format!("its manifest is no JSON ({error}); push the artifact again"))?;
    let Manifest { manifests, layers } = read_leniently(&manifest);
    if manifests.is_some() {
        return Err("it is an image index, of images for several platforms, and no artifact; \
                    write the digest of one of its manifests in targetRevision"
            .to_owned());
    }
    if layers.len() > MAX_LAYERS {
        return Err(format!(
            "its manifest has {} layers, and at most {MAX_LAYERS} are read; push an artifact with \
             one, and not an image",
            layers.len()
        ));
    }
    // As in Argo CD, layers of other kinds, such as the signature of a chart, have no files.
    let has_files = |layer: &&Descriptor| {
        let kind = &layer.media_type;
        kind.ends_with("tar") || kind.ends_with("tar+gzip") || media_types.contains(kind)
    };
    let content: Vec<&Descriptor> = layers.iter().filter(has_files).collect();
    let [layer] = content[..] else {
        let kinds: Vec<String> = layers.iter().map(|layer| shown(&layer.media_type)).collect();
        return Err(format!(
            "its manifest has {} layers with files, of the media types [{}]; push an artifact \
             with exactly one, such as a folder with oras push, and not an image",
            content.len(),
            kinds.join(", ")
        ));
    };
    let media_type = &layer.media_type;
    if !media_types.contains(media_type) {
        return Err(format!(
            "its layer has the media type {:?}, which is not permitted (permitted: {}); push it \
             with one of these, or add it to reposerver.oci.layer.media.types",
            shown(media_type),
            media_types.join(", ")
        ));
    }
    let format = if media_type.ends_with("tar+gzip") || media_type.ends_with("tar.gzip") {
        Format::TarGzip
    } else if media_type.ends_with("tar") {
        Format::Tar
    } else {
        return Err(format!(
            "its layer has the media type {:?}, which is neither a tar (…tar) nor a compressed \
             one (…tar+gzip), so there are no files in it",
            shown(media_type)
        ));
    };
    let (Some(digest), Some(size)) = (ContentDigest::parse(&layer.digest), layer.size) else {
        return Err(
            "its manifest has a layer without a valid digest and size; push it again".to_owned()
        );
    };
    Ok(Layer { digest, size, format, is_chart: *media_type == CHART })
}

fn shown(media_type: &str) -> String {
    media_type.chars().filter(|c| !c.is_control()).take(120).collect()
}
