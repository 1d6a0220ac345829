//! The points about reads.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::trial::{Broken, done, holds};
use super::trial::KvTrial;
use crate::{Cell, Columns, ConditionError, KvReadError, KvStore, ReadLevel, Table};

pub(super) async fn get_order<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.put("row 1", &[("a", "1a"), ("b", "1b")]).await?;
    trial.put("row 2", &[("a", "2a")]).await?;
    let asked = [("row 2", "a"), ("row 1", "b"), ("row 2", "b"), ("row 1", "a"), ("row 2", "a"), ("row 3", "a")];
    let cells = asked.map(|(row, column)| trial.cell(row, column));
    let wanted = [Some("2a"), Some("1b"), None, Some("1a"), Some("2a"), None];
    let found = trial.get(&cells).await?;
    let same = found.iter().zip(wanted).all(|(found, wanted)| found.as_deref() == wanted.map(str::as_bytes));
    holds(same, || format!("get of {asked:?} answers {found:?} where {wanted:?} was expected"))
}

pub(super) async fn get_nothing<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    trial.get(&[]).await.map(drop)
}

pub(super) async fn no_table<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let Some(table) = Table::new("no_such_table") else { return Err(Broken("no name".to_owned())) };
    let (store, cell) = (trial.store(), trial.cell("row", "a"));
    let says_so = |what: &str, error: Option<KvReadError>| match error {
        Some(KvReadError::NoTable(named)) if named == table => Ok(()),
        other => Err(Broken(format!("{what} of a table that does not exist did not say so but: {other:?}"))),
    };
    says_so("a get", store.get(&table, std::slice::from_ref(&cell), ReadLevel::Plain).await.err())?;
    let columns = Columns::default();
    says_so("a scan", store.scan(&table, &cell.row, &columns, 10, ReadLevel::Plain).await.err())?;
    says_so("a list of the rows", store.rows(&table, None, 10).await.err())?;
    match store.put_unless_exists(&table, &cell.row, &[(cell.column.clone(), Bytes::new())]).await {
        Err(ConditionError::Refused(_)) => Ok(()),
        other => Err(Broken(format!("a put into a table that does not exist was not refused but: {other:?}"))),
    }
}

fn columns_of(cells: &[(Bytes, Bytes)]) -> Vec<&[u8]> {
    cells.iter().map(|(column, _)| column.as_ref()).collect()
}

/// In byte order: what begins with another comes behind it, and bytes are not signed.
const ORDERED: [&[u8]; 7] = [b"\x00", b"\x00\x00", b"a", b"a\x00", b"aa", b"b", b"\xff"];

async fn write_ordered<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    for place in [3, 0, 6, 1, 5, 2, 4] {
        let column = [(Bytes::from_static(ORDERED[place]), Bytes::from_static(b"value"))];
        let row = trial.row("row");
        let put = trial.store().put_unless_exists(&trial.table, &row, &column).await;
        done("a put of a new column", put)?;
    }
    Ok(())
}

pub(super) async fn scan_order<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    write_ordered(trial).await?;
    let slice = trial.scan("row", &Columns::default(), 100).await?;
    let found = columns_of(&slice.cells);
    holds(found == ORDERED, || format!("the columns are scanned as {found:?} where {ORDERED:?} is their order"))?;
    holds(!slice.more, || "a scan of the whole row says that there is more".to_owned())
}

pub(super) async fn scan_range<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    write_ordered(trial).await?;
    for (from, before, wanted) in [
        (Some(&b"a"[..]), Some(&b"aa"[..]), &ORDERED[2..4]),
        (Some(b"\x01"), None, &ORDERED[2..]),
        (None, Some(b"a"), &ORDERED[..2]),
        (Some(b"c"), Some(b"d"), &[]),
        (Some(b"b"), Some(b"a"), &[]),
    ] {
        let columns = Columns { from: from.map(Bytes::from_static), before: before.map(Bytes::from_static) };
        let slice = trial.scan("row", &columns, 100).await?;
        let found = columns_of(&slice.cells);
        holds(found == wanted, || format!("a scan of {columns:?} shows {found:?} where {wanted:?} was expected"))?;
    }
    Ok(())
}

pub(super) async fn scan_limit<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    write_ordered(trial).await?;
    let slice = trial.scan("row", &Columns::default(), 3).await?;
    let found = columns_of(&slice.cells);
    holds(found == ORDERED[..3], || format!("a scan of at most 3 shows {found:?}"))?;
    holds(slice.more, || "a scan of 3 columns of 7 does not say that there are more".to_owned())
}

pub(super) async fn scan_one_row<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    for row in ["row", "row\0", "row1", "ro"] {
        trial.put(row, &[("a", "1"), ("b", "2")]).await?;
    }
    let found = trial.scan("row", &Columns::default(), 100).await?.cells.len();
    holds(found == 2, || format!("a scan of a row of 2 cells shows {found}"))
}

pub(super) async fn rows_once<S: KvStore>(trial: &KvTrial<'_, S>) -> Result<(), Broken> {
    let names = ["1", "2", "3", "4", "5", "6", "7"];
    for name in names {
        trial.put(name, &[("a", "1"), ("b", "2")]).await?;
    }
    let wanted: BTreeSet<Bytes> = names.iter().map(|name| trial.row(name)).collect();
    for limit in [1, 3, 1000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = done("a list of the rows", trial.store().rows(&trial.table, after.as_ref(), limit).await)?;
            holds(page.rows.len() <= limit, || format!("{} rows in a page of {limit}", page.rows.len()))?;
            after = page.rows.last().cloned();
            // The table has rows of other points too.
            found.extend(page.rows.into_iter().filter(|row| row.starts_with(&trial.row(""))));
            if !page.more {
                break;
            }
            holds(after.is_some(), || "an empty page says that there are more".to_owned())?;
        }
        let once = found.len();
        let found: BTreeSet<Bytes> = found.into_iter().collect();
        holds(found == wanted && once == wanted.len(), || {
            format!(
                "pages of {limit} list {once} rows, {} different ones, where there are {}",
                found.len(),
                wanted.len()
            )
        })?;
    }
    Ok(())
}

pub(super) fn one(cell: &Cell, value: String) -> [(Bytes, Bytes); 1] {
    [(cell.column.clone(), value.into())]
}
