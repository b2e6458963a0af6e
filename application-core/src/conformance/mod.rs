//! Conformance suites, one a port; every implementation runs them.
