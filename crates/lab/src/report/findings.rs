//! What is the answer, in a few sentences and one table?

use maud::{Markup, html};

use crate::pictures::{Axis, Cell, Knee, Slice, View, Who, grid_knee, percent, rounded_percent, seconds, significant};

/// A table of more rows is folded.
const MOST_ROWS: usize = 24;

/// Smaller shares give no warning.
const MANY_NOT_ENDED: f64 = 0.05;

/// The section of findings.
pub(super) fn section(view: &View<'_>) -> Markup {
    let sentences = match view.load() {
        Some(_) => of_knees(view),
        None => of_points(view),
    };
    html! {
        section #findings {
            h2 { "Findings" }
            ul.findings {
                @for sentence in sentences.into_iter().chain(not_ended(view)).chain(bursts(view)).chain(unsettled(view)) { li { (sentence) } }
            }
            @if view.load().is_some() { (knee_table(view)) }
        }
    }
}

/// The sentence about runs that had not settled.
fn unsettled(view: &View<'_>) -> Option<String> {
    let (count, all) = (view.cells().filter(|cell| cell.summary.unsettled).count(), view.cells().count());
    (count > 0).then(|| super::unsettled((all > 1).then_some((count, all))))
}

/// The slices with a knee: one per combination of all axes but the load.
fn slices(view: &View<'_>) -> Vec<Slice> {
    view.slices(&view.axes_without(view.load().as_slice()))
}

fn of_knees(view: &View<'_>) -> Vec<String> {
    let slices = slices(view);
    let knees: Vec<(&Slice, Knee<'_, '_>)> =
        slices.iter().filter_map(|slice| Some((slice, grid_knee(view, slice)?))).collect();
    let throughput = |knee: &Knee<'_, '_>| knee.cell.throughput_per_s();
    let by_throughput =
        |a: &&(&Slice, Knee<'_, '_>), b: &&(&Slice, Knee<'_, '_>)| throughput(&a.1).total_cmp(&throughput(&b.1));
    let mut sentences = Vec::new();
    // Of equal ones the first.
    let best = knees.iter().rev().max_by(by_throughput);
    let Some((slice, best)) = best else {
        sentences.push("No load is sustained: at each of them, 95 % or fewer succeed.".to_owned());
        return sentences;
    };
    let at = |slice: &Slice| Some(slice.words(view)).filter(|words| !words.is_empty());
    let sign = if best.is_the_highest_load { "At least " } else { "" };
    let rate = significant(throughput(best));
    sentences.push(match at(slice) {
        None => format!("{sign}{rate} commits per second are sustained: more than 95 % succeed."),
        Some(words) => format!(
            "The highest sustained rate, with more than 95 % success, is {}{rate} commits per second ({words}).",
            sign.to_lowercase()
        ),
    });
    if let Some((slice, least)) = knees.iter().min_by(by_throughput).filter(|_| knees.len() > 1)
        && let Some(words) = at(slice)
    {
        sentences.push(format!("The lowest sustained rate is {} ({words}).", significant(throughput(least))));
    }
    let (all, none) = (slices.len(), slices.len() - knees.len());
    if none > 0 {
        sentences.push(format!("In {none} of {all} combinations no load is sustained."));
    }
    let open = knees.iter().filter(|(_, knee)| knee.is_the_highest_load).count();
    if open > 0 {
        let even = "even the highest load is sustained: the true knee is higher";
        sentences.push(match all {
            1 => format!("Of the loads simulated, {even}."),
            _ => format!("In {open} of {all} combinations {even}."),
        });
    }
    sentences
}

/// If no load is swept: the range of the results.
fn of_points(view: &View<'_>) -> Vec<String> {
    let range = |of: &dyn Fn(&Cell<'_>) -> Option<f64>, written: &dyn Fn(f64) -> String| {
        let values = view.cells().filter_map(of);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        (low <= high).then(|| {
            let (low, high) = (written(low), written(high));
            if low == high { low } else { format!("{low} to {high}") }
        })
    };
    let offered = range(&|cell| Some(cell.summary.all.arrived_per_s.mean), &significant);
    let throughput = range(&|cell| Some(cell.throughput_per_s()), &significant);
    let success = range(&|cell| Some(cell.summary.deciding_success?.mean), &percent);
    let latency = range(&|cell| Some(cell.summary.all.latency_mean_s?.mean), &seconds);
    let mut sentences = Vec::new();
    if let (Some(offered), Some(throughput)) = (offered, throughput) {
        let lands = view.cells().any(|cell| cell.config.run_on > glidepath_model::Span::ZERO);
        sentences.push(if lands {
            format!("In the window, {offered} transactions arrive per second, and {throughput} commits land.")
        } else {
            format!("Of {offered} transactions that arrive per second in the window, {throughput} commit.")
        });
    }
    sentences.push(match success {
        Some(success) => {
            format!("Of the deciding transactions (validated overwrites, if there are any), {success} % succeed.")
        }
        None => "No transaction ended.".to_owned(),
    });
    sentences.push(match latency {
        Some(latency) => format!("The mean commit latency is {latency}."),
        None => "Nothing was committed in the window.".to_owned(),
    });
    sentences
}

