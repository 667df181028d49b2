//! Where each setting comes from.

mod flags;

use std::time::Duration;

use super::*;
use wavegate_api::tracking::TrackingMethod;

fn resolve(
    flags: Flags,
    environment: &[(&str, &str)],
    map: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    let map = map.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Config::resolve(flags, &|name| environment.get(name).map(|text| (*text).to_owned()), &map)
}

#[test]
fn a_flag_wins_over_the_environment_over_the_config_map_as_500() {
    let variable = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS";
    let key = "applicationsetcontroller.enable.progressive.syncs";
    // Name, flag, environment, ConfigMap, what is wanted, how many warnings.
    type Case<'a> = (&'a str, Option<bool>, Option<&'a str>, Option<&'a str>, bool, usize);
    let cases: [Case; 8] = [
        ("off by default", None, None, None, false, 0),
        ("by ConfigMap", None, None, Some("true"), true, 0),
        ("by environment", None, Some("TRUE"), None, true, 0),
        ("by flag", Some(true), None, None, true, 0),
        ("the environment wins over the ConfigMap", None, Some("false"), Some("true"), false, 0),
        ("the flag wins over both", Some(false), Some("true"), Some("true"), false, 0),
        ("text that makes no sense", None, Some("yes please"), None, false, 1),
        ("an empty text is absent", None, Some(""), None, false, 0),
    ];
    for (name, flag, env, map, want, warnings) in cases {
        let flags = Flags { enable_progressive_syncs: flag, ..Flags::default() };
        let env: Vec<_> = env.map(|text| (variable, text)).into_iter().collect();
        let map: Vec<_> = map.map(|text| (key, text)).into_iter().collect();
        let got = resolve(flags, &env, &map).unwrap();
        assert_eq!(
            (got.application_sets.decisions.progressive_syncs, got.warnings.len()),
            (want, warnings),
            "{name}"
        );
    }
}

/// K-25: a process in a cluster finds the server of its own one at the address that Secrets give.
#[test]
fn whether_the_process_runs_in_a_cluster_is_known_from_its_environment() {
    for (host, want) in [(None, false), (Some(""), false), (Some("10.0.0.1"), true)] {
        let environment: Vec<_> =
            host.map(|host| ("KUBERNETES_SERVICE_HOST", host)).into_iter().collect();
        let config = resolve(Flags::default(), &environment, &[]).unwrap();
        assert_eq!(config.applications.runs_in_cluster, want, "{host:?}");
    }
}

#[test]
fn the_progressing_timeout_has_the_key_of_the_seed_as_356() {
    let key = "applicationsetcontroller.default.application.progressing.timeout";
    let timeout = |map: &[(&str, &str)]| {
        let config = resolve(Flags::default(), &[], map).unwrap();
        config
            .application_sets
            .decisions
            .rollout
            .rules
            .progressing_timeout
            .map(|limit| limit.as_secs())
    };
    assert_eq!(timeout(&[]), Some(300));
    assert_eq!(timeout(&[(key, "60")]), Some(60));
    assert_eq!(timeout(&[(key, "0")]), None);
    assert_eq!(timeout(&[(key, "-1")]), Some(300));
}

#[test]
fn the_wave_delay_is_read_from_the_seeds_variable() {
    let delay =
        |env: &[(&str, &str)]| resolve(Flags::default(), env, &[]).unwrap().applications.wave_delay;
    assert_eq!(delay(&[]), Duration::from_secs(2));
    assert_eq!(delay(&[("ARGOCD_SYNC_WAVE_DELAY", "0")]), Duration::ZERO);
    assert_eq!(delay(&[("ARGOCD_SYNC_WAVE_DELAY", "soon")]), Duration::from_secs(2));
}

#[test]
fn a_policy_switches_overrides_off_wherever_it_is_set_as_502() {
    let with = |flag: Option<&str>, env: &[(&str, &str)]| {
        let flags = Flags { policy: flag.map(str::to_owned), ..Flags::default() };
        resolve(flags, env, &[]).map(|config| config.application_sets.decisions.policy_override)
    };
    assert_eq!(with(None, &[]), Ok(true));
    assert_eq!(with(Some("create-only"), &[]), Ok(false));
    assert_eq!(with(None, &[("ARGOCD_APPLICATIONSET_CONTROLLER_POLICY", "sync")]), Ok(false));
    assert_eq!(with(Some("nope"), &[]), Err(ConfigError::Policy("nope".into())));
}

