//! Checks that every object referred to exists, and that unreferred objects do not stay for long.
//!
//! Two sorted sequences are read side by side, so memory does not grow with the number of objects. A store lists keys
//! in order; the references of each version are sorted too, and [`merged`] makes one sequence of them.

use std::cmp::Ordering;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use glidepath_model::Span;

use crate::violation::{Fault, Violation};

/// Whether objects that nothing refers to may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// They may: no vacuum has run.
    Allowed,
    /// None may be older than this, the grace period.
    NotOlderThan(Span),
}

/// The counts of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Existing objects that are referred to.
    pub referred: u64,
    /// Existing objects that nothing refers to.
    pub unreferred: u64,
}

/// Compares the existing objects (each with its age) with those that readable versions refer to. Both in rising order
/// of the keys; a key may be referred to many times, but exists once.
///
/// The references must be of versions that were readable throughout: a version written after the listing may refer to
/// objects that the listing cannot have.
///
/// # Errors
/// [`Fault::MissingObject`], which takes precedence; [`Fault::Leftover`]; [`Fault::OutOfKeyOrder`] if a sequence is not
/// sorted. They name the first key, and the number of others.
pub fn references<K: Ord + AsRef<str>>(
    present: impl IntoIterator<Item = (K, Span)>,
    referred: impl IntoIterator<Item = K>,
    leftovers: Leftovers,
) -> Result<References, Violation> {
    let mut present = Rising { keys: present.into_iter().peekable(), strict: true };
    let mut referred = Rising { keys: referred.into_iter().map(|key| (key, ())).peekable(), strict: false };
    let mut counted = References::default();
    let mut missing: Option<(String, u64)> = None;
    let mut left: Option<(String, Span, u64)> = None;
    loop {
        let order = match (present.keys.peek(), referred.keys.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((there, _)), Some((named, ()))) => there.cmp(named),
        };
        if order.is_le()
            && let Some((key, age)) = present.next()?
        {
            if order.is_eq() {
                counted.referred += 1;
                while referred.keys.peek().is_some_and(|(named, ())| *named == key) {
                    referred.next()?;
                }
                continue;
            }
            counted.unreferred += 1;
            if matches!(leftovers, Leftovers::NotOlderThan(grace) if age > grace) {
                left.get_or_insert_with(|| (key.as_ref().to_owned(), age, 0)).2 += 1;
            }
        } else if let Some((key, ())) = referred.next()? {
            while referred.keys.peek().is_some_and(|(named, ())| *named == key) {
                referred.next()?;
            }
            missing.get_or_insert_with(|| (key.as_ref().to_owned(), 0)).1 += 1;
        }
    }
    if let Some((key, count)) = missing {
        return Err(Fault::MissingObject { key, count }.into());
    }
    match (left, leftovers) {
        (Some((key, age, count)), Leftovers::NotOlderThan(grace)) => {
            Err(Fault::Leftover { key, age, grace, count }.into())
        }
        _ => Ok(counted),
    }
}

/// A sequence of keys that must rise.
struct Rising<I: Iterator> {
    keys: Peekable<I>,
    /// Whether keys may not repeat.
    strict: bool,
}

impl<K: Ord + AsRef<str>, V, I: Iterator<Item = (K, V)>> Rising<I> {
    /// The next key, if the one after it is not lower.
    fn next(&mut self) -> Result<Option<(K, V)>, Violation> {
        let Some(this) = self.keys.next() else { return Ok(None) };
        match self.keys.peek() {
            Some((after, _)) if *after < this.0 || (self.strict && *after == this.0) => {
                Err(Fault::OutOfKeyOrder { key: after.as_ref().to_owned() }.into())
            }
            _ => Ok(Some(this)),
        }
    }
}

/// Merges several rising sequences into one. Holds one key of each.
pub fn merged<K: Ord, I: Iterator<Item = K>>(sequences: impl IntoIterator<Item = I>) -> impl Iterator<Item = K> {
    let mut sequences: Vec<I> = sequences.into_iter().collect();
    let mut heads: BinaryHeap<Reverse<(K, usize)>> = BinaryHeap::with_capacity(sequences.len());
    for (slot, sequence) in sequences.iter_mut().enumerate() {
        heads.extend(sequence.next().map(|key| Reverse((key, slot))));
    }
    std::iter::from_fn(move || {
        let Reverse((key, slot)) = heads.pop()?;
        heads.extend(sequences[slot].next().map(|key| Reverse((key, slot))));
        Some(key)
    })
}
