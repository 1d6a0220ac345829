//! What was each client told, and does it agree?

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use glidepath_env::{Cell, Table};
use glidepath_model::Instant;
use glidepath_sim::Simulation;
use glidepath_txn::restore::Restored;
use glidepath_txn::table::{DecideError, Status};
use glidepath_txn::{Outcome, Timestamp};

use super::life::TABLES;
use super::{HORIZON, STORE};
use crate::run::Checked;

/// All that clients were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    given: BTreeSet<Timestamp>,
    transactions: BTreeMap<Timestamp, Transaction>,
    /// Which reader was told what.
    resolved: Vec<(Timestamp, Timestamp, Outcome)>,
    restore: Option<Restore>,
    checked: Checked,
    violation: Option<String>,
    /// What happened, for a trace.
    lines: Option<Vec<(Instant, String)>>,
}

/// A restore that has begun.
#[derive(Debug)]
struct Restore {
    backup: Timestamp,
    /// When it had ended, and the last timestamp that it looked at.
    ended: Option<(Instant, Timestamp)>,
}

#[derive(Debug, Default)]
struct Transaction {
    /// How it was to end.
    asked: Option<Outcome>,
    /// How it ended, and when that was first told.
    ended: Option<(Outcome, Instant)>,
    /// It was told that nothing of its end has happened, or will.
    refused: bool,
}

impl Told {
    pub(super) fn new(keeps_lines: bool) -> Self {
        Self { lines: keeps_lines.then(Vec::new), ..Self::default() }
    }

