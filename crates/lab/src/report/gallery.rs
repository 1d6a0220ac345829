//! How are many pictures shown without drowning the reader?
//!
//! By section. A section of many pictures is grouped by what they have in common, and all groups but the first are folded.

use maud::{Markup, PreEscaped, html};

use super::ReportError;
use crate::pictures::{Picture, Section};

/// A section with more pictures than this is folded.
const MOST_OPEN: usize = 4;

/// The pictures of a report.
pub(super) struct Gallery {
    /// Those of one section next to each other.
    pictures: Vec<Picture>,
}

pub(super) fn anchor(section: Section) -> String {
    format!("pictures-{section:?}").to_lowercase()
}

impl Gallery {
    pub(super) fn new(mut pictures: Vec<Picture>) -> Self {
        pictures.sort_by_key(|picture| picture.section);
        Self { pictures }
    }

    fn chunks(&self) -> impl Iterator<Item = &[Picture]> {
        self.pictures.chunk_by(|a, b| a.section == b.section)
    }

    /// The sections that there are, each with the number of its pictures.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, usize)> {
        self.chunks().filter_map(|chunk| Some((chunk.first()?.section, chunk.len())))
    }

    pub(super) fn markup(&self) -> Result<Markup, ReportError> {
        let sections: Vec<Markup> = self.chunks().map(section).collect::<Result<_, ReportError>>()?;
        Ok(html! { @for section in sections { (section) } })
    }
}

fn section(pictures: &[Picture]) -> Result<Markup, ReportError> {
    let Some(first) = pictures.first() else { return Ok(html! {}) };
    let same = pictures.len() > 1 && pictures.iter().all(|picture| picture.caption == first.caption);
    let groups = groups(pictures);
    let folded = pictures.len() > MOST_OPEN && groups.len() > 1;
    let mut bodies = Vec::new();
    for (name, members) in groups {
        let figures: Vec<Markup> =
            members.iter().map(|picture| figure(picture, !same)).collect::<Result<_, ReportError>>()?;
        bodies.push((name, members.len(), html! { div.gallery { @for figure in figures { (figure) } } }));
    }
    Ok(html! {
        section id=(anchor(first.section)) {
            h2 { (first.section.title()) }
            @if same { p { (first.caption) } }
            @for (index, (name, count, body)) in bodies.into_iter().enumerate() {
                @if folded {
                    details open[index == 0] {
                        summary { (name) " (" (super::counted(count, "picture")) ")" }
                        (body)
                    }
                } @else {
                    (body)
                }
            }
        }
    })
}

/// Pictures by their group, in the order of the first of each.
fn groups(pictures: &[Picture]) -> Vec<(&str, Vec<&Picture>)> {
    let mut groups: Vec<(&str, Vec<&Picture>)> = Vec::new();
    for picture in pictures {
        match groups.iter_mut().find(|(name, _)| *name == picture.group) {
            Some((_, members)) => members.push(picture),
            None => groups.push((&picture.group, vec![picture])),
        }
    }
    groups
}

fn figure(picture: &Picture, captioned: bool) -> Result<Markup, ReportError> {
    let svg =
        picture.chart.svg().map_err(|source| ReportError::Drawing { file_stem: picture.file_stem.clone(), source })?;
    // The SVG says what it shows (its role and label), and was escaped where it was drawn.
    Ok(html! {
        figure {
            div.picture role="group" tabindex="0" aria-label=(picture.chart.title()) { (PreEscaped(svg)) }
            figcaption {
                @if captioned { (picture.caption) " " }
                span.file { "pictures/" (picture.file_stem) ".svg" }
            }
        }
    })
}