#[test]
fn namespaces_are_globs_or_expressions_as_400() {
    let flags = Flags {
        applicationset_namespaces: Some(
            ["team-*", "/^a[0-9]$/", "prod-[ab]", "{red", "blue}-x"].map(str::to_owned).to_vec(),
        ),
        ..Flags::default()
    };
    let namespaces = resolve(flags, &[], &[]).unwrap().application_sets.namespaces;
    for (name, want) in
        [("team-x", true), ("team", false), ("a1", true), ("a12", false), ("xteam-y", false)]
            .into_iter()
            .chain([("prod-b", true), ("prod-c", false), ("blue-x", true), ("blue", false)])
    {
        assert_eq!(namespaces.matches(name), want, "{name}");
    }
    for bad in ["/(/", "team-[a", "{a"] {
        let flags = Flags { applicationset_namespaces: Some(vec![bad.into()]), ..Flags::default() };
        assert!(resolve(flags, &[], &[]).is_err(), "{bad}");
    }
}

/// A limit of operations does not count what they wait for a worker (SE-288), and what Argo CD
/// syncs is only requested.
#[test]
fn what_this_process_syncs_without_a_limit_has_begun_with_its_request_as_360() {
    let timed = ("ARGOCD_APPLICATION_CONTROLLER_SYNC_TIMEOUT", "60");
    let begins = |sync_engine, environment: &[(&str, &str)]| {
        let flags = Flags { sync_engine, ..Flags::default() };
        resolve(flags, environment, &[]).unwrap().application_sets.begins_operations
    };
    assert!(begins(None, &[]));
    assert!(begins(Some(SyncEngine::Embedded), &[]));
    assert!(!begins(Some(SyncEngine::External), &[]));
    assert!(!begins(None, &[timed]));
}

