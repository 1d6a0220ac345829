//! The points about writes of one writer.

use bytes::Bytes;

use super::super::trial::{Broken, done, holds, same};
use super::trial::{KvTrial, lost_to};
use crate::{Cell, ConditionError, KvStore, Rank, ReadLevel};

pub(super) async fn table_again<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1")]).await?;
    trial.create_table().await?;
    trial.expect("row", &[("a", Some("1"))]).await
}

pub(super) async fn put_creates<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1"), ("b", "2")]).await?;
    trial.expect("row", &[("a", Some("1")), ("b", Some("2")), ("c", None)]).await
}

pub(super) async fn put_loses<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1")]).await?;
    lost_to("a put of another value", trial.try_put("row", &[("a", "2")]).await, &[("a", "1")])?;
    lost_to("a put of the same value", trial.try_put("row", &[("a", "1")]).await, &[("a", "1")])?;
    trial.expect("row", &[("a", Some("1"))]).await
}

pub(super) async fn all_or_nothing<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("b", "old")]).await?;
    let put = trial.try_put("row", &[("a", "new"), ("b", "new"), ("c", "new")]).await;
    lost_to("a put of which one column exists", put, &[("b", "old")])?;
    trial.expect("row", &[("a", None), ("b", Some("old")), ("c", None)]).await
}

pub(super) async fn found_is_exact<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1"), ("c", "3"), ("d", ""), ("e", "5")]).await?;
    let put = trial.try_put("row", &[("d", "x"), ("b", "x"), ("c", "x"), ("f", "x")]).await;
    lost_to("a put of which two columns exist", put, &[("c", "3"), ("d", "")])
}

pub(super) async fn other_columns<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1")]).await?;
    trial.put("row", &[("b", "2")]).await?;
    trial.put("another row", &[("a", "3")]).await?;
    trial.expect("row", &[("a", Some("1")), ("b", Some("2"))]).await?;
    trial.expect("another row", &[("a", Some("3")), ("b", None)]).await
}

pub(super) async fn empty_value<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "")]).await?;
    trial.expect("row", &[("a", Some(""))]).await?;
    lost_to("a put onto an empty value", trial.try_put("row", &[("a", "1")]).await, &[("a", "")])?;
    let set = |expected: Option<Bytes>, new: &'static str| async move {
        let (cell, new) = (trial.cell("row", "a"), Bytes::from_static(new.as_bytes()));
        trial.store().compare_and_set(&trial.table, &cell, expected.as_ref(), &new).await
    };
    lost_to("compare-and-set of an absent cell, onto an empty value,", set(None, "1").await, &[("a", "")])?;
    done("compare-and-set of an empty value", set(Some(Bytes::new()), "1").await)?;
    trial.expect("row", &[("a", Some("1"))]).await
}

pub(super) async fn any_bytes<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let all: Vec<u8> = (0..=255).collect();
    let row = [&trial.row("")[..], &all].concat();
    // Each byte alone as well: first and last bytes are where escapes go wrong.
    let columns: Vec<_> = (0..=255_u8).map(|byte| (Bytes::from(vec![byte]), Bytes::from(all.clone()))).collect();
    let columns = &columns[..columns.len().min(trial.store().capabilities().most_columns)];
    put_and_read(trial, row.into(), columns).await
}

pub(super) async fn large_value<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let value: Vec<u8> = (0..1_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    put_and_read(trial, trial.row("row"), &[(Bytes::from_static(b"large"), value.into())]).await
}

pub(super) async fn long_names<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let long = |last: &str| Bytes::from(format!("{}{last}", "x".repeat(999)));
    let row = trial.row(&"r".repeat(1000 - trial.row("").len()));
    put_and_read(trial, row, &[(long("a"), long("1")), (long("b"), long("2"))]).await
}

pub(super) async fn many_columns<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let count = trial.store().capabilities().most_columns.min(1000);
    let column = |n: usize| (Bytes::from(format!("{n:04}")), Bytes::from(n.to_string()));
    put_and_read(trial, trial.row("row"), &(0..count).map(column).collect::<Vec<_>>()).await
}

