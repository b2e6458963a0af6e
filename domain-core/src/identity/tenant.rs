//! Tenants and the non-null scope that keys are derived from.
//!
//! Invariant: a scope is never absent. Without tenants it is the literal `system`, which no
//! tenant may use in any letter case (requirement 004 §11.5).

use super::text::{IdentityError, canonical, text_identity};

/// The scope of every event where tenants are disabled.
pub const SYSTEM_SCOPE: &str = "system";

text_identity!(
    /// One tenant: 1–96 bytes of `[A-Za-z0-9][A-Za-z0-9._:-]*`, but not `system`.
    TenantId,
    check_tenant
);

fn check_tenant(text: &str) -> Result<(), IdentityError> {
    const WHAT: &str = "tenant id";
    canonical(WHAT, text, 96)?;
    if text.eq_ignore_ascii_case(SYSTEM_SCOPE) {
        return Err(IdentityError::Reserved {
            what: WHAT,
            word: SYSTEM_SCOPE,
        });
    }
    Ok(())
}

/// Whether this deployment separates tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantMode {
    /// Every event names its tenant.
    Active,
    /// No event names a tenant.
    Disabled,
}

/// Why no scope could be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TenantScopeError {
    /// Tenants are active and the event names none.
    #[error("tenants are active, but the event names no tenant")]
    TenantMissing,
    /// Tenants are disabled and the event names one.
    #[error("tenants are disabled, but the event names a tenant")]
    TenantUnexpected,
}

/// The canonical, non-null scope of one event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantScope(String);

impl TenantScope {
    /// The scope of a deployment without tenants.
    pub fn system() -> Self {
        Self(SYSTEM_SCOPE.to_owned())
    }

    /// The scope of one tenant.
    pub fn of(tenant: &TenantId) -> Self {
        Self(tenant.as_str().to_owned())
    }

    /// The scope for an event that names `tenant` in a deployment of `mode`.
    ///
    /// # Errors
    /// [`TenantScopeError`] when the event and the mode disagree.
    pub fn resolve(mode: TenantMode, tenant: Option<&TenantId>) -> Result<Self, TenantScopeError> {
        match (mode, tenant) {
            (TenantMode::Active, Some(tenant)) => Ok(Self::of(tenant)),
            (TenantMode::Disabled, None) => Ok(Self::system()),
            (TenantMode::Active, None) => Err(TenantScopeError::TenantMissing),
            (TenantMode::Disabled, Some(_)) => Err(TenantScopeError::TenantUnexpected),
        }
    }

    /// Reads a stored scope back.
    ///
    /// # Errors
    /// [`IdentityError`] when the text is neither `system` nor a tenant.
    pub fn from_stored(text: &str) -> Result<Self, IdentityError> {
        if text == SYSTEM_SCOPE {
            Ok(Self::system())
        } else {
            TenantId::parse(text).map(|tenant| Self::of(&tenant))
        }
    }

    /// The exact text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_is_reserved_in_any_case() {
        for word in ["system", "System", "SYSTEM"] {
            assert_eq!(
                TenantId::parse(word),
                Err(IdentityError::Reserved {
                    what: "tenant id",
                    word: "system"
                })
            );
        }
        assert!(TenantId::parse("systems").is_ok());
    }

    #[test]
    fn a_scope_is_never_absent() {
        let tenant = TenantId::parse("acme").expect("tenant");
        let resolve = |mode, tenant| TenantScope::resolve(mode, tenant).map(|scope| scope.0);
        assert_eq!(
            resolve(TenantMode::Active, Some(&tenant)),
            Ok("acme".into())
        );
        assert_eq!(resolve(TenantMode::Disabled, None), Ok("system".into()));
        assert_eq!(
            resolve(TenantMode::Active, None),
            Err(TenantScopeError::TenantMissing)
        );
        assert_eq!(
            resolve(TenantMode::Disabled, Some(&tenant)),
            Err(TenantScopeError::TenantUnexpected)
        );
    }
}
