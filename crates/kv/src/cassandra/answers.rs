//! What does an answer of the server say? Rows of CQL, as cells.

use bytes::Bytes;
use scylla::response::query_result::QueryResult;
use scylla::value::{CqlValue, Row};

/// Why an answer is none: for people.
pub(super) type Unreadable = String;

/// What a conditional write was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Applied,
    /// The rows that exist among those of the condition.
    Lost(Vec<Found>),
}

/// A column that exists, and its value. A row of CQL exists also without a value, which no store of ours writes:
/// reading it as absent would let a second writer believe that it is first.
type Found = (Option<Bytes>, Option<Bytes>);

/// The columns of an answer differ by what happened, so they are looked up by name.
pub(super) fn verdict(result: QueryResult) -> Result<Verdict, Unreadable> {
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let place = |name: &str| result.column_specs().get_by_name(name).map(|(place, _)| place);
    let applied = place("[applied]").ok_or("it has no column [applied]")?;
    let (column, value) = (place("column1"), place("value"));
    let mut found = Vec::new();
    for row in result.rows::<Row>().map_err(|error| error.to_string())? {
        let Row { mut columns } = row.map_err(|error| error.to_string())?;
        match columns.get(applied) {
            Some(Some(CqlValue::Boolean(true))) => return Ok(Verdict::Applied),
            Some(Some(CqlValue::Boolean(false))) => {}
            other => return Err(format!("its column [applied] is {other:?}")),
        }
        let mut take = |place: Option<usize>| blob(columns.get_mut(place?)?.take()?);
        // A batch that was lost has a row for each row that exists; a single statement has one always.
        if value.is_some() {
            found.push((take(column), take(value)));
        }
    }
    Ok(Verdict::Lost(found))
}

fn blob(value: CqlValue) -> Option<Bytes> {
    match value {
        CqlValue::Blob(bytes) => Some(bytes.into()),
        _ => None,
    }
}

/// What a put that was lost was told: the columns and values of its rows that exist.
pub(super) fn found_columns(found: Vec<Found>) -> Result<Vec<(Bytes, Bytes)>, Unreadable> {
    let both = |(column, value): Found| {
        let column = column.ok_or("it names a row without a column")?;
        let value = value.ok_or_else(|| no_value(&column))?;
        Ok((column, value))
    };
    found.into_iter().map(both).collect()
}

fn no_value(column: &Bytes) -> Unreadable {
    format!("column {column:?} has no value; another program wrote or deleted it: repair the table by hand")
}

/// The cells of an answer to a read of columns and values.
pub(super) fn cells(result: QueryResult) -> Result<Vec<(Bytes, Bytes)>, Unreadable> {
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let rows = result.rows::<(&[u8], Option<&[u8]>)>().map_err(|error| error.to_string())?;
    let mut cells = Vec::with_capacity(result.rows_num());
    for row in rows {
        let (column, value) = row.map_err(|error| error.to_string())?;
        // Copied: a part of the answer would keep all of it in memory.
        let column = Bytes::copy_from_slice(column);
        let value = value.ok_or_else(|| no_value(&column))?;
        cells.push((column, Bytes::copy_from_slice(value)));
    }
    Ok(cells)
}

/// The names of rows and their tokens, in the order of tokens.
pub(super) fn rows(result: QueryResult) -> Result<Vec<(Bytes, i64)>, Unreadable> {
    let result = result.into_rows_result().map_err(|error| error.to_string())?;
    let rows = result.rows::<(&[u8], i64)>().map_err(|error| error.to_string())?;
    let read = rows.map(|row| row.map(|(row, token)| (Bytes::copy_from_slice(row), token)));
    read.collect::<Result<_, _>>().map_err(|error| error.to_string())
}
