//! Nobody gets in, and nothing that a cluster contains is more than text (PG-041).

use super::*;

/// Markup that would run, in each way that a text can reach HTML.
const MARKUP: &str = "<script>attack()</script>\"'><img src=x onerror=attack()>";

/// PG-001: the address has a token of this start, which is exchanged for a cookie and is gone from
/// the address. PG-041: neither of them counts after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn pg_001_a_token_of_one_start_opens_the_page_of_that_start() {
    let world = World::start().await;
    world.set("shop", json!({})).await;
    let page = PageServer::start(&world, &[]).await;
    let signed_in = page.ask(&format!("GET /?start={}", page.token), &[], "").await;
    let cookie = signed_in.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        says(cookie, part);
    }
    assert!(!cookie.to_lowercase().contains("max-age") && !cookie.contains("xpires"), "{cookie}");
    assert!(!signed_in.body.contains(&page.token), "the next address has no token");
    assert!(!cookie.contains(&page.token), "the cookie is another secret");

    assert_eq!(page.get("/").await.status, 200);
    let (port, no) = (page.address.rsplit_once(':').unwrap().1, "0".repeat(64));
    let wrong = format!("wavegate-{port}={no}");
    for (request, headers) in [
        ("GET /", vec![]),
        ("GET /?start=", vec![]),
        (&*format!("GET /?start={no}"), vec![]),
        ("GET /", vec![("Cookie", &*wrong)]),
        ("GET /events?view=/", vec![]),
        ("GET /act/pause?set=argocd/shop", vec![]),
        ("POST /act/pause", vec![]),
    ] {
        let refused = page.ask(request, &headers, "").await;
        assert_eq!(refused.status, 401, "{request}: {}", refused.body);
        assert!(!refused.body.contains("shop"), "{request}: {}", refused.body);
    }

    let again = PageServer::start(&world, &[]).await;
    let old = page.cookie.replace(port, again.address.rsplit_once(':').unwrap().1);
    assert_eq!(again.ask("GET /", &[("Cookie", &old)], "").await.status, 401);
    let old = format!("GET /?start={}", page.token);
    assert_eq!(again.ask(&old, &[], "").await.status, 401);
}

