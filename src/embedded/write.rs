//! Creating and updating: what is checked, filled in and carried over.
//!
//! Everything here works on the stored version of a kind; callers convert.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::clock::seconds;
use super::errors::{ApiError, Cause};
use super::kinds::{Generation, Kind};
use super::state::{State, finalizers, is_deleting};
use super::store::{Key, Place, Stored, owners, to_json};
use super::{builtin_rules, convert, crd, defaults, managed_fields, typed, validate};

/// What etcd accepts for one object, as the real one is set up by default.
const OBJECT_LIMIT: usize = 1536 << 10;

/// What becomes of fields that the kind does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// How the fields of a write are attributed.
#[derive(Clone, Debug)]
pub(crate) enum Ownership {
    /// What changed belongs to the writer.
    Update,
    /// Server-side apply has already computed the managers.
    Applied,
}

/// What a write needs to know about its request.
pub(crate) struct Writer<'a> {
    pub state: &'a mut State,
    pub kind: Arc<Kind>,
    pub subresource: String,
    /// From the URL; empty for cluster-scoped kinds.
    pub namespace: String,
    /// From the URL; empty for a creation by POST.
    pub name: String,
    pub manager: String,
    pub now: Timestamp,
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub warnings: Vec<String>,
}

impl Writer<'_> {
    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    pub fn place(&self) -> Place {
        (self.kind.storage.clone(), self.key())
    }

    pub fn current(&self) -> Option<Arc<Stored>> {
        self.state.store.get(&self.kind.storage, &self.key()).cloned()
    }

    /// Checks that a body is of the kind and in the place that the URL names.
    pub fn check_identity(&self, object: &mut Value) -> Result<(), ApiError> {
        let kind = &self.kind;
        if !object.is_object() {
            return Err(ApiError::bad_request("the request body is no JSON object"));
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
            match object[field].as_str() {
                Some(found) if found == wanted => {}
                None | Some("") if kind.is_builtin() => object[field] = json!(wanted),
                None | Some("") => {
                    let shown = if field == "kind" { "Kind" } else { "apiVersion" };
                    return Err(ApiError::bad_request(format!("Object '{shown}' is missing")));
                }
                Some(found) => {
                    return Err(ApiError::bad_request(format!(
                        "the {field} of the provided object ({found}) does not match the request's ({wanted})"
                    )));
                }
            }
        }
        let meta = &mut object["metadata"];
        match meta["namespace"].as_str() {
            None | Some("") if kind.namespaced => meta["namespace"] = json!(self.namespace),
            None => {}
            Some(found) if found == self.namespace => {}
            Some(_) if !kind.namespaced => {
                if let Some(meta) = meta.as_object_mut() {
                    meta.remove("namespace");
                }
            }
            Some(_) => {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
        if !self.name.is_empty() {
            match meta["name"].as_str() {
                None | Some("") => meta["name"] = json!(self.name),
                Some(found) if found == self.name => {}
                Some(found) => {
                    return Err(ApiError::bad_request(format!(
                        "the name of the object ({found}) does not match the name on the URL ({})",
                        self.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Drops unknown fields, fills in defaults; refuses what cannot be read.
    fn normalise(&mut self, mut object: Value) -> Result<Value, ApiError> {
        typed::metadata(&mut object).map_err(ApiError::bad_request)?;
        let kind = self.kind.clone();
        let mut dropped = Vec::new();
        if let Some(schema) = kind.schema() {
            schema.prune(&mut object, &mut dropped);
            schema.fill_defaults(&mut object);
        } else if kind.is_builtin() {
            object = typed::normalise(&kind, object, &mut dropped).map_err(|e| {
                ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: {e}",
                    kind.kind, kind.version, kind.kind
                ))
            })?;
        }
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.warnings.extend(dropped.iter().map(|f| format!("unknown field {f:?}")));
            }
            FieldValidation::Strict if dropped.is_empty() => {}
            FieldValidation::Strict => {
                let list = dropped
                    .iter()
                    .map(|f| format!("unknown field {f:?}"))
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {list}",
                    kind.kind, kind.version, kind.kind
                )));
            }
        }
        Ok(object)
    }

    /// Creates an object.
    ///
    /// # Errors
    ///
    /// Whatever the real one refuses: a missing namespace, a taken name, invalid fields.
    pub fn create(&mut self, object: Value, ownership: Ownership) -> Result<Arc<Stored>, ApiError> {
        let kind = self.kind.clone();
        let mut object = self.normalise(object)?;
        let object_name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if kind.namespaced {
            self.state.check_namespace(&kind, &self.namespace, &object_name)?;
        }
        if let Some(definition) = crd::definition_of(self.state, &kind.storage) {
            let mut e = ApiError::method_not_allowed(&kind);
            e.message = format!(
                "create not allowed while custom resource definition {} is terminating",
                definition.1.name
            );
            return Err(e);
        }
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty() && v != "0")
        {
            return Err(ApiError::new(
                500,
                "InternalError",
                "Internal error occurred: resourceVersion should not be set on objects to be created",
            ));
        }
        let generated = self.set_name(&mut object)?;
        let meta = &mut object["metadata"];
        meta["uid"] = json!(self.state.ids.uid());
        meta["creationTimestamp"] = json!(seconds(self.now));
        if let Some(meta) = meta.as_object_mut() {
            for field in [
                "selfLink",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "resourceVersion",
                "generation",
            ] {
                meta.remove(field);
            }
            if kind.generation != Generation::None {
                meta.insert("generation".to_owned(), json!(1));
            }
        }
        if kind.status
            && !kind.is("", "nodes")
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
        if kind.is_builtin() {
            defaults::on_any(&kind, &mut object);
        }
        if matches!(ownership, Ownership::Update) {
            // Before the server adds what is its own: addresses, first status.
            let manager = self.manager.clone();
            managed_fields::record_update(&kind, None, &mut object, &manager, "", self.now);
        }
        if kind.is_builtin() {
            defaults::on_create(&kind, &mut object, self.state, self.now);
        }
        self.check(&object, None)?;
        let key =
            Key::new(&self.namespace, object["metadata"]["name"].as_str().unwrap_or_default());
        if self.state.store.get(&kind.storage, &key).is_some() {
            return Err(if generated {
                let mut e = ApiError::already_exists(&kind, &key.name);
                e.message = format!(
                    "{}, the server was not able to generate a unique name for the object",
                    e.message
                );
                e
            } else {
                ApiError::already_exists(&kind, &key.name)
            });
        }
        if kind.is_builtin() {
            defaults::finish(&kind, &mut object);
        }
        if kind.is_crd() {
            if crd::taken(self.state, &object) {
                let detail = "the group belongs to the API server itself";
                return Err(ApiError::forbidden(&kind, &key.name, detail));
            }
            crd::establish(&mut object, self.now);
        }
        self.check_size(&object)?;
        if self.dry_run {
            return Ok(Stored::new(object));
        }
        self.name.clone_from(&key.name);
        let stored = self.state.store.put(&kind.storage, key, object);
        if kind.is_crd() {
            crd::register(self.state, &stored.slim);
        }
        if !owners(&stored.slim).is_empty() {
            let place = self.place();
            self.state.written(&place, &[], self.now);
        }
        Ok(stored)
    }

    /// Sees to a name; true when it was generated.
    fn set_name(&mut self, object: &mut Value) -> Result<bool, ApiError> {
        let meta = &mut object["metadata"];
        if meta["name"].as_str().is_some_and(|n| !n.is_empty()) {
            return Ok(false);
        }
        match meta["generateName"].as_str().filter(|p| !p.is_empty()) {
            Some(prefix) => {
                // The real one cuts the prefix so that the whole fits 63 characters.
                let prefix: String = prefix.chars().take(58).collect();
                meta["name"] = json!(format!("{prefix}{}", self.state.ids.suffix()));
                Ok(true)
            }
            None => {
                let cause = Cause::required("metadata.name", "name or generateName is required");
                Err(ApiError::invalid(&self.kind, "", vec![cause]))
            }
        }
    }

    /// Replaces an object that exists by a new state of it.
    ///
    /// Gives back what is stored then; nothing is written when nothing changed.
    ///
    /// # Errors
    ///
    /// `Conflict` when the new state names another resource version or UID, else as for [`Self::create`].
    pub fn update(
        &mut self,
        old: &Arc<Stored>,
        new: Value,
        ownership: Ownership,
    ) -> Result<Arc<Stored>, ApiError> {
        let kind = self.kind.clone();
        let mut new = self.normalise(new)?;
        let old_value = &old.full();
        self.check_preconditions(old_value, &new)?;
        self.carry_over(old_value, &mut new);
        if kind.is_builtin() {
            defaults::on_update(&kind, old_value, &mut new);
            defaults::finish(&kind, &mut new);
        }
        self.check_finalizers(old_value, &new)?;
        if generation_differs(&kind, old_value, &new) {
            let generation = old_value["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = json!(generation + 1);
        }
        if kind.is_crd() {
            crd::establish(&mut new, self.now);
        }
        self.check(&new, Some(old_value))?;
        if matches!(ownership, Ownership::Update) {
            let (manager, subresource) = (self.manager.clone(), self.subresource.clone());
            managed_fields::record_update(
                &kind,
                Some(old_value),
                &mut new,
                &manager,
                &subresource,
                self.now,
            );
        }
        // Compared under the old revision: a write that changes nothing is none.
        new["metadata"]["resourceVersion"] = old_value["metadata"]["resourceVersion"].clone();
        if new == *old_value || managed_fields::same_but_times(old_value, &new) {
            return Ok(old.clone());
        }
        self.check_size(&new)?;
        if self.dry_run {
            return Ok(Stored::new(new));
        }
        let place = self.place();
        let former: Vec<String> = owners(old_value).into_iter().map(str::to_owned).collect();
        let gone =
            is_deleting(&new) && finalizers(&new).is_empty() && !namespace_holds(&kind, &new);
        if gone {
            // As the real one does: the last state is never stored, the removal shows it.
            let last = self.state.remove_now(&place, self.now);
            return Ok(last.map_or_else(|| old.clone(), |_| Stored::new(new)));
        }
        let owners_differ = former != owners(&new);
        let deleting = is_deleting(&new);
        let stored = self.state.store.put(&place.0, place.1.clone(), new);
        if kind.is_crd() {
            crd::register(self.state, &stored.slim);
        }
        if owners_differ || deleting {
            self.state.written(&place, &former, self.now);
        }
        Ok(stored)
    }

    fn check_preconditions(&self, old: &Value, new: &Value) -> Result<(), ApiError> {
        let (was, is) = (&old["metadata"], &new["metadata"]);
        if let Some(uid) = is["uid"].as_str().filter(|u| !u.is_empty())
            && was["uid"] != uid
        {
            let found = was["uid"].as_str().unwrap_or_default();
            let detail = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            );
            return Err(ApiError::conflict(&self.kind, &self.name, &detail));
        }
        match is["resourceVersion"].as_str().filter(|v| !v.is_empty() && *v != "0") {
            Some(version) if was["resourceVersion"] != version => {
                Err(ApiError::stale(&self.kind, &self.name))
            }
            _ => Ok(()),
        }
    }

    /// Puts back what this endpoint may not change.
    fn carry_over(&self, old: &Value, new: &mut Value) {
        let kind = &self.kind;
        if self.subresource == "status" {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            let mut kept = old.clone();
            match status {
                Some(status) => kept["status"] = status,
                None => {
                    if let Some(map) = kept.as_object_mut() {
                        map.remove("status");
                    }
                }
            }
            match managed {
                Some(managed) => kept["metadata"]["managedFields"] = managed,
                None => {
                    if let Some(meta) = kept["metadata"].as_object_mut() {
                        meta.remove("managedFields");
                    }
                }
            }
            *new = kept;
            return;
        }
        if kind.status {
            copy(old, new, "status");
        }
        for field in [
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "name",
            "namespace",
            "generateName",
        ] {
            copy(&old["metadata"], &mut new["metadata"], field);
        }
        if let Some(meta) = new["metadata"].as_object_mut() {
            meta.remove("selfLink");
        }
    }

    fn check_finalizers(&self, old: &Value, new: &Value) -> Result<(), ApiError> {
        if !is_deleting(old) {
            return Ok(());
        }
        let held = finalizers(old);
        let added: Vec<&str> = finalizers(new).into_iter().filter(|f| !held.contains(f)).collect();
        if added.is_empty() {
            return Ok(());
        }
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ")
        );
        Err(ApiError::invalid(
            &self.kind,
            &self.name,
            vec![Cause::forbidden("metadata.finalizers", detail)],
        ))
    }

    /// Validates the whole object.
    fn check(&self, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
        let kind = &self.kind;
        let mut causes = Vec::new();
        if old.is_none() {
            causes.extend(builtin_rules::name(kind, object));
        }
        causes.extend(validate::metadata(object));
        if let Some(schema) = kind.schema() {
            causes.extend(validate::custom(schema, object));
        } else if kind.is_crd() {
            causes.extend(crd::validate(object));
        } else if kind.is_builtin() {
            causes.extend(builtin_rules::check(kind, object, old));
        }
        if causes.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(ApiError::invalid(kind, name, causes))
    }

    fn check_size(&self, object: &Value) -> Result<(), ApiError> {
        let size = to_json(object).len();
        if size > OBJECT_LIMIT {
            return Err(ApiError::new(
                500,
                "",
                format!("etcdserver: request is too large: {size} bytes"),
            ));
        }
        Ok(())
    }

    /// A body in the version of the request, as stored.
    pub fn to_stored(&self, object: Value) -> Value {
        convert::to_version(&self.kind, &self.kind.stored_as, object)
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(map) = to.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// A namespace also waits for `spec.finalizers`.
fn namespace_holds(kind: &Kind, object: &Value) -> bool {
    kind.is("", "namespaces")
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
}

fn generation_differs(kind: &Kind, old: &Value, new: &Value) -> bool {
    let but = |skip: &[&str]| {
        let rest = |v: &Value| {
            let map = v.as_object().cloned().unwrap_or_default();
            map.into_iter()
                .filter(|(k, _)| !skip.contains(&k.as_str()))
                .collect::<serde_json::Map<_, _>>()
        };
        rest(old) != rest(new)
    };
    match kind.generation {
        Generation::None => false,
        Generation::Spec if old.get("spec").is_none() && new.get("spec").is_none() => {
            but(&["metadata", "status"])
        }
        Generation::Spec => old.get("spec") != new.get("spec"),
        Generation::AllButStatus => but(&["metadata", "status"]),
        Generation::AllButMetadata => but(&["metadata"]),
    }
}
