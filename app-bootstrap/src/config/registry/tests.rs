//! The registry against the code, its schemas, and planted rows.

use super::{Documents, Mode, Promotion, Registry, RegistryError};
use crate::config::{Environment, StartCode, Tuple};
use std::collections::{BTreeMap, BTreeSet};

fn embedded() -> &'static Registry {
    Registry::embedded().expect("the build's registry")
}

/// The build's registry with one text of one document replaced.
fn planted(
    change: impl FnOnce(&mut String, &mut String, &mut String),
) -> Result<Registry, RegistryError> {
    let Documents {
        cards,
        tuples,
        assertions,
    } = Documents::EMBEDDED;
    let (mut cards, mut tuples, mut assertions) =
        (cards.to_owned(), tuples.to_owned(), assertions.to_owned());
    change(&mut cards, &mut tuples, &mut assertions);
    Registry::read(Documents {
        cards: &cards,
        tuples: &tuples,
        assertions: &assertions,
    })
}

#[test]
fn code_and_registry_list_the_same_cards_under_the_same_keys() {
    let from_code: BTreeMap<_, _> = Tuple::ALL
        .iter()
        .flat_map(|tuple| tuple.cards())
        .map(|card| (card.id.to_owned(), card.key.to_owned()))
        .collect();
    let from_registry: BTreeMap<_, _> = embedded()
        .cards()
        .map(|card| (card.card_id.clone(), card.profile_key.clone()))
        .collect();
    assert_eq!(from_code, from_registry);
}

#[test]
fn code_and_registry_list_the_same_tuples_card_by_card() {
    let from_code: BTreeMap<_, Vec<_>> = Tuple::ALL
        .iter()
        .map(|tuple| {
            let cards = tuple.cards().iter().map(|card| card.id.to_owned());
            (tuple.id().to_owned(), cards.collect())
        })
        .collect();
    let from_registry: BTreeMap<_, _> = embedded()
        .tuples()
        .iter()
        .map(|tuple| (tuple.tuple_id.clone(), tuple.cards.clone()))
        .collect();
    assert_eq!(from_code, from_registry);
}

#[test]
fn nothing_is_promoted_and_no_evidence_is_claimed() {
    for card in embedded().cards() {
        assert_eq!(card.maturity.as_str(), "implemented-candidate");
        assert_eq!(card.evidence_fingerprint, "", "{}", card.card_id);
    }
    assert!(embedded().assertions().is_empty());
}

#[test]
fn owners_are_members_of_the_workspace() {
    let modules: serde_json::Value = serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../config/architecture/modules.json"
    )))
    .expect("JSON");
    let names: BTreeSet<_> = modules["modules"]
        .as_array()
        .expect("modules")
        .iter()
        .filter_map(|module| module["name"].as_str())
        .collect();
    for card in embedded().cards() {
        assert!(names.contains(card.owner.as_str()), "{}", card.owner);
    }
}

#[test]
fn an_unknown_card_or_tuple_is_named() {
    let error = planted(|_, tuples, _| {
        *tuples = tuples.replacen("no-network.v1", "no-such-card.v1", 1);
    })
    .expect_err("unknown");
    assert!(error.to_string().contains("no-such-card.v1"), "{error}");
    let error = planted(|_, _, assertions| {
        *assertions = format!(
            "schemaVersion: 1\nassertions:\n  - settingsDigest: \"{}\"\n    tupleId: \
             no-such-tuple.v1\n",
            "0".repeat(64)
        );
    })
    .expect_err("unknown");
    assert!(error.to_string().contains("no-such-tuple.v1"), "{error}");
}

#[test]
fn the_schemas_and_checks_refuse_what_is_not_a_registry() {
    for (from, to) in [
        ("maturity: \"implemented-candidate\"", "maturity: released"),
        (
            "maturity: \"implemented-candidate\"",
            "maturity: RELEASE-ELIGIBLE",
        ),
        (
            "cardVersion: 1",
            "cardVersion: 1\n    releaseEligible: true",
        ),
        ("cardVersion: 1", "cardVersion: 2"),
        ("    evidenceTasks: []\n", ""),
        (
            "evidenceFingerprint: \"\"",
            "evidenceFingerprint: \"later\"",
        ),
        ("cardVersion: 1", "cardVersion: 1\n    cardVersion: 1"),
        ("schemaVersion: 1", "schemaVersion: 2"),
    ] {
        let outcome = planted(|cards, _, _| {
            assert!(cards.contains(from), "{from}");
            *cards = cards.replacen(from, to, 1);
        });
        assert!(outcome.is_err(), "{from} became {to}");
    }
    for wildcard in ["\"*\"", "\"kafka-*.v1\"", "\"\""] {
        let outcome = planted(|_, tuples, _| {
            *tuples = tuples.replacen("\"no-network.v1\"", wildcard, 1);
        });
        assert!(outcome.is_err(), "{wildcard}");
    }
    let twice = planted(|_, tuples, _| {
        *tuples = tuples.replace(
            "local-kafka-window-development.v1",
            "local-kafka-development.v1",
        );
    });
    assert_eq!(
        twice.expect_err("twice"),
        RegistryError::Repeated("local-kafka-development.v1".to_owned())
    );
}

