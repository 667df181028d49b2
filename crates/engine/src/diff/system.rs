//! Settings of comparisons that hold for all Applications: those of the ConfigMap `argocd-cm`
//! (SE-163, SE-165, SE-168, SE-170), and whether the server predicts what an apply changes
//! (SE-150).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::jq::Jq;
use super::known_types::KnownField;
use super::rule::{Rule, RuleProblem, add_rule};
use wavegate_api::glob;
use wavegate_api::kind::KindRef;

/// Most problems that stop nothing.
const MAX_PROBLEMS: usize = 50;

/// Whose the rules for all Applications are.
const SCOPE: &str = "argocd-cm";

/// Of which kinds the field `status` is no difference (SE-163).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IgnoredStatus {
    /// All.
    #[default]
    All,
    /// CustomResourceDefinitions.
    Definitions,
    /// None.
    None,
}

impl IgnoredStatus {
    /// Whether the status of a kind is ignored.
    pub fn covers(self, kind: KindRef<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Definitions => kind.is_crd(),
            Self::None => false,
        }
    }
}

/// A part of the settings that is not understood. The rest is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingProblem {
    /// Glob of the API group that it is about.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
    /// Key and reason.
    pub message: String,
    /// Whether a comparison of these kinds may show what should be ignored.
    pub is_error: bool,
}

impl SettingProblem {
    /// Whether it is about a kind.
    pub fn is_about(&self, kind: KindRef<'_>) -> bool {
        glob::glob_denies(&self.group, kind.group, None)
            && glob::glob_denies(&self.kind, kind.kind, None)
    }
}

/// The settings.
#[derive(Clone, Debug, Default)]
pub struct SystemSettings {
    /// The keys that they were read from: settings of equal texts are equal.
    pub source: BTreeMap<String, String>,
    /// The ignore rules for the objects of all Applications.
    pub rules: Vec<Rule>,
    /// What else is ignored when only a change of an object is looked at (SE-178).
    pub update_rules: Vec<Rule>,
    /// Globs of the groups and kinds whose health a script says. It may use any field, so that
    /// each change counts.
    pub scripted: Vec<(String, String)>,
    /// Whether changes that the rules ignore cause no comparison; else each change does.
    pub ignores_updates: bool,
    /// Whose status is ignored.
    pub status: IgnoredStatus,
    /// Whether the rules of aggregated roles are ignored (SE-165).
    pub ignores_aggregated_roles: bool,
    /// Fields of custom resources that have the type of a built-in kind (SE-168).
    pub known_fields: Vec<KnownField>,
    /// Whether the server predicts changes, unless an Application says otherwise (SE-150).
    pub server_side: bool,
    /// What is not understood.
    pub problems: Vec<SettingProblem>,
    /// Checks the jq expressions of the rules.
    pub jq: Jq,
}

impl PartialEq for SystemSettings {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.server_side == other.server_side
    }
}

impl SystemSettings {
    /// Adds ignore rules for the kinds that `group` and `kind` match: an object of `jsonPointers`,
    /// `jqPathExpressions` and `managedFieldsManagers`. `at` names the setting in problems.
    pub fn add_ignored(&mut self, at: &str, (group, kind): (&str, &str), places: &Value) {
        self.add(at, (group, kind), places, true);
    }

    /// The same for changes that cause no comparison.
    pub fn add_ignored_updates(&mut self, at: &str, (group, kind): (&str, &str), places: &Value) {
        self.add(at, (group, kind), places, false);
    }

    fn add(&mut self, at: &str, about: (&str, &str), places: &Value, compared: bool) {
        let mut problems = Vec::new();
        let rules = if compared { &mut self.rules } else { &mut self.update_rules };
        add_rule(rules, at, of_kinds(about), places, (&self.jq, SCOPE), &mut problems);
        self.take_problems(about, problems, compared);
    }

    fn take_problems(&mut self, about: (&str, &str), problems: Vec<RuleProblem>, is_error: bool) {
        for problem in problems {
            self.problem(about, problem.to_string(), is_error && problem.is_error);
        }
    }

    /// Whether a script says the health of a kind.
    pub fn is_scripted(&self, kind: KindRef<'_>) -> bool {
        let is = |(group, of): &(String, String)| {
            glob::glob_denies(group, kind.group, None) && glob::glob_denies(of, kind.kind, None)
        };
        self.scripted.iter().any(is)
    }

    /// Records what is not understood. Each may be shown by every Application, so what stops
    /// nothing is named up to a number.
    pub fn problem(&mut self, (group, kind): (&str, &str), message: String, is_error: bool) {
        let named = self.problems.iter().filter(|problem| !problem.is_error).count();
        let message = match named.cmp(&MAX_PROBLEMS) {
            Ordering::Greater if !is_error => return,
            Ordering::Equal if !is_error => "argocd-cm has more problems than these".to_owned(),
            _ => message,
        };
        let (group, kind) = (group.to_owned(), kind.to_owned());
        self.problems.push(SettingProblem { group, kind, message, is_error });
    }
}

fn of_kinds((group, kind): (&str, &str)) -> Rule {
    Rule { group: group.to_owned(), kind: kind.to_owned(), ..Rule::default() }
}
