//! Settings that a running process keeps: what depends on them is set up once, at its start.

use super::Config;

/// Keeps a part of the settings in use; whether it differed.
type Keep = fn(&mut Config, &Config) -> bool;

/// These settings, by their keys of the ConfigMaps: flags and environment of a process do not
/// change.
const FIXED: [(&str, Keep); 10] = [
    // Whether a Lease is needed is decided once: without it, each replica would write.
    ("applicationsetcontroller.dryrun", |new, used| {
        let sets = keep(&mut new.application_sets.dry_run, &used.application_sets.dry_run);
        keep(&mut new.applications.dry_run, &used.applications.dry_run) || sets
    }),
    ("applicationsetcontroller.enable.leader.election", |new, used| {
        keep(&mut new.leader_election, &used.leader_election)
    }),
    ("applicationsetcontroller.log.format (or controller.log.format)", |new, used| {
        keep(&mut new.log_format, &used.log_format)
    }),
    (
        "applicationsetcontroller.log.level (or applicationsetcontroller.debug, \
         controller.log.level)",
        |new, used| keep(&mut new.log_level, &used.log_level),
    ),
    ("applicationsetcontroller.probe.addr", |new, used| {
        keep(&mut new.probe_addr, &used.probe_addr)
    }),
    ("applicationsetcontroller.allow.local.sources", |new, used| {
        let own = keep(&mut new.allow_local_sources, &used.allow_local_sources);
        let sources = keep(&mut new.allowed_sources.local, &used.allowed_sources.local);
        keep(&mut new.applications.allow_local, &used.applications.allow_local) || own || sources
    }),
    ("applicationsetcontroller.allow.http.sources", |new, used| {
        let sources = keep(&mut new.allowed_sources.http, &used.allowed_sources.http);
        let programs = &mut new.applications.render.programs;
        keep(&mut programs.allow_http, &used.applications.render.programs.allow_http) || sources
    }),
    ("controller.confinement", |new, used| {
        let programs = &mut new.applications.render.programs;
        keep(&mut programs.confinement, &used.applications.render.programs.confinement)
    }),
    (
        "reposerver.oci.manifest.max.extracted.size (or \
         reposerver.disable.oci.manifest.max.extracted.size, reposerver.oci.layer.media.types)",
        |new, used| keep(&mut new.applications.artifacts, &used.applications.artifacts),
    ),
    ("reposerver.parallelism.limit (or controller.program.memory)", |new, used| {
        let programs = &mut new.applications.render.programs;
        let used = &used.applications.render.programs;
        let memory = keep(&mut programs.memory_together, &used.memory_together);
        keep(&mut programs.parallel, &used.parallel) || memory
    }),
];

fn keep<T: Clone + PartialEq>(new: &mut T, used: &T) -> bool {
    let differs = new != used;
    if differs {
        new.clone_from(used);
    }
    differs
}

impl Config {
    /// Keeps those of the `used` settings that need a restart of the process. Returns the names of
    /// those that differed.
    pub fn keep_fixed(&mut self, used: &Self) -> Vec<&'static str> {
        FIXED.into_iter().filter(|(_, keep)| keep(self, used)).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Flags;

    fn resolve(map: &[(&str, &str)]) -> Config {
        let map: BTreeMap<String, String> =
            map.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Config::resolve(Flags::default(), &|_| None, &map).unwrap()
    }

    #[test]
    fn settings_that_need_a_restart_stay_and_are_named() {
        let used = resolve(&[("applicationsetcontroller.dryrun", "true")]);
        let changes = [
            ("applicationsetcontroller.dryrun", "false"),
            ("applicationsetcontroller.enable.leader.election", "true"),
            ("controller.log.format", "text"),
            ("applicationsetcontroller.debug", "true"),
            ("applicationsetcontroller.probe.addr", ":1"),
            ("applicationsetcontroller.allow.local.sources", "true"),
            ("applicationsetcontroller.allow.http.sources", "false"),
            ("controller.confinement", "off"),
            ("reposerver.oci.manifest.max.extracted.size", "1Mi"),
            ("reposerver.parallelism.limit", "3"),
        ];
        let mut next = resolve(&changes);
        assert_ne!(next, used);
        let named = next.keep_fixed(&used);
        assert_eq!(next, used, "all of them stay");
        assert_eq!(named.len(), FIXED.len(), "{named:?}");
        assert!(named[0] == "applicationsetcontroller.dryrun", "{named:?}");

        let mut all = changes.to_vec();
        all.push(("applicationsetcontroller.policy", "create-only"));
        let mut next = resolve(&all);
        next.keep_fixed(&used);
        assert_ne!(next, used, "other settings are taken over");
        assert!(next.application_sets.dry_run && next.applications.dry_run);
        assert_eq!(next.keep_fixed(&used), Vec::<&str>::new());
    }
}
