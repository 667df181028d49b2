//! Which writes of Applications a set may do (AS-150).

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
    /// Parses `sync`, `create-update`, `create-delete` or `create-only`; empty
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

    /// The policy of one set: its own if it has one and overrides are allowed,
    /// else that of the controller. An unknown value may have been meant to
    /// forbid anything, so it allows the least; [`Self::problem`] reports it.
    pub fn effective(self, own: Option<&str>, may_override: bool) -> Self {
        match own.filter(|own| may_override && !own.is_empty()) {
            Some(own) => Self::from_name(own).unwrap_or(Self::CreateOnly),
            None => self,
        }
    }

    /// The error of the requested policy, if any.
    pub fn problem(own: Option<&str>, may_override: bool) -> Option<String> {
        let own = own.filter(|own| may_override && Self::from_name(own).is_none())?;
        Some(format!(
            "spec.syncPolicy.applicationsSync: {own:?} is invalid; use sync, create-update, \
             create-delete or create-only; no Application is updated or deleted until this is fixed"
        ))
    }

    /// Whether Applications may be created: always.
    pub fn creates(self) -> bool {
        true
    }

    /// Whether existing Applications may be updated.
    pub fn updates(self) -> bool {
        matches!(self, Self::Sync | Self::CreateUpdate)
    }

    /// Whether Applications that are no longer generated are deleted.
    pub fn deletes(self) -> bool {
        matches!(self, Self::Sync | Self::CreateDelete)
    }
}
