//! From an envelope's members to the identities they hold.
//!
//! Invariant: as strict as the envelope schema and stricter where a schema cannot be: bounds in
//! bytes, normalization, the deployment's tenant mode. A refusal names the place and the rule,
//! never the value.

use super::{
    AGGREGATE, AGGREGATE_ID, AGGREGATE_SEQUENCE, AGGREGATE_TYPE, CAUSATION_ID, CONTENT_TYPE,
    CONTRACT_ID, CORRELATION_ID, ENVELOPE_VERSION, EVENT_ID, EVENT_INDEX, LOGICAL_DESTINATION,
    OCCURRED_AT, PAYLOAD_VERSION, TENANT_ID,
};
use crate::occurrence;
use application_core::event::{EventIdentities, ValidatedIntegrationEvent};
use application_core::ports::RejectionRule;
use domain_core::identity::{
    AggregateId, AggregateIdentity, AggregateOrder, AggregateSequence, AggregateType, CausationId,
    ContractId, CorrelationId, EventId, EventIndex, IdentityError, LogicalDestinationId,
    PayloadVersion, TenantId, TenantMode, TenantScope,
};
use serde_json::{Map, Value};

/// A place in the envelope and the rule that was broken there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvelopeRefusal {
    /// JSON pointer into the document.
    pub(crate) pointer: String,
    /// The broken rule.
    pub(crate) rule: RejectionRule,
}

impl EnvelopeRefusal {
    pub(crate) fn shape(pointer: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            rule: RejectionRule::Shape(rule.into()),
        }
    }
}

/// Reads the identities. `members` is the envelope without its payload.
pub(crate) fn identities_of(
    members: &Map<String, Value>,
    tenants: TenantMode,
) -> Result<EventIdentities, EnvelopeRefusal> {
    const MEMBERS: [&str; 11] = [
        ENVELOPE_VERSION,
        EVENT_ID,
        CONTRACT_ID,
        PAYLOAD_VERSION,
        LOGICAL_DESTINATION,
        AGGREGATE,
        OCCURRED_AT,
        CORRELATION_ID,
        CAUSATION_ID,
        TENANT_ID,
        CONTENT_TYPE,
    ];
    const AGGREGATE_MEMBERS: [&str; 4] = [
        AGGREGATE_TYPE,
        AGGREGATE_ID,
        AGGREGATE_SEQUENCE,
        EVENT_INDEX,
    ];
    let envelope = Members::closed("", members, &MEMBERS)?;
    if envelope.integer(ENVELOPE_VERSION)? != i64::from(ValidatedIntegrationEvent::ENVELOPE_VERSION)
    {
        return Err(EnvelopeRefusal::shape(
            "/envelopeVersion",
            "only envelope version 1 is known",
        ));
    }
    if envelope.text(CONTENT_TYPE)? != ValidatedIntegrationEvent::CONTENT_TYPE {
        return Err(EnvelopeRefusal::shape(
            "/contentType",
            "the content type is application/json",
        ));
    }
    let aggregate = match envelope.required(AGGREGATE)? {
        Value::Object(members) => Members::closed("/aggregate", members, &AGGREGATE_MEMBERS)?,
        other => {
            return Err(EnvelopeRefusal::shape(
                "/aggregate",
                not("an object", other),
            ));
        }
    };
    let tenant = envelope.optional(TENANT_ID, |text| TenantId::parse(text))?;
    let tenant_scope = TenantScope::resolve(tenants, tenant.as_ref())
        .map_err(|error| EnvelopeRefusal::shape("/tenantId", error.to_string()))?;
    Ok(EventIdentities {
        event_id: envelope.parsed(EVENT_ID, |text| EventId::parse(text))?,
        contract_id: envelope.parsed(CONTRACT_ID, |text| ContractId::parse(text))?,
        payload_version: envelope.number(PAYLOAD_VERSION, PayloadVersion::new)?,
        destination: envelope.parsed(LOGICAL_DESTINATION, |text| {
            LogicalDestinationId::parse(text)
        })?,
        tenant_scope,
        aggregate: AggregateIdentity::new(
            aggregate.parsed(AGGREGATE_TYPE, |text| AggregateType::parse(text))?,
            aggregate.parsed(AGGREGATE_ID, |text| AggregateId::parse(text))?,
        ),
        order: AggregateOrder::new(
            aggregate.number(AGGREGATE_SEQUENCE, AggregateSequence::new)?,
            aggregate.number(EVENT_INDEX, EventIndex::new)?,
        ),
        occurred_at: occurrence::parse(envelope.text(OCCURRED_AT)?).ok_or_else(|| {
            EnvelopeRefusal::shape(
                "/occurredAt",
                format!(
                    "must be a date and time of the form YYYY-MM-DDThh:mm:ss.sssZ, years {}",
                    occurrence::YEARS
                ),
            )
        })?,
        correlation_id: envelope.parsed(CORRELATION_ID, |text| CorrelationId::parse(text))?,
        causation_id: envelope.optional(CAUSATION_ID, |text| CausationId::parse(text))?,
    })
}

