//! Namespaces and what is in them, as nested lists.

use std::collections::BTreeMap;

use glidepath_service::{Child, ChildKind, Identifier, Level};
use maud::{Markup, html};

use super::text::{link, namespace_path, next_path, object_path, shortened};

/// The most characters of a name in a list.
const MOST_OF_A_NAME: usize = 80;

/// What is in a namespace. `levels` has it by path, and what is in some of its namespaces.
pub(super) fn tree(at: &[String], levels: &BTreeMap<Vec<String>, Level>, first: bool) -> Markup {
    let Some(level) = levels.get(at) else { return html! {} };
    html! {
        @if level.children.is_empty() {
            p.none { @if first { "There is nothing here." } @else { "No further entries." } }
        }
        (list(at, level, levels))
        @if let Some(next) = &level.next { p.more { a href=(next_path(at, next)) rel="next" { "Next page" } } }
        @if !first { p.more { a href=(namespace_path(at)) { "First page" } } }
        @if level.is_cut {
            p.none { "The list ends here: the server looked at the first 5000 entries and shows those that the token may read." }
        }
    }
}

fn list(at: &[String], level: &Level, levels: &BTreeMap<Vec<String>, Level>) -> Markup {
    html! {
        ul.tree {
            @for child in &level.children { li { (entry(at, child, levels)) } }
        }
    }
}

fn entry(at: &[String], child: &Child, levels: &BTreeMap<Vec<String>, Level>) -> Markup {
    let Child { name, kind } = child;
    let path: Vec<String> = at.iter().chain([name]).cloned().collect();
    let identifier = Identifier { namespace: at.to_vec(), name: name.clone() };
    let (words, page) = match kind {
        ChildKind::Namespace => ("namespace", namespace_path(&path)),
        ChildKind::Iceberg => ("Iceberg", object_path(&identifier, "tables")),
        ChildKind::Lance => ("Lance", object_path(&identifier, "tables")),
        ChildKind::View => ("view", object_path(&identifier, "views")),
    };
    let shown = shortened(name, MOST_OF_A_NAME);
    let inner = levels.get(&path);
    html! {
        (link(&page, &shown))
        span class={ "kind " (words.to_lowercase()) } { (words) }
        @if let Some(inner) = inner {
            @if inner.children.is_empty() { span.none { "empty" } }
            (list(&path, inner, levels))
            @if inner.next.is_some() { p.more { a href=(namespace_path(&path)) { "show all in " bdi { (shown) } } } }
        }
    }
}
