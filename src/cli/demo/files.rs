//! The user's own ApplicationSets for the demo: read, completed and validated. Their
//! sources must be local, since the demo does not use the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::cluster::block_on;
use crate::cli::console::error::{Error, fault};
use crate::cli::files::facts::GeneratorFacts;
use crate::cli::files::fields;
use crate::cli::files::generate;
use crate::cli::files::input::{self, FileObject, is_application_set, is_policy};
use crate::cli::files::validation;
use wavegate_api::raw::edit_metadata;
use wavegate_api::sources::InEffect;
use wavegate_api::{self as api, Application, Raw};
use wavegate_controller::settings::CONTROL_PLANE_NAMESPACE;
use wavegate_rollout::desired::Generation;
use wavegate_rollout::desired::inputs::Inputs;

/// What fails with sets that cannot be used beside each other.
const WRONG: &str = "cannot use the ApplicationSets";

/// Reads the files: the control plane's namespace, the objects to create, and what the
/// generators read.
///
/// # Errors
///
/// Files that cannot be read or contain neither an ApplicationSet nor a RolloutPolicy, unknown fields
/// and invalid values, sets in several namespaces or that cannot be generated, and sources that are
/// not local.
pub(super) fn load(files: &[PathBuf]) -> anyhow::Result<(String, Vec<Value>, Inputs)> {
    let mut objects = input::objects(files)?;
    let shown = files.iter().map(|file| input::shown(file)).collect::<Vec<_>>().join(", ");
    let is_of_use =
        |object: &FileObject| is_application_set(&object.value) || is_policy(&object.value);
    if !objects.iter().any(is_of_use) {
        let why = format!(
            "{}; a file with nothing but RolloutPolicies is for the set of the demo",
            input::without_set(&objects)
        );
        return Err(Error::input("cannot find an ApplicationSet", shown, why).into());
    }
    block_on(validation::check(&objects))?;
    let namespaces: BTreeSet<String> = objects
        .iter()
        .filter(|object| is_application_set(&object.value))
        .map(|object| namespace_of(&object.value).unwrap_or(CONTROL_PLANE_NAMESPACE).to_owned())
        .collect();
    let namespace = match Vec::from_iter(namespaces).as_slice() {
        [] => CONTROL_PLANE_NAMESPACE.to_owned(),
        [one] => one.clone(),
        several => {
            let why = format!(
                "they are in namespaces {}; the demo supports one namespace",
                several.join(" and ")
            );
            return Err(Error::input(WRONG, shown, why).into());
        }
    };
    let here = std::env::current_dir().context("cannot determine the current directory")?;
    for object in &mut objects {
        let folder = Path::new(&object.file).parent().unwrap_or(Path::new(""));
        let folder = here.join(folder);
        input::clean(&mut object.value);
        set_default_namespace(&mut object.value, &namespace);
        if fields::api_version(&object.value) == api::API_VERSION {
            replace_urls(&mut object.value, &mut |url| Ok(resolved(url, &folder)))?;
        }
    }
    let values = objects.iter().map(|object| &object.value);
    let mut facts = GeneratorFacts::of_objects(values, Inputs::default(), &namespace);
    check(&objects, &mut facts)?;
    let inputs = facts.inputs().clone();
    Ok((namespace, objects.into_iter().map(|object| object.value).collect(), inputs))
}

fn namespace_of(object: &Value) -> Option<&str> {
    Some(object.namespace()).filter(|namespace| !namespace.is_empty())
}

/// Sets the control plane's namespace on objects of our kinds without a namespace.
fn set_default_namespace(object: &mut Value, namespace: &str) {
    let is_ours = fields::api_version(object) == api::API_VERSION || is_policy(object);
    if is_ours && namespace_of(object).is_none() {
        edit_metadata(object, |metadata| {
            metadata.insert("namespace".to_owned(), namespace.into());
        });
    }
}

/// Replaces the addresses of repositories, at any depth.
pub(super) fn replace_urls(
    value: &mut Value,
    by: &mut dyn FnMut(&str) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    match value {
        Value::Array(list) => list.iter_mut().try_for_each(|value| replace_urls(value, by)),
        Value::Object(map) => map.iter_mut().try_for_each(|(key, value)| match value {
            Value::String(text) if key == "repoURL" => {
                if let Some(other) = by(text)? {
                    *text = other;
                }
                Ok(())
            }
            value => replace_urls(value, by),
        }),
        _ => Ok(()),
    }
}

/// The absolute path for an address that is relative to the directory of its file.
fn resolved(url: &str, folder: &Path) -> Option<String> {
    let path = relative(url)?;
    Some(plain(&folder.join(path)).display().to_string())
}

/// The path of a relative address.
fn relative(address: &str) -> Option<&str> {
    let path = address.strip_prefix("file://").unwrap_or(address);
    let is_relative =
        path == "." || path == ".." || path.starts_with("./") || path.starts_with("../");
    is_relative.then_some(path)
}

