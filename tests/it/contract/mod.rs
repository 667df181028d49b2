//! Behaviour of a Kubernetes API server that is relevant for a controller.
//!
//! The same cases run on the embedded server and a real one (1.20 or later, with its
//! controller manager): a difference is a bug of the embedded one. Each case has a
//! namespace of its own, and derives the names of cluster-scoped objects from it, so that
//! cases can run in parallel.
//! after it, so that cases can run side by side.
// Says to clippy what it cannot see from a folder of integration tests.
#![cfg(test)]

mod applying;
mod collections;
mod custom;
mod deletion;
mod objects;
mod patches;
mod support;
mod watching;

use std::future::Future;
use std::pin::Pin;

/// A case: panics when the server behaves differently.
pub type Case = fn(kube::Client, String) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        vec![$((
            stringify!($name),
            (|client, namespace| Box::pin(async move { $module::$name(client, &namespace).await })) as Case,
        )),*]
    };
}

/// All cases, by name.
pub fn all() -> Vec<(&'static str, Case)> {
    cases![
        objects::objects_are_created_read_replaced_and_deleted,
        objects::names_are_checked_and_generated,
        objects::bodies_must_fit_their_url,
        objects::creation_needs_a_namespace,
        objects::a_stale_version_or_another_uid_is_a_conflict,
        objects::a_write_without_changes_is_a_no_op,
        objects::dry_runs_store_nothing,
        objects::generations_count_changes_of_spec,
        objects::status_has_a_separate_endpoint,
        objects::built_in_kinds_have_defaults,
        objects::selectors_of_workloads_are_immutable,
        objects::scale_reads_and_writes_replicas,
        objects::unknown_places_are_not_found,
        objects::discovery_names_resources,
        objects::aggregated_discovery_names_all_resources_at_once,
        objects::access_can_be_reviewed,
        patches::merge_patches_merge_maps_and_replace_lists,
        patches::json_patches_apply_in_order_or_not_at_all,
        patches::strategic_patches_merge_lists_by_key,
        patches::strategic_directives_delete_replace_and_order,
        patches::patches_can_ask_for_a_version,
        patches::media_types_are_checked,
        applying::apply_creates_and_is_idempotent,
        applying::apply_rejects_fields_of_others_unless_forced,
        applying::apply_removes_fields_that_left_the_configuration,
        applying::apply_shares_equal_fields,
        applying::apply_merges_lists_by_their_keys,
        applying::apply_needs_a_manager_and_known_fields,
        applying::updates_take_fields_from_appliers,
        collections::labels_and_fields_select,
        collections::pages_are_a_consistent_snapshot,
        collections::collections_are_deleted_by_selector,
        collections::tables_are_rendered,
        collections::metadata_can_be_asked_for_alone,
        watching::a_watch_starts_with_existing_objects,
        watching::a_watch_resumes_where_a_list_ended,
        watching::a_selector_turns_changes_into_additions_and_deletions,
        watching::a_watch_ends_on_time,
        watching::a_streaming_list_ends_with_a_bookmark_that_says_so,
        deletion::finalizers_delay_a_deletion,
        deletion::preconditions_guard_deletion,
        deletion::dependents_follow_their_owner,
        deletion::orphans_are_kept,
        deletion::foreground_deletion_waits_for_dependents,
        deletion::foreground_deletion_is_announced,
        deletion::one_existing_owner_is_sufficient,
        deletion::a_missing_owner_counts_as_deleted,
        deletion::a_deleted_namespace_deletes_its_objects,
        custom::definitions_are_established_and_served,
        custom::custom_objects_are_validated,
        custom::unknown_fields_are_pruned_and_defaults_filled_in,
        custom::a_changed_definition_changes_what_was_stored_before,
        custom::custom_status_and_generation,
        custom::without_a_status_subresource_status_is_a_field,
        custom::custom_objects_need_a_version_to_be_replaced,
        custom::custom_lists_merge_as_declared,
        custom::deleting_a_definition_deletes_its_objects,
    ]
}
