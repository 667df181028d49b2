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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{IgnoredStatus, MAX_PROBLEMS, SystemSettings};
    use wavegate_api::kind::KindRef;

    const DEPLOYMENT: KindRef<'_> = KindRef { group: "apps", version: "v1", kind: "Deployment" };
    const JOB: KindRef<'_> = KindRef { group: "batch", version: "v1", kind: "Job" };

    /// Settings of equal texts are equal, if the server predicts for both.
    #[test]
    fn settings_are_equal_by_what_they_were_read_from() {
        let of = |text: &str, server_side| SystemSettings {
            source: [("key".to_owned(), text.to_owned())].into(),
            server_side,
            ..SystemSettings::default()
        };
        assert!(of("a", true) == of("a", true));
        assert!(of("a", true) != of("b", true));
        assert!(of("a", true) != of("a", false));
        assert!(of("a", true) != of("b", false));
    }

    /// Rules of comparisons and those of watches are apart; so are their problems (SE-178).
    #[test]
    fn rules_are_added_for_their_kinds_se_178() {
        let mut settings = SystemSettings::default();
        let places = json!({"jsonPointers": ["/spec/replicas"]});
        settings.add_ignored("a", ("apps", "Deployment"), &places);
        settings.add_ignored_updates("b", ("batch", "*"), &places);
        let of = |rules: &[super::Rule]| -> Vec<(String, String)> {
            rules.iter().map(|rule| (rule.group.clone(), rule.kind.clone())).collect()
        };
        assert_eq!(of(&settings.rules), [("apps".to_owned(), "Deployment".to_owned())]);
        assert_eq!(of(&settings.update_rules), [("batch".to_owned(), "*".to_owned())]);
        assert!(settings.problems.is_empty());

        let wrong = json!({"jqPathExpressions": ["input"]});
        settings.add_ignored("c", ("apps", "*"), &wrong);
        settings.add_ignored_updates("d", ("batch", "*"), &wrong);
        let errors: Vec<bool> = settings.problems.iter().map(|one| one.is_error).collect();
        assert_eq!(errors, [true, false], "{:?}", settings.problems);
        for (index, want) in [(0, [true, false]), (1, [false, true])] {
            let problem = &settings.problems[index];
            assert_eq!([DEPLOYMENT, JOB].map(|kind| problem.is_about(kind)), want, "{problem:?}");
        }
    }

    #[test]
    fn a_script_is_about_the_kinds_that_both_globs_match() {
        let mut settings = SystemSettings::default();
        assert!(!settings.is_scripted(DEPLOYMENT));
        let pair = |group: &str, kind: &str| (group.to_owned(), kind.to_owned());
        settings.scripted = vec![pair("batch", "CronJob"), pair("app*", "Deploy*")];
        assert!(settings.is_scripted(DEPLOYMENT));
        assert!(!settings.is_scripted(JOB), "another kind of the group");
        assert!(!settings.is_scripted(KindRef { group: "x", ..DEPLOYMENT }));
    }

    /// What stops nothing is named up to a number; errors always are.
    #[test]
    fn problems_that_stop_nothing_are_limited() {
        let mut settings = SystemSettings::default();
        for at in 0..MAX_PROBLEMS + 5 {
            settings.problem(("*", "*"), format!("w{at}"), false);
            settings.problem(("*", "*"), format!("e{at}"), true);
        }
        let of = |is_error| -> Vec<&str> {
            let found = settings.problems.iter().filter(|one| one.is_error == is_error);
            found.map(|one| one.message.as_str()).collect()
        };
        assert_eq!(of(true).len(), MAX_PROBLEMS + 5);
        assert_eq!(of(true)[MAX_PROBLEMS], format!("e{MAX_PROBLEMS}"));
        assert_eq!(of(false).len(), MAX_PROBLEMS + 1);
        assert_eq!(of(false)[MAX_PROBLEMS - 1], format!("w{}", MAX_PROBLEMS - 1));
        assert_eq!(of(false)[MAX_PROBLEMS], "argocd-cm has more problems than these");
    }

    #[test]
    fn the_status_of_kinds_is_ignored_by_setting_se_163() {
        let definition = KindRef {
            group: "apiextensions.k8s.io",
            version: "v1",
            kind: "CustomResourceDefinition",
        };
        for (setting, want) in [
            (IgnoredStatus::All, [true, true]),
            (IgnoredStatus::Definitions, [false, true]),
            (IgnoredStatus::None, [false, false]),
        ] {
            assert_eq!([JOB, definition].map(|kind| setting.covers(kind)), want, "{setting:?}");
        }
    }
}
