//! Stable codes of what stops a start.
//!
//! Invariant: a code is never reused for another cause; every refusal of configuration and
//! composition has one, and `docs/registries/start-codes.md` lists exactly these (requirement 004
//! §21.3).

macro_rules! codes {
    ($($(#[$doc:meta])+ $variant:ident => $text:literal,)+) => {
        /// Why a process does not start.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum StartCode {
            $($(#[$doc])+ $variant,)+
        }

        impl StartCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

codes! {
    /// The profile, or a file that it names, cannot be read.
    FileUnreadable => "PROFILE_UNREADABLE",
    /// It is not TOML, or a key is given twice.
    Syntax => "PROFILE_SYNTAX",
    /// A key that nothing reads, `acks`, `retries` and `max-in-flight` among them.
    UnknownKey => "UNKNOWN_KEY",
    /// A required key or section is missing.
    KeyMissing => "KEY_MISSING",
    /// A value breaks a rule of its own.
    ValueInvalid => "VALUE_INVALID",
    /// A key that exists, but not beside the others that are given.
    KeyWithoutUse => "KEY_WITHOUT_USE",
    /// ACTIVE, and the producer card is blank or unknown.
    ProviderUnknown => "PROVIDER_UNKNOWN",
    /// ACTIVE, and another card is blank or unknown.
    CardUnknown => "CARD_UNKNOWN",
    /// Known cards that make no listed tuple.
    TupleNotListed => "TUPLE_NOT_LISTED",
    /// The claim card belongs to no listed tuple with that producer.
    ClaimCardNotListed => "CLAIM_CARD_NOT_LISTED",
    /// A card of the tuple is listed but not implemented.
    CardNotImplemented => "CARD_NOT_IMPLEMENTED",
    /// ACTIVE needs cards of a greater maturity than the tuple has.
    TupleNotPromoted => "TUPLE_NOT_PROMOTED",
    /// A release-eligible card without the fingerprint of its evidence.
    EvidenceMissing => "EVIDENCE_MISSING",
    /// The registry or its schema is broken; only a defect of the build.
    RegistryInvalid => "REGISTRY_INVALID",
    /// Polling with a producer that does not report the broker's acknowledgement.
    ProducerNotAcknowledged => "PRODUCER_NOT_ACKNOWLEDGED",
    /// Production polling without authenticated operator control.
    OperatorControlMissing => "OPERATOR_CONTROL_MISSING",
    /// Production over a connection without protection.
    ProductionPlaintext => "PRODUCTION_PLAINTEXT",
    /// A secret in the profile itself instead of a reference to it.
    LiteralCredential => "LITERAL_CREDENTIAL",
    /// ACTIVE without a broker to ask.
    BootstrapServersEmpty => "BOOTSTRAP_SERVERS_EMPTY",
    /// ACTIVE without a contract.
    ContractsEmpty => "CONTRACTS_EMPTY",
    /// ACTIVE without a destination.
    DestinationsEmpty => "DESTINATIONS_EMPTY",
    /// Polling without the settings of its store, delivery or claim card.
    ClaimSettingsMissing => "CLAIM_SETTINGS_MISSING",
    /// Only polling exists.
    DispatchModeUnknown => "DISPATCH_MODE_UNKNOWN",
    /// DISABLED with parts of an active profile.
    DisabledNotEmpty => "DISABLED_NOT_EMPTY",
    /// Timeouts of one send that do not fit into each other.
    DeadlineRelation => "DEADLINE_RELATION",
    /// Budgets of an attempt that do not fit into each other or into the lease.
    BudgetRelation => "BUDGET_RELATION",
    /// Ages and horizons that do not fit into each other.
    HorizonRelation => "HORIZON_RELATION",
    /// What a contract allows exceeds destination, topic, request, buffer or provider.
    BytesExceedBound => "BYTES_EXCEED_BOUND",
    /// A topic, binding revision, contract or schema id that is given twice.
    DuplicateId => "DUPLICATE_ID",
    /// A schema, catalog or lock that is not the one that was pinned.
    HashMismatch => "HASH_MISMATCH",
    /// A contract or manifest that is refused for another reason.
    ContractInvalid => "CONTRACT_INVALID",
    /// A destination that is refused for another reason.
    DestinationInvalid => "DESTINATION_INVALID",
    /// A reference to a secret that leads nowhere.
    SecretUnresolved => "SECRET_UNRESOLVED",
    /// The store cannot be opened.
    StoreUnavailable => "STORE_UNAVAILABLE",
    /// Business, append and relay, or store and profile, are not one transaction resource.
    TransactionResourceMismatch => "TRANSACTION_RESOURCE_MISMATCH",
    /// The store's ACTIVE epoch gives publication to somebody else.
    EpochAuthorityMismatch => "EPOCH_AUTHORITY_MISMATCH",
    /// The provider cannot be opened.
    ProviderUnavailable => "PROVIDER_UNAVAILABLE",
    /// The descriptor's socket cannot be made.
    DescriptorSocket => "DESCRIPTOR_SOCKET",
}

impl std::fmt::Display for StartCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
