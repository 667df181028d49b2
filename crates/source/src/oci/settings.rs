//! Which artifacts are read, and how large they may be.

use super::manifest::CHART;

/// Which artifacts are read, and how large they may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactSettings {
    /// Media types of the layer (`reposerver.oci.layer.media.types`). Default: those of an
    /// image, and that of a Helm chart.
    pub layer_media_types: Vec<String>,
    /// Limit on the bytes of the layer, packed and unpacked
    /// (`reposerver.oci.manifest.max.extracted.size`); `None` for no limit. Default 1 GB.
    pub max_bytes: Option<u64>,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        let types = [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+gzip",
            CHART,
        ];
        Self { layer_media_types: types.map(str::to_owned).into(), max_bytes: Some(1_000_000_000) }
    }
}
