//! Clusters that ask for client certificates, which a program provides
//! (`execProviderConfig`): also when they expire or are refused; and what such a program can
//! read and say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpListener;

use super::programs::confined;
use super::*;
use crate::git_server::Certificates;
use crate::tls_front::TlsFront;

/// A cluster that answers those who have a certificate only.
struct Guarded {
    server: Server,
    certificates: Certificates,
    front: TlsFront,
}

impl Guarded {
    async fn start() -> Self {
        let server = Server::new();
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client_as("test"));
        let web = serde_json::from_value(json!({"metadata": {"name": "web"}})).unwrap();
        api.create(&PostParams::default(), &web).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behind = server.clone();
        tokio::spawn(async move { behind.serve(listener, CancellationToken::new()).await });
        let certificates = Certificates::new();
        certificates.add_client("newer");
        let front = TlsFront::start(&certificates, true, address).await;
        Self { server, certificates, front }
    }

    /// Its authority, and a program.
    fn config(&self, program: &Path, env: Value) -> Value {
        json!({
            "execProviderConfig": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": program, "env": env,
            },
            "tlsClientConfig": {"caData": STANDARD.encode(self.certificates.text("ca.crt"))},
        })
    }

    /// The output of a program with the certificate of a client.
    fn credential(&self, name: &str, expires: &str) -> String {
        let text = |end: &str| self.certificates.text(&format!("{name}.{end}"));
        json!({
            "kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": {
                "clientCertificateData": text("crt"), "clientKeyData": text("key"),
                "expirationTimestamp": expires,
            },
        })
        .to_string()
    }

    /// The clients that it has seen, in order.
    fn clients(&self) -> Vec<&'static str> {
        let name = |certificate: &Vec<u8>| match certificate {
            one if *one == self.certificates.der("client.crt") => "client",
            one if *one == self.certificates.der("newer.crt") => "newer",
            _ => "unknown",
        };
        self.front.seen().iter().map(name).collect()
    }

    async fn value(&self, name: &str) -> Value {
        let api: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.server.client_as("test"), "web");
        let found = api.get_opt(name).await.unwrap();
        found.and_then(|map| map.data?.remove("value")).map_or(Value::Null, Value::from)
    }
}

impl World {
    /// The message of the condition that an Application gets which cannot be compared.
    async fn until_error(&self, name: &str, text: &str) -> String {
        let app = self.until(name, text, |app| condition(app, "ComparisonError", text)).await;
        app["status"]["conditions"].to_string()
    }
}

/// The certificate that a program gives is sent; it is asked again when its time is over, and
/// when the server refuses the certificate before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_provides_the_certificate_of_a_client() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start().await;
    let folder = tempfile::tempdir().unwrap();
    let gives = folder.path().join("gives");
    let give = |text: String| {
        let new = folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &gives).unwrap();
    };
    give(far.credential("client", "2020-01-01T00:00:00Z"));
    let program = script(folder.path(), "credentials", "exec cat \"$GIVES\"");
    let config = far.config(&program, json!({"GIVES": gives}));
    world.add_cluster("far", &far.front.url(), &config).await;
    world.automate("app", "far").await;
    world.until_good("app").await;
    assert_eq!(far.value("one").await, "1");
    assert_eq!(far.clients(), ["client"]);

    // Its time is over: the next one is used. With each round there are requests.
    let mut content = 1;
    let mut until_clients = async |want: &[&'static str]| {
        let deadline = tokio::time::Instant::now() + LIMIT;
        loop {
            assert!(tokio::time::Instant::now() < deadline, "{:?}", far.clients());
            content += 1;
            world.commit_file("app/one.json", &config_map("one", &content.to_string(), &[]));
            world.refresh("app").await;
            let new = Value::from(content.to_string());
            while far.value("one").await != new && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // A connection that was begun with the one before may come after the first one.
            if far.clients().starts_with(want) {
                return;
            }
        }
    };
    give(far.credential("newer", "2999-01-01T00:00:00Z"));
    until_clients(&["client", "newer"]).await;
    // The server refuses it long before its time.
    give(far.credential("client", "2999-01-01T00:00:00Z"));
    far.front.revoke(far.certificates.der("newer.crt"));
    until_clients(&["client", "newer", "client"]).await;
    world.until_good("app").await;
}