    pub(super) fn line(&mut self, at: Instant, process: u32, words: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push((at, format!("process {process} {}", words())));
        }
    }

    pub(super) fn lines(&mut self) -> Vec<(Instant, String)> {
        self.lines.take().unwrap_or_default()
    }

    pub(super) fn counted(&self) -> Checked {
        self.checked.clone()
    }

    pub(super) fn highest(&self) -> Option<Timestamp> {
        self.given.last().copied()
    }

    /// A timestamp was given out. `floor`: the highest one that had been given out when it was asked for.
    pub(super) fn given(&mut self, taken: Timestamp, floor: Option<Timestamp>) {
        if floor.is_some_and(|floor| taken <= floor) {
            self.violated(format!("timestamp {taken} was given out after {floor:?}"));
        }
        if !self.given.insert(taken) {
            self.violated(format!("timestamp {taken} was given out twice"));
        }
    }

    pub(super) fn began(&mut self, start: Timestamp) {
        self.transactions.entry(start).or_default();
    }

    pub(super) fn asked(&mut self, start: Timestamp, outcome: Outcome) {
        self.transactions.entry(start).or_default().asked = Some(outcome);
        self.checked.attempts += 1;
        self.checked.open += 1;
    }

    pub(super) fn decided(
        &mut self,
        start: Timestamp,
        asked: Outcome,
        decided: Result<&Outcome, &DecideError>,
        now: Instant,
    ) {
        match decided {
            Ok(outcome) => {
                self.checked.open -= 1;
                self.checked.committed += u64::from(*outcome == asked);
                self.saw(start, Status::Ended(*outcome), now, now);
            }
            Err(DecideError::Refused(denial)) if denial.certain => {
                self.checked.open -= 1;
                self.transactions.entry(start).or_default().refused = true;
            }
            Err(DecideError::Impossible(error)) => self.violated(format!("transaction {start}: {error}")),
            Err(DecideError::Read(error)) if !is_store(error) => self.violated(error.to_string()),
            Err(_) => {}
        }
        self.checked.simulated = self.checked.simulated.max(now.since(Instant::ZERO));
    }

    /// Some of the transactions that have begun.
    pub(super) fn known(&self, draw: impl Fn() -> u64) -> Vec<Timestamp> {
        let all: Vec<_> = self.transactions.keys().copied().collect();
        // More often the newest ones.
        let recent = &all[all.len().saturating_sub(12)..];
        let pick = |place: u64| {
            let among = if place == 0 { recent } else { &all[..] };
            (!among.is_empty()).then(|| among[(draw() % among.len() as u64) as usize])
        };
        (0..5).filter_map(pick).collect()
    }

    /// All transactions that started before this one had ended then, as far as was told.
    pub(super) fn oldest_open(&self, then: Instant) -> Timestamp {
        let is_open = |one: &Transaction| one.ended.is_none_or(|(_, since)| since > then);
        let open = self.transactions.iter().find(|(_, one)| is_open(one)).map(|(start, _)| *start);
        let next = || self.highest().and_then(|highest| Timestamp::new(highest.get() + 1).ok());
        open.or_else(next).unwrap_or(Timestamp::FIRST)
    }

    /// From now on, what committed after the backup may be aborted.
    pub(super) fn restoring(&mut self, backup: Timestamp) {
        self.restore = Some(Restore { backup, ended: None });
    }

    /// A restore has ended.
    pub(super) fn restored(&mut self, backup: Timestamp, restored: Restored, now: Instant) {
        let Some(last) = restored.last else { return self.violated("a restore had no last timestamp".to_owned()) };
        if self.highest().is_some_and(|highest| last <= highest) {
            self.violated(format!("a restore ended at {last}, which does not come after {:?}", self.highest()));
        }
        self.given.insert(last);
        self.restore = Some(Restore { backup, ended: Some((now, last)) });
        for one in self.transactions.values_mut() {
            if one.ended.is_some_and(|(outcome, _)| is_undone(outcome, backup)) {
                one.ended = Some((Outcome::Aborted, now));
            }
        }
        // Data that such a reader wrote is gone too.
        self.resolved.retain(|(_, at, _)| *at <= backup);
    }

    /// A read that began at `began` has ended now, and said this.
    pub(super) fn saw(&mut self, start: Timestamp, status: Status, began: Instant, now: Instant) {
        if let Some(words) = self.after_restore(start, status, began) {
            self.violated(words);
        }
        let transaction = self.transactions.entry(start).or_default();
        let violation = match (status, &transaction.ended) {
            (Status::InProgress, Some((outcome, since))) if *since < began => {
                Some(format!("transaction {start} was told to have ended {outcome:?}, and later to be in progress"))
            }
            (Status::Ended(outcome), Some((before, _))) if *before != outcome => {
                Some(format!("transaction {start} was told to have ended {before:?}, and {outcome:?}"))
            }
            (Status::Ended(outcome), None) => {
                transaction.ended = Some((outcome, now));
                None
            }
            _ => None,
        };
        violation.into_iter().for_each(|words| self.violated(words));
    }

    /// A scan that began at `began` has found these in these ranges.
    pub(super) fn scanned(
        &mut self,
        ranges: &[RangeInclusive<Timestamp>],
        found: &[(Timestamp, Outcome)],
        began: Instant,
        now: Instant,
    ) {
        let mut seen = BTreeSet::new();
        for (start, outcome) in found {
            if !seen.insert(*start) {
                self.violated(format!("a scan shows transaction {start} twice"));
            }
            self.saw(*start, Status::Ended(*outcome), began, now);
        }
        let within = |start: &Timestamp| ranges.iter().any(|range| range.contains(start));
        let missing = |(start, one): &(&Timestamp, &Transaction)| {
            within(start) && !seen.contains(start) && one.ended.is_some_and(|(_, since)| since < began)
        };
        let missing: Vec<_> = self.transactions.iter().filter(missing).map(|(start, _)| *start).collect();
        missing.into_iter().for_each(|start| self.saw(start, Status::InProgress, began, now));
    }

    /// A reader at `at` was told that the transaction ended so.
    pub(super) fn resolved(&mut self, start: Timestamp, at: Timestamp, outcome: Outcome) {
        self.resolved.push((start, at, outcome));
    }

    /// What is wrong with this status of a transaction that began before a restore.
    fn after_restore(&self, start: Timestamp, status: Status, began: Instant) -> Option<String> {
        let Restore { backup, ended: Some((ended, last)) } = self.restore.as_ref()? else { return None };
        let is_wrong = match status {
            Status::InProgress => true,
            Status::Ended(outcome) => is_undone(outcome, *backup),
        };
        (start <= *last && *ended < began && is_wrong)
            .then(|| format!("transaction {start} began before a restore to {backup} and is {status:?} after it"))
    }

    fn violated(&mut self, words: String) {
        self.violation.get_or_insert(words);
    }

    /// Whether a restore that never ended may have made the first the second.
    fn may_undo(&self, told: Outcome, now: Option<&Outcome>) -> bool {
        let begun = self.restore.as_ref().filter(|restore| restore.ended.is_none());
        now == Some(&Outcome::Aborted) && begun.is_some_and(|restore| is_undone(told, restore.backup))
    }

    /// Whether all of it was right.
    pub(super) fn judge(self, simulation: &Simulation) -> Result<(), String> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let mut held: BTreeMap<Timestamp, Outcome> = BTreeMap::new();
        for table in TABLES.into_iter().filter_map(Table::new) {
            for (start, outcome) in held_by(simulation, &table)? {
                if held.insert(start, outcome).is_some() {
                    return Err(format!("transaction {start} has a cell in two tables"));
                }
            }
        }
        let after_all = Instant::ZERO + HORIZON + HORIZON;
        for (start, Transaction { asked, ended, refused }) in &self.transactions {
            let now = held.get(start);
            let status = now.map_or(Status::InProgress, |outcome| Status::Ended(*outcome));
            if let Some(words) = self.after_restore(*start, status, after_all) {
                return Err(words);
            }
            if let Some((outcome, _)) = ended
                && now != Some(outcome)
                && !self.may_undo(*outcome, now)
            {
                return Err(format!("transaction {start} was told to have ended {outcome:?}; the store holds {now:?}"));
            }
            if let Some(Outcome::Committed(commit)) = now
                && (*asked != Some(Outcome::Committed(*commit)) || *refused)
            {
                return Err(format!(
                    "transaction {start} is committed at {commit}; it asked for {asked:?}, refused: {refused}"
                ));
            }
        }
        let unfinished = self.restore.as_ref().filter(|restore| restore.ended.is_none());
        let is_gone = |at: &Timestamp| unfinished.is_some_and(|restore| *at > restore.backup);
        for (start, at, outcome) in self.resolved.iter().filter(|(_, at, _)| !is_gone(at)) {
            let sees = |outcome: Option<&Outcome>| matches!(outcome, Some(Outcome::Committed(commit)) if commit < at);
            if sees(Some(outcome)) != sees(held.get(start)) {
                return Err(format!(
                    "a reader at {at} was told that transaction {start} ended {outcome:?}; the store holds {:?}",
                    held.get(start)
                ));
            }
        }
        Ok(())
    }
}