/// One line per setting: where it is set, to what, and what shows it.
/// SE-560, SE-561, SE-562, SE-563, SE-564, SE-565, SE-566, SE-567, SE-568, SE-569, SE-571, SE-574.
#[test]
fn the_sync_engine_is_set_up_by_argo_cds_names_as_560_to_575() {
    type Shows = fn(&ApplicationSettings) -> String;
    // Variable, key of a ConfigMap, text, default and what is wanted, as shown.
    let cases: [(&str, &str, &str, &str, &str, Shows); 30] = [
        (
            "ARGOCD_REPO_SERVER_MAX_COMBINED_DIRECTORY_MANIFESTS_SIZE",
            "reposerver.max.combined.directory.manifests.size",
            "20Mi",
            "10000000",
            "20971520",
            |s| s.render.max_bytes.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_MANIFEST_MEMORY",
            "controller.manifest.memory",
            "64Mi",
            "268435456",
            "67108864",
            |s| s.manifest_memory.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_KEPT_MANIFEST_MEMORY",
            "controller.kept.manifest.memory",
            "2G",
            "1073741824",
            "2000000000",
            |s| s.kept_manifest_memory.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_PROGRAM_MEMORY",
            "controller.program.memory",
            "1Gi",
            "2147483648",
            "1073741824",
            |s| s.render.programs.memory_together.to_string(),
        ),
        (
            "ARGOCD_REPO_SERVER_PARALLELISM_LIMIT",
            "reposerver.parallelism.limit",
            "3",
            "8",
            "3",
            |s| s.render.programs.parallel.to_string(),
        ),
        (
            "ARGOCD_REPO_SERVER_PARALLELISM_LIMIT",
            "reposerver.parallelism.limit",
            "0",
            "8",
            "0",
            |s| s.render.programs.parallel.to_string(),
        ),
        (
            "ARGOCD_IGNORE_NORMALIZER_JQ_TIMEOUT",
            "controller.ignore.normalizer.jq.timeout",
            "2500ms",
            "1s",
            "2.5s",
            |s| format!("{:?}", s.jq_timeout),
        ),
        ("ARGOCD_SYNC_WAVE_DELAY", "controller.sync.wave.delay.seconds", "7", "2s", "7s", |s| {
            format!("{:?}", s.wave_delay)
        }),
        ("ARGOCD_RECONCILIATION_TIMEOUT", "timeout.reconciliation", "3m", "120s", "180s", |s| {
            format!("{:?}", s.reconciliation_timeout)
        }),
        ("ARGOCD_RECONCILIATION_TIMEOUT", "timeout.reconciliation", "0", "120s", "0ns", |s| {
            format!("{:?}", s.reconciliation_timeout)
        }),
        (
            "ARGOCD_RECONCILIATION_JITTER",
            "timeout.reconciliation.jitter",
            "15",
            "60s",
            "15s",
            |s| format!("{:?}", s.reconciliation_jitter),
        ),
        (
            "ARGOCD_HARD_RECONCILIATION_TIMEOUT",
            "timeout.hard.reconciliation",
            "1h",
            "0ns",
            "3600s",
            |s| format!("{:?}", s.hard_reconciliation_timeout),
        ),
        (
            "ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS",
            "controller.repo.error.grace.period.seconds",
            "9",
            "180s",
            "9s",
            |s| format!("{:?}", s.repo_error_grace),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS",
            "controller.status.processors",
            "50",
            "20",
            "50",
            |s| s.parallel.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS",
            "controller.status.processors",
            "0",
            "20",
            "20",
            |s| s.parallel.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT",
            "controller.kubectl.parallelism.limit",
            "5",
            "20",
            "5",
            |s| s.parallel_applies.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_KUBECTL_PARALLELISM_LIMIT",
            "controller.kubectl.parallelism.limit",
            "-1",
            "20",
            "10000",
            |s| s.parallel_applies.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_TIMEOUT_SECONDS",
            "controller.self.heal.timeout.seconds",
            "4",
            "0",
            "4",
            |s| s.self_heal.fixed.as_secs().to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_TIMEOUT_SECONDS",
            "controller.self.heal.backoff.timeout.seconds",
            "0",
            "2",
            "0",
            |s| s.self_heal.initial.as_secs().to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_FACTOR",
            "controller.self.heal.backoff.factor",
            "2",
            "3",
            "2",
            |s| s.self_heal.factor.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_CAP_SECONDS",
            "controller.self.heal.backoff.cap.seconds",
            "60",
            "300",
            "60",
            |s| s.self_heal.cap.as_secs().to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_SYNC_TIMEOUT",
            "controller.sync.timeout.seconds",
            "600",
            "None",
            "Some(600)",
            |s| format!("{:?}", s.sync.sync_timeout.map(|limit| limit.as_secs())),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH",
            "controller.resource.health.persist",
            "false",
            "true",
            "false",
            |s| s.resource_health.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_GENERIC_HEALTH",
            "controller.generic.health",
            "false",
            "true",
            "false",
            |s| s.checks.generic.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_GENERIC_HEALTH_EXCLUDE",
            "controller.generic.health.exclude",
            "example.com/Backup, *.io/*",
            "true true",
            "false true",
            |s| {
                let has = |group, kind| s.checks.has_check(group, kind);
                format!("{} {}", has("example.com", "Backup"), has("example.com", "Restore"))
            },
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_APPLICATION_HEALTH",
            "controller.application.health",
            "true",
            "false",
            "true",
            |s| s.checks.applications.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_CONTROLLER_INHERIT_SPEC_SYNC_OPTIONS",
            "controller.inherit.spec.sync.options",
            "true",
            "false",
            "true",
            |s| s.inherit_sync_options.to_string(),
        ),
        (
            "ARGOCD_APPLICATION_NAMESPACES",
            "application.namespaces",
            "a, b-*",
            "no no",
            "yes no",
            |s| {
                let covers = |name| if s.namespaces.matches(name) { "yes" } else { "no" };
                format!("{} {}", covers("b-1"), covers("c"))
            },
        ),
        ("ARGOCD_ENABLE_K8S_EVENT", "", "none", "true", "false", |s| s.events.to_string()),
        (
            "ARGOCD_ENABLE_K8S_EVENT",
            "",
            "OperationCompleted, StatusRefreshed",
            "None",
            "Some({\"OperationCompleted\", \"StatusRefreshed\"})",
            |s| format!("{:?}", s.event_reasons),
        ),
    ];
    for (variable, key, text, default, want, shows) in cases {
        let by = |env: &[(&str, &str)], map: &[(&str, &str)]| {
            let config = resolve(Flags::default(), env, map).unwrap();
            shows(&config.applications)
        };
        assert_eq!(by(&[], &[]), default, "{variable} by default");
        assert_eq!(by(&[(variable, text)], &[]), want, "{variable}");
        if !key.is_empty() {
            assert_eq!(by(&[], &[(key, text)]), want, "{key}");
        }
        assert_eq!(
            by(&[(variable, "?!")], &[]),
            match variable {
                // Any text is a pattern.
                "ARGOCD_APPLICATION_NAMESPACES" => "no no",
                _ => default,
            },
            "{variable} makes no sense"
        );
    }
}

