//! The report as text, for those who read it in a terminal or beside code.

use std::fmt::Write as _;

use super::{Report, Table};

pub(super) fn markdown(report: &Report<'_>) -> String {
    let mut text = format!("# Conditional writes on {}\n\n{}\n\n", report.provenance.store, report.facts());
    for finding in report.findings() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {finding}");
    }
    for table in report.tables() {
        text.push('\n');
        text.push_str(&markdown_table(&table));
    }
    text
}

pub(super) fn markdown_table(table: &Table) -> String {
    let mut text = format!("## {}\n\n{}\n\n", table.title, table.note);
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(&mut table.head.iter().map(|name| (*name).to_owned())));
    text.push_str(&line(&mut table.head.iter().map(|_| "---".to_owned())));
    for row in &table.rows {
        text.push_str(&line(&mut row.iter().cloned()));
    }
    text
}
