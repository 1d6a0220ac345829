//! What does a request do to a catalog? A second, plain implementation of the rules, on a map: independent of the
//! protocols' code, and compared with it by property tests.

use std::fmt::{Debug, Display};

use super::state::State;

/// The rules of one kind of requests.
pub(crate) trait Rules: 'static {
    type Key: Ord + Clone + Debug;
    type Value: Clone + PartialEq + Debug;
    type Request: Clone;
    type Refusal: Clone + PartialEq + Display;
    /// A question about a catalog at one version.
    type Query: Clone + Debug;
    type Answer: PartialEq + Debug;

    /// Applies the request. If it is refused, the caller must undo the part that was applied.
    fn apply(state: &mut State<Self::Key, Self::Value>, request: &Self::Request) -> Result<(), Self::Refusal>;

    /// The requests whose marks a value has. Each request that writes values marks each of them.
    fn marks(value: &Self::Value) -> Vec<u64>;

    /// Whether the request leaves marks.
    fn is_marked(request: &Self::Request) -> bool;

    /// Whether the request only asserts: it changes no catalog.
    fn only_asks(request: &Self::Request) -> bool;

    /// The answer to a question.
    fn found(state: &State<Self::Key, Self::Value>, query: &Self::Query) -> Self::Answer;

    /// The request in words.
    fn words(request: &Self::Request) -> String;
}