#[test]
fn how_resources_are_tracked_is_read_from_argo_cds_config_map_as_110() {
    let with = |map: &[(&str, &str)]| resolve(Flags::default(), &[], map).unwrap();
    let settings = with(&[
        ("application.resourceTrackingMethod", "annotation+label"),
        ("application.instanceLabelKey", "example.com/instance"),
        ("installationID", "blue"),
    ])
    .applications;
    assert_eq!(settings.tracking_method, TrackingMethod::AnnotationAndLabel);
    assert_eq!(settings.instance_label, "example.com/instance");
    assert_eq!(settings.installation_id, "blue");
    let odd = with(&[("application.resourceTrackingMethod", "guess")]);
    assert_eq!(odd.applications.tracking_method, TrackingMethod::Annotation);
    assert_eq!(odd.warnings.len(), 1, "{:?}", odd.warnings);
}

/// Each sync would fail with a label that the API server refuses, and blame the manifests.
#[test]
fn a_label_key_that_cannot_be_one_stops_tracking_by_label_as_110() {
    let with = |method: &str, key: &str| {
        let map =
            [("application.resourceTrackingMethod", method), ("application.instanceLabelKey", key)];
        let config = resolve(Flags::default(), &[], &map).unwrap();
        (config.applications.unreadable.len(), config.warnings.join("; "))
    };
    for method in ["label", "annotation+label"] {
        assert_eq!(with(method, "example.com/instance"), (0, String::new()));
        for key in ["bad key!", "a/b/c", "x/"] {
            let (unreadable, warnings) = with(method, key);
            assert_eq!(unreadable, 1, "{key}");
            let want = format!(
                "application.instanceLabelKey of ConfigMap argocd-cm: {key:?} is not a valid key; "
            );
            assert!(warnings.starts_with(&want), "{warnings}");
            assert!(warnings.ends_with("until then, no Application is reconciled"), "{warnings}");
        }
    }
    assert_eq!(with("annotation", "bad key!"), (0, String::new()), "it is not used");
}

#[test]
fn what_sets_generate_elsewhere_is_synced_there_too() {
    let covers = |flags: Flags, name: &str| {
        resolve(flags, &[], &[]).unwrap().applications.namespaces.matches(name)
    };
    let sets = Some(vec!["team-*".to_owned()]);
    let flags = Flags { applicationset_namespaces: sets.clone(), ..Flags::default() };
    assert!(covers(flags, "team-a"), "those of the sets by default");
    let application = ApplicationFlags {
        application_namespaces: Some(vec!["other".into()]),
        ..ApplicationFlags::default()
    };
    let flags = || Flags {
        applicationset_namespaces: sets.clone(),
        application: application.clone(),
        ..Flags::default()
    };
    assert!(!covers(flags(), "team-a") && covers(flags(), "other"));
}

#[test]
fn the_requeue_interval_has_a_range_and_days_as_503() {
    let variable = "ARGOCD_APPLICATIONSET_CONTROLLER_REQUEUE_AFTER";
    let read = |text: &str| {
        let config = resolve(Flags::default(), &[(variable, text)], &[]).unwrap();
        (config.application_sets.requeue_after.as_secs(), config.warnings.len())
    };
    let hours = |hours: u64| hours * 3600;
    for (text, want, warnings) in [
        ("", 180, 0),
        ("90s", 90, 0),
        ("1h30m", 5400, 0),
        ("2d", hours(48), 0),
        ("1s", 1, 0),
        ("8760h", hours(8760), 0),
        ("365d", hours(8760), 0),
        ("8761h", 180, 1),
        ("366d", 180, 1),
        ("500ms", 180, 1),
        ("0", 180, 1),
        ("-5m", 180, 1),
        ("soon", 180, 1),
    ] {
        assert_eq!(read(text), (want, warnings), "{text}");
    }
    let key = ("applicationsetcontroller.requeue.after", "10m");
    let config = resolve(Flags::default(), &[], &[key]).unwrap();
    assert_eq!(config.application_sets.requeue_after.as_secs(), 600);
}

