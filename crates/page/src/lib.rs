//! How does a report look, as a page and as text?
//!
//! A [`ReportPage`] is plain data. [`ReportPage::html`] makes one file of it, which works offline.
//! [`ReportPage::markdown`] has the same findings and tables, without the charts, for readers in a terminal or an
//! editor. [`document`] wraps every HTML report, also those with sections of their own kind.

mod document;
mod markdown;

use glidepath_picture::{Chart, PictureError};
use maud::{Markup, PreEscaped, html};

pub use document::document;

/// A report.
#[derive(Clone, Debug, Default)]
pub struct ReportPage {
    /// Its headline.
    pub title: String,
    /// Where, when and how: one paragraph.
    pub facts: String,
    /// The findings, a sentence or two each.
    pub findings: Vec<String>,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A section of a report.
#[derive(Clone, Debug)]
pub enum Section {
    /// Charts below one another.
    Pictures(Vec<Picture>),
    /// Charts side by side, if there is room, under their own headline.
    Gallery {
        /// The headline.
        title: &'static str,
        /// How to read them.
        note: &'static str,
        /// The charts; without any, the headline is left out too.
        pictures: Vec<Picture>,
    },
    /// The table; left out if it has no rows.
    Table(Table),
    /// A file, as it is.
    File {
        /// Its headline.
        title: &'static str,
        /// What it is: a paragraph.
        note: String,
        /// Its lines.
        text: String,
    },
}

/// A drawn chart with its caption.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The text below it.
    pub caption: String,
    /// The drawing, with its own title.
    pub svg: String,
}

impl Picture {
    /// Draws a chart.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub fn of(caption: impl Into<String>, chart: &Chart) -> Result<Self, PictureError> {
        Ok(Self { caption: caption.into(), svg: chart.svg()? })
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its headline.
    pub title: &'static str,
    /// How to read it: a paragraph.
    pub note: &'static str,
    /// Names of the columns, with units.
    pub head: Vec<&'static str>,
    /// Each row has as many cells as the head.
    pub rows: Vec<Vec<String>>,
}

impl ReportPage {
    /// The page as one self-contained HTML file.
    #[must_use]
    pub fn html(&self) -> String {
        let body = html! {
            header {
                h1 { (self.title) }
                p.facts { (self.facts) }
            }
            main {
                h2 { "Findings" }
                ul.findings { @for finding in &self.findings { li { (finding) } } }
                @for one in &self.sections { (section(one)) }
            }
        };
        document(&self.title, &body)
    }
}

fn section(section: &Section) -> Markup {
    match section {
        Section::Pictures(pictures) => figures(pictures),
        Section::Gallery { pictures, .. } if pictures.is_empty() => html! {},
        Section::Gallery { title, note, pictures } => html! {
            h2 { (title) }
            p { (note) }
            div.pictures { (figures(pictures)) }
        },
        Section::Table(table) if table.rows.is_empty() => html! {},
        Section::Table(table) => html! {
            h2 { (table.title) }
            p { (table.note) }
            div.scroll tabindex="0" { table {
                thead { tr { @for (column, name) in table.head.iter().enumerate() { th.name[column == 0] { (name) } } } }
                tbody { @for row in &table.rows { tr { @for (column, cell) in row.iter().enumerate() {
                    td.name[column == 0].long[cell.len() > LONG] { (cell) }
                } } } }
            } }
        },
        Section::File { title, note, text } => html! {
            h2 { (title) }
            p { (note) }
            pre { code { (text) } }
        },
    }
}

/// Cells with more characters may be broken into lines.
const LONG: usize = 40;

fn figures(pictures: &[Picture]) -> Markup {
    html! {
        @for Picture { caption, svg } in pictures {
            figure { div.picture { (PreEscaped(svg)) } figcaption { (caption) } }
        }
    }
}

/// A number with three significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "-".to_owned() };
    }
    let places = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.places$}")
}

/// A number with its sign and these decimal places; what rounds to zero has no sign.
#[must_use]
pub fn signed(value: f64, places: usize) -> String {
    let text = format!("{value:+.places$}");
    let is_zero = !text.contains(|digit: char| ('1'..='9').contains(&digit)) && value.is_finite();
    if is_zero { text[1..].to_owned() } else { text }
}

/// For example "1 writer" and "2 writers".
#[must_use]
pub fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        let told = [(-0.4, 0), (0.4, 0), (0.0, 1), (-0.04, 1), (-0.05, 1), (12.0, 0), (-3.26, 1)];
        let told = told.map(|(value, places)| signed(value, places));
        assert_eq!(told, ["0", "0", "0.0", "0.0", "-0.1", "+12", "-3.3"]);
    }
}
