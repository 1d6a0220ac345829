//! How are many pictures arranged?
//!
//! By section. A section of many pictures is divided into groups, and all groups but the first are folded.

use maud::{Markup, PreEscaped, html};

use crate::pictures::{Drawn, Section};

/// A section with more pictures than this is folded.
const MOST_OPEN: usize = 4;

/// The pictures of a report.
pub(super) struct Gallery<'a> {
    /// Pictures of one section are adjacent.
    pictures: Vec<&'a Drawn>,
}

pub(super) fn anchor(section: Section) -> String {
    format!("pictures-{section:?}").to_lowercase()
}

impl<'a> Gallery<'a> {
    pub(super) fn new(pictures: &'a [Drawn]) -> Self {
        let mut pictures: Vec<&Drawn> = pictures.iter().collect();
        pictures.sort_by_key(|drawn| drawn.picture.section);
        Self { pictures }
    }

    fn chunks(&self) -> impl Iterator<Item = &[&'a Drawn]> {
        self.pictures.chunk_by(|a, b| a.picture.section == b.picture.section)
    }

    /// The non-empty sections, each with the number of its pictures.
    pub(super) fn sections(&self) -> impl Iterator<Item = (Section, usize)> {
        self.chunks().filter_map(|chunk| Some((chunk.first()?.picture.section, chunk.len())))
    }

    pub(super) fn markup(&self) -> Markup {
        html! { @for chunk in self.chunks() { (section(chunk)) } }
    }
}

fn section(pictures: &[&Drawn]) -> Markup {
    let Some(Drawn { picture: first, .. }) = pictures.first() else { return html! {} };
    let same = pictures.len() > 1 && pictures.iter().all(|drawn| drawn.picture.caption == first.caption);
    let groups = groups(pictures);
    let folded = pictures.len() > MOST_OPEN && groups.len() > 1;
    let bodies = groups.into_iter().map(|(name, members)| {
        let body = html! { div.gallery { @for drawn in &members { (figure(drawn, !same)) } } };
        (name, members.len(), body)
    });
    html! {
        section id=(anchor(first.section)) {
            h2 { (first.section.title()) }
            @if same { p { (first.caption) } }
            @for (index, (name, count, body)) in bodies.enumerate() {
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
    }
}

/// Pictures by their group, in the order of the first of each.
fn groups<'a>(pictures: &[&'a Drawn]) -> Vec<(&'a str, Vec<&'a Drawn>)> {
    let mut groups: Vec<(&str, Vec<&Drawn>)> = Vec::new();
    for drawn in pictures {
        match groups.iter_mut().find(|(name, _)| *name == drawn.picture.group) {
            Some((_, members)) => members.push(drawn),
            None => groups.push((&drawn.picture.group, vec![drawn])),
        }
    }
    groups
}

fn figure(drawn: &Drawn, captioned: bool) -> Markup {
    let Drawn { picture, svg } = drawn;
    // The SVG has a role and a label, and was escaped when it was drawn.
    html! {
        figure {
            div.picture role="group" tabindex="0" aria-label=(picture.chart.title()) { (PreEscaped(svg)) }
            figcaption {
                @if captioned { (picture.caption) " " }
                span.file { "pictures/" (picture.file_stem) ".svg" }
            }
        }
    }
}
