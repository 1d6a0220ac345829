//! What is visible, and what of it is durable?

use std::collections::{BTreeMap, VecDeque};

/// The unit in which a disk writes all or nothing, in bytes.
const SECTOR: u64 = 512;

/// A change of a file's content, or of the names in a folder.
pub(super) trait Change: Clone {
    type State: Clone + Default;

    fn apply(&self, state: &mut Self::State);

    /// The part that survives a power cut without a sync; `survives` decides for each piece.
    fn remains(&self, survives: &mut dyn FnMut() -> bool) -> Vec<Self>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The next sync makes it durable.
    Open,
    /// A sync of it failed: it may survive, and no later sync makes it durable.
    Stray,
    Durable,
}

/// A state of which only a part is durable.
pub(super) struct Kept<C: Change> {
    visible: C::State,
    durable: C::State,
    /// Changes since the durable state, in order.
    changes: VecDeque<(C, Fate)>,
    /// Syncs that failed.
    pub(super) failures: u64,
}

impl<C: Change> Default for Kept<C> {
    fn default() -> Self {
        Self { visible: C::State::default(), durable: C::State::default(), changes: VecDeque::new(), failures: 0 }
    }
}

impl<C: Change> Kept<C> {
    pub(super) fn visible(&self) -> &C::State {
        &self.visible
    }

    pub(super) fn change(&mut self, change: C) {
        change.apply(&mut self.visible);
        self.changes.push_back((change, Fate::Open));
    }

    pub(super) fn sync(&mut self) {
        self.open_becomes(Fate::Durable);
        while self.changes.front().is_some_and(|(_, fate)| *fate == Fate::Durable) {
            let Some((change, _)) = self.changes.pop_front() else { break };
            change.apply(&mut self.durable);
        }
    }

    pub(super) fn fail(&mut self) {
        self.failures += 1;
        self.open_becomes(Fate::Stray);
    }

    fn open_becomes(&mut self, fate: Fate) {
        for (_, known) in self.changes.iter_mut().filter(|(_, known)| *known == Fate::Open) {
            *known = fate;
        }
    }

    pub(super) fn cut(&mut self, survives: &mut dyn FnMut() -> bool) {
        for (change, fate) in std::mem::take(&mut self.changes) {
            if fate == Fate::Durable {
                change.apply(&mut self.durable);
            } else {
                change.remains(survives).iter().for_each(|part| part.apply(&mut self.durable));
            }
        }
        self.visible = self.durable.clone();
    }
}

/// Of a file.
#[derive(Clone)]
pub(super) enum Content {
    Write { at: u64, bytes: Vec<u8> },
    Length(u64),
}

impl Change for Content {
    type State = Vec<u8>;

    fn apply(&self, state: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                let (at, end) = (*at as usize, *at as usize + bytes.len());
                if state.len() < end {
                    state.resize(end, 0);
                }
                state[at..end].copy_from_slice(bytes);
            }
            Self::Length(length) => state.resize(*length as usize, 0),
        }
    }

    fn remains(&self, survives: &mut dyn FnMut() -> bool) -> Vec<Self> {
        let Self::Write { at, bytes } = self else {
            return if survives() { vec![self.clone()] } else { Vec::new() };
        };
        let (mut parts, mut from) = (Vec::new(), 0);
        while from < bytes.len() {
            let sector_ends = ((at + from as u64) / SECTOR + 1) * SECTOR;
            let to = bytes.len().min((sector_ends - at) as usize);
            if survives() {
                parts.push(Self::Write { at: at + from as u64, bytes: bytes[from..to].to_vec() });
            }
            from = to;
        }
        parts
    }
}

/// Of a folder: which file or folder a name leads to.
#[derive(Clone)]
pub(super) enum Naming {
    Given(String, u64),
    Taken(String),
}

impl Change for Naming {
    type State = BTreeMap<String, u64>;

    fn apply(&self, state: &mut BTreeMap<String, u64>) {
        match self {
            Self::Given(name, node) => drop(state.insert(name.clone(), *node)),
            Self::Taken(name) => drop(state.remove(name)),
        }
    }

    fn remains(&self, survives: &mut dyn FnMut() -> bool) -> Vec<Self> {
        if survives() { vec![self.clone()] } else { Vec::new() }
    }
}
