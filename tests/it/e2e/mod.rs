//! Complete rollouts, from a commit to healthy resources, with the same cases on an
//! embedded and on a real API server.
//!
//! `embedded::…` has no requirements; `cluster::…` requires `WAVEGATE_TEST_KUBECONFIG`,
//! which `tests/run` sets, and prints a message otherwise. `under_argo_cd_definitions::…` are
//! the same cases where Argo CD's own definitions are installed, which prune our fields; on
//! the real server, `WAVEGATE_TEST_DEFINITIONS=argo-cd` does that.
//!
//! # Where a case runs
//!
//! All of them on the embedded server with our definitions. That it behaves like a real one
//! is what `crate::contract` shows, whose cases run on both; so what a case shows there holds on a
//! real server, too, as long as it depends on nothing that the contract leaves open. By default a
//! case runs again only where that is not enough, with the reason beside it; the rest of the matrix
//! is ignored, and `tests/run --all` runs it, with Argo CD's definitions on the real server, too. A
//! new case has a `-` unless one of the reasons applies.
//!
//! Under Argo CD's definitions (`support/definitions.rs`), which prune some fields:
//!
//! | reason | what the case reads or continues |
//! |---|---|
//! | `summary` | `status.rollout`, which is stored in a condition: the open step, the waits, reported stalls, and that it is written only when it changes |
//! | `operation` | `operationState.progress` and our fields of the results: waves, hooks and attempts of a running operation, which the process remembers |
//! | `kill` | the same after a restart, when nobody remembers them |
//! | `plain` | nothing of it: these definitions are valid, and the rest works |
//!
//! What they prune of an AppProject is in `application_controller/refusals.rs`. Those that run
//! without an Application store nothing that is pruned.
//!
//! On a real server:
//!
//! | reason | what the case depends on |
//! |---|---|
//! | `admission` | what it refuses, prunes and fills in: schemas, immutable fields, defaults of definitions |
//! | `deletion` | finalizers, garbage collection, propagation policies, namespaces that go |
//! | `ownership` | server-side apply and its dry runs: managers of fields |
//! | `definitions` | definitions that come and go, and discovery |
//! | `watch` | when and in which order watches report what others change |
//! | `conflict` | several writers of one object, many objects at once, requests that are refused |
//! | `kill` | a process that is killed, and what its last requests did |
//! | `addition` | what the controllers of a cluster add to our objects, and beside them |
//! | `example` | nothing else: the example of the guide, as users run it |

mod all_at_once;
mod bad_input;
mod baseline;
mod busy;
mod by_person;
mod by_program;
mod changes;
mod clusters;
mod commits;
mod definitions;
pub mod deletion;
mod disabled;
mod dry_run;
mod elsewhere;
pub mod external;
mod failing;
mod faults;
mod going_back;
mod guards;
mod health_scripts;
mod hooks;
mod idle;
mod kills;
mod leaving;
mod live_settings;
mod manual_sync;
mod mistakes;
mod notify;
pub mod policies;
mod policy_objects;
mod quarantine;
mod roles;
mod rules;
mod seed_example;
mod server_side_diff;
mod settings;
mod sixty;
mod sources;
mod typos;
mod windows;
mod without_application;

/// The reasons to run a case again; another word does not compile.
macro_rules! reason {
    // Under Argo CD's definitions.
    (summary) => {};
    (operation) => {};
    (plain) => {};
    // On a real server.
    (admission) => {};
    (deletion) => {};
    (ownership) => {};
    (definitions) => {};
    (watch) => {};
    (conflict) => {};
    (addition) => {};
    (example) => {};
    // On both.
    (kill) => {};
}

/// A test that runs by default for a reason, and otherwise with the full matrix only.
macro_rules! case {
    (-, $case:ident { $($body:tt)* }) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "the full matrix: tests/run --all"]
        async fn $case() {
            $($body)*
        }
    };
    ($reason:ident, $case:ident { $($body:tt)* }) => {
        reason! { $reason }
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $($body)*
        }
    };
}

/// Each case, with its reason to run under Argo CD's definitions, and on a real server.
macro_rules! cases {
    ($($module:ident :: $case:ident : $argo_cd:tt, $real:tt;)*) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let world = crate::support::World::embedded(stringify!($case)).await;
                    super::$module::$case(world).await;
                }
            )*
        }
        mod under_argo_cd_definitions {
            $(
                case! { $argo_cd, $case {
                    use crate::support::{Definitions, World};
                    let world = World::embedded_with(stringify!($case), Definitions::ArgoCd).await;
                    super::$module::$case(world).await;
                } }
            )*
        }
        mod cluster {
            $(
                case! { $real, $case {
                    if let Some(world) = crate::support::World::cluster(stringify!($case)).await {
                        super::$module::$case(world).await;
                    }
                } }
            )*
        }
    };
}

