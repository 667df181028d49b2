//! `explain --watch`: the first line of `explain`, whenever it changes.

use std::io::{self, Write};

use jiff::Timestamp;

use super::super::cluster::ClusterConnection;
use super::super::error::note;
use super::super::explain::{self, Explanation};
use super::super::rollout_view::set::Set;
use super::super::rollout_view::text::Line;
use super::{Ending, Followed};
use crate::api::ObjectKey;
use crate::api::time::to_rfc3339;
use crate::terminal::printable_lines;

/// The lines.
#[derive(Default)]
pub(super) struct Reasons {
    /// The last line without its time.
    last: String,
    /// The whole explanation at the end, if only a person can continue.
    stuck: Option<Explanation>,
}

impl Reasons {
    pub fn refresh(&mut self, followed: &Followed, is_changed: bool) -> io::Result<()> {
        if !is_changed || !followed.is_listed() {
            return Ok(());
        }
        let line = match (followed.disconnected(), followed.fleet.known().next()) {
            (Some(why), _) => format!("disconnected, retrying: {why}"),
            (None, Some(set)) => explain::summary(&set.report),
            (None, None) => return Ok(()),
        };
        if line == self.last {
            return Ok(());
        }
        self.last = line;
        write(&format!("{} {}", to_rfc3339(Timestamp::now()), self.last))
    }

    /// Prints a line with the time.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        write(&format!("{} {text}", to_rfc3339(Timestamp::now())))
    }

    /// Explains why only a person can continue, down to the Pod.
    pub async fn look_below(&mut self, followed: &Followed, cluster: &ClusterConnection) {
        let Some(ObjectKey { namespace, name }) = followed.fleet.known().next().map(Set::key)
        else {
            return;
        };
        // Without it, the last line has said why.
        let Ok(Some(set)) = cluster.application_set(&namespace, &name).await else { return };
        let Ok(applications) = cluster.applications_by_name(&namespace).await else { return };
        let mut explanation = explain::explain(&set, &applications);
        explanation.look_below(cluster, &applications).await;
        self.stuck = Some(explanation);
    }

    pub fn finish(&mut self, ending: &Ending, summary: &[Line]) -> io::Result<()> {
        match (ending, &self.stuck) {
            (Ending::Complete | Ending::Signal(_) | Ending::ReaderGone, _) => Ok(()),
            (Ending::Stuck, Some(stuck)) => {
                stuck.notes.iter().for_each(|text| note(text));
                write(&format!("\n{}", explain::show(stuck).trim_end()))
            }
            _ => summary.iter().try_for_each(|line| write(&line.plain())),
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = crate::redact::text(text).into_owned();
    writeln!(out, "{}", printable_lines(&text, false))?;
    out.flush()
}