/// PG-004: another host name, another origin, and another page of this machine are refused, whatever
/// cookie they have.
#[tokio::test(flavor = "multi_thread")]
async fn pg_004_requests_for_another_host_or_of_another_page_are_refused() {
    let world = World::start().await;
    world.set("shop", json!({})).await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    let port = page.address.rsplit_once(':').unwrap().1.to_owned();
    let cookie = ("Cookie", &*page.cookie);
    for host in [
        "attacker.example",
        &format!("attacker.example:{port}"),
        &format!("127.0.0.1.attacker.example:{port}"),
        "127.0.0.1",
        &format!("127.0.0.1:{port}@attacker.example"),
        "",
    ] {
        let refused = page.ask("GET /", &[("Host", host), cookie], "").await;
        assert!(matches!(refused.status, 400 | 421), "{host}: {}", refused.status);
        assert!(!refused.body.contains("shop"), "{host}");
    }
    let local = format!("localhost:{port}");
    assert_eq!(page.ask("GET /", &[("Host", &local), cookie], "").await.status, 200);

    for (name, value) in [
        ("Origin", "http://attacker.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
        ("Sec-Fetch-Site", "cross-site"),
        // Another port of this machine.
        ("Sec-Fetch-Site", "same-site"),
    ] {
        for request in ["GET /", "GET /events?view=/", "POST /act/pause"] {
            let refused = page.ask(request, &[cookie, (name, value)], "").await;
            assert_eq!(refused.status, 403, "{request} {name} {value}: {}", refused.body);
        }
    }
    // A person who follows a link of a chat only reads.
    let visit = [
        cookie,
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    assert_eq!(page.ask("GET /", &visit, "").await.status, 200);
    let framed = [
        cookie,
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "iframe"),
    ];
    assert_eq!(page.ask("GET /", &framed, "").await.status, 403);

    // A write needs the word of the form, too.
    let own = format!("http://{}", page.address);
    for body in [
        "set=argocd/shop",
        "set=argocd/shop&word=",
        &format!("set=argocd/shop&word={}", page.token),
    ] {
        let refused = page.ask("POST /act/pause", &[cookie, ("Origin", &own)], body).await;
        assert_eq!(refused.status, 403, "{}", refused.body);
    }
    let set = world.get("ApplicationSet", "shop").await;
    assert!(set["metadata"]["annotations"]["wavegate.dev/paused"].is_null(), "{set}");

    // Every answer says what a browser may do.
    for path in
        ["/", "/assets/page.js", "/nothing", "/set/argocd/shop", "/act/pause?set=argocd/shop"]
    {
        let answer = page.get(path).await;
        let policy = answer.header("content-security-policy").unwrap();
        for part in ["default-src 'self'", "frame-ancestors 'none'", "form-action 'self'"] {
            says(policy, part);
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        // A form says to its own page where it is from.
        let own = if path.starts_with("/act/") { "same-origin" } else { "no-referrer" };
        assert_eq!(answer.header("referrer-policy"), Some(own));
        let is_html = answer.header("content-type").unwrap().starts_with("text/html");
        for inline in [" style=", "<style", " onclick", "javascript:"] {
            assert!(!is_html || !answer.body.contains(inline), "{path}: {inline}");
        }
    }
    // Nothing leads to another host.
    let away = page.ask(&format!("GET //attacker.example/?start={}", page.token), &[], "").await;
    assert!(!away.body.contains("attacker.example"), "{}", away.body);
}

/// PG-004, PG-005: what a cluster contains is text of bounded length, without credentials.
#[tokio::test(flavor = "multi_thread")]
async fn pg_041_markup_control_characters_and_megabytes_are_text() {
    let world = World::start().await;
    let owner = world.set("shop", json!({"note": "x"})).await;
    let long = "m".repeat(600_000);
    let said = format!("{MARKUP} {HOSTILE} https://ann:geheim@git.example/x");
    let entry = json!({"application": "a", "status": "Progressing", "step": "1", "message": said,
        "targetRevisions": [MARKUP]});
    world
        .status("ApplicationSet", "shop", json!({
            "applicationStatus": [entry],
            "conditions": [{"type": MARKUP, "status": "True", "reason": "x", "message": said}],
            "rollout": {"step": 1, "steps": 1, "progress": "0/1", "message": said,
                "waitingFor": [{"application": "a", "kind": "Operation", "reason": said, "resource": MARKUP}]},
        }))
        .await;
    world
        .run(&owner, "shop-1", json!({
            "phase": "Held", "message": said, "total": 1, "failed": 1, "endedBy": MARKUP,
            "to": [{"revision": MARKUP, "applications": 1}],
            "gates": [{"name": MARKUP, "policy": MARKUP, "approvals": 1, "applications": 1, "approvedBy": [MARKUP]}],
            "failures": [{"count": 1, "message": said, "applications": [MARKUP]}],
            "timeline": [{"at": "2026-01-02T03:04:05Z", "what": MARKUP, "subject": MARKUP, "by": MARKUP, "message": said}],
            "skipped": [MARKUP], "unhealthyBefore": [MARKUP],
        }))
        .await;
    world
        .application(&owner, "a", json!({
            "sync": {"status": MARKUP, "revision": MARKUP},
            "health": {"status": "Degraded", "message": long},
            "operationState": {"phase": "Failed", "message": said, "startedAt": "2026-01-02T03:04:05Z", "operation": {}},
            "conditions": [{"type": MARKUP, "message": said}],
            "summary": {"externalURLs": ["javascript:attack()", MARKUP]},
            "history": [{"id": 1, "revision": MARKUP, "deployedAt": MARKUP, "initiatedBy": {"username": MARKUP}}],
            "resources": [{"kind": MARKUP, "name": MARKUP, "namespace": "x", "version": "v1", "status": "OutOfSync",
                "health": {"status": "Degraded", "message": long}}],
        }))
        .await;
    world
        .cluster
        .create(
            "RolloutPolicy",
            json!({
                "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
                "metadata": {"name": "night"},
                "spec": {"gates": [{"name": "production", "approvals": 1}]},
            }),
        )
        .await;
    world
        .status(
            "RolloutPolicy",
            "night",
            json!({"selected": 1, "applicationSets": [MARKUP],
            "conditions": [{"type": "Valid", "status": "False", "reason": "x", "message": said, "lastTransitionTime": "2026-01-02T03:04:05Z"}]}),
        )
        .await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    page.until("/", "shop").await;
    page.until("/app/argocd/a", "Degraded").await;
    let mut stream = page.follow("%2Fset%2Fargocd%2Fshop").await;
    let streamed = stream.until("\n\n").await;
    let streamed = streamed + &stream.until("\n\n").await;
    let mut shown = vec![("a stream".to_owned(), streamed)];
    for path in [
        "/",
        "/set/argocd/shop",
        "/set/argocd/shop/history",
        "/set/argocd/shop/history/1",
        "/set/argocd/shop/plan",
        "/app/argocd/a",
        "/app/argocd/a?diff=1",
        "/policies",
        "/act/retry?set=argocd/shop",
        &format!("/?q={}", "%3Cscript%3Eattack()%3C%2Fscript%3E%22%3E"),
        &format!("/?label={}", "%22%20onfocus%3Dattack()%20x"),
        "/set/argocd/%3Cscript%3Eattack()",
    ] {
        shown.push((path.to_owned(), page.get(path).await.body));
    }
    assert!(shown.iter().filter(|(_, body)| body.contains("&lt;script&gt;attack()")).count() >= 6);
    for (path, body) in shown {
        for attack in [
            "<script>a",
            "<img",
            "href=\"javascript:",
            "\" onfocus",
            "\u{1b}",
            "\u{202e}",
            "geheim",
        ] {
            assert!(!body.contains(attack), "{path} has {attack:?}: {body}");
        }
        assert!(body.len() < 200_000, "{path} has {} bytes", body.len());
    }
}

/// PG-005: pages that do not read, connections that say nothing and bodies without end take nothing
/// from a person.
#[tokio::test(flavor = "multi_thread")]
async fn pg_005_a_thousand_connections_and_streams_that_never_read() {
    let world = World::start().await;
    world.set("shop", json!({})).await;
    let page = PageServer::start(&world, &["--allow-actions"]).await;
    page.until("/", "shop").await;
    // As many streams as are allowed; none of them is read on.
    let mut streams = Vec::new();
    for _ in 0..100 {
        let mut stream = page.follow("%2F").await;
        says(&stream.until("\r\n").await, " 200 ");
        streams.push(stream);
    }
    let refused = async || page.follow("%2F").await.until("\r\n").await.contains(" 429 ");
    until("another stream is refused", refused).await;
    assert_eq!(page.get("/").await.status, 200);
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", page.child.id())).unwrap().count();
    let mut open = Vec::new();
    for _ in 0..1000 {
        if let Ok(Ok(stream)) =
            tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(&page.address)).await
        {
            open.push(stream);
        }
    }
    assert!(descriptors() < 400, "{} descriptors", descriptors());
    // The silent ones are closed, and a person is served although they stay.
    let served = async || {
        let asked = TcpStream::connect(&page.address).await;
        let Ok(mut stream) = asked else { return false };
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            page.address, page.cookie
        );
        let mut answer = Vec::new();
        stream.write_all(request.as_bytes()).await.is_ok()
            && stream.read_to_end(&mut answer).await.is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
    };
    until("a person is served", served).await;
    drop((open, streams));
    let large =
        page.ask("POST /act/pause", &[("Cookie", &page.cookie)], &"x".repeat(1 << 20)).await;
    assert_eq!(large.status, 413);
    let long = page.ask(&format!("GET /?q={}", "x".repeat(100_000)), &[], "").await;
    assert!(matches!(long.status, 414 | 431), "{}", long.status);
    assert_eq!(page.ask("PUT /", &[("Cookie", &page.cookie)], "").await.status, 405);
}

/// PG-041: who may read nothing sees why, before there is a page.
#[tokio::test(flavor = "multi_thread")]
async fn pg_041_a_user_without_rights_gets_no_page() {
    let world = World::start().await;
    let is_read = |request: &kube_sim::RequestRecord| request.resource == "applicationsets";
    let forbidden = kube_sim::InjectedFault::new(kube_sim::Effect::Status(403), is_read).times(100);
    world.cluster.server.inject(forbidden);
    world
        .ann(&["dashboard", "-A"])
        .await
        .fails(2, &["error: cannot read from the cluster: ApplicationSets"]);
    world.ann(&["dashboard"]).await.fails(2, &["ApplicationSets of namespace argocd"]);
}
