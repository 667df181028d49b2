//! What a verb is asked for: which sets, and whether the person may (PG-020, PG-021).

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;

use super::visitor::Visitor;
use super::{refused, unavailable};
use crate::address::{Parameters, ViewName};
use crate::permissions::VerbPermissions;
use crate::reports::{
    ActionAnswer, ActionOutcomeDocument, ActionRequest, PageObject, RolloutDocument, Unavailable,
};
use crate::view;

/// The most sets of one selection.
const SELECTED: usize = 1000;
/// The most namespaces of a selection whose permissions are asked for before its verb; those of
/// others are noticed when it writes.
const ASKED: usize = 50;

impl Visitor {
    /// What is asked for; an answer when it is refused.
    pub(super) async fn action(
        &self,
        verb: String,
        asked: &Parameters,
    ) -> Result<ActionRequest, Box<Response>> {
        let refuse = |status, why| Err(Box::new(refused(status, why)));
        if !self.options.allows_actions {
            let why = "this page only shows: start it with --allow-actions to act on it";
            return refuse(StatusCode::FORBIDDEN, why);
        }
        if view::verb_words(&verb).is_none() {
            return refuse(StatusCode::NOT_FOUND, "there is no such verb");
        }
        let mut of = Vec::new();
        for one in asked.all("set").take(SELECTED) {
            let path = format!("/set/{one}");
            let Some(ViewName::Rollout(object)) = ViewName::of(&path) else {
                return refuse(StatusCode::BAD_REQUEST, "a set is NAMESPACE/NAME");
            };
            of.push(object);
        }
        let label = asked.text("label");
        let is_meant = |set: &RolloutDocument| match asked.text("all") {
            "waiting" => set.run.as_ref().is_some_and(|run| run.phase == "AwaitingApproval"),
            _ => set.labels.iter().any(|one| one == label),
        };
        match asked.text("all") {
            "" => {}
            "waiting" | "label" if view::is_verb_of_sets(&verb) => {
                let fleet =
                    self.reports.fleet().await.map_err(|error| Box::new(unavailable(&error)))?;
                let meant = fleet.iter().filter(|set| is_meant(set)).map(|set| set.of.clone());
                of.extend(meant.take(SELECTED));
            }
            _ => {
                let why =
                    "all is waiting, or label with label=KEY=VALUE, of a verb for ApplicationSets";
                return refuse(StatusCode::BAD_REQUEST, why);
            }
        }
        let text = |name: &str| asked.text(name).to_owned();
        Ok(ActionRequest { verb, of, gate: text("gate"), reason: text("reason") })
    }

    /// What a verb comes to, where the person may use it; with `does`, it is done there.
    pub(super) async fn act(
        &self,
        action: &ActionRequest,
        does: bool,
    ) -> Result<ActionAnswer, Unavailable> {
        let mut permissions: BTreeMap<&str, VerbPermissions> = BTreeMap::new();
        for namespace in action.of.iter().map(|of| of.namespace.as_str()) {
            if permissions.len() < ASKED && !permissions.contains_key(namespace) {
                // What cannot be found out is left to the write.
                let found = self.reports.permissions(namespace).await.unwrap_or_default();
                permissions.insert(namespace, found);
            }
        }
        let refusal = |of: &PageObject| permissions.get(&*of.namespace)?.refusal(&action.verb);
        let permitted = action.of.iter().filter(|of| refusal(of).is_none()).cloned().collect();
        let refused = action.of.iter().filter_map(|of| Some((of, refusal(of)?)));
        let refused = refused.map(|(of, why)| ActionOutcomeDocument {
            namespace: of.namespace.clone(),
            application_set: of.name.clone(),
            outcome: "refused".to_owned(),
            applications: 0,
            message: why.to_owned(),
        });
        let permitted = ActionRequest { of: permitted, ..action.clone() };
        let mut answer = self.reports.act(&permitted, does).await?;
        answer.outcomes.extend(refused);
        Ok(answer)
    }
}
