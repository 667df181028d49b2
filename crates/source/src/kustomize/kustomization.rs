//! The `kustomize` block of a source: edits of its kustomization, as `kustomize edit` makes
//! them for Argo CD. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::render::build_environment::BuildEnvironment;
use wavegate_api::read_leniently;

/// Longest list of a block.
const MAX_ITEMS: usize = 10_000;

/// The `kustomize` block of a source.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Block {
    pub name_prefix: String,
    pub name_suffix: String,
    pub images: Vec<String>,
    pub common_labels: BTreeMap<String, String>,
    pub common_annotations: BTreeMap<String, String>,
    pub common_annotations_envsubst: bool,
    pub force_common_labels: bool,
    pub force_common_annotations: bool,
    pub label_without_selector: bool,
    pub label_include_templates: bool,
    pub namespace: String,
    pub replicas: Vec<Replicas>,
    pub patches: Vec<Value>,
    pub components: Vec<String>,
    pub ignore_missing_components: bool,
    pub version: String,
    pub kube_version: String,
    pub api_versions: Vec<String>,
}

/// An entry of `replicas`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Replicas {
    name: String,
    count: Value,
}

impl Block {
    /// Reads the block of a source.
    ///
    /// # Errors
    ///
    /// What is not supported, or of another type.
    pub(crate) fn of(source: &Value) -> Result<Self, String> {
        let Some(fields) = source.get("kustomize").and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        // As in Go, null is as absent.
        let given = fields.iter().filter(|(_, value)| !value.is_null());
        let given: Map<String, Value> = given.map(|(k, v)| (k.clone(), v.clone())).collect();
        let block = match Self::deserialize(&given) {
            Ok(block) => block,
            Err(error) => return Err(Self::problem(given).unwrap_or_else(|| error.to_string())),
        };
        let items = [block.images.len(), block.replicas.len(), block.patches.len()];
        if items.into_iter().chain([block.components.len()]).any(|count| count > MAX_ITEMS) {
            return Err(format!("kustomize: a list has more than {MAX_ITEMS} items"));
        }
        Ok(block)
    }

    /// What is wrong with a field: they are read one by one, so that the error names it.
    fn problem(given: Map<String, Value>) -> Option<String> {
        given.into_iter().find_map(|(field, value)| {
            let one = Map::from_iter([(field.clone(), value)]);
            let error = Self::deserialize(one).err()?.to_string();
            Some(match error.starts_with("unknown field") {
                true => format!("kustomize.{field} is not supported; remove it"),
                false => format!("kustomize.{field}: {error}"),
            })
        })
    }

    /// Whether the kustomization is edited.
    pub(crate) fn edits(&self) -> bool {
        let texts = [&self.name_prefix, &self.name_suffix, &self.namespace];
        texts.into_iter().any(|text| !text.is_empty())
            || !(self.images.is_empty()
                && self.common_labels.is_empty()
                && self.common_annotations.is_empty()
                && self.replicas.is_empty()
                && self.patches.is_empty()
                && self.components.is_empty())
    }

    /// Edits a kustomization. `components` are those of the block that exist.
    ///
    /// # Errors
    ///
    /// What cannot be edited, and why.
    pub(crate) fn edit(
        &self,
        kustomization: &mut Value,
        environment: &BuildEnvironment,
        components: &[String],
    ) -> Result<(), String> {
        let Some(fields) = kustomization.as_object_mut() else {
            return Err("the kustomization is not a mapping".to_owned());
        };
        for (field, text) in [("namePrefix", &self.name_prefix), ("nameSuffix", &self.name_suffix)]
        {
            if !text.is_empty() {
                *field_of(fields, field) = text.as_str().into();
            }
        }
        if !self.images.is_empty() {
            if let Some(old) = remove_field(fields, "imageTags") {
                *field_of(fields, "images") = old;
            }
            self.edit_images(field_of(fields, "images"), environment)?;
        }
        if !self.replicas.is_empty() {
            self.edit_replicas(field_of(fields, "replicas"))?;
        }
        if self.label_include_templates
            && !self.label_without_selector
            && !self.common_labels.is_empty()
        {
            return Err("kustomize.labelIncludeTemplates needs labelWithoutSelector, too: \
                        --without-selector flag must be specified for --include-templates to work"
                .to_owned());
        }
        if !self.common_labels.is_empty() {
            let labels = self.common_labels.iter();
            let labels = labels.map(|(key, value)| (key.clone(), environment.expand(value)));
            let into = match self.label_without_selector {
                true => self.labels(field_of(fields, "labels"))?,
                false => field_of(fields, "commonLabels"),
            };
            add(into, ("label", "kustomize.commonLabels"), labels, self.force_common_labels)?;
        }
        if !self.common_annotations.is_empty() {
            let given = self.common_annotations.iter().map(|(key, value)| {
                let value = match self.common_annotations_envsubst {
                    true => environment.expand(value),
                    false => value.clone(),
                };
                (key.clone(), value)
            });
            let names = ("annotation", "kustomize.commonAnnotations");
            let into = field_of(fields, "commonAnnotations");
            add(into, names, given, self.force_common_annotations)?;
        }
        if !self.namespace.is_empty() {
            *field_of(fields, "namespace") = self.namespace.as_str().into();
        }
        if !self.patches.is_empty() {
            let list = list(field_of(fields, "patches"), "patches")?;
            for (index, patch) in self.patches.iter().enumerate() {
                list.push(patch_of(patch, index)?);
            }
        }
        if !components.is_empty() {
            let list = list(field_of(fields, "components"), "components")?;
            let known = list.iter().filter_map(Value::as_str).map(str::to_owned);
            let mut known: BTreeSet<String> = known.collect();
            for component in components {
                if known.insert(component.clone()) {
                    list.push(component.as_str().into());
                }
            }
        }
        Ok(())
    }

