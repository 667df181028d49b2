//! Settings of Argo CD's ApplicationSet controller that have no meaning here (AS-501), and such
//! flags of its application controller; all are rows of `unused.txt`.
//!
//! They are accepted, so that a workload of Argo CD starts with its arguments unchanged, and each
//! one that is set is named once in the log, with the reason.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::reader::Reader;
use super::unused;

/// The values that the command line gives to these settings, by flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptedFlags(pub BTreeMap<&'static str, String>);

/// Names of a setting; an empty one does not exist.
struct Accepted {
    flag: &'static str,
    variable: &'static str,
    key: &'static str,
    /// Whether the flag needs no value.
    is_switch: bool,
    why: &'static str,
}

static ACCEPTED: LazyLock<Vec<Accepted>> = LazyLock::new(|| {
    let rows = unused::rows("flags").into_iter();
    rows.flat_map(|row| row.names.into_iter().map(move |names| accept(names, row.why))).collect()
});

fn accept(names: &'static str, why: &'static str) -> Accepted {
    let mut names = names.split(' ').map(|name| if name == "-" { "" } else { name });
    let mut next = || names.next().unwrap_or_default();
    let (flag, variable, key) = (next(), next(), next());
    let switch = flag.strip_suffix('?');
    Accepted { flag: switch.unwrap_or(flag), variable, key, is_switch: switch.is_some(), why }
}

impl clap::Args for AcceptedFlags {
    fn augment_args(command: Command) -> Command {
        let flags = ACCEPTED.iter().filter(|setting| !setting.flag.is_empty());
        command.args(flags.map(|setting| {
            let flag = Arg::new(setting.flag).long(setting.flag).hide(true).action(ArgAction::Set);
            match setting.is_switch {
                true => flag.num_args(0..=1).default_missing_value("true"),
                false => flag.num_args(1),
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for AcceptedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in ACCEPTED.iter().map(|setting| setting.flag).filter(|flag| !flag.is_empty()) {
            if let Some(value) = matches.get_one::<String>(flag) {
                self.0.insert(flag, value.clone());
            }
        }
        Ok(())
    }
}

/// The names of these settings, and why each has no effect.
pub fn accepted_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = |setting: &'static Accepted| {
        [setting.variable, setting.key].map(|name| (name, setting.why))
    };
    ACCEPTED.iter().flat_map(names).filter(|(name, _)| !name.is_empty())
}

/// The settings that are set, each with its place and the reason why it has no effect.
pub(super) fn without_effect(read: &Reader<'_>, flags: &AcceptedFlags) -> Vec<String> {
    let place = |setting: &Accepted| {
        if flags.0.contains_key(setting.flag) {
            return Some(format!("--{}", setting.flag));
        }
        let is_set = |text: Option<String>| text.is_some_and(|text| !text.is_empty());
        if !setting.variable.is_empty() && is_set((read.environment)(setting.variable)) {
            return Some(setting.variable.to_owned());
        }
        is_set(read.config_map.get(setting.key).cloned()).then(|| setting.key.to_owned())
    };
    let line = |setting: &Accepted| {
        let place = place(setting)?;
        Some(format!("{place} is accepted without effect: {}", setting.why))
    };
    ACCEPTED.iter().filter_map(line).collect()
}
