//! The points about guards and tags.

use bytes::Bytes;

use super::trial::{Broken, Trial, done, flat, holds, lost, same};
use crate::{Guard, ObjectStore, Payload};

fn payload(text: &'static str) -> Payload {
    Bytes::from_static(text.as_bytes()).into()
}

pub(super) async fn absent_creates<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_absent {
        return Ok(());
    }
    let key = trial.key("new");
    done("a put guarded by absence", trial.store().put(&key, payload("first"), Guard::Absent).await)?;
    trial.expect(&key, b"first").await.map(drop)
}

pub(super) async fn absent_loses<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_absent {
        return Ok(());
    }
    let key = trial.key("there");
    trial.write(&key, "first").await?;
    let second = trial.store().put(&key, payload("second"), Guard::Absent).await;
    lost("a put guarded by absence, onto an object,", second)?;
    // Also with the same content: the guard is about the object's absence, not about a difference.
    let same = trial.store().put(&key, payload("first"), Guard::Absent).await;
    lost("a put guarded by absence, of the content that is there,", same)
}

pub(super) async fn matches_replaces<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let key = trial.key("object");
    let mut tag = trial.write(&key, "number 0").await?;
    for number in 1..=3 {
        let body = format!("number {number}");
        let put = trial.store().put(&key, Payload::from(Bytes::from(body.clone())), Guard::Matches(tag)).await;
        tag = done("a put guarded by the tag of the last put", put)?;
        trial.expect(&key, body.as_bytes()).await?;
    }
    let read = trial.read(&key).await?.tag;
    let put = trial.store().put(&key, payload("last"), Guard::Matches(read)).await;
    done("a put guarded by the tag of the last get", put)?;
    trial.expect(&key, b"last").await.map(drop)
}

pub(super) async fn stale_tag_loses<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let key = trial.key("object");
    let stale = trial.write(&key, "first").await?;
    // Of the same length, and immediately: sizes and coarse clocks cannot distinguish the two.
    trial.write(&key, "other").await?;
    lost("a put guarded by an earlier tag", trial.store().put(&key, payload("third"), Guard::Matches(stale)).await)
}

pub(super) async fn matches_missing_loses<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let tag = trial.write(&trial.key("another"), "first").await?;
    let key = trial.key("missing");
    lost(
        "a put guarded by a tag, to a missing key,",
        trial.store().put(&key, payload("x"), Guard::Matches(tag)).await,
    )?;
    trial.expect_missing(&key).await
}

pub(super) async fn unguarded_replaces<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    for body in ["the first content", "shorter", "", "longer than all the others"] {
        trial.write(&key, body).await?;
        trial.expect(&key, body.as_bytes()).await?;
    }
    Ok(())
}

pub(super) async fn lost_changes_nothing<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    let stale = trial.write(&key, "first").await?;
    let current = trial.write(&key, "second").await?;
    let capabilities = trial.store().capabilities();
    let guards = [(capabilities.put_if_absent, Guard::Absent), (capabilities.put_if_match, Guard::Matches(stale))];
    for (_, guard) in guards.into_iter().filter(|(capable, _)| *capable) {
        // Whether the answer is `Lost` is another point.
        let _ = trial.store().put(&key, payload("a lost write"), guard.clone()).await;
        let object = trial.read(&key).await?;
        same(&format!("the content after a put guarded by {guard:?}"), &flat(&object.payload), b"second")?;
        holds(object.tag == current, || format!("a lost put changed the tag from {current} to {}", object.tag))?;
    }
    Ok(())
}

pub(super) async fn tags_change<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    let mut seen = Vec::new();
    for number in 10..30 {
        let tag = trial.write(&key, format!("content {number}")).await?;
        holds(!seen.contains(&tag), || format!("the tag {tag} was returned again for other content"))?;
        seen.push(tag);
    }
    Ok(())
}

pub(super) async fn tags_agree<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    let key = trial.key("object");
    for body in ["one", "two and a bit", ""] {
        let put = trial.write(&key, body).await?;
        let get = trial.read(&key).await?.tag;
        let head = done("a head", trial.store().head(&key).await)?;
        holds(put == get && put == head.tag, || {
            format!("after a put that returned the tag {put}, get says {get} and head says {}", head.tag)
        })?;
        let size = head.size.as_bytes();
        holds(size == body.len() as u64, || format!("head says {size} bytes of an object of {} bytes", body.len()))?;
        if !body.is_empty() {
            let ranged = done("a ranged get", trial.store().get_range(&key, 1..2).await)?.tag;
            holds(put == ranged, || format!("after a put that returned the tag {put}, a ranged get says {ranged}"))?;
        }
    }
    Ok(())
}

pub(super) async fn tags_outlive_deletes<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let key = trial.key("object");
    let old = trial.write(&key, "before").await?;
    done("a delete", trial.store().delete(&key).await)?;
    trial.write(&key, "behind").await?;
    let put = trial.store().put(&key, payload("x"), Guard::Matches(old)).await;
    lost("a put guarded by a tag from before a delete", put)
}
