//! Configuration can only tighten a contract (requirement 004 §13.3).
//!
//! Invariant: a relaxing override stops the start, a tightening one binds appends and leaves
//! documents that are already stored readable.

use crate::fixture::{
    CONTRACT, Contract, DESTINATION, binding, compile, contract, contract_of, deployment, document,
    draft, key, rejected, sample,
};
use application_core::contract::{CatalogError, OrderingRequirement};
use application_core::ports::EnvelopeCodec;
use domain_core::identity::TenantMode;
use outbound_contract_json::{BindError, BoundCatalog, ContractOverride, JsonEnvelopeCodec};
use std::sync::Arc;

fn none() -> ContractOverride {
    ContractOverride {
        contract: key(CONTRACT, 1),
        maximum_payload_bytes: None,
        maximum_envelope_bytes: None,
        ordering: None,
    }
}

fn bind(
    contracts: &[Contract],
    overrides: Vec<ContractOverride>,
) -> Result<BoundCatalog, BindError> {
    let mut deployment = deployment(vec![binding(DESTINATION, "r1", true)]);
    deployment.overrides = overrides;
    compile(contracts).bind(deployment)
}

fn refused(contracts: &[Contract], overrides: Vec<ContractOverride>) -> BindError {
    bind(contracts, overrides)
        .map(|_| ())
        .expect_err("must be refused")
}

#[test]
fn relaxing_overrides_are_refused() {
    let one = [contract()];
    assert_eq!(
        refused(
            &one,
            vec![ContractOverride {
                maximum_payload_bytes: Some(4097),
                ..none()
            }]
        ),
        BindError::RelaxesBound {
            contract: key(CONTRACT, 1),
            bound: "maximum payload bytes",
            declared: 4096,
            configured: 4097,
        }
    );
    assert_eq!(
        refused(
            &one,
            vec![ContractOverride {
                maximum_envelope_bytes: Some(8193),
                ..none()
            }]
        ),
        BindError::RelaxesBound {
            contract: key(CONTRACT, 1),
            bound: "maximum envelope bytes",
            declared: 8192,
            configured: 8193,
        }
    );
    assert_eq!(
        refused(
            &one,
            vec![ContractOverride {
                ordering: Some(OrderingRequirement::None),
                ..none()
            }]
        ),
        BindError::RelaxesOrdering {
            contract: key(CONTRACT, 1)
        }
    );
    assert_eq!(
        refused(&one, vec![none(), none()]),
        BindError::OverrideTwice(key(CONTRACT, 1))
    );
    let stranger = key("golden.sample.unknown", 1);
    assert_eq!(
        refused(
            &one,
            vec![ContractOverride {
                contract: stranger.clone(),
                ..none()
            }]
        ),
        BindError::OverrideOfUnknown(stranger)
    );
}

#[test]
fn overrides_that_leave_a_contradiction_are_refused() {
    let unordered = |id: &str| {
        contract_of(id, 1, DESTINATION, "sample").with(|d| d.ordering = OrderingRequirement::None)
    };
    struct Other;
    let both = [
        unordered(CONTRACT),
        unordered("golden.sample.removed").with_type::<Other>(),
    ];
    let ordered = ContractOverride {
        ordering: Some(OrderingRequirement::AggregateSequence),
        ..none()
    };
    assert!(matches!(
        refused(&both, vec![ordered.clone()]),
        BindError::Contradiction(CatalogError::MixedOrdering { .. })
    ));
    let tightened = bind(&both[..1], vec![ordered]).expect("tightens");
    let codec = JsonEnvelopeCodec::new(Arc::new(tightened), TenantMode::Disabled);
    assert!(
        codec
            .encode(&draft(sample()))
            .expect("encodes")
            .ordering_required()
    );
    assert!(matches!(
        refused(
            &[contract()],
            vec![ContractOverride {
                maximum_payload_bytes: Some(0),
                ..none()
            }]
        ),
        BindError::Contradiction(CatalogError::Descriptor(_))
    ));
}

#[test]
fn a_tightened_bound_binds_appends_and_not_readers() {
    let stored = document();
    let payload_bytes = 100;
    let tightened = bind(
        &[contract()],
        vec![ContractOverride {
            maximum_payload_bytes: Some(payload_bytes),
            ..none()
        }],
    )
    .expect("tightens");
    let codec = JsonEnvelopeCodec::new(Arc::new(tightened), TenantMode::Disabled);
    let rejection = rejected(codec.encode(&draft(sample())).expect_err("too large"));
    assert_eq!(rejection.rule.to_string(), "maximum payload bytes is 100");
    assert!(codec.decode(stored.as_bytes()).is_ok());
}

#[test]
fn a_tightened_contract_fits_a_smaller_provider() {
    let mut deployment = deployment(vec![{
        let mut binding = binding(DESTINATION, "r1", true);
        binding.maximum_envelope_bytes = 800;
        binding
    }]);
    deployment.provider.maximum_envelope_bytes = 810;
    assert!(compile(&[contract()]).bind(deployment.clone()).is_err());
    deployment.overrides = vec![ContractOverride {
        maximum_payload_bytes: Some(360),
        maximum_envelope_bytes: Some(800),
        ..none()
    }];
    assert!(compile(&[contract()]).bind(deployment).is_ok());
}
