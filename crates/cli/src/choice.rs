//! A command-line argument with a fixed list of values, which help and errors print.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::registry::Protocol;

/// One of these, by its name.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let named = move |text: String| all.iter().copied().find(|item| name(*item) == text).ok_or("not one of these");
    PossibleValuesParser::new(all.iter().map(|item| name(*item))).try_map(named)
}

pub(crate) fn protocol() -> impl TypedValueParser<Value = Protocol> {
    one_of(Protocol::ALL, Protocol::name)
}

pub(crate) fn layout() -> impl TypedValueParser<Value = Layout> {
    one_of(&Layout::ALL, Layout::name)
}
