//! Which statements does the store send? Each is a transaction of its own, so that one round trip does all of it or nothing.

use glidepath_env::Table;

/// A table's name in the server, quoted: names are letters, digits and `_`, so nothing in them ends the quotes.
pub(super) fn quoted(schema: &Table, table: &Table) -> String {
    format!("\"{schema}\".\"{table}\"")
}

/// Makes the schema and the table. "If not exists" fails where two do it at the same time, so they take turns, by a lock that
/// nothing else takes.
pub(super) fn create_table(schema: &Table, table: &Table) -> String {
    let name = quoted(schema, table);
    // Asked for first, because who may not make schemas may not ask for it either.
    let make_schema = format!(
        "do $$ begin if not exists (select from pg_namespace where nspname = '{schema}') then \
         create schema \"{schema}\"; end if; end $$"
    );
    format!(
        "select pg_advisory_xact_lock(7308332045219193191); {make_schema}; \
         create table if not exists {name} \
         (k bytea not null, c bytea not null, v bytea not null, primary key (k, c))"
    )
}

/// One cell. A put of one column, and a compare-and-set of an absent cell.
pub(super) fn put_one(name: &str) -> String {
    format!("insert into {name} (k, c, v) values ($1, $2, $3) on conflict do nothing")
}

/// Several cells of one row: all of them, or none where one exists. One that another transaction is just writing is waited for, and
/// ends the statement with an error where it stays. They are written in the order of their columns by everybody, so that no two
/// wait for each other.
pub(super) fn put_many(name: &str) -> String {
    format!(
        "insert into {name} (k, c, v) \
         select $1, new.c, new.v from unnest($2::bytea[], $3::bytea[]) as new (c, v) \
         where not exists (select from {name} as old where old.k = $1 and old.c = any ($2::bytea[])) order by new.c"
    )
}

/// An update waits for whoever changes the cell at the same time, then looks at the value again.
pub(super) fn set(name: &str) -> String {
    format!("update {name} set v = $4 where k = $1 and c = $2 and v = $3")
}

/// Of some columns of one row those that exist.
pub(super) fn existing(name: &str) -> String {
    format!("select c, v from {name} where k = $1 and c = any ($2::bytea[])")
}

/// Cells of any rows. One look into the index for each, whatever the planner thinks of the table's size.
pub(super) fn get(name: &str) -> String {
    format!(
        "select (select v from {name} as t where t.k = asked.k and t.c = asked.c) \
         from unnest($1::bytea[], $2::bytea[]) with ordinality as asked (k, c, n) order by n"
    )
}

/// Bytes are compared as unsigned numbers, whatever the server's language.
pub(super) fn scan(name: &str, ends: bool) -> String {
    let (end, limit) = if ends { (" and c < $4", "$3") } else { ("", "$3") };
    format!("select c, v from {name} where k = $1 and c >= $2{end} order by c limit {limit}::bigint")
}

/// From each row to the first one behind it, so that the length of rows does not count.
pub(super) fn rows(name: &str) -> String {
    format!(
        "with recursive there (k) as ( \
         (select k from {name} where k > $1 order by k limit 1) \
         union all select (select t.k from {name} as t where t.k > there.k order by t.k limit 1) \
         from there where there.k is not null \
         ) select k from there where k is not null limit $2::bigint"
    )
}
