//! The suite of the outbox ports: append, deliveries, observations, query, inbox, resource.
//!
//! Invariant: a case gets a fresh store and nothing else, so cases run in any order and at once.
//!
//! An implementing crate has one type that implements [`OutboxHarness`] and, where SQL can reach
//! the tables, [`GuardedOutboxHarness`], and instantiates every case as a test of its own:
//!
//! ```text
//! mod conformance {
//!     use super::MyHarness;
//!     application_core::outbox_suite!(#[tokio::test] MyHarness);
//!     application_core::outbox_guard_suite!(#[tokio::test] MyHarness);
//! }
//! ```

pub mod append;
pub mod authority;
pub mod budget;
pub mod claim;
pub mod concurrency;
mod control;
pub mod differential;
pub mod disposition;
pub mod disposition_table;
pub mod fence;
pub mod find_attempt;
mod fixture;
pub mod guards;
mod harness;
pub mod inbox;
pub mod known;
pub mod late;
pub mod ordering;
pub mod query;
pub mod reclaim;
pub mod record;
pub mod resource;
pub mod retention;
pub mod round_trip;
mod through_ledger;
mod through_window;
pub mod transaction;
mod transitions;
pub mod window;
pub mod window_outcomes;

pub use control::ControlHarness;
pub use harness::{
    Damage, DeliveryRow, GuardedOutboxHarness, ObservationRow, ObservationType, OutboxHarness,
    Tampered, Tampering,
};
pub use through_ledger::ThroughLedger;
pub use through_window::{ClaimThroughWindow, ThroughWindow, WindowHarness};
pub use transitions::core_allows;

