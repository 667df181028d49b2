//! The example of the progressive syncs guide: development at once, quality assurance
//! manually, production ten per cent at a time.

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{IN_CLUSTER, with_deployment};
use crate::support::{Kind, Setup, World};

/// As in the guide, except for the addresses of clusters and of the repository, and a
/// suffix of the names, since the cluster may be shared.
const EXAMPLE: &str = r#"
metadata:
  name: guestbook
spec:
  generators:
  - list:
      elements:
      - cluster: engineering-dev
        url: SERVER
        env: env-dev
      - cluster: engineering-qa
        url: SERVER
        env: env-qa
      - cluster: engineering-prod
        url: SERVER
        env: env-prod
  strategy:
    type: RollingSync
    rollingSync:
      steps:
        - matchExpressions:
            - key: envLabel
              operator: In
              values:
                - env-dev
        - matchExpressions:
            - key: envLabel
              operator: In
              values:
                - env-qa
          maxUpdate: 0
        - matchExpressions:
            - key: envLabel
              operator: In
              values:
                - env-prod
          maxUpdate: 10%
  goTemplate: true
  goTemplateOptions: ["missingkey=error"]
  template:
    metadata:
      name: '{{.cluster}}-guestbook--TAG'
      labels:
        envLabel: '{{.env}}'
    spec:
      project: my-project
      source:
        repoURL: REPOSITORY
        targetRevision: HEAD
        path: apps/{{.cluster}}-guestbook
      destination:
        server: '{{.url}}'
        namespace: TARGET
"#;

const DEV: &str = "engineering-dev-guestbook";
const QA: &str = "engineering-qa-guestbook";
const PROD: &str = "engineering-prod-guestbook";

pub async fn the_example_of_the_guide_completes(mut world: World) {
    let files: Vec<_> =
        [DEV, QA, PROD].iter().flat_map(|name| with_deployment(name, "v1", "succeed")).collect();
    let revision = world.repository.commit("first", &files);
    let text = EXAMPLE
        .replace("SERVER", IN_CLUSTER)
        .replace("REPOSITORY", &world.repository.url())
        .replace("guestbook--TAG", &world.tagged("guestbook"))
        .replace("TARGET", &world.target);
    let set = wavegate_api::yaml::parse_value(&text).unwrap();
    world.create(Kind::ApplicationSet, set).await;
    world.start(&Setup::default()).await;

    world
        .until("quality assurance is waited for", |log| {
            let set = log.get(Kind::ApplicationSet, "guestbook")?;
            let rollout = &set["status"]["rollout"];
            (rollout["step"] == 2 && rollout["waitingFor"][0]["application"] == world.tagged(QA))
                .then_some(())
        })
        .await;
    world.until_calm("it waits for a manual sync").await;
    world.recorder.read(|log| {
        let at_work = |name: &str| {
            log.of(Kind::Application)
                .any(|record| record.name() == name && invariants::is_in_flight(&record.object))
        };
        assert_eq!([DEV, QA, PROD].map(at_work), [true, false, false], "{}", log.state());
    });

    world.sync_manually(QA).await;
    let steps = Steps::default().step([DEV], None).step([QA], Some(0)).step([PROD], Some(1));
    world.until_rolled_out("guestbook", &steps, &revision).await;
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        let available = |name: &str| {
            log.get(Kind::Deployment, name)
                .is_some_and(|deployment| deployment["status"]["availableReplicas"] == 1)
        };
        assert_eq!([DEV, QA, PROD].map(available), [true; 3], "{}", log.state());
    });
    world.finish().await;
}