/// What a program prints that fails, or that gives what is no certificate, is not shown: its
/// key, and the secrets of its variables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_prints_shows_no_secret() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start().await;
    let folder = tempfile::tempdir().unwrap();
    // What one program gives is known when another one fails.
    let good = folder.path().join("good.json");
    std::fs::write(&good, far.credential("client", "2999-01-01T00:00:00Z")).unwrap();
    let env = json!({"GIVES": good, "CLIENT_SECRET": "s3cr3t-of-env-9"});
    let program = script(folder.path(), "good", "exec cat \"$GIVES\"");
    world.add_cluster("good", &far.front.url(), &far.config(&program, env.clone())).await;
    world.automate("good", "good").await;
    world.until_good("good").await;

    let key = far.certificates.text("client.key");
    let line = key.lines().nth(3).unwrap().to_owned();
    let prints = format!("echo \"login with $CLIENT_SECRET and {line} failed\" >&2; exit 3");
    let garbage = r#"echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"clientCertificateData": "s3cr3t-garbage", "clientKeyData": "s3cr3t-garbage"}}'"#;
    for (name, text, want) in [
        ("prints", prints.as_str(), "exit status: 3: login with *** and *** failed"),
        ("garbage", garbage, "certificates or credentials cannot be used"),
        ("nothing", "cat /dev/null", "is not JSON"),
    ] {
        let program = script(folder.path(), name, text);
        let server = format!("{}/{name}", far.front.url());
        world.add_cluster(name, &server, &far.config(&program, env.clone())).await;
        world.automate(name, name).await;
        let error = world.until_error(name, want).await;
        for secret in ["s3cr3t", &line] {
            assert!(!error.contains(secret), "{name}: {error}");
        }
    }
    // Without a certificate, the server does not answer, and the message says whose it is.
    let token = r#"echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "a-token"}}'"#;
    let program = script(folder.path(), "token", token);
    let server = format!("{}/token", far.front.url());
    world.add_cluster("token", &server, &far.config(&program, env)).await;
    world.automate("token", "token").await;
    world.until_error("token", "localhost").await;
}

/// A confined program reads the file that a variable of its Secret names, and nothing beside
/// it; the token of the controller cannot be named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reads_the_files_of_its_variables_only() {
    if !super::sources::can_confine() {
        return;
    }
    let world = World::with(confined(|_| {})).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let far = Guarded::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let token = mounted.join("token");
    std::fs::write(&token, far.credential("client", "2999-01-01T00:00:00Z")).unwrap();
    std::fs::write(mounted.join("other"), "other").unwrap();
    let text = format!(
        "for one in '{0}/other' /run/secrets /var/run/secrets /proc/1/environ /etc/shadow; do\n\
         if cat \"$one\" >/dev/null 2>&1 || ls \"$one\"/* >/dev/null 2>&1; then\n\
         echo \"it reads $one\" >&2; exit 5; fi; done\n\
         exec cat \"$AWS_WEB_IDENTITY_TOKEN_FILE\"",
        mounted.display()
    );
    let program = script(folder.path(), "credentials", &text);
    let env = json!({"AWS_WEB_IDENTITY_TOKEN_FILE": token, "UNKNOWN": mounted.join("other")});
    world.add_cluster("far", &far.front.url(), &far.config(&program, env)).await;
    world.automate("app", "far").await;
    let deployed =
        |app: &Value| is(app, "Synced", "Healthy") || app["status"]["conditions"].is_array();
    let app = world.until("app", "deployed", deployed).await;
    assert!(is(&app, "Synced", "Healthy"), "{}", app["status"]);
    assert_eq!(far.clients(), ["client"]);

    let env = json!({"GOOGLE_APPLICATION_CREDENTIALS": "/proc/self/environ"});
    let server = format!("{}/own", far.front.url());
    world.add_cluster("own", &server, &far.config(&program, env)).await;
    world.automate("own", "own").await;
    let want = "the variable GOOGLE_APPLICATION_CREDENTIALS names /proc/self/environ, which is for \
                the controller only; mount a token for the program";
    world.until_error("own", want).await;
}
