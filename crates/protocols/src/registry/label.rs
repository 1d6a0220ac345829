//! The label: the object that names a catalog's protocol. It is written once, before the catalog is created, and never
//! changes.

use bytes::Bytes;
use glidepath_env::{Cause, Env, Guard, Key, ObjectStore, Payload, PutError, ReadError};

use super::check::NO_LABEL;
use super::{AnySnapshot, Protocol};
use crate::catalog::{LoadError, Outcome};
use crate::mutant::{self, Mutant};
use crate::settling::{self, Doubt};
use crate::upkeep::{Finding, Severity};

pub(super) fn key(prefix: &str) -> Key {
    Key::new(&format!("{prefix}protocol"))
}

/// The protocol that the label names; `None` if there is no label.
pub(super) async fn read<E: Env>(store: &E::Objects, prefix: &str) -> Result<Option<Protocol>, LoadError> {
    match store.get(&key(prefix)).await {
        Ok(object) => {
            let text = std::str::from_utf8(&object.payload.bytes).ok();
            let name = text.and_then(|text| text.strip_suffix('\n'));
            let known = name.and_then(Protocol::named);
            known.map(Some).ok_or_else(|| {
                let found = name.map_or_else(|| "no name".to_owned(), |name| format!("{name:?}"));
                let words =
                    format!("the object `protocol` says {found}, which is not a protocol that this version knows");
                LoadError::Undecodable(Cause::words(words))
            })
        }
        Err(ReadError::NotFound) => Ok(None),
        Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
    }
}

/// The finding that a catalog has no label.
pub(super) fn missing(prefix: &str) -> Finding {
    Finding {
        severity: Severity::Note,
        trouble: NO_LABEL,
        object: key(prefix),
        version: None,
        found: "it is missing, so each command looks for the catalog's objects to learn its protocol".to_owned(),
        advice: "--mend puts it back".to_owned(),
    }
}

/// Puts the label if absent. `None` if it now names this protocol, whoever wrote it: it can no longer name another one.
pub(super) async fn put<E: Env>(
    env: &E,
    store: &E::Objects,
    prefix: &str,
    protocol: Protocol,
) -> Option<Outcome<AnySnapshot>> {
    let body = || Payload::from(Bytes::from(format!("{}\n", protocol.name())));
    let mut doubt = Doubt::default();
    for round in 0..settling::ROUNDS {
        let guard = if mutant::is(Mutant::LabelOverwritten) { Guard::None } else { Guard::Absent };
        match store.put(&key(prefix), body(), guard).await {
            Ok(_) => return None,
            Err(PutError::Lost) if mutant::is(Mutant::LabelLostIsOurs) => return None,
            Err(PutError::Unknown(_)) if mutant::is(Mutant::LabelUnknownIsOurs) => return None,
            Err(PutError::Lost) => {}
            Err(error) => {
                if let Some(denial) = doubt.record(error, store.capabilities().delivers_once) {
                    return Some(Outcome::Refused(denial));
                }
            }
        }
        match read::<E>(store, prefix).await {
            Ok(Some(found)) => return (found != protocol).then_some(Outcome::Conflict(None)),
            Ok(None) => {}
            Err(LoadError::Failed(cause)) => doubt.note(cause),
            Err(error) => return Some(Outcome::not_read(error)),
        }
        if doubt.hopeless() {
            break;
        }
        settling::wait_after(env, round).await;
    }
    Some(Outcome::Unknown(doubt.cause()))
}
