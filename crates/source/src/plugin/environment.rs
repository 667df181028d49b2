//! The environment of a plugin: the build environment, and what the source sets.

use serde_json::{Map, Value};

use super::super::build_environment::BuildEnvironment;
use super::super::manifests::RenderError;
use super::protocol::EnvEntry;

/// Most bytes of all names and values: a program gets no larger environment.
const MAX_BYTES: usize = 1 << 20;

/// The variables in the order of Argo CD: those of the build environment, `ARGOCD_ENV_…` of
/// `plugin.env`, with names of the build environment replaced, and the parameters.
pub(super) fn variables(
    source: &Value,
    environment: &BuildEnvironment,
) -> Result<Vec<EnvEntry>, RenderError> {
    let entry = |(name, value): (String, String)| EnvEntry { name, value };
    let pairs = environment.pairs().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut variables: Vec<EnvEntry> = pairs.map(entry).collect();
    let plugin = &source["plugin"];
    if plugin.is_object() {
        for (index, item) in list(plugin, "env")?.iter().enumerate() {
            let at = |what: &str| wrong(&format!("env[{index}]: {what}"));
            let name = item["name"].as_str().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| at("name is missing"))?;
            let value = match &item["value"] {
                Value::Null => "",
                Value::String(text) => text,
                _ => return Err(at("value is not a string")),
            };
            let value = environment.expand(value);
            variables.push(entry((format!("ARGOCD_ENV_{name}"), value)));
        }
        variables.extend(parameters(plugin)?.into_iter().map(entry));
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
fn parameters(plugin: &Value) -> Result<Vec<(String, String)>, RenderError> {
    let (mut all, mut variables) = (Vec::new(), Vec::new());
    let given = list(plugin, "parameters")?;
    for (index, item) in given.iter().enumerate() {
        let at = |what: &str| wrong(&format!("parameters[{index}]: {what}"));
        let name = match &item["name"] {
            Value::Null => "",
            Value::String(name) => name,
            _ => return Err(at("name is not a string")),
        };
        let variable = format!("PARAM_{}", escaped(name));
        let mut parameter = Map::new();
        match &item["array"] {
            Value::Null => {}
            Value::Array(values) => {
                for (position, value) in values.iter().enumerate() {
                    let text = value.as_str().ok_or_else(|| at("array: not all are strings"))?;
                    variables.push((format!("{variable}_{position}"), text.to_owned()));
                }
                parameter.insert("array".to_owned(), item["array"].clone());
            }
            _ => return Err(at("array is not a list")),
        }
        match &item["map"] {
            Value::Null => {}
            Value::Object(values) => {
                for (key, value) in values {
                    let text = value.as_str().ok_or_else(|| at("map: not all are strings"))?;
                    variables.push((format!("{variable}_{}", escaped(key)), text.to_owned()));
                }
                parameter.insert("map".to_owned(), item["map"].clone());
            }
            _ => return Err(at("map is not a mapping")),
        }
        parameter.insert("name".to_owned(), name.into());
        match &item["string"] {
            Value::Null => {}
            Value::String(text) => {
                variables.push((variable, text.clone()));
                parameter.insert("string".to_owned(), item["string"].clone());
            }
            _ => return Err(at("string is not a string")),
        }
        all.push(Value::Object(parameter));
    }
    let all = match plugin["parameters"].is_null() {
        true => Value::Null,
        false => Value::Array(all),
    };
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

fn list<'v>(plugin: &'v Value, field: &str) -> Result<&'v [Value], RenderError> {
    match &plugin[field] {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(wrong(&format!("{field}: not a list"))),
    }
}

fn wrong(what: &str) -> RenderError {
    RenderError::Source { reason: format!("plugin.{what}; correct the source") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::render_for::RenderFor;
    use super::*;

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
