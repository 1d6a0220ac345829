//! How does a report look, as a page and as text?
//!
//! A [`Page`] is plain data. [`Page::html`] makes one file of it, which works offline. [`Page::markdown`] has the same
//! findings and tables, without the charts, for readers in a terminal or an editor.

mod markdown;

use glidepath_picture::{Chart, PictureError};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// A report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its headline.
    pub title: String,
    /// Where, when and how: one paragraph.
    pub facts: String,
    /// What it comes to, a sentence or two each.
    pub findings: Vec<String>,
    /// What follows, in this order.
    pub sections: Vec<Section>,
}

/// A section of a report.
#[derive(Clone, Debug)]
pub enum Section {
    /// Below one another.
    Pictures(Vec<Picture>),
    /// Side by side, where there is room, under a headline of their own.
    Gallery {
        /// The headline.
        title: &'static str,
        /// How to read them.
        note: &'static str,
        /// Left out, headline and all, where there is none.
        pictures: Vec<Picture>,
    },
    /// Left out where it has no rows.
    Table(Table),
}

/// A chart with its caption.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Below it.
    pub caption: String,
    /// What is drawn.
    pub chart: Chart,
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
    /// As many cells each as the head has.
    pub rows: Vec<Vec<String>>,
}

impl Page {
    /// One file, which needs no other.
    ///
    /// # Errors
    /// A picture cannot be drawn.
    pub fn html(&self) -> Result<String, PictureError> {
        let sections = self.sections.iter().map(section).collect::<Result<Vec<_>, _>>()?;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    h1 { (self.title) }
                    p.facts { (self.facts) }
                    h2 { "Findings" }
                    ul { @for finding in &self.findings { li { (finding) } } }
                    @for section in &sections { (section) }
                }
            }
        };
        Ok(page.into_string())
    }
}

fn section(section: &Section) -> Result<Markup, PictureError> {
    Ok(match section {
        Section::Pictures(pictures) => html! { @for figure in &figures(pictures)? { (figure) } },
        Section::Gallery { pictures, .. } if pictures.is_empty() => html! {},
        Section::Gallery { title, note, pictures } => html! {
            h2 { (title) }
            p { (note) }
            div.pictures { @for figure in &figures(pictures)? { (figure) } }
        },
        Section::Table(table) if table.rows.is_empty() => html! {},
        Section::Table(table) => html! {
            h2 { (table.title) }
            p { (table.note) }
            div.scroll { table {
                thead { tr { @for name in &table.head { th { (name) } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { td.long[cell.len() > LONG] { (cell) } } } } }
            } }
        },
    })
}

/// Cells with more characters are text, which may be broken into lines.
const LONG: usize = 40;

fn figures(pictures: &[Picture]) -> Result<Vec<Markup>, PictureError> {
    let figure = |picture: &Picture| {
        let svg = picture.chart.svg()?;
        Ok(html! { figure { div.picture { (PreEscaped(svg)) } figcaption { (picture.caption) } } })
    };
    pictures.iter().map(figure).collect()
}

/// A number with three digits that count.
#[must_use]
pub fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "-".to_owned() };
    }
    let places = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.places$}")
}

/// As in "1 writer" and "2 writers".
#[must_use]
pub fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
