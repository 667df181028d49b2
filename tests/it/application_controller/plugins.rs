//! Config management plugins (SE-037, SE-090, SE-092): over the socket of Argo CD's own
//! plugin server, as `tests/programs/up` builds it, and of a server that misbehaves.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::chart_repositories::{repository, serve as serve_files};
use super::programs::{confined, helms, program};
use super::*;

/// Argo CD's plugin server, with one plugin.
pub struct Sidecar {
    child: Child,
    _work: tempfile::TempDir,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sidecar {
    /// Starts it, and waits for its socket; `None` where the server is missing.
    pub async fn start(sockets: &Path, name: &str, spec: &Value) -> Option<Self> {
        let server = program("cmp-server/cmp-server")?;
        let work = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ConfigManagementPlugin",
            "metadata": {"name": name},
            "spec": spec,
        });
        std::fs::write(work.path().join("plugin.yaml"), config.to_string()).unwrap();
        let child = Command::new(server)
            .arg(work.path())
            .env("ARGOCD_PLUGINSOCKFILEPATH", sockets)
            .env("ARGOCD_CMP_WORKDIR", work.path().join("work"))
            .env("TMPDIR", work.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sidecar = Self { child, _work: work };
        let version = spec["version"].as_str().map_or(String::new(), |v| format!("-{v}"));
        let socket = sockets.join(format!("{name}{version}.sock"));
        until("the plugin server starts", async || {
            tokio::net::UnixStream::connect(&socket).await.is_ok()
        })
        .await;
        Some(sidecar)
    }
}

/// A shell script as the command of a plugin.
pub fn script(text: &str) -> Value {
    json!({"command": ["sh", "-c", text]})
}

/// Prints a ConfigMap with what the script finds.
const REPORT: &str = r#"
cat <<END
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "report"}, "data": {
  "name": "$ARGOCD_APP_NAME", "env": "$ARGOCD_ENV_COLOR", "text": "$PARAM_MY_TEXT", "first": "$PARAM_LIST_0",
  "kube": "$KUBE_VERSION", "folder": "$(basename "$PWD")", "above": "$(ls -A .. | tr '\n' ' ')", "home": "$SECRET",
  "parameters": "$(printf %s "$ARGOCD_APP_PARAMETERS" | tr -d '"')", "link": "$(cat link)", "run": "$(sh ../run.sh)"}}
---
# nothing
---
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "second"}}
END
"#;

struct Plugins {
    world: World,
    sockets: tempfile::TempDir,
}

impl Plugins {
    async fn start(change: impl FnOnce(&mut wavegate_source::PluginSettings)) -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let mut settings = ApplicationSettings::default();
        settings.render.programs.plugins.folder = sockets.path().to_owned();
        settings.render.programs.timeout = Duration::from_secs(120);
        change(&mut settings.render.programs.plugins);
        let world = World::with(settings).await;
        world.write("app/marker.txt", "here");
        world.write("app/plain.json", &config_map("plain", "1", &[]));
        world.write("run.sh", "echo ran");
        world.write("other/big.bin", "big");
        std::os::unix::fs::symlink("marker.txt", world.repo.path().join("app/link")).unwrap();
        world.commit();
        Self { world, sockets }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.sockets.path().join(name)
    }
}

/// SE-037, SE-090, SE-092: a named plugin gets files, build environment, variables and
/// parameters, and its manifests are deployed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_a_named_plugin_renders_with_its_environment() {
    let plugins = Plugins::start(|settings| settings.exclusions = vec!["other".into()]).await;
    let Plugins { world, sockets } = &plugins;
    let spec = json!({"version": "v1.0", "generate": script(REPORT)});
    let Some(_sidecar) = Sidecar::start(sockets.path(), "report", &spec).await else { return };
    let plugin = json!({
        "name": "report-v1.0",
        "env": [{"name": "COLOR", "value": "$ARGOCD_APP_NAMESPACE-blue"}],
        "parameters": [{"name": "my-text", "string": "hi"}, {"name": "list", "array": ["a", "b"]}],
    });
    let app = world.with_source("shop", json!({"path": "app", "plugin": plugin}));
    world.deploy_app(&app).await;
    let data = world.data("report").await;
    let kube = data["kube"].as_str().unwrap().to_owned();
    assert!(kube.starts_with('1'), "{data}");
    let want = json!({
        "name": "shop", "env": "web-blue", "text": "hi", "first": "a", "kube": kube, "folder": "app",
        "above": "app run.sh ", "home": "", "link": "here", "run": "ran",
        "parameters": "[{name:my-text,string:hi},{array:[a,b],name:list}]",
    });
    assert_eq!(data, want);
    assert_ne!(world.get("v1", "ConfigMap", "web", "second").await, Value::Null);
    let app = world.app("shop").await;
    assert_eq!(app["status"]["sourceType"], "Plugin");

    // Its error is that of the Application.
    let spec = json!({"generate": script("echo broken >&2; exit 3")});
    let _broken = Sidecar::start(sockets.path(), "broken", &spec).await.unwrap();
    let app = world.with_source("bad", json!({"path": "app", "plugin": {"name": "broken"}}));
    let message = world.refusal_of(&app).await;
    assert!(message.contains("CMP processing failed for application \"bad\""), "{message}");
    assert!(message.contains("exit status 3") && message.contains("broken"), "{message}");
}

