//! Clusters whose credentials a program provides (`execProviderConfig`, `awsAuthConfig`), and
//! clusters behind a proxy.

use std::sync::Mutex;

use axum::body::Body as Answer;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::net::TcpListener;

use super::*;

/// A cluster that answers those who have a token only.
struct Guarded {
    server: Server,
    address: String,
    /// The tokens of requests, in order and without repetition.
    tokens: Arc<Mutex<Vec<String>>>,
}

impl Guarded {
    /// Accepts bearer tokens that begin like this.
    async fn start(accepted: &'static str) -> Self {
        let server = Server::new();
        let client = server.client_as("behind");
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client_as("test"));
        let web = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        api.create(&PostParams::default(), &web).await.unwrap();
        let tokens = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&tokens);
        let answer = move |request: Request| {
            let (client, seen) = (client.clone(), Arc::clone(&seen));
            async move { forward(client, accepted, &seen, request).await }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = axum::Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { server, address, tokens }
    }

    fn tokens(&self) -> Vec<String> {
        self.tokens.lock().unwrap().clone()
    }

    async fn has(&self, name: &str) -> bool {
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.server.client_as("test"), "web");
        api.get_opt(name).await.unwrap().is_some()
    }
}

async fn forward(
    client: kube::Client,
    accepted: &str,
    seen: &Mutex<Vec<String>>,
    request: Request,
) -> Response {
    let header = request.headers().get("authorization");
    let token = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
    let token = token.unwrap_or_default().to_owned();
    let is_accepted = token.starts_with(accepted);
    {
        let mut seen = seen.lock().unwrap();
        if !seen.contains(&token) {
            seen.push(token);
        }
    }
    if !is_accepted {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401,
            "reason": "Unauthorized", "message": "Unauthorized"});
        return (StatusCode::UNAUTHORIZED, axum::Json(status)).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    client.send(request).await.unwrap().map(Answer::new)
}

/// Prints credentials with this token, which has expired.
fn prints(token: &str) -> String {
    let status =
        format!(r#"{{\"token\": \"{token}\", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\"}}"#);
    let head =
        r#"{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1\""#;
    format!(r#"echo "{head}, \"status\": {status}}}""#)
}

/// The program gets its arguments and variables and nothing of this process that is not
/// listed; what it gives is used until it expires, and then it is asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_provides_the_token_of_a_cluster() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start("token-of-far-1-").await;
    let folder = tempfile::tempdir().unwrap();
    // `$TMPDIR` is its own; the count of runs is the process number here.
    let text = format!(
        "case \"$KUBERNETES_EXEC_INFO\" in *interactive*false*) ;; *) exit 9 ;; esac\n\
         [ -z \"$CARGO_MANIFEST_DIR\" ] || exit 8\n\
         touch \"$TMPDIR/mine\" || exit 7\n{}",
        prints("token-of-$1-$NUMBER-$$")
    );
    let program = script(folder.path(), "credentials", &text);
    let exec = json!({"execProviderConfig": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": program,
        "args": ["far"], "env": {"NUMBER": "1"},
    }});
    world.add_cluster("far", &far.address, &exec).await;
    world.automate("app", "far").await;
    world.until_good("app").await;
    assert!(far.has("one").await);
    let first = far.tokens();
    assert!(first.iter().all(|token| token.starts_with("token-of-far-1-")), "{first:?}");

    // It has expired since: asked again with one of the next requests.
    let deadline = tokio::time::Instant::now() + LIMIT;
    let mut content = 1;
    while far.tokens().len() == first.len() {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", far.tokens());
        content += 1;
        world.commit_file("app/one.json", &config_map("one", &content.to_string(), &[]));
        world.sync("app", json!({})).await;
        world.until("app", "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await;
    }
}

/// Programs that hang, print too much or nonsense, fail, or are not there, hold their own
/// Applications only, and the condition says which and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_fails_holds_its_own_cluster_only() {
    let mut settings = ApplicationSettings::default();
    settings.render.programs.timeout = Duration::from_secs(20);
    let world = World::with(settings).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start("token").await;
    let folder = tempfile::tempdir().unwrap();
    let exec = |name: &str, text: &str| {
        let program = script(folder.path(), name, text);
        json!({"execProviderConfig": {"command": program}})
    };
    let aws = json!({"awsAuthConfig": {"clusterName": "eks"}, "bearerToken": ""});
    let absent = json!({"execProviderConfig": {
        "command": "wavegate-no-such-program", "installHint": "ask the platform team",
    }});
    let cases = [
        ("hangs", exec("hangs", "sleep 600"), "hangs: no answer within 20 s"),
        ("forks", exec("forks", "sleep 600 & exit 0"), "no answer within 20 s"),
        ("floods", exec("floods", "yes s3cr3t"), "its output is larger than 1048576 bytes"),
        ("prompts", exec("prompts", "echo 'password: s3cr3t'"), "is not JSON, line 1"),
        ("fails", exec("fails", "echo no session >&2; exit 3"), "exit status: 3: no session"),
        ("empty", exec("empty", &prints("")), "neither status.token nor a client certificate"),
        ("absent", absent, "wavegate-no-such-program is not installed: ask the platform team"),
        (
            "typo",
            json!({"execProviderConfig": {"comand": "x"}}),
            "config.execProviderConfig.command is missing",
        ),
        ("aws", aws, "argocd-k8s-auth or aws"),
    ];
    // All at once, since each that hangs takes its whole time.
    for (name, config, _) in &cases {
        world.add_cluster(name, &format!("{}?{name}", far.address), config).await;
        world.automate(name, name).await;
    }
    for (name, _, want) in cases {
        // `aws` may be installed where the tests run; then it fails for lack of a session.
        let want = if name == "aws" { ["argocd-k8s-auth", "aws:"] } else { [want, want] };
        let app = world
            .until(name, "refused", |app| {
                let all = app["status"]["conditions"].as_array().into_iter().flatten();
                let mut messages = all.filter_map(|one| one["message"].as_str());
                messages.any(|message| want.iter().any(|want| message.contains(want)))
            })
            .await;
        assert_eq!(app["status"]["sync"]["status"], "Unknown", "{app}");
        assert!(!app.to_string().contains("s3cr3t"), "{app}");
    }
    let good = exec("good", &prints("token"));
    world.add_cluster("good", &far.address, &good).await;
    world.automate("good", "good").await;
    world.until_good("good").await;
}

/// Requests of a cluster with `proxyUrl` go through the proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_reached_through_its_proxy() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start("").await;
    let target = far.address.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let heads = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (target, heads) = (target.clone(), Arc::clone(&heads));
            tokio::spawn(async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(near.read_u8().await?);
                }
                let line =
                    String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                heads.lock().unwrap().push(line);
                near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let mut behind = tokio::net::TcpStream::connect(&target).await?;
                tokio::io::copy_bidirectional(&mut near, &mut behind).await
            });
        }
    });
    // A name that only the proxy knows.
    let config = json!({"proxyUrl": format!("http://{proxy}"), "disableCompression": true});
    world.add_cluster("far", "http://cluster.invalid:6443", &config).await;
    world.automate("app", "far").await;
    world.until_good("app").await;
    assert!(far.has("one").await);
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().all(|line| line == "CONNECT cluster.invalid:6443 HTTP/1.1"), "{asked:?}");
    assert!(!asked.is_empty());
}
