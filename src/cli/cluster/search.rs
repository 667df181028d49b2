//! Objects that a user names, in the searched namespaces: found, or an error that says what there is
//! instead.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::{ClusterConnection, NAMES, problem_of_name};
use crate::cli::cluster::live_app::{TargetKind, named};
use crate::cli::console::commands::{in_namespace, wavegate, word};
use crate::cli::console::error::{Error, NOT_FOUND};
use wavegate_api::Raw;
use wavegate_api::unknown::nearest_name;
use wavegate_engine::names::some_of;
use wavegate_rollout::application_set::set_of;

impl ClusterConnection {
    /// An ApplicationSet that must exist, in one of the searched namespaces.
    pub async fn expect_application_set(&self, name: &str) -> Result<Arc<Value>, Error> {
        self.expect("ApplicationSet", name).await
    }

    /// An Application that must exist, in one of the searched namespaces.
    pub async fn expect_application(&self, name: &str) -> Result<Arc<Value>, Error> {
        self.expect("Application", name).await
    }

    /// An Application as [`Self::expect_application`]; for the name of an ApplicationSet, an
    /// error that says so and continues with `instead`.
    pub async fn expect_member(
        &self,
        name: &str,
        what: &str,
        instead: impl FnOnce(&str, &str) -> String,
    ) -> Result<Arc<Value>, Error> {
        let found = match named(name)? {
            (TargetKind::ApplicationSet, _) => None,
            _ => Some(self.expect_application(name).await),
        };
        let missing = match found {
            Some(Err(missing)) if missing.is_not_found() => Some(missing),
            Some(found) => return found,
            None => None,
        };
        match self.expect_application_set(name).await {
            Ok(set) => {
                let options = in_namespace(set.namespace());
                let why = format!("is an ApplicationSet; {}", instead(&options, &word(set.name())));
                Err(Error::input(what, name, why))
            }
            Err(error) => Err(missing.unwrap_or(error)),
        }
    }

    /// The namespace of an ApplicationSet; the first searched one when it does not exist or
    /// cannot be read.
    pub async fn namespace_of_set(&self, name: &str) -> Result<String, Error> {
        if self.places.len() > 1 && problem_of_name(name).is_none() {
            for namespace in &self.places {
                match self.get("ApplicationSet", namespace, name).await {
                    Ok(Some(_)) => return Ok(namespace.clone()),
                    Err(error) if !error.is_forbidden => return Err(error),
                    Ok(None) | Err(_) => {}
                }
            }
        }
        Ok(self.namespace.clone())
    }

    /// `name` may have the prefix of its kind, as in `app/NAME`.
    async fn expect(&self, kind: &'static str, name: &str) -> Result<Arc<Value>, Error> {
        let name = match named(name)? {
            (TargetKind::Any, name) => name,
            (TargetKind::Application, name) if kind == "Application" => name,
            (TargetKind::ApplicationSet, name) if kind == "ApplicationSet" => name,
            _ => return Err(Error::input("cannot use", name, format!("it names no {kind}"))),
        };
        if let Some(problem) = problem_of_name(name) {
            return Err(Error::input("invalid name", kind, problem));
        }
        let mut forbidden = Vec::new();
        for namespace in &self.places {
            match self.get(kind, namespace, name).await {
                Ok(Some(object)) => return Ok(object),
                Ok(None) => {}
                Err(error) if error.is_forbidden => forbidden.push(error),
                Err(error) => return Err(error),
            }
        }
        if forbidden.len() == self.places.len()
            && let Some(first) = forbidden.first()
        {
            return Err(first.clone());
        }
        Err(self.not_found(kind, name, &forbidden).await)
    }

    /// The error for an object that is in none of the searched namespaces: with similar
    /// names, and where objects of this name are.
    async fn not_found(&self, kind: &'static str, name: &str, forbidden: &[Error]) -> Error {
        let mut why = "it does not exist".to_owned();
        if let [_, others @ ..] = self.places.as_slice() {
            for other in others {
                why.push_str(&format!(", nor does {other}/{name}"));
            }
        }
        for error in forbidden {
            why.push_str(&format!("; {error}"));
        }
        let known = self.known_names(kind).await;
        let same: Vec<&str> =
            known.iter().filter(|(_, one)| one == name).map(|(at, _)| at.as_str()).collect();
        let names: BTreeSet<String> = known.iter().map(|(_, name)| name.clone()).collect();
        if let Some(first) = same.first() {
            let places = some_of(same.iter().copied(), NAMES);
            why.push_str(&format!(
                "; {kind}s of this name are in namespace {places}: select it with -n {first}"
            ));
        } else if let Some(other) = self.application_instead(kind, name).await {
            why.push_str(&other);
        } else if let Some(near) = nearest_name(name, names.iter().map(String::as_str)) {
            let at = known.iter().find(|(_, one)| *one == near).map_or("", |(at, _)| at.as_str());
            let at = match self.places.iter().any(|place| place == at) {
                true => String::new(),
                false => format!(" in namespace {at}"),
            };
            why.push_str(&format!("; did you mean {near}{at}?"));
        } else {
            why.push_str(match kind {
                "ApplicationSet" => "; list all with wavegate status -A",
                _ => "; list all with kubectl get applications -A",
            });
        }
        let place = format!("{kind} {}/{name}", self.namespace);
        Error::input(NOT_FOUND, place, why)
    }

    /// For the name of an Application where that of an ApplicationSet is expected: what to
    /// name instead. Only for messages, so it fails silently.
    async fn application_instead(&self, kind: &str, name: &str) -> Option<String> {
        if kind != "ApplicationSet" {
            return None;
        }
        for namespace in &self.places {
            let found = self.get("Application", namespace, name).await;
            let Ok(Some(application)) = found else { continue };
            let tree = wavegate("tree", application.namespace(), name);
            return Some(match set_of(&application) {
                Some(set) => format!(
                    "; {name} is an Application of the ApplicationSet {set}: use that name, or {tree}"
                ),
                None => {
                    format!(
                        "; {name} is an Application of no ApplicationSet: {tree} shows its resources"
                    )
                }
            });
        }
        None
    }

    /// Namespace and name of all objects of a kind, as far as they can be listed: of all
    /// namespaces, or of the searched ones. Only for messages, so it fails silently.
    async fn known_names(&self, kind: &'static str) -> BTreeSet<(String, String)> {
        if let Some(names) = self.names(kind, None).await {
            return names;
        }
        let mut known = BTreeSet::new();
        for namespace in &self.places {
            known.extend(self.names(kind, Some(namespace)).await.into_iter().flatten());
        }
        known
    }
}
