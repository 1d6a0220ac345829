//! The points about many writers at the same time.

use std::future::Future;

use bytes::Bytes;

use super::super::trial::{Broken, holds};
use super::reads::one;
use super::trial::KvTrial;
use crate::{ConditionError, KvStore, together};

const WRITERS: usize = 16;
const WRITES_EACH: usize = 10;

/// The number of tries after which a writer gives up a write.
const MOST_TRIES: usize = 1000;

type Lost = Vec<(Bytes, Bytes)>;

/// Sends a conditional write until it succeeds or is lost. A store may refuse requests under load, and may time out
/// where writers of one row meet: what is unknown is settled by the same write again, which is then lost to itself.
async fn insist<F>(mut write: impl FnMut() -> F) -> Result<Result<(), Lost>, Broken>
where
    F: Future<Output = Result<(), ConditionError>>,
{
    let mut last = String::new();
    for _ in 0..MOST_TRIES {
        match write().await {
            Ok(()) => return Ok(Ok(())),
            Err(ConditionError::Lost { found }) => return Ok(Err(found)),
            Err(error) => last = error.to_string(),
        }
    }
    Err(Broken(format!("a conditional write failed {MOST_TRIES} times, the last time: {last}")))
}

pub(super) async fn creators<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    for round in 0..4 {
        let cell = &trial.cell(&format!("round {round}"), "a");
        let create = |writer: usize| async move {
            let columns = one(cell, format!("writer {writer}"));
            let store = trial.handle(writer);
            match insist(|| store.put_unless_exists(&trial.table, &cell.row, &columns)).await? {
                Ok(()) => Ok(columns.to_vec()),
                Err(found) => Ok(found),
            }
        };
        let ends = together(WRITERS, (0..WRITERS).map(create)).await;
        let ends = ends.into_iter().collect::<Result<Vec<_>, Broken>>()?;
        let there = trial.get(std::slice::from_ref(cell)).await?.pop().flatten();
        let there = there.ok_or_else(|| Broken("16 writers of a cell, and it does not exist".to_owned()))?;
        let wanted = vec![(cell.column.clone(), there)];
        for (writer, end) in ends.iter().enumerate() {
            holds(*end == wanted, || format!("writer {writer} was told of {end:?} where {wanted:?} is there"))?;
        }
    }
    Ok(())
}

pub(super) async fn neighbours<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let row = &trial.row("row");
    let write = |writer: usize| async move {
        for number in 0..WRITES_EACH {
            let columns = [(Bytes::from(format!("{writer}/{number}")), Bytes::from(writer.to_string()))];
            let store = trial.handle(writer);
            if let Err(found) = insist(|| store.put_unless_exists(&trial.table, row, &columns)).await? {
                let own = found == columns;
                holds(own, || format!("writer {writer}, alone with its column, was told of {found:?}"))?;
            }
        }
        Ok(())
    };
    together(WRITERS, (0..WRITERS).map(write)).await.into_iter().collect::<Result<Vec<()>, Broken>>()?;
    let found = trial.scan("row", &crate::Columns::default(), 1000).await?.cells.len();
    let wanted = WRITERS * WRITES_EACH;
    holds(found == wanted, || format!("of {wanted} acknowledged columns {found} are there"))
}

/// Writer n writes columns n and n + 1: of two neighbours one at most can have written.
pub(super) async fn overlaps<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let column = |n: usize| Bytes::from(format!("{n:02}"));
    let row = &trial.row("row");
    let write = |writer: usize| async move {
        let value = Bytes::from(format!("writer {writer}"));
        let columns = [(column(writer), value.clone()), (column(writer + 1), value)];
        let store = trial.handle(writer);
        insist(|| store.put_unless_exists(&trial.table, row, &columns)).await
    };
    let ends = together(WRITERS, (0..WRITERS).map(write)).await;
    let ends = ends.into_iter().collect::<Result<Vec<_>, Broken>>()?;
    let there = trial.scan("row", &crate::Columns::default(), 100).await?.cells;
    for (writer, end) in ends.iter().enumerate() {
        let own = format!("writer {writer}");
        let written = there.iter().filter(|(_, value)| value.as_ref() == own.as_bytes()).count();
        let wanted = if end.is_ok() { 2 } else { written };
        holds(written == wanted && written != 1, || format!("{own}, {end:?}, has {written} of 2 columns"))?;
    }
    holds(ends.iter().any(Result::is_ok), || "of 16 writers nobody could write".to_owned())
}

pub(super) async fn increments<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("counter", &[("a", "0")]).await?;
    let cell = &trial.cell("counter", "a");
    // Each value names its writer and its number, so that one whose answer was lost can be told.
    let count = |writer: usize| async move {
        for number in 0..WRITES_EACH {
            increment(trial, writer, number).await?;
        }
        Ok(())
    };
    together(WRITERS, (0..WRITERS).map(count)).await.into_iter().collect::<Result<Vec<()>, Broken>>()?;
    let counted = trial.get(std::slice::from_ref(cell)).await?.pop().flatten();
    let counted = number_in(counted.as_ref())?;
    let wanted = WRITERS * WRITES_EACH;
    holds(counted == wanted, || format!("of {wanted} acknowledged increments {counted} survived"))
}

async fn increment<S: KvStore>(trial: &KvTrial<'_, S>, writer: usize, number: usize) -> Result<(), Broken> {
    let cell = trial.cell("counter", "a");
    for _ in 0..MOST_TRIES {
        let old = trial.get(std::slice::from_ref(&cell)).await?.pop().flatten();
        let next = Bytes::from(format!("{} writer {writer} number {number}", number_in(old.as_ref())? + 1));
        match trial.handle(writer).compare_and_set(&trial.table, &cell, old.as_ref(), &next).await {
            Ok(()) => return Ok(()),
            Err(ConditionError::Lost { .. } | ConditionError::Refused(_)) => {}
            Err(ConditionError::Unknown(cause)) => {
                return Err(Broken(format!("it is not known whether an increment happened: {cause}")));
            }
        }
    }
    Err(Broken(format!("writer {writer} lost {MOST_TRIES} times")))
}

fn number_in(value: Option<&Bytes>) -> Result<usize, Broken> {
    let text = value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
    let number = text.split(' ').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| Broken(format!("the counter holds {value:?}")))
}
