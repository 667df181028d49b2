//! Creating and updating: what is checked, filled in and carried over.
//!
//! Everything here works on the stored version of a kind; callers convert.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::clock::seconds;
use super::errors::{ApiError, Cause};
use super::kinds::{Generation, Kind};
use super::place::{Key, Place};
use super::state::State;
use super::stored::{Object, Stored, Text, finalizers, is_deleting};
use super::{convert, crd, defaults, managed_fields, typed};

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

/// An object that is stored, and its tree.
pub(crate) struct Current {
    pub stored: Arc<Stored>,
    pub object: Object,
}

/// What a write needs to know about its request.
pub(crate) struct Writer<'a> {
    pub state: &'a mut State,
    pub kind: Arc<Kind>,
    pub subresource: String,
    /// From the URL: the namespace is empty for cluster-scoped kinds, the name
    /// for a creation by POST.
    pub key: Key,
    pub manager: String,
    pub now: Timestamp,
    pub dry_run: bool,
    /// Whether objects have a limit.
    pub has_size_limits: bool,
    pub validation: FieldValidation,
    pub warnings: Vec<String>,
}

impl Writer<'_> {
    pub fn place(&self) -> Place {
        (self.kind.storage.clone(), self.key.clone())
    }

    /// The object that the request names.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none.
    pub fn found(&self) -> Result<Arc<Stored>, ApiError> {
        let found = self.state.store.get(&self.kind.storage, &self.key);
        found.cloned().ok_or_else(|| ApiError::not_found(&self.kind, &self.key.name))
    }

    /// The same with its tree, to write another state of it.
    ///
    /// # Errors
    ///
    /// As for [`Self::found`].
    pub fn current(&mut self) -> Result<Current, ApiError> {
        let stored = self.found()?;
        Ok(self.read(stored))
    }

    /// A stored object with its tree.
    pub fn read(&mut self, stored: Arc<Stored>) -> Current {
        let object = self.state.trees.take(&stored);
        Current { object: convert::current(&self.kind, &stored, object), stored }
    }

    /// Drops unknown fields, fills in defaults; refuses what cannot be read.
    fn normalise(&mut self, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        if old.is_none_or(|old| old["metadata"] != object["metadata"]) {
            typed::metadata(object).map_err(ApiError::bad_request)?;
        }
        let kind = &self.kind;
        let mut dropped = Vec::new();
        if let Some(schema) = kind.schema() {
            schema.normalise(object, old, &mut dropped);
        } else if kind.is_builtin() {
            typed::normalise(kind, object, old, &mut dropped).map_err(|e| {
                ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: {e}",
                    kind.kind, kind.version, kind.kind
                ))
            })?;
        }
        if dropped.is_empty() {
            return Ok(());
        }
        let unknown = dropped.iter().map(|field| format!("unknown field {field:?}"));
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(unknown),
            FieldValidation::Strict => {
                let list = unknown.collect::<Vec<_>>().join(", ");
                return Err(ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {list}",
                    kind.kind, kind.version, kind.kind
                )));
            }
        }
        Ok(())
    }

    /// Creates an object.
    ///
    /// # Errors
    ///
    /// Whatever the real one refuses: a missing namespace, a taken name, invalid fields.
    pub fn create(
        &mut self,
        mut object: Object,
        ownership: Ownership,
    ) -> Result<Arc<Stored>, ApiError> {
        let kind = self.kind.clone();
        self.normalise(&mut object.value, None)?;
        self.check_creation(&object.value)?;
        let generated = self.set_name(&mut object.value)?;
        self.identify(&mut object.value);
        if kind.is_builtin() {
            defaults::on_any(&kind, &mut object.value);
        }
        if matches!(ownership, Ownership::Update) {
            // Before the server adds what is its own: addresses, first status.
            managed_fields::record_update(&kind, None, &mut object, &self.manager, "", self.now);
        }
        let value = &mut object.value;
        if kind.is_builtin() {
            defaults::on_create(&kind, value, self.state);
        }
        self.check(value, None)?;
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let key = Key::new(self.key.namespace.clone(), name);
        if self.state.store.get(&kind.storage, &key).is_some() {
            let mut e = ApiError::already_exists(&kind, &key.name);
            if generated {
                e.message
                    .push_str(", the server was not able to generate a unique name for the object");
            }
            return Err(e);
        }
        if kind.is_builtin() {
            defaults::finish(&kind, value);
        }
        if kind.is_crd() {
            if crd::taken(self.state, value) {
                let detail = "the group belongs to the API server itself";
                return Err(ApiError::forbidden(&kind, &key.name, detail));
            }
            crd::establish(value, self.now);
        }
        self.key = key;
        self.store(object, None)
    }

    /// Refuses to create where nothing can be created now.
    fn check_creation(&self, object: &Value) -> Result<(), ApiError> {
        let (kind, meta) = (&self.kind, &object["metadata"]);
        if kind.namespaced {
            let name = meta["name"].as_str().unwrap_or_default();
            self.state.check_namespace(kind, &self.key.namespace, name)?;
        }
        if let Some(definition) = crd::definition_of(self.state, &kind.storage) {
            let mut e = ApiError::method_not_allowed(kind);
            e.message = format!(
                "create not allowed while custom resource definition {} is terminating",
                definition.1.name
            );
            return Err(e);
        }
        if meta["resourceVersion"].as_str().is_some_and(|v| !v.is_empty() && v != "0") {
            return Err(ApiError::new(
                500,
                "InternalError",
                "Internal error occurred: resourceVersion should not be set on objects to be created",
            ));
        }
        Ok(())
    }

    /// Sets what makes a new object one of its own, and drops what it may not bring.
    fn identify(&mut self, object: &mut Value) {
        let kind = &self.kind;
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
            // A status with a default in the schema has it at every read.
            let custom = kind.custom.as_ref();
            if let Some(schema) = custom.and_then(|custom| custom.schema.as_deref()) {
                schema.fill_defaults(object);
            }
        }
    }

    /// Stores an object unless it is a dry run, and follows up on it.
    fn store(
        &mut self,
        mut object: Object,
        former: Option<&Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        if self.dry_run {
            let text = Text::write(&object);
            check_size(&text, self.has_size_limits)?;
            return Ok(Stored::from_text(text, &object.value));
        }
        let text = self.state.store.write(&mut object);
        check_size(&text, self.has_size_limits)?;
        let place = self.place();
        let stored = self.state.store.commit(&place.0, place.1.clone(), &object.value, text);
        if self.kind.is_crd() {
            crd::register(self.state, &object.value);
        }
        if self.kind.is_event() {
            let former = former.map(|former| former.revision);
            self.state.event_expiry.written(&place.1, former, stored.revision, self.now);
            self.state.expire_events(self.now);
        }
        self.state.trees.keep(object.value, &stored);
        let former = former.map_or(&[][..], |former| &former.owners);
        if stored.deleting || *stored.owners != *former {
            self.state.written(&place, former, self.now);
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
        current: &Current,
        mut new: Object,
        ownership: Ownership,
    ) -> Result<Arc<Stored>, ApiError> {
        let kind = self.kind.clone();
        let old = &current.object.value;
        self.normalise(&mut new.value, Some(old))?;
        self.check_preconditions(old, &new.value)?;
        self.carry_over(old, &mut new.value);
        if kind.is_builtin() {
            defaults::on_update(&kind, old, &mut new.value);
            defaults::finish(&kind, &mut new.value);
        }
        self.check_finalizers(old, &new.value)?;
        if generation_differs(&kind, old, &new.value) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new.value["metadata"]["generation"] = json!(generation + 1);
        }
        if kind.is_crd() {
            crd::establish(&mut new.value, self.now);
        }
        self.check(&new.value, Some(old))?;
        if matches!(ownership, Ownership::Update) {
            managed_fields::record_update(
                &kind,
                Some(&current.object),
                &mut new,
                &self.manager,
                &self.subresource,
                self.now,
            );
        }
        // Compared under the old revision: a write that changes nothing is none.
        copy(&old["metadata"], &mut new.value["metadata"], "resourceVersion");
        let managed = current.object.managed.as_ref();
        if new.value == *old && managed_fields::same_but_times(managed, new.managed.as_ref()) {
            return Ok(current.stored.clone());
        }
        let gone = is_deleting(&new.value)
            && finalizers(&new.value).is_empty()
            && !namespace_holds(&kind, &new.value);
        if gone && !self.dry_run {
            // As the real one does: the last state is never stored, the removal shows it.
            self.state.remove_now(&self.place(), self.now);
            return Ok(Stored::new(&new));
        }
        self.store(new, Some(&current.stored))
    }

    /// Puts back what this endpoint may not change.
    fn carry_over(&self, old: &Value, new: &mut Value) {
        if self.subresource == "status" {
            keep_all_but_status(old, new);
            return;
        }
        if self.kind.status {
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

    /// A body in the version of the request, as stored.
    pub fn to_stored(&self, object: Value) -> Value {
        convert::to_version(&self.kind, &self.kind.stored_as, object)
    }
}

/// Refuses an object that is too large to be stored, if that has a limit.
fn check_size(text: &Text, has_limit: bool) -> Result<(), ApiError> {
    let size = text.len();
    if has_limit && size > OBJECT_LIMIT {
        return Err(ApiError::new(
            500,
            "",
            format!("etcdserver: request is too large: {size} bytes"),
        ));
    }
    Ok(())
}

/// Makes a field what it is elsewhere. Most are so already.
fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) if to.get(field) == Some(value) => {}
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(map) = to.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

