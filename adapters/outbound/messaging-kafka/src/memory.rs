//! What the producer's part of the process may take.
//!
//! Invariant: every term follows from a setting or is a constant that is named here; the client's
//! buffer alone is no bound of the process (requirement 004 §17.5).

use crate::settings::ProducerConfiguration;

/// Bytes by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// The stored events under permits, and the compiled record of each until it is handed over:
    /// `maximum-admitted-records` times the largest record, twice.
    pub admitted_records: u64,
    /// Records that the client holds: `buffer-memory-bytes`.
    pub client_buffer: u64,
    /// What a record has in the client beside its bytes, its callback context included:
    /// `maximum-buffered-records` times [`MemoryBound::RECORD_CONTEXT`].
    pub record_contexts: u64,
    /// Acknowledgements that wait for the journal: `maximum-late-observations` times
    /// [`MemoryBound::LATE_OBSERVATION`].
    pub late_observations: u64,
    /// Requests and answers on their way: the most that are in flight on one connection, of the
    /// largest size. Requests refer to the client's records and copy none of them, so this stands
    /// for headers, answers and the channel's own buffers.
    pub requests: u64,
    /// [`MemoryBound::CLIENT`].
    pub client: u64,
}

impl MemoryBound {
    /// The client's and this adapter's structures for one record: message, headers, note, channel.
    pub const RECORD_CONTEXT: u64 = 2_048;
    /// One late observation.
    pub const LATE_OBSERVATION: u64 = 1_024;
    /// Threads, connections, metadata and the allocator's slack.
    pub const CLIENT: u64 = 16 << 20;
    /// Requests in flight on one connection.
    const IN_FLIGHT: u64 = 5;

    /// All of it.
    pub fn total(&self) -> u64 {
        self.admitted_records
            + self.client_buffer
            + self.record_contexts
            + self.late_observations
            + self.requests
            + self.client
    }
}

impl ProducerConfiguration {
    /// The bound for records of at most `largest_record_bytes`, key, headers and framing included.
    pub fn memory_bound(&self, largest_record_bytes: u32) -> MemoryBound {
        let settings = &self.settings;
        MemoryBound {
            admitted_records: 2
                * u64::from(settings.maximum_admitted_records)
                * u64::from(largest_record_bytes),
            client_buffer: settings.buffer_memory_bytes.into(),
            record_contexts: u64::from(settings.maximum_buffered_records)
                * MemoryBound::RECORD_CONTEXT,
            late_observations: u64::from(settings.maximum_late_observations)
                * MemoryBound::LATE_OBSERVATION,
            requests: MemoryBound::IN_FLIGHT * u64::from(settings.maximum_request_bytes),
            client: MemoryBound::CLIENT,
        }
    }
}
