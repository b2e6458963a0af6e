//! How the client speaks to the brokers, and what proves either side to the other.
//!
//! Invariant: the profile without transport security has no place for credentials, and the one with
//! credentials has no place for weaker transport. Secrets stay in redacted types; what is wrong with
//! them is said before any connection, without showing them (requirement 004 §§16.6, 21.7,
//! 22.2–22.4).

use domain_core::instant::DatabaseInstant;
use secrecy::{ExposeSecret as _, SecretString};
use std::fmt;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::DecodePem as _;

/// How the client speaks to the brokers. Only what is implemented is here.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SecurityProfile {
    /// `local-plaintext.v1`: no encryption and no identity, for development on one machine.
    LocalPlaintext,
    /// `kafka-sasl-ssl-scram-sha-512.v1`: TLS with a verified host name under pinned authorities,
    /// and a SCRAM-SHA-512 user.
    SaslSslScramSha512(ScramCredentials),
}

impl SecurityProfile {
    /// The capability card of [`SecurityProfile::LocalPlaintext`].
    pub const LOCAL_PLAINTEXT: &'static str = "local-plaintext.v1";
    /// The capability card of [`SecurityProfile::SaslSslScramSha512`].
    pub const SASL_SSL_SCRAM_SHA_512: &'static str = "kafka-sasl-ssl-scram-sha-512.v1";

    /// The capability card.
    pub fn card_id(&self) -> &'static str {
        match self {
            Self::LocalPlaintext => Self::LOCAL_PLAINTEXT,
            Self::SaslSslScramSha512(_) => Self::SASL_SSL_SCRAM_SHA_512,
        }
    }

    /// When the first certificate that is trusted now will have expired, by the process's wall
    /// clock. It is no secret.
    pub fn earliest_expiry(&self) -> Option<DatabaseInstant> {
        match self {
            Self::LocalPlaintext => None,
            Self::SaslSslScramSha512(credentials) => {
                Some(credentials.authorities.earliest_expiry())
            }
        }
    }
}

/// A SCRAM user and the authorities under which it talks to a broker.
#[derive(Debug, Clone)]
pub struct ScramCredentials {
    pub(crate) username: SecretString,
    pub(crate) password: SecretString,
    pub(crate) authorities: PinnedAuthorities,
}

impl ScramCredentials {
    /// Bytes that a user's name or password may have.
    pub const MAXIMUM_BYTES: usize = 1_024;

    /// Takes a user's name and password: 1 to [`Self::MAXIMUM_BYTES`] bytes without control
    /// characters.
    ///
    /// # Errors
    /// [`CredentialsError`]; it shows neither.
    pub fn new(
        username: SecretString,
        password: SecretString,
        authorities: PinnedAuthorities,
    ) -> Result<Self, CredentialsError> {
        for (what, secret) in [("username", &username), ("password", &password)] {
            let text = secret.expose_secret();
            if !(1..=Self::MAXIMUM_BYTES).contains(&text.len()) {
                return Err(CredentialsError::Length { what });
            }
            // A zero byte would end the value early, and a line break is a slip of the pen.
            if text.chars().any(char::is_control) {
                return Err(CredentialsError::ControlCharacter { what });
            }
        }
        Ok(Self {
            username,
            password,
            authorities,
        })
    }
}

/// Why a name or a password cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Empty or too long.
    #[error(
        "the {what} has no text of 1 to {} bytes",
        ScramCredentials::MAXIMUM_BYTES
    )]
    Length {
        /// `username` or `password`.
        what: &'static str,
    },
    /// It holds a line break, a zero byte or the like.
    #[error("the {what} holds a control character")]
    ControlCharacter {
        /// `username` or `password`.
        what: &'static str,
    },
}

/// The only certificate authorities under which a broker's certificate counts; the machine's own
/// are not asked.
#[derive(Clone)]
pub struct PinnedAuthorities {
    pem: SecretString,
    count: usize,
    earliest_expiry: DatabaseInstant,
}

impl PinnedAuthorities {
    /// How far ahead of the process's clock the beginning of a certificate may lie: clocks of two
    /// machines never agree.
    pub const CLOCK_BOUND: Duration = Duration::from_secs(5 * 60);

    /// Reads one or more certificates in PEM. Of several, as while an authority is replaced, one
    /// must be valid now; the others may have expired or not have begun.
    ///
    /// # Errors
    /// [`AuthoritiesError`], which counts certificates from 1.
    pub fn parse(pem: &SecretString, now: DatabaseInstant) -> Result<Self, AuthoritiesError> {
        let blocks = certificate_blocks(pem.expose_secret())?;
        let mut periods = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let certificate = Certificate::from_pem(block)
                .map_err(|_| AuthoritiesError::Malformed { number: index + 1 })?;
            periods.push(Period::of(&certificate));
        }
        let valid = periods.iter().filter(|period| period.holds(now));
        match valid.map(|period| period.until).min() {
            Some(earliest_expiry) => Ok(Self {
                count: blocks.len(),
                // Without what stood around the certificates.
                pem: SecretString::from(blocks.concat()),
                earliest_expiry,
            }),
            None => Err(none_holds(&periods, now)),
        }
    }

    /// How many certificates there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// When the first of those that were valid at [`Self::parse`] will have expired.
    pub fn earliest_expiry(&self) -> DatabaseInstant {
        self.earliest_expiry
    }

    pub(crate) fn pem(&self) -> &SecretString {
        &self.pem
    }
}

