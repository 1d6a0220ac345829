//! Points about listings and sizes.

use glidepath_model::{Action, Entry, Kind, Name, TableId};

use super::trial::{Held, Trial, broken, create, full, plain, same};
use crate::group::{Grouped, Verdict};

/// The first number of tables that these points use.
const FIRST: u32 = 0xc0de_1000;

/// The maximum size of an entry in bytes, in every protocol.
const MOST: usize = 64 << 20;

pub(super) async fn order<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    // `-` comes before `/`, so what is in `a` lies between `a` and `ab` in the order of whole names, but not in a
    // listing.
    trial.begin(&["ab", "a", "a-b", "a/z", "A", "ü"]).await?;
    let tables = ["a/b", "b", "a/z/t", "0"].map(|path| create(trial.name(path), full()));
    trial.fits(tables.to_vec()).await?;
    trial.holds(&["0", "A", "a", "a-b", "ab", "b", "ü"]).await?;
    let inside = trial.listed(Some(&trial.name("a")), None, usize::MAX).await?;
    let expected = vec![(trial.name("a/b"), full()), (trial.name("a/z"), Entry::namespace())];
    same("what is in a", &inside, &expected)?;
    let (space, first) = (trial.space(), trial.name("0"));
    let length = |name: &Name, entry: &Entry| (entry.kind == Kind::Namespace).then(|| name.last().len());
    let expected = [("A", 1), ("a", 1), ("a-b", 3)].map(|(path, length)| (trial.name(path), length));
    same("namespaces after 0", &trial.made(Some(&space), Some(&first), 3, length).await?, &expected.into())?;
    for nothing in ["b", "ab", "none"] {
        same("what is in it", &trial.listed(Some(&trial.name(nothing)), None, 9).await?, &Vec::new())?;
    }
    Ok(())
}

pub(super) async fn follow<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let path = |number: u32| format!("n{number:03}");
    let all: Vec<Name> = (0..150).map(|number| trial.name(&path(number))).collect();
    trial.fits(all.iter().map(|name| create(name.clone(), plain())).collect()).await?;
    let space = trial.space();
    for limit in [1, 7, 150, 151] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = trial.listed(Some(&space), after.as_ref(), limit).await?;
            if page.len() > limit {
                return broken(format!("a page has {} names, not {limit}", page.len()));
            }
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            found.extend(page.into_iter().map(|(name, _)| name));
        }
        same("all pages together", &found, &all)?;
    }
    same("a page of nothing", &trial.listed(Some(&space), None, 0).await?, &Vec::new())?;
    // The last name of a page may be dropped before the next page is read.
    trial.fits(vec![Action::Drop { name: all[50].clone(), kind: Kind::Table, expected: None }]).await?;
    let next = trial.listed(Some(&space), Some(&all[50]), 1).await?;
    same("what follows", &next.first().map(|(name, _)| name), &Some(&all[51]))
}

pub(super) async fn root<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    let numbered = [0, 2, 3].map(|number| Name::numbered(TableId(FIRST + number)));
    let between = Name::of_parts(["tc0de1000+"]).expect("letters, digits and a sign are a name");
    let behind = Name::of_parts(["tc0de1004"]).expect("letters and digits are a name");
    let entries = [
        (numbered[0].clone(), plain()),
        (between, Entry::namespace()),
        (numbered[1].clone(), full()),
        (numbered[2].clone(), plain()),
        (behind, full()),
    ];
    trial.fits(entries.iter().rev().map(|(name, entry)| create(name.clone(), entry.clone())).collect()).await?;
    let before = Name::of_parts(["tc0de0fff~"]).expect("letters, digits and a sign are a name");
    same("a listing", &trial.listed(None, Some(&before), 5).await?.as_slice(), &&entries[..])?;
    for (number, (name, _)) in entries.iter().enumerate() {
        let page = trial.listed(None, Some(name), entries.len() - number - 1).await?;
        same("a page", &page.as_slice(), &&entries[number + 1..])?;
    }
    let all = trial.listed(None, None, usize::MAX).await?;
    let rising = all.windows(2).all(|pair| pair[0].0.as_str() < pair[1].0.as_str());
    let inside = all.iter().find(|(name, _)| name.parent().is_some());
    same("the order of the root, and what is not directly in it", &(rising, inside), &(true, None))
}

/// A table with a property of this many letters.
fn of_size(letters: usize) -> Entry {
    let mut entry = full();
    entry.properties.insert("large".to_owned(), "x".repeat(letters));
    entry
}

pub(super) async fn large<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (name, entry) = (trial.name("t"), of_size(1 << 20));
    trial.fits(vec![create(name.clone(), entry.clone())]).await?;
    trial.is(&name, Some(&entry)).await
}

pub(super) async fn too_large<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (name, other) = (trial.name("t"), trial.name("u"));
    let requests = [vec![create(name.clone(), of_size(MOST))], vec![create(other.clone(), plain())]];
    let verdicts = trial.batch(&requests).await?;
    match &verdicts[..] {
        [Verdict::Refused(_) | Verdict::Failed(_), Verdict::Fits] => {}
        [Verdict::Refused(_) | Verdict::Failed(_)] => trial.fits(requests[1].clone()).await?,
        _ => return broken("it was taken, or another request was not".to_owned()),
    }
    trial.is(&name, None).await?;
    trial.is(&other, Some(&plain())).await
}
