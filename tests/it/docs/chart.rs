//! The Helm chart: it gives the same objects as the kustomization, refuses wrong values, and is
//! installed, upgraded, rolled back and uninstalled by the real programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use regex::Regex;
use serde_json::{Value, json};
use wavegate_api::yaml;

use super::markdown::root;
use super::pages::Cluster;
use crate::application_controller::programs::{helms, program};

mod page;

pub const CHART: &str = "deploy/helm/wavegate";

/// Helm with a home of its own.
pub struct Helm {
    program: PathBuf,
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
}

impl Helm {
    /// Each version that is there.
    pub fn all(kubeconfig: &Path) -> Vec<Self> {
        let with_home = |program: PathBuf| {
            let home = tempfile::tempdir().unwrap();
            Self { program, home, kubeconfig: kubeconfig.to_owned() }
        };
        helms().into_iter().map(with_home).collect()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.current_dir(root()).env_clear().env("KUBECONFIG", &self.kubeconfig);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME"] {
            command.env(variable, self.home.path());
        }
        command.args(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments:?}: {error}", self.program.display());
        String::from_utf8(output.stdout).unwrap()
    }

    /// The objects that the chart gives with these options.
    pub fn objects(&self, options: &[&str]) -> Vec<Value> {
        let mut arguments = vec!["template", "wavegate", CHART, "-n", "argocd"];
        arguments.extend(options);
        documents(&self.ok(&arguments))
    }
}

fn documents(text: &str) -> Vec<Value> {
    let all = yaml::parse_documents(text).unwrap().into_iter().map(|document| document.value);
    all.filter(Value::is_object).collect()
}

fn name(object: &Value) -> String {
    format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

/// Without what tools for charts expect besides, and defaults of the API server that one of both
/// writes out.
fn plain(mut object: Value) -> Value {
    let ours = ["app.kubernetes.io/name", "app.kubernetes.io/component"];
    let keep_ours = |labels: Option<&mut Value>| {
        if let Some(labels) = labels.and_then(Value::as_object_mut) {
            labels.retain(|key, _| ours.contains(&&**key));
        }
    };
    for path in [
        "/metadata/labels",
        "/spec/selector",
        "/spec/selector/matchLabels",
        "/spec/podSelector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        let is_labels =
            object.pointer(path).is_some_and(|labels| labels.get("matchLabels").is_none());
        keep_ours(object.pointer_mut(path).filter(|_| is_labels));
    }
    if ["ClusterRole", "ClusterRoleBinding", "ServiceAccount"]
        .contains(&object["kind"].as_str().unwrap())
    {
        object["metadata"].as_object_mut().unwrap().remove("labels");
    }
    if let Some(spec) = object.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut) {
        spec.remove("terminationGracePeriodSeconds");
        spec["containers"][0].as_object_mut().unwrap().remove("imagePullPolicy");
    }
    if object["spec"]["type"] == "ClusterIP" {
        object["spec"].as_object_mut().unwrap().remove("type");
    }
    object
}

#[test]
fn the_chart_and_the_kustomization_give_the_same_objects() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let built = Command::new(kustomize).args(["build", "deploy"]).current_dir(root()).output();
    let built = String::from_utf8(built.unwrap().stdout).unwrap();
    let by_name = |objects: Vec<Value>| -> BTreeMap<String, Value> {
        objects.into_iter().map(|object| (name(&object), plain(object))).collect()
    };
    let wanted = by_name(documents(&built));
    assert!(wanted.len() > 8, "{:?}", wanted.keys());
    for helm in Helm::all(Path::new("none")) {
        let found = by_name(helm.objects(&["--set", "definitions.install=false"]));
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        for (name, wanted) in &wanted {
            assert_eq!(&found[name], wanted, "{name}");
        }
        let definitions: BTreeSet<String> = helm
            .objects(&[])
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition")
            .map(|object| {
                let kept = &object["metadata"]["annotations"]["helm.sh/resource-policy"];
                assert_eq!(kept, "keep", "{}", name(object));
                name(object)
            })
            .collect();
        assert_eq!(definitions.len(), 5, "{definitions:?}");
        helm.ok(&["lint", "--strict", CHART]);
    }
}