fn admit(
    registry: &Registry,
    mode: Mode,
    environment: Environment,
    tuple: Tuple,
) -> Result<Promotion, StartCode> {
    let row = registry.tuple(tuple.id()).expect("listed");
    registry
        .admit(mode, environment, row)
        .map_err(|refusal| refusal.code)
}

#[test]
fn candidates_are_active_in_development_and_qualified_elsewhere() {
    let registry = embedded();
    for tuple in Tuple::ALL {
        assert_eq!(
            admit(registry, Mode::Deployed, Environment::Development, tuple),
            Ok(Promotion::NotPromoted)
        );
    }
    let production = |mode, tuple| admit(registry, mode, Environment::Production, tuple);
    assert_eq!(
        production(Mode::Deployed, Tuple::Embedded),
        Err(StartCode::TupleNotPromoted)
    );
    assert_eq!(
        production(Mode::QualificationOnly, Tuple::Embedded),
        Ok(Promotion::QualificationOnly)
    );
    for mode in [Mode::Deployed, Mode::QualificationOnly] {
        assert_eq!(
            production(mode, Tuple::LocalKafka),
            Err(StartCode::ProductionPlaintext)
        );
    }
}

/// Rows promoted one step after the other, so that each further rule is reached.
#[test]
fn promotion_needs_maturity_evidence_and_operator_control() {
    let production = |registry: &Registry| {
        admit(
            registry,
            Mode::Deployed,
            Environment::Production,
            Tuple::Embedded,
        )
    };
    let eligible = |text: &str| text.replace("implemented-candidate", "release-eligible");
    let evidence = format!("evidenceFingerprint: \"{}\"", "a".repeat(64));
    let evident = |text: &str| eligible(text).replace("evidenceFingerprint: \"\"", &evidence);
    let controlled = |text: &str| {
        evident(text).replace(
            "operatorControlProfile: \"none\"",
            "operatorControlProfile: \"authenticated\"",
        )
    };
    for (step, expected) in [
        (
            planted(|cards, _, _| *cards = eligible(cards)),
            Err(StartCode::EvidenceMissing),
        ),
        (
            planted(|cards, _, _| *cards = evident(cards)),
            Err(StartCode::OperatorControlMissing),
        ),
        (
            planted(|cards, _, _| *cards = controlled(cards)),
            Ok(Promotion::Promoted),
        ),
        (
            planted(|cards, _, _| {
                *cards = controlled(cards).replacen(
                    "maturity: \"release-eligible\"",
                    "maturity: \"implemented-candidate\"",
                    1,
                );
            }),
            Err(StartCode::TupleNotPromoted),
        ),
    ] {
        assert_eq!(production(&step.expect("reads")), expected);
    }
}

#[test]
fn a_card_that_is_not_implemented_or_not_acknowledged_runs_nowhere() {
    let unbuilt = planted(|cards, _, _| {
        *cards = cards.replacen(
            "maturity: \"implemented-candidate\"",
            "maturity: \"not-implemented\"",
            1,
        );
    })
    .expect("reads");
    let deaf = planted(|cards, _, _| {
        *cards = cards.replace("broker-acknowledged-outcome", "fire-and-forget");
    })
    .expect("reads");
    for (registry, code) in [
        (unbuilt, StartCode::CardNotImplemented),
        (deaf, StartCode::ProducerNotAcknowledged),
    ] {
        for mode in [Mode::Deployed, Mode::QualificationOnly] {
            assert_eq!(
                admit(&registry, mode, Environment::Development, Tuple::Embedded),
                Err(code)
            );
        }
    }
}

#[test]
fn candidates_under_authenticated_control_are_not_active_in_development() {
    let registry = planted(|cards, _, _| {
        *cards = cards.replace(
            "operatorControlProfile: \"none\"",
            "operatorControlProfile: \"authenticated\"",
        );
    })
    .expect("reads");
    assert_eq!(
        admit(
            &registry,
            Mode::Deployed,
            Environment::Development,
            Tuple::Embedded
        ),
        Err(StartCode::TupleNotPromoted)
    );
}