#[test]
fn addresses_limits_and_labels_are_read_as_501() {
    let config = resolve(Flags::default(), &[], &[]).unwrap();
    assert_eq!(config.metrics_addr.as_deref(), Some(":8080"));
    assert_eq!(config.webhook_addr.as_deref(), Some(":7000"));
    assert_eq!(config.application_sets.webhook_parallelism, 50);
    let flags = Flags {
        metrics_addr: Some("0".into()),
        webhook_addr: Some(String::new()),
        metrics_applicationset_labels: Some(vec!["team".into(), " ".into(), "a.b/c ".into()]),
        ..Flags::default()
    };
    let limit = "applicationsetcontroller.webhook.parallelism.limit";
    let config = resolve(flags, &[], &[(limit, "7")]).unwrap();
    assert_eq!((config.metrics_addr, config.webhook_addr), (None, None), "off");
    assert_eq!(config.application_sets.webhook_parallelism, 7);
    assert_eq!(config.application_sets.metrics_labels, ["team", "a.b/c"]);
    for text in ["0", "1001", "many"] {
        let config = resolve(Flags::default(), &[], &[(limit, text)]).unwrap();
        let got = (config.application_sets.webhook_parallelism, config.warnings.len());
        assert_eq!(got, (50, 1), "{text}");
    }
    let key = "applicationsetcontroller.scm.query.timeout.seconds";
    for (text, want, warnings) in
        [("", 200, 0), ("800", 800, 0), ("0", 200, 1), ("801", 200, 1), ("-1", 200, 1)]
    {
        let config = resolve(Flags::default(), &[], &[(key, text)]).unwrap();
        let timeout = config.application_sets.providers.query_timeout.as_secs();
        assert_eq!((timeout, config.warnings.len()), (want, warnings), "{text}");
    }
    for (text, want) in [("warning", "warn"), ("Fatal", "error"), ("debug", "debug")] {
        let flags = Flags { loglevel: Some(text.into()), ..Flags::default() };
        assert_eq!(resolve(flags, &[], &[]).unwrap().log_level, want);
    }
}

/// Only flags are refused: a mistyped setting of the log must not end the next start.
#[test]
fn format_and_level_of_the_log_are_read_as_other_settings_are_as_500_se_575() {
    let keys = [
        ("applicationsetcontroller.log.format", "applicationsetcontroller.log.level"),
        ("controller.log.format", "controller.log.level"),
    ];
    for (format, level) in keys {
        for (map, want, warnings) in [
            ([(format, "JSON"), (level, "Warning")], ["json", "warn"], 0),
            ([(format, "Text"), (level, "wavegate=debug")], ["text", "wavegate=debug"], 0),
            ([(format, "xml"), (level, "inof")], ["json", "info"], 2),
            ([(format, "argocd"), (level, "wavegate=loud")], ["argocd", "info"], 1),
        ] {
            let config = resolve(Flags::default(), &[], &map).unwrap();
            assert_eq!([&config.log_format, &config.log_level], want, "{map:?}");
            assert_eq!(config.warnings.len(), warnings, "{map:?}: {:?}", config.warnings);
        }
    }
    let flags =
        Flags { logformat: Some("xml".into()), loglevel: Some("inof".into()), ..Flags::default() };
    let config = resolve(flags, &[], &[]).unwrap();
    let refused = (config.log_format.parse::<telemetry::LogFormat>(), config.log_level.as_str());
    assert!(refused.0.is_err() && telemetry::check_level(refused.1).is_err(), "{refused:?}");
}

