//! Writes a knee as a page with its pictures into a folder.

use std::path::Path;

use glidepath_lab::experiment::Experiment;
use glidepath_lab::knee::{Answer, Assumption, Factor, Varied, WhatIf};
use glidepath_lab::report::experiment_file;
use glidepath_page::{Picture, ReportPage, Section, Table, digits};
use glidepath_picture::{Chart, Swing, SwingEnd, Tornado, png};
use glidepath_point::{MODEL_VERSION, Point};

use super::Found;
use super::limit::bound;
use super::report::{changed_rate, effect, factor, nothing_told, rate, setting, undecided, verdict, with_bound};
use crate::failure::Failure;
use crate::folder::{claim, remove, unwritable, write};
use crate::output::interval;

/// Pixels of the PNG per pixel of the SVG.
const SCALE: f32 = 2.0;

/// The name of the picture of the assumptions, without its ending.
const PICTURE: &str = "sensitivity";

/// Writes `report.html` and `report.md`; and the picture of the assumptions, if these were varied. If they were not,
/// the picture of an earlier answer is removed from the folder, because it would be mistaken for a current one.
pub(super) fn write_all(
    folder: &Path,
    (experiment, point): (&Experiment, &Point),
    found: &Found,
) -> Result<(), Failure> {
    let answer = &found.answer;
    claim(folder, "knee")?;
    let chart = (!answer.sensitivity.is_empty()).then(|| tornado(answer));
    let picture = chart.map(|chart| Picture::of(CAPTION, &chart)).transpose()?;
    let [drawn, pixels] = ["svg", "png"].map(|ending| folder.join(PICTURE).with_extension(ending));
    match &picture {
        Some(Picture { svg, .. }) => {
            std::fs::write(&pixels, png(svg, SCALE)?).map_err(|error| unwritable(&pixels, &error))?;
            write(&drawn, svg)?;
        }
        None => remove(&[&drawn, &pixels])?,
    }
    let mut page = page(&experiment.preset, point, found);
    page.sections.insert(0, Section::Pictures(picture.into_iter().collect()));
    page.sections.push(configuration(experiment, found));
    write(&folder.join("report.md"), &page.markdown())?;
    write(&folder.join("report.html"), &page.html())
}

const CAPTION: &str = "Each assumption was varied alone, by the stated amounts, and the knee was searched again. Thin \
    lines are 95 % intervals of the factor: if one crosses the line at the knee, no difference was seen. An effect that \
    is not known has no bar.";

/// The page without the picture.
fn page(preset: &str, point: &Point, found: &Found) -> ReportPage {
    let answer = &found.answer;
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut findings = vec![one_line(verdict(found, point))];
    findings.extend(super::measured::text(point, found).map(one_line));
    findings
        .extend(answer.bottleneck.as_ref().map(|bottleneck| format!("What limits it: {}.", bound(bottleneck, found))));
    let raises = |what_if: &WhatIf| match what_if.factor {
        Factor::Found { value, interval: Some([low, _]) } if low > 1.0 => {
            Some(format!("Of the changes whose search ended, {} raises it most (x{}).", what_if.change, digits(value)))
        }
        _ => None,
    };
    findings.extend(answer.what_ifs.first().and_then(raises));
    findings.extend(answer.sensitivity.first().filter(|most| most.largest_factor > 1.0).map(|most| {
        let sides = [&most.less, &most.more].into_iter().flatten();
        let sides: Vec<String> =
            sides.map(|varied| format!("{} makes it {}", varied.assumed, effect(varied))).collect();
        format!(
            "The assumption with the largest effect: {} ({} assumed; {}).",
            most.name,
            most.assumed,
            sides.join("; ")
        )
    }));
    findings.extend(undecided(found));
    findings.extend(nothing_told(found));
    let tables = [what_ifs(&answer.what_ifs), assumptions(&answer.sensitivity)];
    ReportPage {
        title: format!("The knee of {}", point.config.provider),
        facts: format!("{}.", setting(preset, point, &found.set)),
        findings,
        sections: tables.map(Section::Table).to_vec(),
    }
}

