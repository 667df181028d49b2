//! Kustomizations with the real programs: the `kustomize` block gives what the edits of
//! Argo CD give (SE-037, SE-090).

use std::path::Path;

use super::programs::{confined, program};
use super::*;

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {tier: front}}\n\
    spec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
    spec:\n      containers:\n      - {name: a, image: 'example.com/web:1'}\n      - {name: b, image: redis}\n";

/// The files of a kustomization that has most of what is edited.
const FILES: [(&str, &str); 7] = [
    ("base/kustomization.yaml", "resources: [web.yaml]\n"),
    ("base/web.yaml", DEPLOYMENT),
    (
        "app/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- ../base\n- cm.yaml\n\
         namePrefix: old-\ncommonLabels:\n  team: one\ncommonAnnotations: {note: first}\n\
         labels:\n- pairs: {kept: 'yes'}\n  includeTemplates: true\n\
         images:\n- {name: redis, newName: example.com/redis, newTag: '6'}\n- {name: example.com/web, newTag: '2'}\n\
         replicas: [{name: web, count: 2}]\n\
         patches:\n- patch: |-\n    - {op: add, path: /metadata/labels/first, value: 'yes'}\n  target: {kind: Deployment}\n",
    ),
    ("app/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: '1'}\n"),
    ("app/patch.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {b: '2'}\n"),
    (
        "components/one/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nconfigMapGenerator: [{name: one, literals: [a=b]}]\n",
    ),
    (
        "components/two/kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nconfigMapGenerator: [{name: two, literals: [a=b]}]\n",
    ),
];

