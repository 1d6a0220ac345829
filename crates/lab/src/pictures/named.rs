//! How is usable throughput drawn where only names are swept, such as protocols or stores? A bar for each.

use glidepath_picture::{Chart, NamedBar, NamedBars};

use super::usable::Drawing;
use super::view::Slice;
use super::words::{axis_noun, short, slug};
use super::{Picture, Section, note};

/// The pictures: bars over the most interesting axis, a picture for each combination of the others. None if an axis has
/// numbers, or nothing is swept.
pub(super) fn pictures<T>(drawing: &Drawing<'_, T>) -> Vec<Picture> {
    let view = drawing.view;
    let axes = view.axes_without(drawing.load.as_slice());
    let Some((&over, rest)) = axes.split_first() else { return Vec::new() };
    if axes.iter().any(|&axis| view.axes[axis].is_numeric()) {
        return Vec::new();
    }
    view.slices(rest).iter().filter_map(|slice| picture(drawing, slice, over)).collect()
}

fn picture<T>(drawing: &Drawing<'_, T>, slice: &Slice, over: usize) -> Option<Picture> {
    let Drawing { view, .. } = drawing;
    let axis = &view.axes[over];
    let bars: Vec<NamedBar> = (0..axis.values.len())
        .filter(|&value| !view.along(&slice.with(over, value), drawing.load).is_empty())
        .map(|value| bar(drawing, slice, (over, value)))
        .collect();
    let drawn = bars.iter().any(|bar| bar.value.is_some());
    drawn.then(|| Picture {
        file_stem: format!("usable-throughput-by-{}{}", slug(&axis.key.replace('.', "-")), slice.stem(view)),
        section: Section::Usable,
        group: slice.group(view),
        caption: drawing.caption.bars.clone(),
        chart: Chart::NamedBars(NamedBars {
            title: format!("Usable throughput by {}", axis_noun(&axis.key)),
            subtitle: note([slice.words(view), (drawing.subtitle)(&view.along(slice, Some(over)))]),
            x_label: "Usable throughput (commits/s)".to_owned(),
            bars,
        }),
    })
}

fn bar<T>(drawing: &Drawing<'_, T>, slice: &Slice, (over, value): (usize, usize)) -> NamedBar {
    let name = drawing.view.axes[over].phrase(value);
    let Some(point) = (drawing.knee)(&slice.with(over, value)) else {
        return NamedBar { name, note: "no load holds".to_owned(), ..NamedBar::default() };
    };
    // Such a point has the note that it may be too low, and nothing else has one.
    let at_least = point.note.is_some();
    let note = point.note.into_iter().chain([short(point.y)]).collect::<Vec<_>>().join(" ");
    NamedBar { name, value: Some(point.y), at_least, interval: point.spread.map(<[f64; 2]>::from), note }
}
