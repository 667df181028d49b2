//! Whole rollouts, from a commit to healthy resources, on an embedded and on a
//! real API server: the same cases, unchanged.
//!
//! `embedded::…` needs nothing; `cluster::…` needs `WAVEGATE_TEST_KUBECONFIG`
//! and says so when it is not set. `tests/run` sets it.

mod all_at_once;
mod bad_input;
mod commits;
mod deletion;
mod disabled;
mod dry_run;
mod elsewhere;
mod external;
mod failing;
mod faults;
mod guards;
mod hooks;
mod idle;
mod mistakes;
mod seed_example;
mod sixty;
mod sources;
mod typos;
mod windows;

macro_rules! cases {
    ($($module:ident :: $case:ident),* $(,)?) => {
        mod embedded {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let world = crate::support::World::embedded(stringify!($case)).await;
                    super::$module::$case(world).await;
                }
            )*
        }
        mod cluster {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    if let Some(world) = crate::support::World::cluster(stringify!($case)).await {
                        super::$module::$case(world).await;
                    }
                }
            )*
        }
    };
}

cases! {
    seed_example::the_example_of_the_seed_reaches_its_end,
    sixty::sixty_applications_in_four_steps,
    commits::a_second_commit_starts_again_from_the_first_step,
    commits::ten_kills_change_nothing,
    idle::an_idle_pass_writes_nothing,
    bad_input::a_template_that_fails_is_told_and_deletes_nothing,
    bad_input::two_applications_of_one_name_are_told_and_the_rest_goes_on,
    bad_input::an_unknown_operator_and_a_bad_max_update_are_told,
    bad_input::what_cannot_be_read_is_told_and_the_rest_goes_on,
    typos::a_misspelt_gate_holds_the_set,
    mistakes::no_mistake_deletes_an_application,
    mistakes::an_application_stays_until_it_is_there_under_its_new_name,
    mistakes::a_rollout_under_way_deletes_nothing_by_mistake,
    windows::a_window_that_denies_one_holds_no_place,
    all_at_once::all_at_once_waits_for_nobody,
    failing::a_failing_deployment_holds_its_step,
    external::an_external_engine_does_the_syncs,
    external::a_sync_that_never_starts_times_out,
    elsewhere::a_set_in_another_namespace_is_synced_there,
    disabled::a_switched_off_feature_tells_so,
    deletion::a_set_takes_its_applications_along,
    deletion::reverse_deletion_goes_from_the_last_step_to_the_first,
    sources::several_sources_are_rolled_out_and_rolled_back,
    guards::a_commit_without_manifests_prunes_nothing,
    dry_run::a_definition_gains_a_field_together_with_its_use,
    dry_run::what_only_the_apply_can_tell_fails_in_its_wave,
    dry_run::a_wrong_field_is_refused_before_anything_is_sent,
    guards::a_removed_field_goes_after_a_change_to_server_side_apply,
    hooks::nothing_of_others_is_touched,
    hooks::every_hook_is_one_of_its_own,
}

mod embedded_only {
    //! Cases that need the embedded server's faults.

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refusals_and_lost_watches_change_nothing() {
        for seed in [1, 2, 3] {
            let world = crate::support::World::embedded("faults").await;
            super::faults::refusals_and_lost_watches_change_nothing(world, seed).await;
        }
    }
}
