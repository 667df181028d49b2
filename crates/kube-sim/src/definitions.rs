//! CustomResourceDefinitions that a server has from the beginning.
//!
//! Some have tens of thousands of fields. To check them and to read their schemas takes longer
//! than a small simulation, so both are done once, for all servers of a process.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::clock::{ServerClock, seconds};
use super::errors::ApiError;
use super::kinds::Kind;
use super::place::{Key, ResourceKey};
use super::record::Recorder;
use super::state::State;
use super::stored::{Object, Text, to_json};
use super::write::{FieldValidation, Ownership, Writer};

/// Definitions that are checked and read: see [`ServerSettings::definitions`](super::ServerSettings::definitions).
#[derive(Clone, Debug, Default)]
pub struct Definitions(Arc<[Definition]>);

#[derive(Debug)]
struct Definition {
    /// All of it but the spec.
    object: Value,
    /// The spec as JSON, which is most of the text.
    spec: Box<[u8]>,
    /// What it defines.
    kinds: Vec<Arc<Kind>>,
}

/// A definition that a server refuses.
#[derive(Debug, thiserror::Error)]
#[error("cannot define {name}: {reason}")]
pub struct RefusedDefinition {
    /// The name of the definition.
    pub name: String,
    /// What the server says.
    pub reason: String,
}

impl Definitions {
    /// Reads definitions as a server does when they are created.
    ///
    /// # Errors
    ///
    /// For one that a server refuses to create.
    pub fn read<'a>(
        definitions: impl IntoIterator<Item = &'a Value>,
    ) -> Result<Self, RefusedDefinition> {
        let time = Timestamp::UNIX_EPOCH;
        let recorder = Arc::new(Recorder::new(ServerClock::starting_at(time)));
        let mut state = State::new(0, time, recorder);
        let read = |definition: &Value| {
            create(&mut state, definition).map_err(|error| RefusedDefinition {
                name: definition["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                reason: error.message,
            })
        };
        definitions.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Puts them into a new server.
    pub(crate) fn define(&self, state: &mut State, now: Timestamp) {
        for Definition { object, spec, kinds } in &*self.0 {
            let (mut object, time) = (object.clone(), json!(seconds(now)));
            for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition["lastTransitionTime"] = time.clone();
            }
            let metadata = &mut object["metadata"];
            metadata["uid"] = json!(state.ids.uid());
            metadata["creationTimestamp"] = time;
            let key = Key::new("", metadata["name"].as_str().unwrap_or_default());
            let mut object = Object::new(object);
            state.store.number(&mut object);
            let text = Text::with_spec(&object, spec);
            state.store.commit(&ResourceKey::definitions(), key, &object.value, text);
            for kind in kinds {
                state.kinds.add(Arc::clone(kind));
                // So that a watch can begin before the first object.
                state.store.table_mut(&kind.storage);
            }
            state.kinds_changed += 1;
        }
    }
}

fn create(state: &mut State, definition: &Value) -> Result<Definition, ApiError> {
    let kind = state.kinds.get("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let kind = kind.cloned().ok_or_else(ApiError::no_such_path)?;
    let mut writer = Writer {
        state,
        kind,
        subresource: String::new(),
        key: Key::new("", ""),
        manager: String::new(),
        now: Timestamp::UNIX_EPOCH,
        dry_run: false,
        has_size_limits: true,
        validation: FieldValidation::Strict,
        warnings: Vec::new(),
    };
    let mut definition = definition.clone();
    writer.check_identity(&mut definition)?;
    // It was not applied, so its fields have no manager.
    let stored = writer.create(Object { value: definition, managed: None }, Ownership::Applied)?;
    let mut object = stored.value();
    let spec = object.as_object_mut().and_then(|object| object.remove("spec")).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let kinds = state.kinds.iter().filter(|kind| kind.is(&group, &plural)).cloned().collect();
    Ok(Definition { object, spec: to_json(&spec).into(), kinds })
}
