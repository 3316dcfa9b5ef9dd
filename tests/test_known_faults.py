"""Faults that people met in speculative and T5 decoding, and who watches.

Each has a test that fails if it comes back. The list is code, so that a test
that is renamed is missed.
"""

import ast
import pathlib

import pytest

FAULTS = {
  "a rollback leaves rejected keys in place, and the next write adds to them": [
    "test_cache::test_a_rejected_token_leaves_nothing_behind",
    "test_cache::test_after_any_history_the_laws_are_those_of_the_prefix",
  ],
  "a cached step has one query, one index, one row of position biases": [
    "test_cache::test_several_tokens_at_once_are_as_many_single_steps",
  ],
  "the draft's cache has a hole after a full acceptance, or is cut too far": [
    "test_draft_equals_target::test_tables",
    "test_draft_equals_target::test_t5",
    "test_cache::test_after_any_history_the_laws_are_those_of_the_prefix",
  ],
  "q is not the law that the guess was drawn from": [
    "test_lossless::test_a_draft_that_lies_about_its_law_is_found_out",
    "test_sampling::test_a_draw_is_from_the_law_that_is_returned",
  ],
  "EOS inside a block does not stop the row": [
    "test_statistics::test_scripted_rounds",
    "test_lossless::test_a_block_that_runs_over_its_eos_is_found_out",
  ],
  "the last round runs over the budget": [
    "test_statistics::test_scripted_rounds",
    "test_draft_equals_target::test_tables",
    "test_cache::test_no_write_is_ever_past_the_end",
  ],
  "a write past the end slides back over good entries": [
    "test_cache::test_writes_past_the_end_are_dropped",
    "test_cache::test_no_write_is_ever_past_the_end",
  ],
  "a key is not advanced, used for two purposes, or shared by rows": [
    "test_keys::test_keys_are_new_in_every_round_for_every_purpose",
    "test_keys::test_no_key_is_used_twice",
    "test_lossless::test_verify_draws_what_was_enumerated",
  ],
  "rows that keep different counts disturb each other": [
    "test_batch_invariance::test_a_row_is_its_own_run",
    "test_batch_invariance::test_rows_of_one_round_keep_different_counts",
  ],
  "greedy output differs, and rounding is blamed": [
    "test_greedy::test_speculation_is_the_baseline_token_for_token",
    "test_greedy::test_ties_go_to_the_lowest_id",
    "test_greedy::test_bfloat16_strays_to_near_ties_only",
  ],
  "padded vocabulary entries are treated in one way by one model only": [
    "drafters/test_model::test_a_narrower_draft_never_guesses_what_it_lacks",
    "drafters/test_model::test_a_wider_draft_is_cut_before_the_softmax",
  ],
  "models of different vocabularies are run together": [
    "test_errors::test_wrong_values",
    "test_errors::test_padding_alone_may_differ_if_said_so",
  ],
  "logits are scaled in the wrong version of T5": [
    "t5/test_golden::",
  ],
  "the residual is normalised wrongly, of the wrong row, or 0 / 0": [
    "test_lossless::test_a_faulty_rule_is_found_out",
    "test_verification::TestResidual",
  ],
  "a deterministic guess is not verified, or drawn again": [
    "test_verification::test_one_hot_laws",
    "test_lossless::test_emitted_law_is_the_targets",
  ],
  "cross-attention is cut or computed anew on a rollback": [
    "test_cache::test_what_does_not_depend_on_the_output_never_changes",
  ],
  "the mask of the inputs is forgotten in one model or one pass": [
    "test_batch_invariance::test_t5_padding_the_inputs_changes_nothing",
    "test_batch_invariance::test_t5_rows_are_their_own_runs",
  ],
  "unused cache slots are attended to": [
    "test_cache::test_unused_cache_slots_are_never_seen",
    "test_cache::test_unused_slots_of_the_token_buffer_are_never_seen",
  ],
  "temperature, top-k and top-p are applied in another order, or not at all": [
    "test_sampling::test_temperature_comes_before_top_p",
    "test_sampling::test_top_k_comes_before_top_p",
    "test_sampling::test_temperatures",
    "test_sampling::test_both_ends_turn_top_p_off",
  ],
  "acceptance is counted over guesses that nobody judged": [
    "test_statistics::test_scripted_rounds",
    "test_statistics::test_identities_hold_in_real_runs",
    "test_statistics::test_rates_of_nothing_are_none",
  ],
  "a seed gives another output in another batch": [
    "test_batch_invariance::test_neither_order_nor_neighbours_matter",
    "test_batch_invariance::test_a_seed_changes_nothing_in_greedy_rows",
  ],
  "laws are shifted against the guesses": [
    "test_draft_equals_target::test_rows_that_begin_at_positions_of_their_own",
    "test_verification::test_equal_laws_keep_everything",
  ],
  "a row without a guess": [
    "test_verification::test_filler_is_neither_judged_nor_subtracted",
    "test_speculative::test_only_guesses_count_as_drafted",
  ],
  "float16 overflows in the feed-forward block": [
    "test_errors::test_wrong_values",
  ],
  "the draft's context is shorter than the target's": [
    "test_cache::test_no_write_is_ever_past_the_end",
  ],
  "programs are compiled while the clock runs": [
    "test_recompilation::test_new_values_compile_and_trace_nothing",
    "test_recompilation::test_nothing_is_transferred_while_it_decodes",
  ],
}


def _names(path):
  tree = ast.parse(path.read_text())
  kinds = (ast.FunctionDef, ast.ClassDef)
  return {node.name for node in tree.body if isinstance(node, kinds)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_tests(fault):
  for test in FAULTS[fault]:
    module, name = test.split("::")
    path = pathlib.Path(__file__).parent / f"{module}.py"
    assert path.exists()
    assert not name or name in _names(path)
