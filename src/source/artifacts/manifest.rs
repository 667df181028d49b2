//! The manifest of an artifact, and its layer. Pure.

use serde_json::Value;

use super::digest::ContentDigest;

/// Media type of the layer of a Helm chart.
pub(super) const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Media type of the signature of a Helm chart, which is no content.
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";

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

/// The only layer of a manifest.
///
/// # Errors
///
/// Why the manifest cannot be used, and what to do.
pub(super) fn layer(manifest: &[u8], media_types: &[String]) -> Result<Layer, String> {
    let manifest: Value = serde_json::from_slice(manifest)
        .map_err(|error| format!("its manifest is no JSON ({error}); push the artifact again"))?;
    if manifest["manifests"].is_array() {
        return Err("it is an image index, of images for several platforms, and no artifact; \
                    write the digest of one of its manifests in targetRevision"
            .to_owned());
    }
    let layers = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = |layer: &Value| layer["mediaType"].as_str().unwrap_or_default().to_owned();
    let is_chart = layers.iter().any(|layer| kind(layer) == CHART);
    let content: Vec<&Value> =
        layers.iter().filter(|layer| !(is_chart && kind(layer) == PROVENANCE)).collect();
    let [layer] = content[..] else {
        return Err(format!(
            "its manifest has {} layers; push an artifact with exactly one, such as one folder \
             with oras push, and not an image",
            content.len()
        ));
    };
    let media_type = kind(layer);
    if !media_types.contains(&media_type) {
        return Err(format!(
            "its layer has the media type {:?}, which is not permitted (permitted: {}); push it \
             with one of these, or add it to reposerver.oci.layer.media.types",
            shown(&media_type),
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
            shown(&media_type)
        ));
    };
    let digest = layer["digest"].as_str().and_then(ContentDigest::parse);
    let (Some(digest), Some(size)) = (digest, layer["size"].as_u64()) else {
        return Err(
            "its manifest has a layer without a valid digest and size; push it again".to_owned()
        );
    };
    Ok(Layer { digest, size, format, is_chart: media_type == CHART })
}

fn shown(media_type: &str) -> String {
    media_type.chars().filter(|c| !c.is_control()).take(120).collect()
}
