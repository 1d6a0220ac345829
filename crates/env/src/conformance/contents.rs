//! The points about contents, keys, reads and deletes.

use bytes::Bytes;
use glidepath_model::ByteSize;

use super::trial::{Broken, Trial, done, flat, holds, missing as is_missing, same};
use crate::{Guard, ObjectStore, Payload};

pub(super) async fn read_after_write<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    for number in 0..20 {
        let body = format!("content {number}");
        let tag = trial.write(&key, body.clone()).await?;
        let object = trial.expect(&key, body.as_bytes()).await?;
        holds(object.tag == tag, || format!("a get after a put that returned the tag {tag} says {}", object.tag))?;
        let there = trial.store().is_there(&key).await;
        holds(there != Some(false), || format!("{key} is said not to be there after a put"))?;
    }
    Ok(())
}

pub(super) async fn empty_body<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("empty");
    trial.write(&key, "").await?;
    trial.expect(&key, b"").await?;
    let size = done("a head of an empty object", trial.store().head(&key).await)?.size.as_bytes();
    holds(size == 0, || format!("head says {size} bytes of an empty object"))
}

pub(super) async fn large_body<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("large");
    // Numbers, so that no two of its blocks are equal.
    let body: Bytes = (0..5_u32 << 18).flat_map(u32::to_le_bytes).collect();
    trial.write(&key, body.clone()).await?;
    trial.expect(&key, &body).await?;
    let tail = (5 << 20) - 1000..5 << 20;
    let object = done("a ranged get", trial.store().get_range(&key, tail).await)?;
    same("the end of a large object", &flat(&object.payload), &body[body.len() - 1000..])
}

pub(super) async fn any_bytes<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("bytes");
    let body: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    trial.write(&key, body.clone()).await?;
    trial.expect(&key, &body).await.map(drop)
}

pub(super) async fn filler_is_zeros<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("filled");
    let payload = Payload { bytes: Bytes::from_static(b"content"), filler: ByteSize::from_bytes(100_000) };
    done("a put with filler", trial.store().put(&key, payload.clone(), Guard::None).await)?;
    trial.expect(&key, &flat(&payload)).await?;
    let size = done("a head", trial.store().head(&key).await)?.size.as_bytes();
    holds(size == 100_007, || format!("head says {size} bytes of 7 with 100000 of filler"))?;
    let object = done("a ranged get", trial.store().get_range(&key, 5..20).await)?;
    same("a range across content and filler", &flat(&object.payload), b"nt\0\0\0\0\0\0\0\0\0\0\0\0\0")
}

pub(super) async fn written_at<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let mut last = 0;
    for number in 0..3 {
        let key = trial.key(if number == 0 { "first" } else { "second" });
        trial.write(&key, format!("content {number}")).await?;
        let written_ms = done("a head", trial.store().head(&key).await)?.written_ms;
        let Some(now) = written_ms else { return holds(false, || "head gives no time".to_owned()) };
        holds(now >= last, || format!("head says {now} ms of a later write than that at {last} ms"))?;
        last = now;
    }
    Ok(())
}

/// Writes each name, then finds it by get and by listing.
async fn keys_work<S: ObjectStore>(trial: &Trial<'_, S>, names: &[&str]) -> Result<(), Broken> {
    for (number, name) in names.iter().enumerate() {
        let key = trial.key(name);
        let wrote = trial.write(&key, format!("{number}")).await;
        wrote.map_err(|Broken(found)| Broken(format!("with the key {name:?}, {found}")))?;
    }
    for (number, name) in names.iter().enumerate() {
        trial.expect(&trial.key(name), format!("{number}").as_bytes()).await?;
    }
    let page = done("a listing", trial.store().list(&trial.key(""), None, 1000).await)?;
    let mut found: Vec<&str> = page.objects.iter().map(|listed| trial.name(&listed.key)).collect();
    let mut wanted = names.to_vec();
    found.sort_unstable();
    wanted.sort_unstable();
    holds(found == wanted, || format!("of the keys {wanted:?} a listing gives {found:?}"))?;
    for name in names {
        done(&format!("a delete of {name:?}"), trial.store().delete(&trial.key(name)).await)?;
        trial.expect_missing(&trial.key(name)).await?;
    }
    Ok(())
}