/// Instantiates every case for one [`OutboxHarness`] under the given test attribute.
#[macro_export]
macro_rules! outbox_suite {
    (#[$attribute:meta] $harness:ident) => {
        $crate::outbox_cases! {
            #[$attribute] $harness
            transaction {
                work_that_returns_is_committed,
                work_that_fails_is_rolled_back,
                a_marked_transaction_cannot_commit,
                a_dropped_transaction_leaves_nothing,
            }
            append {
                an_append_commits_with_business_rows,
                an_append_rolls_back_with_business_rows,
                a_swallowed_append_error_cannot_commit,
                a_refused_append_leaves_no_business_row,
                an_event_id_is_appended_once,
                an_event_id_is_appended_once_within_a_transaction,
                a_place_in_the_order_is_taken_once,
                tenants_and_destinations_have_orders_of_their_own,
                the_deadline_is_the_sooner_of_age_and_horizon,
                without_an_active_epoch_nothing_commits,
                only_a_polling_epoch_makes_a_delivery,
            }
            round_trip {
                a_full_event_comes_back_unchanged,
                a_bare_event_comes_back_unchanged,
                a_trace_without_state_comes_back_unchanged,
                the_longest_event_comes_back_unchanged,
                occurred_at_is_cut_to_milliseconds,
            }
            claim {
                an_empty_store_has_nothing,
                a_claim_counts_its_attempt,
                a_claim_journals_its_attempt,
                a_live_claim_is_not_claimed_again,
                a_claim_takes_one_row,
                every_head_has_its_turn_in_one_pass,
                a_retry_is_not_claimed_before_it_is_due,
                a_due_retry_is_claimed,
            }
            record {
                an_acknowledgement_is_recorded,
                a_failure_within_its_budget_waits,
                an_ended_budget_is_exhausted,
                an_earlier_open_attempt_keeps_an_exhausted_row_open,
                a_misroute_is_held,
                the_last_failure_outlives_a_success,
                only_the_claims_own_identity_records,
                a_second_outcome_is_stale,
                a_lapsed_claim_records_nothing,
                only_an_acknowledgement_becomes_a_recorded_delivery,
            }
            reclaim {
                a_lapsed_claim_is_reclaimed_and_its_attempt_closed,
                the_old_owner_records_nothing_over_the_new_one,
                a_worker_is_stale_under_its_own_older_token,
                every_abandoned_attempt_is_closed_once,
            }
            ordering {
                a_ready_head_blocks,
                a_claimed_head_blocks,
                a_waiting_head_blocks,
                an_exhausted_head_blocks,
                a_held_head_blocks,
                an_unverified_legacy_head_blocks,
                a_recorded_head_releases_its_successor,
                a_disposed_head_releases_its_successor,
                sequence_and_index_order_totally,
                the_order_spans_contracts,
                a_reorder_tolerant_event_never_waits,
                other_scopes_progress,
            }
            budget {
                a_passed_deadline_ends_an_untried_row,
                no_whole_attempt_before_the_deadline_ends_a_row,
                a_passed_deadline_ends_a_due_retry,
                a_passed_deadline_ends_a_lapsed_claim,
                used_attempts_end_a_lapsed_claim,
                an_abandoned_attempt_keeps_the_certainty_open,
                an_indeterminate_attempt_keeps_the_certainty_open,
                a_provider_at_fault_exhausts_no_retry,
                a_spent_head_still_blocks,
            }
            known {
                an_unknown_contract_is_not_claimed,
                an_unknown_version_is_not_claimed,
                an_unknown_schema_is_not_claimed,
                an_unknown_binding_is_not_claimed,
                a_row_counts_under_its_first_reason,
                an_unknown_row_keeps_its_state_past_its_deadline,
                known_records_are_not_mixed,
                a_process_that_knows_nothing_claims_nothing,
                unresolved_rows_are_counted_and_resolved_ones_are_not,
            }
            find_attempt {
                an_attempt_nobody_admitted_is_unknown,
                a_claim_under_way_is_open,
                a_recorded_attempt_is_closed,
                a_reclaimed_attempt_is_lost,
                a_lapsed_attempt_is_lost,
            }
            late {
                a_late_acknowledgement_is_journalled_and_changes_nothing,
                a_repeated_observation_is_absorbed,
                an_orphaned_observation_is_dropped_and_counted,
                a_late_misroute_is_journalled_as_one,
                only_an_admitted_attempt_is_observed_late,
                attempts_keep_their_own_observations,
                an_empty_batch_writes_nothing,
            }
            inbox {
                an_event_is_first_seen_once,
                another_document_is_a_collision,
                consumers_have_inboxes_of_their_own,
                tenants_have_inboxes_of_their_own,
                a_rolled_back_effect_leaves_no_inbox_row,
                a_transaction_sees_its_own_inbox_row,
            }
            query {
                an_empty_store_counts_nothing,
                counts_say_what_is_stored,
                pages_follow_each_other,
                a_summary_says_where_a_delivery_stands,
            }
            resource {
                every_port_names_the_same_store,
                two_stores_have_two_ids,
            }
            concurrency {
                concurrent_claimers_get_disjoint_rows,
                one_scope_gives_one_head_at_a_time,
                attempts_add_up_under_concurrency,
                concurrent_appends_of_one_event_leave_one,
            }
        }
    };
}

/// Instantiates every case for one [`GuardedOutboxHarness`] under the given test attribute.
#[macro_export]
macro_rules! outbox_guard_suite {
    (#[$attribute:meta] $harness:ident) => {
        $crate::outbox_cases! {
            #[$attribute] $harness
            guards {
                an_event_cannot_be_changed_or_deleted,
                an_event_without_a_delivery_cannot_be_deleted,
                an_observation_cannot_be_changed_or_deleted,
                a_deliverys_copies_cannot_be_changed,
                a_delivery_has_one_current_generation,
                the_stores_identity_and_epoch_are_single,
                a_delivery_moves_along_its_transitions,
                an_unreadable_head_is_passed_over_and_counted,
                a_claim_without_its_attempt_is_passed_over_and_counted,
            }
        }
    };
}

