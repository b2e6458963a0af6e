//! The capability cards that exist and the tuples they make.
//!
//! Invariant: a process is one listed tuple, card by card; nothing is inferred (requirement 004
//! §10). A tuple that is not promoted says so.

/// One card of a tuple, under the profile key that selects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// The key that selects it.
    pub key: &'static str,
    /// Its id.
    pub id: &'static str,
}

/// The tuples that this build can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tuple {
    /// SQLite and the journal: development and single-node use, never promoted.
    Embedded,
    /// PostgreSQL and Kafka without transport security: development, never promoted.
    LocalKafka,
    /// The same with the window claim card: many scopes in flight at once.
    LocalKafkaWindow,
}

const fn card(key: &'static str, id: &'static str) -> Card {
    Card { key, id }
}

const EMBEDDED: &[Card] = &[
    card(
        "publication.semantic-profile",
        "messaging-outbox-publish.v1",
    ),
    card("publication.producer-profile", "journal-acknowledged.v1"),
    card("outbox.polling-profile", "sqlite-polling-outbox.v1"),
    card("outbox.claim-profile", "sqlite-single-writer-claim.v1"),
    card(
        "publication.serialization-profile",
        "json-schema-envelope.v1",
    ),
    card("publication.topic-profile", "local-journal-file.v1"),
    card("journal.security-profile", "no-network.v1"),
    card(
        "publication.ordering-profile",
        "per-key-normal-path-sequence-detectable.v1",
    ),
    card(
        "outbox.transaction-resource-profile",
        "same-sqlite-transaction-resource.v1",
    ),
    card(
        "outbox.operator-control-profile",
        "operator-control-none-development.v1",
    ),
];

const LOCAL_KAFKA: &[Card] = &[
    card(
        "publication.semantic-profile",
        "messaging-outbox-publish.v1",
    ),
    card(
        "publication.producer-profile",
        "kafka-rdkafka-acknowledged-idempotent.v1",
    ),
    card("outbox.polling-profile", "postgresql-polling-outbox.v2"),
    card("outbox.claim-profile", "postgresql-per-record-jit-claim.v1"),
    card(
        "publication.serialization-profile",
        "json-schema-envelope.v1",
    ),
    card("publication.topic-profile", "external-topic-validated.v1"),
    card("kafka.security-profile", "local-plaintext.v1"),
    card(
        "publication.compression-profile",
        "kafka-compression-none.v1",
    ),
    card(
        "publication.ordering-profile",
        "per-key-normal-path-sequence-detectable.v1",
    ),
    card(
        "outbox.transaction-resource-profile",
        "same-postgresql-transaction-resource.v1",
    ),
    card(
        "outbox.operator-control-profile",
        "operator-control-none-development.v1",
    ),
];

const LOCAL_KAFKA_WINDOW: &[Card] = &[
    card(
        "publication.semantic-profile",
        "messaging-outbox-publish.v1",
    ),
    card(
        "publication.producer-profile",
        "kafka-rdkafka-acknowledged-idempotent.v1",
    ),
    card("outbox.polling-profile", "postgresql-polling-outbox.v2"),
    card("outbox.claim-profile", "postgresql-scope-window-claim.v1"),
    card(
        "publication.serialization-profile",
        "json-schema-envelope.v1",
    ),
    card("publication.topic-profile", "external-topic-validated.v1"),
    card("kafka.security-profile", "local-plaintext.v1"),
    card(
        "publication.compression-profile",
        "kafka-compression-none.v1",
    ),
    card(
        "publication.ordering-profile",
        "per-key-normal-path-sequence-detectable.v1",
    ),
    card(
        "outbox.transaction-resource-profile",
        "same-postgresql-transaction-resource.v1",
    ),
    card(
        "outbox.operator-control-profile",
        "operator-control-none-development.v1",
    ),
];

impl Tuple {
    /// Every tuple.
    pub const ALL: [Self; 3] = [Self::Embedded, Self::LocalKafka, Self::LocalKafkaWindow];

    /// Its row in `profile-compatibility.yaml`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Embedded => "embedded-development.v1",
            Self::LocalKafka => "local-kafka-development.v1",
            Self::LocalKafkaWindow => "local-kafka-window-development.v1",
        }
    }

    /// Its cards.
    pub fn cards(self) -> &'static [Card] {
        match self {
            Self::Embedded => EMBEDDED,
            Self::LocalKafka => LOCAL_KAFKA,
            Self::LocalKafkaWindow => LOCAL_KAFKA_WINDOW,
        }
    }

    /// The card id under a key.
    pub fn card(self, key: &str) -> Option<&'static str> {
        self.cards()
            .iter()
            .find(|card| card.key == key)
            .map(|card| card.id)
    }

    /// The tuple with this producer card and this claim card, or one with the producer card alone;
    /// the other cards must then match exactly.
    pub(super) fn of_cards(producer: &str, claim: &str) -> Option<Self> {
        let made_by = |tuple: &Self| tuple.card("publication.producer-profile") == Some(producer);
        let claims = |tuple: &Self| tuple.card("outbox.claim-profile") == Some(claim);
        let mut candidates = Self::ALL.into_iter().filter(made_by);
        candidates
            .clone()
            .find(claims)
            .or_else(|| candidates.next())
    }
}