pub(super) async fn odd_keys<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let names = [
        "with space",
        "percent%20sign",
        "percent%",
        "plus+sign",
        "a&b=c?d#e",
        "semicolon;colon:comma,at@",
        "quote'double\"back`tick",
        "(round)[square]{curly}<angle>",
        "star*tilde~bang!dollar$bar|caret^",
        "back\\slash",
        "UPPER",
        "upper",
        "straße/äöü",
        "日本/カタログ",
        "rocket🚀",
        "e\u{301}",
        "é",
        "name.with.dots",
        ".hidden",
        "-dash",
        "_underscore",
    ];
    keys_work(trial, &names).await
}

pub(super) async fn long_keys<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let plain = "x".repeat(200);
    let nearly = format!("{}y", "x".repeat(199));
    let parts = format!("{}/{plain}", "z".repeat(200));
    let wide = "ü".repeat(100);
    keys_work(trial, &[&plain, &nearly, &parts, &wide]).await
}

pub(super) async fn dots_and_slashes<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    keys_work(trial, &["a/./b", "a/../b", "a/b", "b", "a//b", "a/", "..", "."]).await
}

pub(super) async fn key_within_key<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    keys_work(trial, &["a", "a/b", "a/b/c", "a.b", "ab"]).await
}

pub(super) async fn range_middle<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("digits");
    trial.write(&key, "0123456789").await?;
    for range in [0..1, 3..7, 9..10, 0..10] {
        let wanted = &b"0123456789"[range.start as usize..range.end as usize];
        let object = done(&format!("a get of {range:?}"), trial.store().get_range(&key, range.clone()).await)?;
        same(&format!("the range {range:?}"), &flat(&object.payload), wanted)?;
    }
    Ok(())
}

pub(super) async fn range_cut<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("digits");
    trial.write(&key, "0123456789").await?;
    for range in [7..11, 7..1 << 40, 0..11] {
        let object = done(&format!("a get of {range:?} of 10"), trial.store().get_range(&key, range.clone()).await)?;
        same(&format!("the range {range:?} of 10"), &flat(&object.payload), &b"0123456789"[range.start as usize..])?;
    }
    Ok(())
}

pub(super) async fn range_beyond<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let (digits, empty) = (trial.key("digits"), trial.key("empty"));
    let tag = trial.write(&digits, "0123456789").await?;
    trial.write(&empty, "").await?;
    for (key, range) in [(&digits, 10..20), (&digits, 1000..1001), (&empty, 0..1)] {
        let what = format!("a get of {range:?} of {:?}", trial.name(key));
        let object = done(&what, trial.store().get_range(key, range).await)?;
        let size = object.payload.size().as_bytes();
        holds(size == 0, || format!("{what} gave {size} bytes"))?;
        holds(key != &digits || object.tag == tag, || format!("{what} says the tag {}, not {tag}", object.tag))?;
    }
    Ok(())
}

pub(super) async fn missing<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    trial.write(&trial.key("there/object"), "x").await?;
    for name in ["missing", "there", "there/object/below", "missing/below"] {
        let key = trial.key(name);
        trial.expect_missing(&key).await?;
        is_missing("ranged get", trial.store().get_range(&key, 0..10).await)?;
        is_missing("head", trial.store().head(&key).await)?;
        let there = trial.store().is_there(&key).await;
        holds(there != Some(true), || format!("{key} is said to be there, and is not"))?;
    }
    Ok(())
}

pub(super) async fn delete_removes<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let (key, beside) = (trial.key("object"), trial.key("object-beside"));
    trial.write(&key, "x").await?;
    trial.write(&beside, "y").await?;
    done("a delete", trial.store().delete(&key).await)?;
    trial.expect_missing(&key).await?;
    is_missing("head", trial.store().head(&key).await)?;
    let there = trial.store().is_there(&key).await;
    holds(there != Some(true), || format!("{key} is said to be there after its delete"))?;
    trial.expect(&beside, b"y").await.map(drop)
}

pub(super) async fn delete_missing<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    done("a delete of a missing key", trial.store().delete(&key).await)?;
    trial.write(&key, "x").await?;
    for time in ["a first", "a second"] {
        done(&format!("{time} delete of one key"), trial.store().delete(&key).await)?;
    }
    done("a delete of a missing key in a missing folder", trial.store().delete(&trial.key("no/such")).await)
}

pub(super) async fn absent_after_delete<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_absent {
        return Ok(());
    }
    let key = trial.key("object");
    for body in ["first", "second", "third"] {
        let payload = Payload::from(Bytes::from_static(body.as_bytes()));
        done("a put guarded by absence", trial.store().put(&key, payload, Guard::Absent).await)?;
        trial.expect(&key, body.as_bytes()).await?;
        done("a delete", trial.store().delete(&key).await)?;
    }
    Ok(())
}