/// SE-090: without a block, the plugin whose discovery matches renders the source; with an
/// empty one, it must be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_090_a_plugin_is_discovered() {
    let plugins = Plugins::start(|_| {}).await;
    let Plugins { world, sockets } = &plugins;
    let generate = |name: &str| {
        script(&format!(
            r#"echo '{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}}}'"#
        ))
    };
    let without = json!({"generate": generate("a")});
    let Some(_a) = Sidecar::start(sockets.path(), "a", &without).await else { return };
    let by_file = json!({"generate": generate("b"), "discover": {"fileName": "marker.txt"}});
    let _b = Sidecar::start(sockets.path(), "b", &by_file).await.unwrap();
    let by_command = json!({
        "generate": generate("c"),
        "discover": {"find": script("[ \"$ARGOCD_APP_NAME\" = chosen ] && echo yes")},
    });
    let _c = Sidecar::start(sockets.path(), "c", &by_command).await.unwrap();
    world.commit_file("plain/plain.json", &config_map("undiscovered", "1", &[]));

    world.deploy_app(&world.with_source("found", json!({"path": "app"}))).await;
    assert_ne!(world.get("v1", "ConfigMap", "web", "b").await, Value::Null);
    assert_eq!(world.get("v1", "ConfigMap", "web", "plain").await, Value::Null);
    assert_eq!(world.app("found").await["status"]["sourceType"], "Plugin");
    world.deploy_app(&world.with_source("chosen", json!({"path": "plain"}))).await;
    assert_ne!(world.get("v1", "ConfigMap", "web", "c").await, Value::Null);
    world.deploy_app(&world.with_source("none", json!({"path": "plain"}))).await;
    assert_eq!(world.app("none").await["status"]["sourceType"], "Directory");
    let explicit = json!({"path": "plain", "directory": {"recurse": true, "include": "*.json"}});
    world.create_app(&world.with_source("explicit", explicit)).await;
    let app = world.until("explicit", "compared", |app| !app["status"]["sync"].is_null()).await;
    assert_eq!(app["status"]["sourceType"], "Directory");

    let empty = world.with_source("empty", json!({"path": "plain", "plugin": {}}));
    let message = world.refusal_of(&empty).await;
    assert!(message.contains("could not find plugin supporting the given repository"), "{message}");
    assert!(message.contains("a.sock, b.sock, c.sock"), "{message}");
    let named = json!({"path": "plain", "plugin": {"name": "b"}});
    let message = world.refusal_of(&world.with_source("named", named)).await;
    assert!(message.contains("could not find cmp-server plugin with name \"b\""), "{message}");
    assert!(message.contains("discovery of") && message.contains("b.sock"), "{message}");
}

