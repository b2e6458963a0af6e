//! Raw profile to typed profile: every value checked, every relation proved.
//!
//! Invariant: what compiles is one listed tuple with finite budgets that fit into each other; the
//! error of what does not names the inequality (requirement 004 §§16.6, 17.3, 21.2–21.3).

mod destinations;
mod origin;
mod outbox;
mod provider;
mod socket;
mod store;
mod tuple;
mod upkeep;
mod window;

use super::cards::Tuple;
use super::code::StartCode;
use super::error::ConfigError;
use super::profile::{ActiveProfile, ContractBounds, Environment, ExpectedState, Profile};
use super::raw::{RawFile, RawMessaging, RawOverride, read_endpoints};
use super::registry::Mode;
use application_core::contract::ContractKey;
use domain_core::hashing::Sha256Digest;
use domain_core::identity::{ContractId, PayloadVersion};
use origin::Origin;
use std::path::Path;

/// Compiles a raw profile.
pub(super) fn compile(
    file: &Path,
    raw: RawFile,
    mode: Mode,
    settings: Sha256Digest,
) -> Result<Profile, ConfigError> {
    let at = Origin { file };
    let messaging = raw.app.messaging;
    let environment = match messaging.environment.as_str() {
        "production" => Environment::Production,
        "development" => Environment::Development,
        _ => {
            return Err(at.refuse("environment", "is `production` or `development`"));
        }
    };
    let state = match messaging.expected_state.as_str() {
        "DISABLED" => {
            disabled(&at, &messaging)?;
            ExpectedState::Disabled
        }
        "ACTIVE" => {
            let asked = Asked {
                environment,
                mode,
                settings,
            };
            ExpectedState::Active(Box::new(active(&at, asked, messaging)?))
        }
        _ => return Err(at.refuse("expected-state", "is `ACTIVE` or `DISABLED`")),
    };
    Ok(Profile {
        file: file.to_owned(),
        environment,
        state,
    })
}

fn disabled(at: &Origin<'_>, messaging: &RawMessaging) -> Result<(), ConfigError> {
    let active_parts = [
        ("contracts", messaging.contracts.is_some()),
        ("publication", messaging.publication.is_some()),
        ("outbox", messaging.outbox.is_some()),
        ("store", messaging.store.is_some()),
        ("journal", messaging.journal.is_some()),
        ("kafka", messaging.kafka.is_some()),
        ("endpoints-file", messaging.endpoints_file.is_some()),
        ("descriptor-socket", messaging.descriptor_socket.is_some()),
        ("destinations", !messaging.destinations.is_empty()),
    ];
    match active_parts.into_iter().find(|(_, present)| *present) {
        Some((key, _)) => {
            let rule = "is not allowed while expected-state is DISABLED";
            Err(at.refuse_as(StartCode::DisabledNotEmpty, key, rule))
        }
        None => Ok(()),
    }
}

/// What is asked for beside the file's own text.
struct Asked {
    environment: Environment,
    mode: Mode,
    settings: Sha256Digest,
}

fn active(
    at: &Origin<'_>,
    asked: Asked,
    messaging: RawMessaging,
) -> Result<ActiveProfile, ConfigError> {
    let publication = at.required("publication", messaging.publication)?;
    let outbox = messaging
        .outbox
        .ok_or_else(|| polling_needs(at, "outbox"))?;
    let store = messaging.store.ok_or_else(|| polling_needs(at, "store"))?;
    store::refuse_literals(at, &store)?;
    let tuple = tuple::select(
        at,
        &publication,
        &outbox,
        messaging.journal.as_ref(),
        messaging.kafka.as_ref(),
    )?;
    provider::refuse_open_channel(at, asked.environment, messaging.kafka.as_ref())?;
    let promotion = tuple::admit(at, asked.mode, asked.environment, tuple)?;
    let contracts = at.required("contracts", messaging.contracts)?;
    if contracts.manifests.is_empty() {
        let rule = "is empty while expected-state is ACTIVE";
        return Err(at.refuse_as(StartCode::ContractsEmpty, "contracts.manifests", rule));
    }
    let descriptor_socket = socket::compile(at, messaging.descriptor_socket.as_deref())?;
    let endpoints = messaging
        .endpoints_file
        .map(|path| read_endpoints(&at.path(&path)))
        .transpose()?;
    let (provider, timing) = match tuple {
        Tuple::Embedded => {
            if endpoints.is_some() {
                return Err(at.unused("endpoints-file", "is not used by the embedded tuple"));
            }
            provider::journal(at, at.required("journal", messaging.journal)?)?
        }
        Tuple::LocalKafka | Tuple::LocalKafkaWindow => provider::kafka(
            at,
            at.required("kafka", messaging.kafka)?,
            endpoints
                .as_ref()
                .map(|endpoints| endpoints.kafka.bootstrap_servers.clone()),
        )?,
    };
    let destinations = destinations::compile(at, tuple, messaging.destinations)?;
    let overrides = contracts
        .overrides
        .iter()
        .map(|bounds| contract_bounds(at, bounds))
        .collect::<Result<_, _>>()?;
    Ok(ActiveProfile {
        file: at.file.to_owned(),
        environment: asked.environment,
        tuple,
        promotion,
        settings_digest: asked.settings,
        manifests: contracts
            .manifests
            .iter()
            .map(|path| at.path(path))
            .collect(),
        lock_file: at.path(&contracts.lock_file),
        overrides,
        outbox: outbox::compile(at, tuple, &outbox, &timing)?,
        store: store::compile(
            at,
            tuple,
            store,
            endpoints.map(|endpoints| endpoints.database.url),
        )?,
        provider,
        descriptor_socket,
        destinations,
    })
}

/// Polling without the settings of its store, deliveries and claims.
fn polling_needs(at: &Origin<'_>, section: &str) -> ConfigError {
    let rule = "is required while expected-state is ACTIVE";
    at.refuse_as(StartCode::ClaimSettingsMissing, section, rule)
}

fn contract_bounds(at: &Origin<'_>, raw: &RawOverride) -> Result<ContractBounds, ConfigError> {
    let refuse = |error: domain_core::identity::IdentityError| {
        at.refuse("contracts.overrides", error.to_string())
    };
    Ok(ContractBounds {
        contract: ContractKey {
            contract_id: ContractId::parse(raw.contract_id.as_str()).map_err(refuse)?,
            payload_version: PayloadVersion::new(raw.payload_version).map_err(refuse)?,
        },
        maximum_payload_bytes: raw.maximum_payload_bytes,
        maximum_envelope_bytes: raw.maximum_envelope_bytes,
    })
}