#[test]
fn options_of_programs_are_read_from_the_config_map() {
    let map = [
        ("helm.valuesFileSchemes", "https, HTTP,"),
        ("kustomize.buildOptions", " --enable-helm "),
        ("kustomize.buildOptions.v5", "--reorder none"),
        ("kustomize.path.v5", "/usr/local/bin/kustomize-5"),
        ("kustomize.path.v4", "kustomize-4"),
        ("kustomize.path.v1", "bin/kustomize-1"),
        ("kustomize.path.v0", ".."),
        ("kustomize.version.v3", " /usr/local/bin/kustomize-3\n"),
        ("kustomize.version.v2", "/usr/local/bin/kustomize-2"),
        ("kustomize.path.v2", "/usr/local/bin/kustomize-2"),
    ];
    let config = resolve(Flags::default(), &[], &map).unwrap();
    let programs = &config.applications.render.programs;
    assert_eq!(programs.values_file_schemes, ["https", "http"]);
    let options = &programs.kustomize_options;
    assert_eq!(options.default, "--enable-helm");
    assert_eq!(options.by_version["v5"], "--reorder none");
    assert_eq!(options.paths["v5"], Ok("/usr/local/bin/kustomize-5".into()));
    assert_eq!(options.paths["v3"], Ok("/usr/local/bin/kustomize-3".into()), "its other name");
    assert_eq!(options.paths["v4"], Ok("kustomize-4".into()), "it is looked for in PATH");
    for version in ["v1", "v0"] {
        let relative = options.paths[version].as_ref().unwrap_err();
        assert!(relative.contains("neither an absolute path nor the name"), "{relative}");
    }
    let twice = options.paths["v2"].as_ref().unwrap_err();
    assert!(twice.contains("kustomize.path.v2; remove one of them"), "{twice}");
    let named = |line: &String| line.contains("kustomize.path.v1 of ConfigMap argocd-cm");
    assert_eq!(config.warnings.iter().filter(|line| named(line)).count(), 1);
    assert!(config.without_effect.is_empty(), "{:?}", config.without_effect);
}

/// It was ignored in silence until a source used it.
#[test]
fn a_scheme_that_helm_cannot_read_is_a_warning() {
    let map = [("helm.valuesFileSchemes", "https,ftp, S3")];
    let config = resolve(Flags::default(), &[], &map).unwrap();
    let about = |line: &&String| line.starts_with("helm.valuesFileSchemes of ConfigMap argocd-cm");
    let warnings: Vec<&String> = config.warnings.iter().filter(about).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (warning, scheme) in warnings.iter().zip(["\"ftp\"", "\"s3\""]) {
        assert!(warning.contains(scheme) && warning.contains("https and http"), "{warning}");
    }
}

#[test]
fn plugins_and_jsonnet_have_the_names_of_the_repo_server() {
    let plugins = |flags: Flags, environment: &[(&str, &str)], map: &[(&str, &str)]| {
        let config = resolve(flags, environment, map).unwrap();
        let plugins = config.applications.render.programs.plugins;
        (plugins.folder.display().to_string(), plugins.exclusions, plugins.use_generate_paths)
    };
    let none = Vec::<String>::new();
    let default = plugins(Flags::default(), &[], &[]);
    assert_eq!(default, ("/home/argocd/cmp-server/plugins".to_owned(), none, false));
    let map = [
        ("reposerver.plugin.tar.exclusions", "docs/*; *.bin;"),
        ("reposerver.plugin.use.manifest.generate.paths", "true"),
    ];
    let set = plugins(Flags::default(), &[("ARGOCD_PLUGINSOCKFILEPATH", "/sockets")], &map);
    let globs = vec!["docs/*".to_owned(), "*.bin".to_owned()];
    assert_eq!(set, ("/sockets".to_owned(), globs, true));
    let invalid = [("ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS", "[a;b")];
    let config = resolve(Flags::default(), &invalid, &[]).unwrap();
    assert_eq!(config.applications.render.programs.plugins.exclusions, ["b"]);
    assert!(
        config.warnings[0].contains("reposerver.plugin.tar.exclusions"),
        "{:?}",
        config.warnings
    );
    // SE-091
    let off = resolve(Flags::default(), &[], &[("jsonnet.enable", "false")]).unwrap();
    assert!(!off.applications.render.enabled.jsonnet);
    assert!(off.without_effect.is_empty(), "{:?}", off.without_effect);
    let typo = resolve(Flags::default(), &[], &[("jsonnet.enable", "fasle")]).unwrap();
    assert!(typo.applications.unreadable[0].contains("jsonnet.enable"));
}

