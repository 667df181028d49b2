//! Reads files of a checkout that have a limit. Blocking.

use std::io::{Error, Read};
use std::path::Path;

use crate::render::manifest::RenderError;
use wavegate_api::yaml::{self, Document};

/// The bytes of a file, which messages call `shown`.
///
/// # Errors
///
/// When it is larger than `limit` bytes, and what `failed` makes of an error of the system.
pub(crate) fn read_file(
    path: &Path,
    shown: &str,
    limit: u64,
    failed: impl Fn(Error) -> RenderError,
) -> Result<Vec<u8>, RenderError> {
    let mut bytes = Vec::new();
    let content = std::fs::File::open(path).map_err(&failed)?;
    content.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(&failed)?;
    match bytes.len() as u64 > limit {
        true => Err(RenderError::too_large(format!("{shown}: larger than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// The YAML documents in the bytes of a file, which messages call `shown`.
pub(crate) fn parse_yaml(bytes: &[u8], shown: &str) -> Result<Vec<Document>, RenderError> {
    let unreadable = |error: yaml::YamlError| RenderError::unreadable(shown, error);
    let text = yaml::decode_text(bytes).map_err(unreadable)?;
    yaml::parse_documents(&text).map_err(unreadable)
}