    fn edit_images(&self, field: &mut Value, environment: &BuildEnvironment) -> Result<(), String> {
        let mut images = BTreeMap::new();
        for (index, text) in self.images.iter().enumerate() {
            let text = environment.expand(text);
            let image = Image::parse(&text).ok_or_else(|| {
                format!(
                    "kustomize.images[{index}]: {text:?}: invalid format of image, use one of the \
                     following options: <image>=<newimage>:<newtag>, <image>=<newimage>@<digest>, \
                     <image>=<newimage>:<newtag>@<digest>, <image>=<newimage>, <image>:<newtag>, \
                     <image>:<newtag>@<digest>, <image>@<digest>"
                )
            })?;
            images.insert(image.name.clone(), image);
        }
        for known in list(field, "images")?.drain(..) {
            let Image { name, new_name, new_tag, digest, .. } = read_leniently(&known);
            let Some(image) = images.get_mut(&name) else {
                images.insert(name, Image { other: Some(known), ..Image::default() });
                continue;
            };
            // An asterisk keeps what is there.
            let parts = [
                (&mut image.new_name, new_name),
                (&mut image.new_tag, new_tag),
                (&mut image.digest, digest),
            ];
            for (part, own) in parts {
                if part == "*" {
                    *part = own;
                }
            }
        }
        *field = images.into_values().map(Image::into_value).collect();
        Ok(())
    }

    fn edit_replicas(&self, field: &mut Value) -> Result<(), String> {
        let mut all = BTreeMap::new();
        for known in list(field, "replicas")?.drain(..) {
            let Image { name, .. } = read_leniently(&known);
            all.insert(name, known);
        }
        for (index, Replicas { name, count }) in self.replicas.iter().enumerate() {
            let number = match count {
                Value::String(text) => text.parse::<i64>().ok(),
                count => count.as_i64(),
            };
            let number = number.filter(|number| *number >= 0).ok_or_else(|| {
                let shown: String = count.to_string().chars().take(80).collect();
                format!(
                    "kustomize.replicas[{index}].count: expected integer value for count. \
                     Received: {shown}"
                )
            })?;
            if name.is_empty() || name.contains('=') {
                return Err(format!("kustomize.replicas[{index}].name: {name:?} is not a name"));
            }
            all.insert(name.clone(), json!({"name": name, "count": number}));
        }
        *field = all.into_values().collect();
        Ok(())
    }

    /// The labels that are added without selectors.
    fn labels<'a>(&self, field: &'a mut Value) -> Result<&'a mut Value, String> {
        let list = list(field, "labels")?;
        let fits = |entry: &Value| {
            let LabelSwitches { include_selectors, include_templates } = read_leniently(entry);
            !include_selectors && include_templates == self.label_include_templates
        };
        let at = list.iter().position(fits).unwrap_or_else(|| {
            list.push(match self.label_include_templates {
                true => json!({"pairs": {}, "includeTemplates": true}),
                false => json!({"pairs": {}}),
            });
            list.len() - 1
        });
        match list[at].as_object_mut() {
            Some(entry) => Ok(field_of(entry, "pairs")),
            None => Err(format!("labels[{at}] of the kustomization is not a mapping")),
        }
    }
}

/// To what else the labels of an entry of `labels` are added.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LabelSwitches {
    include_selectors: bool,
    include_templates: bool,
}

/// An entry of `images`; one of `replicas` has a name, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Image {
    name: String,
    new_name: String,
    new_tag: String,
    digest: String,
    /// An entry that stays as it is.
    #[serde(skip)]
    other: Option<Value>,
}

