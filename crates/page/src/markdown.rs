//! How does a report look as text?

use std::fmt::Write as _;

use crate::{ReportPage, Section, Table};

impl ReportPage {
    /// Findings, tables and files.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n\n", self.title, self.facts);
        for finding in &self.findings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {finding}");
        }
        for section in &self.sections {
            match section {
                Section::Table(table) if !table.rows.is_empty() => {
                    text.push('\n');
                    text.push_str(&table.markdown());
                }
                Section::File { title, note, text: file } => {
                    let _ = write!(text, "\n## {title}\n\n{note}\n\n```\n{}\n```\n", file.trim_end());
                }
                Section::Table(_) | Section::Pictures(_) | Section::Gallery { .. } => {}
            }
        }
        text
    }
}

impl Table {
    /// With its headline.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.note);
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        text.push_str(&line(&mut self.head.iter().map(|name| (*name).to_owned())));
        text.push_str(&line(&mut self.head.iter().map(|_| "---".to_owned())));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().cloned()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_left_out() {
        let table = |rows: Vec<Vec<String>>| Table { title: "T", note: "N", head: vec!["a|b"], rows };
        let full = table(vec![vec!["1".to_owned()]]);
        let gallery = Section::Gallery { title: "G", note: "", pictures: Vec::new() };
        let page = ReportPage {
            title: "<Title>".to_owned(),
            sections: vec![Section::Table(table(Vec::new())), Section::Table(full), gallery],
            ..ReportPage::default()
        };
        assert_eq!(page.markdown().matches("## T").count(), 1);
        assert!(page.markdown().contains("| a\\|b |\n| --- |\n| 1 |\n"));
        let html = page.html();
        assert_eq!(html.matches("<h2>T</h2>").count(), 1);
        assert!(html.contains("&lt;Title&gt;") && !html.contains("<h2>G</h2>"));
    }
}
