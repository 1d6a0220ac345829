//! Points about names: creating, dropping, renaming, properties, and requests of several actions.

use glidepath_model::{Action, Entry, Kind, Name, Refusal};

use super::trial::{Broken, Held, Trial, create, drop_of, full, plain, same, set, wrong};
use crate::group::{Grouped, Verdict};

pub(super) async fn created_is_there<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let mut namespace = Entry::namespace();
    namespace.properties.insert("owner".to_owned(), "somebody".to_owned());
    let bare = Entry { kind: Kind::Table, ..Entry::namespace() };
    let entries = [("a", &namespace), ("a/deep", &namespace), ("a/deep/full", &full()), ("b", &bare), ("c", &plain())];
    for (path, entry) in entries {
        trial.is(&trial.name(path), None).await?;
        trial.fits(vec![create(trial.name(path), entry.clone())]).await?;
    }
    for (path, entry) in entries {
        trial.is(&trial.name(path), Some(entry)).await?;
    }
    trial.is(&trial.name("a/full"), None).await
}

pub(super) async fn created_once<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let name = trial.name("a");
    trial.fits(vec![create(name.clone(), full())]).await?;
    for entry in [full(), plain(), Entry::namespace()] {
        trial.refused(vec![create(name.clone(), entry)], Refusal::Exists(name.clone())).await?;
    }
    trial.is(&name, Some(&full())).await
}

pub(super) async fn parents<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let (missing, inside) = (trial.name("none"), trial.name("none/a"));
    let no_parent = Refusal::NoParent { name: inside.clone(), parent: missing.clone() };
    trial.refused(vec![create(inside.clone(), plain())], no_parent).await?;
    trial.fits(vec![create(missing.clone(), plain())]).await?;
    let in_table = wrong(&missing, Kind::Table, Kind::Namespace.only());
    trial.refused(vec![create(inside, plain())], in_table).await?;
    // One request may create a namespace and entries in it.
    let both = vec![create(trial.name("b"), Entry::namespace()), create(trial.name("b/a"), plain())];
    trial.fits(both).await?;
    trial.is(&trial.name("b/a"), Some(&plain())).await
}

pub(super) async fn odd_names<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let space = trial.space();
    let of = |part: &str| Name::of_parts([space.as_str(), part]).map_err(|error| Broken(error.to_string()));
    let long = "x".repeat(1024 - space.as_str().len() - 1);
    let parts = [" ", "%", "..", "/", "a b", "a\nb", "t00000001", "ü", "\u{202e}", &long];
    for part in parts {
        trial.fits(vec![create(of(part)?, full())]).await?;
    }
    for part in parts {
        trial.is(&of(part)?, Some(&full())).await?;
    }
    let listed = trial.listed(Some(&space), None, 100).await?;
    same("the number of names", &listed.len(), &parts.len())
}

pub(super) async fn drop_one<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a"]).await?;
    let (space, table) = (trial.name("a"), trial.name("a/b"));
    trial.refused(vec![drop_of(table.clone(), Kind::Table)], Refusal::NotFound(table.clone())).await?;
    trial.fits(vec![create(table.clone(), full())]).await?;
    for (name, found) in [(&table, Kind::Table), (&space, Kind::Namespace)] {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != found) {
            trial.refused(vec![drop_of(name.clone(), kind)], wrong(name, found, kind.only())).await?;
        }
    }
    trial.refused(vec![drop_of(space.clone(), Kind::Namespace)], Refusal::NotEmpty(space.clone())).await?;
    trial.is(&table, Some(&full())).await?;
    trial.fits(vec![drop_of(table.clone(), Kind::Table)]).await?;
    trial.is(&table, None).await?;
    trial.fits(vec![drop_of(space.clone(), Kind::Namespace)]).await?;
    trial.is(&space, None).await
}

pub(super) async fn drop_all<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    let inside = ["a", "a/b", "a/b/c", "a-b", "ab"];
    trial.begin(&inside).await?;
    let tables = ["a/t", "a/b/t", "a/b/c/t", "a-b/t", "ab/t"];
    trial.fits(tables.iter().map(|path| create(trial.name(path), full())).collect()).await?;
    let (table, missing) = (trial.name("ab/t"), trial.name("none"));
    let refusal = wrong(&table, Kind::Table, Kind::Namespace.only());
    trial.refused(vec![Action::DropAll { name: table }], refusal).await?;
    trial.refused(vec![Action::DropAll { name: missing.clone() }], Refusal::NotFound(missing)).await?;
    trial.fits(vec![Action::DropAll { name: trial.name("a") }]).await?;
    for path in inside.iter().chain(&tables) {
        let gone = *path == "a" || path.starts_with("a/");
        let expected = if path.ends_with('t') { full() } else { Entry::namespace() };
        trial.is(&trial.name(path), Some(&expected).filter(|_| !gone)).await?;
    }
    trial.holds(&["a-b", "ab"]).await?;
    // The same request may create it again.
    let again = vec![
        Action::DropAll { name: trial.name("ab") },
        create(trial.name("ab"), Entry::namespace()),
        create(trial.name("ab/u"), plain()),
    ];
    trial.fits(again).await?;
    trial.is(&trial.name("ab/t"), None).await?;
    trial.is(&trial.name("ab/u"), Some(&plain())).await
}

