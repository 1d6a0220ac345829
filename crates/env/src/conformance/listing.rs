//! The points about listings.

use super::trial::{Broken, Trial, done, holds};
use crate::{Key, ObjectStore};

/// In byte order, which differs here from the order by folders, by letters without case, and by numbers.
const NAMES: [&str; 12] = ["A", "a!b", "a-", "a/b", "a/c/d", "a0", "aa", "b!", "b/10", "b/9", "z", "ä"];

async fn write_all<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    // In another order.
    for at in 0..NAMES.len() {
        let name = NAMES[(at * 5 + 3) % NAMES.len()];
        trial.write(&trial.key(name), name).await?;
    }
    Ok(())
}

/// All pages of a listing, as names.
async fn walk<S: ObjectStore>(
    trial: &Trial<'_, S>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, Broken> {
    let mut after = after.map(|name| trial.key(name));
    let mut names = Vec::new();
    // Bounded, because a broken store may report for ever that there is more.
    for _ in 0..100 {
        let page = done("a listing", trial.store().list(&trial.key(prefix), after.as_ref(), limit).await)?;
        holds(page.objects.len() <= limit, || format!("a page of at most {limit} has {}", page.objects.len()))?;
        names.extend(page.objects.iter().map(|listed| trial.name(&listed.key).to_owned()));
        let last: Option<Key> = page.objects.last().map(|listed| listed.key.clone());
        match (page.more, last) {
            (true, Some(last)) => after = Some(last),
            _ => return Ok(names),
        }
    }
    Err(Broken(format!("a listing of {} keys did not end after 100 pages", NAMES.len())))
}

fn expect(what: &str, found: &[String], wanted: &[&str]) -> Result<(), Broken> {
    holds(found == wanted, || format!("{what} gives {found:?} where {wanted:?} were expected"))
}

pub(super) async fn order<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    write_all(trial).await?;
    expect("a listing", &walk(trial, "", None, 1000).await?, &NAMES)
}

pub(super) async fn prefix<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    write_all(trial).await?;
    for prefix in ["a", "a/", "a/c", "b/", "b/1", "none", "ä", "z/"] {
        let mut found = walk(trial, prefix, None, 1000).await?;
        // Their order is another point.
        found.sort_unstable();
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| name.starts_with(prefix)).collect();
        expect(&format!("a listing of {prefix:?}"), &found, &wanted)?;
    }
    Ok(())
}

pub(super) async fn after<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    write_all(trial).await?;
    for (prefix, after) in
        [("", "a"), ("", "a/"), ("", "a/b"), ("", "a/zzz"), ("", "zzz"), ("a", "A"), ("a/", "a/b"), ("a", "b")]
    {
        let mut found = walk(trial, prefix, Some(after), 1000).await?;
        found.sort_unstable();
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| name.starts_with(prefix) && *name > after).collect();
        expect(&format!("a listing of {prefix:?} after {after:?}"), &found, &wanted)?;
    }
    Ok(())
}

pub(super) async fn limit<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    write_all(trial).await?;
    for limit in [1, 3, 6, 12, 13] {
        let mut found = walk(trial, "", None, limit).await?;
        found.sort_unstable();
        expect(&format!("a listing in pages of {limit}"), &found, &NAMES)?;
    }
    Ok(())
}

pub(super) async fn sizes<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    for size in [0, 1, 1000] {
        trial.write(&trial.key(&format!("{size}")), vec![b'x'; size]).await?;
    }
    let page = done("a listing", trial.store().list(&trial.key(""), None, 1000).await)?;
    holds(page.objects.len() == 3, || format!("a listing of 3 objects gives {}", page.objects.len()))?;
    for listed in &page.objects {
        let head = done("a head", trial.store().head(&listed.key).await)?.size.as_bytes();
        let size = listed.size.as_bytes();
        holds(size == head && trial.name(&listed.key) == size.to_string(), || {
            format!("of an object of {} bytes a listing says {size} and head {head}", trial.name(&listed.key))
        })?;
    }
    Ok(())
}

pub(super) async fn after_write<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    for number in 0..5 {
        let name = format!("{number}");
        trial.write(&trial.key(&name), "x").await?;
        expect("a listing after a write", &walk(trial, "", None, 1000).await?, &[&name])?;
        done("a delete", trial.store().delete(&trial.key(&name)).await)?;
        expect("a listing after a delete", &walk(trial, "", None, 1000).await?, &[])?;
    }
    Ok(())
}

pub(super) async fn folder<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let inside = ["f/1", "f/2", "f/fffffffffffffffe"];
    for name in ["e", "f!", "f0", "g/1"].iter().chain(&inside).rev() {
        trial.write(&trial.key(name), "x").await?;
    }
    for (after, wanted) in [(None, &inside[..]), (Some("f/1"), &inside[1..]), (Some("f/3"), &inside[2..])] {
        let after = after.map(|after| trial.key(after));
        for limit in [1, 2, 3] {
            let page = done("a listing", trial.store().list_folder(&trial.key("f/"), after.as_ref(), limit).await)?;
            let names: Vec<String> = page.objects.iter().map(|listed| trial.name(&listed.key).to_owned()).collect();
            expect(&format!("{limit} of a folder after {after:?}"), &names, &wanted[..limit.min(wanted.len())])?;
            holds(page.more || limit >= wanted.len(), || "a page of a folder says that there is no more".to_owned())?;
        }
    }
    Ok(())
}
