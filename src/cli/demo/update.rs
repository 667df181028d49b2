//! The second commit of a demo: a rollback needs something to go back to.
//!
//! With a policy that takes changes back, the demo rolls the manifests out as they are, and then
//! a commit that gives their containers other images. Only that one fails with `--fail`. The
//! commits are in repositories of the demo: copies of the directories that the user named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube_sim::workloads::OUTCOME_ANNOTATION;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::files::replace_urls;
use super::git;
use crate::cli::files::input::is_application_set;
use wavegate_api::Raw;
use wavegate_api::policy::{OnFailure, POLICY, RolloutPolicySpec};
use wavegate_api::raw::object_at;
use wavegate_api::yaml;

/// What is appended to the tag of each image.
const NEXT: &str = "-next";

/// The repositories that get a second commit.
#[derive(Clone, Debug, Default)]
pub(super) struct SecondCommit {
    repositories: Vec<PathBuf>,
}

/// Whether a policy among the objects takes changes back.
pub(super) fn is_wanted(objects: &[Value]) -> bool {
    let mut policies = objects.iter().filter(|object| object.kind() == POLICY);
    policies.any(|policy| {
        let spec = RolloutPolicySpec::deserialize(policy.spec());
        let failures = spec.ok().and_then(|spec| spec.failures);
        failures.is_some_and(|failures| failures.on_failure == OnFailure::Rollback)
    })
}

impl SecondCommit {
    /// Copies the directories of the templates into repositories below `folder`, and commits them.
    /// Repositories of the user are left alone.
    ///
    /// # Errors
    ///
    /// A directory that cannot be copied, and `git`.
    pub fn copy(objects: &mut [Value], folder: &Path) -> anyhow::Result<Self> {
        let mut copies: BTreeMap<String, PathBuf> = BTreeMap::new();
        for set in objects.iter_mut().filter(|object| is_application_set(object)) {
            let Some(template) = set.pointer_mut("/spec/template") else { continue };
            replace_urls(template, &mut |address| {
                let path = Path::new(address.strip_prefix("file://").unwrap_or(address));
                let is_repository = path.join(".git").exists() || path.join("HEAD").exists();
                if !path.is_dir() || is_repository {
                    return Ok(None);
                }
                let number = copies.len();
                let copy = copies.entry(address.to_owned());
                let copy = copy.or_insert_with(|| folder.join(format!("copy-{number}")));
                copy_all(path, copy).with_context(|| format!("cannot copy {address}"))?;
                Ok(Some(format!("file://{}", copy.display())))
            })?;
        }
        let update = Self { repositories: copies.into_values().collect() };
        update.prepare()?;
        Ok(update)
    }

    /// For a repository of the demo.
    ///
    /// # Errors
    ///
    /// As [`copy`](Self::copy).
    pub fn of(repository: PathBuf) -> anyhow::Result<Self> {
        let update = Self { repositories: vec![repository] };
        update.prepare()?;
        Ok(update)
    }

    /// Whether nothing gets a second commit.
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
    }

    /// The first commit: its workloads succeed.
    fn prepare(&self) -> anyhow::Result<()> {
        for repository in &self.repositories {
            git::init(repository)?;
            change(repository, &mut |workload| {
                if let Some(annotations) = annotations_of(workload) {
                    annotations.insert(OUTCOME_ANNOTATION.to_owned(), "succeed".into());
                }
            })?;
            git::commit(repository, "the first images")?;
        }
        Ok(())
    }

    /// The second commit.
    ///
    /// # Errors
    ///
    /// Files that cannot be changed, and `git`.
    pub fn apply(&self) -> anyhow::Result<()> {
        for repository in &self.repositories {
            change(repository, &mut |workload| {
                if let Some(annotations) = annotations_of(workload) {
                    annotations.remove(OUTCOME_ANNOTATION);
                }
                for container in containers_of(workload) {
                    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
                    container.insert("image".to_owned(), format!("{image}{NEXT}").into());
                }
            })?;
            // Without workloads, only the revision differs.
            git::commit(repository, "the next images")?;
        }
        Ok(())
    }
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The annotations of the Pods of a workload.
fn annotations_of(workload: &mut Value) -> Option<&mut Map<String, Value>> {
    let spec = object_at(workload.as_object_mut()?, "spec")?;
    let template = object_at(spec, "template")?;
    object_at(object_at(template, "metadata")?, "annotations")
}

