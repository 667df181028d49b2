//! `valuesObject` of Helm sources that is given as text (AS-110).

use serde_json::Value;

use wavegate_api::yaml;

/// The field of a Helm source.
const FIELD: &str = "valuesObject";

/// Parses each `helm.valuesObject` of a template that is YAML or JSON text, so that each
/// string in it is rendered on its own.
///
/// # Errors
///
/// The path of the field, and why it is no object.
pub fn parse(template: &mut Value) -> Result<(), (String, String)> {
    // Nothing else is indexed: a template is what the user wrote, of any type.
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let sources = match spec.get_mut("sources") {
        Some(Value::Array(sources)) => std::mem::take(sources),
        _ => Vec::new(),
    };
    let mut parsed = Vec::with_capacity(sources.len());
    for (index, mut source) in sources.into_iter().enumerate() {
        parse_source(&mut source, &format!("spec.template.spec.sources[{index}]"))?;
        parsed.push(source);
    }
    if !parsed.is_empty() {
        spec.insert("sources".to_owned(), parsed.into());
    }
    if let Some(source) = spec.get_mut("source") {
        parse_source(source, "spec.template.spec.source")?;
    }
    match spec.get_mut("sourceHydrator").and_then(|hydrator| hydrator.get_mut("drySource")) {
        Some(source) => parse_source(source, "spec.template.spec.sourceHydrator.drySource"),
        None => Ok(()),
    }
}

fn parse_source(source: &mut Value, place: &str) -> Result<(), (String, String)> {
    let Some(values) = source.get_mut("helm").and_then(|helm| helm.get_mut(FIELD)) else {
        return Ok(());
    };
    let Value::String(text) = values else { return Ok(()) };
    let failed = |cause: String| Err((format!("{place}.helm.{FIELD}"), cause));
    *values = match yaml::parse_value(text) {
        Err(yaml::YamlError::Count { found: 0 }) => Value::Null,
        Ok(value @ (Value::Object(_) | Value::Null)) => value,
        Ok(_) => return failed("must be an object, or the text of one".to_owned()),
        Err(error) => return failed(format!("is neither YAML nor JSON: {error}")),
    };
    Ok(())
}