/// Instantiates every case for one [`ControlHarness`] under the given test attribute.
#[macro_export]
macro_rules! outbox_control_suite {
    (#[$attribute:meta] $harness:ident) => {
        $crate::outbox_cases! {
            #[$attribute] $harness
            disposition {
                a_hold_pauses_what_is_open,
                a_disposed_head_lets_its_successor_go,
                a_compensation_needs_its_event,
                a_state_refuses_what_it_does_not_have,
                what_the_operator_saw_is_compared,
                a_hold_waits_for_a_live_claim_and_ends_a_lapsed_one,
                a_requeue_hands_the_authority_over,
                a_requeue_ends_at_the_horizon,
                a_requeue_needs_a_polling_epoch,
                of_two_operators_one_acts,
                a_claim_is_renewed_by_its_own_token_alone,
            }
            disposition_table {
                each_state_meets_each_disposition,
                a_live_claim_refuses_every_disposition,
                a_requeue_counts_its_age_from_now,
                operators_act_on_a_frozen_store,
            }
            authority {
                an_activation_moves_the_authority,
                a_prepared_epoch_changes_nothing,
                an_activation_compares_what_the_operator_saw,
                the_admission_moves_by_its_table,
                a_claim_is_recorded_after_a_switch,
                a_frozen_store_drains_and_reopens,
            }
            fence {
                each_kind_keeps_back_what_it_names,
                a_fence_stands_until_it_is_lifted,
                a_fenced_claim_goes_on_to_its_end,
                fences_stand_beside_each_other,
            }
            retention {
                a_resolved_event_of_age_goes_whole,
                each_condition_alone_keeps_an_event,
                a_legal_hold_keeps_an_event_until_it_is_lifted,
                superseded_generations_go_with_the_current_one,
                a_legal_hold_needs_its_event,
                a_compensating_event_stays_with_its_audit,
                every_resolved_state_goes,
                a_batch_is_bounded,
                a_sample_counts_what_is_unresolved,
            }
        }
    };
}

/// Instantiates every case for one harness with the window card's port ([`WindowHarness`] and
/// [`ControlHarness`]) under the given test attribute.
#[macro_export]
macro_rules! outbox_window_suite {
    (#[$attribute:meta] $harness:ident) => {
        $crate::outbox_cases! {
            #[$attribute] $harness
            window {
                a_window_claims_the_heads_of_many_scopes,
                a_window_takes_one_row_of_a_scope,
                a_window_takes_many_reorder_tolerant_events,
                a_window_takes_no_more_than_its_attempts,
                a_window_without_attempts_claims_nothing,
                a_window_ends_spent_budgets_beside_its_claims,
                a_lapsed_claim_has_a_window_of_its_own,
                used_attempts_end_a_lapsed_claim_of_a_window,
                a_window_passes_over_what_it_does_not_know,
                concurrent_windows_are_disjoint,
                epochs_and_fences_hold_windows_back,
                a_windows_claim_is_renewed_and_recorded_alone,
            }
            window_outcomes {
                outcomes_are_answered_in_the_order_given,
                a_stale_record_touches_no_other,
                a_refused_record_is_held_and_touches_no_other,
                an_empty_window_records_nothing,
            }
        }
    };
}

/// One module a group, one test a case.
#[doc(hidden)]
#[macro_export]
macro_rules! outbox_cases {
    (#[$attribute:meta] $harness:ident) => {};
    (
        #[$attribute:meta] $harness:ident
        $group:ident { $($case:ident,)* }
        $($rest:tt)*
    ) => {
        mod $group {
            use super::$harness;
            use $crate::conformance::outbox::OutboxHarness as _;
            $(
                #[$attribute]
                async fn $case() {
                    let harness = $harness::fresh().await;
                    $crate::conformance::outbox::$group::$case(harness).await;
                }
            )*
        }
        $crate::outbox_cases! { #[$attribute] $harness $($rest)* }
    };
}