/// SE-090: a plugin whose discovery matches takes the chart of a repository, too, as in Argo CD; a
/// block for Helm keeps it from that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_090_a_plugin_is_discovered_for_a_chart() {
    for helm in helms() {
        let sockets = tempfile::tempdir().unwrap();
        let mut settings = confined(|programs| programs.helm = helm.clone());
        settings.render.programs.plugins.folder = sockets.path().to_owned();
        let world = World::with(settings).await;
        let generate = script(
            r#"echo '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "by-plugin"},
            "data": {"files": "'"$(ls | tr '\n' ' ')"'"}}'"#,
        );
        let spec = json!({"generate": generate, "discover": {"fileName": "Chart.yaml"}});
        let Some(_sidecar) = Sidecar::start(sockets.path(), "charts", &spec).await else { return };
        let server = serve_files(repository(&helm, "web", &["1.0.0"]), "").await;
        let source = |more: Value| {
            let mut source = json!({
                "repoURL": format!("http://{server}"), "chart": "web", "targetRevision": "1.0.0",
            });
            source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            source
        };
        world.deploy_app(&world.with_source("found", source(json!({})))).await;
        let files = world.data("by-plugin").await["files"].as_str().unwrap().to_owned();
        assert!(files.contains("Chart.yaml") && files.contains("templates"), "{files}");
        assert_eq!(world.app("found").await["status"]["sourceType"], "Plugin");
        assert_eq!(world.data("web-found").await, Value::Null, "Helm did not render it");
        let block = source(json!({"helm": {"releaseName": "own"}}));
        world.deploy_app(&world.with_source("block", block)).await;
        assert_eq!(world.app("block").await["status"]["sourceType"], "Helm");
        assert_eq!(world.data("web-own").await["version"], "1.0.0");
    }
}

/// Only the folder that holds the source and the paths of the annotation is sent, with
/// `reposerver.plugin.use.manifest.generate.paths`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_gets_the_paths_of_the_annotation() {
    let plugins = Plugins::start(|settings| settings.use_generate_paths = true).await;
    let Plugins { world, sockets } = &plugins;
    let list = r#"printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": {"files": "%s"}}' "$(cd "$(dirname "$PWD")"; ls -A | grep -v '^[0-9]*$' | tr '\n' ' ')""#;
    let spec = json!({"generate": script(list)});
    let Some(_sidecar) = Sidecar::start(sockets.path(), "list", &spec).await else { return };
    world.write("nested/app/a.txt", "a");
    world.commit_file("nested/lib/b.txt", "b");
    let mut app =
        world.with_source("shop", json!({"path": "nested/app", "plugin": {"name": "list"}}));
    app["metadata"]["annotations"] =
        json!({"argocd.argoproj.io/manifest-generate-paths": ".;../lib"});
    world.deploy_app(&app).await;
    assert_eq!(world.data("files").await, json!({"files": "app lib "}));
}

/// SE-037: a plugin that is not there names the socket and those that are; nothing leaves the
/// folder or the repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_037_missing_plugins_are_named() {
    let plugins = Plugins::start(|_| {}).await;
    let world = &plugins.world;
    drop(std::os::unix::net::UnixListener::bind(plugins.socket("stale.sock")).unwrap());
    let refused = async |name: &str, plugin: Value| {
        let source = json!({"path": "app", "plugin": plugin});
        world.refusal_of(&world.with_source(name, source)).await
    };
    let message = refused("one", json!({"name": "absent"})).await;
    let socket = plugins.socket("absent.sock").display().to_string();
    assert!(message.contains(&format!("there is no socket {socket}")), "{message}");
    assert!(message.contains("stale.sock"), "{message}");
    let message = refused("two", json!({"name": "../../run/docker"})).await;
    assert!(message.contains("a name has no slash"), "{message}");
    let message = refused("three", json!({"name": "stale"})).await;
    assert!(message.contains("Connection refused"), "{message}");
    // It could be the one that renders this source: nothing is deployed as plain manifests.
    let message = world.refusal_of(&world.with_source("four", json!({"path": "app"}))).await;
    assert!(message.contains("cannot ask plugin stale"), "{message}");
    let both = json!({"path": "app", "plugin": {"name": "x"}, "helm": {"releaseName": "x"}});
    let app = world.with_source("five", both);
    world.create_app(&app).await;
    let app = world.until("five", "refused", |app| !app["status"]["conditions"].is_null()).await;
    let conditions = app["status"]["conditions"].to_string();
    assert!(
        conditions.contains("multiple application sources defined: Helm,Plugin"),
        "{conditions}"
    );
}

/// How a server answers `GenerateManifest`.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Good,
    Failure,
    Garbage,
    Short,
    NoStatus,
    Large,
    Never,
    Cluster,
    Text,
}

const ANSWERS: [(Answer, &str); 8] = [
    (Answer::Failure, "it broke: 100%"),
    (Answer::Garbage, "not readable"),
    (Answer::Short, "not one whole message"),
    (Answer::NoStatus, "without a status"),
    (Answer::Large, "more than"),
    (Answer::Never, "took longer than"),
    (Answer::Cluster, "names"),
    (Answer::Text, "Failed to unmarshal"),
];

/// A server that speaks the protocol as far as a test wants.
fn serve(socket: &Path, answer: Answer) -> JoinHandle<()> {
    let listener = tokio::net::UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |request| respond(request, answer));
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    })
}

