//! A catalog as an ordered map whose last changes can be undone.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Values by key, with an undo log.
#[derive(Clone, Debug)]
pub(crate) struct State<K, V> {
    now: BTreeMap<K, V>,
    /// Keys that were set, each with its previous value, in order.
    undo: Vec<(K, Option<V>)>,
}

/// New values of keys; `None` removes a key.
pub(crate) type Difference<K, V> = BTreeMap<K, Option<V>>;

impl<K: Ord + Clone, V: Clone + PartialEq> State<K, V> {
    pub(crate) fn new(now: BTreeMap<K, V>) -> Self {
        Self { now, undo: Vec::new() }
    }

    /// All of it.
    pub(crate) fn now(&self) -> &BTreeMap<K, V> {
        &self.now
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.now.get(key)
    }

    pub(crate) fn set(&mut self, key: K, value: Option<V>) {
        let before = match value {
            Some(value) => self.now.insert(key.clone(), value),
            None => self.now.remove(&key),
        };
        self.undo.push((key, before));
    }

    /// The length of the undo log.
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all changes since a mark.
    pub(crate) fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark
            && let Some((key, before)) = self.undo.pop()
        {
            match before {
                Some(value) => self.now.insert(key, value),
                None => self.now.remove(&key),
            };
        }
    }

    /// Undoes everything, and makes these changes permanent.
    pub(crate) fn advance(&mut self, difference: &Difference<K, V>) {
        self.back_to(0);
        for (key, value) in difference {
            self.set(key.clone(), value.clone());
        }
        self.undo.clear();
    }

    /// Whether everything is as it was at a mark.
    pub(crate) fn is_as_at(&self, mark: usize) -> bool {
        let mut first = BTreeMap::new();
        for (key, before) in &self.undo[mark..] {
            first.entry(key).or_insert(before);
        }
        first.into_iter().all(|(key, before)| self.now.get(key) == before.as_ref())
    }

    /// Whether only these keys were set since a mark.
    pub(crate) fn only_within(&self, mark: usize, difference: &Difference<K, V>) -> bool {
        self.undo[mark..].iter().all(|(key, _)| difference.contains_key(key))
    }

    /// Whether the undo log amounts to exactly these changes.
    pub(crate) fn differs_by(&self, difference: &Difference<K, V>) -> bool {
        let there = |(key, value): (&K, &Option<V>)| self.now.get(key) == value.as_ref();
        let mut first = BTreeMap::new();
        for (key, before) in &self.undo {
            first.entry(key).or_insert(before);
        }
        difference.iter().all(there)
            && first
                .into_iter()
                .all(|(key, before)| difference.contains_key(key) || self.now.get(key) == before.as_ref())
    }
}
