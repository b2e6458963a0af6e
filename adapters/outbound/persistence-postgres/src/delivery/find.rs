//! What the store knows of an attempt after a lost commit reply.
//!
//! Invariant: the answer is read from the attempt journal and the row in one READ ONLY
//! transaction; a claim that lapsed or was taken over is lost, whatever its journal says next.

use super::PostgresDeliveries;
use super::heads::{Document, read_event};
use crate::errors::DatabaseFault;
use crate::rows::{ReadError, StoredRow};
use crate::session::Access;
use application_core::ports::{
    AttemptIdentity, ClaimedDelivery, FindAttemptError, RecordedAttempt,
};
use domain_core::delivery::DeliveryStateName;
use domain_core::identity::{ClaimToken, DeliveryGeneration, PublicationAttemptId, WorkerId};
use std::sync::Arc;

impl From<ReadError> for FindAttemptError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Database(fault) => fault.into(),
            ReadError::Corrupt(what) => Self::Corrupt { what },
        }
    }
}

impl From<DatabaseFault> for FindAttemptError {
    fn from(fault: DatabaseFault) -> Self {
        Self::Unavailable(Box::new(fault))
    }
}

impl PostgresDeliveries {
    pub(super) async fn find(
        &self,
        token: &ClaimToken,
        attempt_id: &PublicationAttemptId,
    ) -> Result<RecordedAttempt, FindAttemptError> {
        let mut tx = self.sessions.begin(Access::Read).await?;
        let row = sqlx::query(include_str!("../sql/find_attempt.sql"))
            .bind(attempt_id.as_str())
            .bind(&token.as_bytes()[..])
            .bind(&token.digest().as_bytes()[..])
            .fetch_optional(&mut *tx)
            .await
            .map_err(DatabaseFault::from)?;
        let Some(row) = row else {
            return Ok(RecordedAttempt::Unknown);
        };
        let row = StoredRow::new(&row)?;
        if row.get("closed")? {
            return Ok(if row.get("abandoned")? {
                RecordedAttempt::Lost
            } else {
                RecordedAttempt::Closed(row.name("state", DeliveryStateName::from_name)?)
            });
        }
        if !row.get::<bool>("held")? {
            return Ok(RecordedAttempt::Lost);
        }
        let event = read_event(&mut tx, row.event_id().as_str(), Document::Read).await?;
        Ok(RecordedAttempt::Open(Box::new(ClaimedDelivery {
            attempt: AttemptIdentity {
                event_id: row.event_id(),
                generation: row.number("delivery_generation", DeliveryGeneration::new)?,
                attempt_id: attempt_id.clone(),
                claim_token: *token,
            },
            owner: row.text("claim_owner", WorkerId::parse)?,
            event: Arc::new(event),
            claim_until: row.instant("claim_until")?,
            claim_count: row.count("claim_count")?,
            attempt_count: row.count("publication_attempt_count")?,
        })))
    }
}