type Stream = StreamBody<
    futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, std::convert::Infallible>>>,
>;

async fn respond(
    request: Request<Incoming>,
    answer: Answer,
) -> Result<Response<Stream>, std::convert::Infallible> {
    let headers = request.headers();
    assert_eq!(headers["content-type"], "application/grpc");
    assert_eq!(headers["te"], "trailers");
    assert!(headers["grpc-timeout"].to_str().unwrap().ends_with('m'));
    let path = request.uri().path().to_owned();
    request.into_body().collect().await.map(drop).unwrap_or_default();
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap();
    assert_eq!(service, "plugin.ConfigManagementPluginService");
    let text = |text: &str| {
        // Field 1 of the answer: a text.
        let mut message = vec![0x0a];
        let mut length = text.len();
        while length >= 0x80 {
            message.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        message.push(u8::try_from(length).unwrap());
        message.extend(text.bytes());
        message
    };
    let object = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"}}"#;
    let (message, status, note) = match (method, answer) {
        ("CheckPluginConfiguration", _) => (Vec::new(), "0", ""),
        (_, Answer::Good) => (text(object), "0", ""),
        (_, Answer::Failure) => (Vec::new(), "2", "it broke: 100%25"),
        (_, Answer::Garbage) => (vec![0xff; 10], "0", ""),
        (_, Answer::Short | Answer::NoStatus) => (text(object), "0", ""),
        (_, Answer::Large) => (text(&"x".repeat(80 << 20)), "0", ""),
        (_, Answer::Never) => {
            std::future::pending::<()>().await;
            unreachable!("it never answers")
        }
        (_, Answer::Cluster) => (text(&object.replace("good", "../escape")), "0", ""),
        (_, Answer::Text) => (text("kind: [\n"), "0", ""),
    };
    let mut frame = vec![0];
    let extra = u32::from(matches!((method, answer), ("GenerateManifest", Answer::Short)));
    frame.extend((u32::try_from(message.len()).unwrap() + extra).to_be_bytes());
    frame.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    trailers.insert("grpc-message", HeaderValue::from_static(note));
    let mut frames = vec![Ok(Frame::data(frame.into())), Ok(Frame::trailers(trailers))];
    if method == "GenerateManifest" && matches!(answer, Answer::NoStatus) {
        frames.pop();
    }
    let body = StreamBody::new(futures::stream::iter(frames));
    let response = Response::builder().header("content-type", "application/grpc").body(body);
    Ok(response.unwrap())
}

/// Plugins that fail, lie or hang: each is a condition, and the others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misbehaving_plugins_are_conditions() {
    let sockets = tempfile::tempdir().unwrap();
    let mut settings = ApplicationSettings::default();
    settings.render.programs.plugins.folder = sockets.path().to_owned();
    settings.render.programs.timeout = Duration::from_secs(30);
    let world = World::with(settings).await;
    world.commit_file("app/a.txt", "a");
    let named = |name: &str| json!({"path": "app", "plugin": {"name": name}});
    for (answer, want) in ANSWERS {
        let name = format!("{answer:?}").to_lowercase();
        let server = serve(&sockets.path().join(format!("{name}.sock")), answer);
        let message = match answer {
            Answer::Cluster => {
                let app = world.with_source(&name, named(&name));
                world.create_app(&app).await;
                let refused = |app: &Value| !app["status"]["conditions"].is_null();
                let app = world.until(&name, "refused", refused).await;
                assert_ne!(app["status"]["sync"]["status"], "Synced");
                continue;
            }
            _ => world.refusal_of(&world.with_source(&name, named(&name))).await,
        };
        assert!(message.contains(want), "{name}: {message}");
        assert!(message.len() < 8192, "{}", message.len());
        server.abort();
        std::fs::remove_file(sockets.path().join(format!("{name}.sock"))).unwrap();
    }
    let server = serve(&sockets.path().join("good.sock"), Answer::Good);
    world.deploy_app(&world.with_source("good", named("good"))).await;
    assert_ne!(world.get("v1", "ConfigMap", "web", "good").await, Value::Null);

    // A link out of the repository is not sent to anybody.
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), world.repo.path().join("app/out")).unwrap();
    world.commit();
    let message = world.refusal_of(&world.with_source("link", named("good"))).await;
    assert!(message.contains("app/out: symbolic link points outside"), "{message}");
    server.abort();
}
