//! Maintenance of a chain, behind the interface for all catalogs.

use glidepath_env::{Cause, Env};
use glidepath_model::Span;

use super::fsck::{Checked, Finding, Trouble};
use super::vacuum::{Grace, VacuumError};
use super::{ManifestChain, Snapshot};
use crate::catalog::{Catalog, LoadError};
use crate::upkeep::{self, Count, Facts, Keep, Removed, Report};

pub(super) fn facts(at: &Snapshot) -> Facts {
    Facts {
        commit: at.commit(),
        written_ms: Some(at.written_ms()),
        oldest_kept: Some(at.oldest_kept()),
        entries: Some(at.entries()),
        layout: Some(at.layout()),
        indexed: Some(at.indexed()),
    }
}

pub(super) async fn vacuum<E: Env>(chain: &ManifestChain<E>, keep: Keep) -> Result<Removed, upkeep::VacuumError> {
    let before = chain.load().await?.oldest_kept();
    let grace = Grace { versions: keep.versions, age: keep.age.unwrap_or(Grace::SHORTEST) };
    let swept = chain.vacuum(grace).await.map_err(|error| match error {
        VacuumError::TooShort(_) => upkeep::VacuumError::Mistake(error.to_string()),
        VacuumError::Clocks(_) | VacuumError::Undated(_) | VacuumError::Damaged(_) => {
            upkeep::VacuumError::Unproven(error.to_string())
        }
        VacuumError::Load(load) => upkeep::VacuumError::Load(load),
        error => upkeep::VacuumError::Stopped(Cause::from_error(error)),
    })?;
    let deleted = vec![
        Count::of("versions", ["object of an old version", "objects of old versions"], swept.versions),
        Count::of("packs", ["pack", "packs"], swept.packs),
    ];
    Ok(Removed {
        before,
        oldest: swept.oldest,
        newest: swept.newest,
        deleted,
        emptied: Vec::new(),
        retired: Vec::new(),
        kept: swept.kept,
    })
}

pub(super) async fn fsck<E: Env>(chain: &ManifestChain<E>, mend: bool) -> Result<Report, LoadError> {
    let checked = match chain.fsck().await {
        Ok(checked) => checked,
        // There is no version; hint and packs show whether there ever was one.
        Err(LoadError::NotFound) => return lost(chain).await,
        Err(error) => return Err(error),
    };
    // Overwriting damaged objects, or deleting others, could increase the damage.
    let mended = if mend && !checked.is_damaged() { mended(chain, &checked).await? } else { Vec::new() };
    let looked_at = vec![
        Count::of("versions", ["version", "versions"], checked.versions),
        Count::of("pages", ["page", "pages"], checked.pages),
        Count::of_entries(checked.entries),
        Count::of(
            "older_objects",
            ["older object that they need", "older objects that they need"],
            checked.older_objects,
        ),
    ];
    Ok(Report {
        unversioned: false,
        findings: checked.findings.iter().map(told).collect(),
        more_findings: checked.more_findings,
        newest: checked.newest,
        oldest: checked.oldest,
        whole: checked.whole,
        looked_at,
        mended,
    })
}

/// A chain without any version left.
async fn lost<E: Env>(chain: &ManifestChain<E>) -> Result<Report, LoadError> {
    match chain.load().await {
        Err(LoadError::Undecodable(cause)) => {
            let finding = upkeep::Finding {
                severity: upkeep::Severity::Damage,
                trouble: "versions-lost",
                object: chain.shared_state.keys.versions(),
                version: None,
                found: cause.to_string(),
                advice: "restore the versions from a backup or from older ones that the store kept".to_owned(),
            };
            Ok(Report { findings: vec![finding], ..Report::default() })
        }
        Err(error) => Err(error),
        Ok(_) => Err(LoadError::NotFound),
    }
}

fn told(finding: &Finding) -> upkeep::Finding {
    upkeep::Finding {
        severity: finding.severity(),
        trouble: finding.word(),
        object: finding.object.clone(),
        version: finding.version,
        found: finding.to_string(),
        advice: finding.advice().to_owned(),
    }
}

/// Repairs what is proven, and says what was done.
async fn mended<E: Env>(chain: &ManifestChain<E>, checked: &Checked) -> Result<Vec<String>, LoadError> {
    let mut done = Vec::new();
    let has = |wanted: fn(&Trouble) -> bool| checked.findings.iter().any(|finding| wanted(&finding.trouble));
    if has(|trouble| matches!(trouble, Trouble::HintDamaged | Trouble::HintBehind(_))) {
        let version = chain.mend_hint().await?;
        done.push(format!("the hint says {version} now"));
    }
    if has(|trouble| matches!(trouble, Trouble::Unused)) {
        // Makes no version old, and deletes objects that no kept version needs.
        let grace = Grace { versions: u64::MAX, age: Span::from_nanos(u64::MAX) };
        let swept = chain.vacuum(grace).await.map_err(|error| match error {
            VacuumError::Load(load) => load,
            error => LoadError::Failed(Cause::from_error(error)),
        })?;
        done.push(format!("deleted {} objects of old versions and {} packs", swept.versions, swept.packs));
    }
    Ok(done)
}