/// The containers of the Pods of a workload.
fn containers_of(workload: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let containers = workload.pointer_mut("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array_mut).into_iter().flatten();
    containers.filter_map(Value::as_object_mut)
}

/// Changes each Deployment, StatefulSet and DaemonSet below a directory. Files that are no
/// manifests, such as templates of charts, stay as they are.
fn change(folder: &Path, by: &mut dyn FnMut(&mut Value)) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if path.is_dir() {
            if !is_hidden {
                change(&path, by)?;
            }
            continue;
        }
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let Some(text) = is_yaml.then(|| std::fs::read_to_string(&path)).transpose()? else {
            continue;
        };
        let Ok(documents) = yaml::parse_documents(&text) else { continue };
        let mut values: Vec<Value> = documents.into_iter().map(|one| one.value).collect();
        let is_workload = |value: &&mut Value| {
            ["Deployment", "StatefulSet", "DaemonSet"].contains(&value.kind())
                && value.spec().get("template").is_some_and(Value::is_object)
        };
        let mut is_changed = false;
        for workload in values.iter_mut().filter(is_workload) {
            by(workload);
            is_changed = true;
        }
        if is_changed {
            std::fs::write(&path, yaml::to_string_all(&values)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_copy_gets_two_commits_and_the_directory_of_the_user_stays() {
        let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let manifest = "kind: Deployment\nspec: {template: {spec: {containers: [{image: 'web:1'}]}}}\n---\nkind: Service\n";
        std::fs::create_dir(own.path().join("web")).unwrap();
        std::fs::write(own.path().join("web/web.yaml"), manifest).unwrap();
        std::fs::write(own.path().join("chart.yaml"), "a: {{ .Values.a }}\n").unwrap();
        let source = json!({"repoURL": own.path().display().to_string(), "path": "web"});
        let mut objects =
            [json!({"apiVersion": wavegate_api::API_VERSION, "kind": "ApplicationSet",
            "spec": {"generators": [{"git": source}], "template": {"spec": {"source": source}}}})];
        let update = SecondCommit::copy(&mut objects, folder.path()).unwrap();
        let spec = &objects[0]["spec"];
        assert_eq!(spec["generators"][0]["git"], source, "what generators read stays");
        let copy = spec["template"]["spec"]["source"].field("repoURL").to_owned();
        let copy = Path::new(copy.strip_prefix("file://").unwrap()).join("web/web.yaml");
        let workload = || yaml::parse_documents(&std::fs::read_to_string(&copy).unwrap()).unwrap();
        let template = |at: &str| workload()[0].value["spec"]["template"].text(at).to_owned();
        let outcome = "/metadata/annotations/simulate.wavegate.dev~1outcome";
        assert_eq!((template(outcome).as_str(), workload().len()), ("succeed", 2));
        update.apply().unwrap();
        let image = template("/spec/containers/0/image");
        assert_eq!((template(outcome).as_str(), image.as_str()), ("", "web:1-next"));
        let after = std::fs::read_to_string(own.path().join("web/web.yaml")).unwrap();
        assert_eq!(after, manifest);
        // A repository belongs to the user.
        std::fs::create_dir(own.path().join(".git")).unwrap();
        objects[0]["spec"]["template"]["spec"]["source"] = source;
        assert!(SecondCommit::copy(&mut objects, folder.path()).unwrap().is_empty());
    }
}