/// Normalizes a path without accessing the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Rejects objects that the demo cannot use. A name that two sets generate is wrong wherever they
/// are used, so that it is said before a source that the demo cannot read.
fn check(objects: &[FileObject], facts: &mut GeneratorFacts) -> anyhow::Result<()> {
    let mut generations = Vec::new();
    for object in objects.iter().filter(|object| is_application_set(&object.value)) {
        generations.push((object, generate(object, facts)?));
    }
    check_names(&generations)?;
    for (object, generation) in &generations {
        for application in &generation.applications {
            let name = application.name();
            let Err(why) = check_sources(application) else { continue };
            // The rollout, which would say what is wrong wherever it runs, does not begin.
            for (name, why) in generate::invalid(generation) {
                fault(&Error::check(
                    "invalid Application",
                    object.described(),
                    format!("{name}: {why}"),
                ));
            }
            return Err(wrong(
                object,
                "cannot use the source",
                format!("Application {name}: {why}"),
            ));
        }
    }
    for object in objects.iter().filter(|object| object.value.kind() == Application::KIND) {
        check_sources(&object.value).map_err(|why| wrong(object, "cannot use the source", why))?;
    }
    Ok(())
}

fn wrong(object: &FileObject, what: &str, why: String) -> anyhow::Error {
    anyhow::Error::from(Error::input(what, object.described(), why))
}

/// What a set generates, from local repositories.
fn generate(set: &FileObject, facts: &mut GeneratorFacts) -> anyhow::Result<Generation> {
    api::read_typed::<api::ApplicationSet>(&set.value)
        .map_err(|error| wrong(set, "cannot read", error.to_string()))?;
    replace_urls(&mut fields::generators_of(&set.value).clone(), &mut |address| {
        let checked = if address.contains("{{") { Ok(()) } else { check_repository(address) };
        checked.map(|()| None).map_err(|why| wrong(set, "cannot use the generator", why))
    })?;
    let generated = block_on(async { Ok(facts.generate(&set.value).await) })?;
    Ok(generated.map_err(|error| Error::check("cannot generate", set.described(), error))?)
}

/// Whether each set is there once, and each Application is generated by one of them.
fn check_names(generations: &[(&FileObject, Generation)]) -> Result<(), Error> {
    let mut owners = BTreeMap::new();
    let mut sets = BTreeSet::new();
    for (object, generation) in generations {
        let set = object.value.name();
        if !sets.insert(set) {
            return Err(Error::input(WRONG, object.described(), "it is given twice"));
        }
        for application in &generation.applications {
            let name = application.name();
            if let Some(other) = owners.insert(name, set).filter(|other| *other != set) {
                return Err(generate::of_two_sets(WRONG, name, [other, set]));
            }
        }
    }
    Ok(())
}

/// Whether all sources of an Application are local.
fn check_sources(application: &Value) -> Result<(), String> {
    for source in InEffect::of(application.spec()).list.iter() {
        check_repository(source.field("repoURL"))?;
    }
    Ok(())
}

/// Whether the address of a repository is local.
fn check_repository(address: &str) -> Result<(), String> {
    let shown = wavegate_net::redact::redact_url(address);
    let path = address.strip_prefix("file://").unwrap_or(address);
    if relative(address).is_some() {
        return Err(format!(
            "repoURL {shown}: a relative path is understood only where the template has it as it is; \
             write it as an absolute path"
        ));
    }
    if !path.starts_with('/') {
        return Err(format!(
            "repoURL {shown}: the demo uses no network; use a local directory or repository, such as \
             file:///path, /path or ./path"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn relative_addresses_are_relative_to_their_file() {
        let cases = [
            ("./fleet", "/home/me/sets/fleet"),
            ("../fleet", "/home/me/fleet"),
            (".", "/home/me/sets"),
            ("file://./fleet", "/home/me/sets/fleet"),
            ("file:///srv/fleet", "file:///srv/fleet"),
            ("/srv/fleet", "/srv/fleet"),
            ("https://host/team/fleet", "https://host/team/fleet"),
            ("{{.repo}}", "{{.repo}}"),
        ];
        for (written, want) in cases {
            let mut value = json!({"spec": {"sources": [{"repoURL": written, "path": "./x"}]}});
            let folder = Path::new("/home/me/sets");
            replace_urls(&mut value, &mut |url| Ok(resolved(url, folder))).unwrap();
            assert_eq!(value["spec"]["sources"][0]["repoURL"], want, "{written}");
            assert_eq!(value["spec"]["sources"][0]["path"], "./x", "only addresses change");
        }
    }

    #[test]
    fn sources_must_be_local() {
        let cases = [
            (json!({"source": {"repoURL": "file:///srv/fleet"}}), None),
            (json!({"source": {"repoURL": "/srv/fleet"}}), None),
            (
                json!({"source": {"repoURL": "https://user:secret@host/fleet"}}),
                Some("https://***@host/fleet: the demo"),
            ),
            (
                json!({"sources": [{"repoURL": "/a"}, {"repoURL": "git@host:fleet"}]}),
                Some("git@host:fleet"),
            ),
            (json!({"source": {"repoURL": "./fleet"}}), Some("absolute path")),
            (json!({}), Some("no network")),
        ];
        for (spec, want) in cases {
            let outcome = check_sources(&json!({"spec": spec}));
            match want {
                None => assert_eq!(outcome, Ok(()), "{spec}"),
                Some(want) => {
                    let why = outcome.unwrap_err();
                    assert!(why.contains(want) && !why.contains("secret"), "{spec}: {why}");
                }
            }
        }
    }
}
