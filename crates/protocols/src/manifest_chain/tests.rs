//! Both layouts against a map, the parts of `whole` catalogs, long chains, and what commits cost. The fault table of
//! `docs/protocols/manifest-chain.md` is tried by `glidepath-check`.

mod costs;
mod edges;
mod layouts;
mod long;
mod parts;