fn keep_all_but_status(old: &Value, new: &mut Value) {
    if let Some(map) = new.as_object_mut() {
        map.retain(|field, _| field == "status" || old.get(field).is_some());
    }
    for field in old.as_object().into_iter().flat_map(Map::keys).filter(|field| *field != "status")
    {
        copy(old, new, field);
    }
}

/// A namespace also waits for `spec.finalizers`.
fn namespace_holds(kind: &Kind, object: &Value) -> bool {
    kind.is("", "namespaces")
        && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
}

fn generation_differs(kind: &Kind, old: &Value, new: &Value) -> bool {
    match kind.generation {
        Generation::None => false,
        Generation::Spec if old.get("spec").is_none() && new.get("spec").is_none() => {
            differ(old, new, &["metadata", "status"])
        }
        Generation::Spec => old.get("spec") != new.get("spec"),
        Generation::AllButStatus => differ(old, new, &["metadata", "status"]),
        Generation::AllButMetadata => differ(old, new, &["metadata"]),
    }
}

/// Whether two objects differ in other fields than these.
fn differ(old: &Value, new: &Value, except: &[&str]) -> bool {
    !fields_but(old, except).eq(fields_but(new, except))
}

fn fields_but<'a>(
    object: &'a Value,
    except: &'a [&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(field, _)| !except.contains(&field.as_str()))
}
