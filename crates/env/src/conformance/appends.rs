//! The points about appends. If a store reports that it cannot append, all but the first pass.

use bytes::Bytes;
use glidepath_model::ByteSize;

use super::trial::{Broken, Trial, done, flat, holds, lost};
use crate::{Appended, Guard, Key, ObjectStore, Payload, PutError};

fn able<S: ObjectStore>(trial: &Trial<'_, S>) -> bool {
    trial.store().capabilities().append
}

async fn append<S: ObjectStore>(
    trial: &Trial<'_, S>,
    key: &Key,
    text: &'static str,
    offset: u64,
) -> Result<Appended, PutError> {
    trial.store().append(key, Bytes::from_static(text.as_bytes()).into(), offset).await
}

pub(super) async fn refused<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    match append(trial, &key, "first", 0).await {
        Err(PutError::Refused(_)) => trial.expect_missing(&key).await,
        Err(error) => Err(Broken(format!("an unsupported append was not refused but: {error}"))),
        Ok(_) => Err(Broken("an unsupported append was acknowledged".to_owned())),
    }
}

pub(super) async fn creates<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    let appended = done("an append at 0 to a missing object", append(trial, &key, "first", 0).await)?;
    holds(appended.end == 5, || format!("an append of 5 bytes at 0 returned the end {}", appended.end))?;
    let object = trial.expect(&key, b"first").await?;
    holds(object.tag == appended.tag, || format!("the append returned the tag {}, get {}", appended.tag, object.tag))
}

pub(super) async fn extends<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    let mut end = 0;
    let mut content = Vec::new();
    for text in ["one", "and two", "x", "and a longer one at the end"] {
        let appended = done(&format!("an append at the end, {end},"), append(trial, &key, text, end).await)?;
        content.extend_from_slice(text.as_bytes());
        end = appended.end;
        holds(end == content.len() as u64, || format!("an append returned the end {end}, not {}", content.len()))?;
        let object = trial.expect(&key, &content).await?;
        holds(object.tag == appended.tag, || {
            format!("an append returned the tag {}, get {}", appended.tag, object.tag)
        })?;
        let head = done("a head", trial.store().head(&key).await)?.size.as_bytes();
        holds(head == end, || format!("head says {head} bytes after an append up to {end}"))?;
    }
    Ok(())
}

pub(super) async fn elsewhere_loses<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    done("an append at 0", append(trial, &key, "0123456789", 0).await)?;
    for offset in [0, 1, 9, 11, 1000] {
        lost(&format!("an append at {offset} to 10 bytes"), append(trial, &key, "lost", offset).await)?;
        trial.expect(&key, b"0123456789").await?;
    }
    Ok(())
}

pub(super) async fn missing_loses<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    lost("an append at 1 to a missing object", append(trial, &key, "x", 1).await)?;
    trial.expect_missing(&key).await
}

pub(super) async fn after_put<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    trial.write(&key, "put").await?;
    done("an append to an object that was put", append(trial, &key, " and appended", 3).await)?;
    trial.expect(&key, b"put and appended").await?;
    trial.write(&key, "put again").await?;
    trial.expect(&key, b"put again").await.map(drop)
}

pub(super) async fn changes_tag<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    let first = done("an append", append(trial, &key, "one", 0).await)?.tag;
    let second = done("an append", append(trial, &key, "two", 3).await)?.tag;
    holds(first != second, || format!("an append left the tag {first}"))?;
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let put = |tag| trial.store().put(&key, Payload::from(Bytes::from_static(b"put")), Guard::Matches(tag));
    lost("a put guarded by the tag from before an append", put(first).await)?;
    done("a put guarded by the tag of the last append", put(second).await)?;
    trial.expect(&key, b"put").await.map(drop)
}

pub(super) async fn filler<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !able(trial) {
        return Ok(());
    }
    let key = trial.key("log");
    let payload = Payload { bytes: Bytes::from_static(b"content"), filler: ByteSize::from_bytes(1000) };
    let mut content = Vec::new();
    for _ in 0..2 {
        let appended = trial.store().append(&key, payload.clone(), content.len() as u64).await;
        let end = done("an append with filler", appended)?.end;
        content.extend(flat(&payload));
        holds(end == content.len() as u64, || format!("an append with filler returned the end {end}"))?;
    }
    trial.expect(&key, &content).await.map(drop)
}
