//! The page for a team (PG-003): each request is made as the person that it is of.

use super::front::{Asked, Front, PAGE_TOKEN};
use super::*;

const HOST: (&str, &str) = ("Host", "rollouts.example.org");
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const TOKEN: [&str; 3] = ["--sign-in=token", "--namespaces=team-a,team-b", "--check-every=1"];

/// A page in a cluster, with its messages in a file.
pub(super) struct TeamPage {
    page: PageServer,
    files: TempDir,
}

impl TeamPage {
    pub(super) async fn start(front: &Front, args: &[&str]) -> Self {
        Self::with(&front.kubeconfig(), args).await
    }

    /// With another kubeconfig.
    pub(super) async fn with(kubeconfig: &std::path::Path, args: &[&str]) -> Self {
        let files = folder(&[("secret", &format!("{SECRET}\n")), ("messages", "")]);
        let messages = std::fs::File::create(files.path().join("messages")).unwrap();
        let secret = format!("--proxy-secret-file={}", in_folder(&files, "secret"));
        let mut all =
            vec!["dashboard", "--in-cluster", "--public-url=https://rollouts.example.org"];
        all.extend(args);
        if args.contains(&"--sign-in=headers")
            && !args.iter().any(|one| one.starts_with("--proxy-ca"))
        {
            all.push(&secret);
        }
        let mut command = program(&all);
        command.env("KUBECONFIG", kubeconfig).env("RUST_LOG", "trace");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages);
        let mut child = command.spawn().unwrap();
        let mut printed = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut printed).unwrap();
        let address = printed.trim().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| {
            panic!("{printed}{}", std::fs::read_to_string(in_folder(&files, "messages")).unwrap())
        });
        let address = address.to_owned();
        let page = PageServer { child, address, token: String::new(), cookie: String::new() };
        Self { page, files }
    }

    pub(super) fn address(&self) -> &str {
        &self.page.address
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(in_folder(&self.files, "messages")).unwrap()
    }

    /// Asks as a person with a token.
    async fn by(&self, user: &str, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.with_token(&format!("token-of-{user}"), request, headers, body).await
    }

    /// The same with any token.
    pub(super) async fn with_token(
        &self,
        token: &str,
        request: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let own = [HOST, ("Authorization", &*bearer)];
        self.page.ask(request, &[&own, headers].concat(), body).await
    }

    /// A request as the proxy sends it for a user of a group.
    pub(super) async fn named(&self, user: &str, group: &str, request: &str) -> Answer {
        let secret = ("X-Wavegate-Proxy-Secret", SECRET);
        let person = [HOST, secret, ("X-Forwarded-User", user), ("X-Forwarded-Groups", group)];
        self.page.ask(request, &person, "").await
    }

    async fn get(&self, user: &str, path: &str) -> Answer {
        self.by(user, &format!("GET {path}"), &[], "").await
    }

    async fn until(&self, user: &str, path: &str, text: &str) -> String {
        let mut body = String::new();
        until(&format!("{path} of {user} has {text:?}"), async || {
            body = self.get(user, path).await.body;
            body.contains(text)
        })
        .await;
        body
    }

    async fn follow(&self, user: &str, view: &str) -> Stream {
        let mut stream = TcpStream::connect(&self.page.address).await.unwrap();
        let request = format!(
            "GET /events?view={view} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer token-of-{user}\r\n\r\n",
            HOST.1
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Stream { stream, read: Vec::new() }
    }

    /// A form of a verb: its word, and the cookie that goes with it.
    async fn form(&self, user: &str, path: &str) -> (String, String, String) {
        let form = self.get(user, path).await;
        assert_eq!(form.status, 200, "{}", form.body);
        let cookie = form.header("set-cookie").expect("a form has a cookie");
        let word = form.body.split("name=\"word\" value=\"").nth(1).expect("the page has a form");
        let word = word.split('"').next().unwrap().to_owned();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        (word, cookie, form.body)
    }

    async fn act(
        &self,
        user: &str,
        verb: &str,
        form: &(String, String, String),
        set: &str,
    ) -> Answer {
        let headers = [("Cookie", &*form.1), ("Origin", "https://rollouts.example.org")];
        let body = format!("word={}&set={}", form.0, set.replace('/', "%2F"));
        self.by(user, &format!("POST /act/{verb}"), &headers, &body).await
    }
}