/// Blocks, and the edit that Argo CD makes for each.
const EDITS: &str = r#"
{"namePrefix": "new-"} => set nameprefix -- new-
{"nameSuffix": "-s"} => set namesuffix -- -s
{"images": ["example.com/web=other.example.com/web:3", "redis:7"]} => set image example.com/web=other.example.com/web:3 redis:7
{"images": ["redis=*:7", "example.com/web@sha256:0a"]} => set image redis=*:7 example.com/web@sha256:0a
{"images": ["redis=other"]} => set image redis=other
{"images": ["redis:7@sha256:0a", "example.com/web=example.org:5000/web:3@sha256:0b"]} => set image redis:7@sha256:0a example.com/web=example.org:5000/web:3@sha256:0b
{"replicas": [{"name": "web", "count": 5}]} => set replicas web=5
{"replicas": [{"name": "web", "count": "3"}]} => set replicas web=3
{"commonLabels": {"a": "b"}} => add label a:b
{"commonLabels": {"team": "two"}, "forceCommonLabels": true} => add label --force team:two
{"commonLabels": {"a": "b"}, "labelWithoutSelector": true} => add label --without-selector a:b
{"commonLabels": {"a": "b"}, "labelWithoutSelector": true, "labelIncludeTemplates": true} => add label --without-selector --include-templates a:b
{"commonAnnotations": {"a": "$ARGOCD_APP_NAME"}} => add annotation a:$ARGOCD_APP_NAME
{"commonAnnotations": {"a": "$ARGOCD_APP_NAME"}, "commonAnnotationsEnvsubst": true} => add annotation a:shop
{"commonLabels": {"a": "${ARGOCD_APP_NAME}"}} => add label a:shop
{"commonAnnotations": {"note": "x"}, "forceCommonAnnotations": true} => add annotation --force note:x
{"namespace": "prod"} => set namespace -- prod
{"patches": [{"path": "patch.yaml", "target": {"kind": "ConfigMap"}}]} => add patch --path patch.yaml --kind ConfigMap
{"components": ["../components/one", "../components/none"], "ignoreMissingComponents": true} => add component ../components/one
{"components": ["../components/*"]} => add component ../components/*
"#;

fn edits() -> impl Iterator<Item = (Value, &'static str)> {
    let rows = EDITS.trim().lines().map(|row| row.split_once(" => ").unwrap());
    rows.map(|(block, edit)| (serde_json::from_str(block).unwrap(), edit))
}

fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// Renders the directory `app` of a tree with a block.
async fn render(
    root: &Path,
    settings: &ApplicationSettings,
    block: &Value,
) -> Result<Vec<Value>, String> {
    let cache = tempfile::tempdir().unwrap();
    let allowed = source::SourceSettings {
        allow: Allow { local: true, http: false },
        ..source::SourceSettings::default()
    };
    let repositories = Repositories::open(cache.path(), allowed).unwrap();
    let url = root.to_str().unwrap();
    let revision = repositories.resolve(url, "", None).await.unwrap();
    let checkout = repositories.checkout(url, &revision, None).await.unwrap();
    let subject = source::RenderFor { application: "shop".into(), ..Default::default() };
    let source = json!({"path": "app", "kustomize": block});
    let rendered = source::render_source(&checkout, &source, &subject, &settings.render).await;
    let rendered = rendered.map_err(|error| error.to_string())?;
    Ok(rendered.manifests.into_iter().map(|manifest| manifest.object).collect())
}

/// SE-037, SE-103: each edit of the block gives what `kustomize edit` and `kustomize build`
/// give, by the program itself and by `kubectl kustomize`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_a_kustomize_block_gives_what_the_edits_of_argo_cd_give() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let Some(kubectl) = program("kubectl/kubectl") else { return };
    let own = confined(|programs| programs.kustomize = kustomize.clone());
    let by_kubectl = confined(|programs| {
        programs.kubectl = kubectl;
        assert_eq!(programs.kustomize, Path::new("kustomize"));
    });
    let has_kustomize = Command::new("kustomize").arg("version").output().is_ok();
    for (block, edit) in edits() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), &FILES);
        let edited = tempfile::tempdir().unwrap();
        write(edited.path(), &FILES);
        let mut call = Command::new(&kustomize);
        call.arg("edit").args(edit.split(' ')).current_dir(edited.path().join("app"));
        let call = call.output().unwrap();
        assert!(call.status.success(), "{edit}: {}", String::from_utf8_lossy(&call.stderr));
        let want = render(edited.path(), &own, &json!({})).await.unwrap();
        let before = render(tree.path(), &own, &json!({})).await.unwrap();
        let got = render(tree.path(), &own, &block).await.unwrap();
        assert_eq!(got, want, "{block}");
        assert_ne!(got, before, "the block has an effect: {block}");
        if !has_kustomize {
            assert_eq!(render(tree.path(), &by_kubectl, &block).await.unwrap(), want, "{block}");
        }
    }
}

/// What cannot be edited is refused by name, and nothing leaves the repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kustomize_block_that_cannot_be_followed_is_refused() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let settings = confined(|programs| programs.kustomize = kustomize);
    let cases = [
        (json!({"commonLabels": {"team": "x"}}), "label team already in kustomization file"),
        (json!({"commonAnnotations": {"note": "x"}}), "annotation note already in"),
        (json!({"images": ["redis"]}), "kustomize.images[0]: \"redis\": invalid format of image"),
        (json!({"replicas": [{"name": "web", "count": "x"}]}), "expected integer value for count"),
        (
            json!({"commonLabels": {"a": "b"}, "labelIncludeTemplates": true}),
            "--without-selector flag must be specified",
        ),
        (json!({"version": "v3.5.1"}), "kustomize version v3.5.1 is not registered"),
        (json!({"unknown": 1}), "kustomize.unknown is not supported"),
        (json!({"images": "x"}), "kustomize.images: "),
        (json!({"patches": [{"patch": "a", "other": 1}]}), "kustomize.patches[0].other"),
        (json!({"patches": [{"path": "https://example.com/p.yaml"}]}), "nothing is fetched"),
        (json!({"components": ["../components/none"]}), "is not in the repository"),
        (json!({"components": ["../../.."]}), "is not in the repository"),
        (json!({"components": ["../../../*"]}), "leads outside of the repository"),
        (json!({"components": ["https://example.com/c"]}), "nothing is fetched"),
        (json!({"patches": [{"path": "../../../../../../etc/hostname"}]}), ""),
    ];
    for (block, want) in cases {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), &FILES);
        let error = render(tree.path(), &settings, &block).await.unwrap_err();
        assert!(error.contains(want), "{block}: {error}");
        let kept = std::fs::read_to_string(tree.path().join("app/kustomization.yaml")).unwrap();
        assert_eq!(kept, FILES[2].1, "the checkout is not changed");
    }
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), &FILES);
    std::fs::remove_file(tree.path().join("app/kustomization.yaml")).unwrap();
    let error = render(tree.path(), &settings, &json!({"namePrefix": "x"})).await.unwrap_err();
    assert!(error.contains("Missing kustomization file 'app/kustomization.yaml'"), "{error}");
}

/// Options and versions of the ConfigMap, and what must not be passed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_options_are_passed_on_or_refused() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let with = |options: &str| {
        confined(|programs| {
            programs.kustomize = kustomize.clone();
            programs.kustomize_options.default = options.to_owned();
        })
    };
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), &FILES);
    write(
        tree.path(),
        &[(
            "app/kustomization.yaml",
            "resources: [cm.yaml]\nconfigMapGenerator: [{name: g, files: [../base/web.yaml]}]\n",
        )],
    );
    let error = render(tree.path(), &with(""), &json!({})).await.unwrap_err();
    assert!(error.contains("security; file"), "{error}");
    let free = with("--load-restrictor LoadRestrictionsNone --enable-managedby-label");
    let objects = render(tree.path(), &free, &json!({})).await.unwrap();
    assert_eq!(objects.len(), 2);
    for option in [
        "--enable-alpha-plugins",
        "--enable-exec",
        "--network",
        "--mount=/etc:/etc",
        "-o out",
        "--helm-command=/bin/sh",
        "--load-restrictor=All",
    ] {
        let error = render(tree.path(), &with(option), &json!({})).await.unwrap_err();
        let name = option.split([' ', '=']).next().unwrap();
        assert!(
            error.contains(&format!("kustomize.buildOptions of ConfigMap argocd-cm: {name}")),
            "{error}"
        );
    }
    // Without the restriction of Kustomize, files outside of the repository stay unread.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s3cr3t").unwrap();
    for path in [
        outside.path().join("secret").display().to_string(),
        format!("../../../../../../../..{}", outside.path().join("secret").display()),
    ] {
        let text = format!("configMapGenerator: [{{name: g, files: ['k={path}']}}]\n");
        write(tree.path(), &[("app/kustomization.yaml", &text)]);
        let error = render(tree.path(), &free, &json!({})).await.unwrap_err();
        assert!(!error.contains("s3cr3t"), "{error}");
    }
    // A version has its own program and options.
    let versions = confined(|programs| {
        programs.kustomize = "/nonexistent/kustomize".into();
        programs.kustomize_options.paths.insert("v5".into(), Ok(kustomize.clone()));
    });
    write(tree.path(), &[("app/kustomization.yaml", "resources: [cm.yaml]\n")]);
    assert_eq!(render(tree.path(), &versions, &json!({"version": "v5"})).await.unwrap().len(), 1);
    assert!(render(tree.path(), &versions, &json!({})).await.unwrap_err().contains("cannot start"));
    // A name is looked for in PATH.
    let named = confined(|programs| {
        programs.kustomize_options.paths.insert("v4".into(), Ok("sh".into()));
        programs.kustomize_options.paths.insert("v6".into(), Ok("no-such-kustomize-6".into()));
    });
    let error = render(tree.path(), &named, &json!({"version": "v4"})).await.unwrap_err();
    assert!(!error.contains("cannot start"), "it runs, and cannot build: {error}");
    let error = render(tree.path(), &named, &json!({"version": "v6"})).await.unwrap_err();
    assert!(error.contains("no-such-kustomize-6"), "{error}");
    let twice = confined(|programs| {
        let why = "kustomize.version.v5 of ConfigMap argocd-cm: set twice".to_owned();
        programs.kustomize_options.paths.insert("v5".into(), Err(why));
    });
    let error = render(tree.path(), &twice, &json!({"version": "v5"})).await.unwrap_err();
    assert!(error.contains("kustomize.version.v5 of ConfigMap argocd-cm: set twice"), "{error}");
}

/// Charts in kustomizations, by the installed Helm, with the version of the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kustomization_inflates_charts_of_its_repository() {
    let (Some(kustomize), Some(helm)) = (program("kustomize/kustomize"), program("helm3/helm"))
    else {
        return;
    };
    let settings = confined(|programs| {
        (programs.kustomize, programs.helm) = (kustomize, helm);
        programs.kustomize_options.default = "--enable-helm".into();
    });
    let tree = tempfile::tempdir().unwrap();
    write(
        tree.path(),
        &[
            (
                "app/kustomization.yaml",
                "helmGlobals: {chartHome: charts}\nhelmCharts: [{name: c, releaseName: r}]\n",
            ),
            ("app/charts/c/values.yaml", "a: 1\n"),
            ("app/charts/c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
            (
                "app/charts/c/templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: '{{ .Capabilities.KubeVersion.Version }}', h: '{{ .Capabilities.APIVersions.Has \"x.example.com/v1\" }}'}\n",
            ),
        ],
    );
    let block = json!({"kubeVersion": "1.31.0", "apiVersions": ["x.example.com/v1"]});
    let objects = render(tree.path(), &settings, &block).await.unwrap();
    assert_eq!(objects[0]["data"], json!({"v": "v1.31.0", "h": "true"}));
}

/// Through the controller: the Application of a kustomization with images and a prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_of_a_kustomization_is_synced() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let world = World::with(confined(|programs| programs.kustomize = kustomize)).await;
    write(world.repo.path(), &FILES);
    world.commit();
    let source = json!({"path": "app", "kustomize": {
        "namePrefix": "new-",
        "images": ["redis:${ARGOCD_APP_NAME}"],
        "replicas": [{"name": "web", "count": 3}],
        "components": ["../components/one"],
    }});
    world.deploy_app(&world.with_source("web", source)).await;
    let deployment = world.get("apps/v1", "Deployment", "web", "new-web").await;
    assert_eq!(deployment["spec"]["replicas"], 3);
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[1]["image"], "redis:web");
    let app = world.app("web").await;
    assert_eq!(app["status"]["sourceType"], "Kustomize");
    let refused = json!({"path": "app", "kustomize": {"commonLabels": {"team": "x"}}});
    let message = world.refusal_of(&world.with_source("other", refused)).await;
    assert!(message.contains("label team already in kustomization file"), "{message}");
}

/// SE-037 through the controller: what is deployed with each block is what the edits of Argo CD
/// give.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_applications_with_kustomize_blocks_are_deployed_as_edited() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let settings = confined(|programs| programs.kustomize = kustomize.clone());
    let world = World::with(settings.clone()).await;
    write(world.repo.path(), &FILES);
    world.commit();
    let deploy = async |(at, (block, edit)): (usize, (Value, &'static str))| {
        let name = format!("app-{at}");
        let edited = tempfile::tempdir().unwrap();
        write(edited.path(), &FILES);
        let edit = edit.replace(":shop", &format!(":{name}"));
        let mut call = Command::new(&kustomize);
        call.arg("edit").args(edit.split(' ')).current_dir(edited.path().join("app"));
        assert!(call.status().unwrap().success(), "{block}");
        let want = render(edited.path(), &settings, &json!({})).await.unwrap();
        let mut app = world.with_source(&name, json!({"path": "app", "kustomize": block}));
        app["spec"]["destination"]["namespace"] = name.as_str().into();
        app["spec"]["syncPolicy"] = json!({
            "automated": {}, "syncOptions": ["CreateNamespace=true"],
        });
        // The one whose manifests have a namespace.
        let namespace = block["namespace"].as_str().unwrap_or(&name);
        if namespace != name {
            world.create("v1", "Namespace", &json!({"metadata": {"name": namespace}})).await;
        }
        world.create_until_good(&app).await;
        let app = world.app(&name).await;
        let count = app["status"]["resources"].as_array().map_or(0, Vec::len);
        assert_eq!(count, want.len(), "{block}: {}", app["status"]["resources"]);
        // What the server makes of the same objects when somebody else creates them.
        let twin = format!("{name}-twin");
        world.create("v1", "Namespace", &json!({"metadata": {"name": twin}})).await;
        for object in &want {
            let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap();
            let (version, kind, of) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
            let mut other = object.clone();
            other["metadata"]["namespace"] = twin.as_str().into();
            world.create(version, kind, &other).await;
            let live = world.get(version, kind, namespace, of).await;
            let other = world.get(version, kind, &twin, of).await;
            assert_eq!(written(live), written(other), "{block}: {kind} {of} of {object}");
        }
        want.len()
    };
    let all = futures::future::join_all(edits().enumerate().map(deploy)).await;
    assert!(all.iter().all(|count| *count >= 2), "{all:?}");
}

/// An object without what its server, its controllers and the tracking of its Application add.
fn written(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|name, _| ["name", "labels", "annotations"].contains(&name.as_str()));
    let annotations = metadata.remove("annotations").unwrap_or_else(|| json!({}));
    let mut annotations = annotations.as_object().unwrap().clone();
    let added = [
        "argocd.argoproj.io/tracking-id",
        "deployment.kubernetes.io/revision",
        "kubectl.kubernetes.io/last-applied-configuration",
    ];
    annotations.retain(|name, _| !added.contains(&name.as_str()));
    metadata.insert("annotations".to_owned(), annotations.into());
    object
}

/// The words for a missing file begin with those of Kustomize, which tools compare (K-24); a
/// reference to another repository, and one that leads out, are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_file_of_a_kustomization_is_told_in_the_words_of_kustomize() {
    let world = World::start().await;
    world.write("base/kustomization.yaml", "resources: [../lost]\n");
    let cases = [
        (
            "missing",
            "does-not-exist.yaml",
            "accumulating resources from 'does-not-exist.yaml': open missing/does-not-exist.yaml: no such file or directory (missing/kustomization.yaml: resources[0]: ",
        ),
        ("above", "../base/none", "from '../base/none': open base/none: no such file or directory"),
        (
            "below",
            "../base",
            "from '../lost': open lost: no such file or directory (base/kustomization.yaml",
        ),
        ("outside", "../../x", "outside/kustomization.yaml: resources[0]: \"../../x\" is not in"),
        (
            "remote",
            "github.com/a/b",
            "remote/kustomization.yaml: resources[0]: \"github.com/a/b\" is",
        ),
    ];
    for (folder, entry, _) in cases {
        let text = format!("resources: ['{entry}']\n");
        world.write(&format!("{folder}/kustomization.yaml"), &text);
    }
    world.commit_file("README", "all");
    for (folder, _, want) in cases {
        let said = world.refusal_of(&world.application(folder, folder)).await;
        assert!(said.contains(want), "{folder}: {said}");
        let is_missing = want.contains("no such file");
        assert_eq!(said.contains("no such file"), is_missing, "{folder}: {said}");
    }
}
