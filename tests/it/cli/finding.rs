//! Commands find ApplicationSets and kubeconfigs, or say where they looked.

use std::process::Command;

use kube_sim::{Effect, InjectedFault};

use super::embedded::Cluster;
use super::*;

/// A cluster with the set `set` in `argocd`, and a kubeconfig whose context is in `default`.
struct World {
    cluster: Cluster,
    files: TempDir,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        cluster.knows("default", "https://1").await;
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["metadata"]["namespace"] = "argocd".into();
        cluster.create("ApplicationSet", object).await;
        let kubeconfig = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
        let kubeconfig = kubeconfig.replace("namespace: argocd", "namespace: default");
        Self { cluster, files: folder(&[("config", &kubeconfig)]) }
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command.env("KUBECONFIG", self.files.path().join("config"));
        command
    }

    async fn run(&self, args: &[&str]) -> Run {
        run(self.program(args)).await
    }

    fn forbid(&self, matches: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        let fault = InjectedFault::new(Effect::Status(403), move |request| {
            request.resource == "applicationsets" && matches(&request.verb, &request.namespace)
        });
        self.cluster.server.inject(fault.times(1000));
    }
}

async fn run(command: Command) -> Run {
    tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_found_in_the_namespace_of_the_control_plane() {
    let world = World::start().await;
    let commands: [&[&str]; 5] = [
        &["status", "set"],
        &["explain", "set"],
        &["plan", "--live", "set"],
        &["render", "--live", "set"],
        &["status"],
    ];
    for args in commands {
        let run = world.run(args).await;
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{args:?}: {}", run.out);
        assert!(!run.out.is_empty(), "{args:?}");
    }
    let listed = world.run(&["status", "-o", "json"]).await.json();
    assert_eq!(listed[0]["namespace"], "argocd");
    // A set in a file without a namespace is the one that is stored there.
    let file = folder(&[("set.json", &set(&["a"], json!([{}])))]);
    let file = in_folder(&file, "set.json");
    let rendered = world.run(&["render", "--live", "-f", &file, "-o", "json"]).await;
    assert_eq!(rendered.json()["items"][0]["metadata"]["namespace"], "argocd");

    let mut elsewhere = world.program(&["status", "set"]);
    elsewhere.env("POD_NAMESPACE", "cd");
    run(elsewhere).await.fails(
        2,
        &[
            "error: cannot find: ApplicationSet default/set: it does not exist, nor does cd/set; ",
            "ApplicationSets of this name are in namespace argocd: select it with -n argocd",
        ],
    );
    // An explicit namespace is obeyed.
    let strict = [&["status", "set", "-n", "default"], &["explain", "set", "-n", "default"]];
    for args in strict {
        world.run(args).await.fails(
            2,
            &["ApplicationSet default/set: it does not exist; ApplicationSets of this name are in namespace argocd"],
        );
    }
    world.run(&["explain", "sett"]).await.fails(2, &["did you mean set?"]);
    world.run(&["explain", "sett", "-n", "default"]).await.fails(
        2,
        &["error: cannot find: ApplicationSet default/sett: it does not exist; did you mean set in namespace argocd?"],
    );
    let ran = world.run(&["explain", "nothing-like-it"]).await;
    ran.fails(2, &["list all with wavegate status -A"]);
    world.run(&["explain", "../set"]).await.fails(2, &["../set: the kind before the /"]);
    world.run(&["explain", "app set"]).await.fails(2, &["error: invalid name: "]);
    let empty = world.run(&["status", "-n", "default"]).await;
    assert_eq!(
        (empty.code, empty.out.as_str()),
        (
            0,
            "No ApplicationSets found in namespace default; namespaces with ApplicationSets: argocd (use -n, or -A for all).\n"
        )
    );
    let empty = world.run(&["status", "-n", "default", "-o", "json"]).await;
    assert_eq!((empty.code, empty.out.as_str()), (0, "[]\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_that_may_not_be_read_are_skipped() {
    let world = World::start().await;
    world.forbid(|_, namespace| namespace == "default");
    for args in [&["status", "set"][..], &["explain", "set"], &["status"]] {
        let run = world.run(args).await;
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{args:?}");
    }
    world.forbid(|verb, namespace| verb == "list" && namespace.is_empty());
    world.run(&["explain", "sett"]).await.fails(
        2,
        &["ApplicationSet default/sett: it does not exist, nor does argocd/sett; cannot read from the cluster: ApplicationSet default/sett: ", "did you mean set?"],
    );
    world.forbid(|_, _| true);
    let ran = world.run(&["explain", "set"]).await;
    ran.fails(2, &["error: cannot read from the cluster: ApplicationSet default/set: "]);
    world.run(&["status"]).await.fails(2, &["ApplicationSets of namespace default: "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_kubeconfig_or_context_is_named_with_what_exists() {
    let world = World::start().await;
    let home = tempfile::tempdir().unwrap();
    let mut missing = program(&["status"]);
    missing.env_remove("KUBECONFIG").env("HOME", home.path());
    run(missing).await.fails(
        2,
        &[
            "error: cannot reach the cluster: the current kube context: found no kubeconfig at ",
            &format!(
                "{}/.kube/config, and this process does not run in a cluster",
                home.path().display()
            ),
            "set KUBECONFIG or write ~/.kube/config",
        ],
    );
    let mut listed = program(&["status"]);
    listed.env("KUBECONFIG", "/nonexistent/a:/nonexistent/b");
    run(listed).await.fails(2, &["found no kubeconfig at /nonexistent/a, /nonexistent/b, "]);
    // As kubectl does, a file that does not exist is skipped.
    let mut second = program(&["status"]);
    let path = format!("/nonexistent/a:{}", in_folder(&world.files, "config"));
    second.env("KUBECONFIG", path);
    assert_eq!(run(second).await.code, 0);

    let text = std::fs::read_to_string(world.files.path().join("config")).unwrap();
    let name = text.lines().find_map(|line| line.trim().strip_prefix("current-context: ")).unwrap();
    let name = name.trim_matches('"');
    world.run(&["status", "--context", "nope"]).await.fails(
        2,
        &[&format!("kube context nope: it does not exist; select one with --context: {name}")],
    );
    let near = format!("{name}x");
    world.run(&["status", "--context", &near]).await.fails(2, &[&format!("did you mean {name}? ")]);
    let unset: String = text
        .lines()
        .filter(|line| !line.contains("current-context"))
        .map(|line| format!("{line}\n"))
        .collect();
    let files = folder(&[
        ("unset", &unset),
        ("broken", "clusters: [\n"),
        ("text", "s3cr3t\n"),
        ("typed", "clusters: s3cr3t\n"),
    ]);
    for (file, want) in [
        ("unset", "no context is selected; select one with --context: "),
        ("broken", "broken: the kubeconfig is invalid"),
        ("broken", ": it is not valid YAML"),
        ("text", ": it is YAML, but not an object with clusters, users and contexts"),
        ("typed", ": a field is missing there, or has a value of the wrong type"),
    ] {
        let mut command = program(&["status"]);
        command.env("KUBECONFIG", in_folder(&files, file));
        let run = run(command).await;
        run.fails(2, &["error: cannot reach the cluster: ", want]);
        assert!(!run.err.contains("s3cr3t"), "{}", run.err);
    }
}

/// The set is what these commands are about, and its Applications are what people see first.
#[tokio::test(flavor = "multi_thread")]
async fn for_an_application_its_set_is_named() {
    let world = World::start().await;
    let application = |name: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {
                "project": "default", "source": {"repoURL": "https://r", "path": "."},
                "destination": {"server": "https://1"},
            },
        })
    };
    let sets = world.cluster.api("ApplicationSet");
    let uid = sets.get("set").await.unwrap().metadata.uid;
    let mut owned = application("dev-eu");
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
        "uid": uid, "controller": true,
    }]);
    world.cluster.create("Application", owned).await;
    world.cluster.create("Application", application("alone")).await;
    let of_set = "; dev-eu is an Application of the ApplicationSet set: use that name, or \
                  wavegate tree -n argocd dev-eu";
    world.run(&["status", "dev-eu"]).await.fails(2, &["it does not exist", of_set]);
    world.run(&["status", "alone"]).await.fails(2, &["alone is an Application of no "]);
    for (name, says) in [
        ("dev-eu", "dev-eu is not waited for; set does not roll out"),
        ("alone", "alone is not Synced and Healthy"),
    ] {
        let run = world.run(&["explain", name]).await;
        assert!(run.code == 0 && run.out.starts_with(says), "{}{}", run.out, run.err);
    }
    // A printed command works where it is pasted: in the context and the namespace that were given.
    for (command, printed) in [
        ("terminate", "wavegate status --context kube-sim -n argocd set lists"),
        ("sync", "wavegate status --context kube-sim -n argocd set lists"),
        ("refresh", "wavegate refresh --context kube-sim -n argocd appset/set"),
    ] {
        let given = [command, "set", "--context", "kube-sim"];
        world.run(&given).await.fails(2, &["is an ApplicationSet; ", printed]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_may_have_the_prefix_of_its_kind() {
    let world = World::start().await;
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "alone"},
        "spec": {
            "project": "default", "source": {"repoURL": "https://r", "path": "."},
            "destination": {"server": "https://1"},
        },
    });
    world.cluster.create("Application", application).await;
    for command in ["status", "explain", "history", "policies"] {
        let run = world.run(&[command, "appset/set"]).await;
        assert_eq!(run.code, 0, "{command}: {}", run.err);
        let other = world.run(&[command, "app/alone"]).await;
        match command {
            "explain" => assert_eq!(other.code, 0, "{}", other.err),
            _ => other.fails(2, &["cannot use: app/alone: it names no ApplicationSet"]),
        }
    }
    let refreshed = world.run(&["refresh", "app/alone", "--no-wait"]).await;
    assert_eq!(refreshed.code, 0, "{}", refreshed.err);
    let sync = world.run(&["sync", "app/alone", "--resource", ":ConfigMap:a"]).await;
    sync.fails(2, &["the Application has no resources in its status yet"]);
    world.run(&["terminate", "app/alone"]).await.fails(1, &["Application argocd/alone"]);
    for command in ["sync", "terminate"] {
        world.run(&[command, "appset/set"]).await.fails(2, &["is an ApplicationSet; "]);
    }
    world.run(&["status", "pod/x"]).await.fails(2, &["the kind before the / is none of app"]);
}