impl fmt::Debug for PinnedAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedAuthorities")
            .field("count", &self.count)
            .field("earliest_expiry", &self.earliest_expiry)
            .finish_non_exhaustive()
    }
}

/// Why a file of certificate authorities cannot be used. The instants are the certificates' own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthoritiesError {
    /// There is no block of PEM, or one that does not end.
    #[error("the certificate authorities are not in PEM")]
    NotPem,
    /// There are blocks of PEM, but none of them is a certificate.
    #[error("the certificate authorities hold no certificate")]
    NoCertificate,
    /// A private key or the like stands among the certificates; it does not belong there.
    #[error("the certificate authorities hold something beside certificates")]
    Foreign,
    /// A block says that it is a certificate and is none.
    #[error("certificate {number} of the certificate authorities cannot be read")]
    Malformed {
        /// Which one, counted from 1.
        number: usize,
    },
    /// No certificate is valid, and this one was the last.
    #[error("the certificate authorities expired at {at}")]
    Expired {
        /// The last instant of its validity.
        at: String,
    },
    /// No certificate is valid yet, and this one will be the first.
    #[error(
        "the certificate authorities are not valid before {at}; {:?} ahead is allowed",
        PinnedAuthorities::CLOCK_BOUND
    )]
    NotYetValid {
        /// The first instant of its validity.
        at: String,
    },
}

struct Period {
    from: DatabaseInstant,
    until: DatabaseInstant,
    shown_from: String,
    shown_until: String,
}

impl Period {
    fn of(certificate: &Certificate) -> Self {
        let validity = &certificate.tbs_certificate.validity;
        let instant = |time: &x509_cert::time::Time| {
            let micros = time.to_unix_duration().as_micros();
            DatabaseInstant::from_epoch_micros(i64::try_from(micros).unwrap_or(i64::MAX))
        };
        Self {
            from: instant(&validity.not_before),
            until: instant(&validity.not_after),
            shown_from: validity.not_before.to_string(),
            shown_until: validity.not_after.to_string(),
        }
    }

    fn began(&self, now: DatabaseInstant) -> bool {
        self.from <= now.plus(PinnedAuthorities::CLOCK_BOUND)
    }

    fn holds(&self, now: DatabaseInstant) -> bool {
        self.began(now) && now <= self.until
    }
}

/// What to say when no certificate is valid: of those that began the last, else the first to come.
fn none_holds(periods: &[Period], now: DatabaseInstant) -> AuthoritiesError {
    let over = periods.iter().filter(|period| period.began(now));
    if let Some(last) = over.max_by_key(|period| period.until) {
        return AuthoritiesError::Expired {
            at: last.shown_until.clone(),
        };
    }
    match periods.iter().min_by_key(|period| period.from) {
        Some(first) => AuthoritiesError::NotYetValid {
            at: first.shown_from.clone(),
        },
        None => AuthoritiesError::NoCertificate,
    }
}

const CERTIFICATE: &str = "CERTIFICATE";

/// The certificates' blocks, each with lines of 64 characters: that is the width which the reader
/// insists on, and tools write others too.
fn certificate_blocks(text: &str) -> Result<Vec<String>, AuthoritiesError> {
    const WIDTH: usize = 64;
    let mut blocks = Vec::new();
    let mut foreign = false;
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = boundary(line, "BEGIN") else {
            continue;
        };
        let mut body = String::new();
        loop {
            let line = lines.next().ok_or(AuthoritiesError::NotPem)?;
            match boundary(line, "END") {
                Some(end) if end == label => break,
                Some(_) => return Err(AuthoritiesError::NotPem),
                None => body.push_str(line),
            }
        }
        foreign |= label != CERTIFICATE;
        if label != CERTIFICATE {
            continue;
        }
        let mut block = format!("-----BEGIN {CERTIFICATE}-----\n");
        for line in body.as_bytes().chunks(WIDTH) {
            block.push_str(&String::from_utf8_lossy(line));
            block.push('\n');
        }
        block.push_str(&format!("-----END {CERTIFICATE}-----\n"));
        blocks.push(block);
    }
    match (blocks.is_empty(), foreign) {
        (false, false) => Ok(blocks),
        (false, true) => Err(AuthoritiesError::Foreign),
        (true, true) => Err(AuthoritiesError::NoCertificate),
        (true, false) => Err(AuthoritiesError::NotPem),
    }
}

fn boundary<'l>(line: &'l str, which: &str) -> Option<&'l str> {
    line.strip_prefix("-----")?
        .strip_prefix(which)?
        .strip_prefix(' ')?
        .strip_suffix("-----")
}

#[cfg(test)]
#[path = "security_tests.rs"]
pub(crate) mod tests;