pub(super) async fn rename<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a", "b", "b/c"]).await?;
    let way = ["a/one", "a/two", "b/c/two", "three"].map(|path| trial.name(path));
    trial.fits(vec![create(way[0].clone(), full())]).await?;
    for pair in way.windows(2) {
        trial.fits(vec![Action::Rename { from: pair[0].clone(), to: pair[1].clone() }]).await?;
        trial.is(&pair[0], None).await?;
        trial.is(&pair[1], Some(&full())).await?;
    }
    trial.holds(&["a", "b", "three"]).await
}

pub(super) async fn rename_refused<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a"]).await?;
    let [from, taken, space, none] = ["from", "taken", "a", "none"].map(|path| trial.name(path));
    trial.fits(vec![create(from.clone(), full()), create(taken.clone(), plain())]).await?;
    let to = |to: &Name| vec![Action::Rename { from: from.clone(), to: to.clone() }];
    for name in [&taken, &space, &from] {
        trial.refused(to(name), Refusal::Exists(name.clone())).await?;
    }
    let inside = trial.name("none/x");
    trial.refused(to(&inside), Refusal::NoParent { name: inside.clone(), parent: none.clone() }).await?;
    let in_table = trial.name("taken/x");
    trial.refused(to(&in_table), wrong(&taken, Kind::Table, Kind::Namespace.only())).await?;
    let namespace = Action::Rename { from: space.clone(), to: none.clone() };
    trial.refused(vec![namespace], wrong(&space, Kind::Namespace, &[Kind::Table, Kind::View])).await?;
    let missing = Action::Rename { from: none.clone(), to: trial.name("x") };
    trial.refused(vec![missing], Refusal::NotFound(none)).await?;
    trial.is(&from, Some(&full())).await
}

pub(super) async fn properties<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a"]).await?;
    let (space, table, none) = (trial.name("a"), trial.name("a/t"), trial.name("none"));
    trial.fits(vec![create(table.clone(), full())]).await?;
    for (name, mut expected) in [(space, Entry::namespace()), (table, full())] {
        let changes: [&[(&str, Option<&str>)]; 4] = [
            &[("k", Some("new")), ("more", Some("")), ("other", None)],
            &[("k", None), ("none of it", None)],
            &[("ü\n", Some("\0"))],
            &[],
        ];
        for changes in changes {
            trial.fits(vec![set(name.clone(), changes)]).await?;
            for (key, value) in changes {
                expected.properties.remove(*key);
                expected.properties.extend(value.map(|value| ((*key).to_owned(), value.to_owned())));
            }
            trial.is(&name, Some(&expected)).await?;
        }
    }
    trial.refused(vec![set(none.clone(), &[("k", None)])], Refusal::NotFound(none)).await
}

pub(super) async fn all_or_nothing<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&["a"]).await?;
    let [a, t, u, b] = ["a", "a/t", "a/u", "b"].map(|path| trial.name(path));
    trial.fits(vec![create(t.clone(), plain())]).await?;
    let many = vec![
        create(b.clone(), Entry::namespace()),
        create(trial.name("b/t"), full()),
        set(a.clone(), &[("k", Some("v"))]),
        Action::Rename { from: t.clone(), to: u.clone() },
    ];
    let refused = [many.clone(), vec![drop_of(t.clone(), Kind::Table)]].concat();
    trial.refused(refused, Refusal::NotFound(t.clone())).await?;
    trial.is(&a, Some(&Entry::namespace())).await?;
    trial.is(&t, Some(&plain())).await?;
    trial.is(&u, None).await?;
    trial.holds(&["a"]).await?;
    trial.fits(many).await?;
    trial.is(&t, None).await?;
    trial.is(&u, Some(&plain())).await?;
    trial.is(&trial.name("b/t"), Some(&full())).await?;
    trial.holds(&["a", "b"]).await
}

pub(super) async fn one_after_another<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let [a, t] = ["a", "a/t"].map(|path| trial.name(path));
    let requests = [
        vec![create(t.clone(), plain())],
        vec![create(a.clone(), Entry::namespace())],
        vec![create(t.clone(), plain())],
        vec![create(t.clone(), full())],
        vec![drop_of(a.clone(), Kind::Namespace)],
    ];
    let expected = [
        Some(Refusal::NoParent { name: t.clone(), parent: a.clone() }),
        None,
        None,
        Some(Refusal::Exists(t.clone())),
        Some(Refusal::NotEmpty(a.clone())),
    ];
    let verdicts = trial.batch(&requests).await?;
    let refusal = |verdict: &Verdict| match verdict {
        Verdict::Refused(refusal) => Some(refusal.clone()),
        Verdict::Fits | Verdict::Failed(_) => None,
    };
    let refusals: Vec<Option<Refusal>> = verdicts.iter().map(refusal).collect();
    same("what was refused", &refusals.as_slice(), &&expected[..])?;
    trial.is(&t, Some(&plain())).await
}

pub(super) async fn nothing_to_do<C: Grouped>(trial: &Trial<'_, C>) -> Held {
    trial.begin(&[]).await?;
    let name = trial.name("a");
    trial.fits(Vec::new()).await?;
    trial.fits(vec![create(name.clone(), plain()), drop_of(name.clone(), Kind::Table)]).await?;
    trial.fits(vec![set(trial.space(), &[("none", None)])]).await?;
    trial.holds(&[]).await
}
