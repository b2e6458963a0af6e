//! Bytes that the client may hold.
//!
//! Invariant: a record is handed over only under a reservation of all its bytes, and the reservation
//! ends with the client's report, also when nobody waits for the record any more. So the bytes that
//! the client holds never exceed the configured buffer (requirement 004 §§17.5, 17.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one record in the client; given back when it is dropped.
pub(crate) struct Reservation {
    bytes: usize,
    held: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // Before the permit, so that the count never runs ahead of the room.
        self.held.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The client's bytes. Whoever waits is served in order, so a large record is not passed by small
/// ones for ever.
pub(crate) struct ClientRoom {
    bytes: Arc<Semaphore>,
    /// Counted apart from the permits, which the semaphore also sets aside for whoever waits.
    held: Arc<AtomicUsize>,
    most: AtomicUsize,
}

impl ClientRoom {
    /// Room for so many bytes.
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = usize::try_from(capacity)
            .unwrap_or(Semaphore::MAX_PERMITS)
            .min(Semaphore::MAX_PERMITS);
        Self {
            bytes: Arc::new(Semaphore::new(capacity)),
            held: Arc::default(),
            most: AtomicUsize::new(0),
        }
    }

    /// Waits for this many bytes; `None` once the client is closed. More than the whole room never
    /// comes: the configuration compiler proved that every record is smaller.
    pub(crate) async fn reserve(&self, bytes: u32) -> Option<Reservation> {
        let permit = Arc::clone(&self.bytes).acquire_many_owned(bytes).await;
        let permit = permit.ok()?;
        let bytes = permit.num_permits();
        let held = self.held.fetch_add(bytes, Ordering::AcqRel) + bytes;
        self.most.fetch_max(held, Ordering::AcqRel);
        Some(Reservation {
            bytes,
            held: Arc::clone(&self.held),
            _permit: permit,
        })
    }

    /// Waits until this many bytes are free, without taking them; `false` once the client is closed.
    pub(crate) async fn has_free(&self, bytes: u32) -> bool {
        self.bytes.acquire_many(bytes).await.is_ok()
    }

    /// Ends every wait.
    pub(crate) fn close(&self) {
        self.bytes.close();
    }

    /// Bytes that are reserved now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// The most bytes that were ever reserved at once.
    pub(crate) fn most_held(&self) -> usize {
        self.most.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn no_more_bytes_than_there_are_and_all_come_back() {
        let room = ClientRoom::new(100);
        let first = room.reserve(60).await.unwrap();
        let second = room.reserve(40).await.unwrap();
        assert_eq!((room.held(), room.most_held()), (100, 100));
        let waiting = tokio::time::timeout(Duration::from_millis(5), room.reserve(1));
        assert!(waiting.await.is_err());
        drop(first);
        assert_eq!(room.held(), 40);
        let third = room.reserve(60).await.unwrap();
        drop((second, third));
        assert_eq!((room.held(), room.most_held()), (0, 100));
    }

    /// Many tasks with records of every size: never more than the room, and none is starved.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn full_load_stays_within_the_room() {
        let room = Arc::new(ClientRoom::new(1_000));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..200_u32 {
            let room = Arc::clone(&room);
            tasks.spawn(async move {
                let bytes = 1 + (number * 37) % 1_000;
                let reserved = room.reserve(bytes).await.unwrap();
                assert!(room.held() <= 1_000);
                tokio::task::yield_now().await;
                drop(reserved);
            });
        }
        tasks.join_all().await;
        assert_eq!(room.held(), 0);
        assert!((500..=1_000).contains(&room.most_held()));
    }

    #[tokio::test]
    async fn a_closed_room_ends_every_wait() {
        let room = Arc::new(ClientRoom::new(1));
        let held = room.reserve(1).await.unwrap();
        let waiter = {
            let room = Arc::clone(&room);
            tokio::spawn(async move { (room.reserve(1).await.is_none(), room.has_free(1).await) })
        };
        tokio::task::yield_now().await;
        room.close();
        assert_eq!(waiter.await.unwrap(), (true, false));
        drop(held);
    }
}
