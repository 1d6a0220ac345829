//! Who may do what? Tokens say who asks, grants say what they may do.
//!
//! [`Access`] reads both from one file and finds the [`Identity`] behind a token: one of the tokens of the file, or a
//! JSON web token that an issuer signed. [`Grants`] hold for a namespace and everything below it; they come from the
//! file and from properties of namespaces. [`Action::right`] says which [`Right`] an action needs, [`decide`] what the
//! client is told.
//!
//! This crate sends no request and reads no clock of the day: the caller passes a [`Fetch`] and the time.

mod access;
mod action;
mod algorithm;
mod config;
mod grants;
mod identity;
mod jwt;
mod keys;
mod keyset;
mod property;
mod secret;
mod tokens;

pub use access::Access;
pub use action::{Action, Where};
pub use config::AccessError;
pub use grants::{Grant, Grants, Principal, Right, Verdict, decide, right_of};
pub use identity::{Denied, Identity, bearer};
pub use keys::{Fetch, Fetching};
pub use property::{GRANT_PREFIX, GrantError, is_reserved, property_key};
pub use secret::Secret;
pub use tokens::entry_for;
