//! Reading the bound topics back from Kafka.
//!
//! Invariant: what is counted is what the cluster hands out, from the first record to the end that
//! it had when the reading began.

use super::account::BrokerView;
use super::error::DemoError;
use super::progress::Progress;
use crate::compose::Compiled;
use crate::config::ProviderProfile;
use domain_core::hashing::envelope_sha256;
use outbound_messaging_kafka::{ReadBackError, read_back_topic};
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
    let bar = progress.bar(None, "read back");
    let codec = Arc::clone(&compiled.codec);
    let servers = kafka.bootstrap_servers.clone();
    let counted = bar.clone();
    let read = move || {
        let mut view = BrokerView::at(String::new());
        let mut ends = Vec::new();
        for topic in topics {
            let partitions = read_back_topic(&servers, &topic, PATIENCE, |record| {
                let value = record.value;
                counted.inc(1);
                match codec.read_identities(value) {
                    Ok(identities) => view.saw(identities.event_id, envelope_sha256(value)),
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
