//! Answers of services that are broken, hostile or refused: the generator fails with what
//! happened, nothing is generated, and no token leaves for another server (AS-098, AS-140).

use super::generators::run;
use super::providers::{reference, shows, token};
use super::*;
use crate::support::service::{Asked, Says, Service, code, json as document, text};

fn pulls(server: &Service) -> Value {
    let github = json!({"owner": "o", "repo": "r", "api": server.url(), "tokenRef": reference()});
    shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p")
}

fn pull(number: u64) -> Value {
    json!({"number": number, "title": "t", "head": {"ref": "f", "sha": "1"}, "base": {"ref": "m"}, "user": null})
}

fn next(asked: &Asked, page: u64) -> String {
    format!("<http://{}/api/v3/next?page={page}>; rel=\"next\"", asked.header("host"))
}

/// What the server answers, and what the error contains.
type Case = (&'static str, fn(&Asked) -> Says, &'static [&'static str]);

#[test]
fn a_broken_answer_fails_the_generator_as_098() {
    let cases: [Case; 18] = [
        (
            "no token",
            |_| code(401, "Bad credentials"),
            &["401 Unauthorized: Bad credentials; check the token"],
        ),
        (
            "a forbidden one",
            |_| code(403, "Resource not accessible"),
            &["403 Forbidden: Resource not accessible; check what"],
        ),
        ("a failing server", |_| code(500, "boom"), &["500 Internal Server Error: boom"]),
        (
            "a failing second page",
            |asked| match asked.parameter("page") {
                None => document(json!([pull(1)])).with("link", next(asked, 2)),
                Some(_) => code(502, "bad gateway"),
            },
            &["page 2: ", "502 Bad Gateway"],
        ),
        (
            "a second page that is gone: the repository is there",
            |asked| match asked.parameter("page") {
                None => document(json!([pull(1)])).with("link", next(asked, 2)),
                Some(_) => code(404, "gone"),
            },
            &["page 2: ", "404 Not Found"],
        ),
        ("no JSON", |_| text("<html>welcome</html>"), &["the answer cannot be read"]),
        ("another type", |_| document(json!({"items": []})), &["the answer cannot be read"]),
        ("a missing field", |_| document(json!([{"number": 1}])), &["missing field"]),
        (
            "pages without an end",
            |asked| {
                let page = asked.parameter("page").and_then(|page| page.parse().ok()).unwrap_or(1);
                document(json!([])).with("link", next(asked, page + 1))
            },
            &["limit exceeded: the list has more than 1000 pages"],
        ),
        (
            "the same page again",
            |asked| document(json!([])).with("link", next(asked, 2)),
            &["names the same page again"],
        ),
        (
            "a huge answer",
            |_| text("[".repeat(100 << 20)),
            &["limit exceeded: the answer has more than 16777216 bytes"],
        ),
        ("deep nesting", |_| text("[".repeat(1 << 20)), &["the answer cannot be read"]),
        (
            "a redirect to another host",
            |_| code(302, "").with("location", "http://other.invalid/steal"),
            &["redirects to http://other.invalid:80 and that server gets no credentials"],
        ),
        (
            "a next page on another host",
            |_| document(json!([])).with("link", "<http://other.invalid/steal>; rel=\"next\""),
            &["redirects to http://other.invalid:80"],
        ),
        (
            "a redirect to another host with the same scheme",
            |_| code(302, "").with("location", "//other.invalid/steal"),
            &["redirects to http://other.invalid:80 and that server gets no credentials"],
        ),
        (
            "a redirect to a word, which is no host",
            |_| code(302, "").with("location", "pulls?page=1"),
            &["redirects to \"pulls", "neither a URL nor a path that begins with /"],
        ),
        (
            "a redirect to a folder above",
            |_| code(302, "").with("location", "../moved"),
            &["redirects to \"../moved\"", "neither a URL nor a path that begins with /"],
        ),
        (
            "redirects without an end",
            |asked| code(301, "").with("location", asked.place()),
            &["more than 5 redirects"],
        ),
    ];
    for (name, answer, parts) in cases {
        let server = Service::start(answer);
        let failed = run(&["render", "-f", "-"], &pulls(&server), &[token()]);
        failed.fails(1, parts);
        failed.fails(1, &["cannot generate: ", "spec.generators[0].pullRequest: o/r: "]);
        assert_eq!(failed.out, "", "{name}: AS-140");
        assert!(!failed.err.contains("s3cr3t"), "{name}: {}", failed.err);
    }
    // One without TLS is named as such.
    let server = Service::start(|_| document(json!([pull(1)])));
    let mut set = pulls(&server);
    let api = set.pointer_mut("/spec/generators/0/pullRequest/github/api").unwrap();
    *api = server.url().replace("http:", "https:").into();
    let failed = run(&["render", "-f", "-"], &set, &[token()]);
    failed.fails(1, &["it does not speak TLS: write its address with http://"]);
    // One that stays on the server is followed, as that of a renamed repository.
    let server = Service::start(|asked| match asked.place().ends_with("/pulls") {
        true => code(301, "").with("location", "/api/v3/repositories/7/renamed"),
        false => document(json!([pull(1)])),
    });
    assert_eq!(run(&["render", "-f", "-"], &pulls(&server), &[token()]).code, 0);
    assert!(server.asked().iter().all(|one| one.header("authorization") == "Bearer s3cr3t-token"));
}

/// A server that is not there, and one that stops in the middle of its answer.
#[test]
fn a_server_that_is_away_fails_the_generator() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[");
        }
    });
    let github =
        |api: String| json!({"pullRequest": {"github": {"owner": "o", "repo": "r", "api": api}}});
    let set = |api: String| shows(github(api), "pr-{{.number}}", "p");
    run(&["render", "-f", "-"], &set(format!("http://{address}")), &[]).fails(1, &["o/r: "]);
    let away = unused_address();
    run(&["render", "-f", "-"], &set(format!("http://{away}")), &[]).fails(1, &["o/r: ", &away]);
    for (api, why) in [
        ("ftp://h", "is not an address such as https://host"),
        ("https://user:pass@h", "must not contain credentials"),
        ("h", "is not an address"),
    ] {
        run(&["render", "-f", "-"], &set(api.to_owned()), &[]).fails(1, &[why]);
    }
}

