//! Epochs and the write admission.
//!
//! Invariant: what is frozen or retired takes nothing new and lets go what is under way
//! (requirement 004 §§18.6, 27.1, 30.5).

use super::control::{ControlHarness, act, approval};
use super::fixture::{
    acknowledged_record, append, claimed, event, event_id, nothing, request, try_append,
};
use crate::ports::{
    ActivationOutcome, EpochActivation, EpochRecord, FreezeOutcome, OutboxAppendPort as _,
    RecordOutcome, ResumeOutcome, TransactionError, TransactionPort as _,
};
use domain_core::authority::{EpochState, WriteAdmission, WriteAdmissionState};
use domain_core::delivery::DispatchAuthority;
use domain_core::identity::{PublicationEpoch, RowVersion};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(5);

async fn prepared<H: ControlHarness>(h: &H, authority: DispatchAuthority) -> EpochRecord {
    let prepared = h
        .authority()
        .prepare_epoch(authority, None)
        .await
        .expect("prepared");
    assert_eq!(
        (prepared.authority, prepared.state),
        (authority, EpochState::Prepared)
    );
    prepared
}

fn activation(epoch: &EpochRecord, active: Option<&EpochRecord>) -> EpochActivation {
    EpochActivation {
        expected_active: active.map(|active| active.epoch),
        epoch: epoch.epoch,
        row_version: epoch.row_version,
        wait: WAIT,
        approval: approval(),
        act: act(),
    }
}

/// An activation retires the epoch before it; appends follow the ACTIVE one; claims need a polling
/// one.
pub async fn an_activation_moves_the_authority<H: ControlHarness>(h: H) {
    append(&h, [event("before", "a", 1)]).await;
    let active = h
        .authority()
        .active_epoch()
        .await
        .expect("epoch")
        .expect("one is ACTIVE");
    let cdc = prepared(&h, DispatchAuthority::Cdc).await;
    let wrong = activation(&cdc, None);
    assert_eq!(
        h.authority()
            .activate_epoch(&wrong)
            .await
            .expect("answered"),
        ActivationOutcome::ActiveDiffers(Some(active.epoch))
    );
    let right = activation(&cdc, Some(&active));
    let done = h
        .authority()
        .activate_epoch(&right)
        .await
        .expect("answered");
    assert_eq!(done, ActivationOutcome::Activated);
    nothing(&h, &request(1)).await;
    let receipt = try_append(&h, event("during", "b", 1).seal())
        .await
        .expect("appended");
    assert_eq!(
        (receipt.epoch, receipt.authority),
        (cdc.epoch, DispatchAuthority::Cdc)
    );
    assert!(h.delivery(&event_id("during")).await.is_none());
    let now = h
        .authority()
        .active_epoch()
        .await
        .expect("epoch")
        .expect("one is ACTIVE");
    let polling = prepared(&h, DispatchAuthority::PollingV2).await;
    let back = activation(&polling, Some(&now));
    let done = h.authority().activate_epoch(&back).await.expect("answered");
    assert_eq!(done, ActivationOutcome::Activated);
    let claim = claimed(&h, &request(2)).await;
    assert_eq!(claim.attempt.event_id, event_id("before"));
    // A retired epoch is never activated again.
    let retired = EpochActivation {
        row_version: now.row_version,
        ..activation(&cdc, Some(&polling))
    };
    let again = h
        .authority()
        .activate_epoch(&retired)
        .await
        .expect("answered");
    assert_eq!(again, ActivationOutcome::NotPrepared);
    assert_eq!(h.authority_audit_rows().await, 2);
}

/// What a switch found under way may still be recorded: Tx C asks for no epoch.
pub async fn a_claim_is_recorded_after_a_switch<H: ControlHarness>(h: H) {
    append(&h, [event("e1", "a", 1)]).await;
    let claim = claimed(&h, &request(1)).await;
    h.activate_epoch(Some(DispatchAuthority::Cdc)).await;
    let recorded = h
        .deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await;
    assert!(
        matches!(recorded, Ok(RecordOutcome::Recorded(_))),
        "{recorded:?}"
    );
}

/// A frozen store refuses business writes, and drains; the sentinel's append goes through.
pub async fn a_frozen_store_drains_and_reopens<H: ControlHarness>(h: H) {
    append(&h, [event("before", "a", 1)]).await;
    let open = h.authority().write_admission().await.expect("admission");
    assert_eq!(open.state, WriteAdmissionState::Open);
    let frozen = h
        .authority()
        .freeze(open.generation, WAIT, &act())
        .await
        .expect("answered");
    let FreezeOutcome::Frozen(frozen) = frozen else {
        panic!("{frozen:?}");
    };
    assert_eq!(
        frozen,
        WriteAdmission {
            state: WriteAdmissionState::Frozen,
            generation: open.generation + 1
        }
    );
    let refused = try_append(&h, event("during", "b", 1).seal()).await;
    assert!(
        matches!(
            refused,
            Err(TransactionError::NotAdmitted(WriteAdmissionState::Frozen))
        ),
        "{refused:?}"
    );
    let claim = claimed(&h, &request(1)).await;
    let recorded = h
        .deliveries()
        .record_outcome(&acknowledged_record(&claim))
        .await;
    assert!(
        matches!(recorded, Ok(RecordOutcome::Recorded(_))),
        "{recorded:?}"
    );
    let (outbox, sentinel) = (h.outbox(), event("sentinel", "s", 1).seal());
    h.ungated_transactions()
        .in_write(move |tx| Box::pin(async move { outbox.append(tx, &sentinel).await }))
        .await
        .expect("the sentinel");
    let claim = claimed(&h, &request(2)).await;
    assert_eq!(claim.attempt.event_id, event_id("sentinel"));
    // Another generation's resume changes nothing.
    let wrong = h
        .authority()
        .resume(open.generation, &act())
        .await
        .expect("answered");
    assert_eq!(wrong, ResumeOutcome::Conflict(frozen));
    let resumed = h
        .authority()
        .resume(frozen.generation, &act())
        .await
        .expect("answered");
    let ResumeOutcome::Open(reopened) = resumed else {
        panic!("{resumed:?}");
    };
    assert_eq!(reopened.generation, frozen.generation + 1);
    append(&h, [event("after", "b", 1)]).await;
    let old = h
        .authority()
        .freeze(open.generation, WAIT, &act())
        .await
        .expect("answered");
    assert_eq!(old, FreezeOutcome::Conflict(reopened));
}

