//! The dependency rule itself.
//!
//! Invariant: the rule is decided by where a crate lies, never by what `modules.json` says, so
//! that no entry there can list a forbidden edge.

/// The part of the workspace that a crate belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// `domain-core` and `shared-contract`.
    Foundation,
    /// `application-core`.
    Core,
    /// Everything under `adapters/`.
    Adapter,
    /// `app-bootstrap`.
    Bootstrap,
    /// Everything under `examples/`.
    Feature,
    /// `xtask`.
    Tool,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The product: normal and build dependencies.
    Product,
    /// The crate's own tests.
    Tests,
}

impl Layer {
    /// The layer of a folder relative to the workspace; `None` for an unknown place.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Some(match path {
            "domain-core" | "shared-contract" => Self::Foundation,
            "application-core" => Self::Core,
            "app-bootstrap" => Self::Bootstrap,
            "xtask" => Self::Tool,
            _ if path.starts_with("adapters/inbound/") => Self::Adapter,
            _ if path.starts_with("adapters/outbound/") => Self::Adapter,
            _ if path.starts_with("examples/") => Self::Feature,
            _ => return None,
        })
    }

    /// Whether a crate of this layer may depend on another crate of layer `on`.
    pub(crate) fn may_depend_on(self, on: Self, purpose: Use) -> bool {
        use Layer::{Adapter, Bootstrap, Core, Feature, Foundation, Tool};
        match (self, on) {
            // Nothing may depend on the tool, and only the tool on the composition root.
            (_, Tool) => false,
            (from, Bootstrap) => from == Tool,
            (Foundation, Foundation) => purpose == Use::Tests,
            (Foundation, _) => false,
            (Core, Foundation) => true,
            (Core, _) => false,
            (Adapter | Feature, Foundation | Core) => true,
            // Tests compose: an adapter's tests may encode with the real codec, for example.
            (Adapter | Feature, Adapter | Feature) => purpose == Use::Tests,
            (Bootstrap, Foundation | Core | Adapter | Feature) => true,
            (Tool, Foundation | Core | Adapter | Feature) => true,
        }
    }

    /// Whether a product edge from this layer to `on` must be gated by a feature.
    pub(crate) fn needs_feature_for(self, on: Self) -> bool {
        (self, on) == (Self::Bootstrap, Self::Feature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_known_by_its_folder() {
        assert_eq!(Layer::of("domain-core"), Some(Layer::Foundation));
        assert_eq!(Layer::of("adapters/outbound/journal"), Some(Layer::Adapter));
        assert_eq!(Layer::of("examples/portfolio"), Some(Layer::Feature));
        assert_eq!(Layer::of("adapters/sideways/x"), None);
    }

    #[test]
    fn the_product_depends_inwards_only() {
        use Layer::{Adapter, Bootstrap, Core, Feature, Foundation, Tool};
        let all = [Foundation, Core, Adapter, Bootstrap, Feature, Tool];
        let allowed: Vec<(Layer, Layer)> = all
            .into_iter()
            .flat_map(|from| all.map(|on| (from, on)))
            .filter(|(from, on)| *from != Tool && from.may_depend_on(*on, Use::Product))
            .collect();
        assert_eq!(
            allowed,
            [
                (Core, Foundation),
                (Adapter, Foundation),
                (Adapter, Core),
                (Bootstrap, Foundation),
                (Bootstrap, Core),
                (Bootstrap, Adapter),
                (Bootstrap, Feature),
                (Feature, Foundation),
                (Feature, Core),
            ]
        );
    }
}