/// Each value has an effect where it belongs, and nothing else has.
#[test]
fn values_are_where_they_belong() {
    for helm in Helm::all(Path::new("none")) {
        let of = |options: &[&str], wanted: &str, pointer: &str| -> Value {
            let mut all = vec!["--set", "definitions.install=false"];
            all.extend(options.iter().flat_map(|option| ["--set-json", option]));
            let objects = helm.objects(&all);
            let found = objects.iter().find(|object| name(object) == wanted);
            found.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
        };
        let deployment = "Deployment wavegate";
        let container = "/spec/template/spec/containers/0";
        let digest = format!("sha256:{}", "0".repeat(64));
        let image = format!(r#"image={{"registry":"registry.invalid","digest":"{digest}"}}"#);
        let cases = [
            (
                vec![&*image],
                deployment,
                "image",
                json!(format!("registry.invalid/wavegate@{digest}")),
            ),
            (
                vec![r#"engine="external""#, "progressiveSyncs=false", r#"extraArgs=["--a=b c"]"#],
                deployment,
                "args",
                json!([
                    "run",
                    "--enable-leader-election",
                    "--cache-dir=/var/cache/wavegate",
                    "--sync-engine=external",
                    "--a=b c"
                ]),
            ),
            (
                vec!["probes={\"periodSeconds\":3}"],
                deployment,
                "livenessProbe/periodSeconds",
                json!(3),
            ),
        ];
        for (options, object, pointer, want) in cases {
            assert_eq!(
                of(&options, object, &format!("{container}/{pointer}")),
                want,
                "{options:?}"
            );
        }
        let none = of(&[r#"rbac={"syncs":"none"}"#], "ClusterRole wavegate-sync", "/kind");
        assert_eq!(none, Value::Null);
        let rules = r#"rbac={"syncs":"rules","syncRules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}"#;
        let found = of(&[rules], "ClusterRole wavegate-sync", "/rules");
        assert_eq!(found[0]["resources"], json!(["configmaps"]), "{found}");
        let aggregated =
            of(&[r#"rbac={"aggregate":true}"#], "ClusterRole wavegate-viewer", "/metadata/labels");
        assert_eq!(aggregated["rbac.authorization.k8s.io/aggregate-to-view"], "true");
        let bound = of(
            &["approvals=true", r#"fullname="rollouts""#],
            "ValidatingAdmissionPolicyBinding rollouts-approvals",
            "/spec/policyName",
        );
        assert_eq!(bound, "rollouts-approvals");
        let plugin =
            r#"plugins=[{"name":"x","image":"i","config":{"kind":"ConfigManagementPlugin"}}]"#;
        let text = of(&[plugin], "ConfigMap wavegate-plugin-x", "/data/plugin.yaml");
        assert_eq!(text, "kind: ConfigManagementPlugin\n");
        let claim = of(
            &[r#"cache={"claim":{"create":true}}"#],
            deployment,
            "/spec/template/spec/volumes/0/persistentVolumeClaim/claimName",
        );
        assert_eq!(claim, "wavegate-cache");
        let linked = of(
            &[r#"metrics={"rules":{"enabled":true,"runbooks":"https://wiki.invalid/runbooks"}}"#],
            "PrometheusRule wavegate",
            "/spec/groups/0/rules/0/annotations/runbook_url",
        );
        assert_eq!(linked, "https://wiki.invalid/runbooks#wavegaterolloutstuck");
        for name in ["rollouts", "operation"] {
            let text = of(
                &[r#"metrics={"dashboards":{"enabled":true}}"#],
                &format!("ConfigMap wavegate-dashboard-{name}"),
                &format!("/data/{name}.json"),
            );
            let dashboard: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
            assert_eq!(dashboard["uid"], format!("wavegate-{name}"));
        }
        let extra = r#"extraObjects=["{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Release.Name }}-x\"}}"]"#;
        assert_eq!(of(&[extra], "ConfigMap wavegate-x", "/kind"), "ConfigMap");
    }
}

#[test]
fn wrong_values_are_refused() {
    let wrong = [
        ("engine=\"both\"", "engine"),
        ("engine=null", ""),
        ("replicas=-1", "replicas"),
        ("replicas=\"two\"", "replicas"),
        ("nope=1", "nope"),
        ("image={\"tga\":\"1\"}", "tga"),
        ("image={\"digest\":\"sha256:12\"}", "digest"),
        ("rbac={\"syncs\":\"rules\"}", "syncRules"),
        ("rbac={\"syncs\":\"some\"}", "syncs"),
        ("log={\"level\":\"loud\"}", "level"),
        ("cache={\"claim\":{\"create\":true}}\u{0}replicas=2", "replicas"),
        ("webhook={\"httpRoute\":{\"enabled\":true}}", "parentRefs"),
        ("webhook={\"service\":{\"port\":70000}}", "port"),
        ("fullname=\"Wave Gate\"", "fullname"),
        ("plugins=[{\"name\":\"x\"}]", "plugins"),
        ("extraArgs=[1]", "extraArgs"),
        ("metrics={\"rules\":{\"stuckAfter\":\"1h\"}}", "stuckAfter"),
        ("metrics={\"rules\":{\"runbooks\":\"docs\"}}", "runbooks"),
        ("metrics={\"dashboards\":{\"labels\":{\"a\":1}}}", "dashboards"),
        ("labels={\"a\":1}", "labels"),
    ];
    for helm in Helm::all(Path::new("none")) {
        for (options, field) in wrong {
            let mut arguments = vec!["template", "wavegate", CHART];
            arguments.extend(options.split('\0').flat_map(|option| ["--set-json", option]));
            let output = helm.run(&arguments);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let is_named = error.contains(field);
            // A null takes the default.
            let is_default = options.ends_with("=null");
            assert_eq!(output.status.success(), is_default, "{options}: {error}");
            assert!(is_named, "{options}: {error}");
        }
    }
}

/// The table of values in the chart's README, from their comments.
fn table_of_values() -> String {
    let text = std::fs::read_to_string(root().join(CHART).join("values.yaml")).unwrap();
    let values = yaml::parse_value(&text).unwrap();
    let (mut path, mut words) = (Vec::<(usize, String)>::new(), Vec::<String>::new());
    let mut table = String::from("| value | default | meaning |\n|---|---|---|\n");
    let key = Regex::new(r"^( *)([A-Za-z]+):").unwrap();
    for line in text.lines() {
        if let Some(comment) = line.trim_start().strip_prefix("# ") {
            words.push(comment.to_owned());
            continue;
        }
        let Some(found) = key.captures(line) else { continue };
        path.retain(|(depth, _)| *depth < found[1].len());
        path.push((found[1].len(), found[2].to_owned()));
        if words.is_empty() {
            continue;
        }
        let names: Vec<&str> = path.iter().map(|(_, name)| &**name).collect();
        let value = values.pointer(&format!("/{}", names.join("/"))).unwrap();
        if value.as_object().is_some_and(|map| !map.is_empty())
            && text.contains(&format!("{line}\n  # "))
        {
            // A group: what it is for is in its values.
            words.clear();
            continue;
        }
        let meaning = std::mem::take(&mut words).join(" ");
        table += &format!("| `{}` | `{value}` | {meaning} |\n", names.join("."));
    }
    table
}

#[test]
fn the_readme_of_the_chart_has_all_values() {
    let path = root().join(CHART).join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("| value |").unwrap();
    let wanted = format!("{before}{}", table_of_values());
    if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert_eq!(text, wanted, "WAVEGATE_REGENERATE=1 writes it");
}

/// Installs, upgrades, rolls back and uninstalls a release; definitions of others are left as they
/// are, and its own stay.
fn through_the_life_of_a_release(kubeconfig: &Path, has_definitions: bool) {
    for (number, helm) in Helm::all(kubeconfig).into_iter().enumerate() {
        let name = format!("chart-{number}");
        let fullname = format!("fullname={name}");
        let of = |verb: &'static str| {
            [verb, &*name, CHART, "-n", &*name, "--set", &*fullname].map(str::to_owned)
        };
        let run = |verb: &'static str, more: &[&str]| {
            let own = of(verb);
            let mut arguments: Vec<&str> = own.iter().map(String::as_str).collect();
            arguments.extend(more);
            helm.ok(&arguments)
        };
        // The embedded server has no such kind.
        let approvals = format!("approvals={has_definitions}");
        let installed = run("install", &["--create-namespace", "--set", &approvals]);
        assert!(installed.contains("Wavegate runs in namespace"), "{installed}");
        let manifest = helm.ok(&["get", "manifest", &name, "-n", &name]);
        let definitions = manifest.matches("kind: CustomResourceDefinition").count();
        // The second version finds those of the first one.
        let is_first = !has_definitions && number == 0;
        assert_eq!(definitions, if is_first { 5 } else { 0 }, "{name}");
        run("upgrade", &["--set", "replicas=2"]);
        assert_eq!(replicas(&helm, &name), json!(2));
        helm.ok(&["rollback", &name, "1", "-n", &name]);
        assert_eq!(replicas(&helm, &name), json!(1));
        let left = helm.ok(&["uninstall", &name, "-n", &name]);
        assert_eq!(left.matches("CustomResourceDefinition").count(), definitions, "{left}");
    }
}

/// The replicas of the release as it is stored now.
fn replicas(helm: &Helm, name: &str) -> Value {
    let manifest = helm.ok(&["get", "manifest", name, "-n", name]);
    let objects = documents(&manifest);
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    deployment["spec"]["replicas"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
    let cluster = Cluster::embedded().await;
    let kubeconfig = cluster.kubeconfig.clone();
    let life = move || through_the_life_of_a_release(&kubeconfig, false);
    tokio::task::spawn_blocking(life).await.unwrap();
}

mod cluster {
    use super::*;
    use crate::support::World;
    use crate::support::cluster::KUBECONFIG;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_release_is_installed_upgraded_rolled_back_and_uninstalled() {
        let Some(world) = World::cluster("chart").await else { return };
        let kubeconfig = PathBuf::from(std::env::var_os(KUBECONFIG).unwrap());
        let life = move || through_the_life_of_a_release(&kubeconfig, true);
        tokio::task::spawn_blocking(life).await.unwrap();
        world.finish().await;
    }
}
