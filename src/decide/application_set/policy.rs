//! What a set may do to its Applications (AS-150).

/// Which writes are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Create, update and delete.
    #[default]
    Sync,
    /// Create and update.
    CreateUpdate,
    /// Create and delete.
    CreateDelete,
    /// Create.
    CreateOnly,
}

impl Policy {
    /// Reads `sync`, `create-update`, `create-delete` or `create-only`; empty
    /// means `sync`. `None` for any other text.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "" | "sync" => Some(Self::Sync),
            "create-update" => Some(Self::CreateUpdate),
            "create-delete" => Some(Self::CreateDelete),
            "create-only" => Some(Self::CreateOnly),
            _ => None,
        }
    }

    /// The policy of one set: its own if it has one and may, else the
    /// controller's. A word that nobody knows may have been meant to forbid
    /// anything, so it allows the least; [`Self::problem`] tells of it.
    pub fn effective(self, own: Option<&str>, may_override: bool) -> Self {
        match own.filter(|own| may_override && !own.is_empty()) {
            Some(own) => Self::from_name(own).unwrap_or(Self::CreateOnly),
            None => self,
        }
    }

    /// What is wrong with the policy that a set asks for, if anything.
    pub fn problem(own: Option<&str>, may_override: bool) -> Option<String> {
        let own = own.filter(|own| may_override && Self::from_name(own).is_none())?;
        Some(format!(
            "spec.syncPolicy.applicationsSync: {own:?} is none of sync, create-update, create-delete, \
             create-only; nothing is updated or deleted until it is"
        ))
    }

    /// Whether Applications may be created: always.
    pub fn creates(self) -> bool {
        true
    }

    /// Whether existing ones may be changed.
    pub fn updates(self) -> bool {
        matches!(self, Self::Sync | Self::CreateUpdate)
    }

    /// Whether those no longer generated are deleted.
    pub fn deletes(self) -> bool {
        matches!(self, Self::Sync | Self::CreateDelete)
    }
}