/// A world with a set in each namespace.
pub(super) async fn two_teams() -> (World, Front) {
    let world = World::start().await;
    let front = Front::start(&world).await;
    world.waiting_set("team-a", "shop").await;
    world.waiting_set("team-b", "bank").await;
    (world, front)
}

/// PG-003: without a way to know who asks, no address but loopback is listened on, with what
/// to configure.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_an_address_for_others_needs_a_way_to_know_them() {
    let world = World::start().await;
    for args in
        [&["--address=0.0.0.0"][..], &["--in-cluster", "--address=0.0.0.0"], &["--address=::"]]
    {
        let refused = world.ann(&[&["dashboard"], args].concat()).await;
        refused.fails(
            2,
            &["error: cannot listen: ", "--sign-in token", "--proxy-secret-file or --proxy-ca"],
        );
    }
    let files = folder(&[("short", "secret\n"), ("empty", "")]);
    let url = "--public-url=https://rollouts.example.org";
    let headers = ["dashboard", "--in-cluster", "--sign-in=headers", url];
    world
        .ann(&headers)
        .await
        .fails(2, &["cannot use: --sign-in headers", "set --proxy-secret-file"]);
    for (name, why) in
        [("short", "at least 32 characters"), ("empty", "at least 32"), ("none", "No such file")]
    {
        let file = format!("--proxy-secret-file={}", in_folder(&files, name));
        world.ann(&[&headers[..], &[&file]].concat()).await.fails(2, &["--proxy-secret-file", why]);
    }
    for (args, why) in [
        (&["--sign-in=token", url][..], "--in-cluster"),
        (&["--in-cluster", "--sign-in=token"], "--public-url"),
        (&["--in-cluster", "--sign-in=token", "--public-url=https://a/b"], "a host of its own"),
        (&["--in-cluster", "--sign-in=token", url, "--proxy-ca=a"], "--proxy-name"),
        (&["--in-cluster", "--sign-in=token", url, "--allow-actions"], "--allow-actions"),
        (&["--in-cluster", "--sign-in=token", url, "--namespaces=a/b"], "--namespaces a/b"),
    ] {
        world.ann(&[&["dashboard"], args].concat()).await.fails(2, &[why]);
    }
}

/// PG-003, PG-041: two persons at once, each of whom sees their own namespace alone, in views and in
/// streams; every request to the API server has the token of its person, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_pg_041_each_request_has_the_token_of_its_person_and_nothing_else() {
    let (world, front) = two_teams().await;
    let page = TeamPage::start(&front, &TOKEN).await;
    let (mut ann, mut bob) = (page.follow("ann", "%2F").await, page.follow("bob", "%2F").await);
    let (of_ann, of_bob) = (ann.until("team-a").await, bob.until("team-b").await);
    assert!(!of_ann.contains("bank") && !of_bob.contains("shop"), "{of_ann}{of_bob}");
    let fleet = page.until("ann", "/", "shop").await;
    assert!(!fleet.contains("bank"), "{fleet}");
    says(&fleet, "ann · team-a");
    let fleet = page.until("bob", "/", "bank").await;
    assert!(!fleet.contains("shop"), "{fleet}");
    for path in [
        "/set/team-a/shop",
        "/set/team-a/shop/history",
        "/set/team-a/shop/plan",
        "/app/team-a/shop-app",
    ] {
        assert_ne!(page.get("ann", path).await.status, 404, "{path}");
        let hidden = page.get("bob", path).await;
        assert_eq!(hidden.status, 404, "{path}: {}", hidden.body);
    }
    // A change is sent to its person, and to no other one.
    world.waiting_set("team-a", "shop-two").await;
    ann.until("shop-two").await;
    world.waiting_set("team-b", "bank-two").await;
    let sent = bob.until("bank-two").await;
    assert!(!sent.contains("shop"), "{sent}");
    world.waiting_set("team-a", "shop-three").await;
    let sent = ann.until("shop-three").await;
    assert!(!sent.contains("bank"), "{sent}");

    let asked = front.asked();
    for one in &asked {
        let Asked { user, authorization, as_user, as_groups, path, .. } = one;
        assert!(["ann", "bob"].contains(&user.as_str()), "{one:?}");
        assert_eq!(authorization, &format!("Bearer token-of-{user}"), "{one:?}");
        assert!(as_user.is_none() && as_groups.is_empty(), "{one:?}");
        let other = if user == "ann" { "team-b" } else { "team-a" };
        assert!(!path.contains(other), "{one:?}");
    }
    assert!(asked.iter().any(|one| one.user == "ann") && asked.iter().any(|one| one.user == "bob"));
    assert!(!page.messages().contains("token-of-"), "{}", page.messages());
}

