//! The check of whatever is below a prefix: the label, and the catalog that it names or, if it cannot be read or is
//! wrong, the one whose objects are there. What cannot be read is a finding, not an error.

use glidepath_env::{Cause, Env, Key};

use super::{AnyCatalog, Protocol, RELABEL, label, remains, traces};
use crate::catalog::LoadError;
use crate::upkeep::{Finding, Report, Severity};

impl<E: Env + Clone> AnyCatalog<E>
where
    E::Objects: Clone,
{
    /// As [`fsck`](Self::fsck) for the catalog below a prefix (empty, or ending in `/`), including its label, which is
    /// put back if it is missing and `mend` is set.
    ///
    /// # Errors
    /// There is neither a label nor an object of a catalog, or only a label; or the store does not list its objects.
    pub async fn fsck_below(env: &E, store: &E::Objects, prefix: &str, mend: bool) -> Result<Report, LoadError> {
        let said = label::read::<E>(store, prefix).await;
        let found = traces::found::<E>(store, prefix).await?;
        let (protocol, finding) = match (said, &found[..]) {
            (Ok(None), []) => return Err(LoadError::NotFound),
            (Ok(None), [(one, _)]) => (Some(*one), Some(label::missing(prefix))),
            (Ok(None), several) => (None, Some(ambiguous(prefix, several))),
            (Ok(Some(said)), [(other, key)]) if *other != said => {
                (Some(*other), Some(wrong(prefix, said, *other, key)))
            }
            (Ok(Some(said)), _) => (Some(said), None),
            (Err(error), [(one, _)]) => (Some(*one), Some(unreadable(prefix, &error))),
            (Err(error), _) => (None, Some(unreadable(prefix, &error))),
        };
        let is_damaged = finding.as_ref().is_some_and(|finding| finding.severity <= Severity::Unread);
        let mut report = match protocol {
            Some(protocol) => {
                let report = protocol.open(env.clone(), store.clone(), prefix).fsck(mend && !is_damaged).await;
                let trace = found.iter().find(|(of, _)| *of == protocol);
                match (report, trace) {
                    (Err(LoadError::NotFound), Some((of, key))) => lost(*of, key),
                    // The store answers: it has just listed objects of this catalog.
                    (Err(error @ LoadError::Failed(_)), Some((_, key))) => unread(key, &error),
                    (report, _) => report?,
                }
            }
            None => Report::default(),
        };
        report.unversioned = protocol.is_some_and(|protocol| !protocol.features().versioned);
        if let (Some(protocol), Some(Finding { trouble: NO_LABEL, .. })) = (protocol, &finding)
            && mend
            && !report.is_damaged()
            && label::put(env, store, prefix, protocol).await.is_none()
        {
            report.mended.push(format!("the object `protocol` says {} again", protocol.name()));
        }
        report.findings.extend(finding);
        report.findings.sort_by_key(|finding| finding.severity);
        Ok(report)
    }
}

/// The word of the finding that a label is missing.
pub(super) const NO_LABEL: &str = "no-label";

fn about(prefix: &str, severity: Severity, trouble: &'static str, found: String, advice: &str) -> Finding {
    Finding { severity, trouble, object: label::key(prefix), version: None, found, advice: advice.to_owned() }
}

fn ambiguous(prefix: &str, several: &[(Protocol, Key)]) -> Finding {
    let of = |(protocol, key): &(Protocol, Key)| format!("{} ({key})", protocol.name());
    let found = format!(
        "it is missing, and there are objects of several protocols: {}",
        several.iter().map(of).collect::<Vec<_>>().join(", ")
    );
    let advice = "restore it from a backup, or move the objects that do not belong here elsewhere";
    about(prefix, Severity::Damage, "ambiguous-label", found, advice)
}

fn wrong(prefix: &str, said: Protocol, of: Protocol, key: &Key) -> Finding {
    let (said, of) = (said.name(), of.name());
    let found = format!("it says {said}, but the objects here are of a catalog of {of} (such as {key})");
    about(prefix, Severity::Damage, "wrong-label", found, RELABEL)
}

fn unreadable(prefix: &str, error: &LoadError) -> Finding {
    match error {
        LoadError::Undecodable(cause) => {
            let advice = format!("if a newer version of Glidepath created this catalog, use that; otherwise {RELABEL}");
            about(prefix, Severity::Damage, "unknown-label", cause.to_string(), &advice)
        }
        error => {
            let advice = format!("try again; if it still fails, {RELABEL}");
            about(prefix, Severity::Unread, "unread", error.to_string(), &advice)
        }
    }
}

/// There are objects of a catalog, and its state could not be read.
fn unread(key: &Key, error: &LoadError) -> Report {
    let finding = Finding {
        severity: Severity::Unread,
        trouble: "unread",
        object: key.clone(),
        version: None,
        found: error.to_string(),
        advice: "try again; if it still fails, restore what is missing from a backup or from older versions that the store kept".to_owned(),
    };
    Report { findings: vec![finding], ..Report::default() }
}

/// There are objects of a catalog, and no catalog.
fn lost(of: Protocol, key: &Key) -> Report {
    let finding = Finding {
        severity: Severity::Damage,
        trouble: "catalog-lost",
        object: key.clone(),
        version: None,
        found: Cause::to_string(&remains(None, of, key)),
        advice: "restore the other objects from a backup or from older versions that the store kept".to_owned(),
    };
    Report { findings: vec![finding], ..Report::default() }
}
