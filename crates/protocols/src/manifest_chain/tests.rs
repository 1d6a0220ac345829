//! The fault table of `docs/protocols/manifest-chain.md`, tried by the simulator.
