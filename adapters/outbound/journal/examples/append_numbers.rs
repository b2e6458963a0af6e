//! Appends numbers to the journal named on the command line, for ever, and prints each sequence
//! once its record is committed. Stop it as you like: what it printed is in the file.
//!
//! `cargo run -p outbound-journal --example append_numbers -- numbers.journal`
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use outbound_journal::pde::Integer;
use outbound_journal::schema::{self, Fields};
use outbound_journal::{
    AppendOutcome, Codec, EventType, EventVersion, Journal, Limits, NewRecord, Payload, Registry,
};

/// Appends that are under way together.
const BATCH: i64 = 5;

/// `Numbered` v1: one integer, then bytes.
struct Numbered(EventType);

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("name the journal's file")?;
    let event_type = EventType::new("Numbered")?;
    let codec: Arc<dyn Codec> = Arc::new(Numbered(event_type.clone()));
    let registry = Arc::new(Registry::new([codec])?);
    let journal = Journal::open(Path::new(&path), registry, Limits::default())?;
    loop {
        let mut appends = Vec::new();
        for number in 0..BATCH {
            let payload = Payload::encode(|values| {
                values.integer(Some(Integer::from(number)));
                values.bytes(Some(&[0x5a; 20]));
            })?;
            appends.push(journal.append(NewRecord {
                event_type: event_type.clone(),
                version: EventVersion::ONE,
                payload,
            }));
        }
        for append in appends {
            let AppendOutcome::Committed { sequence } = append.wait() else {
                return Err("an append was not committed".into());
            };
            let mut out = std::io::stdout().lock();
            writeln!(out, "{sequence}")?;
            out.flush()?;
        }
    }
}
