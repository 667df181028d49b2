//! Fixtures of the demo: the initial objects, and the repository with their manifests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::update::{self, SecondCommit};
use super::{files, git};
use crate::cli::console::error::Error;
use crate::cli::files::input::{is_application_set, is_policy};
use crate::cli::rollout_view::steps;
use wavegate_api::annotations::{self, annotation_of};
use wavegate_api::raw::edit_metadata;
use wavegate_api::yaml;
use wavegate_api::{AppProject, Application, ApplicationSet, Raw};
use wavegate_controller::settings::CONTROL_PLANE_NAMESPACE;
use wavegate_rollout::desired::inputs::Inputs;

const SET: &str = include_str!("../../../examples/demo/applicationset.yaml");
const PROJECT: &str = include_str!("../../../examples/demo/project.yaml");
/// The manifests of one Application, by file name.
const MANIFESTS: [(&str, &str); 5] = [
    ("1-migrate.yaml", include_str!("../../../examples/demo/manifests/1-migrate.yaml")),
    ("2-config.yaml", include_str!("../../../examples/demo/manifests/2-config.yaml")),
    ("3-web.yaml", include_str!("../../../examples/demo/manifests/3-web.yaml")),
    ("4-ingress.yaml", include_str!("../../../examples/demo/manifests/4-ingress.yaml")),
    ("5-smoke-test.yaml", include_str!("../../../examples/demo/manifests/5-smoke-test.yaml")),
];
/// Placeholder for the address of the repository, in the set.
const REPOSITORY: &str = "/REPOSITORY";
/// Placeholder for the name of the Application, in the manifests.
const APPLICATION: &str = "APPLICATION";

/// The initial objects and their directory.
#[derive(Debug)]
pub(super) struct Fixtures {
    /// Removed when dropped.
    pub folder: tempfile::TempDir,
    /// The namespace of the control plane.
    pub namespace: String,
    /// Objects to create, in this order; ApplicationSets last.
    pub objects: Vec<Value>,
    /// Names of all generated Applications.
    pub applications: BTreeSet<String>,
    /// What the generators read.
    pub inputs: Inputs,
    /// Whether there are policies or a pause, so that people may have to act.
    pub has_policies: bool,
    /// The commit that follows when all is rolled out.
    pub update: SecondCommit,
}

impl Fixtures {
    /// Creates the demo's own fixtures, or those of the user's files.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or are not supported by the demo; a directory or a
    /// repository that cannot be created.
    pub fn make(files: &[PathBuf]) -> anyhow::Result<Self> {
        // First, so that there is nothing to clean up while it waits for standard input.
        let own = if files.is_empty() { None } else { Some(files::load(files)?) };
        let folder = tempfile::Builder::new()
            .prefix("wavegate-demo-")
            .tempdir()
            .context("cannot create a temporary directory")?;
        let (namespace, mut objects, inputs) = own
            .unwrap_or_else(|| (CONTROL_PLANE_NAMESPACE.to_owned(), Vec::new(), Inputs::default()));
        let has_policies = objects.iter().any(|object| {
            is_policy(object) || annotation_of(object, annotations::PAUSED).is_some()
        });
        let goes_back = update::is_wanted(&objects);
        let update = if objects.iter().any(is_application_set) {
            match goes_back {
                true => SecondCommit::copy(&mut objects, folder.path())?,
                false => SecondCommit::default(),
            }
        } else {
            let repository = folder.path().join("repository");
            objects.push(own_set(&repository)?);
            if goes_back { SecondCommit::of(repository)? } else { SecondCommit::default() }
        };
        let mut applications = BTreeSet::new();
        for set in objects.iter().filter(|object| is_application_set(object)) {
            let name = set.name();
            let generated = steps::generated(set, &inputs, Timestamp::now()).map_err(|error| {
                Error::check("cannot generate", format!("ApplicationSet {name}"), error)
            })?;
            applications.extend(generated.into_keys());
        }
        let mut world =
            Self { folder, namespace, objects, applications, inputs, has_policies, update };
        world.complete();
        Ok(world)
    }

    /// Adds missing namespaces and the project `default`.
    fn complete(&mut self) {
        let namespace = self.namespace.clone();
        let is_default = |object: &&Value| {
            object.kind() == AppProject::KIND
                && object.name() == "default"
                && object.namespace() == namespace
        };
        if !self.objects.iter().any(|object| is_default(&object)) {
            let mut project = yaml::parse_value(PROJECT).unwrap_or_default();
            edit_metadata(&mut project, |metadata| {
                metadata.insert("namespace".to_owned(), namespace.as_str().into());
            });
            self.objects.push(project);
        }
        let mut needed: BTreeSet<String> = self
            .objects
            .iter()
            .filter_map(|object| object.pointer("/metadata/namespace")?.as_str())
            .map(str::to_owned)
            .collect();
        needed.insert(namespace);
        for object in self.objects.iter().filter(|object| object.kind() == "Namespace") {
            needed.remove(object.name());
        }
        needed.remove("default");
        let namespaces = needed.into_iter().map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        self.objects.extend(namespaces);
        self.objects.sort_by_key(|object| match object.kind() {
            "Namespace" => 0,
            "CustomResourceDefinition" => 1,
            AppProject::KIND => 2,
            ApplicationSet::KIND => 5,
            Application::KIND => 4,
            _ => 3,
        });
    }

    /// Validates the names of Applications whose workloads should fail.
    ///
    /// # Errors
    ///
    /// A name that does not exist.
    pub fn check_failing(&self, failing: &[String]) -> Result<BTreeSet<String>, Error> {
        for name in failing {
            if !self.applications.contains(name) {
                let known: Vec<&str> = self.applications.iter().map(String::as_str).collect();
                let why = format!("Application not found; available: {}", known.join(", "));
                return Err(Error::input("--fail", name, why));
            }
        }
        Ok(failing.iter().cloned().collect())
    }
}

/// The demo's own ApplicationSet; creates its repository.
fn own_set(repository: &Path) -> anyhow::Result<Value> {
    let address = repository.display().to_string();
    let set = yaml::parse_value(SET).context("the demo's own ApplicationSet")?;
    let set = replace(set, REPOSITORY, &address);
    let generated = steps::generated(&set, &Inputs::default(), Timestamp::now())
        .context("the demo's own ApplicationSet")?;
    for application in generated.keys() {
        let directory = repository.join("apps").join(application);
        std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {address}"))?;
        for (name, text) in MANIFESTS {
            std::fs::write(directory.join(name), text.replace(APPLICATION, application))
                .with_context(|| format!("cannot write to {address}"))?;
        }
    }
    git::init(repository)?;
    git::commit(repository, "shop 1.4.0")?;
    Ok(set)
}

/// Replaces a text in all strings of a value.
fn replace(value: Value, from: &str, to: &str) -> Value {
    match value {
        Value::String(text) => text.replace(from, to).into(),
        Value::Array(list) => list.into_iter().map(|value| replace(value, from, to)).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, replace(value, from, to))).collect()
        }
        other => other,
    }
}
