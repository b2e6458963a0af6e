//! Reading the bound topics back from Kafka.
//!
//! Invariant: what is counted is what the cluster hands out, from the first record to the end that
//! it had when the reading began.

use super::account::BrokerView;
use super::error::DemoError;
use super::progress::Progress;
use crate::compose::Compiled;
use crate::config::ProviderProfile;
use application_core::event::EventIdentities;
use domain_core::hashing::{PartitionKey, envelope_sha256};
use outbound_messaging_kafka::{ReadBackError, ReadBackRecord, read_back_topic};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long the cluster may take to hand out everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads every topic that a destination of the profile is bound to.
pub(super) async fn read_back(
    compiled: &Compiled,
    progress: &Progress,
) -> Result<BrokerView, DemoError> {
    let ProviderProfile::Kafka(kafka) = &compiled.profile.provider else {
        return Ok(BrokerView::at("no broker".to_owned()));
    };
    let topics: BTreeSet<String> = compiled
        .profile
        .destinations
        .iter()
        .filter_map(|destination| destination.topic.as_ref())
        .map(|topic| topic.name.clone())
        .collect();
    let destinations: BTreeSet<(String, String)> = compiled
        .profile
        .destinations
        .iter()
        .filter_map(|one| {
            let topic = one.topic.as_ref()?;
            Some((one.destination.as_str().to_owned(), topic.name.clone()))
        })
        .collect();
    let bar = progress.bar(None, "read back");
    let codec = Arc::clone(&compiled.codec);
    let servers = kafka.bootstrap_servers.clone();
    let counted = bar.clone();
    let read = move || {
        let mut view = BrokerView::at(String::new());
        let mut ends = Vec::new();
        for topic in topics {
            let partitions = read_back_topic(&servers, &topic, PATIENCE, |record| {
                counted.inc(1);
                match codec.read_identities(record.value) {
                    Ok(identities) if is_in_place(record, &identities, &destinations) => {
                        view.saw(identities.event_id, envelope_sha256(record.value));
                    }
                    Ok(_) => view.saw_misplaced(),
                    Err(_) => view.saw_foreign(),
                }
            })?;
            let partitions: Vec<_> = partitions
                .iter()
                .map(|(partition, end)| format!("{partition}@{end}"))
                .collect();
            ends.push(format!("{topic} {}", partitions.join(" ")));
        }
        view.position = ends.join(", ");
        Ok::<_, ReadBackError>(view)
    };
    let view = tokio::task::spawn_blocking(read)
        .await
        .map_err(|error| DemoError::Broker(Box::new(error)))?
        .map_err(|error| DemoError::Broker(Box::new(error)))?;
    bar.finish_and_clear();
    Ok(view)
}

/// Whether key, headers and topic say what the document says.
fn is_in_place(
    record: &ReadBackRecord<'_>,
    document: &EventIdentities,
    destinations: &BTreeSet<(String, String)>,
) -> bool {
    let key = PartitionKey::derive(
        &document.tenant_scope,
        &document.destination,
        &document.aggregate,
    );
    let place = (
        document.destination.as_str().to_owned(),
        record.topic.to_owned(),
    );
    record.key == Some(key.as_bytes())
        && record.id == Some(document.event_id.as_str())
        && record.contract_id == Some(document.contract_id.as_str())
        && record.payload_version == Some(document.payload_version.to_string().as_str())
        && destinations.contains(&place)
}
