//! Linearizability: is there an order of the operations on each item that explains all answers?
//!
//! This check does not use the chain, only the operations, their times and their answers. So it also detects a chain
//! that was built wrongly, and works where there is no chain.
//!
//! It is the search of Wing and Gong, in the just-in-time form of Lowe ("Testing for linearizability", 2017). It goes
//! through beginnings and ends in order of time and keeps every possible state of the item together with the operations
//! that have taken effect but not ended (a [`Configuration`]). An operation takes effect only when the end of some
//! operation requires it. Items are checked one by one, which is sufficient because linearizability is local. Added
//! here:
//!
//! - An operation of unknown outcome stays pending for ever. Of two configurations with the same state, the one that
//!   has used fewer of these can do everything that the other can, so the other is dropped.
//! - Reads and conditions change nothing, so one that may take effect does so at once.
//!
//! No library does this: `todc-utils` 0.1 needs every operation to return, keeps a bit per operation for each state it
//! visits (quadratic in the length), and gives a verdict without a witness; the tester of `stateright` 0.31 remembers
//! no states, copies what remains at each step, and recurses once per operation. Both are correct for the short
//! histories that they are made for.

use glidepath_model::CommitId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::chain::Change;
use crate::record::{Ending, Expected, History, Item, OperationId, Rank, Seen, State, What};
use crate::violation::{Fault, Violation};

/// The maximum number of configurations at one end; with more, the check stops. Real protocols have a handful: nearly
/// every operation names the state it expects.
const MOST_CONFIGURATIONS: usize = 4096;

/// Checks each item's operations. `initial` gives the items that exist at the beginning; all others are absent.
///
/// Acknowledged commits and answered loads take effect between their beginning and their end. Commits of unknown
/// outcome and those never answered take effect at any time after their beginning, or never. Commits answered with a
/// conflict or a refusal take no effect, and prove nothing about an item: the cause may have been another one.
///
/// # Errors
/// [`Fault::NotLinearizable`] for the lowest item for which there is no order; [`Fault::TooManyOrders`] if there is no
/// such item, and one could not be decided.
pub fn linearizable(history: &History, initial: &[Seen]) -> Result<(), Violation> {
    let mut initial = initial.to_vec();
    initial.sort_unstable_by_key(|seen| seen.item);
    let mut moves = moves(history);
    moves.sort_by_key(|(item, _)| *item);
    let mut undecided = None;
    for group in moves.chunk_by(|(first, _), (second, _)| first == second) {
        let item = group[0].0;
        let start = initial.binary_search_by_key(&item, |seen| seen.item).ok().and_then(|slot| initial[slot].state);
        match Search::new(group, start).run() {
            Ok(()) => {}
            Err(Stop::Impossible { operation, possible }) => {
                let operation = history.operation(operation).into();
                return Err(Fault::NotLinearizable { item, operation, possible }.into());
            }
            Err(Stop::TooMany { operation }) => {
                let operation = history.operation(operation).into();
                undecided.get_or_insert(Fault::TooManyOrders { item, operation });
            }
        }
    }
    undecided.map_or(Ok(()), |fault| Err(fault.into()))
}

/// The effect of one operation on one item.
#[derive(Clone, Copy, Debug)]
struct Move {
    expected: Expected,
    /// The state it leaves; `None` if it does not change the item.
    leaves: Option<State>,
    began: Rank,
    /// `None` if it may never take effect.
    ended: Option<Rank>,
    operation: OperationId,
}

fn moves(history: &History) -> Vec<(Item, Move)> {
    let mut moves = Vec::with_capacity(history.len());
    for operation in history.operations() {
        let (began, ended, id) = (operation.began_rank(), operation.ended_rank(), operation.id);
        match operation.what {
            What::Commit { edits, ending, .. } => {
                let ended = match ending {
                    Ending::Conflict | Ending::Refused => continue,
                    Ending::Committed(_) => ended,
                    Ending::Unknown | Ending::Open => None,
                };
                let this = |expected, leaves| Move { expected, leaves, began, ended, operation: id };
                for edit in edits {
                    let leaves = Change::of(edit.item, edit.effect).map(|change| change.now);
                    // An edit that leaves the state it expects changes nothing.
                    let leaves = leaves.filter(|state| Expected::seen(*state) != edit.expected);
                    // A condition of a commit that may not have happened requires nothing.
                    if leaves.is_some() || ended.is_some() {
                        moves.push((edit.item, this(edit.expected, leaves)));
                    }
                }
            }
            What::Load { version: None, .. } => {}
            What::Load { version: Some(_), seen } | What::Sight { seen } => {
                let this = |expected| Move { expected, leaves: None, began, ended, operation: id };
                moves.extend(seen.iter().map(|seen| (seen.item, this(Expected::seen(seen.state)))));
            }
        }
    }
    moves
}

/// Numbers of moves, in rising order.
type Set = SmallVec<[u32; 6]>;