/// PG-003: a proxy with the secret names the person, whom the page impersonates; nothing is read with
/// the page's own rights.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_a_proxy_with_the_secret_names_the_person() {
    let (_world, front) = two_teams().await;
    let args = [
        "--sign-in=headers",
        "--namespaces=team-a,team-b",
        "--user-header=X-Name",
        "--groups-header=X-Teams",
    ];
    let page = TeamPage::start(&front, &args).await;
    let secret = ("X-Wavegate-Proxy-Secret", SECRET);
    let by = async |headers: &[(&str, &str)]| {
        page.page.ask("GET /", &[&[HOST, secret], headers].concat(), "").await
    };
    until("ann's fleet is there", async || {
        by(&[("X-Name", "ann"), ("X-Teams", "dev, ops")]).await.body.contains("shop")
    })
    .await;
    let fleet = by(&[("X-Name", "ann"), ("X-Teams", "dev, ops")]).await.body;
    assert!(!fleet.contains("bank"), "{fleet}");
    // Who has no rights sees why, and nothing else.
    let eve = by(&[("X-Name", "eve")]).await;
    says(
        &eve.body,
        "eve may list ApplicationSets in none of the namespaces of this page (team-a, team-b)",
    );
    assert!(!eve.body.contains("shop") && !eve.body.contains("bank"), "{}", eve.body);
    // A token of a browser goes nowhere.
    by(&[("X-Name", "ann"), ("X-Teams", "dev, ops"), ("Authorization", "Bearer token-of-bob")])
        .await;
    for one in &front.asked() {
        assert_eq!(one.authorization, format!("Bearer {PAGE_TOKEN}"), "{one:?}");
        let groups: &[&str] = match one.as_user.as_deref() {
            Some("ann") => &["dev", "ops"],
            Some("eve") => &[],
            _ => panic!("a request of the page itself: {one:?}"),
        };
        assert_eq!(one.as_groups, groups, "{one:?}");
    }
    assert!(!page.messages().contains(SECRET) && !page.messages().contains(PAGE_TOKEN));
}

/// PG-041: no credentials, forged ones, those of a proxy without its secret, and headers that are sent
/// twice. The API server is not even asked.
#[tokio::test(flavor = "multi_thread")]
async fn pg_041_forged_persons_are_refused() {
    let (_world, front) = two_teams().await;
    let page = TeamPage::start(&front, &["--sign-in=headers", "--namespaces=team-a,team-b"]).await;
    let (user, groups) = (("X-Forwarded-User", "ann"), ("X-Forwarded-Groups", "dev"));
    let secret = ("X-Wavegate-Proxy-Secret", SECRET);
    let wrong = ("X-Wavegate-Proxy-Secret", "0123456789abcdef0123456789abcdee");
    let paths = ["GET /", "GET /set/team-a/shop", "GET /events?view=/", "POST /act/pause"];
    for (headers, status) in [
        (&[][..], 401),
        (&[user], 401),
        (&[user, groups], 401),
        (&[user, wrong], 401),
        (&[user, secret, secret], 401),
        (&[user, wrong, secret], 401),
        (&[user, ("Authorization", "Bearer token-of-ann")], 401),
        (&[secret], 403),
        (&[secret, ("X-Forwarded-User", "")], 403),
        (&[secret, user, ("X-Forwarded-User", "bob")], 403),
        (&[secret, user, groups, ("X-Forwarded-Groups", "admins")], 403),
        (&[secret, user, ("X-Forwarded-Groups", "dev, system:masters")], 403),
        (&[secret, ("X-Forwarded-User", "system:admin")], 403),
        (&[secret, user, ("Impersonate-User", "bob")], 400),
        (&[secret, user, ("Impersonate-Group", "system:masters")], 400),
        (&[secret, user, ("impersonate-extra-scopes", "a")], 400),
    ] {
        for request in paths {
            let refused = page.page.ask(request, &[&[HOST], headers].concat(), "").await;
            assert_eq!(refused.status, status, "{request} {headers:?}: {}", refused.body);
            assert!(
                !refused.body.contains("shop") && !refused.body.contains(SECRET),
                "{}",
                refused.body
            );
        }
    }
    for (headers, status) in [
        (&[("Host", "attacker.example")][..], 421),
        (&[("Host", &*page.page.address)], 421),
        (&[HOST, ("Origin", "http://rollouts.example.org")], 403),
        (&[HOST, ("Origin", "https://attacker.example")], 403),
        (&[HOST, ("Sec-Fetch-Site", "same-site")], 403),
    ] {
        let refused = page.page.ask("GET /", &[&[secret, user], headers].concat(), "").await;
        assert_eq!(refused.status, status, "{headers:?}: {}", refused.body);
    }
    assert!(front.asked().is_empty(), "{:?}", front.asked());
    // For probes, which name another host and have no credentials.
    let probe = page.page.ask("GET /healthz", &[], "").await;
    assert_eq!((probe.status, probe.body.as_str()), (200, "ok\n"));

    let page = TeamPage::start(&front, &TOKEN).await;
    for (value, status) in [
        ("", 401),
        ("Bearer ", 401),
        ("Basic token-of-ann", 401),
        ("Bearer token-of-nobody", 401),
        ("Bearer token-of-ann, Bearer token-of-bob", 401),
    ] {
        let refused = page.page.ask("GET /", &[HOST, ("Authorization", value)], "").await;
        assert_eq!(refused.status, status, "{value}: {}", refused.body);
        assert!(!refused.body.contains("token-of-"), "{}", refused.body);
    }
    let twice = [("Authorization", "Bearer token-of-bob")];
    assert_eq!(page.by("ann", "GET /", &twice, "").await.status, 400);
    let named = page.page.ask("GET /", &[HOST, user, secret], "").await;
    assert_eq!(named.status, 401, "headers of a proxy count for nothing here");
}