cases! {
    // under Argo CD's definitions, on a real server
    seed_example::the_example_of_the_guide_completes: summary, example;
    sixty::sixty_applications_in_four_steps: -, conflict;
    commits::a_second_commit_restarts_from_the_first_step: operation, -;
    commits::ten_kills_have_no_effect: kill, kill;
    kills::a_wave_that_was_interrupted_is_continued: kill, kill;
    idle::an_idle_reconcile_writes_nothing: summary, addition;
    bad_input::a_failing_template_is_reported_and_deletes_nothing: -, -;
    bad_input::duplicate_names_are_reported_and_others_continue: -, -;
    bad_input::an_unknown_operator_holds_and_an_invalid_max_update_is_reported: -, -;
    bad_input::unreadable_sources_are_reported_and_others_continue: summary, -;
    typos::a_misspelled_strategy_blocks_the_set: -, admission;
    mistakes::invalid_input_deletes_no_application: -, -;
    mistakes::a_renamed_application_is_kept_until_the_new_one_exists: -, admission;
    mistakes::a_running_rollout_deletes_nothing_because_of_invalid_input: -, -;
    windows::a_denying_window_uses_no_slot: summary, -;
    all_at_once::all_at_once_does_not_wait: plain, -;
    failing::a_failing_deployment_blocks_its_step: summary, -;
    failing::a_failed_smoke_test_holds_its_step_whoever_syncs: operation, -;
    failing::a_retry_is_announced_with_its_number_and_time: operation, -;
    failing::a_prune_that_needs_permission_stops_the_rollout: -, -;
    external::an_external_engine_runs_the_syncs: summary, conflict;
    external::a_sync_that_never_starts_times_out: summary, -;
    external::hydrated_manifests_are_rolled_out: -, -;
    external::a_result_that_nobody_saw_is_no_success: -, -;
    elsewhere::a_set_in_another_namespace_is_synced_there: -, -;
    elsewhere::an_excluded_cluster_is_the_reason_of_a_wait_as_380: -, -;
    elsewhere::a_set_reads_no_repository_of_a_project_that_is_closed_to_its_namespace_as_091: -, -;
    clusters::a_cluster_that_goes_away_holds_its_step: -, -;
    disabled::disabled_progressive_syncs_are_reported: -, -;
    deletion::a_deleted_set_deletes_its_applications: plain, deletion;
    deletion::a_policy_without_deletion_keeps_the_applications_as_167: -, deletion;
    deletion::reverse_deletion_is_from_the_last_step_to_the_first: -, deletion;
    deletion::reverse_deletion_respects_max_update_as_381: -, deletion;
    sources::several_sources_are_rolled_out_and_rolled_back: -, -;
    guards::a_commit_without_manifests_prunes_nothing: -, -;
    dry_run::a_definition_and_the_use_of_its_new_field_are_applied_together: -, definitions;
    definitions::definitions_return_with_their_objects: -, definitions;
    definitions::a_definition_without_a_served_version_is_not_waited_for: -, definitions;
    leaving::what_the_cache_still_shows_is_created_again: -, watch;
    leaving::what_is_being_deleted_is_applied_when_it_is_gone: operation, deletion;
    leaving::a_namespace_that_goes_is_created_again: -, deletion;
    dry_run::errors_of_the_apply_fail_in_their_wave: -, admission;
    dry_run::an_invalid_field_is_rejected_before_the_first_write: -, admission;
    guards::a_removed_field_is_removed_after_a_change_to_server_side_apply: -, ownership;
    hooks::objects_of_others_are_not_changed: -, -;
    hooks::every_hook_has_its_own_object: operation, deletion;
    changes::a_set_shrinks_in_the_middle: summary, deletion;
    changes::a_set_grows_in_the_middle: -, -;
    changes::an_application_changes_its_step_in_the_middle: -, -;
    changes::a_set_gets_other_steps_in_the_middle: summary, -;
    changes::a_set_changes_to_all_at_once_and_back: summary, -;
    changes::the_spec_changes_twice_in_the_middle: -, conflict;
    changes::a_set_is_deleted_in_reverse_in_the_middle: summary, deletion;
    changes::automated_sync_is_disabled_with_a_warning: -, -;
    changes::a_set_without_applications_lists_none: summary, -;
    health_scripts::scripts_of_argocd_cm_act_without_a_restart: -, -;
    live_settings::settings_of_argocd_cm_act_without_a_restart: -, watch;
    settings::settings_of_argo_cd_act_or_are_reported_as_501: -, -;
    server_side_diff::the_server_predicts_a_drift_and_a_setting_ignores_it: -, ownership;
    by_person::a_rollback_by_a_person_stays_as_st_065: -, -;
    by_person::a_rollback_by_a_person_stays_with_an_external_engine_as_st_065: summary, -;
    by_person::a_step_is_held_by_a_person_as_st_065: summary, -;
    by_person::a_step_is_held_by_a_person_with_an_external_engine_as_st_065: -, -;
    busy::a_busy_server_delays_a_rollout_and_breaks_nothing: -, conflict;
    manual_sync::a_held_step_is_synced_manually: operation, -;
    manual_sync::an_operation_is_followed_interrupted_and_terminated: operation, watch;
    manual_sync::a_request_without_a_controller_is_withdrawn: -, -;
    without_application::manifests_are_applied_in_waves_and_pruned: -, addition;
    without_application::a_run_after_a_kill_begins_anew: -, kill;
    without_application::an_interrupted_run_is_terminated: -, -;
    without_application::a_run_touches_only_its_own: -, -;
    without_application::a_dry_run_needs_the_namespaces: -, -;
    without_application::a_chart_is_rendered_for_the_cluster: -, definitions;
    without_application::a_failed_run_runs_its_sync_fail_hook: -, -;
    by_program::requests_without_a_name_are_of_their_program: -, ownership;
    policies::gates_open_by_time_and_by_people: -, conflict;
    policies::a_budget_takes_back_what_was_started_through_kills: kill, kill;
    policies::several_budgets_are_one: -, -;
    policies::what_went_back_is_healed: -, -;
    policies::sets_share_a_limit_through_kills: kill, kill;
    policies::many_deletions_wait_for_an_approval: summary, -;
    policies::people_pause_abort_and_retry: -, -;
    baseline::only_what_was_unhealthy_before_the_run_is_excused_as_st_041: -, -;
    going_back::over_a_spec_that_needed_no_sync_as_st_061: -, -;
    quarantine::an_aborted_commit_that_is_pushed_again_waits_for_a_person_as_st_060: -, -;
    quarantine::what_is_not_remembered_any_more_is_told_as_st_060: -, -;
    notify::each_transition_arrives_once_and_is_signed: -, -;
    notify::sinks_that_fail_hold_nobody_up: -, -;
    notify::what_was_not_delivered_is_sent_after_a_kill: -, kill;
    notify::private_addresses_are_refused: -, -;
    policy_objects::bad_policies_and_runs_are_refused_with_a_message: -, admission;
    policy_objects::policies_and_runs_are_stored_with_their_defaults: -, admission;
}