/// A PREPARED epoch is in nobody's way.
pub async fn a_prepared_epoch_changes_nothing<H: ControlHarness>(h: H) {
    let active = h.authority().active_epoch().await.expect("epoch");
    let first = prepared(&h, DispatchAuthority::Cdc).await;
    let second = prepared(&h, DispatchAuthority::PollingV2).await;
    assert!(second.epoch > first.epoch);
    assert_eq!(h.authority().active_epoch().await.expect("epoch"), active);
    let receipt = try_append(&h, event("e1", "a", 1).seal())
        .await
        .expect("appended");
    assert_eq!(Some(receipt.epoch), active.map(|active| active.epoch));
    claimed(&h, &request(1)).await;
    assert_eq!(h.authority_audit_rows().await, 0);
}

/// Another row version, another ACTIVE epoch, or an epoch that is not there: nothing is activated
/// and nothing retired.
pub async fn an_activation_compares_what_the_operator_saw<H: ControlHarness>(h: H) {
    let active = h.authority().active_epoch().await.expect("epoch");
    let next = prepared(&h, DispatchAuthority::Cdc).await;
    let right = activation(&next, active.as_ref());
    let version = EpochActivation {
        row_version: RowVersion::new(next.row_version.value() + 1).expect("version"),
        ..right.clone()
    };
    let nowhere = EpochActivation {
        epoch: PublicationEpoch::new(next.epoch.value() + 7).expect("epoch"),
        ..right.clone()
    };
    for wrong in [version, nowhere] {
        assert_eq!(
            h.authority()
                .activate_epoch(&wrong)
                .await
                .expect("answered"),
            ActivationOutcome::NotPrepared
        );
    }
    assert_eq!(h.authority().active_epoch().await.expect("epoch"), active);
    assert_eq!(h.authority_audit_rows().await, 0);
    h.activate_epoch(None).await;
    assert_eq!(
        h.authority()
            .activate_epoch(&right)
            .await
            .expect("answered"),
        ActivationOutcome::ActiveDiffers(None)
    );
    let none = EpochActivation {
        expected_active: None,
        ..right
    };
    assert_eq!(
        h.authority().activate_epoch(&none).await.expect("answered"),
        ActivationOutcome::Activated
    );
    let now = h.authority().active_epoch().await.expect("epoch");
    assert_eq!(now.map(|epoch| epoch.epoch), Some(next.epoch));
}

/// OPEN and FROZEN against freeze, resume and thaw, each with the right and with another
/// generation: whatever does not apply changes and audits nothing.
pub async fn the_admission_moves_by_its_table<H: ControlHarness>(h: H) {
    let authority = h.authority();
    let open = authority.write_admission().await.expect("admission");
    for generation in [open.generation, open.generation + 1] {
        for refused in [
            authority.resume(generation, &act()).await,
            authority.thaw(generation, &act()).await,
        ] {
            assert_eq!(refused.expect("answered"), ResumeOutcome::Conflict(open));
        }
    }
    let wrong = authority
        .freeze(open.generation + 1, WAIT, &act())
        .await
        .expect("answered");
    assert_eq!(wrong, FreezeOutcome::Conflict(open));
    assert_eq!(h.authority_audit_rows().await, 0);
    let frozen = authority
        .freeze(open.generation, WAIT, &act())
        .await
        .expect("answered");
    let FreezeOutcome::Frozen(frozen) = frozen else {
        panic!("{frozen:?}");
    };
    let audited = h.authority_audit_rows().await;
    for generation in [open.generation, frozen.generation, frozen.generation + 1] {
        let again = authority
            .freeze(generation, WAIT, &act())
            .await
            .expect("answered");
        assert_eq!(again, FreezeOutcome::Conflict(frozen));
        let thawed = authority.thaw(generation, &act()).await.expect("answered");
        assert_eq!(thawed, ResumeOutcome::Conflict(frozen));
    }
    for generation in [open.generation, frozen.generation + 1] {
        let wrong = authority
            .resume(generation, &act())
            .await
            .expect("answered");
        assert_eq!(wrong, ResumeOutcome::Conflict(frozen));
    }
    assert_eq!(authority.write_admission().await.expect("read"), frozen);
    assert_eq!(h.authority_audit_rows().await, audited);
    let resumed = authority.resume(frozen.generation, &act()).await;
    assert!(matches!(resumed, Ok(ResumeOutcome::Open(_))), "{resumed:?}");
    assert_eq!(h.authority_audit_rows().await, audited + 1);
}
