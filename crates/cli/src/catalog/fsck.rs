//! `glidepath catalog fsck`: is the catalog undamaged, and if not, what is lost and what should the user do?

use clap::Args;
use glidepath_model::{Version, visible};
use glidepath_protocols::registry::AnyCatalog;
use glidepath_protocols::upkeep::{Finding, Report, Severity};
use glidepath_stores::LiveEnv;
use serde_json::{Value, json};

use super::Common;
use super::place::Opened;
use crate::failure::{Failure, code, done};
use crate::output::{print, print_json};

/// Check every object of the catalog, and explain what is damaged; changes nothing without --mend
///
/// --mend makes only safe repairs, and only if nothing is damaged: it rewrites the hint, puts back a missing label (the
/// object `protocol`), and deletes packs and objects of old versions that no kept version needs. Exit code 8: something
/// is damaged or could not be read.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Make safe repairs, unless something is damaged
    #[arg(long)]
    mend: bool,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let opened = Opened::existing(&self.common.store)?;
        let env = LiveEnv::new();
        let look = AnyCatalog::fsck_below(&env, &opened.store, "", self.mend);
        let report = opened.wait(look).map_err(|error| opened.told(&error))?;
        let printed = match self.common.json {
            true => print_json(&as_json(&report, !report.unversioned)),
            false => print(&as_text(&report, !report.unversioned, self.mend)),
        };
        if report.is_damaged() {
            let words = "the catalog is damaged, or could not all be read".to_owned();
            return Err(Failure::Coded(code::DAMAGE, words).after(printed));
        }
        if report.mended.is_empty() { printed } else { done(printed) }
    }
}

fn as_json(report: &Report, versioned: bool) -> Value {
    let version = |version: Version| versioned.then_some(version.0);
    let finding = |finding: &Finding| {
        json!({
            "severity": finding.severity.word(),
            "trouble": finding.trouble,
            "object": finding.object.as_str(),
            "version": finding.version.map(|version| version.0),
            "found": finding.found,
            "advice": finding.advice,
        })
    };
    let mut shown = json!({
        "damaged": report.is_damaged(),
        "newest_version": version(report.newest),
        "oldest_kept_version": version(report.oldest),
        "newest_whole_version": report.whole.map(|version| version.0),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "more_findings": report.more_findings,
        "mended": report.mended,
    });
    for count in &report.looked_at {
        shown[format!("{}_checked", count.key)] = json!(count.count);
    }
    shown
}

/// Whether all that is damaged belongs to versions before the newest. A finding such as `hint-ahead` says that versions
/// after the newest may be lost, and one such as `broken-chain` that another program wrote here.
fn only_history(report: &Report) -> bool {
    let old = ["undecodable-version", "other-version", "gap", "missing-object", "damaged-page"];
    let is_old = |finding: &Finding| {
        old.contains(&finding.trouble) && finding.version.is_some_and(|version| version < report.newest)
    };
    let mut damage = report.findings.iter().filter(|finding| finding.severity <= Severity::Unread);
    report.more_findings == 0 && damage.all(is_old)
}

fn as_text(report: &Report, versioned: bool, mend: bool) -> String {
    let mut lines = Vec::new();
    for finding in &report.findings {
        let version = finding.version.map(|version| format!(" ({version})")).unwrap_or_default();
        lines.push(format!("{}: {}{version}", finding.severity.word(), visible(finding.object.as_str())));
        lines.push(format!("    {}", visible(&finding.found)));
        lines.push(format!("    -> {}", finding.advice));
    }
    if report.more_findings > 0 {
        lines.push(format!("and {} more", report.more_findings));
    }
    let range = match versioned {
        true => format!("versions {} to {}", report.oldest.0, report.newest.0),
        false => "the current state".to_owned(),
    };
    let counts: Vec<String> = report.looked_at.iter().map(ToString::to_string).collect();
    lines.push(match counts.is_empty() {
        true => "checked all that could be read".to_owned(),
        false => format!("checked {range}: {}", counts.join(", ")),
    });
    lines.extend(report.mended.iter().map(|done| format!("mended: {done}")));
    lines.push(match (report.is_damaged(), report.whole) {
        // No other object names the last acknowledged version until the next hint, pack or version.
        (false, _) if report.findings.iter().any(|finding| finding.trouble == "undecided") => {
            "what can be read is whole; fsck cannot detect whether a transaction without a record committed (see above)"
                .to_owned()
        }
        (false, _) if !versioned => {
            "the catalog is whole (fsck cannot detect the loss of the newest state of a name, or \
                                     of a transaction, that no other object names)"
                .to_owned()
        }
        (true, _) if !versioned => "what is not named above can be read".to_owned(),
        (false, _) => format!(
            "the catalog is whole up to version {} (fsck cannot detect the loss of a newer version that no object \
             names)",
            report.newest.0
        ),
        (true, Some(whole)) if whole < report.newest => format!(
            "the newest version that can be read whole is {}: `glidepath catalog list STORE --recursive --version {}` \
             shows it; of the newer ones, what is named above is lost",
            whole.0, whole.0
        ),
        (true, Some(_)) if only_history(report) => {
            format!("the newest version, {}, is whole; only history is lost: what is named above", report.newest.0)
        }
        (true, Some(_)) => "all entries of the newest version can be read".to_owned(),
        (true, None) => "there is no version that can be read whole".to_owned(),
    });
    if mend && report.is_damaged() {
        lines.push("nothing was mended: fsck changes nothing in a damaged catalog".to_owned());
    }
    lines.join("\n")
}
