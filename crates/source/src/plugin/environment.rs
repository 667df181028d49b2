//! The environment of a plugin: the build environment, and what the source sets.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::protocol::EnvEntry;
use crate::render::build_environment::BuildEnvironment;
use crate::render::given::{Given, Variable};
use crate::render::manifest::RenderError;

/// Most bytes of all names and values: a program gets no larger environment.
const MAX_BYTES: usize = 1 << 20;

/// What a source says about its plugin.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Blocks {
    plugin: Given<PluginBlock>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginBlock {
    env: Given<Vec<Given<Variable>>>,
    parameters: Given<Vec<Given<Parameter>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameter {
    name: Given<String>,
    array: Given<Vec<Given<String>>>,
    map: Given<BTreeMap<String, Given<String>>>,
    string: Given<String>,
}

/// The variables in the order of Argo CD: those of the build environment, `ARGOCD_ENV_…` of
/// `plugin.env`, with names of the build environment replaced, and the parameters.
pub(super) fn variables(
    source: &Value,
    environment: &BuildEnvironment,
) -> Result<Vec<EnvEntry>, RenderError> {
    let entry = |(name, value): (String, String)| EnvEntry { name, value };
    let pairs = environment.pairs().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut variables: Vec<EnvEntry> = pairs.map(entry).collect();
    let Blocks { plugin } = Blocks::deserialize(source).unwrap_or_default();
    if let Some(PluginBlock { env, parameters }) = plugin.right() {
        let env = env.or_wrong(|| wrong("env: not a list"))?.unwrap_or_default();
        for (index, item) in env.into_iter().enumerate() {
            let mut item = item.right().unwrap_or_default();
            let (name, value) = item.parts(|what| wrong(&format!("env[{index}]: {what}")))?;
            let value = environment.expand(&value);
            variables.push(entry((format!("ARGOCD_ENV_{name}"), value)));
        }
        variables.extend(self::parameters(parameters)?.into_iter().map(entry));
    }
    for variable in &variables {
        let bad = |text: &str| text.contains('\0');
        if variable.name.contains('=') || bad(&variable.name) || bad(&variable.value) {
            return Err(wrong(&format!(
                "{:?}: a name must not contain '=', and neither name nor value a null character",
                variable.name
            )));
        }
    }
    let bytes: usize = variables.iter().map(|one| one.name.len() + one.value.len()).sum();
    if bytes > MAX_BYTES {
        return Err(wrong(&format!("the environment has more than {MAX_BYTES} bytes")));
    }
    Ok(variables)
}

/// `ARGOCD_APP_PARAMETERS`, which is a list in JSON, and `PARAM_…` for each text.
fn parameters(given: Given<Vec<Given<Parameter>>>) -> Result<Vec<(String, String)>, RenderError> {
    let mut variables = Vec::new();
    let mut all = Vec::new();
    let given = given.or_wrong(|| wrong("parameters: not a list"))?;
    let is_given = given.is_some();
    for (index, item) in given.unwrap_or_default().into_iter().enumerate() {
        let at = |what: &str| wrong(&format!("parameters[{index}]: {what}"));
        let Parameter { name, array, map, string } = item.right().unwrap_or_default();
        let name = name.or_wrong(|| at("name is not a string"))?.unwrap_or_default();
        let variable = format!("PARAM_{}", escaped(&name));
        let mut parameter = Map::new();
        if let Some(values) = array.or_wrong(|| at("array is not a list"))? {
            let values: Option<Vec<String>> = values.into_iter().map(Given::right).collect();
            let values = values.ok_or_else(|| at("array: not all are strings"))?;
            let named = values.iter().enumerate();
            variables.extend(named.map(|(at, text)| (format!("{variable}_{at}"), text.clone())));
            parameter.insert("array".to_owned(), json!(values));
        }
        if let Some(values) = map.or_wrong(|| at("map is not a mapping"))? {
            let texts = values.into_iter().map(|(key, value)| Some((key, value.right()?)));
            let values: Option<BTreeMap<String, String>> = texts.collect();
            let values = values.ok_or_else(|| at("map: not all are strings"))?;
            let name = |key: &str| format!("{variable}_{}", escaped(key));
            variables.extend(values.iter().map(|(key, text)| (name(key), text.clone())));
            parameter.insert("map".to_owned(), json!(values));
        }
        parameter.insert("name".to_owned(), name.into());
        if let Some(text) = string.or_wrong(|| at("string is not a string"))? {
            parameter.insert("string".to_owned(), json!(text));
            variables.push((variable, text));
        }
        all.push(Value::Object(parameter));
    }
    let all = if is_given { Value::Array(all) } else { Value::Null };
    variables.insert(0, ("ARGOCD_APP_PARAMETERS".to_owned(), all.to_string()));
    Ok(variables)
}

/// A name in upper case, with an underscore for what a variable cannot have.
fn escaped(name: &str) -> String {
    let valid = |c: char| match c.to_ascii_uppercase() {
        c if c.is_ascii_uppercase() || c.is_ascii_digit() => c,
        _ => '_',
    };
    name.chars().map(valid).collect()
}

fn wrong(what: &str) -> RenderError {
    RenderError::source(format!("plugin.{what}; correct the source"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::render_for::RenderFor;

    fn of(plugin: &Value) -> Result<Vec<String>, String> {
        let subject = RenderFor { application: "shop".into(), ..RenderFor::default() };
        let source = json!({"path": "app", "plugin": plugin});
        let environment = BuildEnvironment::new(&subject, &source, "0123456789");
        let variables = variables(&source, &environment).map_err(|error| error.to_string())?;
        let own = variables.iter().skip(environment.pairs().count());
        Ok(own.map(|one| format!("{}={}", one.name, one.value)).collect())
    }

    #[test]
    fn variables_are_those_of_argo_cd() {
        let plugin = json!({
            "env": [{"name": "A", "value": "$ARGOCD_APP_NAME-$$-$X"}, {"name": "EMPTY"}],
            "parameters": [
                {"name": "my-text", "string": "$ARGOCD_APP_NAME"},
                {"name": "é.list", "array": ["a", "b"]},
                {"name": "map", "map": {"k.1": "v"}},
                {"name": "none", "array": []},
            ],
        });
        let want = [
            "ARGOCD_ENV_A=shop-$-",
            "ARGOCD_ENV_EMPTY=",
            r#"ARGOCD_APP_PARAMETERS=[{"name":"my-text","string":"$ARGOCD_APP_NAME"},{"array":["a","b"],"name":"é.list"},{"map":{"k.1":"v"},"name":"map"},{"array":[],"name":"none"}]"#,
            "PARAM_MY_TEXT=$ARGOCD_APP_NAME",
            "PARAM___LIST_0=a",
            "PARAM___LIST_1=b",
            "PARAM_MAP_K_1=v",
        ];
        assert_eq!(of(&plugin).unwrap(), want);
        assert_eq!(of(&json!({})).unwrap(), ["ARGOCD_APP_PARAMETERS=null"]);
        assert_eq!(of(&Value::Null).unwrap(), [""; 0]);
        let wrong = [
            (json!({"env": {}}), "plugin.env: not a list"),
            (json!({"env": [{"value": "x"}]}), "plugin.env[0]: name is missing"),
            (json!({"env": [{"name": "a=b"}]}), "must not contain '='"),
            (json!({"env": [{"name": "a", "value": "x\u{0}y"}]}), "null character"),
            (json!({"env": [{"name": "a", "value": 1}]}), "plugin.env[0]: value is not a string"),
            (json!({"parameters": [{"name": "a", "map": [1]}]}), "map is not a mapping"),
            (json!({"parameters": [{"name": "a", "array": [1]}]}), "not all are strings"),
            (json!({"env": [{"name": "a", "value": "x".repeat(2 << 20)}]}), "more than"),
        ];
        for (plugin, what) in wrong {
            let error = of(&plugin).unwrap_err();
            assert!(error.contains(what), "{what}: {error}");
        }
    }
}
