//! Permits of one generation.
//!
//! Invariant: no more permits are out than were configured, none is given once the gate is shut or
//! while the client has no room for a record of any bound destination, and the gate knows when the
//! last one came back, which is the barrier before the next generation (requirement 004 §§16.10,
//! 17.8).

use crate::room::ClientRoom;
use application_core::ports::{
    Admission, AdmissionRefusal, Admissions, PermitGuard, PublicationPermit,
};
use domain_core::identity::ProducerGeneration;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Hands permits out while it is open.
pub(crate) struct AdmissionGate {
    generation: ProducerGeneration,
    permits: Arc<Semaphore>,
    capacity: usize,
    room: Arc<ClientRoom>,
    largest_record: u32,
    open: watch::Sender<bool>,
    returned: watch::Sender<u64>,
}

struct Guard {
    permit: Option<OwnedSemaphorePermit>,
    gate: Arc<AdmissionGate>,
}

impl PermitGuard for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        // The permit first, so that whoever is told finds it returned.
        drop(self.permit.take());
        self.gate.returned.send_modify(|count| *count += 1);
    }
}

impl AdmissionGate {
    /// A gate that is still shut. It lets nobody in while less of `room` is free than the largest
    /// record of any bound destination takes.
    pub(crate) fn new(
        generation: ProducerGeneration,
        capacity: u32,
        room: Arc<ClientRoom>,
        largest_record: u32,
    ) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            generation,
            permits: Arc::new(Semaphore::new(capacity)),
            capacity,
            room,
            largest_record,
            open: watch::Sender::new(false),
            returned: watch::Sender::new(0),
        }
    }

    /// Waits for a permit, at most `wait`; a gate that shuts ends the wait at once.
    pub(crate) async fn admit(self: &Arc<Self>, wait: Duration) -> Admission {
        const SHUT: Admission = Admission::Refused(AdmissionRefusal::ProviderNotReady);
        let mut open = self.open.subscribe();
        // Under guard at once: a permit that is given up in between must be seen to come back.
        let acquire = tokio::time::timeout(wait, async {
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            let permit = self.guarded(permit);
            let room = self.room.has_free(self.largest_record).await;
            room.then_some(permit)
        });
        let acquired = tokio::select! {
            biased;
            _ = open.wait_for(|open| !open) => return SHUT,
            acquired = acquire => acquired,
        };
        let Ok(acquired) = acquired else {
            return Admission::Refused(AdmissionRefusal::Saturated);
        };
        let Some(permit) = acquired else {
            return SHUT;
        };
        // Shut while the permit was on its way: the guard gives it back.
        if !*self.open.borrow() {
            return SHUT;
        }
        Admission::Granted(permit)
    }

    /// Waits for the first permit as [`Self::admit`] does, and takes what else is free at once.
    pub(crate) async fn admit_up_to(
        self: &Arc<Self>,
        most: NonZeroU32,
        wait: Duration,
    ) -> Admissions {
        let first = match self.admit(wait).await {
            Admission::Granted(permit) => permit,
            Admission::Refused(refusal) => return Admissions::Refused(refusal),
        };
        let more =
            (1..most.get()).map_while(|_| Arc::clone(&self.permits).try_acquire_owned().ok());
        let permits = std::iter::once(first)
            .chain(more.map(|permit| self.guarded(permit)))
            .collect();
        Admissions::Granted(permits)
    }

    fn guarded(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> PublicationPermit {
        let guard = Guard {
            permit: Some(permit),
            gate: Arc::clone(self),
        };
        PublicationPermit::new(self.generation.clone(), Box::new(guard))
    }

    /// Gives permits, or gives none from now on.
    pub(crate) fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Permits that are out.
    pub(crate) fn outstanding(&self) -> usize {
        self.capacity
            .saturating_sub(self.permits.available_permits())
    }

    /// Waits until every permit is back.
    pub(crate) async fn idle(&self) {
        let mut returned = self.returned.subscribe();
        while self.outstanding() > 0 {
            // The sender lives in `self`, so this ends only by a change.
            if returned.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(capacity: u32) -> Arc<AdmissionGate> {
        let generation = ProducerGeneration::parse("g-1").unwrap();
        let room = Arc::new(ClientRoom::new(100));
        let gate = Arc::new(AdmissionGate::new(generation, capacity, room, 60));
        gate.set_open(true);
        gate
    }

    fn granted(admission: Admission) -> PublicationPermit {
        match admission {
            Admission::Granted(permit) => permit,
            Admission::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    fn refused(admission: Admission) -> AdmissionRefusal {
        match admission {
            Admission::Granted(permit) => panic!("granted: {permit:?}"),
            Admission::Refused(refusal) => refusal,
        }
    }

    #[tokio::test]
    async fn permits_are_bounded_and_come_back() {
        let gate = gate(2);
        let first = granted(gate.admit(Duration::ZERO).await);
        assert_eq!(first.generation().as_str(), "g-1");
        let _second = granted(gate.admit(Duration::ZERO).await);
        let wait = Duration::from_millis(5);
        assert_eq!(refused(gate.admit(wait).await), AdmissionRefusal::Saturated);
        assert_eq!(gate.outstanding(), 2);
        drop(first);
        granted(gate.admit(Duration::ZERO).await);
    }

    #[tokio::test]
    async fn several_permits_are_what_is_free_and_come_back_one_by_one() {
        let gate = gate(3);
        let most = |most| NonZeroU32::new(most).unwrap();
        let mut held = match gate.admit_up_to(most(2), Duration::ZERO).await {
            Admissions::Granted(permits) => permits,
            Admissions::Refused(refusal) => panic!("refused: {refusal:?}"),
        };
        assert_eq!((held.len(), gate.outstanding()), (2, 2));
        match gate.admit_up_to(most(9), Duration::ZERO).await {
            Admissions::Granted(rest) => assert_eq!((rest.len(), gate.outstanding()), (1, 3)),
            Admissions::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
        held.pop();
        assert_eq!(gate.outstanding(), 1);
        gate.set_open(false);
        let refused = gate.admit_up_to(most(1), Duration::ZERO).await;
        assert!(matches!(
            refused,
            Admissions::Refused(AdmissionRefusal::ProviderNotReady)
        ));
    }

    /// Backpressure comes before the claim: nobody gets in while the client is short of room.
    #[tokio::test]
    async fn no_permit_without_room_for_the_largest_record() {
        let gate = gate(2);
        let held = gate.room.reserve(41).await.unwrap();
        let wait = Duration::from_millis(5);
        assert_eq!(refused(gate.admit(wait).await), AdmissionRefusal::Saturated);
        assert_eq!(gate.outstanding(), 0);
        gate.idle().await;
        let waiter = {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(Duration::from_secs(60)).await })
        };
        tokio::task::yield_now().await;
        drop(held);
        granted(waiter.await.unwrap());
        assert_eq!(gate.room.held(), 0);
    }

    #[tokio::test]
    async fn a_shut_gate_wakes_those_who_wait() {
        let gate = gate(1);
        let held = granted(gate.admit(Duration::ZERO).await);
        let waiter = {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(Duration::from_secs(60)).await })
        };
        tokio::task::yield_now().await;
        gate.set_open(false);
        let reason = refused(waiter.await.unwrap());
        assert_eq!(reason, AdmissionRefusal::ProviderNotReady);
        drop(held);
        let reason = refused(gate.admit(Duration::ZERO).await);
        assert_eq!(reason, AdmissionRefusal::ProviderNotReady);
        gate.set_open(true);
        granted(gate.admit(Duration::ZERO).await);
    }

    #[tokio::test]
    async fn the_barrier_waits_for_the_last_permit() {
        let gate = gate(2);
        gate.idle().await;
        let held = granted(gate.admit(Duration::ZERO).await);
        let waiting = tokio::time::timeout(Duration::from_millis(5), gate.idle());
        assert!(waiting.await.is_err());
        let barrier = {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.idle().await })
        };
        drop(held);
        barrier.await.unwrap();
        assert_eq!(gate.outstanding(), 0);
    }

    #[tokio::test]
    async fn a_dropped_wait_leaks_no_permit() {
        let gate = gate(1);
        let held = granted(gate.admit(Duration::ZERO).await);
        let waiter = {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(Duration::from_secs(60)).await })
        };
        tokio::task::yield_now().await;
        waiter.abort();
        assert!(waiter.await.is_err());
        drop(held);
        granted(gate.admit(Duration::ZERO).await);
    }
}
