//! How are many transactions ended at once, and what is each told?

use std::collections::BTreeMap;

use bytes::Bytes;
use glidepath_env::{Cause, ConditionError, Denial, Env, KvStore, together};

use super::{DecideError, Transactions};
use crate::mutant::{self, Mutant};
use crate::{Entry, Outcome, Timestamp};
use glidepath_env::settling::{self, ROUNDS};

type Decided = Result<Outcome, DecideError>;

/// Transactions of one row, and the values that are to end them.
struct Row {
    name: Bytes,
    /// By column.
    columns: BTreeMap<Bytes, Asked>,
}

struct Asked {
    start: Timestamp,
    outcome: Outcome,
    value: Bytes,
}

/// What was said of the puts of a row so far.
#[derive(Default)]
struct Doubt {
    /// An earlier put of the row may have taken effect, for this reason.
    unknown: Option<Cause>,
}

impl<E: Env, K: KvStore> Transactions<E, K> {
    /// Ends these transactions, unless they have ended. Answers each as [`Self::decide`] does, in their order. They are
    /// not ended together: of some it may be known how they ended, and of others not. Of several entries of one
    /// transaction the first counts, and all are answered by what it was ended with.
    pub async fn decide_many(&self, wanted: &[(Timestamp, Outcome)]) -> Vec<Decided> {
        let mut answers: BTreeMap<Timestamp, Decided> = BTreeMap::new();
        let mut rows: BTreeMap<Bytes, Row> = BTreeMap::new();
        for &(start, outcome) in wanted {
            if answers.contains_key(&start) {
                continue;
            }
            if let Some(ended) = self.shared.ends.get(start) {
                answers.insert(start, Ok(ended));
                continue;
            }
            match self.shared.encoding.encode_value(start, self.shared.encoding.deciding(outcome)) {
                Err(error) => _ = answers.insert(start, Err(error.into())),
                Ok(value) => {
                    let cell = self.shared.encoding.cell(start);
                    let row = rows.entry(cell.row.clone());
                    let row = row.or_insert_with(|| Row { name: cell.row, columns: BTreeMap::new() });
                    row.columns.entry(cell.column).or_insert(Asked { start, outcome, value });
                }
            }
        }
        let most = self.most_columns();
        let parts = rows.into_values().flat_map(|row| row.split(most));
        let put = together(self.shared.options.parallel, parts.map(|row| self.decide_row(row))).await;
        answers.extend(put.into_iter().flatten());
        wanted.iter().map(|(start, _)| answers.get(start).cloned().unwrap_or_else(no_answer)).collect()
    }

    /// Steps 1 to 4, in one row.
    async fn decide_row(&self, mut row: Row) -> Vec<(Timestamp, Decided)> {
        let mut answers = Vec::new();
        let mut doubt = Doubt::default();
        let mut round = 0;
        while !row.columns.is_empty() {
            let columns: Vec<_> = row.columns.iter().map(|(name, asked)| (name.clone(), asked.value.clone())).collect();
            let error = match self.store.put_unless_exists(&self.shared.table, &row.name, &columns).await {
                Ok(()) => {
                    self.all_done(row, &mut answers).await;
                    break;
                }
                Err(ConditionError::Unknown(_)) if mutant::is(Mutant::UnknownIsDone) => {
                    self.all_done(row, &mut answers).await;
                    break;
                }
                Err(ConditionError::Lost { found }) => match self.found(&mut row, found, &mut answers).await {
                    Ok(()) => continue,
                    Err(cause) => DecideError::Unknown(cause),
                },
                Err(ConditionError::Unknown(cause)) => {
                    doubt.unknown = Some(cause.clone());
                    DecideError::Unknown(cause)
                }
                Err(ConditionError::Refused(denial)) => doubt.refused(denial),
            };
            round += 1;
            let passing = match &error {
                DecideError::Refused(denial) => denial.passing,
                _ => true,
            };
            if !passing || round == ROUNDS {
                answers.extend(row.columns.into_values().map(|asked| (asked.start, Err(error.clone()))));
                break;
            }
            settling::wait(&self.env, round - 1).await;
        }
        answers
    }

    /// Step 2.
    async fn all_done(&self, row: Row, answers: &mut Vec<(Timestamp, Decided)>) {
        let ended: Vec<_> = row.columns.into_values().map(|asked| (asked.start, asked.outcome)).collect();
        self.shared.ends.keep(&ended);
        answers.extend(ended.iter().map(|(start, outcome)| (*start, Ok(*outcome))));
        let entries: Vec<_> =
            ended.into_iter().map(|(start, outcome)| (start, self.shared.encoding.deciding(outcome))).collect();
        self.make_final(&entries).await;
    }

    /// Step 3: takes those that have ended out of the row. An error where there are none: the put was lost to nothing.
    async fn found(
        &self,
        row: &mut Row,
        found: Vec<(Bytes, Bytes)>,
        answers: &mut Vec<(Timestamp, Decided)>,
    ) -> Result<(), Cause> {
        let mut entries: Vec<(Timestamp, Entry)> = Vec::new();
        let before = row.columns.len();
        for (column, value) in found {
            let Some(Asked { start, .. }) = row.columns.remove(&column) else { continue };
            let cell = glidepath_env::Cell { row: row.name.clone(), column };
            match self.decode(&cell, &value) {
                Ok((start, entry)) => {
                    entries.push((start, entry));
                    answers.push((start, Ok(entry.outcome)));
                }
                Err(error) => answers.push((start, Err(error.into()))),
            }
        }
        self.shared.ends.keep(&entries.iter().map(|(start, entry)| (*start, entry.outcome)).collect::<Vec<_>>());
        self.make_final(&entries).await;
        match row.columns.len() < before {
            true => Ok(()),
            false => Err(Cause::words("the store says that the put was lost, and names none of its columns")),
        }
    }
}

impl Doubt {
    /// A refusal proves that nothing happened only if it does, and no earlier put may have taken effect.
    fn refused(&mut self, denial: Denial) -> DecideError {
        if !denial.certain {
            self.unknown.get_or_insert_with(|| denial.cause.clone());
        }
        match &self.unknown {
            Some(cause) => DecideError::Unknown(cause.clone()),
            None => DecideError::Refused(denial),
        }
    }
}

impl Row {
    /// Parts with so many columns at most.
    fn split(self, most: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for (column, asked) in self.columns {
            match parts.last_mut() {
                Some(part) if part.columns.len() < most => _ = part.columns.insert(column, asked),
                _ => parts.push(Self { name: self.name.clone(), columns: BTreeMap::from([(column, asked)]) }),
            }
        }
        parts
    }
}

fn no_answer() -> Decided {
    Err(DecideError::Unknown(Cause::words("there was no answer")))
}