/// An unset variable in `-n "$NS"` read as a missing definition.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_validated_as_a_name_is() {
    let world = World::start().await;
    for (namespace, why) in [
        ("", "it is empty"),
        ("../x", "must not contain '/'"),
        ("A B", "must not contain ' '"),
        ("..", "is not a valid name"),
    ] {
        for args in [&["status"][..], &["pause", "set", "--yes"], &["wait", "set"]] {
            let run = world.run(&[args, &["-n", namespace]].concat()).await;
            run.fails(2, &["'--namespace <NAMESPACE>'", why]);
        }
    }
}

/// Each of these was a definition that is not installed, or "Failed to parse error data".
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_api_server_is_called_so() {
    let world = World::start().await;
    let config = std::fs::read_to_string(world.files.path().join("config")).unwrap();
    let server = config.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    let status = async |server: &str, to: &str| {
        let files = folder(&[("config", &config.replace(server, to))]);
        let mut command = program(&["status", "set"]);
        command.env("KUBECONFIG", in_folder(&files, "config"));
        run(command).await
    };
    let wrong = status(server, &format!("{server}/wrong")).await;
    wrong.fails(2, &["/wrong does not answer as an API server does", "HTTP status 404"]);
    for (answer, wants) in [
        ("404 Not Found\r\nContent-Length: 13\r\n\r\n<html></html>", &["HTTP status 404"][..]),
        ("401 Unauthorized\r\nContent-Length: 0\r\n\r\n", &["HTTP status 401", "the credentials"]),
        (
            "302 Found\r\nLocation: https://login.example.com/\r\nContent-Length: 0\r\n\r\n",
            &["redirects to https://login.example.com/ (HTTP status 302)"],
        ),
        (
            "200 OK\r\nContent-Length: 2\r\n\r\nhi",
            &["answers with something else (HTTP status 200)"],
        ),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 16 << 10];
                    while client.read(&mut request).await.is_ok_and(|read| read > 0) {
                        let answer = format!("HTTP/1.1 {answer}");
                        if client.write_all(answer.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let run = status(server, &address).await;
        serving.abort();
        run.fails(2, &["does not answer as an API server does"]);
        run.fails(2, wants);
        assert!(!run.err.contains("CustomResourceDefinition"), "{}", run.err);
        assert!(!run.err.contains("parse"), "{}", run.err);
    }
}
