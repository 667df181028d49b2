//! `status --watch` and `explain --watch`: follow rollouts in a cluster until they are
//! complete, or until only a person can continue them.

pub(in crate::cli) mod args;
mod followed;
mod reasons;
mod show;
mod summary;

use std::convert::Infallible;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use self::followed::{Ending, FollowedRollouts};
use self::reasons::Reasons;
use self::show::Show;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::Error;
use crate::cli::rollout_view::events::{self, WatchEvent, WatchScope};
use crate::cli::rollout_view::fleet::FleetSource;
use crate::cli::rollout_view::live::{LiveEvent, LiveLoop, LiveRollouts};
use crate::cli::rollout_view::newest::{ComparisonAnswer, Newest};
use crate::cli::rollout_view::plain::{Columns, Stamp};
use crate::cli::rollout_view::signals::{READER_GONE, Signals, Wake};
use crate::cli::rollout_view::ui::{self, Ui, is_closed};
use crate::cli::watch::args::{WatchRequest, WatchView};
use wavegate_api::ObjectKey;

/// While something waits, a line is printed at least at this interval.
const LINES: Duration = Duration::from_secs(10);
/// Follows rollouts. Exit code 0 when they are complete, 1 when only a person can continue,
/// a set was deleted or the time is over, and 128 plus the number of a signal.
///
/// # Errors
///
/// A cluster that cannot be reached, a set that does not exist, missing permissions.
pub(in crate::cli) fn run(request: &WatchRequest<'_>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(follow(request));
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

async fn follow(request: &WatchRequest<'_>) -> anyhow::Result<ExitCode> {
    let cluster = ClusterConnection::connect(request.cluster).await?;
    let set = match request.name {
        // The error says where it is.
        Some(name) => {
            let set = cluster.expect_application_set(name).await?;
            Some(ObjectKey::of(&set))
        }
        None => None,
    };
    let namespace = match &set {
        Some(set) => Some(set.namespace.clone()),
        None if request.all_namespaces => None,
        // As without --watch; what cannot be listed is reported by the watch.
        None => match cluster.application_sets_here().await {
            Ok((namespace, _)) => Some(namespace),
            Err(_) => Some(cluster.namespace.clone()),
        },
    };
    let draws = request.view == WatchView::Screen && ui::can_draw();
    let signals = Signals::new(draws)?;
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let name = set.map(|set| set.name);
    let scope = WatchScope {
        namespace,
        set: name.clone(),
        runs: true,
        ends_on_refusal: true,
        ..WatchScope::default()
    };
    let changes = events::watch(cluster.client(), &scope, &stop);
    let mut show = match (request.view, draws) {
        (WatchView::Reason, _) => Show::Reasons(Reasons::default()),
        (_, true) => Show::Ui(Ui::screen()),
        (_, false) => Show::Ui(Ui::plain(Columns::for_names([]), Stamp::Clock, LINES)),
    };
    let mut followed = FollowedRollouts {
        live: LiveRollouts::new(scope, FleetSource::Cluster(name)),
        has_had_sets: false,
        settling: None,
        client: (!request.no_refresh).then(|| cluster.client().clone()),
        newest: Newest::default(),
        notes: Vec::new(),
    };
    let deadline = request.timeout.map(|time| followed.live.began + time);
    let mut events = LiveLoop::new(signals, changes, deadline);
    let ending = follow_to_the_end(&mut followed, &mut show, &mut events, request.timeout).await?;
    show.look_below(&followed, &ending, &cluster).await;
    if ending != Ending::ReaderGone && is_closed(show.finish(&followed, &ending))? {
        return Ok(ExitCode::from(READER_GONE));
    }
    Ok(ExitCode::from(ending.code()))
}

/// Follows until it ends.
async fn follow_to_the_end(
    followed: &mut FollowedRollouts,
    show: &mut Show,
    events: &mut LiveLoop,
    timeout: Option<Duration>,
) -> Result<Ending, Error> {
    let mut is_changed = true;
    loop {
        let event = events.next(&mut followed.newest, std::future::pending::<Infallible>()).await;
        let written = match event {
            LiveEvent::Signal(Wake::End(code)) => return Ok(Ending::Signal(code)),
            LiveEvent::Signal(Wake::Stop) => show.stop(&mut events.signals).await,
            // The terminal may show anything: it is drawn anew.
            LiveEvent::Signal(Wake::Continued) => show.leave(),
            LiveEvent::TimedOut => return Ok(Ending::TimedOut(timeout.unwrap_or_default())),
            LiveEvent::Tick => {
                if is_closed(show.refresh(followed, is_changed))? {
                    return Ok(Ending::ReaderGone);
                }
                is_changed = false;
                let Some(ending) = followed.ending() else { continue };
                let Some(text) = followed.confirm(&ending) else { return Ok(ending) };
                is_changed = !text.is_empty();
                show.say(followed, &text)
            }
            LiveEvent::Compared(answer) => {
                is_changed = true;
                followed.notes.clear();
                followed.settling = None;
                let ComparisonAnswer::Unknown(why) = answer else { continue };
                let text = format!("what follows is of the last comparisons: {why}");
                let written = show.say(followed, &text);
                followed.notes.push(text);
                written
            }
            LiveEvent::Watch(event) => {
                is_changed = true;
                apply(followed, event, show)?
            }
            LiveEvent::Other(never) => match never {},
        };
        if is_closed(written)? {
            return Ok(Ending::ReaderGone);
        }
    }
}

/// Applies an event, and prints the transitions that follow from it. The state at the start is no
/// transition.
fn apply(
    followed: &mut FollowedRollouts,
    event: WatchEvent,
    show: &mut Show,
) -> Result<io::Result<()>, Error> {
    let was_listed = followed.live.is_listed();
    let transitions = followed.take(event)?;
    match (was_listed, followed.live.is_listed()) {
        (true, _) => Ok(show.log(&transitions, Timestamp::now())),
        (false, true) => Ok(show.begin(followed)),
        (false, false) => Ok(Ok(())),
    }
}
