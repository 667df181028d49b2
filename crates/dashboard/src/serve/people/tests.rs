use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::*;
use crate::people::SignedInPerson;
use crate::reports::*;

/// Signs in all whose token does not begin with `no`.
#[derive(Default)]
struct Directory {
    asked: AtomicUsize,
    answer: Mutex<Option<SessionCheck>>,
    ended: Arc<AtomicUsize>,
}

struct Session(Option<SessionCheck>, Arc<AtomicUsize>);

impl PersonSession for Session {
    fn check(&self) -> BoxFuture<'_, SessionCheck> {
        let answer = self.0.unwrap_or(SessionCheck::Same);
        async move { answer }.boxed()
    }

    fn end(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

impl PagePeople for Directory {
    fn sign_in<'a>(
        &'a self,
        person: &'a PersonCredentials,
    ) -> BoxFuture<'a, Result<SignedInPerson, SignInError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let PersonCredentials::Token(token) = person else { panic!("a token") };
        let refused = SignInError { is_refused: true, message: "no".to_owned() };
        let session = Arc::new(Session(*self.answer.lock(), Arc::clone(&self.ended)));
        let found = SignedInPerson { name: token.clone(), reports: Arc::new(Empty), session };
        let answer = if token.starts_with("no") { Err(refused) } else { Ok(found) };
        async move { answer }.boxed()
    }
}

/// Reports of nothing.
struct Empty;

fn none<'a, T>() -> PendingReport<'a, T> {
    async { Err(Unavailable { message: "nothing".to_owned(), is_missing: true }) }.boxed()
}

impl PageReports for Empty {
    fn state(&self) -> watch::Receiver<KnownState> {
        watch::Sender::new(KnownState::default()).subscribe()
    }
    fn place(&self) -> String {
        String::new()
    }
    fn fleet(&self) -> PendingReport<'_, Vec<Arc<RolloutDocument>>> {
        none()
    }
    fn rollout<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, Arc<RolloutDocument>> {
        none()
    }
    fn application<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, ApplicationDocument> {
        none()
    }
    fn difference<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, serde_json::Value> {
        none()
    }
    fn history<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, Vec<RunDocument>> {
        none()
    }
    fn plan<'a>(&'a self, _: &'a PageObject) -> PendingReport<'a, PlanDocument> {
        none()
    }
    fn policies(&self) -> PendingReport<'_, Vec<PolicyDocument>> {
        none()
    }
    fn act<'a>(&'a self, _: &'a ActionRequest, _: bool) -> PendingReport<'a, ActionAnswer> {
        none()
    }
}

fn people(most: usize) -> (Arc<Directory>, Arc<People>) {
    let directory = Arc::new(Directory::default());
    let limits = PeopleLimits { people: most, check_every: Duration::from_secs(30) };
    let source: Arc<dyn PagePeople> = Arc::clone(&directory) as _;
    (directory, People::new(source, limits, CancellationToken::new()))
}

async fn visit(people: &People, token: &str) -> Result<Arc<Visitor>, u16> {
    let person = PersonCredentials::Token(token.to_owned());
    people.visit(&person).await.map_err(|no| no.status.as_u16())
}

#[tokio::test(start_paused = true)]
async fn a_person_is_signed_in_once_and_shares_nothing() {
    let (directory, people) = people(3);
    let ann = visit(&people, "ann").await.unwrap();
    assert!(Arc::ptr_eq(&ann, &visit(&people, "ann").await.unwrap()));
    assert!(!Arc::ptr_eq(&ann, &visit(&people, "bob").await.unwrap()));
    assert_eq!(directory.asked.load(Ordering::Relaxed), 2);
    // A refusal is remembered for a moment.
    for _ in 0..5 {
        assert_eq!(visit(&people, "nobody").await.err(), Some(401));
    }
    assert_eq!(directory.asked.load(Ordering::Relaxed), 3);
    tokio::time::advance(REFUSED).await;
    assert_eq!(visit(&people, "nobody").await.err(), Some(401));
    assert_eq!(directory.asked.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_so_many_and_those_who_left_make_room() {
    let (directory, people) = people(2);
    let ann = visit(&people, "ann").await.unwrap();
    ann.open.fetch_add(1, Ordering::Relaxed);
    let bob = visit(&people, "bob").await.unwrap();
    assert_eq!(visit(&people, "eve").await.err(), Some(503), "both were seen just now");
    assert_eq!(directory.asked.load(Ordering::Relaxed), 2, "the API server is not asked");
    tokio::time::advance(SEEN * 2).await;
    visit(&people, "eve").await.unwrap();
    assert!(bob.ended.is_cancelled() && !ann.ended.is_cancelled(), "ann has a page open");
    assert_eq!(directory.ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_or_not_seen_is_forgotten() {
    for (answer, is_open, after, stays) in [
        (SessionCheck::Same, true, 1000, true),
        (SessionCheck::Same, false, 200, true),
        (SessionCheck::Same, false, 400, false),
        (SessionCheck::Refused, true, 31, false),
        (SessionCheck::Changed, true, 31, false),
        (SessionCheck::Unknown, true, 200, true),
        (SessionCheck::Unknown, true, 400, false),
    ] {
        let (directory, people) = people(2);
        *directory.answer.lock() = Some(answer);
        let ann = visit(&people, "ann").await.unwrap();
        ann.open.fetch_add(usize::from(is_open), Ordering::Relaxed);
        let keeping = tokio::spawn(Arc::clone(&people).keep());
        tokio::time::sleep(Duration::from_secs(after)).await;
        assert_eq!(!ann.ended.is_cancelled(), stays, "{answer:?} {is_open} {after}");
        assert_eq!(directory.ended.load(Ordering::Relaxed) == 0, stays);
        keeping.abort();
    }
}
