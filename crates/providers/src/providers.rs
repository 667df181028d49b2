//! What asks, who it asks for, and what comes of it.

use std::sync::Arc;

use super::app_token::Tokens;
use super::http::{Blocked, Limits};
use super::objects::Objects;
use super::settings::ProviderSettings;
use wavegate_api::ObjectKey;
use wavegate_net::clock::Clock;
use wavegate_net::connect::Proxy;
use wavegate_rollout::desired::queries::Answer;

/// Asks services.
#[derive(Clone, Debug)]
pub struct Providers {
    pub(super) objects: Objects,
    pub(super) settings: ProviderSettings,
    pub(super) proxy: Proxy,
    pub(super) clock: Clock,
    pub(super) blocked: Blocked,
    pub(super) tokens: Tokens,
    pub(super) control_plane: String,
}

impl Providers {
    /// Asks with these settings; Secrets, ConfigMaps and placement resources are read from
    /// `objects`.
    pub fn new(
        objects: Objects,
        settings: ProviderSettings,
        control_plane: &str,
        clock: Clock,
    ) -> Self {
        let (url, except) = (settings.proxy.clone(), settings.no_proxy.clone());
        let proxy = Proxy { url, except, or_environment: true };
        let control_plane = control_plane.to_owned();
        let (blocked, tokens) = (Arc::default(), Arc::default());
        Self { objects, settings, proxy, clock, blocked, tokens, control_plane }
    }

    /// A variable of the environment.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.settings.environment.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }
}

/// Who asks, for one query.
#[derive(Debug)]
pub(super) struct Asker {
    /// The ApplicationSet.
    pub(super) set: ObjectKey,
    /// The namespace of the control plane.
    pub(super) control_plane: String,
    pub(super) limits: Limits,
}

/// What was answered, and how.
#[derive(Debug)]
pub struct ProviderAnswer {
    /// The answer.
    pub answer: Answer,
    /// Whether it was read in several pages, between which something may have moved.
    pub is_paged: bool,
}

impl ProviderAnswer {
    pub(super) fn whole(answer: Answer) -> Self {
        Self { answer, is_paged: false }
    }
}
