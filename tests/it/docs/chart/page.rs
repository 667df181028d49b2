//! The page of the chart, and of `deploy/dashboard/`.

use super::*;

/// The objects of a kustomization.
fn built(directory: &str) -> Option<BTreeMap<String, Value>> {
    let kustomize = program("kustomize/kustomize")?;
    let built = Command::new(kustomize).args(["build", directory]).current_dir(root()).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(by_name(documents(&String::from_utf8(built.stdout).unwrap())))
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (name(&object), plain(object))).collect()
}

const URL: &str = r#"dashboard={"enabled":true,"publicUrls":["https://rollouts.example.org"]}"#;

/// The objects of the page that the chart gives with these values.
fn of_chart(helm: &Helm, values: &[&str]) -> BTreeMap<String, Value> {
    let mut options = vec!["--set", "definitions.install=false"];
    options.extend([URL].iter().chain(values).flat_map(|value| ["--set-json", *value]));
    let mut objects = by_name(helm.objects(&options));
    objects.retain(|name, _| name.contains("dashboard"));
    objects
}

/// PG-003: without being asked for, there is no page; chart and kustomization give the same one, in both
/// ways to sign in.
#[test]
fn the_page_of_the_chart_is_that_of_the_kustomization() {
    let headers = [r#"dashboard.signIn="headers""#];
    for (directory, values) in
        [("deploy/dashboard", &[][..]), ("deploy/dashboard-headers", &headers)]
    {
        let Some(wanted) = built(directory) else { return };
        for helm in Helm::all(Path::new("none")) {
            let without = by_name(helm.objects(&["--set", "definitions.install=false"]));
            assert!(!without.keys().any(|name| name.contains("dashboard")), "{:?}", without.keys());
            let found = of_chart(&helm, values);
            assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
            for (name, wanted) in &wanted {
                assert_eq!(&found[name], wanted, "{directory}: {name}");
            }
        }
    }
}

/// PG-003: it may do nothing but impersonate, runs without any privilege, and only its proxy reaches it.
#[test]
fn the_page_has_no_rights_of_its_own() {
    let (Some(token), Some(headers)) =
        (built("deploy/dashboard"), built("deploy/dashboard-headers"))
    else {
        return;
    };
    assert!(!token.keys().any(|name| name.contains("Role")), "{:?}", token.keys());
    let rules = &headers["ClusterRole wavegate-dashboard"]["rules"];
    for rule in rules.as_array().unwrap() {
        assert_eq!(rule["verbs"], json!(["impersonate"]), "{rules}");
    }
    for objects in [token, headers] {
        let pods = &objects["Deployment wavegate-dashboard"]["spec"]["template"]["spec"];
        assert_eq!(pods["securityContext"]["runAsNonRoot"], true, "{pods}");
        assert_eq!(pods["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{pods}");
        let container = &pods["containers"][0]["securityContext"];
        let wanted = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}});
        assert_eq!(container, &wanted, "{pods}");
        let rules = &objects["NetworkPolicy wavegate-dashboard"]["spec"]["ingress"];
        assert_eq!(
            rules[0]["from"][0]["podSelector"]["matchLabels"]["wavegate.dev/proxy-of"],
            "dashboard"
        );
        assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
    }
}

/// The values of the page are where they belong, and their arguments are those of the program.
#[test]
fn values_of_the_page_are_where_they_belong() {
    for helm in Helm::all(Path::new("none")) {
        let found = of_chart(
            &helm,
            &[
                r#"dashboard.signIn="headers""#,
                r#"dashboard.namespaces=["team-a","team-b"]"#,
                "dashboard.allNamespaces=true",
                r#"dashboard.headers={"user":"X-User","groups":"X-Teams"}"#,
                r#"dashboard.proxy={"name":"proxy.example.org","secret":"proxy"}"#,
                r#"dashboard.tlsSecret="tls""#,
                r#"dashboard.impersonatedGroups=["dev"]"#,
                "dashboard.people=5",
                r#"dashboard.from=[{"namespaceSelector":{}}]"#,
                r#"dashboard.extraArgs=["--check-every=10"]"#,
            ],
        );
        let deployment = &found["Deployment wavegate-dashboard"]["spec"]["template"]["spec"];
        let container = &deployment["containers"][0];
        let wanted = json!([
            "dashboard",
            "--in-cluster",
            "--address=0.0.0.0",
            "--port=8080",
            "--sign-in=headers",
            "--public-url=https://rollouts.example.org",
            "--namespaces=team-a,team-b",
            "--all-namespaces",
            "--user-header=X-User",
            "--groups-header=X-Teams",
            "--proxy-ca=/etc/wavegate/proxy/ca.crt",
            "--proxy-name=proxy.example.org",
            "--tls-certificate=/etc/wavegate/tls/tls.crt",
            "--tls-key=/etc/wavegate/tls/tls.key",
            "--people=5",
            "--check-every=10"
        ]);
        assert_eq!(container["args"], wanted);
        assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTPS");
        let volumes = deployment["volumes"].as_array().unwrap();
        let secrets: Vec<&Value> =
            volumes.iter().map(|volume| &volume["secret"]["secretName"]).collect();
        assert_eq!(secrets, [&json!("proxy"), &json!("tls"), &Value::Null]);
        let rules = &found["ClusterRole wavegate-dashboard"]["rules"];
        assert_eq!(rules[1]["resourceNames"], json!(["dev"]), "{rules}");
        let rules = &found["NetworkPolicy wavegate-dashboard"]["spec"]["ingress"];
        assert_eq!(rules[0]["from"], json!([{"namespaceSelector": {}}]));
        // The program takes these arguments: what it cannot use are the files, which are not here.
        let arguments = wanted.as_array().unwrap().iter().map(|one| one.as_str().unwrap());
        let run = Command::new(env!("CARGO_BIN_EXE_wavegate"))
            .args(arguments)
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(error.contains("cannot serve TLS: /etc/wavegate/tls/tls.crt"), "{error}");

        for (values, field) in [
            (&[r#"dashboard={"enabled":true}"#][..], "publicUrls"),
            (&[URL, r#"dashboard.publicUrls=["rollouts.example.org"]"#], "publicUrls"),
            (&[URL, r#"dashboard.signIn="none""#], "signIn"),
            (&[URL, r#"dashboard.proxy.name="proxy""#], "tlsSecret"),
            (&[URL, r#"dashboard.headers.user="a b""#], "user"),
            (&[URL, "dashboard.people=0"], "people"),
        ] {
            let mut arguments = vec!["template", "wavegate", CHART];
            arguments.extend(values.iter().flat_map(|value| ["--set-json", *value]));
            let output = helm.run(&arguments);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && error.contains(field), "{values:?}: {error}");
        }
    }
}
