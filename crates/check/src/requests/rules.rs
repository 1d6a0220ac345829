//! What does a request make of a catalog? The rules once more, plainly and on a map: independent of the code that protocols
//! decide by, and compared with it by property tests.

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

    /// Does it. Where it is refused, what was done of it until then must be taken back.
    fn apply(state: &mut State<Self::Key, Self::Value>, request: &Self::Request) -> Result<(), Self::Refusal>;

    /// The requests whose marks a value carries. Every request that writes values leaves its mark in each.
    fn marks(value: &Self::Value) -> Vec<u64>;

    /// Whether the request leaves marks.
    fn is_marked(request: &Self::Request) -> bool;

    /// Whether the request changes nothing, whatever the catalog is like: it only asks whether something is so.
    fn only_asks(request: &Self::Request) -> bool;

    /// The answer to a question.
    fn found(state: &State<Self::Key, Self::Value>, query: &Self::Query) -> Self::Answer;

    /// For people.
    fn words(request: &Self::Request) -> String;
}