/// What was searched, so that it can be searched again.
fn configuration(experiment: &Experiment, found: &Found) -> Section {
    let budget = found.budget.as_secs_f64();
    Section::File {
        title: "Configuration",
        note: format!(
            "As an experiment file that states every field, also those of the preset; the search sets the load instead of \
             arrivals.scale. Saved, `glidepath knees FILE` finds a knee of it. Budget {budget} s, model version \
             {MODEL_VERSION}, revision {}.",
            crate::GIT_REVISION
        ),
        text: experiment_file(experiment),
    }
}

fn what_ifs(what_ifs: &[WhatIf]) -> Table {
    let row = |what_if: &WhatIf| {
        let interval = interval(what_if.factor.interval(), factor);
        let factor = with_bound(what_if.factor);
        vec![what_if.change.clone(), factor, interval, changed_rate(what_if), what_if.settings.join("; ")]
    };
    Table {
        title: "What each change would do to the knee",
        note: "Each line is a search of its own: this change, and nothing else. If the interval of the factor contains 1, \
               no difference was seen. A factor with > or < is a bound: a search ended before any load failed.",
        head: vec!["change", "factor", "95 % interval", "commits/s", "settings"],
        rows: what_ifs.iter().map(row).collect(),
    }
}

fn assumptions(assumptions: &[Assumption]) -> Table {
    let row = |assumption: &Assumption| {
        let side = |varied: Option<&Varied>| {
            varied.map_or_else(|| "-".to_owned(), |varied| format!("{}: {}", varied.assumed, effect(varied)))
        };
        let (less, more) = (side(assumption.less.as_ref()), side(assumption.more.as_ref()));
        vec![assumption.name.clone(), assumption.assumed.clone(), less, more]
    };
    Table {
        title: "Which assumption has the largest effect",
        note: "Factors of the knee, with 95 % intervals; the assumption with the largest effect comes first, those \
               with no difference seen come last. The amounts are judgements of how wrong a guess may be, not \
               measurements.",
        head: vec!["assumption", "assumed", "less", "more"],
        rows: assumptions.iter().map(row).collect(),
    }
}

fn tornado(answer: &Answer) -> Chart {
    let end = |varied: &Option<Varied>| {
        let known = varied.as_ref().map(|varied| varied.factor).filter(|factor| !factor.leaves_direction_open())?;
        Some(SwingEnd { value: known.value()?, interval: known.interval() })
    };
    let is = if answer.knee.bound.is_lower() { "is at least" } else { "is" };
    let swing = |assumption: &Assumption| {
        let words = |varied: &Option<Varied>| varied.as_ref().map(|varied| varied.assumed.clone());
        let values = [words(&assumption.less), Some(format!("[{}]", assumption.assumed)), words(&assumption.more)];
        Swing {
            name: assumption.name.clone(),
            note: values.into_iter().flatten().collect::<Vec<_>>().join(" … "),
            ends: [end(&assumption.less), end(&assumption.more)],
        }
    };
    Chart::Tornado(Tornado {
        title: "Which assumption has the largest effect?".to_owned(),
        subtitle: Some(format!(
            "The knee {is} {} commits/s as assumed [in brackets]",
            rate(answer.knee.knee_commits_per_s)
        )),
        x_label: "The knee with another assumption, as a factor".to_owned(),
        start: 1.0,
        sides: ["with the value on the left".to_owned(), "with the value on the right".to_owned()],
        swings: answer.sensitivity.iter().map(swing).collect(),
    })
}

#[cfg(test)]
mod tests {
    use glidepath_lab::knee::Bound;

    use super::*;

    #[test]
    fn a_side_that_cannot_be_varied_has_no_bar() {
        let varied = Varied {
            assumed: "0.9".to_owned(),
            knee_commits_per_s: 2.0,
            bound: Bound::Found,
            factor: Factor::Found { value: 0.5, interval: Some([0.4, 0.6]) },
        };
        let assumption = Assumption {
            name: "share of fast appends".to_owned(),
            assumed: "1".to_owned(),
            less: Some(varied),
            more: None,
            largest_factor: 2.0,
        };
        let table = assumptions(&[assumption]);
        assert_eq!(table.rows, [["share of fast appends", "1", "0.9: x0.50 (0.40 to 0.60)", "-"]]);
    }
}
