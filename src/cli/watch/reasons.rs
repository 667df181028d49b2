//! `explain --watch`: the first line of `explain`, whenever it changes.

use std::io::{self, Write};

use jiff::Timestamp;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::note;
use crate::cli::explain::{self, Explanation};
use crate::cli::rollout_view::text::StyledLine;
use crate::cli::runs::ReportedSet;
use wavegate_api::ObjectKey;
use wavegate_api::time::to_rfc3339;
use wavegate_net::terminal::printable_lines;

/// The lines.
#[derive(Default)]
pub(super) struct Reasons {
    /// The last line without its time.
    last: String,
    /// The whole explanation at the end, if only a person can continue.
    stuck: Option<Box<Explanation>>,
}

impl Reasons {
    /// Prints the reason with the time, if it is another one.
    pub fn refresh(&mut self, line: String) -> io::Result<()> {
        if line == self.last {
            return Ok(());
        }
        self.last = line;
        self.say(&self.last)
    }

    /// Prints a line with the time.
    pub fn say(&self, text: &str) -> io::Result<()> {
        write(&format!("{} {text}", to_rfc3339(Timestamp::now())))
    }

    /// Explains why only a person can continue, down to the Pod.
    pub async fn look_below(&mut self, set: &ObjectKey, cluster: &ClusterConnection) {
        // What cannot be read is said by the last line.
        let Ok(Some(found)) = cluster.get("ApplicationSet", &set.namespace, &set.name).await else {
            return;
        };
        let Ok(found) = ReportedSet::read(cluster, found).await else { return };
        self.stuck = Some(Box::new(explain::explain_below(cluster, &found, false).await));
    }

    /// Prints the whole explanation, or else the summary.
    pub fn finish(&self, summary: &[StyledLine]) -> io::Result<()> {
        match &self.stuck {
            Some(stuck) => {
                stuck.notes.iter().for_each(|text| note(text));
                write(&format!("\n{}", explain::show(stuck).trim_end()))
            }
            None => summary.iter().try_for_each(|line| write(&line.plain())),
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = wavegate_net::redact::redact_text(text).into_owned();
    writeln!(out, "{}", printable_lines(&text, false))?;
    out.flush()
}
