//! The schemas of a chart, before Helm reads them. Blocking.
//!
//! Helm reads and fetches what the `$ref`s of `values.schema.json` name: files of the machine,
//! and any server. Only references inside of the schema are accepted.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::directory::source_directory::SourceDirectory;
use crate::helm::chart::{MAX_FILE, walk};
use crate::render::manifest::RenderError;

/// The file of a schema.
const NAME: &str = "values.schema.json";

/// Most bytes of the archives of a chart together, without compression: Helm reads no more of
/// one.
const MAX_ARCHIVES: u64 = 100 << 20;

/// How deep archives may contain archives.
const MAX_DEPTH: usize = 8;

/// Checks the schemas of a chart and of the unpacked charts in it.
pub(crate) fn check_schemas(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    walk(source_dir, &mut |path, shown| {
        if path.file_name().is_none_or(|name| name != NAME) || !path.is_file() {
            return Ok(());
        }
        let file = std::fs::File::open(path).map_err(|error| unread(shown, &error))?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
        read.map_err(|error| unread(shown, &error))?;
        check(&bytes, shown)
    })
}

/// Checks the schemas in the archives of a chart. Helm that has no network fetches nothing for
/// them, and reads no file of others, so that this is for one that has it.
pub(crate) fn check_archives(source_dir: &SourceDirectory) -> Result<(), RenderError> {
    let mut left = MAX_ARCHIVES;
    walk(source_dir, &mut |path, shown| {
        if !is_archive(shown) || !path.is_file() {
            return Ok(());
        }
        let file = std::fs::File::open(path).map_err(|error| unread(shown, &error))?;
        check_archive(&mut std::io::BufReader::new(file), shown, &mut left, 0)
    })
}

fn is_archive(name: &str) -> bool {
    name.ends_with(".tgz") || name.ends_with(".tar.gz")
}

fn unread(shown: &str, error: &std::io::Error) -> RenderError {
    RenderError::read(shown, error.kind())
}

fn too_large(shown: &str, limit: u64) -> RenderError {
    RenderError::too_large(format!("{shown}: larger than {limit} bytes"))
}

fn check_archive(
    packed: &mut dyn Read,
    shown: &str,
    left: &mut u64,
    depth: usize,
) -> Result<(), RenderError> {
    if depth > MAX_DEPTH {
        return Err(RenderError::too_large(format!(
            "{shown}: archives contain archives more than {MAX_DEPTH} deep"
        )));
    }
    let invalid = |error: std::io::Error| {
        RenderError::source(format!(
            "{shown}: cannot read the archive for its schemas: {error}; pack it again, or set \
             helm.skipSchemaValidation"
        ))
    };
    let limit = *left;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(packed).take(limit + 1));
    for entry in archive.entries().map_err(invalid)? {
        let mut entry = entry.map_err(invalid)?;
        // Helm takes a backslash for a separator as well.
        let path = String::from_utf8_lossy(&entry.path_bytes()).replace('\\', "/");
        let is_schema = path.rsplit('/').next() == Some(NAME);
        let size = entry.size();
        *left = left.checked_sub(size).ok_or_else(|| too_large(shown, MAX_ARCHIVES))?;
        if !is_schema && !is_archive(&path) {
            continue;
        }
        let shown = format!("{shown}: {path}");
        if is_schema && size > MAX_FILE {
            return Err(too_large(&shown, MAX_FILE));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(invalid)?;
        match is_schema {
            true => check(&bytes, &shown)?,
            false => check_archive(&mut Cursor::new(bytes), &shown, left, depth + 1)?,
        }
    }
    Ok(())
}

fn check(bytes: &[u8], shown: &str) -> Result<(), RenderError> {
    if bytes.len() as u64 > MAX_FILE {
        return Err(too_large(shown, MAX_FILE));
    }
    // As Helm, which reads some texts that are refused here.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let schema: Value = serde_json::from_slice(bytes).map_err(|error| {
        RenderError::source(format!(
            "{shown}: cannot be read as JSON: {error}; correct it, or set \
             helm.skipSchemaValidation"
        ))
    })?;
    let mut names = Vec::new();
    identifiers(&schema, &mut names);
    let Some(reference) = outside_reference(&schema, &names) else { return Ok(()) };
    let reference: String = crate::redact_urls(reference).chars().take(200).collect();
    let reason = format!(
        "{shown}: $ref {reference:?} is not in the schema, and nothing is read from elsewhere; copy \
         it into the schema, or set helm.skipSchemaValidation"
    );
    Err(RenderError::source(reason))
}

fn identifiers<'a>(schema: &'a Value, names: &mut Vec<&'a str>) {
    let below = schema.as_array().into_iter().flatten();
    let fields = schema.as_object().into_iter().flatten();
    for (key, value) in fields {
        if let ("$id" | "id", Some(name)) = (key.as_str(), value.as_str()) {
            names.push(name.trim_end_matches('#'));
        }
        identifiers(value, names);
    }
    below.for_each(|item| identifiers(item, names));
}

/// The first reference that leads out of the schema. The schemas of JSON Schema itself are
/// part of Helm.
fn outside_reference<'a>(schema: &'a Value, names: &[&str]) -> Option<&'a str> {
    let fields = schema.as_object().into_iter().flatten();
    for (key, value) in fields {
        if let ("$ref" | "$dynamicRef" | "$recursiveRef", Some(reference)) =
            (key.as_str(), value.as_str())
        {
            let target = reference.split('#').next().unwrap_or_default();
            let is_own = target.is_empty() || is_metaschema(target) || names.contains(&target);
            if !is_own {
                return Some(reference);
            }
        }
        if let Some(found) = outside_reference(value, names) {
            return Some(found);
        }
    }
    schema.as_array().into_iter().flatten().find_map(|item| outside_reference(item, names))
}

fn is_metaschema(target: &str) -> bool {
    let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://"));
    rest.and_then(|rest| rest.strip_prefix("json-schema.org/")).is_some_and(|path| {
        let versions = ["draft-04/", "draft-06/", "draft-07/", "draft/2019-09/", "draft/2020-12/"];
        versions.iter().any(|version| path.starts_with(version)) && !path.contains("..")
    })
}