/// The members of one object whose names are known.
struct Members<'a> {
    pointer: &'static str,
    members: &'a Map<String, Value>,
}

impl<'a> Members<'a> {
    fn closed(
        pointer: &'static str,
        members: &'a Map<String, Value>,
        known: &[&str],
    ) -> Result<Self, EnvelopeRefusal> {
        if members.keys().any(|name| !known.contains(&name.as_str())) {
            return Err(EnvelopeRefusal::shape(
                pointer,
                "a member is not allowed here",
            ));
        }
        Ok(Self { pointer, members })
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.pointer)
    }

    fn required(&self, name: &str) -> Result<&'a Value, EnvelopeRefusal> {
        self.members
            .get(name)
            .ok_or_else(|| EnvelopeRefusal::shape(self.at(name), "required field is missing"))
    }

    fn text(&self, name: &str) -> Result<&'a str, EnvelopeRefusal> {
        match self.required(name)? {
            Value::String(text) => Ok(text),
            other => Err(EnvelopeRefusal::shape(
                self.at(name),
                not("a string", other),
            )),
        }
    }

    fn integer(&self, name: &str) -> Result<i64, EnvelopeRefusal> {
        let value = self.required(name)?;
        value
            .as_i64()
            .ok_or_else(|| EnvelopeRefusal::shape(self.at(name), not("an integer", value)))
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, IdentityError>,
    ) -> Result<T, EnvelopeRefusal> {
        parse(self.text(name)?).map_err(|error| self.broken(name, error))
    }

    fn number<T>(
        &self,
        name: &str,
        new: impl FnOnce(i64) -> Result<T, IdentityError>,
    ) -> Result<T, EnvelopeRefusal> {
        new(self.integer(name)?).map_err(|error| self.broken(name, error))
    }

    fn optional<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, IdentityError>,
    ) -> Result<Option<T>, EnvelopeRefusal> {
        if self.members.contains_key(name) {
            self.parsed(name, parse).map(Some)
        } else {
            Ok(None)
        }
    }

    fn broken(&self, name: &str, error: IdentityError) -> EnvelopeRefusal {
        let bound = |rule: &str, bound: String| RejectionRule::Bound {
            rule: rule.to_owned(),
            bound,
        };
        let rule = match error {
            IdentityError::Empty { .. } => bound("minimum bytes", "1".to_owned()),
            IdentityError::TooLong { maximum, .. } => bound("maximum bytes", maximum.to_string()),
            IdentityError::OutOfRange {
                minimum, maximum, ..
            } => bound("range", format!("{minimum} to {maximum}")),
            // None of these names the refused text.
            other => RejectionRule::Shape(other.to_string()),
        };
        EnvelopeRefusal {
            pointer: self.at(name),
            rule,
        }
    }
}

fn not(expected: &str, value: &Value) -> String {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("must be {expected}, not {given}")
}