/// Tokens: by the strict mode only from labelled Secrets, and never a missing one.
#[test]
fn tokens_are_read_from_secrets_as_501() {
    let server = Service::start(|_| document(json!([pull(1)])));
    let set = pulls(&server);
    let mut unlabelled = token();
    unlabelled["metadata"]["labels"] = json!({});
    let render = |secret: &Value, strict: &str| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [set, secret]});
        let mut command = program(&["render", "-f", "-"]);
        command.env("ARGOCD_APPLICATIONSET_CONTROLLER_TOKENREF_STRICT_MODE", strict);
        finish(command, list.to_string().as_bytes())
    };
    assert_eq!(render(&unlabelled, "false").code, 0);
    assert_eq!(render(&token(), "true").code, 0);
    render(&unlabelled, "true").fails(
        1,
        &["Secret argocd/token: must have the label argocd.argoproj.io/secret-type: scm-creds"],
    );
    let mut other = token();
    other["stringData"] = json!({"other": "x"});
    render(&other, "false").fails(1, &["Secret argocd/token: has no key token"]);
    other["metadata"]["namespace"] = "elsewhere".into();
    render(&other, "false").fails(1, &["Secret argocd/token: is not in the files"]);
}

/// The proxy of the settings is used, and gets no token.
#[test]
fn a_proxy_is_used_as_501() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    let (send, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut head = [0; 4096];
            let size = std::io::Read::read(&mut stream, &mut head).unwrap_or_default();
            let _ = send.send(String::from_utf8_lossy(&head[..size]).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n");
        }
    });
    let github =
        json!({"owner": "o", "repo": "r", "api": "http://git.invalid", "tokenRef": reference()});
    let set = shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [set, token()]});
    let mut command = program(&["render", "-f", "-"]);
    command.env("ARGOCD_APPLICATIONSET_CONTROLLER_SCM_PROXY_URL", format!("http://{proxy}"));
    finish(command, list.to_string().as_bytes()).fails(1, &["o/r: "]);
    let request = asked.recv_timeout(WAIT).unwrap();
    assert!(request.starts_with("CONNECT git.invalid:80 HTTP/1.1"), "{request}");
    assert!(!request.contains("s3cr3t"), "{request}");
}

/// A GitHub App: a signed claim is exchanged for the token of its installation.
#[test]
fn a_github_app_is_used_as_098() {
    let key = std::process::Command::new("openssl").args(["genrsa", "2048"]).output();
    let Ok(key) = key.as_ref().map(|key| String::from_utf8_lossy(&key.stdout)) else {
        eprintln!("skipped: openssl is missing");
        return;
    };
    let server = Service::start(|asked| {
        let authorization = asked.header("authorization");
        match asked.place() {
            "/api/v3/app/installations/42/access_tokens" => {
                // Three parts of base64: header, claims and signature.
                let claim = authorization.strip_prefix("Bearer ").unwrap();
                assert_eq!((claim.split('.').count(), asked.method.as_str()), (3, "POST"));
                document(json!({"token": "ghs_installation"}))
            }
            "/api/v3/orgs/o/installation" => document(json!({"id": 42})),
            "/api/v3/repos/o/r/pulls" if authorization == "Bearer ghs_installation" => {
                document(json!([pull(1)]))
            }
            _ => code(401, "no"),
        }
    });
    let app = |key: &str, installation: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app", "namespace": "argocd"},
            "stringData": {"githubAppID": "7", "githubAppInstallationID": installation, "githubAppPrivateKey": key},
        })
    };
    let github = json!({"owner": "o", "repo": "r", "api": server.url(), "appSecretName": "app"});
    let set = shows(json!({"pullRequest": {"github": github}}), "pr-{{.number}}", "p");
    for installation in ["42", ""] {
        let rendered = run(&["render", "-f", "-"], &set, &[app(&key, installation)]);
        assert_eq!(rendered.code, 0, "{}", rendered.err);
    }
    run(&["render", "-f", "-"], &set, &[app("no key", "42")])
        .fails(1, &["Secret argocd/app: githubAppPrivateKey: is no private key as PEM"]);
}

/// Plugins: what is no list of parameters is no answer.
#[test]
fn an_answer_of_a_plugin_without_parameters_fails_as_098() {
    for (answer, why) in [
        (json!({}), "missing field"),
        (json!({"output": {}}), "missing field"),
        (json!({"output": {"parameters": null}}), "the answer cannot be read"),
        (json!({"output": {"parameters": ["x"]}}), "the answer cannot be read"),
    ] {
        let server = Service::start(move |_| document(answer.clone()));
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin", "namespace": "argocd"},
            "data": {"baseUrl": server.url(), "token": "$token:token"},
        });
        let set = shows(json!({"plugin": {"configMapRef": {"name": "plugin"}}}), "a", "p");
        run(&["render", "-f", "-"], &set, &[token(), map])
            .fails(1, &["spec.generators[0].plugin: ", why]);
    }
}