/// A possible situation at one moment: the item's state, and which pending moves have taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    state: State,
    /// Moves that change the item and will end.
    writes: Set,
    /// Moves that change the item and never end.
    optional: Set,
    /// Moves that change nothing.
    reads: Set,
}

impl Configuration {
    /// Whether this can reach everything that `other` can.
    fn dominates(&self, other: &Self) -> bool {
        self.state == other.state
            && self.writes == other.writes
            && subset(&self.optional, &other.optional)
            && subset(&other.reads, &self.reads)
    }
}

fn subset(part: &[u32], whole: &[u32]) -> bool {
    part.len() <= whole.len() && part.iter().all(|number| whole.binary_search(number).is_ok())
}

fn insert(set: &mut Set, number: u32) {
    if let Err(slot) = set.binary_search(&number) {
        set.insert(slot, number);
    }
}

/// Removes a number; returns whether it was there.
fn remove(set: &mut Set, number: u32) -> bool {
    set.binary_search(&number).map(|slot| set.remove(slot)).is_ok()
}

enum Stop {
    Impossible { operation: OperationId, possible: Vec<State> },
    TooMany { operation: OperationId },
}

/// The search over one item's moves.
struct Search<'a> {
    moves: &'a [(Item, Move)],
    /// None of them dominates another.
    configurations: Vec<Configuration>,
    /// Moves that have begun and not ended, by their number in the group.
    writes: Vec<u32>,
    optional: Vec<u32>,
    reads: Vec<u32>,
    /// For each state of the item, the moves that may still concern it.
    outlook: FxHashMap<CommitId, Outlook>,
    /// The number of remaining moves that need the item to exist, in any state.
    need_present: u32,
    /// The number of moves in `optional` at which it is next searched for moves that can no longer take effect.
    retire_at: usize,
}

/// How many of the moves that may still take effect leave the item in a state, and how many expect it there.
#[derive(Default)]
struct Outlook {
    sources: u32,
    takers: u32,
}

/// With fewer optional moves than this, the search is not worth its cost. In tests it always runs, so that small
/// histories cover it.
const FEW: usize = if cfg!(test) { 1 } else { 16 };

/// With this many configurations or more, some may differ only in irrelevant moves.
const CROWD: usize = if cfg!(test) { 2 } else { 8 };

impl<'a> Search<'a> {
    fn new(moves: &'a [(Item, Move)], state: State) -> Self {
        let (writes, optional, reads) = (Set::new(), Set::new(), Set::new());
        let configurations = vec![Configuration { state, writes, optional, reads }];
        let mut outlook: FxHashMap<CommitId, Outlook> = FxHashMap::default();
        let mut need_present = 0;
        for (_, this) in moves {
            if let Some(Some(commit)) = this.leaves {
                outlook.entry(commit).or_default().sources += 1;
            }
            match this.expected {
                Expected::Is(commit) => outlook.entry(commit).or_default().takers += 1,
                Expected::Present => need_present += 1,
                Expected::Absent | Expected::Anything => {}
            }
        }
        let (writes, optional, reads) = (Vec::new(), Vec::new(), Vec::new());
        Self { moves, configurations, writes, optional, reads, outlook, need_present, retire_at: FEW }
    }

