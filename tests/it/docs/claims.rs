//! What the documentation claims in words: each claim is in its file as it stands here, and a test
//! of this name fails when it is untrue.
//!
//! A claim that was found untrue gets a line here with the test that shows what is true. When a
//! claim is written anew, the test below fails until its proof was read again.

mod steering;
mod switching_over;

use std::path::Path;

use super::markdown::root;

/// A file, what it claims (wherever its lines break), and the test that proves it.
const CLAIMS: &[(&str, &str, &str)] = &[
    (
        "examples/steering/production.yaml",
        "Production waits for an approval and half an hour,",
        "the_policy_production_waits_for_an_approval_and_half_an_hour",
    ),
    (
        "examples/steering/production.yaml",
        "a rollout with more than two failures is held until a person decides.",
        "the_policy_production_holds_and_takes_nothing_back",
    ),
    (
        "examples/steering/soak.yaml",
        "prod opens when all of dev were Healthy for ten seconds without a break.",
        "a_soak_begins_again_when_an_earlier_application_is_not_healthy",
    ),
    (
        "docs/reference/steering.md",
        "| `SoakRestarted` | a gate: an Application of the earlier steps is not Healthy any more |",
        "a_soak_begins_again_when_an_earlier_application_is_not_healthy",
    ),
    (
        "docs/reference/steering.md",
        "A gate that lacks approvals is `AwaitingApproval` as soon as its step is reached, also while it, \
         or another gate of the same Applications, soaks.",
        "the_policy_production_waits_for_an_approval_and_half_an_hour",
    ),
    (
        "docs/reference/cli.md",
        "Leaves Applications out of the current run: they are not promoted, and their step does not wait \
         for them. The next run takes them again.",
        "a_skipped_application_is_left_out_of_this_run_only",
    ),
    (
        "docs/reference/cli.md",
        "its timeline with who did what.",
        "a_skipped_application_is_left_out_of_this_run_only",
    ),
    (
        "docs/reference/cli.md",
        "What is so already is reported as `already`, with exit code 0.",
        "what_is_so_already_is_no_error_as_st_070",
    ),
    (
        "docs/reference/cli.md",
        "Who speaks, here and in `sync`, is the user that the API server names",
        "each_word_says_who_it_is_from_as_st_071",
    ),
    (
        "docs/steering.md",
        "the command ends with 0 when the run of this commit is complete, and with 1 when it has failed",
        "a_pipeline_waits_for_its_own_commit",
    ),
    (
        "README.md",
        "`maxUpdate` limits how many Applications of a step the rollout has in flight at once.",
        "steps_are_in_order_and_limited",
    ),
    (
        "README.md",
        "What people sync themselves comes on top.",
        "a_manual_step_continues_after_a_manual_sync",
    ),
    (
        "docs/install.md",
        "with `none` for all Applications, nothing will change.",
        "where_the_plan_is_none_the_controller_writes_to_no_application",
    ),
    (
        "docs/install.md",
        "Nothing is deleted by a switch-over, and each step can be reverted.",
        "each_step_of_the_switch_over_is_reverted",
    ),
    (
        "docs/install.md",
        "What is not in the files any more stays in the cluster, with its rights:",
        "each_step_of_the_switch_over_is_reverted",
    ),
    (
        "docs/install.md",
        "Wavegate needs [the address of its Redis](operations.md#argo-cds-web-page-and-command-line)",
        "variables_are_before_keys_and_files_before_both_as_ca_117",
    ),
    (
        "docs/install.md",
        "Beside an ApplicationSet controller it does not start, beside an application controller only \
         with `--sync-engine=external`;",
        "each_step_of_the_switch_over_is_reverted",
    ),
    (
        "docs/operations.md",
        "`diff` shows what a sync would change, create or prune, as the controller compares it, and \
         exits with 1 when there is a difference:",
        "a_drift_is_the_one_that_the_controller_reports",
    ),
    (
        "docs/operations.md",
        "`--local` the files of a Git work tree, with the bases and values files that they refer to.",
        "a_work_tree_is_rendered_as_the_controller_would",
    ),
    (
        "docs/reference/cli.md",
        "the first line of the output sets `KUBECONFIG` to a kubeconfig that only you can read,",
        "only_clients_with_the_kubeconfig_are_served",
    ),
    (
        "docs/reference/cli.md",
        "and prints each command in one line for another terminal.",
        "a_gate_waits_for_an_approval_from_another_terminal",
    ),
    (
        "docs/differences.md",
        "a list that none of them describes is one value |",
        "a_kind_without_a_schema_is_compared_by_ownership_se_157",
    ),
];

/// The words of a text, without the marks of comments at the start of its lines.
fn words(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches('#'));
    lines.flat_map(str::split_whitespace).collect::<Vec<&str>>().join(" ")
}

/// The tests of a folder, by their names.
fn tests(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            match name.and_then(|rest| rest.split_once('(')) {
                Some((name, _)) if is_test => found.push(name.to_owned()),
                _ => {}
            }
            is_test = line == "#[test]" || line.starts_with("#[tokio::test");
        }
    }
}

#[test]
fn each_claim_is_written_and_has_its_proof() {
    let mut found = Vec::new();
    tests(&root().join("tests/it"), &mut found);
    let mut problems = Vec::new();
    for (file, claim, proof) in CLAIMS {
        let text = words(&std::fs::read_to_string(root().join(file)).unwrap());
        if !text.contains(&words(claim)) {
            problems.push(format!(
                "{file} does not say {claim:?} any more: look at {proof}, and write here what it says"
            ));
        }
        let proofs = found.iter().filter(|name| name == proof).count();
        if proofs != 1 {
            problems.push(format!("{claim:?}: there are {proofs} tests {proof}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