impl Image {
    /// Reads an override in one of the forms of `kustomize edit set image`: `[NAME=]IMAGE`, of
    /// which a part is given besides the name of the image itself.
    fn parse(text: &str) -> Option<Self> {
        let (name, new) = match text.split_once('=') {
            Some((name, new)) => (Some(name), new),
            None => (None, text),
        };
        // A port of the registry is no tag.
        let host = new.find('/').filter(|end| *end > 0).unwrap_or(0);
        let (tagged, digest) = match new[host..].find('@') {
            Some(at) => (&new[..host + at], &new[host + at + 1..]),
            None => (new, ""),
        };
        let (image, tag) = match tagged[host..].find(':') {
            Some(at) => (&tagged[..host + at], &tagged[host + at + 1..]),
            None => (tagged, ""),
        };
        if image == text {
            return None;
        }
        let (name, new_name) = match name {
            Some(name) if !name.is_empty() => (name, image),
            _ => (image, ""),
        };
        Some(Self {
            name: name.to_owned(),
            new_name: new_name.to_owned(),
            new_tag: tag.to_owned(),
            digest: digest.to_owned(),
            other: None,
        })
    }

    fn into_value(self) -> Value {
        if let Some(other) = self.other {
            return other;
        }
        let mut fields = Map::from_iter([("name".to_owned(), Value::from(self.name))]);
        let parts = [("newName", self.new_name), ("newTag", self.new_tag), ("digest", self.digest)];
        for (field, text) in parts {
            if !text.is_empty() && text != "*" {
                fields.insert(field.to_owned(), text.into());
            }
        }
        Value::Object(fields)
    }
}

/// A patch with the fields that Argo CD knows.
fn patch_of(patch: &Value, index: usize) -> Result<Value, String> {
    let Some(fields) = patch.as_object() else {
        return Err(format!("kustomize.patches[{index}] is not a mapping"));
    };
    let known = ["path", "patch", "target", "options"];
    if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(format!("kustomize.patches[{index}].{field} is not supported; remove it"));
    }
    let is_given = |value: &Value| !value.is_null() && value != "";
    let given = fields.iter().filter(|(_, value)| is_given(value));
    Ok(Value::Object(given.map(|(field, value)| (field.clone(), value.clone())).collect()))
}

/// Adds names with their values; one that is there is replaced only with `force`.
fn add(
    field: &mut Value,
    (kind, at): (&str, &str),
    given: impl Iterator<Item = (String, String)>,
    force: bool,
) -> Result<(), String> {
    if field.is_null() {
        *field = json!({});
    }
    let Some(fields) = field.as_object_mut() else {
        return Err(format!("{at}: the {kind}s of the kustomization are not a mapping"));
    };
    for (key, value) in given {
        if !force && fields.contains_key(&key) {
            let switch = match kind {
                "label" => "forceCommonLabels",
                _ => "forceCommonAnnotations",
            };
            return Err(format!(
                "{at}: {kind} {key} already in kustomization file; set kustomize.{switch} to \
                 replace it"
            ));
        }
        fields.insert(key, value.into());
    }
    Ok(())
}

fn list<'a>(field: &'a mut Value, name: &str) -> Result<&'a mut Vec<Value>, String> {
    if field.is_null() {
        *field = json!([]);
    }
    let expected = || format!("expected '{name}' field in kustomization.yaml to be a list");
    field.as_array_mut().ok_or_else(expected)
}

/// A field under its own name, whatever its spelling was.
fn field_of<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Value {
    if !fields.contains_key(name)
        && let Some(value) = remove_field(fields, name)
    {
        fields.insert(name.to_owned(), value);
    }
    fields.entry(name).or_insert(Value::Null)
}

/// Removes a field; the case of its name does not matter, as in Go.
fn remove_field(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let wanted = crate::kustomize::remote::folded(name);
    let found =
        fields.keys().find(|field| crate::kustomize::remote::folded(field) == wanted).cloned();
    found.and_then(|field| fields.remove(&field))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-037: the forms of `kustomize edit set image`, and what they set: name, new name, tag
    /// and digest.
    #[test]
    fn images_are_read_as_kustomize_reads_them_se_037() {
        let cases = [
            ("web:2", Some(["web", "", "2", ""])),
            ("web@sha256:0a", Some(["web", "", "", "sha256:0a"])),
            ("web:2@sha256:0a", Some(["web", "", "2", "sha256:0a"])),
            ("web=other", Some(["web", "other", "", ""])),
            ("web=a.b:5000/c", Some(["web", "a.b:5000/c", "", ""])),
            ("web=a.b:5000/c:2@sha256:0a", Some(["web", "a.b:5000/c", "2", "sha256:0a"])),
            ("a.b:5000/web:2", Some(["a.b:5000/web", "", "2", ""])),
            ("web=*:2", Some(["web", "*", "2", ""])),
            ("web:*", Some(["web", "", "*", ""])),
            ("web", None),
            ("a.b:5000/web", None),
            ("", None),
        ];
        for (text, want) in cases {
            let image = Image::parse(text);
            let found = image.as_ref().map(|image| {
                [&image.name, &image.new_name, &image.new_tag, &image.digest].map(String::as_str)
            });
            assert_eq!(found, want, "{text}");
        }
    }
}
