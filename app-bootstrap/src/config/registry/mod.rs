//! The machine registry: capability cards, exact tuples and release assertions, embedded into the
//! binary.
//!
//! Invariant: nothing is selected that is not a row here, and maturity is read from here alone
//! (requirement 004 §§10.2–10.5).

mod admit;
mod rows;

#[cfg(test)]
mod tests;

pub use admit::{Mode, Promotion, Refusal};
pub use rows::{AssertionRow, CardRow, Maturity, RegistryError, TupleRow};

use rows::{Document, Documents};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The registry.
#[derive(Debug, Clone)]
pub struct Registry {
    cards: BTreeMap<String, CardRow>,
    tuples: Vec<TupleRow>,
    assertions: Vec<AssertionRow>,
}

impl Registry {
    /// The one of this build.
    ///
    /// # Errors
    /// [`RegistryError`]; only a defect of the build has one.
    pub fn embedded() -> Result<&'static Self, RegistryError> {
        static EMBEDDED: OnceLock<Result<Registry, RegistryError>> = OnceLock::new();
        EMBEDDED
            .get_or_init(|| Self::read(Documents::EMBEDDED))
            .as_ref()
            .map_err(Clone::clone)
    }

    fn read(documents: Documents<'_>) -> Result<Self, RegistryError> {
        let cards: Vec<CardRow> = Document::Cards.read(documents.cards)?;
        let tuples: Vec<TupleRow> = Document::Tuples.read(documents.tuples)?;
        let assertions: Vec<AssertionRow> = Document::Assertions.read(documents.assertions)?;
        let mut by_id = BTreeMap::new();
        for card in cards {
            let id = card.card_id.clone();
            if by_id.insert(id.clone(), card).is_some() {
                return Err(RegistryError::Repeated(id));
            }
        }
        let registry = Self {
            cards: by_id,
            tuples,
            assertions,
        };
        registry.check()?;
        Ok(registry)
    }

    /// What the schemas cannot say: references lead somewhere, ids and tuples are unique, and a
    /// version is the one that its id ends in.
    fn check(&self) -> Result<(), RegistryError> {
        for card in self.cards.values() {
            if !card.card_id.ends_with(&format!(".v{}", card.card_version)) {
                return Err(RegistryError::Version(card.card_id.clone()));
            }
            for id in &card.semantic_contract_ids {
                self.card(id)?;
            }
        }
        for (index, tuple) in self.tuples.iter().enumerate() {
            let earlier = &self.tuples[..index];
            if earlier
                .iter()
                .any(|one| one.tuple_id == tuple.tuple_id || one.cards == tuple.cards)
            {
                return Err(RegistryError::Repeated(tuple.tuple_id.clone()));
            }
            for id in &tuple.cards {
                self.card(id)?;
            }
        }
        for assertion in &self.assertions {
            self.tuple(&assertion.tuple_id)?;
        }
        Ok(())
    }

    /// Every card, by id.
    pub fn cards(&self) -> impl Iterator<Item = &CardRow> {
        self.cards.values()
    }

    /// Every tuple.
    pub fn tuples(&self) -> &[TupleRow] {
        &self.tuples
    }

    /// Every assertion about a released configuration.
    pub fn assertions(&self) -> &[AssertionRow] {
        &self.assertions
    }

    /// One card.
    ///
    /// # Errors
    /// [`RegistryError::UnknownCard`].
    pub fn card(&self, id: &str) -> Result<&CardRow, RegistryError> {
        self.cards
            .get(id)
            .ok_or_else(|| RegistryError::UnknownCard(id.to_owned()))
    }

    /// One tuple.
    ///
    /// # Errors
    /// [`RegistryError::UnknownTuple`].
    pub fn tuple(&self, id: &str) -> Result<&TupleRow, RegistryError> {
        self.tuples
            .iter()
            .find(|tuple| tuple.tuple_id == id)
            .ok_or_else(|| RegistryError::UnknownTuple(id.to_owned()))
    }
}
