//! Access to the API of a demo.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::*;
use crate::support::kubectl::{Shell, is_installed};

/// Sends a request without TLS, like a local program; returns the status code.
fn ask(address: &str, head: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer:?}")).parse().unwrap()
}

/// A web page in a browser could otherwise read Secrets and local files.
#[test]
fn only_clients_with_the_kubeconfig_are_served() {
    let temporary = tempfile::tempdir().unwrap();
    let (running, mut lines) = serving(temporary.path());
    let first = lines.next().expect("the demo prints a line").unwrap();
    let path = first.strip_prefix("export KUBECONFIG=").unwrap().to_owned();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the user can read it");
    let text = std::fs::read_to_string(&path).unwrap();
    let after = |mark: &str| {
        let rest = text.split_once(mark).unwrap_or_else(|| panic!("no {mark}: {text}")).1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let (address, token) = (after("server: https://"), after("token: "));
    assert!(token.len() >= 32, "{token}");
    assert_eq!(after("namespace: "), "argocd", "the namespace of the sets");
    // Reads on, so that the demo is not blocked by a full pipe.
    let reading = std::thread::spawn(move || lines.map_while(Result::ok).count());

    let path = "/api/v1/namespaces/default/configmaps";
    let allowed = format!("Authorization: Bearer {token}\r\n");
    let host = format!("Host: {address}\r\n");
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}"#;
    let json = "Content-Type: application/json\r\n";
    let cases = [
        ("the token", "GET", format!("{host}{allowed}"), 200),
        ("localhost", "GET", format!("Host: localhost:1\r\n{allowed}"), 200),
        ("no token", "GET", host.clone(), 401),
        ("a wrong token", "GET", format!("{host}Authorization: Bearer x{token}\r\n"), 401),
        ("another scheme", "GET", format!("{host}Authorization: Basic {token}\r\n"), 401),
        ("a foreign host", "GET", format!("Host: evil.example\r\n{allowed}"), 403),
        (
            "a name that leads here",
            "GET",
            format!("Host: 127.0.0.1.evil.example\r\n{allowed}"),
            403,
        ),
        ("another address", "GET", format!("Host: 192.0.2.1\r\n{allowed}"), 403),
        ("a web page", "GET", format!("{host}{allowed}Origin: http://evil.example\r\n"), 403),
        ("a page of its own", "GET", format!("{host}{allowed}Origin: http://{address}\r\n"), 403),
        ("asked by a page", "OPTIONS", format!("{host}Origin: null\r\n"), 403),
        ("a body of no type", "POST", format!("{host}{allowed}"), 415),
        ("a form", "POST", format!("{host}{allowed}Content-Type: text/plain\r\n"), 415),
        ("a write", "POST", format!("{host}{allowed}{json}"), 201),
        ("a write without the token", "POST", format!("{host}{json}"), 401),
    ];
    for (name, method, headers, want) in cases {
        let body = if method == "POST" { map } else { "" };
        let got = ask(&address, &format!("{method} {path} HTTP/1.1\r\n{headers}"), body);
        assert_eq!(got, want, "{name}");
    }
    let whole = format!("GET http://evil.example{path} HTTP/1.1\r\n{host}{allowed}");
    assert_eq!(ask(&address, &whole, ""), 403, "a foreign host in the first line");

    // As kubectl does: with TLS, which it requires for a token.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
            kube::Api::namespaced(client, "default");
        assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 1);
    });
    drop(running);
    reading.join().unwrap();
}

/// What the demo prints as a way to go on is pasted into a shell. The options of the
/// Application were missing in it, so that its namespace did not exist.
#[test]
fn the_advice_for_a_held_step_can_be_pasted_while_the_server_is_up() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hold = "strategy: {type: RollingSync, rollingSync: {steps: [\
                {matchExpressions: [{key: app, operator: In, values: [first, second]}], maxUpdate: 0}]}}";
    own_set(folder.path(), "./manifests", hold);
    let temporary = tempfile::tempdir().unwrap();
    let (running, lines) = serving_with(temporary.path(), &[&folder.path().join("set.yaml")]);
    let (printed, reading) = read_aside(lines);
    let next = || printed.recv_timeout(LIMIT).expect("the demo prints a line");
    let kubeconfig = next().strip_prefix("export KUBECONFIG=").unwrap().to_owned();
    let shell = Shell::new(Path::new(&kubeconfig), "argocd");
    let command = loop {
        if let Some(command) = next().strip_prefix("To continue: ") {
            break command.to_owned();
        }
    };
    // One command for all Applications of the step.
    assert!(command.ends_with(" first second"), "{command}");
    let (output, success) = shell.run(&command);
    assert_eq!((success, output.matches("Succeeded").count()), (true, 2), "{output}");
    while !next().contains("step 1  complete") {}
    let (output, _) =
        shell.run("kubectl get appsets -o name && kubectl get configmaps -n apps -o name");
    assert!(output.contains("applicationset.argoproj.io/own"), "{output}");
    assert!(output.contains("configmap/second"), "{output}");

    let id = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    reading.join().unwrap();
    let rest = printed.try_iter().collect::<Vec<_>>().join("\n");
    assert!(rest.contains("Rollout complete"), "{rest}");
}
