//! Flags of the sync engine, as they are written on the command line.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

/// One line per flag: what it is set to, by itself, by its variable and by its key, and what
/// shows it. The flag wins over the variable, and the variable over the key.
/// SE-288, SE-291, SE-566, SE-588, SE-589, SE-590, SE-591, SE-601.
#[test]
fn flags_of_the_sync_engine_have_a_variable_and_a_key_as_566_to_601() {
    type Shows = fn(&ApplicationSettings) -> String;
    // Flag, rest of the variable, key, text, default and what is wanted, as shown.
    let cases: [(&str, &str, &str, &str, &str, &str, Shows); 15] = [
        ("hook-timeout", "HOOK_TIMEOUT", "hook.timeout.seconds", "7", "None", "Some(7)", |s| {
            format!("{:?}", s.sync.hook_timeout.map(|limit| limit.as_secs()))
        }),
        ("hook-timeout", "HOOK_TIMEOUT", "hook.timeout.seconds", "0", "None", "None", |s| {
            format!("{:?}", s.sync.hook_timeout)
        }),
        ("wave-timeout", "WAVE_TIMEOUT", "wave.timeout.seconds", "8", "None", "Some(8)", |s| {
            format!("{:?}", s.sync.wave_timeout.map(|limit| limit.as_secs()))
        }),
        (
            "hook-succeeded-scope",
            "HOOK_SUCCEEDED_SCOPE",
            "hook.succeeded.scope",
            "hook",
            "Operation",
            "Hook",
            |s| format!("{:?}", s.sync.hook_policy_scope),
        ),
        (
            "hook-succeeded-scope",
            "HOOK_SUCCEEDED_SCOPE",
            "hook.succeeded.scope",
            "operation",
            "Operation",
            "Operation",
            |s| format!("{:?}", s.sync.hook_policy_scope),
        ),
        (
            "clean-delete-hooks",
            "CLEAN_DELETE_HOOKS",
            "clean.delete.hooks",
            "true",
            "false",
            "true",
            |s| s.clean_delete_hooks.to_string(),
        ),
        (
            "sync-fail-on-invalid",
            "SYNC_FAIL_ON_INVALID",
            "sync.fail.on.invalid",
            "true",
            "false",
            "true",
            |s| s.sync.sync_fail_on_invalid.to_string(),
        ),
        (
            "sync-fail-counts-as-wave",
            "SYNC_FAIL_COUNTS_AS_WAVE",
            "sync.fail.counts.as.wave",
            "false",
            "true",
            "false",
            |s| s.sync.sync_fail_counts_as_wave.to_string(),
        ),
        ("wait-for-health", "WAIT_FOR_HEALTH", "wait.for.health", "true", "false", "true", |s| {
            s.sync.wait_for_health.to_string()
        }),
        ("server-dry-run", "SERVER_DRY_RUN", "server.dry.run", "false", "true", "false", |s| {
            s.server_dry_run.to_string()
        }),
        (
            "kubectl-parallelism-limit",
            "KUBECTL_PARALLELISM_LIMIT",
            "kubectl.parallelism.limit",
            "5",
            "20",
            "5",
            |s| s.parallel_applies.to_string(),
        ),
        (
            "kubectl-parallelism-limit",
            "KUBECTL_PARALLELISM_LIMIT",
            "kubectl.parallelism.limit",
            "0",
            "20",
            "10000",
            |s| s.parallel_applies.to_string(),
        ),
        (
            "kubectl-parallelism-limit",
            "KUBECTL_PARALLELISM_LIMIT",
            "kubectl.parallelism.limit",
            "-1",
            "20",
            "10000",
            |s| s.parallel_applies.to_string(),
        ),
        ("generic-health", "GENERIC_HEALTH", "generic.health", "false", "true", "false", |s| {
            s.checks.generic.to_string()
        }),
        ("sync-timeout", "SYNC_TIMEOUT", "sync.timeout.seconds", "9", "None", "Some(9)", |s| {
            format!("{:?}", s.sync.sync_timeout.map(|limit| limit.as_secs()))
        }),
    ];
    for (flag, variable, key, text, default, want, shows) in cases {
        let variable = format!("ARGOCD_APPLICATION_CONTROLLER_{variable}");
        let key = format!("controller.{key}");
        let by = |line: &[&str], env: &[(&str, &str)], map: &[(&str, &str)]| {
            let line = ["run"].iter().chain(line);
            let Line { flags } = Line::try_parse_from(line).unwrap_or_else(|e| panic!("{e}"));
            let config = resolve(flags, env, map).unwrap();
            assert_eq!(config.warnings, [""; 0], "{flag}");
            shows(&config.applications)
        };
        let (written, option) = (format!("--{flag}={text}"), format!("--{flag}"));
        assert_eq!(by(&[], &[], &[]), default, "{flag} by default");
        assert_eq!(by(&[&written], &[], &[]), want, "{written}");
        assert_eq!(by(&[&option, text], &[], &[]), want, "{option} {text}");
        assert_eq!(by(&[], &[(&variable, text)], &[]), want, "{variable}");
        assert_eq!(by(&[], &[], &[(&key, text)]), want, "{key}");
        // The other side of a switch, or another number.
        let other = match text {
            "true" => "false",
            "false" => "true",
            "hook" => "operation",
            "operation" => "hook",
            _ => "3",
        };
        assert_eq!(by(&[&written], &[(&variable, other)], &[(&key, other)]), want, "{flag} wins");
        assert_eq!(by(&[], &[(&variable, text)], &[(&key, other)]), want, "{variable} wins");
        let wrong = Line::try_parse_from(["run", &format!("--{flag}=?!")]);
        let error = wrong.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(flag), "{flag}: {error}");
    }
    for switch in [
        "clean-delete-hooks",
        "sync-fail-on-invalid",
        "sync-fail-counts-as-wave",
        "wait-for-health",
        "server-dry-run",
    ] {
        let line = Line::try_parse_from(["run", &format!("--{switch}")]);
        assert!(line.is_ok(), "{switch} without a value");
    }
}