/// PG-041: a stream ends once the token of its person is refused, or the person may read something
/// else; the page is not shown any more.
#[tokio::test(flavor = "multi_thread")]
async fn pg_041_a_stream_ends_when_its_token_is_refused_or_its_rights_change() {
    let (_world, front) = two_teams().await;
    let page = TeamPage::start(&front, &TOKEN).await;
    let (mut ann, mut bob) = (page.follow("ann", "%2F").await, page.follow("bob", "%2F").await);
    ann.until("shop").await;
    bob.until("bank").await;
    front.revoke("token-of-ann");
    ann.ends().await;
    let refused = page.get("ann", "/").await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    says(&refused.body, "sign in again");
    assert!(!refused.body.contains("shop"), "{}", refused.body);
    assert!(page.get("bob", "/").await.body.contains("bank"), "others go on");
    front.forbid("bob");
    bob.ends().await;
    let nothing = page.until("bob", "/", "in none of the namespaces").await;
    assert!(!nothing.contains("bank"), "{nothing}");
}

/// PG-020: what the person may not do is shown, disabled, with the reason; asking for it all the same
/// writes nothing. PG-022: who did it is the person of the request.
#[tokio::test(flavor = "multi_thread")]
async fn pg_020_pg_022_verbs_follow_the_rights_of_the_person_and_are_done_as_this_person() {
    let (world, front) = two_teams().await;
    let page = TeamPage::start(&front, &TOKEN).await;
    let why = "you may not patch RolloutRuns in namespace team-a (no role of the test has it)";
    let rollout = page.until("vic", "/set/team-a/shop", "Approve").await;
    says(&rollout, "disabled");
    says(&rollout, why);
    says(&rollout, "you may not patch ApplicationSets in namespace team-a");
    assert!(!rollout.contains("/act/"), "{rollout}");
    let application = page.get("vic", "/app/team-a/shop-app").await.body;
    says(&application, "you may not patch Applications in namespace team-a");
    assert!(!application.contains("/act/"), "{application}");
    let form = page.form("vic", "/act/approve?set=team-a/shop").await;
    says(&form.2, why);
    assert!(!form.2.contains("type=\"submit\""), "{}", form.2);
    for verb in ["approve", "pause"] {
        let refused = page.act("vic", verb, &form, "team-a/shop").await;
        says(&refused.body, "you may not patch");
    }
    assert!(!front.asked().iter().any(|one| one.method == axum::http::Method::PATCH));

    let rollout = page.until("ann", "/set/team-a/shop", "/act/approve?").await;
    assert!(!rollout.contains("disabled") && !rollout.contains("you may not"), "{rollout}");
    let form = page.form("ann", "/act/approve?set=team-a/shop").await;
    says(&form.2, "wavegate approve -n team-a shop");
    // Neither the word nor the cookie of another person counts.
    let of_bob = page.form("bob", "/act/approve?set=team-b/bank").await;
    let (word, cookie) = (form.0.clone(), form.1.clone());
    for forged in [
        (of_bob.0.clone(), cookie.clone(), String::new()),
        (word.clone(), of_bob.1.clone(), String::new()),
        (word.clone(), String::new(), String::new()),
        (of_bob.0.clone(), of_bob.1.clone(), String::new()),
    ] {
        let refused = page.act("ann", "approve", &forged, "team-a/shop").await;
        assert_eq!(refused.status, 403, "{}", refused.body);
    }
    let run = world.get_in("team-a", "RolloutRun", "shop-1").await;
    assert!(run["spec"]["approvals"].is_null(), "{run}");
    let done = page.act("ann", "approve", &form, "team-a/shop").await;
    says(&done.body, "done: ");
    let run = world.get_in("team-a", "RolloutRun", "shop-1").await;
    assert_eq!(run["spec"]["approvals"][0]["by"], "ann", "{run}");
    page.act("ann", "pause", &form, "team-a/shop").await;
    let set = world.get_in("team-a", "ApplicationSet", "shop").await;
    assert_eq!(set["metadata"]["annotations"]["wavegate.dev/paused-by"], "ann", "{set}");
    page.act("ann", "sync", &form, "team-a/shop-app").await;
    let app = world.get_in("team-a", "Application", "shop-app").await;
    assert_eq!(app["operation"]["initiatedBy"]["username"], "ann", "{app}");
    // Of another team, there is nothing to see and nothing to do.
    let foreign = page.act("ann", "pause", &form, "team-b/bank").await;
    says(&foreign.body, "you may not patch ApplicationSets in namespace team-b");
    let set = world.get_in("team-b", "ApplicationSet", "bank").await;
    assert!(set["metadata"]["annotations"]["wavegate.dev/paused"].is_null(), "{set}");
    let all = page.get("ann", "/act/pause?all=label&label=tier%3Dprod").await.body;
    assert!(all.contains("shop") && !all.contains("bank"), "{all}");
}