mod newest {
    //! Cases that require a real server of today.

    mod cluster {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_broken_rule_fails_in_its_wave_with_its_words() {
            if let Some(world) = crate::support::World::cluster("rules").await {
                crate::e2e::rules::a_broken_rule_fails_in_its_wave_with_its_words(world).await;
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn roles_change_what_is_theirs_and_nothing_else() {
            if let Some(world) = crate::support::World::cluster("roles").await {
                crate::e2e::roles::roles_change_what_is_theirs_and_nothing_else(world).await;
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_gate_without_a_selection_or_a_condition_is_refused() {
            if let Some(world) = crate::support::World::cluster("gates").await {
                crate::e2e::policy_objects::a_gate_without_a_selection_or_a_condition_is_refused(
                    world,
                )
                .await;
            }
        }
    }
}

mod embedded_only {
    //! Cases that require the faults of the embedded server.

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_user_of_two_namespaces_needs_no_cluster_role() {
        let world = crate::support::World::embedded("two_namespaces").await;
        super::without_application::a_user_of_two_namespaces_needs_no_cluster_role(world).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_rollout_needs_no_definitions_of_policies_and_runs() {
        let world = crate::support::World::embedded("no_definitions").await;
        super::policy_objects::a_rollout_needs_no_definitions_of_policies_and_runs(world).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failed_requests_and_lost_watches_have_no_effect() {
        for seed in [1, 2, 3] {
            let world = crate::support::World::embedded("faults").await;
            super::faults::failed_requests_and_lost_watches_have_no_effect(world, seed).await;
        }
    }
}
