//! Both layouts against a map, the parts of `whole` catalogs, long chains, and the costs of commits. `glidepath-check`
//! tests the fault table of `docs/protocols/manifest-chain.md`.

mod beside;
mod clocks;
mod costs;
mod edges;
mod foreign;
mod layouts;
mod long;
mod parts;
