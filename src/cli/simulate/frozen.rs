//! An ApplicationSet that generates, by itself, what another one generates now. Pure.

use serde_json::{Map, Value, json};

use wavegate_api::Raw;
use wavegate_api::cluster::IN_CLUSTER_SERVER;
use wavegate_api::raw::object_at;
use wavegate_application::access::project_of;

#[cfg(test)]
mod tests;

/// The template of the name of an Application.
const NAME: &str = "{{ .name }}";

/// The set with these Applications in place of what its generators read and its template says.
///
/// What all of them have in common is in its template, where texts that differ are parameters; what
/// has another shape in each of them is in a patch. So it is about as large as it was written: the
/// controllers and the API server handle the whole set with each change of its status.
pub(super) fn frozen(mut set: Value, applications: &[Value]) -> Value {
    let contents: Vec<Value> = applications.iter().map(content).collect();
    let mut parameters = Parameters {
        names: applications.iter().map(|one| one.name().to_owned()).collect(),
        columns: Vec::new(),
    };
    let all: Vec<&Value> = contents.iter().collect();
    // One that generates nothing needs the fields that are required.
    let empty =
        || json!({"spec": {"project": "default", "destination": {"server": IN_CLUSTER_SERVER}}});
    let mut template = parameters.common(&all).unwrap_or_else(empty);
    if let Some(metadata) = template.as_object_mut().and_then(|all| object_at(all, "metadata")) {
        metadata.insert("name".to_owned(), NAME.into());
    }
    let rests: Vec<Option<Value>> = contents.iter().map(|one| rest(one, &template)).collect();
    let is_patched = rests.iter().any(Option::is_some);
    let element = |(index, rest): (usize, &Option<Value>)| {
        let mut element = Map::new();
        element.insert("name".to_owned(), parameters.names[index].as_str().into());
        for (number, column) in parameters.columns.iter().enumerate() {
            element.insert(parameter(number), column[index].as_str().into());
        }
        if is_patched {
            let patch = rest.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string);
            element.insert("patch".to_owned(), patch.into());
        }
        Value::Object(element)
    };
    let elements: Vec<Value> = rests.iter().enumerate().map(element).collect();
    if let Some(spec) = set.as_object_mut().and_then(|set| object_at(set, "spec")) {
        let generators = json!([{"list": {"elements": elements}}]);
        spec.insert("generators".to_owned(), generators);
        spec.insert("goTemplate".to_owned(), true.into());
        spec.insert("template".to_owned(), template);
        spec.remove("goTemplateOptions");
        spec.remove("templatePatch");
        if is_patched {
            spec.insert("templatePatch".to_owned(), "{{ .patch }}".into());
        }
    }
    set
}

/// What a set generates of an Application, but for its name.
fn content(application: &Value) -> Value {
    let kept = |field: &&str| application.get("metadata")?.get(field).filter(|one| !one.is_null());
    let kept: Map<String, Value> = ["labels", "annotations", "finalizers"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), kept(field)?.clone())))
        .collect();
    let mut spec = application.spec().clone();
    if let Some(spec) = spec.as_object_mut() {
        // No patch may set it.
        spec.insert("project".to_owned(), project_of(application).into());
    }
    json!({"metadata": kept, "spec": spec})
}

/// The name of a parameter.
fn parameter(number: usize) -> String {
    format!("p{number}")
}

/// The parameters of a template besides the name of the Application.
struct Parameters {
    names: Vec<String>,
    /// The values of each of them, one for each Application.
    columns: Vec<Vec<String>>,
}

impl Parameters {
    /// The template of what objects have in common, each of another Application; `None` when one
    /// is no object, or when there is none.
    fn common(&mut self, values: &[&Value]) -> Option<Value> {
        let first = values.first()?.as_object()?;
        values.iter().all(|value| value.is_object()).then_some(())?;
        let mut template = Map::new();
        for key in first.keys().filter(|key| !is_template(key)) {
            let fields: Option<Vec<&Value>> = values.iter().map(|value| value.get(key)).collect();
            let Some(fields) = fields else { continue };
            if let Some(field) = self.whole(&fields).or_else(|| self.common(&fields)) {
                template.insert(key.clone(), field);
            }
        }
        Some(template.into())
    }

    /// The template of values as a whole, each of another Application; `None` when a part of them
    /// needs a patch.
    fn whole(&mut self, values: &[&Value]) -> Option<Value> {
        let first = *values.first()?;
        if values.iter().all(|value| *value == first) {
            return literal(first);
        }
        let known = self.columns.len();
        let found = match first {
            Value::String(_) => self.text(values),
            Value::Array(items) => {
                let length = items.len();
                let of = |list: &&Value| list.as_array().is_some_and(|list| list.len() == length);
                let is_alike = values.iter().all(of);
                let mut item = |index: usize| {
                    let items: Vec<&Value> = values.iter().map(|list| &list[index]).collect();
                    self.whole(&items)
                };
                let items =
                    is_alike.then(|| (0..length).map(&mut item).collect::<Option<Vec<_>>>());
                items.flatten().map(Value::Array)
            }
            Value::Object(fields) => {
                let count = fields.len();
                let of = |one: &&Value| one.as_object().is_some_and(|one| one.len() == count);
                let is_alike = values.iter().all(of) && !fields.keys().any(|key| is_template(key));
                let mut field = |key: &String| {
                    let fields: Option<Vec<&Value>> =
                        values.iter().map(|value| value.get(key)).collect();
                    Some((key.clone(), self.whole(&fields?)?))
                };
                let fields =
                    is_alike.then(|| fields.keys().map(&mut field).collect::<Option<Map<_, _>>>());
                fields.flatten().map(Value::Object)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        };
        if found.is_none() {
            self.columns.truncate(known);
        }
        found
    }

    /// The template of texts that differ.
    fn text(&mut self, values: &[&Value]) -> Option<Value> {
        let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
        let texts: Vec<String> = texts.collect::<Option<_>>()?;
        if texts == self.names {
            return Some(NAME.into());
        }
        let known = self.columns.iter().position(|column| *column == texts);
        let number = known.unwrap_or_else(|| {
            self.columns.push(texts);
            self.columns.len() - 1
        });
        Some(format!("{{{{ .{} }}}}", parameter(number)).into())
    }
}

/// Whether a text of a template is more than a text.
fn is_template(text: &str) -> bool {
    text.contains("{{")
}

/// The template that gives a value as it is; `None` when there is none: a template drops null.
fn literal(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Null => return None,
        // A text in JSON is one in Go as well.
        Value::String(text) if is_template(text) => format!("{{{{ {value} }}}}").into(),
        Value::Array(items) => items.iter().map(literal).collect::<Option<Vec<_>>>()?.into(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                let value = literal(value).filter(|_| !is_template(key))?;
                Some((key.clone(), value))
            };
            fields.iter().map(field).collect::<Option<Map<_, _>>>()?.into()
        }
        plain => plain.clone(),
    })
}

/// What the template of an Application lacks.
fn rest(value: &Value, template: &Value) -> Option<Value> {
    let (Value::Object(fields), Value::Object(known)) = (value, template) else { return None };
    let field = |(key, value): (&String, &Value)| {
        let rest = match known.get(key) {
            None => Some(value.clone()),
            Some(known) => rest(value, known),
        };
        Some((key.clone(), rest?))
    };
    let rest: Map<String, Value> = fields.iter().filter_map(field).collect();
    (!rest.is_empty()).then(|| rest.into())
}
