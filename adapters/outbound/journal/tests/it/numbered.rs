//! `Numbered` v1, the event of these tests: one integer, then bytes.

use std::path::Path;
use std::sync::Arc;

use outbound_journal::pde::Integer;
use outbound_journal::schema::{self, Fields};
use outbound_journal::{
    AppendOutcome, Codec, EventType, EventVersion, Journal, Limits, NewRecord, OfflineReader,
    OpenError, Payload, ReadError, Registry, Rejection, Schemas,
};

pub(crate) struct Numbered(EventType);

impl Codec for Numbered {
    fn event_type(&self) -> &EventType {
        &self.0
    }

    fn version(&self) -> EventVersion {
        EventVersion::ONE
    }

    fn validate(&self, mut payload: Fields<'_>) -> Result<(), schema::Error> {
        payload.signed("number")?;
        payload.bytes("filler")?;
        payload.finish()
    }
}

pub(crate) fn event_type() -> EventType {
    EventType::new("Numbered").expect("valid")
}

pub(crate) fn registry() -> Arc<Registry> {
    let codec: Arc<dyn Codec> = Arc::new(Numbered(event_type()));
    Arc::new(Registry::new([codec]).expect("one codec"))
}

/// A record with this number and so many bytes beside it.
pub(crate) fn filled(number: i64, filler: usize) -> NewRecord {
    NewRecord {
        event_type: event_type(),
        version: EventVersion::ONE,
        payload: Payload::encode(|values| {
            values.integer(Some(Integer::from(number)));
            values.bytes(Some(&vec![0x5a; filler]));
        })
        .expect("canonical"),
    }
}

pub(crate) fn numbered(number: i64) -> NewRecord {
    filled(number, 20)
}

pub(crate) fn open(path: &Path) -> Result<Journal, OpenError> {
    Journal::open(path, registry(), Limits::default())
}

/// The sequence of an append that must have been committed.
pub(crate) fn committed(outcome: AppendOutcome) -> u64 {
    match outcome {
        AppendOutcome::Committed { sequence } => sequence.value(),
        other => panic!("not committed: {other:?}"),
    }
}

/// Writes a journal of these numbers and gives the file free.
pub(crate) fn write(path: &Path, numbers: impl IntoIterator<Item = i64>) {
    let journal = open(path).expect("a new journal");
    for number in numbers {
        committed(journal.append(numbered(number)).wait());
    }
}

pub(crate) fn number_of(payload: &[u8]) -> i64 {
    let mut fields = Fields::of(payload).expect("an object");
    fields.signed("number").expect("a number")
}

/// Every (sequence, number) of a file that nobody writes.
pub(crate) fn contents(path: &Path) -> Vec<(u64, i64)> {
    let schemas = Schemas::Registry(registry());
    let mut reader = OfflineReader::open(path, schemas).expect("a valid journal");
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().expect("validated") {
        records.push((record.sequence.value(), number_of(record.payload)));
    }
    records
}

/// Why opening was refused, when it was for its history.
pub(crate) fn rejection<T: std::fmt::Debug>(opened: Result<T, OpenError>) -> Rejection {
    match opened {
        Err(OpenError::History {
            source: ReadError::Rejected(rejection),
            ..
        }) => rejection,
        other => panic!("not refused for its history: {other:?}"),
    }
}
