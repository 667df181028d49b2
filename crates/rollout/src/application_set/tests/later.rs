//! A status that a later version wrote: what this one does not know stays, although lists and
//! summaries are written anew.

use super::*;
use crate::application_set::decision::Snapshot;
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::status::stored::StoredApplicationSet;

/// The status after a reconcile of two Applications, of which `b` is not Healthy.
fn decided(set: &Value) -> Value {
    let settings = DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() };
    let wanted = ["a", "b"].map(|name| super::generated(name, spec()));
    let generated = generated_by(set, &settings, &wanted);
    let id = Identity::of(set);
    let rules = Rules::of(&id, &generated);
    let existing = wanted.each_ref().map(|wanted| {
        let mut live = live(wanted);
        let health = if live["metadata"]["name"] == "a" { "Healthy" } else { "Degraded" };
        live["status"] = json!({
            "health": {"status": health},
            "sync": {"status": "Synced", "revision": "r", "comparedTo": spec()},
            "reconciledAt": "2023-11-14T22:13:20Z",
        });
        Existing::read(&live, Some(wanted), &rules)
    });
    let (projects, set) = (BTreeMap::new(), StoredApplicationSet::read(set));
    let windows = Facts { projects: &projects, clusters: &[] };
    let now = jiff::Timestamp::from_second(1_700_000_009).unwrap();
    let first = Snapshot::first(&set, &generated, &settings, windows, now);
    let decision = reconcile::reconcile(&Snapshot { existing: &existing, ..first });
    decision.status.map(|status| status.to_json()).unwrap_or_default()
}

const PLACES: [&str; 8] = [
    "/rollout",
    "/rollout/waitingFor/0",
    "/health",
    "/conditions/0",
    "/applicationStatus/0",
    "/applicationStatus/1",
    "/resources/0",
    "/resources/1",
];

#[test]
fn unknown_fields_are_written_back_with_what_they_are_of() {
    let mut set = set();
    set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    set["spec"]["strategy"] = json!({
        "type": "RollingSync",
        "rollingSync": {"steps": [{"matchExpressions": []}]},
    });
    set["status"] = decided(&set);
    assert_eq!(decided(&set), set["status"], "nothing changes");
    for size in [0, 20 << 10] {
        let mut later = set.clone();
        for (index, place) in PLACES.iter().enumerate() {
            let fields = later["status"].pointer_mut(place).unwrap();
            fields["fromLater"] = json!({"index": index, "text": "x".repeat(size)});
        }
        // So that all of it is written anew.
        later["status"]["rollout"]["step"] = 7.into();
        later["status"]["rollout"]["waitingFor"][0]["reason"] = "other".into();
        later["status"]["conditions"][0]["message"] = "other".into();
        later["status"]["health"]["message"] = "other".into();
        for index in 0..2 {
            later["status"]["applicationStatus"][index]["message"] = "other".into();
            later["status"]["resources"][index]["status"] = "Unknown".into();
        }
        let status = decided(&later);
        for (index, place) in PLACES.iter().enumerate() {
            let kept = &status.pointer(place).unwrap()["fromLater"]["index"];
            // Of a list that would become too large, the first ones.
            let is_left_out = size > 0 && place.starts_with('/') && place.ends_with("/1");
            let want = if is_left_out { Value::Null } else { index.into() };
            assert_eq!(*kept, want, "{place} at {size}");
        }
        let gone = decided(&{
            let mut later = later.clone();
            later["status"]["applicationStatus"][0]["application"] = "gone".into();
            later["status"]["resources"][0]["name"] = "gone".into();
            later
        });
        assert_eq!(gone["applicationStatus"][0]["fromLater"], Value::Null, "of another one");
        assert_eq!(gone["resources"][0]["fromLater"], Value::Null, "of another one");
    }
}