/// Whether a restore to this timestamp makes it an abort.
fn is_undone(outcome: Outcome, backup: Timestamp) -> bool {
    matches!(outcome, Outcome::Committed(commit) if commit > backup)
}

fn is_store(error: &glidepath_txn::table::GetError) -> bool {
    matches!(error, glidepath_txn::table::GetError::Store(_))
}

/// What a table holds at the end.
fn held_by(simulation: &Simulation, table: &Table) -> Result<Vec<(Timestamp, Outcome)>, String> {
    let Some(formats) = Table::new("glidepath_formats") else { return Ok(Vec::new()) };
    let format = Cell { row: table.as_str().to_owned().into(), column: "encoding".into() };
    let Some(format) = simulation.peek_cell(STORE, &formats, &format) else { return Ok(Vec::new()) };
    let encoding = glidepath_txn::table::parse_encoding(&String::from_utf8_lossy(&format))?;
    let cells = simulation.cells(STORE, table).into_iter();
    let decode = |(cell, value): (Cell, bytes::Bytes)| {
        let start = encoding.decode_cell(&cell).map_err(|error| error.to_string())?;
        let entry = encoding.decode_value(start, &value).map_err(|error| format!("transaction {start}: {error}"))?;
        Ok((start, entry.outcome))
    };
    cells.map(decode).collect()
}

#[cfg(test)]
mod tests {
    use glidepath_model::Span;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    #[test]
    fn what_contradicts_is_found() {
        let later = Instant::ZERO + Span::from_secs(1);
        let mut told = Told::default();
        told.saw(at(1), Status::Ended(Outcome::Aborted), Instant::ZERO, Instant::ZERO);
        told.saw(at(1), Status::InProgress, Instant::ZERO, later);
        assert_eq!(told.violation, None);
        told.saw(at(1), Status::InProgress, later, later);
        assert!(told.violation.take().is_some());
        told.saw(at(1), Status::Ended(Outcome::Committed(at(2))), later, later);
        assert!(told.violation.take().is_some());
        told.given(at(5), Some(at(4)));
        assert_eq!(told.violation, None);
        told.given(at(5), Some(at(4)));
        assert!(told.violation.take().is_some());
        told.given(at(7), Some(at(8)));
        assert!(told.violation.take().is_some());
    }
}
