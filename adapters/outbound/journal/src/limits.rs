//! Bounds of one journal's writer.
//!
//! Invariant: a batch holds at least one record of any size, and every bound is finite.

use crate::record::MAX_RECORD_BYTES;

/// How much one batch and the queue in front of it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    max_batch_records: usize,
    max_batch_bytes: usize,
    max_queued_records: usize,
}

/// A bound that lets nothing through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}, and at least {least} is needed")]
pub struct InvalidLimit {
    /// Which bound.
    pub name: &'static str,
    /// Its value.
    pub value: usize,
    /// The least it can be.
    pub least: usize,
}

impl Limits {
    /// Checks the bounds: records of one batch, bytes of one batch, records that wait.
    ///
    /// At most `max_batch_bytes` can be uncertain after a failure. A waiting record takes somewhat
    /// over 1 KiB of memory at most.
    ///
    /// # Errors
    /// [`InvalidLimit`] for a count of 0 or fewer batch bytes than one record may take.
    pub const fn new(
        max_batch_records: usize,
        max_batch_bytes: usize,
        max_queued_records: usize,
    ) -> Result<Limits, InvalidLimit> {
        let checks = [
            ("max_batch_records", max_batch_records, 1),
            ("max_batch_bytes", max_batch_bytes, MAX_RECORD_BYTES),
            ("max_queued_records", max_queued_records, 1),
        ];
        let mut index = 0;
        while index < checks.len() {
            let (name, value, least) = checks[index];
            if value < least {
                return Err(InvalidLimit { name, value, least });
            }
            index += 1;
        }
        Ok(Limits {
            max_batch_records,
            max_batch_bytes,
            max_queued_records,
        })
    }

    /// Most records of one batch.
    pub const fn max_batch_records(&self) -> usize {
        self.max_batch_records
    }

    /// Most bytes of one batch.
    pub const fn max_batch_bytes(&self) -> usize {
        self.max_batch_bytes
    }

    /// Most records that wait for the writer, those of the batch under way not counted.
    pub const fn max_queued_records(&self) -> usize {
        self.max_queued_records
    }
}

/// 4,096 records or 1 MiB a batch, 8,192 records waiting.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_batch_records: 4_096,
            max_batch_bytes: 1 << 20,
            max_queued_records: 8_192,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_let_nothing_through_are_refused_by_name() {
        for (limits, name) in [
            (Limits::new(0, 1_024, 1), "max_batch_records"),
            (Limits::new(1, 1_023, 1), "max_batch_bytes"),
            (Limits::new(1, 1_024, 0), "max_queued_records"),
        ] {
            assert_eq!(limits.map_err(|error| error.name), Err(name));
        }
        assert!(Limits::new(1, 1_024, 1).is_ok());
    }
}
