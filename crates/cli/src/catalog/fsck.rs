//! `glidepath catalog fsck`: is the catalog whole, and if not, what is lost and what is to be done?

use clap::Args;
use glidepath_model::Span;
use glidepath_protocols::manifest_chain::{Checked, Finding, Grace, Severity, Trouble};
use serde_json::{Value, json};

use super::Common;
use super::place::{Site, code};
use super::vacuum;
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Look at every object of the catalog, and explain what is damaged; changes nothing without --mend
///
/// --mend does only what is proven to be right: it writes the hint anew, and, where nothing is damaged, deletes packs and
/// objects of old versions that no kept version needs. Exit code 8: something is damaged or could not be read.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Mend what can be proven
    #[arg(long)]
    mend: bool,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let site = Site::of(&self.common.store)?;
        let checked = site.read(site.chain("fsck")?.fsck())?;
        let mended = if self.mend { mend(&site, &checked)? } else { Vec::new() };
        match self.common.json {
            true => print_json(&as_json(&checked, &mended))?,
            false => print(&as_text(&checked, &mended, self.mend))?,
        }
        if checked.is_damaged() {
            return Err(Failure::Coded(code::DAMAGE, "the catalog is damaged, or could not all be read".to_owned()));
        }
        Ok(())
    }
}

/// Mends what is proven, and says what was done.
fn mend(site: &Site, checked: &Checked) -> Result<Vec<String>, Failure> {
    let mut done = Vec::new();
    // Writing over what may be damaged, or deleting beside it, could make it worse.
    if checked.is_damaged() {
        return Ok(done);
    }
    let has = |wanted: fn(&Trouble) -> bool| checked.findings.iter().any(|finding| wanted(&finding.trouble));
    if has(|trouble| matches!(trouble, Trouble::HintDamaged | Trouble::HintBehind(_))) {
        let version = site.read(site.chain("fsck")?.mend_hint())?;
        done.push(format!("the hint says {version} now"));
    }
    if has(|trouble| matches!(trouble, Trouble::Unused)) {
        // Makes no version old, and deletes what is of none of the kept ones.
        let grace = Grace { versions: u64::MAX, age: Span::from_nanos(u64::MAX) };
        let swept = site.wait(site.chain("fsck")?.vacuum(grace)).map_err(|error| vacuum::failed(&error))?;
        done.push(format!("deleted {} objects of old versions and {} packs", swept.versions, swept.packs));
    }
    Ok(done)
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        Severity::Damage => "damage",
        Severity::Unread => "unread",
        Severity::Garbage => "garbage",
        Severity::Note => "note",
    }
}

fn as_json(checked: &Checked, mended: &[String]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "severity": severity(finding),
            "trouble": finding.word(),
            "object": finding.object.as_str(),
            "version": finding.version.map(|version| version.0),
            "found": finding.to_string(),
            "advice": finding.advice(),
        })
    };
    json!({
        "damaged": checked.is_damaged(),
        "newest_version": checked.newest.0,
        "oldest_kept_version": checked.oldest.0,
        "newest_whole_version": checked.whole.map(|version| version.0),
        "versions_checked": checked.versions,
        "pages_checked": checked.pages,
        "entries": checked.entries,
        "older_objects_needed": checked.older_objects,
        "findings": checked.findings.iter().map(finding).collect::<Vec<_>>(),
        "more_findings": checked.more_findings,
        "mended": mended,
    })
}

fn as_text(checked: &Checked, mended: &[String], mend: bool) -> String {
    let mut lines = Vec::new();
    for finding in &checked.findings {
        let version = finding.version.map(|version| format!(" ({version})")).unwrap_or_default();
        lines.push(format!("{}: {}{version}", severity(finding), finding.object));
        lines.push(format!("    {finding}"));
        lines.push(format!("    -> {}", finding.advice()));
    }
    if checked.more_findings > 0 {
        lines.push(format!("and {} more", checked.more_findings));
    }
    lines.push(format!(
        "looked at {} versions ({} to {}), {} pages, {} entries, {} older objects that they need",
        checked.versions, checked.oldest.0, checked.newest.0, checked.pages, checked.entries, checked.older_objects
    ));
    lines.extend(mended.iter().map(|done| format!("mended: {done}")));
    lines.push(match (checked.is_damaged(), checked.whole) {
        // What was acknowledged last is named by nothing else until the next hint, pack or version.
        (false, _) => format!(
            "the catalog is whole up to version {} (fsck cannot tell whether a newer one was lost that nothing names)",
            checked.newest.0
        ),
        (true, Some(whole)) if whole < checked.newest => format!(
            "the newest version that can be read whole is {}: `glidepath catalog list STORE --recursive --version {}` shows it",
            whole.0, whole.0
        ),
        (true, Some(_)) => "all entries of the newest version can be read".to_owned(),
        (true, None) => "there is no version that can be read whole".to_owned(),
    });
    if mend && checked.is_damaged() {
        lines.push("nothing was mended: where something is damaged, nothing is written or deleted".to_owned());
    }
    lines.join("\n")
}
