//! Whether a listed tuple may run where it is asked for.
//!
//! Invariant: in production only release-eligible cards with evidence are ACTIVE; in development
//! candidates are, and only under the operator control of development. `QUALIFICATION_ONLY` waives
//! maturity and operator control, never transport protection (requirement 004 §§10.3–10.5).

use super::{CardRow, Maturity, Registry, RegistryError, TupleRow};
use crate::config::{Environment, StartCode};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A deployment.
    Deployed,
    /// A test harness that qualifies candidates; no key and no command leads here.
    QualificationOnly,
}

/// What a running tuple may say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// Every card is release-eligible.
    Promoted,
    /// Candidates in development.
    NotPromoted,
    /// Candidates under qualification; never ready.
    QualificationOnly,
}

impl Promotion {
    /// As the descriptor shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Promoted => "promoted",
            Self::NotPromoted | Self::QualificationOnly => "not promoted",
        }
    }
}

/// Why a tuple may not run there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: StartCode,
    /// The key below `app.messaging` that is at fault.
    pub key: String,
    /// The rule, with the cards that break it.
    pub rule: String,
}

/// The word by which a producer card promises an acknowledged outcome.
const ACKNOWLEDGED: &str = "broker-acknowledged-outcome";
const PRODUCER_KEY: &str = "publication.producer-profile";
const OPERATOR_KEY: &str = "outbox.operator-control-profile";

impl Registry {
    /// Decides.
    ///
    /// # Errors
    /// [`Refusal`] with its code.
    pub fn admit(
        &self,
        mode: Mode,
        environment: Environment,
        tuple: &TupleRow,
    ) -> Result<Promotion, Refusal> {
        let cards = tuple
            .cards
            .iter()
            .map(|id| self.card(id))
            .collect::<Result<Vec<_>, RegistryError>>()
            .map_err(|error| Refusal {
                code: StartCode::CardUnknown,
                key: PRODUCER_KEY.to_owned(),
                rule: error.to_string(),
            })?;
        if let Some(card) = with_maturity(&cards, |found| found == Maturity::NotImplemented) {
            return Err(refusal(
                StartCode::CardNotImplemented,
                &card.profile_key,
                format!("{} is not implemented", card.card_id),
            ));
        }
        acknowledged(&cards)?;
        let no_control = cards
            .iter()
            .any(|card| card.operator_control_profile.as_deref() == Some("none"));
        let candidate = with_maturity(&cards, |found| found != Maturity::ReleaseEligible);
        if environment == Environment::Production {
            protected(&cards)?;
        }
        match (mode, environment, candidate) {
            (Mode::QualificationOnly, _, _) => Ok(Promotion::QualificationOnly),
            (Mode::Deployed, Environment::Production, Some(card)) => Err(refusal(
                StartCode::TupleNotPromoted,
                "environment",
                format!(
                    "is `production`, but {} of tuple {} is {}; ACTIVE needs every card \
                     release-eligible",
                    card.card_id,
                    tuple.tuple_id,
                    card.maturity.as_str()
                ),
            )),
            (Mode::Deployed, Environment::Production, None) => {
                evident(&cards)?;
                if no_control {
                    return Err(refusal(
                        StartCode::OperatorControlMissing,
                        OPERATOR_KEY,
                        "names no authenticated operator control, which production needs"
                            .to_owned(),
                    ));
                }
                Ok(Promotion::Promoted)
            }
            (Mode::Deployed, Environment::Development, Some(_)) if no_control => {
                Ok(Promotion::NotPromoted)
            }
            (Mode::Deployed, Environment::Development, Some(card)) => Err(refusal(
                StartCode::TupleNotPromoted,
                &card.profile_key,
                format!(
                    "{} is {}; candidates are ACTIVE only in tuples with \
                     operator-control-none-development.v1",
                    card.card_id,
                    card.maturity.as_str()
                ),
            )),
            (Mode::Deployed, Environment::Development, None) => Ok(Promotion::Promoted),
        }
    }
}

fn refusal(code: StartCode, key: &str, rule: String) -> Refusal {
    Refusal {
        code,
        key: key.to_owned(),
        rule,
    }
}

fn with_maturity<'c>(
    cards: &[&'c CardRow],
    matches: impl Fn(Maturity) -> bool,
) -> Option<&'c CardRow> {
    cards.iter().find(|card| matches(card.maturity)).copied()
}

fn acknowledged(cards: &[&CardRow]) -> Result<(), Refusal> {
    let producers = cards.iter().filter(|card| card.profile_key == PRODUCER_KEY);
    let promises = |card: &&&CardRow| card.guarantees.iter().any(|word| word == ACKNOWLEDGED);
    match producers.filter(promises).count() {
        1 => Ok(()),
        _ => Err(refusal(
            StartCode::ProducerNotAcknowledged,
            PRODUCER_KEY,
            "polling needs one producer that reports the broker's acknowledgement".to_owned(),
        )),
    }
}

fn protected(cards: &[&CardRow]) -> Result<(), Refusal> {
    match cards
        .iter()
        .find(|card| card.security_profile.as_deref() == Some("plaintext"))
    {
        None => Ok(()),
        Some(card) => Err(refusal(
            StartCode::ProductionPlaintext,
            &card.profile_key,
            format!(
                "{} protects nothing and is refused in production",
                card.card_id
            ),
        )),
    }
}

fn evident(cards: &[&CardRow]) -> Result<(), Refusal> {
    match cards
        .iter()
        .find(|card| card.evidence_fingerprint.is_empty())
    {
        None => Ok(()),
        Some(card) => Err(refusal(
            StartCode::EvidenceMissing,
            &card.profile_key,
            format!("{} is release-eligible without evidence", card.card_id),
        )),
    }
}