/// PG-005, PG-003: so many persons have a page, and those who left make room.
#[tokio::test(flavor = "multi_thread")]
async fn pg_003_so_many_persons_have_a_page() {
    let (_world, front) = two_teams().await;
    let page = TeamPage::start(&front, &[&TOKEN[..], &["--people=1"]].concat()).await;
    let mut ann = page.follow("ann", "%2F").await;
    ann.until("shop").await;
    let full = page.get("bob", "/").await;
    assert_eq!(full.status, 503, "{}", full.body);
    says(&full.body, "--people");
    drop(ann);
    until("bob has room", async || page.get("bob", "/").await.status == 200).await;
    assert_eq!(page.get("ann", "/").await.status, 503, "and now ann waits");
    // Streams of one person leave room for others.
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = page.follow("bob", "%2F").await;
        says(&stream.until("\r\n").await, " 200 ");
        streams.push(stream);
    }
    says(&page.follow("bob", "%2F").await.until("\r\n").await, " 429 ");
}

/// PG-041: a person who can write Applications reads no directory of the page's machine, where its own
/// token is.
#[tokio::test(flavor = "multi_thread")]
async fn pg_041_no_directory_of_the_page_is_a_repository() {
    let (world, front) = two_teams().await;
    front.permit("ann", "argocd");
    world.cluster.permits("apps").await;
    let page = TeamPage::start(&front, &["--sign-in=token", "--namespaces=argocd"]).await;
    let secret = folder(&[("token", PAGE_TOKEN)]);
    let path = secret.path().to_str().unwrap();
    for (name, url) in [("plain", path.to_owned()), ("url", format!("file://{path}"))] {
        world.application_in("argocd", name, &url).await;
        let view = format!("/app/argocd/{name}?diff=1");
        let shown = page.until("ann", &view, "local directories are not allowed here").await;
        assert!(!shown.contains(PAGE_TOKEN), "{shown}");
    }
}

impl Stream {
    /// Reads until the server ends it.
    async fn ends(&mut self) {
        let reading = async {
            let mut bytes = [0; 16 << 10];
            while self.stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        };
        tokio::time::timeout(WAIT, reading).await.expect("the stream ends");
    }
}
