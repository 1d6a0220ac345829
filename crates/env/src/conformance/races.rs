//! The points about many writers of one object. Every write has fresh content, so that it differs from all others even
//! if tags are hashes of the content.

use bytes::Bytes;

use super::trial::{Broken, Trial, done, flat, holds, insist};
use crate::{Guard, ObjectStore, Payload, together};

const WRITERS: usize = 16;
const WRITES_EACH: usize = 10;

/// The number of tries after which a writer stops: with 16 writers of 10 writes each, none can lose more than 150 times
/// to writes that took effect.
const MOST_TRIES: usize = 1000;

pub(super) async fn creators<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_absent {
        return Ok(());
    }
    for round in 0..4 {
        let key = &trial.key(&format!("round-{round}"));
        let create = |writer: usize| async move {
            let body = || Payload::from(Bytes::from(format!("writer {writer}")));
            insist(|| trial.handle(writer).put(key, body(), Guard::Absent)).await
        };
        let ends = together(WRITERS, (0..WRITERS).map(create)).await;
        let ends = ends.into_iter().collect::<Result<Vec<_>, _>>()?;
        let winners: Vec<usize> = (0..WRITERS).filter(|writer| ends[*writer].is_some()).collect();
        let &[winner] = &winners[..] else {
            return Err(Broken(format!("of {WRITERS} creators of one object, {} won: {winners:?}", winners.len())));
        };
        let object = trial.expect(key, format!("writer {winner}").as_bytes()).await?;
        holds(ends[winner].as_ref() == Some(&object.tag), || "the object does not have the winner's tag".to_owned())?;
    }
    Ok(())
}

pub(super) async fn increments<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().put_if_match {
        return Ok(());
    }
    let key = &trial.key("counter");
    trial.write(key, "0 seed").await?;
    let count = |writer: usize| async move {
        for number in 0..WRITES_EACH {
            increment(trial, writer, number).await?;
        }
        Ok(())
    };
    together(WRITERS, (0..WRITERS).map(count)).await.into_iter().collect::<Result<Vec<()>, Broken>>()?;
    let counted = number_in(&flat(&trial.read(key).await?.payload))?;
    let wanted = WRITERS * WRITES_EACH;
    holds(counted == wanted, || format!("of {wanted} acknowledged increments {counted} survived"))
}

async fn increment<S: ObjectStore>(trial: &Trial<'_, S>, writer: usize, number: usize) -> Result<(), Broken> {
    let key = trial.key("counter");
    for _ in 0..MOST_TRIES {
        let object = done("a get", trial.handle(writer).get(&key).await)?;
        let next = number_in(&flat(&object.payload))? + 1;
        let body = || Payload::from(Bytes::from(format!("{next} by writer {writer} as its number {number}")));
        let guard = || Guard::Matches(object.tag.clone());
        if insist(|| trial.handle(writer).put(&key, body(), guard())).await?.is_some() {
            return Ok(());
        }
    }
    Err(Broken(format!("a put guarded by the tag just read was lost {MOST_TRIES} times in a row")))
}

fn number_in(content: &[u8]) -> Result<usize, Broken> {
    let text = String::from_utf8_lossy(content);
    let number = text.split(' ').next().and_then(|number| number.parse().ok());
    number.ok_or_else(|| Broken(format!("a counter with content that was never written: {text:?}")))
}

pub(super) async fn appenders<S: ObjectStore>(trial: &Trial<'_, S>) -> Result<(), Broken> {
    if !trial.store().capabilities().append {
        return Ok(());
    }
    let append_all = |writer: usize| async move {
        let mut won = Vec::new();
        for number in 0..WRITES_EACH {
            won.push(append_one(trial, writer, number, won.last().copied()).await?);
        }
        Ok(won)
    };
    let ends = together(WRITERS, (0..WRITERS).map(append_all)).await;
    let ends = ends.into_iter().collect::<Result<Vec<Vec<u64>>, Broken>>()?;
    let content = flat(&trial.read(&trial.key("log")).await?.payload);
    let wanted = WRITERS * WRITES_EACH * RECORD;
    for (writer, ends) in ends.iter().enumerate() {
        for (number, &end) in ends.iter().enumerate() {
            let found = (end as usize).checked_sub(RECORD).and_then(|start| content.get(start..end as usize));
            holds(found == Some(record(writer, number).as_bytes()), || {
                format!("a record whose append up to {end} was acknowledged is not there")
            })?;
        }
    }
    holds(content.len() == wanted, || format!("appends of {wanted} bytes made {} bytes", content.len()))
}

/// The size of a record, so that the content shows every offset.
const RECORD: usize = 8;

fn record(writer: usize, number: usize) -> String {
    format!("<{writer:02}.{number:02}>\n")
}

/// Returns the record's end.
async fn append_one<S: ObjectStore>(
    trial: &Trial<'_, S>,
    writer: usize,
    number: usize,
    last_end: Option<u64>,
) -> Result<u64, Broken> {
    let key = trial.key("log");
    let mut offset = last_end.unwrap_or(0);
    for _ in 0..MOST_TRIES {
        let payload = || Payload::from(Bytes::from(record(writer, number)));
        if let Some(appended) = insist(|| trial.handle(writer).append(&key, payload(), offset)).await? {
            let end = appended.end;
            holds(end == offset + RECORD as u64, || format!("an append of {RECORD} bytes at {offset} ended at {end}"))?;
            return Ok(end);
        }
        offset = done("a head", trial.handle(writer).head(&key).await)?.size.as_bytes();
    }
    Err(Broken(format!("an append at the end just seen was lost {MOST_TRIES} times in a row")))
}
