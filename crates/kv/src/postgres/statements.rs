//! Which statements does the store send? Each is a transaction of its own, so that one round trip does all of it or
//! nothing.
//!
//! Cells are looked up by scalar subqueries, one look into the index for each. With `c = any (...)` the planner, which
//! knows nothing of a new table, reads a row to its end and filters it: each put of several cells would cost as much as
//! the row is long.

use glidepath_env::Table;

/// A table's name in the server, quoted: names are letters, digits and `_`, so nothing in them ends the quotes.
pub(super) fn quoted(schema: &Table, table: &Table) -> String {
    format!("\"{schema}\".\"{table}\"")
}

/// Makes the schema and the table. "If not exists" fails where two do it at the same time, so they take turns, by a
/// lock that nothing else takes.
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

/// Several cells of one row: all of them, or none where one exists. One that another transaction is just writing is
/// waited for, and ends the statement with an error where it stays. They are written in the order of their columns by
/// everybody, so that no two wait for each other.
pub(super) fn put_many(name: &str) -> String {
    format!(
        "insert into {name} (k, c, v) \
         select $1, new.c, new.v from unnest($2::bytea[], $3::bytea[]) as new (c, v) \
         where not exists (select from unnest($2::bytea[]) as asked (c) \
         where (select true from {name} as old where old.k = $1 and old.c = asked.c)) order by new.c"
    )
}

/// An update waits for whoever changes the cell at the same time, then looks at the value again.
pub(super) fn set(name: &str) -> String {
    format!("update {name} set v = $4 where k = $1 and c = $2 and v = $3")
}

/// Of some columns of one row those that exist.
pub(super) fn existing(name: &str) -> String {
    format!(
        "select c, v from (select asked.c, (select t.v from {name} as t where t.k = $1 and t.c = asked.c) \
         from unnest($2::bytea[]) as asked (c)) as found (c, v) where v is not null"
    )
}

/// Cells of any rows.
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

#[cfg(test)]
mod tests {
    use tokio_postgres::{NoTls, SimpleQueryMessage};

    use super::*;

    /// In the plan that the server makes once for all values, of a table that is new.
    #[tokio::test]
    async fn no_statement_reads_a_row_to_find_cells_in_it() {
        let Some(url) = std::env::var("GLIDEPATH_POSTGRES").ok().filter(|url| url != "none") else {
            eprintln!(
                "skipped: GLIDEPATH_POSTGRES is not set; `scripts/servers exec cargo test -p glidepath-kv` runs this"
            );
            return;
        };
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let (schema, table) = (format!("plans_{}", std::process::id()), Table::new("cells").unwrap());
        let schema = Table::new(&schema).unwrap();
        let name = quoted(&schema, &table);
        client.batch_execute(&create_table(&schema, &table)).await.unwrap();
        let fill = format!("insert into {name} select '\\x01', int4send(n), '\\x01' from generate_series(1, 200) as n");
        client.batch_execute(&fill).await.unwrap();
        client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
        let statements = [
            (put_many(&name), "bytea, bytea[], bytea[]", "null, null, null"),
            (set(&name), "bytea, bytea, bytea, bytea", "null, null, null, null"),
            (existing(&name), "bytea, bytea[]", "null, null"),
            (get(&name), "bytea[], bytea[]", "null, null"),
            (scan(&name, false), "bytea, bytea, bigint", "null, null, null"),
            (scan(&name, true), "bytea, bytea, bigint, bytea", "null, null, null, null"),
            (rows(&name), "bytea, bigint", "null, null"),
        ];
        for (n, (sql, types, values)) in statements.into_iter().enumerate() {
            client.batch_execute(&format!("prepare p{n} ({types}) as {sql}")).await.unwrap();
            let lines = client.simple_query(&format!("explain execute p{n} ({values})")).await.unwrap();
            let line = |message: SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            };
            let plan: Vec<String> = lines.into_iter().filter_map(line).collect();
            let plan = plan.join("\n");
            let reads_more =
                ["Seq Scan", "Bitmap", "Filter: (c ", "Sort Key: c"].iter().find(|part| plan.contains(**part));
            assert!(plan.contains("Index Cond: ") && reads_more.is_none(), "{sql}\n{plan}");
        }
        client.batch_execute(&format!("drop schema \"{schema}\" cascade")).await.unwrap();
    }
}
