//! Why a set could not be generated.

use std::collections::BTreeSet;

use super::inputs::UnreadRepository;
use super::queries::Query;
use wavegate_api::conditions::application_set::reason;

/// Most characters of the place and of the cause of an error: as much as a condition keeps.
const MAX_ERROR: usize = 1024;

/// Why a set could not be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A generator failed.
    #[error("{place}: {cause}")]
    Generator {
        /// Its path, such as `spec.generators[0].list`.
        place: String,
        /// The error, and how to fix it.
        cause: String,
        /// Whether a limit was exceeded.
        limit: bool,
    },
    /// Something is needed that was not read yet ([`Inputs::git`](super::inputs::Inputs::git),
    /// [`Inputs::answers`](super::inputs::Inputs::answers)).
    #[error(
        "spec.generators: {} is not read; what a generator reads must be the same in each evaluation",
        unread(.0)
    )]
    Unread(UnreadRepository),
    /// The template or the patch failed for a parameter set.
    #[error("{place}: {cause} (parameters of {parameters})")]
    Render {
        /// The path of the string, such as `spec.template.metadata.name`.
        place: String,
        /// The error.
        cause: String,
        /// The parameter set, as `spec.generators[0].list.elements[2]`.
        parameters: String,
        /// Whether a limit was exceeded.
        limit: bool,
    },
    /// The set, or one of its Applications, exceeds a limit.
    #[error("{place}: limit exceeded: {cause}")]
    Limit {
        /// The path of the template.
        place: String,
        /// The limit.
        cause: String,
    },
    /// `goTemplateOptions` names an option that does not exist.
    #[error("spec.goTemplateOptions: {0}")]
    Options(String),
}

impl GenerateError {
    /// The reason of the resulting condition (AS-140).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Generator { .. } | Self::Unread(_) => {
                reason::APPLICATION_GENERATION_FROM_PARAMS_ERROR
            }
            Self::Render { .. } | Self::Limit { .. } | Self::Options(_) => {
                reason::RENDER_TEMPLATE_PARAMS_ERROR
            }
        }
    }

    /// The words of Argo CD before the error of a git generator, which tools compare.
    pub fn git_words(&self) -> &'static str {
        let is_of_git = |part: &str| part == "git" || part.starts_with("git[");
        match self {
            Self::Generator { place, .. } if place.split('.').any(is_of_git) => {
                "error generating params from git: "
            }
            _ => "",
        }
    }

    /// The same error without more than the beginning of what it quotes: values and templates
    /// may be large, and it is kept, logged and stored.
    pub(super) fn shortened(mut self) -> Self {
        let texts = match &mut self {
            Self::Generator { place, cause, .. } | Self::Limit { place, cause } => [place, cause],
            Self::Render { place, cause, .. } => [place, cause],
            Self::Unread(_) | Self::Options(_) => return self,
        };
        for text in texts {
            if let Some((at, _)) = text.char_indices().nth(MAX_ERROR) {
                text.truncate(at);
                text.push('…');
                text.shrink_to_fit();
            }
        }
        self
    }

    /// Whether a limit was exceeded: then generating stops at once.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::Generator { limit: true, .. }
                | Self::Render { limit: true, .. }
                | Self::Limit { .. }
        )
    }
}

/// What must be read, for a message.
fn unread(unread: &UnreadRepository) -> String {
    let urls = unread.git.iter().map(|request| request.repo_url.clone());
    let places: BTreeSet<String> = urls.chain(unread.queries.iter().map(Query::place)).collect();
    places.into_iter().collect::<Vec<_>>().join(", ")
}
