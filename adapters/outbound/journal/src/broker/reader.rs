//! What a consumer of the embedded broker reads with.
//!
//! Invariant: records come in sequence order from the asked-for one on, each checked through every
//! layer, and never past what is synced.

use std::time::Duration;

use domain_core::journal::Sequence;

use super::record::EnvelopePublished;
use crate::{Journal, OpenError, ReadError, Reader, schema};

/// Reads published envelopes beside the writer.
#[derive(Debug)]
pub struct BrokerReader {
    reader: Reader,
    from: Sequence,
}

/// A published envelope could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The journal refuses the record or cannot be read.
    #[error("the broker's journal cannot be read")]
    Read(#[source] ReadError),
    /// The record is none of a broker's file.
    #[error("record {sequence} is not a published envelope")]
    Schema {
        /// The record.
        sequence: Sequence,
        /// Why.
        #[source]
        source: schema::Error,
    },
}

impl BrokerReader {
    /// Opens a reader whose first record is `from`. There is no index: what lies before is read and
    /// checked on the way there.
    ///
    /// # Errors
    /// As for [`Journal::reader`].
    pub fn open(journal: &Journal, from: Sequence) -> Result<BrokerReader, OpenError> {
        let reader = journal.reader()?;
        Ok(BrokerReader { reader, from })
    }

    /// The next published envelope, or `None` where the journal ends for now.
    ///
    /// # Errors
    /// [`DecodeError`]. A record that the journal refuses is refused again by the next call; one of
    /// another event, possible only in a journal opened with another registry than
    /// [`super::registry`], lies behind the reader then, and a consumer stops there.
    pub fn next_published(
        &mut self,
    ) -> Result<Option<(Sequence, EnvelopePublished<'_>)>, DecodeError> {
        while self.reader.position().records() + 1 < self.from.value() {
            if self
                .reader
                .next_record()
                .map_err(DecodeError::Read)?
                .is_none()
            {
                return Ok(None);
            }
        }
        let Some(record) = self.reader.next_record().map_err(DecodeError::Read)? else {
            return Ok(None);
        };
        let sequence = record.sequence;
        let published = EnvelopePublished::from_record(&record)
            .map_err(|source| DecodeError::Schema { sequence, source })?;
        Ok(Some((sequence, published)))
    }

    /// Blocks until there is more to read, or the journal ended, or `patience` is over, and says
    /// whether there is more. Not for async tasks: give the reader a thread of its own.
    pub fn wait_for_next(&self, patience: Duration) -> bool {
        self.reader.wait_for_next(patience)
    }
}