async fn put_and_read<S: KvStore>(
    trial: &KvTrial<'_, S>,
    row: Bytes,
    columns: &[(Bytes, Bytes)],
) -> Result<(), Broken> {
    done("a put of new columns", trial.store().put_unless_exists(&trial.table, &row, columns).await)?;
    let cells: Vec<_> = columns.iter().map(|(column, _)| Cell { row: row.clone(), column: column.clone() }).collect();
    for ((column, value), found) in columns.iter().zip(trial.get(&cells).await?) {
        let found = found.ok_or_else(|| Broken(format!("column {column:?} is not there")))?;
        same(&format!("the value of column {column:?}"), &found, value)?;
    }
    Ok(())
}

pub(super) async fn strange_puts<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    for columns in [&[][..], &[("a", "1"), ("b", "2"), ("a", "1")][..]] {
        match trial.try_put("row", columns).await {
            Err(ConditionError::Refused(_)) => {}
            other => return Err(Broken(format!("a put of {columns:?} was not refused but: {other:?}"))),
        }
    }
    trial.expect("row", &[("a", None), ("b", None)]).await
}

async fn set<S: KvStore>(
    trial: &KvTrial<'_, S>,
    column: &'static str,
    expected: Option<&'static str>,
    new: &'static str,
) -> Result<(), ConditionError> {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let cell = trial.cell("row", column);
    trial.store().compare_and_set(&trial.table, &cell, expected.map(bytes).as_ref(), &bytes(new)).await
}

pub(super) async fn set_replaces<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1")]).await?;
    done("compare-and-set", set(trial, "a", Some("1"), "2").await)?;
    done("a second compare-and-set", set(trial, "a", Some("2"), "3").await)?;
    trial.expect("row", &[("a", Some("3"))]).await
}

pub(super) async fn set_creates<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    done("compare-and-set of an absent cell", set(trial, "a", None, "1").await)?;
    trial.expect("row", &[("a", Some("1"))]).await?;
    lost_to("a put onto what was set", trial.try_put("row", &[("a", "2")]).await, &[("a", "1")])
}

pub(super) async fn set_loses<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1")]).await?;
    lost_to("compare-and-set of another value", set(trial, "a", Some("2"), "3").await, &[("a", "1")])?;
    lost_to("compare-and-set of an absent cell", set(trial, "a", None, "3").await, &[("a", "1")])?;
    trial.expect("row", &[("a", Some("1"))]).await
}

pub(super) async fn set_missing_loses<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("b", "1")]).await?;
    lost_to("compare-and-set of a missing cell", set(trial, "a", Some("1"), "2").await, &[])?;
    trial.expect("row", &[("a", None), ("b", Some("1"))]).await
}

pub(super) async fn set_leaves_others<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row", &[("a", "1"), ("ab", "1"), ("b", "1")]).await?;
    trial.put("row2", &[("ab", "1")]).await?;
    done("compare-and-set", set(trial, "ab", Some("1"), "2").await)?;
    trial.expect("row", &[("a", Some("1")), ("ab", Some("2")), ("b", Some("1"))]).await?;
    trial.expect("row2", &[("ab", Some("1"))]).await
}

pub(super) async fn final_stays<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().final_writes {
        return Ok(());
    }
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let write = |value: &'static str, rank: Rank| async move {
        let cell = trial.cell("row", "a");
        done("a final put", trial.store().put_final(&trial.table, &cell, &bytes(value), rank).await)
    };
    trial.put("row", &[("a", "staged")]).await?;
    write("committed", Rank::Written).await?;
    let plain = trial.store().get(&trial.table, &[trial.cell("row", "a")], ReadLevel::Plain).await;
    let plain = done("a plain get", plain)?;
    holds(plain == [Some(bytes("committed"))], || format!("a plain get shows {plain:?} after a final put"))?;
    // Whether it is told that it lost depends on the store; what reads show does not.
    let _ = set(trial, "a", Some("committed"), "changed").await;
    let _ = trial.try_put("row", &[("a", "changed")]).await;
    trial.expect("row", &[("a", Some("committed"))]).await?;
    write("restored", Rank::Restored).await?;
    write("committed", Rank::Written).await?;
    trial.expect("row", &[("a", Some("restored"))]).await
}