/// The success of transactions that arrive in a burst.
fn bursts(view: &View<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    let shares = || view.cells().filter_map(|cell| Some(cell.summary.all.burst_success?.mean));
    let (low, high) =
        shares().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), share| (low.min(share), high.max(share)));
    if low <= high {
        let range =
            if percent(low) == percent(high) { percent(low) } else { format!("{} to {}", percent(low), percent(high)) };
        sentences.push(format!("Of the transactions that arrive in bursts, {range} % succeed."));
    }
    sentences
}

fn not_ended(view: &View<'_>) -> Option<String> {
    let shares = || view.cells().filter_map(|cell| Some(cell.summary.all.not_ended?.mean));
    let (low, high) = shares().fold((f64::INFINITY, 0.0_f64), |(low, high), share| (low.min(share), high.max(share)));
    let range = match (rounded_percent(low), rounded_percent(high)) {
        _ if shares().next().is_none() => return None,
        (low, high) if low == high => format!("{low} %"),
        (low, high) => format!("{low} % to {high} %"),
    };
    let warning = if high > MANY_NOT_ENDED { " Success and latency leave them out." } else { "" };
    Some(format!("{range} of the transactions that arrived in the window had not ended when the run did.{warning}"))
}

fn knee_table(view: &View<'_>) -> Markup {
    let axes = view.axes_without(view.load().as_slice());
    let kinds = View::kinds(view.cells());
    let slices = slices(view);
    // It decides where there are any.
    let success = match kinds.contains(&Who::ValidatedOverwrite) {
        true => "Success of validated overwrites (%)",
        false => "Success (%)",
    };
    let table = html! {
        div.scroll tabindex="0" {
            table.sortable {
                caption { "Usable throughput: the highest of the loads simulated at which more than 95 % succeed." }
                thead { tr {
                    @for &axis in &axes { th scope="col" { (view.axes[axis].label()) } }
                    th scope="col" { "Usable (commits/s)" }
                    @if let Some(load) = view.load() { th scope="col" { (view.axes[load].label()) } }
                    th scope="col" { (success) }
                    @for who in &kinds { th scope="col" { "Mean latency of " (who.noun()) } }
                    th scope="col" { "Not ended (%)" }
                } }
                tbody { @for slice in &slices { (knee_row(view, &axes, &kinds, slice)) } }
            }
        }
    };
    if slices.len() <= MOST_ROWS {
        return table;
    }
    html! { details { summary { "Usable throughput of all " (slices.len()) " combinations" } (table) } }
}

fn knee_row(view: &View<'_>, axes: &[usize], kinds: &[Who], slice: &Slice) -> Markup {
    let knee = grid_knee(view, slice);
    let value = |axis: usize| super::table::coordinate(&view.axes[axis], slice.value(axis));
    html! {
        tr {
            @for &axis in axes { (value(axis)) }
            @match &knee {
                None => { td data-sort="-1" colspan=(3 + kinds.len() + 1) { "no load is sustained" } }
                Some(knee) => { (knee_cells(view, kinds, knee)) }
            }
        }
    }
}

fn knee_cells(view: &View<'_>, kinds: &[Who], knee: &Knee<'_, '_>) -> Markup {
    let cell = knee.cell;
    let sign = if knee.is_the_highest_load { "\u{2265} " } else { "" };
    let latency = |who: &Who| cell.of(*who).and_then(|group| group.latency_mean_s).map(|latency| latency.mean);
    let load = view.load().map(|axis| -> (&Axis, usize) { (&view.axes[axis], cell.place[axis]) });
    html! {
        td data-sort=(cell.throughput_per_s()) { (sign) (significant(cell.throughput_per_s())) }
        @if let Some((axis, value)) = load { (super::table::coordinate(axis, value)) }
        td { @if let Some(success) = cell.summary.deciding_success { (percent(success.mean)) } }
        @for who in kinds {
            @match latency(who) {
                Some(latency) => { td data-sort=(latency) { (seconds(latency)) } }
                None => { td { "\u{2013}" } }
            }
        }
        td { @if let Some(share) = cell.summary.all.not_ended { (rounded_percent(share.mean)) } }
    }
}