    fn get(&self, number: u32) -> &'a Move {
        &self.moves[number as usize].1
    }

    fn run(mut self) -> Result<(), Stop> {
        let mut events = Vec::with_capacity(self.moves.len() * 2);
        for (number, (_, this)) in (0_u32..).zip(self.moves) {
            events.push((this.began, false, number));
            events.extend(this.ended.map(|ended| (ended, true, number)));
        }
        // At equal ranks beginnings come first: such operations overlap.
        events.sort_unstable();
        for (_, is_end, number) in events {
            if is_end {
                self.end(number)?;
            } else {
                self.begin(number);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: u32) {
        let this = self.get(number);
        if this.leaves.is_none() {
            self.reads.push(number);
            for configuration in &mut self.configurations {
                if this.expected.holds(configuration.state) {
                    insert(&mut configuration.reads, number);
                }
            }
        } else if this.ended.is_some() {
            self.writes.push(number);
        } else if self.pointless(this) {
            self.gone(number);
        } else {
            self.optional.push(number);
            if self.optional.len() >= self.retire_at {
                self.retire();
                self.retire_at = FEW.max(self.optional.len() * 2);
            }
        }
    }

    /// Keeps the configurations in which this move has taken effect by now.
    fn end(&mut self, number: u32) -> Result<(), Stop> {
        let this = self.get(number);
        let operation = this.operation;
        let before: Vec<Configuration> = std::mem::take(&mut self.configurations);
        let mut after = Vec::with_capacity(before.len());
        let mut visited: Vec<Configuration> = Vec::new();
        for configuration in &before {
            if has(configuration, number) {
                keep(&mut after, configuration.clone());
            } else {
                keep(&mut visited, configuration.clone());
            }
        }
        let mut next = 0;
        while let Some(from) = visited.get(next).cloned() {
            next += 1;
            if visited.len() + after.len() > MOST_CONFIGURATIONS {
                return Err(Stop::TooMany { operation });
            }
            for to in self.steps(&from) {
                if has(&to, number) {
                    keep(&mut after, to);
                } else if !visited.iter().any(|other| other.dominates(&to)) {
                    visited.push(to);
                }
            }
        }
        if after.is_empty() {
            let mut possible: Vec<State> = visited.iter().map(|configuration| configuration.state).collect();
            possible.sort_unstable();
            possible.dedup();
            return Err(Stop::Impossible { operation, possible });
        }
        let pending = if this.leaves.is_none() { &mut self.reads } else { &mut self.writes };
        pending.retain(|other| *other != number);
        for configuration in &mut after {
            let _ = remove(&mut configuration.reads, number) || remove(&mut configuration.writes, number);
        }
        self.configurations = after;
        self.gone(number);
        self.forget_used();
        if self.configurations.len() >= CROWD {
            self.retire();
        }
        Ok(())
    }

    /// The configurations reached by one pending move that changes the item.
    fn steps(&self, from: &Configuration) -> impl Iterator<Item = Configuration> {
        let writes = self.writes.iter().map(|number| (*number, true));
        let all = writes.chain(self.optional.iter().map(|number| (*number, false)));
        all.filter_map(move |(number, required)| {
            let this = self.get(number);
            let used = if required { &from.writes } else { &from.optional };
            if !this.expected.holds(from.state) || used.binary_search(&number).is_ok() {
                return None;
            }
            let mut to = from.clone();
            to.state = this.leaves?;
            insert(if required { &mut to.writes } else { &mut to.optional }, number);
            for read in &self.reads {
                if self.get(*read).expected.holds(to.state) {
                    insert(&mut to.reads, *read);
                }
            }
            Some(to)
        })
    }

    /// Removes moves that never end and have taken effect in every configuration.
    fn forget_used(&mut self) {
        let Some((first, rest)) = self.configurations.split_first() else { return };
        let everywhere = |number: &u32| rest.iter().all(|other| other.optional.binary_search(number).is_ok());
        let used: Set = first.optional.iter().copied().filter(everywhere).collect();
        if used.is_empty() {
            return;
        }
        self.optional.retain(|number| used.binary_search(number).is_err());
        for configuration in &mut self.configurations {
            configuration.optional.retain(|number| used.binary_search(number).is_err());
        }
        for number in used {
            self.gone(number);
        }
    }

    /// Whether this move, if it takes effect, enables nothing: no remaining move needs the state that it leaves.
    fn pointless(&self, this: &Move) -> bool {
        let Some(Some(commit)) = this.leaves else { return false };
        self.need_present == 0 && self.outlook.get(&commit).is_none_or(|outlook| outlook.takers == 0)
    }

    /// Whether this move expects a state that cannot occur (again): no configuration is in it, and no remaining move
    /// leaves it.
    fn hopeless(&self, this: &Move) -> bool {
        let Expected::Is(commit) = this.expected else { return false };
        let here = |configuration: &Configuration| configuration.state == Some(commit);
        self.outlook.get(&commit).is_none_or(|outlook| outlook.sources == 0) && !self.configurations.iter().any(here)
    }

    /// Removes moves that never end and are pointless or hopeless: whether they took effect makes no difference. This
    /// keeps the search linear if many outcomes are unknown.
    fn retire(&mut self) {
        let mut optional = std::mem::take(&mut self.optional);
        let before = optional.len();
        optional.retain(|number| {
            let this = self.get(*number);
            let stays = !self.hopeless(this) && !self.pointless(this);
            if !stays {
                self.gone(*number);
            }
            stays
        });
        self.optional = optional;
        if self.optional.len() == before {
            return;
        }
        let mut kept = Vec::new();
        for mut configuration in std::mem::take(&mut self.configurations) {
            configuration.optional.retain(|number| self.optional.contains(number));
            keep(&mut kept, configuration);
        }
        self.configurations = kept;
    }

    /// Removes a move that has certainly taken effect, or never will.
    fn gone(&mut self, number: u32) {
        let this = self.get(number);
        if let Some(Some(commit)) = this.leaves
            && let Some(outlook) = self.outlook.get_mut(&commit)
        {
            outlook.sources -= 1;
        }
        match this.expected {
            Expected::Is(commit) => {
                if let Some(outlook) = self.outlook.get_mut(&commit) {
                    outlook.takers -= 1;
                }
            }
            Expected::Present => self.need_present -= 1,
            Expected::Absent | Expected::Anything => {}
        }
    }
}

/// Whether this move has taken effect.
fn has(configuration: &Configuration, number: u32) -> bool {
    configuration.reads.binary_search(&number).is_ok() || configuration.writes.binary_search(&number).is_ok()
}

/// Adds a configuration unless another dominates it, and drops those that it dominates.
fn keep(all: &mut Vec<Configuration>, this: Configuration) {
    if !all.iter().any(|other| other.dominates(&this)) {
        all.retain(|other| !this.dominates(other));
        all.push(this);
    }
}

#[cfg(test)]
mod tests;