#[test]
fn artifacts_of_registries_have_the_names_of_the_repo_server() {
    let artifacts = |environment: &[(&str, &str)], map: &[(&str, &str)]| {
        let config = resolve(Flags::default(), environment, map).unwrap();
        assert!(config.without_effect.is_empty(), "{:?}", config.without_effect);
        let artifacts = config.applications.artifacts;
        (artifacts.layer_media_types.join(" "), artifacts.max_bytes, config.warnings.len())
    };
    let (types, bytes, _) = artifacts(&[], &[]);
    assert_eq!(types.split(' ').count(), 3, "{types}");
    assert_eq!(bytes, Some(1_000_000_000));
    let map = [
        ("reposerver.oci.layer.media.types", "application/x.tar, application/y.tar+gzip"),
        ("reposerver.oci.manifest.max.extracted.size", "20Mi"),
    ];
    let set = ("application/x.tar application/y.tar+gzip".to_owned(), Some(20 << 20), 0);
    assert_eq!(artifacts(&[], &map), set);
    let environment = [
        ("ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES", "application/z.tar"),
        ("ARGOCD_REPO_SERVER_OCI_MANIFEST_MAX_EXTRACTED_SIZE", "3k"),
    ];
    assert_eq!(artifacts(&environment, &map), ("application/z.tar".to_owned(), Some(3000), 0));
    let off = [("reposerver.disable.oci.manifest.max.extracted.size", "true")];
    assert_eq!(artifacts(&environment, &off).1, None);
    let odd = [("reposerver.oci.manifest.max.extracted.size", "much")];
    assert_eq!(artifacts(&[], &odd).1, Some(1_000_000_000));
    assert_eq!(artifacts(&[], &odd).2, 1, "a warning names it");
}

#[test]
fn settings_without_effect_are_named_wherever_they_are_set_as_501() {
    assert_eq!(resolve(Flags::default(), &[], &[]).unwrap().without_effect, [""; 0]);
    let flags = Flags {
        accepted: AcceptedFlags([("argocd-repo-server", "repo:8081".to_owned())].into()),
        ..Flags::default()
    };
    let env = [
        ("ARGOCD_APPLICATIONSET_CONTROLLER_REPO_SERVER", "repo:8081"),
        ("ARGOCD_K8S_CLIENT_QPS", "500"),
        ("ARGOCD_GIT_MODULES_ENABLED", ""),
    ];
    let map = [("applicationsetcontroller.profile.enabled", "true")];
    let named = resolve(flags, &env, &map).unwrap().without_effect;
    let places: Vec<&str> = named.iter().filter_map(|line| line.split(' ').next()).collect();
    let want = [
        "--argocd-repo-server",
        "applicationsetcontroller.profile.enabled",
        "ARGOCD_K8S_CLIENT_QPS",
    ];
    assert_eq!(places, want, "each once, and not those without a text: {named:?}");
    assert!(named.iter().all(|line| line.contains(" is accepted without effect: ")), "{named:?}");
}

/// The help is the only other place that spells a default, and the documentation is compared
/// with the help.
#[test]
fn the_defaults_in_the_help_are_those_that_are_used() {
    let command = <Flags as clap::Args>::augment_args(clap::Command::new("run"));
    let shown = |flag: Option<String>| {
        let arguments = std::iter::once("run".to_owned()).chain(flag);
        let matches = command.clone().try_get_matches_from(arguments).unwrap();
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        format!("{:?}", resolve(flags, &[], &[]).unwrap())
    };
    let without = shown(None);
    let mut checked = 0;
    for flag in command.get_arguments() {
        let help = flag.get_long_help().or(flag.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let Some((_, default)) = help.rsplit_once("[default: ") else { continue };
        let default = default.trim_end_matches(']').replace("empty", "");
        let name = flag.get_long().unwrap();
        // Depends on another setting, or is one on which another default depends.
        if default.contains(' ') || name == "policy" {
            continue;
        }
        assert_eq!(shown(Some(format!("--{name}={default}"))), without, "--{name}={default}");
        checked += 1;
    }
    assert!(checked > 35, "{checked}");
}

/// What differs in a setting is another configuration, also where its text shows no difference.
#[test]
fn configurations_are_equal_by_their_settings() {
    let of = |environment: &[(&str, &str)]| resolve(Flags::default(), environment, &[]).unwrap();
    let redis = ("REDIS_SERVER", "redis:6379");
    let namespaces = "ARGOCD_APPLICATIONSET_CONTROLLER_NAMESPACES";
    assert_eq!(of(&[redis]), of(&[redis]));
    assert_eq!(of(&[(namespaces, "/team-.*/")]), of(&[(namespaces, "/team-.*/")]));
    let cases = [
        (vec![redis], vec![redis, ("REDIS_PASSWORD", "secret")]),
        (vec![redis], vec![redis, ("ARGOCD_REDIS_KEY_PREFIX", "p:")]),
        (vec![(namespaces, "/team-.*/")], vec![(namespaces, "/team-.+/")]),
        (vec![(namespaces, "team-*")], vec![(namespaces, "/team-*/")]),
    ];
    for (one, other) in cases {
        assert_ne!(of(&one), of(&other), "{one:?} {other:?}");
    }
}
