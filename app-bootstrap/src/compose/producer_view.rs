//! How the producer stands, for whoever asks.
//!
//! Invariant: looking changes nothing and keeps nothing open.

use domain_core::identity::ProducerGeneration;
use outbound_journal::Journal;
use outbound_messaging_kafka::ProducerReadiness;
use std::sync::Weak;
use tokio::sync::watch;

/// A look at the producer of this process.
pub enum ProducerView {
    /// The journal's.
    Journal {
        /// The file, while it is open.
        journal: Weak<Journal>,
        /// Its one generation.
        generation: ProducerGeneration,
    },
    /// Kafka's.
    Kafka(watch::Receiver<ProducerReadiness>),
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerStanding {
    /// The generation at work, where one is.
    pub generation: Option<ProducerGeneration>,
    /// Why it cannot send, if it cannot.
    pub reason: Option<&'static str>,
}

impl ProducerView {
    /// Looks.
    pub fn standing(&self) -> ProducerStanding {
        match self {
            Self::Journal {
                journal,
                generation,
            } => {
                let open = journal.upgrade();
                let works = open.is_some_and(|journal| journal.failure().is_none());
                ProducerStanding {
                    generation: Some(generation.clone()),
                    reason: (!works).then_some("journal-takes-no-record"),
                }
            }
            Self::Kafka(readiness) => match &*readiness.borrow() {
                ProducerReadiness::Ready(generation) => ProducerStanding {
                    generation: Some(generation.clone()),
                    reason: None,
                },
                other => ProducerStanding {
                    generation: None,
                    reason: Some(why_not(other)),
                },
            },
        }
    }
}

fn why_not(readiness: &ProducerReadiness) -> &'static str {
    match readiness {
        ProducerReadiness::NotStarted => "producer-not-attested",
        ProducerReadiness::BrokerAway => "broker-away",
        ProducerReadiness::Recovering(_) => "producer-recovering",
        ProducerReadiness::Rotating => "producer-rotating",
        ProducerReadiness::AwaitingPermits(_) => "producer-awaits-permits",
        ProducerReadiness::HaltedByMisroute => "producer-halted-by-misroute",
        ProducerReadiness::Closing => "producer-closing",
        ProducerReadiness::Ready(_) => "producer-ready",
    }
}
