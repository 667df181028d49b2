//! Conversion of [`Started`] from and to the annotation of an Application (ST-061).

use jiff::Timestamp;
use serde_json::Value;

use crate::rollout::run::started::{Started, Target};
use wavegate_api::HealthStatus;
use wavegate_api::live::LiveApplication;
use wavegate_api::run::RunStart;
use wavegate_api::time::to_rfc3339;
use wavegate_engine::promotion::PROMOTION;

/// What the Application carries; `None` when that is absent or unreadable.
pub fn read_started(application: &Value) -> Option<Started> {
    let start = RunStart::of(application)?;
    Some(Started {
        run: start.run,
        target: Target { spec: start.spec, revisions: start.revisions },
        at: start.at.parse::<Timestamp>().ok()?,
        before: HealthStatus::from_word(&start.before),
        good: start.good,
        base: start.base,
        goes_back: start.goes_back,
    })
}

/// Whether its last sync took it back to other revisions than those that it was compared with, and
/// the comparison is not later than the second in which it ended.
pub fn went_back_just_now(live: &Value, app: &LiveApplication) -> bool {
    let Some(state) = app.state() else { return false };
    let ends = state.finished_at.as_ref().zip(app.status.reconciled_at.as_ref());
    if state.sync_result.revisions() == app.status.sync.revisions()
        || ends.is_none_or(|(finished, compared)| compared > finished)
    {
        return false;
    }
    let Some(promotion) = state.operation.time_in(PROMOTION) else { return false };
    read_started(live).is_some_and(|start| start.goes_back && promotion >= start.at)
}

/// The annotation's value for the Application of this UID.
pub(crate) fn text(started: &Started, uid: &str) -> String {
    let start = RunStart {
        run: started.run.clone(),
        spec: started.target.spec.clone(),
        revisions: started.target.revisions.clone(),
        at: to_rfc3339(started.at),
        before: started.before.as_str().to_owned(),
        good: started.good.clone(),
        base: started.base.clone(),
        goes_back: started.goes_back,
        uid: uid.to_owned(),
    };
    start.text()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_api::annotations::RUN;

    #[test]
    fn a_start_survives_being_stored_and_is_of_its_application() {
        let started = Started {
            run: "shop-3".to_owned(),
            target: Target { spec: "d1".to_owned(), revisions: vec!["r2".to_owned()] },
            at: "2026-01-02T03:04:05Z".parse().unwrap(),
            before: HealthStatus::Degraded,
            good: vec!["r1".to_owned()],
            base: "b1".to_owned(),
            goes_back: true,
        };
        let live = |uid: &str| json!({"metadata": {"uid": uid, "annotations": {RUN: text(&started, "u1")}}});
        assert_eq!(read_started(&live("u1")), Some(started.clone()));
        assert_eq!(read_started(&live("u2")), None, "a copy");
        assert_eq!(
            read_started(&json!({"metadata": {"uid": "u", "annotations": {RUN: "{"}}})),
            None
        );
    }

    #[test]
    fn a_comparison_of_the_second_in_which_it_went_back_is_known_as_st_061() {
        let started = Started {
            run: "shop-3".to_owned(),
            target: Target { spec: "d1".to_owned(), revisions: vec!["r2".to_owned()] },
            at: "2026-01-02T03:04:05Z".parse().unwrap(),
            before: HealthStatus::Healthy,
            good: vec!["r1".to_owned()],
            base: "b1".to_owned(),
            goes_back: true,
        };
        let live = |goes_back: bool, promotion: &str, synced: &str, compared: &str| {
            let start = Started { goes_back, ..started.clone() };
            json!({
                "metadata": {"uid": "u", "annotations": {RUN: text(&start, "u")}},
                "status": {
                    "sync": {"revision": "r2", "status": "Synced"},
                    "reconciledAt": compared,
                    "operationState": {
                        "operation": {"info": [{"name": "RollingSync", "value": promotion}]},
                        "finishedAt": "2026-01-02T03:04:09Z",
                        "syncResult": {"revision": synced},
                    },
                },
            })
        };
        let (at, same, later) =
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:09Z", "2026-01-02T03:04:10Z");
        let cases = [
            ("of the same second", live(true, at, "r1", same), true),
            ("later", live(true, at, "r1", later), false),
            ("it went forward", live(false, at, "r1", same), false),
            ("to the same revision", live(true, at, "r2", same), false),
            ("an earlier operation", live(true, "2026-01-02T03:04:04Z", "r1", same), false),
            ("nothing is known", json!({}), false),
        ];
        for (name, live, want) in cases {
            let app = LiveApplication::read(&live);
            assert_eq!(went_back_just_now(&live, &app), want, "{name}");
        }
    }
}
