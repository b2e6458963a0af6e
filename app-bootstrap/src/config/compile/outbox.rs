//! Outbox and relay: lease, budgets, attempts.
//!
//! Invariant: attempt budget covers the publication and its recording, and the lease outlasts the
//! attempt (requirement 004 §§16.6, 18.8).

use super::super::cards::Tuple;
use super::super::code::StartCode;
use super::super::error::ConfigError;
use super::super::profile::OutboxProfile;
use super::super::raw::RawOutbox;
use super::origin::Origin;
use super::provider::Timing;
use super::{upkeep, window};
use domain_core::identity::TransactionResourceId;
use domain_core::publication::{FailureClass, RetryPolicy};
use std::time::Duration;

/// What Tx C may take after the publication ended.
const RECORD_RESERVE: Duration = Duration::from_secs(2);
/// What a lease must outlast its attempt by, for scheduling and the claim's own commit.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

pub(super) fn compile(
    at: &Origin<'_>,
    tuple: Tuple,
    raw: &RawOutbox,
    timing: &Timing,
) -> Result<OutboxProfile, ConfigError> {
    let attempts = at.count(
        "outbox.maximum-relay-attempts",
        raw.maximum_relay_attempts,
        1,
        1000,
    )?;
    let profile = OutboxProfile {
        transaction_resource_id: raw
            .transaction_resource_id
            .as_deref()
            .map(|id| {
                TransactionResourceId::parse(id)
                    .map_err(|error| at.refuse("outbox.transaction-resource-id", error.to_string()))
            })
            .transpose()?,
        polling_card: tuple.card("outbox.polling-profile").unwrap_or_default(),
        claim_lease: at.duration("outbox.claim-lease", &raw.claim_lease)?,
        maximum_automatic_publication_age: at.duration(
            "outbox.maximum-automatic-publication-age",
            &raw.maximum_automatic_publication_age,
        )?,
        retry: retry(at, raw, attempts)?,
        poll_interval: at.duration("outbox.poll-interval", &raw.poll_interval)?,
        attempt_budget: timing.attempt_budget,
        publish_budget: timing.publish_budget,
        admission_timeout: timing.admission_timeout,
        maximum_admitted_records: timing.maximum_admitted_records,
        window: window::compile(at, tuple, raw.window.as_ref(), timing)?,
        capacity: raw
            .capacity
            .as_ref()
            .map(|raw| upkeep::capacity(at, raw))
            .transpose()?,
        retention: raw
            .retention
            .as_ref()
            .map(|raw| upkeep::retention(at, raw))
            .transpose()?,
    };
    at.at_least(
        StartCode::BudgetRelation,
        &format!("{}.application-attempt-budget", timing.section),
        profile.attempt_budget,
        profile.admission_timeout + profile.publish_budget + RECORD_RESERVE,
        "application-attempt-budget >= admission-timeout + publication timeouts + 2s to record",
    )?;
    match profile.window {
        None => at.at_least(
            StartCode::BudgetRelation,
            "outbox.claim-lease",
            profile.claim_lease,
            profile.attempt_budget + LEASE_MARGIN,
            "claim-lease >= application-attempt-budget + 5s margin",
        )?,
        // The last record of a window is handed over when the enqueue budget ends, and its outcome
        // may wait for one Tx C that is under way.
        Some(window) => at.at_least(
            StartCode::BudgetRelation,
            "outbox.claim-lease",
            profile.claim_lease,
            window.enqueue_budget + profile.attempt_budget + RECORD_RESERVE + LEASE_MARGIN,
            "claim-lease >= window.enqueue-budget + application-attempt-budget + 2s for outcomes \
             + 5s margin",
        )?,
    }
    at.at_least(
        StartCode::HorizonRelation,
        "outbox.maximum-automatic-publication-age",
        profile.maximum_automatic_publication_age,
        profile.attempt_budget,
        "maximum-automatic-publication-age >= application-attempt-budget",
    )?;
    Ok(profile)
}

/// Bounds and attempts, with other bounds for single classes of failure.
fn retry(at: &Origin<'_>, raw: &RawOutbox, attempts: u32) -> Result<RetryPolicy, ConfigError> {
    let mut policy = RetryPolicy::new(
        at.duration("outbox.retry-minimum-delay", &raw.retry_minimum_delay)?,
        at.duration("outbox.retry-maximum-delay", &raw.retry_maximum_delay)?,
        attempts,
    )
    .map_err(|error| at.refuse("outbox.retry-maximum-delay", error.to_string()))?;
    for (index, one) in raw.retry_overrides.iter().enumerate() {
        let key = |name: &str| format!("outbox.retry-overrides[{index}].{name}");
        let class = FailureClass::from_name(&one.failure_class)
            .ok_or_else(|| at.refuse(&key("failure-class"), "is no failure class"))?;
        let repeated = raw.retry_overrides[..index]
            .iter()
            .any(|earlier| earlier.failure_class == one.failure_class);
        if repeated {
            return Err(at.refuse(&key("failure-class"), "is given twice"));
        }
        policy = policy
            .after(
                class,
                at.duration(&key("minimum-delay"), &one.minimum_delay)?,
                at.duration(&key("maximum-delay"), &one.maximum_delay)?,
            )
            .map_err(|error| at.refuse(&key("maximum-delay"), error.to_string()))?;
    }
    Ok(policy)
}
