//! What was written and survived the power cuts?

use std::collections::BTreeMap;

use glidepath_env::{Key, Payload, Tag};

use super::FOLDER;

/// A visible state of an object's file; `None` if it was removed.
type Shown = Option<(Payload, Tag)>;

/// The states of each object, in the order in which they took effect, each with its place among all changes.
#[derive(Default)]
pub(super) struct Journal {
    states: BTreeMap<Key, Vec<(u64, Shown)>>,
    changes: u64,
}

/// The state that a file shows, if it is the file of an object; no state if it is damaged.
fn shown(path: &str, content: &[u8]) -> Option<(Key, Shown)> {
    let path = path.strip_prefix(FOLDER)?.strip_prefix('/')?;
    glidepath_files::shown(path.as_ref(), content)
}

impl Journal {
    /// Adds the changes of files.
    pub(super) fn note(&mut self, changes: Vec<(String, Option<Vec<u8>>)>) {
        for (path, content) in changes {
            let Some((key, state)) = shown(&path, content.as_deref().unwrap_or_default()) else { continue };
            self.changes += 1;
            let states = self.states.entry(key).or_default();
            let tag = |state: &Shown| state.as_ref().map(|(_, tag)| tag.clone());
            if states.last().map(|(_, last)| tag(last)) != Some(tag(&state)) {
                states.push((self.changes, state));
            }
        }
    }

    /// Drops the states that a power cut undid: all after the current state of each object.
    pub(super) fn cut_back(&mut self, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let mut there = BTreeMap::new();
        for (path, content) in files {
            if let Some((key, state)) = shown(path, content) {
                let (_, tag) = state.ok_or_else(|| format!("a power cut left {key} damaged"))?;
                there.insert(key, tag);
            }
        }
        for (key, states) in &mut self.states {
            let tag = there.remove(key);
            let is_there = |(_, state): &(u64, Shown)| state.as_ref().map(|(_, tag)| tag) == tag.as_ref();
            match states.iter().rposition(is_there) {
                Some(last) => states.truncate(last + 1),
                None if tag.is_none() => states.clear(),
                None => return Err(format!("a power cut left {key} in a state that it never had")),
            }
        }
        match there.into_keys().next() {
            Some(key) => Err(format!("a power cut left {key}, which was never written")),
            None => Ok(()),
        }
    }

    /// All states that survived the power cuts, in the order in which they took effect.
    pub(super) fn written(&self) -> Vec<(Key, Payload)> {
        let mut written = Vec::new();
        for (key, states) in &self.states {
            let there = states.iter().filter_map(|(place, state)| Some((*place, state.as_ref()?)));
            written.extend(there.map(|(place, (payload, _))| (place, key.clone(), payload.clone())));
        }
        written.sort_by_key(|(place, ..)| *place);
        written.into_iter().map(|(_, key, payload)| (key, payload)).collect()
    }

    /// The current objects.
    pub(super) fn objects(&self) -> BTreeMap<Key, Payload> {
        let last =
            |(key, states): (&Key, &Vec<(u64, Shown)>)| Some((key.clone(), states.last()?.1.as_ref()?.0.clone()));
        self.states.iter().filter_map(last).collect()
    }
}
